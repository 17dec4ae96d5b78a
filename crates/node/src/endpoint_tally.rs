//! What became of endpoints, counted for the metrics.
//!
//! Comes from: `machines`, record by record of a batch. Goes to: `meter`, once the batch is durable.

use fantail_machine::records::shard::ShardRecord;
use fantail_rules::endpoint::Status;

/// How many endpoints came to each status, in the order of their numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndpointTally(pub [u64; Status::ALL.len()]);

impl EndpointTally {
    pub fn count(&mut self, record: &ShardRecord) {
        match record {
            ShardRecord::EndpointPut { endpoints, .. } => {
                endpoints.iter().for_each(|put| self.add(put.status));
            }
            ShardRecord::EndpointState { states, .. } => {
                states.iter().for_each(|state| self.add(state.status));
            }
            ShardRecord::UserPut { .. }
            | ShardRecord::UserGone { .. }
            | ShardRecord::Preferred(_)
            | ShardRecord::Consented { .. }
            | ShardRecord::Replanned { .. }
            | ShardRecord::Erasure(_)
            | ShardRecord::Wiped(_)
            | ShardRecord::Edges { .. }
            | ShardRecord::Take { .. }
            | ShardRecord::Given(_)
            | ShardRecord::Marked { .. }
            | ShardRecord::Moved { .. }
            | ShardRecord::Cleared { .. }
            | ShardRecord::Unlisted { .. }
            | ShardRecord::Reported { .. }
            | ShardRecord::Shredded { .. }
            | ShardRecord::Expired { .. }
            | ShardRecord::EndpointGone { .. }
            | ShardRecord::Intend(_)
            | ShardRecord::Wake(_)
            | ShardRecord::Outcome(_)
            | ShardRecord::Receipt(_)
            | ShardRecord::Redrive(_)
            | ShardRecord::Closed { .. }
            | ShardRecord::Halt(_)
            | ShardRecord::Swept(_)
            | ShardRecord::Digest(_)
            | ShardRecord::Told(_)
            | ShardRecord::Walk(_)
            | ShardRecord::Throttle(_)
            | ShardRecord::Untold { .. } => {}
        }
    }

    fn add(&mut self, status: Status) {
        self.0[status as usize - 1] += 1;
    }
}
