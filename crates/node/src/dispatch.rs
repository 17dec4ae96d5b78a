//! Dispatch: which parcel is planned next.
//!
//! Comes from: shards, as offers of work and timers once they are durable, and all that waits in their tables after a
//! start. Does: asks each channel's pace for permits first, then lanes and tenants for whose turn it is, and starts the
//! parcel. Goes to: `deliver`, and back with what was used.
//!
//! What must never happen: a parcel without permits; work that is forgotten because a queue in memory was full. What
//! does not fit is found again in the tables.

use crate::bell::Bell;
use crate::core::Core;
use crate::deliver;
use fantail_machine::shard::Offer;
use fantail_machine::tables::ledger::{self, ParcelId};
use fantail_machine::tables::work::{self, WorkId};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Millis, PartitionId, ShardNo, TenantId};
use fantail_rules::lanes::{Lanes, Offered, Permits, Rest, Turn};
use fantail_rules::limits::PARCEL_MEMBERS_MAX;
use fantail_rules::outlook::{Outlook, Speed};
use fantail_rules::pacing::{Call, Concurrency, News, Pace, Rate};
use fantail_rules::priority::Priority;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{info, warn};

/// Rows that are read at once.
const FOUND_MAX: usize = 1_024;
/// What one channel may have in flight, to begin with and at most.
const CONCURRENCY: Concurrency = Concurrency { start: 4_000, ceiling: 16_000 };
/// Rates are the providers' business; until one has its own, none is near this.
const RATE: Rate = Rate { per_second: 2_000_000, burst: 50_000 };
/// One in so many places is kept for critical work.
const RESERVED_SHARE: u32 = 8;

/// Something that can be planned. The oldest event first, whatever round it is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Job {
    arrival: Arrival,
    pub shard: ShardNo,
    pub what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum What {
    Work(WorkId),
    Wake { parcel: ParcelId, due: Millis },
}

pub struct Dispatch {
    state: Mutex<State>,
    bell: Bell,
}

struct State {
    channels: BTreeMap<ChannelKind, Way>,
    shards: BTreeMap<ShardNo, Waiting>,
}

/// One channel.
struct Way {
    lanes: Lanes<Job>,
    pace: Pace,
    in_flight: u32,
    speed: Speed,
    /// Deliveries of a turn, on average, in sixteenths.
    per_turn: u64,
}

/// What waits in the tables of a shard.
#[derive(Default)]
struct Waiting {
    /// Look for work that was not offered.
    has_more_work: bool,
    /// The earliest timer that nobody was woken by.
    due: Option<Millis>,
    /// Timers that were offered and are not done.
    woken: BTreeSet<(Millis, ParcelId)>,
}

/// A parcel to plan, with its permits.
pub struct Start {
    pub channel: ChannelKind,
    pub turn: Turn<Job>,
}

