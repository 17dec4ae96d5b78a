//! What dispatch knows: the lanes and the pace of each channel, and what may wait in each shard's tables.

use super::overflow::{Overflows, Place, Refill};
use super::way::Way;
use super::{Came, Task};
use fantail_machine::shard::serve::Job;
use fantail_machine::tables::ledger::{ParcelId, Timer, TimersFrom};
use fantail_machine::tables::work::{WorkId, WorkRow};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, ShardNo};
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
    /// Nothing more is started: the node is about to stop.
    pub is_draining: bool,
}

/// What waits in the tables of a shard. Times are wall times.
#[derive(Default)]
pub struct Waiting {
    /// When to look for work that was not offered, and behind which.
    pub look_at: Option<Millis>,
    pub work: Option<WorkId>,
    /// The scan over all work has not reached its end. What is offered above its cursor is not taken: it comes to it, and
    /// nothing overtakes what lies between.
    pub is_scanning: bool,
    /// Such work was offered since the tables were read: the page may not have it.
    pub is_offered_ahead: bool,
    /// Work for which there was no room.
    pub overflows: Overflows,
    /// How often everything was begun from the beginning. A page that was read before that is not looked at.
    pub beginnings: u32,
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

    /// Everything that waits in the tables is looked at from the beginning.
    pub fn begin_anew(&mut self) {
        let at_once = Some(Millis(0));
        (self.look_at, self.work, self.is_scanning) = (at_once, None, true);
        (self.due, self.timer, self.missed_due, self.floor) = (at_once, None, None, Millis(0));
        self.overflows.clear();
        self.beginnings += 1;
    }

    /// Whether the scan comes to this work by itself.
    fn comes_to(&mut self, work: WorkId) -> bool {
        let is_ahead = self.is_scanning && self.work.is_none_or(|cursor| work > cursor);
        self.is_offered_ahead |= is_ahead;
        is_ahead
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
        if let Some(Refill { place, .. }) = look.refill {
            self.overflows.not_read(place, wall);
        }
    }
}

/// What is wanted of a shard's tables, if anything, and behind which row.
#[derive(Clone, Copy)]
pub struct Look {
    pub work: Option<Option<WorkId>>,
    pub timers: Option<TimersFrom>,
    pub refill: Option<Refill>,
    /// See [`Waiting::beginnings`].
    pub beginning: u32,
}

pub fn earlier(one: Option<Millis>, other: Option<Millis>) -> Option<Millis> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl State {
    pub fn offer_work(&mut self, shard: ShardNo, work: WorkId, lane: Priority) {
        if !self.shards.entry(shard).or_default().comes_to(work) {
            self.put_work(shard, work, lane, Millis(0));
        }
    }

    /// Work gets its place in a lane, unless older work of the same place waits in the tables or there is no room. Then it is
    /// looked for at this time.
    fn put_work(&mut self, shard: ShardNo, work: WorkId, lane: Priority, look_at: Millis) {
        let place = (work.channel, lane, work.tenant);
        if self.shards.entry(shard).or_default().overflows.holds_back(place, work) {
            return;
        }
        if self.put(shard, place, task_of(work)) == Offered::Full {
            self.shards.entry(shard).or_default().overflows.put(place, work, look_at);
        }
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

    /// What was found of work, but for what is kept back: a whole page means that there is more. What does not fit is the
    /// business of `overflow`, so the scan goes on at once and hides nobody else's.
    pub fn found_work(
        &mut self,
        shard: ShardNo,
        works: &[(WorkId, WorkRow)],
        kept: &BTreeSet<WorkId>,
        wall: Millis,
    ) {
        for (work, row) in works.iter().filter(|(work, _)| !kept.contains(work)) {
            self.put_work(shard, *work, row.terms.lane, wall.plus(LOOK_AGAIN_MS));
        }
        let is_page = works.len() == self.page;
        let waiting = self.shards.entry(shard).or_default();
        waiting.is_scanning = is_page || std::mem::take(&mut waiting.is_offered_ahead);
        if waiting.is_scanning {
            waiting.work = works.last().map(|(work, _)| *work).or(waiting.work);
            waiting.look_at = earlier(waiting.look_at, Some(wall));
        } else {
            waiting.work = None;
        }
    }

    /// What was found for a place that has room again, but for what is kept back.
    pub fn found_refill(
        &mut self,
        shard: ShardNo,
        place: Place,
        works: &[(WorkId, WorkRow)],
        kept: &BTreeSet<WorkId>,
        wall: Millis,
    ) {
        let (_, _, tenant) = place;
        let is_there = |(work, row): &&(WorkId, WorkRow)| {
            (work.channel, row.terms.lane, work.tenant) == place && !kept.contains(work)
        };
        for (work, _) in works.iter().filter(is_there) {
            if self.put(shard, place, task_of(*work)) == Offered::Full {
                let overflows = &mut self.shards.entry(shard).or_default().overflows;
                return overflows.filled_before(place, *work, wall);
            }
        }
        let last = works.last().map(|(work, _)| *work);
        let is_end = works.len() < self.page || last.is_some_and(|last| last.tenant > tenant);
        let last = last.filter(|last| last.tenant == tenant);
        self.shards.entry(shard).or_default().overflows.filled(place, last, is_end, wall);
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

    fn put(&mut self, shard: ShardNo, place: Place, task: Task) -> Offered {
        let (channel, lane, tenant) = place;
        match self.channels.get_mut(&channel) {
            Some(way) => way.lanes.offer(lane, tenant, shard.0, task),
            None => Offered::Known,
        }
    }
}

fn task_of(work: WorkId) -> Task {
    Task { arrival: work.arrival, job: Job::Work(work) }
}
