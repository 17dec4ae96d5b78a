//! The metrics of what leaves the house: what is ambiguous, what came of deliveries, what waits, how long it took, how far bulk
//! sends are.

use fantail_api::telemetry::Text;
use fantail_node::health::Health;
use fantail_node::latency::BOUNDS_MS;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::priority::Priority;

/// The reason of deliveries that somebody complained about.
const COMPLAINED: &str = "complained";

pub fn write(text: &mut Text, health: &Health) {
    write_ambiguous(text, health);
    let name = "fantail_delivery_outcomes_total";
    text.family(name, "counter", "Deliveries that came to a state, by channel and reason");
    for (channel, state, reason, count) in health.outcomes.outcomes() {
        let labels = [("channel", channel.name()), ("state", state.public_word()), ("reason", reason)];
        text.sample(name, &labels, count);
    }
    write_states(text, health);
    let name = "fantail_fallbacks_total";
    text.family(name, "counter", "Channels that waited for others, by whether they were tried, and why");
    for (channel, result, because, count) in health.outcomes.fallbacks() {
        let labels = [("channel", channel.name()), ("result", result), ("because", because)];
        text.sample(name, &labels, count);
    }
    let name = "fantail_webhook_failures_total";
    text.family(name, "counter", "Attempts of webhooks to producers that failed, by reason");
    for (reason, count) in &health.webhook_failures {
        text.sample(name, &[("reason", reason)], *count);
    }
    write_backlog(text, health);
    write_bulk(text, health);
    let dead = "Dead letters that wait to be redriven or dropped";
    text.gauge("fantail_dead_letters", dead, health.dead_letters);
    let differ = "Tallies that are not what the ledgers say; more than 0 is a bug or damage";
    text.gauge("fantail_delivery_imbalance", differ, health.counters.imbalance);
    let name = "fantail_delivery_books_checked_total";
    text.family(name, "counter", "How often the tallies of a shard were recounted");
    text.sample(name, &[], health.counters.books_checked);
    let name = "fantail_delivery_seconds";
    text.family(name, "histogram", "From acceptance, or the time it was due, to the first answer, by lane");
    for (lane, waited) in Priority::ALL.iter().zip(&health.waited) {
        text.buckets(name, ("lane", lane.name()), &BOUNDS_MS, &waited.buckets, waited.sum_ms);
    }
}

/// What alerts count. All series are there from the start: the first event of a series that begins with it is never an
/// increase.
fn write_states(text: &mut Text, health: &Health) {
    let count = |is_one: &dyn Fn(ChannelKind, State, &str) -> bool| -> u64 {
        let outcomes = health.outcomes.outcomes();
        outcomes.filter(|(channel, state, reason, _)| is_one(*channel, *state, reason)).map(|one| one.3).sum()
    };
    let name = "fantail_delivery_states_total";
    text.family(name, "counter", "Deliveries that came to a state, by channel");
    for channel in ChannelKind::ALL {
        for state in State::ALL.into_iter().filter(|state| *state != State::Intent) {
            let labels = [("channel", channel.name()), ("state", state.public_word())];
            text.sample(name, &labels, count(&|of, is, _| of == channel && is == state));
        }
    }
    let name = "fantail_delivery_complaints_total";
    text.family(name, "counter", "Deliveries that their reader called spam, by channel");
    for channel in ChannelKind::ALL {
        let complained = count(&|of, _, reason| of == channel && reason == COMPLAINED);
        text.sample(name, &[("channel", channel.name())], complained);
    }
}

fn write_ambiguous(text: &mut Text, health: &Health) {
    let name = "fantail_delivery_ambiguous_total";
    text.family(name, "counter", "Deliveries that may have been sent, by what was done about it");
    for channel in ChannelKind::ALL {
        let (resent, unconfirmed) = health.outcomes.ambiguous(channel);
        for (resolved, count) in [("resent", resent), ("unconfirmed", unconfirmed)] {
            text.sample(name, &[("channel", channel.name()), ("resolved", resolved)], count);
        }
    }
}

fn write_backlog(text: &mut Text, health: &Health) {
    let backlog = &health.backlog;
    let name = "fantail_delivery_queue";
    text.family(name, "gauge", "Work that waits for its turn, by channel and lane");
    for one in &backlog.channels {
        for (lane, works) in Priority::ALL.iter().zip(one.works) {
            text.sample(name, &[("channel", one.channel.name()), ("lane", lane.name())], works);
        }
    }
    let name = "fantail_delivery_oldest_age_seconds";
    text.family(
        name,
        "gauge",
        "How long the oldest work waits that has members left to be looked at, by lane",
    );
    for (lane, ms) in Priority::ALL.iter().zip(backlog.oldest_ms) {
        text.sample(name, &[("lane", lane.name())], ms / 1_000);
    }
    let name = "fantail_delivery_drain_eta_seconds";
    text.family(name, "gauge", "When what waits will have been tried; left out while the speed is not known");
    for one in &backlog.channels {
        if let Some(ms) = one.drain_ms {
            text.sample(name, &[("channel", one.channel.name())], ms.div_ceil(1_000));
        }
    }
}

fn write_bulk(text: &mut Text, health: &Health) {
    let name = "fantail_bulk_jobs";
    text.family(name, "gauge", "Bulk sends that are walking over users, by state");
    for (state, count) in [("running", health.bulk.running), ("paused", health.bulk.paused)] {
        text.sample(name, &[("state", state)], count);
    }
    let counters = &health.counters;
    for (name, help, value) in [
        ("fantail_bulk_looked_at_total", "Users whom bulk sends looked at", counters.bulk_looked_at),
        ("fantail_bulk_members_total", "Users whom bulk sends passed on to be told", counters.bulk_members),
        (
            "fantail_bulk_skipped_total",
            "Users whom a segment chose and who want none of it or cannot be reached",
            counters.bulk_skipped,
        ),
    ] {
        text.family(name, "counter", help);
        text.sample(name, &[], value);
    }
}
