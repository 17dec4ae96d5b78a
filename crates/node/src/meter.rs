//! What the node counts. Plain atomics, read by `/metrics`; nothing decides on them.

use crate::endpoint_tally::EndpointTally;
use crate::latency::{Latencies, Waited};
use crate::reasons::Stood;
use crate::recurring::ScheduleRun;
use fantail_machine::shard::outcome::{Said, Told};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::Millis;
use fantail_rules::priority::Priority;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct Meter {
    batches: AtomicU64,
    records: AtomicU64,
    record_bytes: AtomicU64,
    decide_worst_micros: AtomicU64,
    too_large: AtomicU64,
    clock_jumps: AtomicU64,
    parcels_abandoned: AtomicU64,
    rows_wiped: AtomicU64,
    imbalance: AtomicU64,
    books_checked: AtomicU64,
    events_accepted: AtomicU64,
    events_repeated: AtomicU64,
    events_taken: AtomicU64,
    inbox_reads: AtomicU64,
    busy: AtomicU64,
    digests: AtomicU64,
    digest_items: AtomicU64,
    /// In the order of [`ScheduleRun::ALL`].
    schedule_runs: [AtomicU64; ScheduleRun::ALL.len()],
    bulk_looked_at: AtomicU64,
    bulk_members: AtomicU64,
    bulk_skipped: AtomicU64,
    audit_entries: AtomicU64,
    audit_micros: AtomicU64,
    /// Milliseconds; 0 if there is none.
    checkpoint_at: AtomicU64,
    answers: [[AtomicU64; ANSWERS]; CHANNELS],
    /// By status, in the order of their numbers.
    endpoints: [AtomicU64; Status::ALL.len()],
    /// Errors of loops that try again, by the name of the task.
    loop_errors: Mutex<BTreeMap<&'static str, u64>>,
    /// Taken once for each batch.
    stood: Mutex<Stood>,
    waited: Latencies,
}

const CHANNELS: usize = ChannelKind::ALL.len();
const ANSWERS: usize = 7;
/// How attempts end, as metrics say it.
pub const ANSWER_NAMES: [&str; ANSWERS] =
    ["accepted", "rejected", "dead_endpoint", "malformed", "not_taken", "unanswered", "orphaned"];

/// One reading of all counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    pub batches: u64,
    pub records: u64,
    pub record_bytes: u64,
    pub decide_worst_micros: u64,
    /// Asks that were refused because their records did not fit into the journal.
    pub too_large: u64,
    pub clock_jumps: u64,
    /// Parcels whose channel never ended.
    pub parcels_abandoned: u64,
    /// Rows of deleted tenants that were removed.
    pub rows_wiped: u64,
    /// Tallies that are not what the ledgers say, and how often those of a shard were recounted.
    pub imbalance: u64,
    pub books_checked: u64,
    pub events_accepted: u64,
    pub events_repeated: u64,
    pub events_taken: u64,
    pub inbox_reads: u64,
    pub busy: u64,
    /// Digests that were written, and what they tell of.
    pub digests: u64,
    pub digest_items: u64,
    /// Runs of schedules, in the order of [`ScheduleRun::ALL`].
    pub schedule_runs: [u64; ScheduleRun::ALL.len()],
    /// Users whom bulk sends looked at, took along, and left out although they were chosen.
    pub bulk_looked_at: u64,
    pub bulk_members: u64,
    pub bulk_skipped: u64,
    /// Entries appended to the audit log.
    pub audit_entries: u64,
    /// Time that deriving them took, with the pauses in which others went first.
    pub audit_micros: u64,
    /// When the newest checkpoint was signed.
    pub checkpoint_at: Option<Millis>,
    /// Attempts that ended, by channel and by how, in the order of [`ANSWER_NAMES`].
    pub answers: [[u64; ANSWERS]; CHANNELS],
    pub endpoints: [u64; Status::ALL.len()],
}

impl Meter {
    pub fn planned(&self, records: u64, bytes: u64) {
        self.batches.fetch_add(1, Relaxed);
        self.records.fetch_add(records, Relaxed);
        self.record_bytes.fetch_add(bytes, Relaxed);
    }

    pub fn too_large(&self) {
        self.too_large.fetch_add(1, Relaxed);
    }

    /// One item was planned and folded in this many microseconds.
    pub fn decided(&self, micros: u64) {
        self.decide_worst_micros.fetch_max(micros, Relaxed);
    }

    pub fn clock_jumped(&self) {
        self.clock_jumps.fetch_add(1, Relaxed);
    }

    pub fn parcel_abandoned(&self) {
        self.parcels_abandoned.fetch_add(1, Relaxed);
    }

    /// A loop failed and tries again.
    pub fn loop_failed(&self, name: &'static str) {
        *self.loop_errors.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
    }

    /// How often each loop failed.
    #[must_use]
    pub fn loop_errors(&self) -> Vec<(&'static str, u64)> {
        let errors = self.loop_errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.iter().map(|(name, count)| (*name, *count)).collect()
    }

    /// Rows of a deleted tenant were removed.
    pub fn wiped(&self, rows: u64) {
        self.rows_wiped.fetch_add(rows, Relaxed);
    }

