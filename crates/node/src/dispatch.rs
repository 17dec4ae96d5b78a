//! Dispatch: which parcels are planned next.
//!
//! Comes from: shards, as offers of work and timers once they are durable, and all that waits in their tables after a
//! start. Does: asks each channel's pace for permits first, then lanes and tenants for whose turn it is, and starts the
//! parcel. Goes to: `deliver`, and back with what was used.
//!
//! What must never happen: a parcel without permits; work or a timer that is forgotten because a queue in memory was
//! full, or because it was looked at too early; work that overtakes older work of the same tenant. What was not begun is found
//! again in the tables, page by page (`scan`) and place by place (`overflow`), so that a provider that takes nothing hides
//! nobody else's.

mod overflow;
mod scan;
mod state;
mod way;

use crate::ask::Refusal;
use crate::backlog::ChannelBacklog;
use crate::backoff::Backoff;
use crate::bell::Bell;
use crate::core::Core;
use crate::deliver;
use fantail_machine::shard::Offer;
use fantail_machine::shard::serve::Job;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::ids::{Arrival, Millis, ShardNo, TenantId};
use fantail_rules::knobs::Knobs;
use fantail_rules::lanes::Turn;
use fantail_rules::outlook::Outlook;
use fantail_rules::pacing::{Call, News};
use fantail_rules::priority::Priority;
use overflow::{Place, Refill};
use scan::TableScan;
use state::{Look, State, Waiting, earlier};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{info, warn};
use way::Way;

/// Whether a tenant has room at limits of its own again is asked after this.
const ROOM_AGAIN_MS: u64 = 20;

/// How many deliveries of a tenant a channel can have under way.
type PlacesOf<'a> = dyn Fn(ChannelKind, TenantId) -> u32 + 'a;

/// Something to do. The oldest event first, whatever round it is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Task {
    arrival: Arrival,
    pub job: Job,
}

pub struct Dispatch {
    state: Mutex<State>,
    bell: Bell,
    /// Each turn and each parcel holds a clone until it has ended.
    under_way: UnderWay,
}

/// How often a clock that is not believed is looked at.
const HOLD_LOOK_MS: u64 = 1_000;

/// Held by what is under way.
pub type UnderWay = Arc<()>;

/// What to plan next, with its permits. The stream of a turn is a shard.
pub struct Start {
    pub channel: ChannelKind,
    pub turn: Turn<Task>,
    pub under_way: UnderWay,
}

impl Start {
    #[must_use]
    pub fn shard(&self) -> ShardNo {
        ShardNo(self.turn.stream)
    }

    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        self.turn.keys.iter().map(|task| task.job).collect()
    }
}

