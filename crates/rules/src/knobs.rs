//! Limits that bound memory and work at once, as a value: the server uses today's numbers, the simulator draws tiny ones,
//! so that every queue overflows and every page ends within a short run.
//!
//! Invariant: nothing that is stored or promised depends on a knob; two nodes with different knobs read each other's data.
//! Limits that callers see are constants (`limits`).

use crate::limits::{
    BATCH_BYTES_MAX, BATCH_RECORDS_MAX, PARCEL_USERS_SCANNED_MAX, QUEUE_BYTES_MAX, QUEUE_COMMANDS_MAX,
    RECORD_BYTES_MAX, TAIL_BYTES_MAX, TAIL_FACTS_MAX, TAKE_STRETCH_BYTES_MAX, TAKE_STRETCH_MAX,
    WALK_LOOKED_AT_MAX, WALK_MEMBERS_MAX, WORK_MAX, WORK_PER_TENANT_MAX,
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
    /// Re-evaluations, ends of halted events and erasures that take turns.
    pub replans_at_once: usize,
    pub halts_at_once: usize,
    pub erasures_at_once: usize,
    /// Parcels of an earlier leader that one read finds.
    pub orphans_page: usize,
    /// Records and bytes that a recovery reads at once.
    pub replay_records: usize,
    pub replay_bytes: usize,
    /// A turn of the audit log ends behind the record that brings it over so many entries or bytes.
    pub audit_drafts: usize,
    pub audit_draft_bytes: usize,
    /// Ledgers that a step of the recount reads beside a leader.
    pub recount_rows: usize,
    /// Events under a cancellation key that are called off at once.
    pub cancelled_page: usize,
    /// What one command of a machine looks at.
    pub steps: StepSizes,
}

/// How much one command of a machine looks at, or changes. What is left is asked for again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepSizes {
    /// Users that are read together for a parcel, and that a turn looks at.
    pub parcel_users_read: usize,
    pub parcel_users_scanned: usize,
    /// Members that one wake asks about their channels before.
    pub wake_members: usize,
    /// Ledgers of a user that wants something else, and of an event that is halted.
    pub replan_ledgers: usize,
    pub halt_ledgers: usize,
    /// Windows that are closed, and items that are taken out of one.
    pub closed_windows: usize,
    pub window_items: usize,
    /// Works that a purge looks at: more than an event has channels, or it does not get past one.
    pub purge_works: usize,
    /// Rows and ledgers that a step of the guard sweep reads, and what its record may cost.
    pub sweep_rows: usize,
    pub sweep_ledgers: usize,
    pub sweep_cost: usize,
    /// Pages of events that expire, and rows of flags and follows that are looked at beside them.
    pub expired_pages: usize,
    pub expired_rows: usize,
    /// Pages of throttles, of endpoints and of uploaded lists.
    pub lapsed_pages: usize,
    pub aged_pages: usize,
    pub delisted_pages: usize,
    /// Users that a step of a bulk scan looks at, and takes along.
    pub scan_users: usize,
    pub scan_members: usize,
    /// Scheduled events that are released, outdated rows that are dropped and looked at, and rows of single recipients.
    pub released_events: usize,
    pub forgotten_rows: usize,
    pub forgotten_looked_at: usize,
    pub unsaid_rows: usize,
    /// Rows that a step looks at of a tenant that is deleted.
    pub wiped_rows: usize,
}

impl StepSizes {
    pub const DEFAULT: Self = Self {
        parcel_users_read: 256,
        parcel_users_scanned: PARCEL_USERS_SCANNED_MAX,
        wake_members: 256,
        // About a millisecond.
        replan_ledgers: 64,
        // A few milliseconds if all of their members wait.
        halt_ledgers: 8,
        closed_windows: 32,
        // About a millisecond of apply.
        window_items: 100,
        purge_works: 64,
        sweep_rows: 256,
        sweep_ledgers: 128,
        sweep_cost: 1_000,
        expired_pages: 4,
        expired_rows: 512,
        lapsed_pages: 256,
        aged_pages: 64,
        delisted_pages: 256,
        scan_users: WALK_LOOKED_AT_MAX,
        scan_members: WALK_MEMBERS_MAX,
        // An audience of named users can take tens of kilobytes.
        released_events: 16,
        forgotten_rows: 500,
        forgotten_looked_at: 4_000,
        unsaid_rows: 1_000,
        // A few milliseconds of apply.
        wiped_rows: 1_000,
    };
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
        // One batch of the leader does a step of each.
        replans_at_once: 64,
        // Each step looks at some ledgers with a thousand members.
        halts_at_once: 16,
        // Half of them are the share of a tenant alone; more of them at a time end no earlier.
        erasures_at_once: 8,
        orphans_page: 256,
        replay_records: 512,
        replay_bytes: 8 << 20,
        // A quarter of what an append takes, so that any record fits on top.
        audit_drafts: 4_096,
        audit_draft_bytes: 2 << 20,
        // Less than a millisecond of the leader's time, once a second.
        recount_rows: 64,
        cancelled_page: 256,
        steps: StepSizes::DEFAULT,
    };
}

impl Default for Knobs {
    fn default() -> Self {
        Self::DEFAULT
    }
}
