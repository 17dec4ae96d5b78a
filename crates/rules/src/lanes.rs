//! Whose turn it is: lanes by weight, tenants inside a lane by deficit round robin.
//!
//! Comes from: a dispatcher with permits of one channel, and the work that waits for it. Decides: which work of which
//! tenant is served next, and how much of it. Goes to: the plan of the next parcel; what it used comes back.
//!
//! ```text
//! critical ── whenever it waits; some permits are kept for it ─┐        tenants, in a ring:
//! high ─── 8 of 13 ─┐                                          ├─ turn  front ─► turns ─► back, when its quantum of
//! normal ─ 4 of 13 ─┼─ by what each has used ──────────────────┘        deliveries is used, else front again
//! low ──── 1 of 13 ─┘
//! ```
//! A tenant's work lies in streams, one per shard. One turn of a stream is out at a time, so that its work starts in
//! order; it takes all that waits, up to a limit, so that many small ones wait for one round and not for one each.
//! Several streams may be out at once, and what they use together beyond the quantum is owed in the next round. They take
//! turns, and what waits in one takes no place from another.
//!
//! What must never happen: critical work behind other work; a lane or tenant that waits for ever; two turns of one
//! stream of a tenant in one lane at the same time. Not here: how many permits there are (`pacing`), and what a work
//! item is: keys are served smallest first.

use crate::ids::TenantId;
use crate::limits::{PARCEL_MEMBERS_MAX, TURN_WORKS_MAX, WORK_MAX, WORK_PER_TENANT_MAX};
use crate::priority::Priority;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

const LANES: usize = 4;
/// The price of a delivery in each lane; its share is one over it: 8 : 4 : 1. Critical does not pay.
const PRICES: [u64; LANES] = [0, 1, 2, 8];
/// A parcel of the dearest lane.
const ARREARS_MAX: u64 = PARCEL_MEMBERS_MAX as u64 * 8;
/// In the order of their numbers.
const ALL: [Priority; LANES] = [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];

/// What starts in order among itself: the work of one shard.
pub type Stream = u16;

/// Work that waits in one channel. Memory is bounded: `works_max` keys, one more for each tenant, lane and stream, and what comes
/// back from turns that are out.
#[derive(Clone, Debug)]
pub struct Lanes<K> {
    lanes: [Lane<K>; LANES],
    /// Keys in each lane.
    held: [usize; LANES],
    /// What the lane that was served last had paid before: where a lane begins that saved nothing up.
    floor: u64,
    /// Deliveries of one tenant before it is the next one's turn, as the channel said last.
    quantum: u32,
    /// Keys that may wait, of all tenants, and in one stream of a tenant in one lane.
    works_max: usize,
    per_stream_max: usize,
}

#[derive(Clone, Debug)]
struct Lane<K> {
    /// Tenants with a stream that is ready, in order.
    ring: VecDeque<TenantId>,
    tenants: BTreeMap<TenantId, Queue<K>>,
    /// What the lane has paid; the lane that paid least is next.
    paid: u64,
}

#[derive(Clone, Debug)]
struct Queue<K> {
    streams: BTreeMap<Stream, Waiting<K>>,
    /// The one that had its turn last.
    last: Option<Stream>,
    /// Keys in all streams.
    held: usize,
    /// Deliveries that are left of the quantum; what is owed if negative.
    deficit: i64,
    is_in_ring: bool,
}

#[derive(Clone, Debug)]
struct Waiting<K> {
    work: BTreeSet<K>,
    /// Whether a turn is out.
    is_out: bool,
}

/// What a channel allows now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Permits {
    pub free: u32,
    /// How many of them are kept for the critical lane.
    pub reserved: u32,
    /// Deliveries that one tenant may start before the next tenant has its turn: what the channel sends in about 200 ms.
    pub quantum: u32,
}

/// Work items to serve. They are out until they come back by [`Lanes::charge`].
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a turn that never comes back stops its stream"]
pub struct Turn<K> {
    pub lane: Priority,
    pub tenant: TenantId,
    pub stream: Stream,
    /// In the order in which they are to start, at least one.
    pub keys: Vec<K>,
    /// How many deliveries of all of them may be started, at least one.
    pub deliveries_max: u32,
}

