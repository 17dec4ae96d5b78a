//! What dispatch knows: the lanes and the pace of each channel, and what may wait in each shard's tables.

use super::overflow::{Overflows, Place, Refill};
use super::scan::TableScan;
use super::way::Way;
use super::{Came, Task};
use fantail_machine::shard::serve::Job;
use fantail_machine::tables::RowsFrom;
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
    /// The first such work of each place since the tables were read: the page may not have it.
    pub offered_ahead: BTreeMap<Place, WorkId>,
    /// Work for which there was no room.
    pub overflows: Overflows<WorkId>,
    /// How often everything was begun from the beginning. A page that was read before that is not looked at.
    pub beginnings: u32,
    /// The earliest timer that nobody was woken by, or when to look again; and behind which to go on.
    pub due: Option<Millis>,
    pub timer: Option<Timer>,
    /// The earliest timer that came in before the cursor since the scan began.
    pub missed_due: Option<Millis>,
    /// No timer before this waits that is neither in `woken` nor `late`. What is done lies about in the tables for a while,
    /// and what does not fit for a long one: neither is walked over again and again.
    pub floor: Millis,
    /// Timers that are due and for which there was no room.
    pub late: Overflows<Timer>,
    /// Timers that have a place in a lane, or are out, and are not done.
    pub woken: BTreeSet<(Millis, ParcelId)>,
    /// Those of them that were offered since: their rows were written after the turn was planned, for other members of the same
    /// parcel that are due at the same time.
    pub offered_again: BTreeSet<(Millis, ParcelId)>,
}

impl Waiting {
    pub fn offer_timer(&mut self, Timer { due, parcel, .. }: Timer) {
        if self.woken.contains(&(due, parcel)) {
            self.offered_again.insert((due, parcel));
        }
        self.is_due(due);
    }

    fn is_due(&mut self, at: Millis) {
        self.due = earlier(self.due, Some(at));
        self.floor = self.floor.min(at);
        if self.timer.is_some_and(|cursor| at <= cursor.due) {
            self.missed_due = earlier(self.missed_due, Some(at));
        }
    }

    pub fn timers_from(&self) -> TimersFrom {
        self.timer.map_or(TimersFrom::Due(self.floor), |timer| TimersFrom::Row(RowsFrom::Behind(timer)))
    }

    /// When something is to be read.
    pub fn wakes_at(&self) -> Option<Millis> {
        let refills = earlier(self.overflows.look_at(), self.late.look_at());
        earlier(earlier(self.due, self.look_at), refills)
    }

    /// Everything that waits in the tables is looked at from the beginning.
    pub fn begin_anew(&mut self) {
        let at_once = Some(Millis(0));
        (self.look_at, self.work, self.is_scanning) = (at_once, None, true);
        self.offered_ahead.clear();
        (self.due, self.timer, self.missed_due, self.floor) = (at_once, None, None, Millis(0));
        self.overflows.clear();
        self.late.clear();
        self.beginnings += 1;
    }

    /// Whether the scan comes to this work by itself, unless the page that is being read passes it: see [`Self::put_passed`].
    fn comes_to(&self, work: WorkId) -> bool {
        self.is_scanning && self.work.is_none_or(|cursor| work > cursor)
    }

    /// Has work read for its place that was offered while the tables were read and that the scan has passed: up to the last row
    /// of a whole page, or all if this was the end.
    fn put_passed(&mut self, last: Option<WorkId>, wall: Millis) {
        for (place, work) in std::mem::take(&mut self.offered_ahead) {
            let is_passed = last.is_none_or(|last| work <= last);
            if is_passed && !self.overflows.holds_back(place, work) {
                self.overflows.put(place, work, wall);
            }
        }
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
        if look.refill.is_some() {
            self.overflows.not_read(wall);
        }
        if look.late.is_some() {
            self.late.not_read(wall);
        }
    }
}

