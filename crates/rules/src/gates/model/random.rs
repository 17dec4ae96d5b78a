//! Random users, messages and times, with what matters to the gates often enough.

use super::{CHANNELS, Category, FROM, Message, Night, SECONDS, Somebody, TimeWish, ZONES};
use proptest::prelude::*;

fn some_channels() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(CHANNELS.to_vec(), 0..=5)
}

fn a_category() -> impl Strategy<Value = Category> {
    let frequency = proptest::sample::select(vec!["immediate", "immediate", "daily_digest", "weekly_digest"]);
    (proptest::bool::weighted(0.8), proptest::option::of(some_channels()), frequency)
        .prop_map(|(enabled, channels, frequency)| Category { enabled, channels, frequency })
}

fn a_night() -> impl Strategy<Value = Night> {
    let time = || (0i8..24, proptest::sample::select(vec![0i8, 1, 30, 59]));
    let days = proptest::sample::subsequence(vec![1i8, 2, 3, 4, 5, 6, 7], 1..=7);
    let is_whole_day = proptest::bool::weighted(0.15);
    (time(), time(), days, is_whole_day, any::<bool>()).prop_map(
        |(start, end, days, is_whole_day, every_day)| {
            let days = if every_day { (1..=7).collect() } else { days };
            Night { start, end: if is_whole_day { start } else { end }, days }
        },
    )
}

pub fn somebody() -> impl Strategy<Value = Somebody> {
    let wishes = (proptest::bool::weighted(0.9), some_channels(), proptest::option::of(a_category()));
    let consents = (some_channels(), proptest::sample::subsequence(CHANNELS.to_vec(), 0..=2));
    let zone = proptest::option::weighted(0.9, proptest::sample::select(ZONES.to_vec()));
    let max = || proptest::option::of(1usize..6);
    let sent = proptest::collection::vec(0i64..2 * 86_400, 0..8);
    (wishes, consents, proptest::option::of(a_night()), zone, max(), max(), sent).prop_map(
        |((enabled, switched_off, category), (granted, withdrawn), quiet, zone, hour, day, sent)| {
            let granted = granted.into_iter().filter(|channel| !withdrawn.contains(channel)).collect();
            let (max_per_hour, max_per_day) = (hour, day);
            Somebody {
                enabled,
                switched_off,
                granted,
                withdrawn,
                quiet,
                zone,
                category,
                max_per_hour,
                max_per_day,
                sent,
            }
        },
    )
}

pub fn a_message() -> impl Strategy<Value = Message> {
    let channel = proptest::sample::select(CHANNELS.to_vec());
    let flags = (proptest::bool::weighted(0.2), any::<bool>(), any::<bool>());
    let few = || proptest::sample::subsequence(CHANNELS.to_vec(), 0..=1);
    let pace = proptest::option::of((1i64..5, 1i64..20_000));
    let wish = (0i64..2 * 86_400, proptest::option::weighted(0.3, a_time_wish()));
    let wish = (wish, proptest::bool::weighted(0.2));
    (channel, flags, few(), few(), a_category(), pace, wish).prop_map(
        |(
            channel,
            (critical, marketing, collects_overflow),
            mandatory,
            blocked,
            usual,
            pace,
            (wish, repeats),
        )| {
            Message {
                channel,
                critical,
                marketing,
                mandatory,
                blocked,
                collects_overflow,
                usual,
                pace,
                accepted_ago: wish.0,
                wish: wish.1,
                repeats,
            }
        },
    )
}

fn a_time_wish() -> impl Strategy<Value = TimeWish> {
    let time = (0i8..24, proptest::sample::select(vec![0i8, 1, 30, 59]));
    prop_oneof![
        (-600i64..4 * 1_440).prop_map(TimeWish::On),
        time.prop_map(TimeWish::Next),
        a_night().prop_map(TimeWish::OffPeak),
    ]
}

/// Half of them in a minute in which windows begin and end.
pub fn a_time() -> impl Strategy<Value = i64> {
    let minute = proptest::option::of(proptest::sample::select(vec![0i64, 1, 30, 59]));
    (2 * 86_400..SECONDS, minute).prop_map(|(second, minute)| match minute {
        Some(minute) => FROM + second - second % 3_600 + minute * 60 + second % 60,
        None => FROM + second,
    })
}
