//! Limits that bound memory and work at once, as a value: the server uses today's numbers, the simulator draws tiny ones,
//! so that every queue overflows and every page ends within a short run.
//!
//! Invariant: nothing that is stored or promised depends on a knob; two nodes with different knobs read each other's data.
//! Limits that callers see are constants (`limits`).

use crate::limits::{
    BATCH_BYTES_MAX, BATCH_RECORDS_MAX, QUEUE_BYTES_MAX, QUEUE_COMMANDS_MAX, RECORD_BYTES_MAX,
    TAIL_BYTES_MAX, TAIL_FACTS_MAX, TAKE_STRETCH_BYTES_MAX, TAKE_STRETCH_MAX, WORK_MAX, WORK_PER_TENANT_MAX,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knobs {
    /// One record in the journal. Above it an ask is refused; machines cut what they can.
    pub record_bytes: usize,
    /// Asks, and bytes of records, of one batch.
    pub batch_records: usize,
    pub batch_bytes: usize,
    /// What waits for one leader from tenants; other classes have their own share of this size.
    pub queue_items: usize,
    pub queue_bytes: usize,
    /// Facts of a front that stay in memory for its shards.
    pub tail_facts: usize,
    pub tail_bytes: usize,
    /// Facts that a shard takes at once.
    pub take_facts: usize,
    pub take_bytes: usize,
    /// Work that waits in the lanes of one channel, and that of one tenant in one lane.
    pub lane_works: usize,
    pub lane_works_per_tenant: usize,
    /// Rows of work or timers that dispatch reads at once.
    pub dispatch_page: usize,
    /// To-dos that are remembered beside their rows, and those that are done at once.
    pub todos_held: usize,
    pub todos_page: usize,
}

impl Knobs {
    pub const DEFAULT: Self = Self {
        record_bytes: RECORD_BYTES_MAX,
        batch_records: BATCH_RECORDS_MAX,
        batch_bytes: BATCH_BYTES_MAX,
        queue_items: QUEUE_COMMANDS_MAX,
        queue_bytes: QUEUE_BYTES_MAX,
        tail_facts: TAIL_FACTS_MAX,
        tail_bytes: TAIL_BYTES_MAX,
        take_facts: TAKE_STRETCH_MAX,
        take_bytes: TAKE_STRETCH_BYTES_MAX,
        lane_works: WORK_MAX,
        lane_works_per_tenant: WORK_PER_TENANT_MAX,
        dispatch_page: 1_024,
        todos_held: 16_384,
        todos_page: 256,
    };
}

impl Default for Knobs {
    fn default() -> Self {
        Self::DEFAULT
    }
}