impl Dispatch {
    pub fn new(shards: impl Iterator<Item = ShardNo>, now: Millis) -> Self {
        let way = || Way {
            lanes: Lanes::new(),
            pace: Pace::new(RATE, CONCURRENCY, now),
            in_flight: 0,
            speed: Speed::default(),
            per_turn: 16,
        };
        let kinds = ChannelKind::ALL.into_iter().filter(|kind| *kind != ChannelKind::InApp);
        let waiting = || Waiting { has_more_work: true, due: Some(Millis(0)), ..Waiting::default() };
        let state = State {
            channels: kinds.map(|kind| (kind, way())).collect(),
            shards: shards.map(|shard| (shard, waiting())).collect(),
        };
        Self { state: Mutex::new(state), bell: Bell::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a shard has to send since its last batch.
    pub fn offer(&self, shard: ShardNo, offers: &[Offer]) {
        if offers.is_empty() {
            return;
        }
        let mut state = self.state();
        for offer in offers {
            match *offer {
                Offer::Work { work, lane } => state.offer_work(shard, work, lane),
                Offer::Timer(timer) => {
                    let waiting = state.shards.entry(shard).or_default();
                    waiting.due = Some(waiting.due.map_or(timer.due, |due| due.min(timer.due)));
                }
            }
        }
        drop(state);
        self.bell.ring();
    }

    /// A turn was planned: so many deliveries were allowed.
    pub fn planned(&self, start: Start, sends: u32, more: bool) -> u32 {
        let Start { channel, turn } = start;
        let (job, most) = (turn.key, turn.deliveries_max);
        let mut state = self.state();
        if let What::Wake { parcel, due } = job.what
            && !more
            && let Some(waiting) = state.shards.get_mut(&job.shard)
        {
            waiting.woken.remove(&(due, parcel));
        }
        let way = state.channels.get_mut(&channel).expect("a turn comes from a channel");
        let used = sends.min(most);
        way.pace.put_back(most - used);
        way.in_flight -= most - used;
        way.per_turn = way.per_turn - way.per_turn / 8 + u64::from(used) * 2;
        way.lanes.charge(turn, used, if more { Rest::More } else { Rest::Done });
        drop(state);
        self.bell.ring();
        used
    }

    /// Calls have ended.
    pub fn ended(&self, channel: ChannelKind, now: Millis, calls: &[Call]) {
        let mut state = self.state();
        let way = state.channels.get_mut(&channel).expect("calls are made by a channel");
        for call in calls {
            match way.pace.ended(now, *call) {
                Some(News::Opened { until }) => {
                    warn!(channel = channel.name(), until = %until, "provider does not answer, breaker opened");
                }
                Some(News::Closed) => info!(channel = channel.name(), "provider answers again"),
                None => {}
            }
        }
        way.in_flight = way.in_flight.saturating_sub(calls.len() as u32);
        way.speed.add(now, calls.len() as u64);
        drop(state);
        self.bell.ring();
    }

    /// How a channel is doing for a lane in which so many events of a tenant wait; not all of them are known here.
    pub fn outlook(
        &self,
        channel: ChannelKind,
        lane: Priority,
        waiting: u64,
        now: Millis,
    ) -> Option<Outlook> {
        let state = self.state();
        let way = state.channels.get(&channel)?;
        let turns = waiting.max(way.lanes.ahead(lane) as u64);
        Some(Outlook {
            rest_ms: way.pace.ready_at(now).map_or(0, |at| at.since(now)),
            ahead: turns.saturating_mul(way.per_turn) / 16 + u64::from(way.in_flight),
            per_second: way.speed.per_second(now),
        })
    }

    /// Deliveries that are under way, by channel.
    pub fn in_flight(&self) -> Vec<(ChannelKind, u32)> {
        self.state().channels.iter().map(|(kind, way)| (*kind, way.in_flight)).collect()
    }

    /// What can be started now, and when to look again.
    fn next(&self, wall: Millis, now: Millis) -> (Vec<Start>, Option<Millis>) {
        let mut state = self.state();
        let (mut starts, mut again) = (Vec::new(), None::<Millis>);
        for (channel, way) in &mut state.channels {
            while let Some(turn) = way.next(now) {
                starts.push(Start { channel: *channel, turn });
            }
            let ready_at = way.pace.ready_at(now).filter(|_| way.has_work());
            again = earlier(again, ready_at.map(|at| at.max(now.plus(1))));
        }
        for waiting in state.shards.values() {
            again = earlier(again, waiting.due.map(|due| now.plus(due.since(wall).max(1))));
        }
        (starts, again)
    }

    /// Shards whose tables should be looked at.
    fn due(&self, wall: Millis) -> Vec<(ShardNo, bool)> {
        let mut state = self.state();
        let mut found = Vec::new();
        let has_room = state.channels.values().all(|way| way.lanes.len() < FOUND_MAX);
        for (shard, waiting) in &mut state.shards {
            let is_due = waiting.due.is_some_and(|due| due <= wall);
            let wants_work = waiting.has_more_work && has_room;
            if is_due || wants_work {
                waiting.has_more_work &= !wants_work;
                found.push((*shard, wants_work));
            }
        }
        found
    }
}

fn earlier(one: Option<Millis>, other: Option<Millis>) -> Option<Millis> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl State {
    fn offer_work(&mut self, shard: ShardNo, work: WorkId, lane: Priority) {
        let job = Job { arrival: work.arrival, shard, what: What::Work(work) };
        if self.put(work.channel, lane, work.tenant, job) == Offered::Full
            && let Some(waiting) = self.shards.get_mut(&shard)
        {
            waiting.has_more_work = true;
        }
    }

    fn put(&mut self, channel: ChannelKind, lane: Priority, tenant: TenantId, job: Job) -> Offered {
        match self.channels.get_mut(&channel) {
            Some(way) => way.lanes.offer(lane, tenant, job),
            None => Offered::Known,
        }
    }
}

impl Way {
    fn has_work(&self) -> bool {
        self.lanes.len() > 0
    }

    /// Permits first, then whose turn it is.
    fn next(&mut self, now: Millis) -> Option<Turn<Job>> {
        if !self.has_work() {
            return None;
        }
        let free = self.pace.permits(now, PARCEL_MEMBERS_MAX);
        let places = self.pace.concurrency();
        let open = places.saturating_sub(places / RESERVED_SHARE).saturating_sub(self.in_flight);
        let reserved = free - free.min(open);
        let quantum = PARCEL_MEMBERS_MAX;
        let Some(turn) = self.lanes.next(Permits { free, reserved, quantum }) else {
            self.pace.put_back(free);
            return None;
        };
        self.pace.put_back(free - turn.deliveries_max);
        self.in_flight += turn.deliveries_max;
        Some(turn)
    }
}

/// Starts parcels until the node stops.
pub async fn run(core: Arc<Core>) {
    while !core.root.is_closed() {
        look(&core);
        let (starts, again) = core.dispatch.next(core.ports.clock.wall(), core.ports.clock.monotonic());
        for start in starts {
            core.ports.points.reach("dispatch.started");
            let parcel = deliver::run(core.clone(), start);
            core.ports.tasks.spawn("parcel", Box::pin(parcel));
        }
        let until = again.map(|at| core.ports.tasks.sleep_until(at));
        core.dispatch.bell.wait(until).await;
    }
}

/// Brings what is due, and work that was not offered, out of the tables.
fn look(core: &Core) {
    let wall = core.ports.clock.wall();
    for (shard, wants_work) in core.dispatch.due(wall) {
        let found = core.read(PartitionId::Shard(shard), |view| {
            let works = if wants_work { work::all(view.tables(), None, FOUND_MAX)? } else { Vec::new() };
            let due = ledger::timers(view.tables(), Millis(0), wall, FOUND_MAX)?;
            let later = ledger::timers(view.tables(), wall, Millis(u64::MAX - 1), 1)?;
            Ok((works, due, later))
        });
        let Ok((works, due, later)) = found else { return };
        let mut state = core.dispatch.state();
        let has_all = due.len() < FOUND_MAX;
        for timer in due {
            let is_new = {
                let waiting = state.shards.entry(shard).or_default();
                waiting.woken.insert((timer.due, timer.parcel))
            };
            let parcel = timer.parcel;
            let job = Job { arrival: parcel.arrival, shard, what: What::Wake { parcel, due: timer.due } };
            if is_new && state.put(parcel.channel, timer.lane, parcel.tenant, job) == Offered::Full {
                let waiting = state.shards.entry(shard).or_default();
                waiting.woken.remove(&(timer.due, parcel));
            }
        }
        let has_more_work = works.len() == FOUND_MAX;
        for (work, row) in works {
            state.offer_work(shard, work, row.terms.lane);
        }
        let waiting = state.shards.entry(shard).or_default();
        waiting.has_more_work |= has_more_work;
        let next = later.first().map(|timer| timer.due);
        // What did not fit is looked for again in a moment.
        waiting.due = if has_all { next } else { Some(wall.plus(50)) };
    }
}
