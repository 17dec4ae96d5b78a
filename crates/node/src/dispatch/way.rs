//! One channel of the dispatcher: its lanes, its pace, and what it has in flight.
//!
//! Comes from: `dispatch`, under its lock. Decides: how many permits there are, by `rules::pacing`, and whose turn it is, by
//! `rules::lanes`. Goes back to `dispatch`, which starts the parcel.

use super::Job;
use crate::backlog::ChannelBacklog;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::Millis;
use fantail_rules::lanes::{Lanes, Permits, Turn};
use fantail_rules::limits::PARCEL_MEMBERS_MAX;
use fantail_rules::outlook::Speed;
use fantail_rules::pacing::{Concurrency, Pace, Rate};

/// What one channel may have in flight, to begin with and at most.
pub const CONCURRENCY: Concurrency = Concurrency { start: 4_000, ceiling: 16_000 };
/// Rates are the providers' business; until one has its own, none is near this.
const RATE: Rate = Rate { per_second: 2_000_000, burst: 50_000 };
/// One in so many places is kept for critical work.
const RESERVED_SHARE: u32 = 8;

/// One channel.
pub struct Way {
    pub lanes: Lanes<Job>,
    pub pace: Pace,
    pub in_flight: u32,
    /// The last turn was refused for want of permits, not of work.
    pub is_held_back: bool,
    pub speed: Speed,
    /// Deliveries of a turn, on average, in sixteenths.
    pub per_turn: u64,
}

impl Way {
    pub fn new(now: Millis) -> Self {
        Self {
            lanes: Lanes::new(),
            pace: Pace::new(RATE, CONCURRENCY, now),
            in_flight: 0,
            speed: Speed::default(),
            per_turn: 16,
            is_held_back: false,
        }
    }

    pub fn backlog(&self, channel: ChannelKind, now: Millis) -> ChannelBacklog {
        let left = (self.lanes.len() as u64).saturating_mul(self.per_turn) / 16 + u64::from(self.in_flight);
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
    pub fn next(&mut self, now: Millis) -> Option<Turn<Job>> {
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
}