/// What is wanted of a shard's tables, if anything, and behind which row.
#[derive(Clone, Copy)]
pub struct Look {
    pub work: Option<Option<WorkId>>,
    pub timers: Option<TimersFrom>,
    /// Work, and timers, of a place that has room again.
    pub refill: Option<Refill<WorkId>>,
    pub late: Option<Refill<Timer>>,
    /// See [`Waiting::beginnings`].
    pub beginning: u32,
}

impl Look {
    /// The channels of the places that have room again.
    pub fn refilled_channels(&self) -> impl Iterator<Item = ChannelKind> + use<> {
        let places = [self.refill.map(|refill| refill.place), self.late.map(|late| late.place)];
        places.into_iter().flatten().map(|(channel, ..)| channel)
    }

    pub fn is_for_something(&self) -> bool {
        let is_scan = self.work.is_some() || self.timers.is_some();
        is_scan || self.refill.is_some() || self.late.is_some()
    }
}

pub fn earlier(one: Option<Millis>, other: Option<Millis>) -> Option<Millis> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl State {
    /// What was found of all that was wanted. Timers come before the work that waits behind a full lane: it is newer.
    pub fn found(&mut self, shard: ShardNo, look: Look, found: &TableScan, wall: Millis) {
        let TableScan { works, due, refilled, late, later, kept } = found;
        if let Some(works) = works {
            self.found_work(shard, works, &kept.works, wall);
        }
        if let (Some(wanted), Some(late)) = (look.late, late) {
            self.found_late(shard, wanted, late, &kept.timers, wall);
        }
        if let Some(due) = due {
            self.found_timers(shard, (due, *later), &kept.timers, wall);
        }
        if let (Some(wanted), Some(works)) = (look.refill, refilled) {
            self.found_refill(shard, wanted, works, &kept.works, wall);
        }
    }

    pub fn offer_work(&mut self, shard: ShardNo, work: WorkId, lane: Priority) {
        let waiting = self.shards.entry(shard).or_default();
        if !waiting.comes_to(work) {
            return self.put_work(shard, work, lane, Millis(0));
        }
        let first = waiting.offered_ahead.entry((work.channel, lane, work.tenant)).or_insert(work);
        *first = work.min(*first);
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

    /// A timer whose time has come gets its place in a lane, if it has none and there is room.
    fn put_timer(&mut self, shard: ShardNo, timer: Timer) -> Offered {
        let Timer { due, parcel, .. } = timer;
        if self.shards.entry(shard).or_default().woken.contains(&(due, parcel)) {
            return Offered::Known;
        }
        let task = Task { arrival: parcel.arrival, job: Job::Wake { parcel, due } };
        let offered = self.put(shard, place_of(timer), task);
        if offered != Offered::Full {
            self.shards.entry(shard).or_default().woken.insert((due, parcel));
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
        let last = works.last().filter(|_| works.len() == self.page).map(|(work, _)| *work);
        let waiting = self.shards.entry(shard).or_default();
        waiting.put_passed(last, wall);
        (waiting.is_scanning, waiting.work) = (last.is_some(), last);
        waiting.look_at = earlier(waiting.look_at, last.map(|_| wall));
        for (work, row) in works.iter().filter(|(work, _)| !kept.contains(work)) {
            self.put_work(shard, *work, row.terms.lane, wall.plus(LOOK_AGAIN_MS));
        }
    }

    /// What was found for a place that has room again, but for what is kept back.
    pub fn found_refill(
        &mut self,
        shard: ShardNo,
        Refill { place, mut most, .. }: Refill<WorkId>,
        works: &[(WorkId, WorkRow)],
        kept: &BTreeSet<WorkId>,
        wall: Millis,
    ) {
        let (_, _, tenant) = place;
        let is_there = |(work, row): &&(WorkId, WorkRow)| {
            (work.channel, row.terms.lane, work.tenant) == place && !kept.contains(work)
        };
        let missed = self.shards.entry(shard).or_default().overflows.missed(place);
        let is_before = |(work, _): &(WorkId, WorkRow)| missed.is_none_or(|missed| *work <= missed);
        let known = &works[..works.partition_point(is_before)];
        for (work, _) in known.iter().filter(is_there) {
            if most == 0 || self.put(shard, place, task_of(*work)) == Offered::Full {
                let overflows = &mut self.shards.entry(shard).or_default().overflows;
                return overflows.filled_before(place, *work, wall);
            }
            most -= 1;
        }
        let is_end = works.len() < self.page || works.last().is_some_and(|(last, _)| last.tenant > tenant);
        let last = known.iter().rev().map(|(work, _)| *work).find(|last| last.tenant == tenant);
        self.shards.entry(shard).or_default().overflows.filled(place, last, is_end, wall);
    }

    /// What was found of timers for a place that has room again, but for what is kept back.
    pub fn found_late(
        &mut self,
        shard: ShardNo,
        Refill { place, mut most, .. }: Refill<Timer>,
        timers: &[Timer],
        kept: &BTreeSet<Timer>,
        wall: Millis,
    ) {
        for timer in timers.iter().filter(|timer| place_of(**timer) == place && !kept.contains(timer)) {
            if most == 0 || self.put_timer(shard, *timer) == Offered::Full {
                let late = &mut self.shards.entry(shard).or_default().late;
                return late.filled_before(place, *timer, wall);
            }
            most -= 1;
        }
        let is_end = timers.len() < self.page;
        let last = timers.last().copied();
        self.shards.entry(shard).or_default().late.filled(place, last, is_end, wall);
    }

    /// What was found of timers that are due, and the next one that is not. Those that do not fit are the business of `late`,
    /// so the scan goes on at once and comes back to none of them.
    pub fn found_timers(
        &mut self,
        shard: ShardNo,
        (due, later): (&[Timer], Option<Timer>),
        kept: &BTreeSet<Timer>,
        wall: Millis,
    ) {
        for timer in due.iter().filter(|timer| !kept.contains(timer)) {
            let place = place_of(*timer);
            let is_held_back = self.shards.entry(shard).or_default().late.holds_back(place, *timer);
            if !is_held_back && self.put_timer(shard, *timer) == Offered::Full {
                let late = &mut self.shards.entry(shard).or_default().late;
                late.put(place, *timer, wall.plus(LOOK_AGAIN_MS));
            }
        }
        let last = due.last().filter(|_| due.len() == self.page).copied();
        let waiting = self.shards.entry(shard).or_default();
        waiting.timer = last;
        // What was offered meanwhile says itself when it is due.
        let offered = waiting.due;
        let again = match last {
            Some(last) => {
                // The scan goes on behind the page: what was offered before its end is not met any more.
                waiting.missed_due = earlier(waiting.missed_due, offered.filter(|at| *at <= last.due));
                Some(wall)
            }
            None => {
                let missed = waiting.missed_due.take();
                let waits = earlier(offered, missed);
                waiting.floor = waits.map_or(wall.plus(1), |at| at.min(wall.plus(1)));
                missed.map(|_| wall).or(later.map(|timer| timer.due))
            }
        };
        waiting.due = earlier(waiting.due, again);
    }

    /// What became of a job that was looked at.
    pub fn planned(&mut self, shard: ShardNo, job: Job, came: Came) {
        let Job::Wake { parcel, due } = job else { return };
        let Some(waiting) = self.shards.get_mut(&shard).filter(|_| !came.more) else { return };
        waiting.woken.remove(&(due, parcel));
        if waiting.offered_again.remove(&(due, parcel)) || came.is_early {
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

fn place_of(Timer { parcel, lane, .. }: Timer) -> Place {
    (parcel.channel, lane, parcel.tenant)
}

fn task_of(work: WorkId) -> Task {
    Task { arrival: work.arrival, job: Job::Work(work) }
}