/// Two tenants whose work waits: enough to know whether there is another one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TenantsWaiting {
    one: Option<TenantId>,
    other: Option<TenantId>,
}

impl TenantsWaiting {
    /// Whether work of another tenant waits.
    #[must_use]
    pub fn is_beside(self, tenant: TenantId) -> bool {
        [self.one, self.other].into_iter().flatten().any(|other| other != tenant)
    }
}

/// What became of an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offered {
    Taken,
    /// It waits already.
    Known,
    /// The stream has enough waiting here, or everybody has. The work stays where it was found, to be offered again when there
    /// is room: [`Lanes::has_room`].
    Full,
}

impl<K: Ord> Queue<K> {
    /// The next stream in turn that has work and no turn out. Keys of different streams say nothing about which is older.
    fn ready(&self) -> Option<Stream> {
        let behind = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.streams.range((behind, Bound::Unbounded)).chain(&self.streams);
        let found = rest.find(|(_, waiting)| !waiting.is_out && !waiting.work.is_empty());
        found.map(|(stream, _)| *stream)
    }

    /// Forgets a stream without work. `true` if nothing is left of the tenant.
    fn tidy(&mut self, stream: Stream) -> bool {
        let is_idle = |waiting: &Waiting<K>| waiting.work.is_empty() && !waiting.is_out;
        if self.streams.get(&stream).is_some_and(is_idle) {
            self.streams.remove(&stream);
        }
        self.streams.is_empty()
    }
}

impl<K: Ord> Lane<K> {
    /// Gives a tenant whose streams may have become ready its place in the ring. Whoever has used the quantum up waits
    /// for a round; the others go on.
    fn line_up(&mut self, tenant: TenantId, quantum: u32) {
        let Some(queue) = self.tenants.get_mut(&tenant) else { return };
        if queue.is_in_ring || queue.ready().is_none() {
            return;
        }
        queue.is_in_ring = true;
        if queue.deficit > 0 {
            self.ring.push_front(tenant);
        } else {
            queue.deficit += i64::from(quantum);
            self.ring.push_back(tenant);
        }
    }

    /// The tenant at the front that owes nothing and has room, with its room; it leaves the ring. Tenants without room keep
    /// their places.
    fn pop(&mut self, quantum: u32, room: &dyn Fn(TenantId) -> u32) -> Option<(TenantId, u32)> {
        let mut held_back = Vec::new();
        let found = loop {
            let Some(tenant) = self.ring.pop_front() else { break None };
            let free = room(tenant);
            if free == 0 {
                held_back.push(tenant);
                continue;
            }
            let queue = self.tenants.get_mut(&tenant).expect("who is in the ring has a queue");
            if queue.deficit > 0 {
                queue.deficit = queue.deficit.min(quantum.into());
                queue.is_in_ring = false;
                break Some((tenant, free));
            }
            queue.deficit += i64::from(quantum);
            self.ring.push_back(tenant);
        };
        held_back.into_iter().rev().for_each(|tenant| self.ring.push_front(tenant));
        found
    }
}

impl<K: Ord> Lanes<K> {
    #[must_use]
    pub fn new() -> Self {
        Self::bounded(WORK_MAX, WORK_PER_TENANT_MAX)
    }

    /// With room for so many keys of all tenants, and in one stream of a tenant in one lane.
    #[must_use]
    pub fn bounded(works_max: usize, per_stream_max: usize) -> Self {
        let lane = || Lane { ring: VecDeque::new(), tenants: BTreeMap::new(), paid: 0 };
        Self {
            lanes: [lane(), lane(), lane(), lane()],
            held: [0; LANES],
            floor: 0,
            quantum: PARCEL_MEMBERS_MAX,
            works_max,
            per_stream_max,
        }
    }

