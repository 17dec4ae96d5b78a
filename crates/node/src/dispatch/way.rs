//! One channel of the dispatcher: its lanes, its pace, and what it has in flight.
//!
//! Comes from: `dispatch`, under its lock. Decides: how many permits there are, by `rules::pacing`, and whose turn it is, by
//! `rules::lanes`. Goes back to `dispatch`, which starts the parcel.

use super::Task;
use crate::backlog::ChannelBacklog;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::knobs::Knobs;
use fantail_rules::lanes::{Lanes, Permits, Turn};
use fantail_rules::limits::PARCEL_MEMBERS_MAX;
use fantail_rules::outlook::Speed;
use fantail_rules::pacing::{Concurrency, Pace, Rate};
use fantail_rules::priority::Priority;
use std::cell::Cell;
use std::collections::BTreeMap;

/// What one channel may have in flight, to begin with and at most.
pub const CONCURRENCY: Concurrency = Concurrency { start: 8_000, ceiling: 16_000 };
/// Rates are the providers' business; until one has its own, none is near this.
const RATE: Rate = Rate { per_second: 2_000_000, burst: 50_000 };
/// One in so many places is kept for critical work.
pub const RESERVED_SHARE: u32 = 16;
/// While work of others waits that have room at their own limits, a tenant has one in so many of the places that are not
/// reserved: what hangs at one tenant's provider leaves places to the others.
pub const TENANT_SHARE: u32 = 4;
/// A tenant that is alone leaves one in so many, so that the next one can begin at once. No more: with what is kept for critical
/// work it has nine tenths of the channel.
pub const SPARE_SHARE: u32 = 32;
/// A tenant waits until so many of its places are free, or one in so many of them: a parcel has its price.
const STEP_MAX: u32 = 64;
const STEP_SHARE: u32 = 16;

/// While others have so many works before them, bulk sends wait.
const CONTENDED_WORKS: usize = 64;

/// One channel.
pub struct Way {
    pub lanes: Lanes<Task>,
    /// Works that may wait in them.
    works_max: usize,
    pub pace: Pace,
    pub in_flight: u32,
    /// The same by tenant; those that have none are not in it.
    held: BTreeMap<TenantId, u32>,
    /// A tenant waits for room at a limit of its own, and nothing says when there is.
    pub waits_for_room: bool,
    /// The last turn was refused for want of permits, not of work.
    pub is_held_back: bool,
    pub speed: Speed,
    /// Deliveries that a work has in a turn, on average, in sixteenths.
    pub per_work: u64,
}

impl Way {
    /// What a tenant may have waiting in a lane is shared by so many shards.
    pub fn new(now: Millis, knobs: Knobs, shards: usize) -> Self {
        let per_shard_max = (knobs.lane_works_per_tenant / shards.max(1)).max(1);
        Self {
            lanes: Lanes::bounded(knobs.lane_works, per_shard_max),
            works_max: knobs.lane_works,
            pace: Pace::new(RATE, CONCURRENCY, now),
            in_flight: 0,
            held: BTreeMap::new(),
            waits_for_room: false,
            speed: Speed::default(),
            per_work: 16,
            is_held_back: false,
        }
    }

    pub fn backlog(&self, channel: ChannelKind, now: Millis) -> ChannelBacklog {
        let left = (self.lanes.len() as u64).saturating_mul(self.per_work) / 16 + u64::from(self.in_flight);
        let rest_ms = self.pace.ready_at(now).map_or(0, |at| at.since(now));
        let working_ms = match left {
            0 => Some(0),
            left => left.saturating_mul(1_000).checked_div(self.speed.per_second(now)),
        };
        let drain_ms = working_ms.map(|ms| if left > 0 { rest_ms + ms } else { 0 });
        ChannelBacklog { channel, works: self.lanes.by_lane(), drain_ms }
    }

    /// How many more works may wait.
    pub fn free(&self) -> usize {
        self.works_max.saturating_sub(self.lanes.len())
    }

    fn has_work(&self) -> bool {
        self.lanes.len() > 0
    }

