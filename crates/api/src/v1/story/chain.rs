//! The part of the story that is about channels which wait for others: for what, for how long, and how it came out.

use super::step;
use crate::time;
use fantail_node::ask::{ChannelKind, ChannelSet, DeliveryNote, DeliveryState, DeliveryView, Explanation};
use fantail_rules::chain::{Cause, Spared, WAITING};
use fantail_rules::policy::{self, Condition};
use fantail_wire::notification::Step;
use serde_json::json;

/// What a channel waits for, if it is a step of a chain.
pub(super) fn awaits(found: &Explanation, channel: ChannelKind) -> Option<Step> {
    let of = found.chain.step(channel)?;
    let previous = found.chain.previous(channel);
    let (name, others) = (channel.name(), names(previous));
    let text = match (of.when, previous.is_empty()) {
        (Condition::NotSeen, _) => {
            let seconds = of.after_seconds;
            format!(
                "{name}: a fallback, for users who have not seen it {seconds} s after {}",
                or_inbox(previous)
            )
        }
        (Condition::NoReceipt | Condition::Failed, true) => {
            format!("{name}: a fallback with nothing before it")
        }
        (Condition::NoReceipt, false) => {
            format!("{name}: a fallback, if nobody says within {} s that {others} arrived", of.after_seconds)
        }
        (Condition::Failed, false) => format!("{name}: a fallback, if {others} fails"),
    };
    let inputs = json!({
        "when": of.when.name(),
        "afterSeconds": (of.when != Condition::Failed).then_some(of.after_seconds),
        "after": previous.iter().map(ChannelKind::name).collect::<Vec<_>>(),
    });
    Some(step("fallback", Some(channel), None, text, inputs))
}

/// What a note says that tells why a step was tried; `None` if it is about something else.
pub(super) fn tried(found: &Explanation, channel: ChannelKind, note: &DeliveryNote) -> Option<Step> {
    let cause = Cause::parse(&note.code).filter(|_| note.state == DeliveryState::Intent)?;
    let of = found.chain.step(channel)?;
    let previous = found.chain.previous(channel);
    let (name, others, by) = (channel.name(), names(previous), time::text(note.at));
    let taken_at = taken_at(found, previous).map(time::text);
    let taken = taken_at.as_ref().map_or_else(|| "was sent".to_owned(), |at| format!("was accepted at {at}"));
    let text = match cause {
        Cause::NoReceipt => format!("{others} {taken}, nobody said by {by} that it arrived, so {name}"),
        Cause::NotSeen => format!("the user had not seen it by {by}, so {name}"),
        Cause::Failed if previous.is_empty() => format!("nothing goes before it, so {name}"),
        Cause::Failed => format!("{others} did not reach the user{}, so {name}", why(found, previous)),
    };
    let inputs = json!({
        "because": cause.word(),
        "acceptedAt": taken_at,
        "afterSeconds": of_seconds(of, cause),
    });
    Some(step("fallback", Some(channel), Some(by), text, inputs))
}

/// Where a step stands that was not tried.
pub(super) fn stands(found: &Explanation, channel: ChannelKind, one: &DeliveryView) -> Option<String> {
    let before = names(found.chain.before(channel));
    if let Some(spared) = Spared::parse(&one.code).filter(|_| one.state == DeliveryState::Suppressed) {
        let why = match spared {
            Spared::Arrived => format!("it arrived by {before}"),
            Spared::Seen => "the user has seen it".to_owned(),
            Spared::Sent => format!("{before} was sent, and did not fail"),
            Spared::Elsewhere => "a digest tells of it, or something newer".to_owned(),
        };
        return Some(format!("not needed ({}): {why}", one.code));
    }
    if one.state != DeliveryState::Deferred || one.code != WAITING {
        return None;
    }
    let due = time::text(one.due);
    let others = names(found.chain.previous(channel));
    Some(match found.expires_at == Some(one.due) {
        true => format!("waits ({WAITING}) to hear what becomes of {others}, until {due} at most"),
        false => format!("waits ({WAITING}): its turn comes at {due}, unless the user is reached by then"),
    })
}

fn of_seconds(of: policy::Step, cause: Cause) -> Option<u32> {
    match cause {
        Cause::NoReceipt | Cause::NotSeen => Some(of.after_seconds),
        Cause::Failed => None,
    }
}

fn names(channels: ChannelSet) -> String {
    let names: Vec<&str> = channels.iter().map(ChannelKind::name).collect();
    match names.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => (*only).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

fn or_inbox(channels: ChannelSet) -> String {
    if channels.is_empty() { "it was in the inbox".to_owned() } else { names(channels) }
}

fn of_channels(found: &Explanation, channels: ChannelSet) -> impl Iterator<Item = &DeliveryView> {
    let of = found.deliveries.iter().filter(move |(channel, _)| channels.contains(*channel));
    of.flat_map(|(_, deliveries)| deliveries)
}

/// When a provider first took it by one of these channels.
fn taken_at(found: &Explanation, channels: ChannelSet) -> Option<fantail_rules::ids::Millis> {
    let notes = of_channels(found, channels).flat_map(|one| &one.notes);
    notes.filter(|note| note.state == DeliveryState::Accepted).map(|note| note.at).min()
}

/// What became of it by these channels, in a word each.
fn why(found: &Explanation, channels: ChannelSet) -> String {
    let mut words: Vec<String> = of_channels(found, channels)
        .map(|one| match one.code.is_empty() {
            true => one.state.public_word().to_owned(),
            false => format!("{}: {}", one.state.public_word(), one.code),
        })
        .collect();
    words.dedup();
    if words.is_empty() { " (nobody is there)".to_owned() } else { format!(" ({})", words.join("; ")) }
}