    /// Work that can be served. Work whose turn is out may be offered again; it will then be served again.
    pub fn offer(&mut self, lane: Priority, tenant: TenantId, stream: Stream, key: K) -> Offered {
        let (has_room, index) = (self.has_room(lane, tenant, stream), lane as usize);
        let lane = &mut self.lanes[index];
        let waiting = lane.tenants.get(&tenant).and_then(|queue| queue.streams.get(&stream));
        if waiting.is_some_and(|waiting| waiting.work.contains(&key)) {
            return Offered::Known;
        }
        if !has_room {
            return Offered::Full;
        }
        if lane.tenants.is_empty() {
            lane.paid = lane.paid.max(self.floor);
        }
        let queue = lane.tenants.entry(tenant).or_insert_with(|| Queue {
            streams: BTreeMap::new(),
            last: None,
            held: 0,
            deficit: 0,
            is_in_ring: false,
        });
        let waiting = queue.streams.entry(stream);
        waiting.or_insert_with(|| Waiting { work: BTreeSet::new(), is_out: false }).work.insert(key);
        queue.held += 1;
        self.held[index] += 1;
        lane.line_up(tenant, self.quantum);
        Offered::Taken
    }

    /// Whether one more key of a stream of a tenant may wait in a lane.
    #[must_use]
    pub fn has_room(&self, lane: Priority, tenant: TenantId, stream: Stream) -> bool {
        let waiting = self.waiting(lane, tenant, stream);
        // A stream in which nothing waits gets a place, however much others have.
        waiting == 0 || waiting < self.per_stream_max && self.len() < self.works_max
    }

    /// How many keys of a stream of a tenant wait in a lane.
    #[must_use]
    pub fn waiting(&self, lane: Priority, tenant: TenantId, stream: Stream) -> usize {
        let queue = self.lanes[lane as usize].tenants.get(&tenant);
        queue.and_then(|queue| queue.streams.get(&stream)).map_or(0, |waiting| waiting.work.len())
    }

    /// The next turn, if anything may be started. `room` is how many deliveries of a tenant may be started now, of all lanes.
    pub fn next(&mut self, permits: Permits, room: &dyn Fn(TenantId) -> u32) -> Option<Turn<K>> {
        self.quantum = permits.quantum.clamp(1, PARCEL_MEMBERS_MAX);
        if let Some(turn) = self.turn(0, permits.free, room) {
            return Some(turn);
        }
        let unreserved = permits.free.saturating_sub(permits.reserved);
        let mut others = [1, 2, 3];
        others.sort_by_key(|index| self.lanes[*index].paid);
        others.into_iter().find_map(|index| self.turn(index, unreserved, room))
    }

    fn turn(&mut self, index: usize, free: u32, room: &dyn Fn(TenantId) -> u32) -> Option<Turn<K>> {
        let lane = &mut self.lanes[index];
        if free == 0 {
            return None;
        }
        let (tenant, room) = lane.pop(self.quantum, room)?;
        let queue = lane.tenants.get_mut(&tenant).expect("who is in the ring has a queue");
        let stream = queue.ready().expect("who is in the ring is ready");
        queue.last = Some(stream);
        let waiting = queue.streams.get_mut(&stream).expect("a stream that is ready is there");
        waiting.is_out = true;
        let left = u32::try_from(queue.deficit).expect("who was popped owes nothing");
        let deliveries_max = left.min(free).min(room);
        let works_max = TURN_WORKS_MAX.min(deliveries_max as usize);
        let keys: Vec<K> = std::iter::from_fn(|| waiting.work.pop_first()).take(works_max).collect();
        assert!(!keys.is_empty(), "a stream that is ready has work");
        queue.held -= keys.len();
        self.held[index] -= keys.len();
        self.floor = if index == 0 { self.floor } else { self.floor.max(lane.paid) };
        // Paid in advance, so that several turns that are out at a time come from the right lanes.
        lane.paid += u64::from(deliveries_max) * PRICES[index];
        lane.line_up(tenant, self.quantum);
        Some(Turn { lane: ALL[index], tenant, stream, keys, deliveries_max })
    }

    /// Whose work waits, or is out and may come back, among those with room.
    #[must_use]
    pub fn tenants_waiting(&self, has_room: impl Fn(TenantId) -> bool) -> TenantsWaiting {
        let tenants = self.lanes.iter().flat_map(|lane| lane.tenants.keys().copied());
        let mut tenants = tenants.filter(|tenant| has_room(*tenant));
        let one = tenants.next();
        let other = one.and_then(|one| tenants.find(|tenant| *tenant != one));
        TenantsWaiting { one, other }
    }

