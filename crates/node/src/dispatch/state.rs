//! What dispatch knows: the lanes and the pace of each channel, and what may wait in each shard's tables.

use super::way::Way;
use super::{Came, Task};
use fantail_machine::shard::serve::Job;
use fantail_machine::tables::ledger::{ParcelId, Timer, TimersFrom};
use fantail_machine::tables::work::{WorkId, WorkRow};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, ShardNo, TenantId};
use fantail_rules::lanes::Offered;
use fantail_rules::priority::Priority;
use std::collections::{BTreeMap, BTreeSet};

/// What did not fit is looked for again after this.
pub const LOOK_AGAIN_MS: u64 = 50;
/// Tables that could not be read are read again after this.
pub const READ_AGAIN_MS: u64 = 1_000;

pub struct State {
    pub channels: BTreeMap<ChannelKind, Way>,
    pub shards: BTreeMap<ShardNo, Waiting>,
    /// Rows that are read at once.
    pub page: usize,
}

/// What waits in the tables of a shard. Times are wall times.
#[derive(Default)]
pub struct Waiting {
    /// When to look for work that was not offered, and behind which.
    pub look_at: Option<Millis>,
    pub work: Option<WorkId>,
    /// Work did not fit since the scan began: when it has reached the last page, it begins anew.
    pub has_missed_work: bool,
    /// The earliest timer that nobody was woken by, or when to look again; and behind which to go on.
    pub due: Option<Millis>,
    pub timer: Option<Timer>,
    /// The earliest timer that did not fit, or came in before the cursor, since the scan began.
    pub missed_due: Option<Millis>,
    /// No timer before this waits that is not in `woken`. What is done lies about in the tables for a while: it is not
    /// walked over again and again.
    pub floor: Millis,
    /// Timers that were offered and are not done.
    pub woken: BTreeSet<(Millis, ParcelId)>,
    /// Those of them whose rows were seen once more since. It may be the old row, or one that was written after the turn
    /// was planned: other members of the same parcel, due at the same time.
    pub seen_again: BTreeSet<(Millis, ParcelId)>,
}

impl Waiting {
    pub fn is_due(&mut self, at: Millis) {
        self.due = earlier(self.due, Some(at));
        self.floor = self.floor.min(at);
        if self.timer.is_some_and(|cursor| at <= cursor.due) {
            self.missed_due = earlier(self.missed_due, Some(at));
        }
    }

    pub fn timers_from(&self) -> TimersFrom {
        self.timer.map_or(TimersFrom::Due(self.floor), TimersFrom::Behind)
    }

    pub fn is_missed(&mut self, at: Millis) {
        self.look_at = earlier(self.look_at, Some(at));
        self.has_missed_work = true;
    }

    /// The tables could not be read: what was wanted of them is wanted again, from the same cursors.
    pub fn not_read(&mut self, look: Look, wall: Millis) {
        let again = Some(wall.plus(READ_AGAIN_MS));
        if look.work.is_some() {
            self.look_at = earlier(self.look_at, again);
        }
        if look.timers.is_some() {
            self.due = earlier(self.due, again);
        }
    }
}

/// What is wanted of a shard's tables, if anything, and behind which row.
#[derive(Clone, Copy)]
pub struct Look {
    pub work: Option<Option<WorkId>>,
    pub timers: Option<TimersFrom>,
}