impl Dispatch {
    pub fn new(shards: impl Iterator<Item = ShardNo>, now: Millis, knobs: Knobs) -> Self {
        let kinds = ChannelKind::ALL.into_iter().filter(|kind| *kind != ChannelKind::InApp);
        let waiting = || {
            let mut waiting = Waiting::default();
            waiting.begin_anew();
            waiting
        };
        let shards: BTreeMap<ShardNo, Waiting> = shards.map(|shard| (shard, waiting())).collect();
        let state = State {
            channels: kinds.map(|kind| (kind, Way::new(now, knobs, shards.len()))).collect(),
            shards,
            page: knobs.dispatch_page,
            is_draining: false,
        };
        Self { state: Mutex::new(state), bell: Bell::default(), under_way: Arc::default() }
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
                Offer::Timer(timer) => state.shards.entry(shard).or_default().offer_timer(timer),
                // `todos`, `digests` and `bulk` have them.
                Offer::Todo(_) | Offer::Directory(_) | Offer::Window { .. } | Offer::Walk => {}
            }
        }
        drop(state);
        self.bell.ring();
    }

    /// A turn was planned: its first jobs came to this, the others were not looked at. Returns how many permits it used.
    pub fn planned(&self, start: Start, came: &[Came]) -> u32 {
        let shard = start.shard();
        let Start { channel, mut turn, .. } = start;
        assert!(came.len() <= turn.keys.len(), "a turn does what it was given");
        let sends = came.iter().fold(0u32, |sum, came| sum.saturating_add(came.sends));
        let mut state = self.state();
        for (task, came) in turn.keys.iter().zip(came) {
            state.planned(shard, task.job, *came);
        }
        let works = came.len() as u64;
        let mut came = came.iter();
        turn.keys.retain(|_| came.next().is_none_or(|came| came.more));
        let way = state.channels.get_mut(&channel).expect("a turn comes from a channel");
        let used = way.planned(turn, works, sends);
        drop(state);
        self.bell.ring();
        used
    }

    /// Calls of a tenant have ended.
    pub fn ended(&self, channel: ChannelKind, tenant: TenantId, now: Millis, calls: &[Call]) {
        if calls.is_empty() {
            return;
        }
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
        way.release(tenant, calls.len() as u32);
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
        let works = waiting.max(way.lanes.ahead(lane) as u64);
        Some(Outlook {
            rest_ms: way.pace.ready_at(now).map_or(0, |at| at.since(now)),
            ahead: works.saturating_mul(way.per_work) / 16 + u64::from(way.in_flight),
            per_second: way.speed.per_second(now),
        })
    }

    /// What waits in each channel.
    pub fn backlog(&self, now: Millis) -> Vec<ChannelBacklog> {
        self.state().channels.iter().map(|(kind, way)| way.backlog(*kind, now)).collect()
    }

    /// Whether bulk sends should wait, as others have much before them on one of these channels.
    fn is_contended(&self, channels: ChannelSet, places: &PlacesOf<'_>) -> bool {
        let state = self.state();
        let mut channels = state.channels.iter().filter(|(channel, _)| channels.contains(**channel));
        channels.any(|(channel, way)| way.is_contended(&asked_once(*channel, places)))
    }

    /// Something is on its way.
    pub fn is_busy(&self) -> bool {
        self.state().channels.values().any(|way| way.in_flight > 0)
    }

    /// Deliveries that are under way, by channel.
    pub fn in_flight(&self) -> Vec<(ChannelKind, u32)> {
        self.state().channels.iter().map(|(kind, way)| (*kind, way.in_flight)).collect()
    }

    /// Starts nothing more: what began before this returns is counted by [`Self::under_way`]. What waits is found by the next
    /// start.
    pub fn drain(&self) {
        self.state().is_draining = true;
    }

    /// Everything that waits in the tables is looked at from the beginning: what was kept back may go on.
    pub fn look_anew(&self) {
        let mut state = self.state();
        state.shards.values_mut().for_each(Waiting::begin_anew);
        drop(state);
        self.bell.ring();
    }

    /// Turns and parcels whose outcomes are not durable yet.
    pub fn under_way(&self) -> usize {
        Arc::strong_count(&self.under_way) - 1
    }

    /// What can be started now, and when to look again. `places` is how many deliveries of a tenant a channel can have under
    /// way.
    fn next(&self, wall: Millis, now: Millis, places: &PlacesOf<'_>) -> (Vec<Start>, Option<Millis>) {
        let mut state = self.state();
        if state.is_draining {
            return (Vec::new(), None);
        }
        let (mut starts, mut again) = (Vec::new(), None::<Millis>);
        for (channel, way) in &mut state.channels {
            let places = asked_once(*channel, places);
            while let Some(turn) = way.next(now, &places) {
                starts.push(Start { channel: *channel, turn, under_way: self.under_way.clone() });
            }
            // If it is not the pace that holds work back, turns that are out come back and say so.
            let ready_at = way.pace.ready_at(now).filter(|_| way.is_held_back);
            again = earlier(again, ready_at.map(|at| at.max(now.plus(1))));
            let room_at = way.waits_for_room.then(|| now.plus(ROOM_AGAIN_MS));
            again = earlier(again, room_at);
        }
        for waiting in state.shards.values() {
            again = earlier(again, waiting.wakes_at().map(|at| now.plus(at.since(wall).max(1))));
        }
        (starts, again)
    }

    /// Shards whose tables should be looked at, for what and from where on.
    fn due(&self, wall: Millis) -> Vec<(ShardNo, Look)> {
        let mut state = self.state();
        let State { channels, shards, .. } = &mut *state;
        let mut found = Vec::new();
        // What is offered while the tables are read is not forgotten: it says again when to look.
        let is_now = |at: &mut Option<Millis>| at.take_if(|at| *at <= wall).is_some();
        for (shard, waiting) in shards {
            let has_room = |(channel, lane, tenant): Place| {
                channels.get(&channel).is_some_and(|way| way.lanes.has_room(lane, tenant, shard.0))
            };
            let look = Look {
                work: is_now(&mut waiting.look_at).then_some(waiting.work),
                timers: is_now(&mut waiting.due).then(|| waiting.timers_from()),
                refill: waiting.overflows.next(wall, has_room),
                late: waiting.late.next(wall, has_room),
                beginning: waiting.beginnings,
            };
            if look.work.is_some() {
                waiting.offered_ahead.clear();
            }
            if look.is_for_something() {
                found.push((*shard, look));
            }
        }
        share_out(channels, &mut found);
        found
    }

    /// Reads what is due. A shard that cannot be read is read again later, and holds up no other one.
    fn look(&self, wall: Millis, mut read: impl FnMut(ShardNo, Look) -> Result<TableScan, Refusal>) {
        for (shard, look) in self.due(wall) {
            let found = read(shard, look);
            let mut state = self.state();
            let is_current =
                state.shards.get(&shard).is_some_and(|waiting| waiting.beginnings == look.beginning);
            match found {
                // Everything was begun anew meanwhile.
                Ok(_) if !is_current => {}
                Ok(found) => state.found(shard, look, &found, wall),
                Err(refusal) => {
                    warn!(%shard, %refusal, "cannot read what waits to be sent, trying again");
                    state.shards.entry(shard).or_default().not_read(look, wall);
                }
            }
        }
    }
}

