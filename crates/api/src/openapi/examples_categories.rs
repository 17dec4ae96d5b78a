//! Examples about categories.

use super::Example;
use super::examples::{examples, text};
use fantail_wire::category::{
    CalendarPolicy, Categories, Category, CategoryPolicy, DefaultPreferences, DigestPolicy, FallbackStep,
    FallbackWhen, Overflow, StormPolicy, ThrottlePolicy, WeeklyTime,
};
use fantail_wire::event::{Channel, Priority};
use fantail_wire::preference::{Day, Preferences};

const TIME: &str = "2026-01-31T12:00:00.000Z";

fn policy() -> CategoryPolicy {
    CategoryPolicy {
        mandatory_channels: vec![Channel::Email],
        blocked_channels: vec![Channel::Webhook],
        overflow: Overflow::Digest,
        priority: Some(Priority::Normal),
        digest: Some(DigestPolicy {
            window_seconds: 300,
            min_count: Some(2),
            max_count: Some(1_000),
            leading: Some(1),
            collapse_key: Some(text("{{ type }}:{{ object }}")),
        }),
        storm: Some(StormPolicy { window_seconds: 60, threshold: 20 }),
        calendar: Some(CalendarPolicy {
            daily: Some(text("08:00")),
            weekly: Some(WeeklyTime { day: Day::Mon, time: text("08:00") }),
        }),
        throttle: Some(ThrottlePolicy { per_seconds: 60, key: Some(text("{{ actor }}")) }),
        fallback: vec![FallbackStep {
            channel: Channel::Sms,
            when: FallbackWhen::NoReceipt,
            after_seconds: Some(30),
        }],
    }
}

fn category() -> Category {
    Category { name: text("likes"), version: 3, updated_at: text(TIME), policy: policy() }
}

examples! {
    CategoryPolicy => policy();
    Category => category();
    Categories => Categories { categories: vec![category()] };
    DefaultPreferences => DefaultPreferences { version: 4, preferences: Preferences::example() };
}