    /// A turn comes back, with what it used; what it still holds is not done. A turn that used nothing loses its place, so
    /// that work that cannot be served now does not hold up the others.
    pub fn charge(&mut self, turn: Turn<K>, used: u32) {
        assert!(used <= turn.deliveries_max, "a turn uses what it was given");
        let index = turn.lane as usize;
        let lane = &mut self.lanes[index];
        lane.paid -= u64::from(turn.deliveries_max - used) * PRICES[index];
        // What a lane missed while all its turns were out is made good up to a parcel, not for ever.
        lane.paid = lane.paid.max(self.floor.saturating_sub(ARREARS_MAX));
        let queue = lane.tenants.get_mut(&turn.tenant).expect("a queue stays while its turn is out");
        queue.deficit -= i64::from(used);
        if used == 0 && !turn.keys.is_empty() {
            queue.deficit = queue.deficit.min(0);
        }
        let waiting = queue.streams.get_mut(&turn.stream).expect("a stream stays while its turn is out");
        waiting.is_out = false;
        for key in turn.keys {
            if waiting.work.insert(key) {
                queue.held += 1;
                self.held[index] += 1;
            }
        }
        if queue.tidy(turn.stream) {
            lane.tenants.remove(&turn.tenant);
        } else {
            lane.line_up(turn.tenant, self.quantum);
        }
    }

    /// Work that is not to be served any more: cancelled, paused, or no longer ours. `false` if it does not wait here.
    pub fn retire(&mut self, lane: Priority, tenant: TenantId, stream: Stream, key: &K) -> bool {
        let index = lane as usize;
        let lane = &mut self.lanes[index];
        let Some(queue) = lane.tenants.get_mut(&tenant) else { return false };
        let Some(waiting) = queue.streams.get_mut(&stream) else { return false };
        if !waiting.work.remove(key) {
            return false;
        }
        queue.held -= 1;
        self.held[index] -= 1;
        let is_gone = queue.tidy(stream);
        if queue.is_in_ring && queue.ready().is_none() {
            queue.is_in_ring = false;
            lane.ring.retain(|waiting| *waiting != tenant);
        }
        if is_gone {
            lane.tenants.remove(&tenant);
        }
        true
    }

    /// How many keys wait, of all tenants and lanes. What is out may still come back.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "an empty one means nothing: turns may be out")]
    pub fn len(&self) -> usize {
        self.held.iter().sum()
    }

    /// How many keys wait in each lane, in the order of their numbers.
    #[must_use]
    pub fn by_lane(&self) -> [u64; LANES] {
        self.held.map(|held| held as u64)
    }

    /// How many keys wait in this lane and in those that go before it.
    #[must_use]
    pub fn ahead(&self, lane: Priority) -> usize {
        self.held[..=lane as usize].iter().sum()
    }

    /// How many keys of tenants that count wait in the lanes that go before this one. Stops when there are enough.
    #[must_use]
    pub fn before(&self, lane: Priority, enough: usize, counts: &dyn Fn(TenantId) -> bool) -> usize {
        let mut found = 0;
        let tenants = self.lanes[..lane as usize].iter().flat_map(|lane| &lane.tenants);
        for (tenant, queue) in tenants.filter(|(_, queue)| queue.held > 0) {
            if found >= enough {
                break;
            }
            found += if counts(*tenant) { queue.held } else { 0 };
        }
        found
    }

    /// How many keys of a tenant wait in a lane.
    #[must_use]
    pub fn held(&self, lane: Priority, tenant: TenantId) -> usize {
        self.lanes[lane as usize].tenants.get(&tenant).map_or(0, |queue| queue.held)
    }
}