    /// Permits first, then whose turn it is. `places` is how many deliveries of a tenant the channel can have under way.
    pub fn next(&mut self, now: Millis, places: &dyn Fn(TenantId) -> u32) -> Option<Turn<Task>> {
        (self.is_held_back, self.waits_for_room) = (false, false);
        if !self.has_work() {
            return None;
        }
        let free = self.pace.permits(now, PARCEL_MEMBERS_MAX);
        self.is_held_back = free == 0;
        let all = self.pace.concurrency();
        let unreserved = all.saturating_sub(all / RESERVED_SHARE);
        let reserved = free - free.min(unreserved.saturating_sub(self.in_flight));
        let permits = Permits { free, reserved, quantum: PARCEL_MEMBERS_MAX };
        let held = |tenant: TenantId| self.held.get(&tenant).copied().unwrap_or(0);
        let own_room = |tenant: TenantId| room_in(places(tenant), held(tenant));
        // Below that no turn is cut by its share, whoever waits.
        let is_crowded = self.in_flight + PARCEL_MEMBERS_MAX > share_of_tenant(unreserved, true);
        let tenants = is_crowded.then(|| self.lanes.tenants_waiting(|tenant| own_room(tenant) > 0));
        let (waits_for_room, tenants) = (Cell::new(false), tenants.unwrap_or_default());
        let room = |tenant: TenantId| {
            let share = share_of_tenant(unreserved, tenants.is_beside(tenant));
            let room = own_room(tenant);
            waits_for_room.set(waits_for_room.get() || room == 0);
            room.min(share.saturating_sub(held(tenant)))
        };
        let turn = self.lanes.next(permits, &room);
        self.waits_for_room = waits_for_room.get();
        let Some(turn) = turn else {
            self.pace.put_back(free);
            return None;
        };
        self.pace.put_back(free - turn.deliveries_max);
        self.in_flight += turn.deliveries_max;
        *self.held.entry(turn.tenant).or_default() += turn.deliveries_max;
        Some(turn)
    }

    /// Whether so much waits in the lanes before that of bulk that bulk sends should wait. What waits for limits of its own
    /// tenant does not count: bulk sends of others are not in its way.
    pub fn is_contended(&self, places: &dyn Fn(TenantId) -> u32) -> bool {
        if self.lanes.ahead(Priority::Normal) < CONTENDED_WORKS {
            return false;
        }
        let all = self.pace.concurrency();
        let unreserved = all.saturating_sub(all / RESERVED_SHARE);
        let held = |tenant: TenantId| self.held.get(&tenant).copied().unwrap_or(0);
        let has_own_room = |tenant: TenantId| room_in(places(tenant), held(tenant)) > 0;
        let tenants = self.lanes.tenants_waiting(has_own_room);
        let has_room = |tenant: TenantId| {
            let has_share = !tenants.is_beside(tenant) || held(tenant) < share_of_tenant(unreserved, true);
            has_share && has_own_room(tenant)
        };
        self.lanes.before(Priority::Low, CONTENDED_WORKS, &has_room) >= CONTENDED_WORKS
    }

    /// Calls of a tenant have ended, or never began.
    pub fn release(&mut self, tenant: TenantId, calls: u32) {
        self.in_flight = self.in_flight.saturating_sub(calls);
        if let Some(held) = self.held.get_mut(&tenant) {
            *held = held.saturating_sub(calls);
            if *held == 0 {
                self.held.remove(&tenant);
            }
        }
    }

    /// How many places of this channel a tenant has.
    #[cfg(test)]
    pub fn held(&self, tenant: TenantId) -> u32 {
        self.held.get(&tenant).copied().unwrap_or(0)
    }

    /// A turn comes back: so many of its works had so many deliveries, and what it still holds is not done.
    pub fn planned(&mut self, turn: Turn<Task>, works: u64, sends: u32) -> u32 {
        let used = sends.min(turn.deliveries_max);
        let unused = turn.deliveries_max - used;
        self.pace.put_back(unused);
        self.release(turn.tenant, unused);
        if let Some(per_work) = (u64::from(used) * 2).checked_div(works) {
            self.per_work = self.per_work - self.per_work / 8 + per_work;
        }
        self.lanes.charge(turn, used);
        used
    }
}

/// How many places one tenant may have.
fn share_of_tenant(unreserved: u32, others_wait: bool) -> u32 {
    let share = if others_wait { unreserved / TENANT_SHARE } else { unreserved - unreserved / SPARE_SHARE };
    share.max(1)
}

/// How many of a tenant's own places are free, if it is worth a parcel.
fn room_in(places: u32, held: u32) -> u32 {
    let free = places.saturating_sub(held);
    let step = (places / STEP_SHARE).clamp(1, STEP_MAX);
    if held > 0 && free < step { 0 } else { free }
}
