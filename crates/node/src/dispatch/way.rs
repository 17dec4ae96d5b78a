//! One channel of the dispatcher: its lanes, its pace, and what it has in flight.
//!
//! Comes from: `dispatch`, under its lock. Decides: how many permits there are, by `rules::pacing`, and whose turn it is, by
//! `rules::lanes`. Goes back to `dispatch`, which starts the parcel.

use super::Task;
use crate::backlog::ChannelBacklog;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::Millis;
use fantail_rules::knobs::Knobs;
use fantail_rules::lanes::{Lanes, Permits, Turn};
use fantail_rules::limits::PARCEL_MEMBERS_MAX;
use fantail_rules::outlook::Speed;
use fantail_rules::pacing::{Concurrency, Pace, Rate};

/// What one channel may have in flight, to begin with and at most.
pub const CONCURRENCY: Concurrency = Concurrency { start: 8_000, ceiling: 16_000 };
/// Rates are the providers' business; until one has its own, none is near this.
const RATE: Rate = Rate { per_second: 2_000_000, burst: 50_000 };
/// One in so many places is kept for critical work.
const RESERVED_SHARE: u32 = 8;

/// One channel.
pub struct Way {
    pub lanes: Lanes<Task>,
    pub pace: Pace,
    pub in_flight: u32,
    /// The last turn was refused for want of permits, not of work.
    pub is_held_back: bool,
    pub speed: Speed,
    /// Deliveries that a work has in a turn, on average, in sixteenths.
    pub per_work: u64,
}

impl Way {
    pub fn new(now: Millis, knobs: Knobs) -> Self {
        Self {
            lanes: Lanes::bounded(knobs.lane_works, knobs.lane_works_per_tenant),
            pace: Pace::new(RATE, CONCURRENCY, now),
            in_flight: 0,
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

    fn has_work(&self) -> bool {
        self.lanes.len() > 0
    }

    /// Permits first, then whose turn it is.
    pub fn next(&mut self, now: Millis) -> Option<Turn<Task>> {
        self.is_held_back = false;
        if !self.has_work() {
            return None;
        }
        let free = self.pace.permits(now, PARCEL_MEMBERS_MAX);
        self.is_held_back = free == 0;
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

    /// A turn comes back: so many of its works had so many deliveries, and what it still holds is not done.
    pub fn planned(&mut self, turn: Turn<Task>, works: u64, sends: u32) -> u32 {
        let used = sends.min(turn.deliveries_max);
        let unused = turn.deliveries_max - used;
        self.pace.put_back(unused);
        self.in_flight -= unused;
        if let Some(per_work) = (u64::from(used) * 2).checked_div(works) {
            self.per_work = self.per_work - self.per_work / 8 + per_work;
        }
        self.lanes.charge(turn, used);
        used
    }
}
