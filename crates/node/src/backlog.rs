//! What waits to leave the house, for metrics: how much, for how long, and when it will be done.
//!
//! Comes from: the dispatcher's queues, and the rows of work in the tables. Does: a bounded look; with very many tenants
//! or very much work, ages are those of what was looked at. Goes to: `health`.

use crate::core::Core;
use fantail_machine::tables::work::{self, WorkId};
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Millis, PartitionId};
use fantail_rules::priority::Priority;

/// Rows of one tenant that are looked at, and of one shard in all.
const ROWS_PER_TENANT: usize = 128;
const ROWS_MAX: usize = 4_096;

#[derive(Clone, Debug, Default)]
pub struct Backlog {
    pub channels: Vec<ChannelBacklog>,
    /// How long the oldest work of each lane waits, in milliseconds.
    pub oldest_ms: [u64; Priority::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
pub struct ChannelBacklog {
    pub channel: ChannelKind,
    /// Work that waits, by lane.
    pub works: [u64; Priority::ALL.len()],
    /// When all of it will have been tried, if the speed is known.
    pub drain_ms: Option<u64>,
}

/// What cannot be read now is told next time; metrics alone ask.
pub fn look(core: &Core) -> Backlog {
    let mut oldest: [Option<Millis>; Priority::ALL.len()] = Default::default();
    for shard in core.shards.keys() {
        let found = core.read(PartitionId::Shard(*shard), |view| oldest_work(view.tables()));
        for (known, found) in oldest.iter_mut().zip(found.unwrap_or_default()) {
            *known = [*known, found].into_iter().flatten().min();
        }
    }
    let now = core.ports.clock.wall();
    Backlog {
        channels: core.dispatch.backlog(core.ports.clock.monotonic()),
        oldest_ms: oldest.map(|at| at.map_or(0, |at| now.since(at))),
    }
}

/// When the oldest work of each lane was accepted, or was due. Rows are in order of tenant and arrival.
fn oldest_work(tables: &dyn Tables) -> Result<[Option<Millis>; Priority::ALL.len()], TablesError> {
    let mut oldest: [Option<Millis>; Priority::ALL.len()] = Default::default();
    let (mut after, mut rows) = (None, 0);
    while rows < ROWS_MAX {
        let found = work::all(tables, after, ROWS_PER_TENANT)?;
        let Some((first, _)) = found.first() else { break };
        let tenant = first.tenant;
        rows += found.len();
        for (_, row) in &found {
            let known = &mut oldest[row.terms.lane as usize];
            let at = row.event.millis();
            *known = Some(known.map_or(at, |known| known.min(at)));
        }
        let is_one_tenant = found.last().is_some_and(|(last, _)| last.tenant == tenant);
        after = match found.last() {
            // The tenant's oldest were seen: on to the next one.
            Some(_) if is_one_tenant => Some(WorkId {
                tenant,
                arrival: Arrival(u64::MAX),
                channel: ChannelKind::ALL[ChannelKind::ALL.len() - 1],
            }),
            last => last.map(|(last, _)| *last),
        };
    }
    Ok(oldest)
}