/// The places of tenants in a channel, each asked about once: it costs a look at all accounts of the tenant.
fn asked_once<'a>(channel: ChannelKind, places: &'a PlacesOf<'_>) -> impl Fn(TenantId) -> u32 + use<'a> {
    let known = RefCell::new(BTreeMap::new());
    move |tenant| *known.borrow_mut().entry(tenant).or_insert_with(|| places(channel, tenant))
}

/// What is free in a channel is for all shards that have something to put there, in equal parts.
fn share_out(channels: &BTreeMap<ChannelKind, Way>, looks: &mut [(ShardNo, Look)]) {
    let mut claims = BTreeMap::<ChannelKind, usize>::new();
    for channel in looks.iter().flat_map(|(_, look)| look.refilled_channels()) {
        *claims.entry(channel).or_default() += 1;
    }
    let share = |(channel, ..): Place| {
        let free = channels.get(&channel).map_or(0, Way::free);
        free.div_ceil(claims.get(&channel).copied().unwrap_or(1)).max(1)
    };
    for (_, look) in looks {
        look.refill = look.refill.map(|refill| Refill { most: share(refill.place), ..refill });
        look.late = look.late.map(|late| Refill { most: share(late.place), ..late });
    }
}

/// What came of planning a job.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// So many deliveries were allowed.
    pub sends: u32,
    pub more: bool,
    /// It is a timer that is not due yet by the leader's time.
    pub is_early: bool,
}

fn places_of(core: &Core, channel: ChannelKind, tenant: TenantId) -> u32 {
    core.ports.channels.get(&channel).map_or(u32::MAX, |channel| channel.places(tenant))
}

/// Whether bulk sends should wait, as others have much before them on one of these channels.
pub fn is_contended(core: &Core, channels: ChannelSet) -> bool {
    core.dispatch.is_contended(channels, &|channel, tenant| places_of(core, channel, tenant))
}

/// Starts parcels until the node stops. First of all, what an earlier leader may have sent becomes unknown.
pub async fn run(core: Arc<Core>) {
    // What is allowed and not answered when a process dies is unknown to the next one.
    let per_channel = way::CONCURRENCY.ceiling;
    info!(per_channel, "at most so many deliveries are ambiguous after a crash");
    let mut backoff = Backoff::of("dispatch");
    for shard in core.shards.keys() {
        loop {
            match deliver::take_over(&core, *shard).await {
                Ok(0) => break,
                Ok(parcels) => {
                    warn!(%shard, parcels, "parcels were under way, what came of them is unknown");
                    break;
                }
                // Nothing will be sent.
                Err(Refusal::Stopped { .. }) => return,
                Err(refusal) => backoff.wait(&core.ports, &core.meter, &refusal).await,
            }
        }
    }
    let mut is_held = false;
    while !core.root.is_closed() {
        if core.pause.is_on() {
            core.dispatch.bell.wait(None).await;
            continue;
        }
        let was_held = std::mem::replace(&mut is_held, core.clock.hold().is_some());
        if was_held && !is_held {
            core.dispatch.look_anew();
        }
        scan::look(&core);
        // Before the wall is asked: time that passes in between is not slept over.
        let looked_at = core.ports.clock.monotonic();
        let places = |channel, tenant| places_of(&core, channel, tenant);
        let (starts, again) = core.dispatch.next(core.ports.clock.wall(), looked_at, &places);
        for start in starts {
            core.ports.points.reach("dispatch.started");
            let turn = deliver::run(core.clone(), start);
            core.ports.tasks.spawn_required("turn", Box::pin(turn));
        }
        // A clock that comes back wakes nobody.
        let held_until = is_held.then(|| looked_at.plus(HOLD_LOOK_MS));
        let until = earlier(again, held_until).map(|at| core.ports.tasks.sleep_until(at));
        core.dispatch.bell.wait(until).await;
    }
}

#[cfg(test)]
mod tests;
