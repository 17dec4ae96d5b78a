//! Limits of one seed: today's numbers, or tiny ones with which every queue overflows and every page ends.
//!
//! Each group is tiny or not by itself, so that a page that ends meets a queue that does not, and the other way round.

use crate::chance::Chance;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::knobs::{Knobs, StepSizes};

/// Of a hundred seeds, so many have tiny limits.
const TINY_PERCENT: u64 = 40;

/// Which limits a run has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Draw {
    /// As the seed says.
    #[default]
    BySeed,
    Tiny,
    Today,
}

impl Draw {
    #[must_use]
    pub fn knobs(self, seed: u64) -> Knobs {
        let chance = Chance::of(seed, "knobs");
        let is_tiny = chance.percent(TINY_PERCENT);
        match self {
            Self::BySeed if is_tiny => tiny(&chance),
            Self::Tiny => tiny(&chance),
            Self::BySeed | Self::Today => Knobs::DEFAULT,
        }
    }

    /// How the command line says it.
    #[must_use]
    pub fn argument(self) -> &'static str {
        match self {
            Self::BySeed => "",
            Self::Tiny => " --knobs tiny",
            Self::Today => " --knobs today",
        }
    }
}

fn tiny(chance: &Chance) -> Knobs {
    let mut knobs = Knobs::DEFAULT;
    let mut group = |set: &dyn Fn(&mut Knobs)| {
        if chance.percent(75) {
            set(&mut knobs);
        }
    };
    group(&|knobs| {
        knobs.record_bytes = 1 << 10;
        // A record that forgets names each row by 16 bytes, events and keys.
        knobs.steps.forgotten_rows = 24;
    });
    group(&|knobs| (knobs.batch_records, knobs.batch_bytes) = (3, 2 << 10));
    group(&|knobs| knobs.queue_items = 8);
    group(&|knobs| knobs.queue_bytes = 8 << 10);
    group(&|knobs| knobs.tail_facts = 4);
    group(&|knobs| knobs.tail_bytes = 1 << 10);
    group(&|knobs| (knobs.take_facts, knobs.take_bytes) = (3, 512));
    group(&|knobs| (knobs.lane_works, knobs.lane_works_per_tenant) = (6, 4));
    group(&|knobs| knobs.dispatch_page = 3);
    group(&|knobs| (knobs.todos_held, knobs.todos_page) = (3, 2));
    group(&|knobs| {
        (knobs.replans_at_once, knobs.halts_at_once, knobs.erasures_at_once) = (1, 1, 1);
        (knobs.orphans_page, knobs.cancelled_page, knobs.recount_rows) = (2, 2, 3);
    });
    group(&|knobs| (knobs.replay_records, knobs.replay_bytes) = (3, 1 << 10));
    group(&|knobs| (knobs.audit_drafts, knobs.audit_draft_bytes) = (8, 1 << 10));
    group(&|knobs| {
        let steps = knobs.steps;
        knobs.steps = StepSizes {
            parcel_users_read: 3,
            parcel_users_scanned: 5,
            wake_members: 3,
            replan_ledgers: 2,
            halt_ledgers: 2,
            closed_windows: 2,
            window_items: 2,
            purge_works: ChannelKind::ALL.len() + 1,
            scan_users: 5,
            scan_members: 3,
            released_events: 1,
            ..steps
        };
    });
    group(&|knobs| {
        let steps = knobs.steps;
        knobs.steps = StepSizes {
            sweep_rows: 3,
            sweep_ledgers: 3,
            sweep_cost: 20,
            expired_pages: 1,
            expired_rows: 3,
            lapsed_pages: 2,
            aged_pages: 2,
            delisted_pages: 1,
            forgotten_rows: 3,
            forgotten_looked_at: 6,
            unsaid_rows: 3,
            wiped_rows: 7,
            ..steps
        };
    });
    knobs
}