impl<K: Ord> Default for Lanes<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: TenantId = TenantId(1);
    const B: TenantId = TenantId(2);
    const S: Stream = 0;
    const PLENTY: Permits = Permits { free: 100_000, reserved: 0, quantum: 100 };

    const NO_BOUND: fn(TenantId) -> u32 = |_| u32::MAX;

    fn lanes(work: &[(Priority, TenantId, u32)]) -> Lanes<u32> {
        let mut lanes = Lanes::new();
        for (lane, tenant, key) in work {
            assert_eq!(lanes.offer(*lane, *tenant, S, *key), Offered::Taken);
        }
        lanes
    }

    /// Serves a turn of endless work whole.
    fn serve(lanes: &mut Lanes<u32>, permits: Permits) -> Option<(Priority, TenantId, u32)> {
        let turn = lanes.next(permits, &NO_BOUND)?;
        let served = (turn.lane, turn.tenant, turn.deliveries_max);
        lanes.charge(turn, served.2);
        Some(served)
    }

    /// A turn comes back, and so many of its works are done.
    fn charge(lanes: &mut Lanes<u32>, mut turn: Turn<u32>, used: u32, done: usize) {
        turn.keys.drain(..done);
        lanes.charge(turn, used);
    }

    #[test]
    fn work_of_a_tenant_is_served_in_order_one_turn_at_a_time() {
        let mut lanes =
            lanes(&[(Priority::Normal, A, 7), (Priority::Normal, A, 3), (Priority::Normal, B, 1)]);
        let first = lanes.next(PLENTY, &NO_BOUND).expect("work waits");
        assert_eq!((first.tenant, &first.keys[..], first.deliveries_max), (A, &[3, 7][..], 100));
        let second = lanes.next(PLENTY, &NO_BOUND).expect("work waits");
        assert_eq!((second.tenant, &second.keys[..]), (B, &[1][..]));
        assert_eq!(lanes.next(PLENTY, &NO_BOUND), None, "both have a turn out");
        assert_eq!(lanes.offer(Priority::Normal, A, S, 3), Offered::Taken, "there is new work under its key");
        assert_eq!(lanes.offer(Priority::Normal, A, S, 3), Offered::Known);
        charge(&mut lanes, second, 1, 1);
        charge(&mut lanes, first, 40, 1);
        let third = lanes.next(PLENTY, &NO_BOUND).expect("work waits");
        assert_eq!((&third.keys[..], third.deliveries_max), (&[3, 7][..], 60), "the quantum goes on");
        charge(&mut lanes, third, 60, 1);
        let fourth = lanes.next(PLENTY, &NO_BOUND).expect("work waits");
        assert_eq!((&fourth.keys[..], fourth.deliveries_max), (&[7][..], 100));
        charge(&mut lanes, fourth, 0, 1);
        assert_eq!(lanes.next(PLENTY, &NO_BOUND), None);
    }

    // proves: PRI-04
    #[test]
    fn a_turn_takes_all_small_work_that_its_permits_could_serve() {
        let mut lanes = Lanes::new();
        (0..200).for_each(|key| assert_eq!(lanes.offer(Priority::High, A, S, key), Offered::Taken));
        let few = lanes.next(Permits { free: 5, ..PLENTY }, &NO_BOUND).expect("work waits");
        assert_eq!((&few.keys[..], lanes.held(Priority::High, A)), (&[0, 1, 2, 3, 4][..], 195));
        charge(&mut lanes, few, 3, 3);
        let many = lanes.next(PLENTY, &NO_BOUND).expect("work waits");
        assert!(many.keys.iter().copied().eq(3..3 + TURN_WORKS_MAX as u32), "in order: {:?}", many.keys);
        charge(&mut lanes, many, 64, TURN_WORKS_MAX);
        assert_eq!((lanes.held(Priority::High, A), lanes.len()), (133, 133));
    }

    #[test]
    fn work_that_cannot_be_served_does_not_hold_up_others() {
        let mut lanes = lanes(&[(Priority::High, A, 1), (Priority::High, B, 1)]);
        for tenant in [A, B, A, B] {
            let turn = lanes.next(PLENTY, &NO_BOUND).expect("work waits");
            assert_eq!(turn.tenant, tenant);
            lanes.charge(turn, 0);
        }
        assert!(lanes.retire(Priority::High, A, S, &1));
        assert!(!lanes.retire(Priority::High, A, S, &1));
        assert_eq!(serve(&mut lanes, PLENTY).map(|(_, tenant, _)| tenant), Some(B));
        assert!(lanes.retire(Priority::High, B, S, &1));
        assert_eq!(lanes.next(PLENTY, &NO_BOUND), None);
    }

    #[test]
    fn memory_is_bounded_and_nobody_is_shut_out() {
        let mut lanes = Lanes::new();
        let mut fill = |tenant: u32| {
            let offers =
                (0..=WORK_PER_TENANT_MAX).map(|key| lanes.offer(Priority::Low, TenantId(tenant), S, key));
            offers.filter(|offered| *offered == Offered::Taken).count()
        };
        let flooding = WORK_MAX / WORK_PER_TENANT_MAX;
        for tenant in 0..flooding {
            assert_eq!(fill(u32::try_from(tenant).expect("few")), WORK_PER_TENANT_MAX);
        }
        assert_eq!(fill(1_000_000), 1, "a place for everybody");
        assert_eq!(lanes.offer(Priority::Critical, TenantId(0), S, 0), Offered::Taken);
        assert_eq!(lanes.offer(Priority::Critical, TenantId(0), S, 1), Offered::Full);
        assert_eq!(lanes.held(Priority::Low, TenantId(0)), WORK_PER_TENANT_MAX);
    }

    // proves: PRI-01
    #[test]
    fn permits_are_kept_for_critical_work() {
        let tight = Permits { free: 3, reserved: 3, quantum: 10 };
        let mut lanes = lanes(&[(Priority::High, A, 1)]);
        assert_eq!(lanes.next(tight, &NO_BOUND), None);
        assert_eq!(serve(&mut lanes, Permits { free: 5, ..tight }), Some((Priority::High, A, 2)));
        lanes.offer(Priority::Critical, B, S, 1);
        assert_eq!(serve(&mut lanes, tight), Some((Priority::Critical, B, 3)));
        assert_eq!(lanes.next(Permits { free: 0, ..tight }, &NO_BOUND), None);
    }

    // fixes: security H5, interop F1
    #[test]
    fn a_tenant_without_room_keeps_its_place_and_holds_up_no_other() {
        let mut lanes = lanes(&[(Priority::Normal, A, 1), (Priority::Normal, B, 1)]);
        let waiting = lanes.tenants_waiting(|_| true);
        assert!([A, B, TenantId(3)].iter().all(|tenant| waiting.is_beside(*tenant)));
        let waiting = lanes.tenants_waiting(|tenant| tenant == B);
        assert_eq!([A, B].map(|tenant| waiting.is_beside(tenant)), [true, false], "only B has room");
        let only = |tenant: TenantId, room: u32| move |of: TenantId| if of == tenant { room } else { 0 };
        assert_eq!(lanes.next(PLENTY, &|_| 0), None);
        let turn = lanes.next(PLENTY, &only(B, 7)).expect("work waits");
        assert_eq!((turn.tenant, turn.lane, turn.deliveries_max), (B, Priority::Normal, 7));
        lanes.charge(turn, 7);
        let turn = lanes.next(PLENTY, &only(B, 200)).expect("work waits");
        lanes.charge(turn, 93);
        let turn = lanes.next(PLENTY, &NO_BOUND).expect("work waits");
        assert_eq!((turn.tenant, turn.deliveries_max), (A, 100), "it was first, and still is");
        charge(&mut lanes, turn, 1, 1);
        assert!(!lanes.tenants_waiting(|_| true).is_beside(B), "its own work is all that is left");
    }

    #[test]
    fn an_idle_lane_saves_nothing_up() {
        let mut lanes = lanes(&[(Priority::High, A, 1)]);
        for _ in 0..10_000 {
            serve(&mut lanes, PLENTY);
        }
        assert!(lanes.retire(Priority::High, A, S, &1));
        lanes.offer(Priority::Low, B, S, 1);
        lanes.offer(Priority::High, A, S, 1);
        let mut served = [0; LANES];
        for _ in 0..9 {
            let (lane, _, deliveries) = serve(&mut lanes, PLENTY).expect("work waits");
            served[lane as usize] += deliveries;
        }
        assert_eq!(served, [0, 800, 0, 100]);
    }

    #[test]
    fn streams_go_side_by_side_and_what_they_use_is_owed() {
        let mut lanes = lanes(&[(Priority::Normal, A, 1)]);
        lanes.offer(Priority::Normal, A, 1, 1);
        lanes.offer(Priority::Normal, A, 2, 1);
        let turns: Vec<_> = (0..3).filter_map(|_| lanes.next(PLENTY, &NO_BOUND)).collect();
        assert_eq!(turns.iter().map(|turn| turn.stream).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(lanes.next(PLENTY, &NO_BOUND), None, "each stream has a turn out");
        turns.into_iter().for_each(|turn| lanes.charge(turn, 100));
        lanes.offer(Priority::Normal, B, S, 1);
        let mut served = BTreeMap::new();
        for _ in 0..4 {
            let (_, tenant, deliveries) = serve(&mut lanes, PLENTY).expect("work waits");
            *served.entry(tenant).or_insert(0) += deliveries;
        }
        assert!(served[&B] >= 200, "two quanta too many are waited for: {served:?}");
    }

    #[test]
    fn streams_take_turns_however_few_deliveries_may_start() {
        let mut lanes = Lanes::new();
        for (stream, key) in [0, 1, 2].into_iter().flat_map(|stream| (0..10).map(move |key| (stream, key))) {
            lanes.offer(Priority::Normal, A, stream, 100 * u32::from(stream) + key);
        }
        let mut turns = Vec::new();
        for _ in 0..6 {
            let turn = lanes.next(PLENTY, &|_| 1).expect("work waits");
            turns.push((turn.stream, turn.keys[0]));
            charge(&mut lanes, turn, 1, 1);
        }
        assert_eq!(turns, [(0, 0), (1, 100), (2, 200), (0, 1), (1, 101), (2, 201)]);
    }

    #[test]
    fn a_full_stream_takes_no_place_from_another() {
        for (works_max, expected) in [(1_000, [4, 4]), (4, [4, 1])] {
            let mut lanes = Lanes::bounded(works_max, 4);
            let taken = [0, 1].map(|stream| {
                let offers = (0..100).map(|key| lanes.offer(Priority::Normal, A, stream, key));
                offers.filter(|offered| *offered == Offered::Taken).count()
            });
            assert_eq!(taken, expected, "of {works_max}");
            assert_eq!(
                [0, 1, 2].map(|stream| lanes.has_room(Priority::Normal, A, stream)),
                [false, false, true]
            );
        }
    }

    fn stream_of(key: u32) -> Stream {
        if key.is_multiple_of(2) { 0 } else { 1 }
    }

    fn permits() -> impl Strategy<Value = Permits> {
        (1u32..300, 1u32..200).prop_map(|(free, quantum)| Permits { free, reserved: 0, quantum })
    }

    proptest! {
        #[test]
        fn tenants_with_a_backlog_share_within_one_quantum(
            quantum in 1u32..1_000, turns in proptest::collection::vec((1u32..2_000, 1u32..2_000), 1..200),
        ) {
            let mut lanes = lanes(&[(Priority::Normal, A, 1), (Priority::Normal, B, 1)]);
            let mut used = BTreeMap::from([(A, 0), (B, 0)]);
            for (free, appetite) in turns {
                let turn = lanes.next(Permits { free, reserved: 0, quantum }, &NO_BOUND).expect("work waits");
                let (tenant, part) = (turn.tenant, turn.deliveries_max.min(appetite));
                *used.entry(tenant).or_default() += part;
                lanes.charge(turn, part);
                prop_assert!(used[&A].abs_diff(used[&B]) <= quantum, "{:?}", used);
            }
        }

        #[test]
        fn lanes_with_a_backlog_share_by_weight(turns in proptest::collection::vec(permits(), 1..300)) {
            let lanes_in_use = [Priority::High, Priority::Normal, Priority::Low];
            let mut lanes = lanes(&lanes_in_use.map(|lane| (lane, A, 1)));
            let mut paid = [0u64; LANES];
            for permits in turns {
                let (lane, _, deliveries) = serve(&mut lanes, permits).expect("work waits");
                paid[lane as usize] += u64::from(deliveries) * PRICES[lane as usize];
                let (least, most) = (paid[1..].iter().min(), paid[1..].iter().max());
                let apart = most.zip(least).map_or(0, |(most, least)| most - least);
                prop_assert!(apart <= 200 * 8, "a turn of the dearest lane: {:?}", paid);
            }
        }

        #[test]
        fn a_flood_delays_another_tenant_by_one_round(
            flooding in 1u32..20, before in 0usize..50, quantum in 1u32..100, free in 1u32..200,
        ) {
            let permits = Permits { free, reserved: 0, quantum };
            let mut lanes = Lanes::new();
            for (tenant, key) in (0..flooding).flat_map(|tenant| (0..100).map(move |key| (tenant, key))) {
                lanes.offer(Priority::Normal, TenantId(100 + tenant), S, key);
            }
            (0..before).for_each(|_| { serve(&mut lanes, permits); });
            lanes.offer(Priority::Normal, A, S, 1);
            let mut waited = 0;
            while let Some((_, tenant, deliveries)) = serve(&mut lanes, permits) && tenant != A {
                waited += deliveries;
                prop_assert!(waited <= flooding * quantum, "{} of {} tenants", waited, flooding);
            }
        }

        /// Any history: critical work first, no tenant twice, nothing lost, nothing made up.
        #[test]
        fn nothing_is_lost_and_critical_is_first(
            steps in proptest::collection::vec((0u8..8, 0u8..4, 0u32..4, 0u32..6, permits()), 0..300),
        ) {
            let mut lanes = Lanes::new();
            let (mut waiting, mut out) = (BTreeSet::new(), Vec::<Turn<u32>>::new());
            for (what, lane, tenant, key, permits) in steps {
                let (lane, tenant) = (Priority::from_stored(lane), TenantId(tenant));
                let (stream, item) = (stream_of(key), (lane as u8, tenant, key));
                match what {
                    0..=2 => {
                        let expected = if waiting.insert(item) { Offered::Taken } else { Offered::Known };
                        prop_assert_eq!(lanes.offer(lane, tenant, stream, key), expected);
                    }
                    3 => prop_assert_eq!(lanes.retire(lane, tenant, stream, &key), waiting.remove(&item)),
                    4..=5 => {
                        let is_out = |lane: u8, tenant, key| {
                            let place = (lane, tenant, stream_of(key));
                            out.iter().any(|turn| (turn.lane as u8, turn.tenant, turn.stream) == place)
                        };
                        let free = waiting.iter().find(|(lane, tenant, key)| !is_out(*lane, *tenant, *key));
                        let turn = lanes.next(permits, &NO_BOUND);
                        prop_assert_eq!(turn.is_some(), free.is_some());
                        if let Some(turn) = turn {
                            prop_assert!((1..=permits.free).contains(&turn.deliveries_max));
                            let critical = free.is_some_and(|(lane, ..)| *lane == 0);
                            prop_assert_eq!(critical, turn.lane == Priority::Critical);
                            prop_assert!(turn.keys.is_sorted() && !turn.keys.is_empty());
                            for key in &turn.keys {
                                prop_assert!(!is_out(turn.lane as u8, turn.tenant, *key));
                                prop_assert!(waiting.remove(&(turn.lane as u8, turn.tenant, *key)));
                            }
                            out.push(turn);
                        }
                    }
                    _ => if !out.is_empty() {
                        let mut turn = out.remove(key as usize % out.len());
                        let used = key.min(turn.deliveries_max);
                        let done = if what == 6 { key as usize % turn.keys.len() } else { turn.keys.len() };
                        turn.keys.drain(..done);
                        let left = turn.keys.iter().map(|key| (turn.lane as u8, turn.tenant, *key));
                        waiting.extend(left);
                        lanes.charge(turn, used);
                    }
                }
                prop_assert_eq!(lanes.len(), waiting.len());
                prop_assert_eq!(lanes.ahead(Priority::Low), waiting.len());
            }
        }
    }
}