    /// The books of a shard were recounted; so many tallies of all shards differ.
    pub fn balanced(&self, imbalance: u64) {
        self.imbalance.store(imbalance, Relaxed);
        self.books_checked.fetch_add(1, Relaxed);
    }

    pub fn accepted(&self, fresh: u64, repeated: u64) {
        self.events_accepted.fetch_add(fresh, Relaxed);
        self.events_repeated.fetch_add(repeated, Relaxed);
    }

    pub fn took(&self, events: u64) {
        self.events_taken.fetch_add(events, Relaxed);
    }

    pub fn inbox_read(&self) {
        self.inbox_reads.fetch_add(1, Relaxed);
    }

    pub fn busy(&self) {
        self.busy.fetch_add(1, Relaxed);
    }

    pub fn schedule_ran(&self, run: ScheduleRun) {
        self.schedule_runs[run as usize].fetch_add(1, Relaxed);
    }

    pub fn digest_written(&self, items: u64) {
        self.digests.fetch_add(1, Relaxed);
        self.digest_items.fetch_add(items, Relaxed);
    }

    /// A bulk send went one step on.
    pub fn passed(&self, looked_at: u64, members: u64, skipped: u64) {
        self.bulk_looked_at.fetch_add(looked_at, Relaxed);
        self.bulk_members.fetch_add(members, Relaxed);
        self.bulk_skipped.fetch_add(skipped, Relaxed);
    }

    pub fn audited(&self, entries: u64) {
        self.audit_entries.fetch_add(entries, Relaxed);
    }

    pub fn derived(&self, micros: u64) {
        self.audit_micros.fetch_add(micros, Relaxed);
    }

    pub fn signed(&self, at: Millis) {
        self.checkpoint_at.store(at.0, Relaxed);
    }

    /// Attempts that ended.
    pub fn settled(&self, channel: ChannelKind, told: &[Told]) {
        for one in told {
            let how = match one.said {
                Said::Accepted => 0,
                Said::Rejected => 1,
                Said::Dead => 2,
                Said::Malformed => 3,
                Said::NotTaken { .. } => 4,
                Said::Unanswered => 5,
                Said::Orphaned => 6,
            };
            self.answers[channel as usize][how].fetch_add(1, Relaxed);
        }
    }

    /// So many endpoints came to each status.
    pub fn endpoints(&self, tally: &EndpointTally) {
        for (counter, count) in self.endpoints.iter().zip(tally.0).filter(|(_, count)| *count > 0) {
            counter.fetch_add(count, Relaxed);
        }
    }

    /// Deliveries of one batch that came to some standing.
    pub fn stood(&self, batch: &Stood) {
        self.deliveries().join(batch);
    }

    /// A provider answered a first attempt, so long after the event was accepted or due.
    pub fn answered(&self, lane: Priority, waited_ms: u64) {
        self.waited.observe(lane, waited_ms);
    }

    /// In the order of the lanes.
    #[must_use]
    pub fn waited(&self) -> [Waited; Priority::ALL.len()] {
        self.waited.read()
    }

    /// What deliveries came to, since the start.
    #[must_use]
    pub fn outcomes(&self) -> Stood {
        self.deliveries().clone()
    }

    fn deliveries(&self) -> MutexGuard<'_, Stood> {
        self.stood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub fn read(&self) -> Reading {
        Reading {
            batches: self.batches.load(Relaxed),
            records: self.records.load(Relaxed),
            record_bytes: self.record_bytes.load(Relaxed),
            decide_worst_micros: self.decide_worst_micros.load(Relaxed),
            too_large: self.too_large.load(Relaxed),
            clock_jumps: self.clock_jumps.load(Relaxed),
            parcels_abandoned: self.parcels_abandoned.load(Relaxed),
            rows_wiped: self.rows_wiped.load(Relaxed),
            imbalance: self.imbalance.load(Relaxed),
            books_checked: self.books_checked.load(Relaxed),
            events_accepted: self.events_accepted.load(Relaxed),
            events_repeated: self.events_repeated.load(Relaxed),
            events_taken: self.events_taken.load(Relaxed),
            inbox_reads: self.inbox_reads.load(Relaxed),
            busy: self.busy.load(Relaxed),
            digests: self.digests.load(Relaxed),
            schedule_runs: self.schedule_runs.each_ref().map(|runs| runs.load(Relaxed)),
            digest_items: self.digest_items.load(Relaxed),
            bulk_looked_at: self.bulk_looked_at.load(Relaxed),
            bulk_members: self.bulk_members.load(Relaxed),
            bulk_skipped: self.bulk_skipped.load(Relaxed),
            audit_entries: self.audit_entries.load(Relaxed),
            audit_micros: self.audit_micros.load(Relaxed),
            checkpoint_at: Some(Millis(self.checkpoint_at.load(Relaxed))).filter(|at| at.0 > 0),
            answers: self.answers.each_ref().map(|of| of.each_ref().map(|count| count.load(Relaxed))),
            endpoints: std::array::from_fn(|place| self.endpoints[place].load(Relaxed)),
        }
    }
}