pub fn earlier(one: Option<Millis>, other: Option<Millis>) -> Option<Millis> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl State {
    pub fn offer_work(&mut self, shard: ShardNo, work: WorkId, lane: Priority) {
        if self.put_work(shard, work, lane) == Offered::Full {
            self.shards.entry(shard).or_default().is_missed(Millis(0));
        }
    }

    pub fn put_work(&mut self, shard: ShardNo, work: WorkId, lane: Priority) -> Offered {
        let task = Task { arrival: work.arrival, job: Job::Work(work) };
        self.put(shard, (work.channel, lane, work.tenant), task)
    }

    /// A timer whose time has come.
    pub fn put_timer(&mut self, shard: ShardNo, timer: Timer) -> Offered {
        let Timer { due, parcel, lane } = timer;
        let waiting = self.shards.entry(shard).or_default();
        if !waiting.woken.insert((due, parcel)) {
            waiting.seen_again.insert((due, parcel));
            return Offered::Known;
        }
        let task = Task { arrival: parcel.arrival, job: Job::Wake { parcel, due } };
        let offered = self.put(shard, (parcel.channel, lane, parcel.tenant), task);
        if offered == Offered::Full {
            self.shards.entry(shard).or_default().woken.remove(&(due, parcel));
        }
        offered
    }

    /// What was found of work, but for what is kept back: a whole page means that there is more.
    pub fn found_work(
        &mut self,
        shard: ShardNo,
        works: &[(WorkId, WorkRow)],
        kept: &BTreeSet<WorkId>,
        wall: Millis,
    ) {
        let mut is_full = false;
        for (work, row) in works.iter().filter(|(work, _)| !kept.contains(work)) {
            is_full |= self.put_work(shard, *work, row.terms.lane) == Offered::Full;
        }
        let last = works.last().filter(|_| works.len() == self.page).map(|(work, _)| *work);
        let waiting = self.shards.entry(shard).or_default();
        waiting.work = last;
        waiting.has_missed_work |= is_full;
        let again = match last {
            Some(_) if is_full => Some(wall.plus(LOOK_AGAIN_MS)),
            Some(_) => Some(wall),
            // Pages before the last one may have had rows that did not fit.
            None => std::mem::take(&mut waiting.has_missed_work).then(|| wall.plus(LOOK_AGAIN_MS)),
        };
        waiting.look_at = earlier(waiting.look_at, again);
    }

    /// What was found of timers that are due, and the next one that is not.
    pub fn found_timers(
        &mut self,
        shard: ShardNo,
        (due, later): (&[Timer], Option<Timer>),
        kept: &BTreeSet<Timer>,
        wall: Millis,
    ) {
        let mut full_due = None;
        for timer in due.iter().filter(|timer| !kept.contains(timer)) {
            if self.put_timer(shard, *timer) == Offered::Full {
                full_due = earlier(full_due, Some(timer.due));
            }
        }
        let last = due.last().filter(|_| due.len() == self.page).copied();
        let waiting = self.shards.entry(shard).or_default();
        waiting.timer = last;
        waiting.missed_due = earlier(waiting.missed_due, full_due);
        // What was offered meanwhile says itself when it is due.
        let offered = waiting.due;
        let again = match last {
            Some(last) => {
                // The scan goes on behind the page: what was offered before its end is not met any more.
                waiting.missed_due = earlier(waiting.missed_due, offered.filter(|at| *at <= last.due));
                Some(if full_due.is_some() { wall.plus(LOOK_AGAIN_MS) } else { wall })
            }
            None => {
                let missed = waiting.missed_due.take();
                let woken = waiting.woken.first().map(|(due, _)| *due);
                let waits = earlier(earlier(woken, offered), missed);
                waiting.floor = waits.map_or(wall.plus(1), |at| at.min(wall.plus(1)));
                missed.map(|_| wall.plus(LOOK_AGAIN_MS)).or(later.map(|timer| timer.due))
            }
        };
        waiting.due = earlier(waiting.due, again);
    }

    /// What became of a job that was looked at.
    pub fn planned(&mut self, shard: ShardNo, job: Job, came: Came) {
        let Job::Wake { parcel, due } = job else { return };
        let Some(waiting) = self.shards.get_mut(&shard).filter(|_| !came.more) else { return };
        waiting.woken.remove(&(due, parcel));
        let is_seen_again = waiting.seen_again.remove(&(due, parcel));
        // Somebody else was faster, or it is too early: by the leader's time it is not due yet.
        if came.is_idle || is_seen_again {
            waiting.is_due(due);
        }
    }

    fn put(&mut self, shard: ShardNo, place: (ChannelKind, Priority, TenantId), task: Task) -> Offered {
        let (channel, lane, tenant) = place;
        match self.channels.get_mut(&channel) {
            Some(way) => way.lanes.offer(lane, tenant, shard.0, task),
            None => Offered::Known,
        }
    }
}
