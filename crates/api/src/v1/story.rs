//! The story of one delivery, as an operator would tell it.
//!
//! Comes from: what the node knows about one recipient. Decides: only the words. Goes to: the explain API and the
//! command line.

mod chain;

use crate::time;
use crate::v1::notifications::shown;
use fantail_node::ask::{
    ADDRESS_SUPPRESSED, COLLECTED, ChannelKind, DeliveryState, DeliveryView, Explanation, Halt, Phase,
    REDRIVEN, RenderedView, SINGLY,
};
use fantail_rules::gates::Reason;
use fantail_rules::retry::retries_max;
use fantail_rules::schedule::Appointment;
use fantail_rules::ulid::Ulid;
use fantail_rules::wall::show_minute;
use fantail_wire::notification::{Explanation as Told, Step};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub fn tell(found: &Explanation) -> Told {
    let mut steps = match &found.digest_of {
        Some(events) => vec![written(found, events)],
        None => vec![accepted(found)],
    };
    // To others it was not told.
    let is_told = found.is_in_inbox || found.deliveries.iter().any(|(_, deliveries)| !deliveries.is_empty());
    steps.extend(found.rendered.as_ref().filter(|_| is_told).map(rendered));
    steps.extend(wishes(found));
    if found.digest_of.is_none() {
        steps.extend(taken(found));
    }
    steps.extend(found.halted.map(halted));
    for (channel, deliveries) in &found.deliveries {
        steps.extend(chain::awaits(found, *channel));
        if deliveries.is_empty() {
            steps.push(not_reached(found, *channel));
        }
        deliveries.iter().for_each(|one| delivery(found, *channel, one, &mut steps));
    }
    let text = steps.iter().map(line).collect::<Vec<_>>().join("\n");
    let (event_id, notification_id) = (found.event.to_string(), found.name.clone());
    Told { event_id, notification_id, user_id: found.user.clone(), steps, text }
}

fn line(step: &Step) -> String {
    match &step.at {
        Some(at) => format!("{at}  {}", step.text),
        None => format!("{:24}  {}", "", step.text),
    }
}

fn step(name: &str, channel: Option<ChannelKind>, at: Option<String>, text: String, inputs: Value) -> Step {
    let inputs = match inputs {
        Value::Object(inputs) => inputs,
        _ => Map::new(),
    };
    Step { step: name.to_owned(), channel: channel.map(shown), at, text, inputs }
}

fn accepted(found: &Explanation) -> Step {
    let channels: Vec<&str> = found.channels.iter().map(ChannelKind::name).collect();
    let to = if channels.is_empty() {
        "for inboxes only".to_owned()
    } else {
        format!("for {}", channels.join(", "))
    };
    let text = format!(
        "accepted as {} in the {} lane, category {}, {to}",
        found.event,
        found.priority.name(),
        found.category
    );
    let inputs = json!({
        "lane": found.priority.name(),
        "category": found.category,
        "channels": channels,
        "class": found.class.map(|class| class.name()),
        "expiresAt": found.expires_at.map(time::text),
    });
    step("accepted", None, Some(time::text(found.accepted_at)), text, inputs)
}

/// Ids of events that the story of a digest names, the newest of them.
const DIGEST_EVENTS_SHOWN: usize = 32;

/// How a digest came to be.
fn written(found: &Explanation, events: &[Ulid]) -> Step {
    let channels: Vec<&str> = found.channels.iter().map(ChannelKind::name).collect();
    let text = format!(
        "written as the digest {} of {} events, in the {} lane, category {}, for {}",
        found.event,
        events.len(),
        found.priority.name(),
        found.category,
        channels.join(", ")
    );
    let newest: Vec<String> =
        events.iter().rev().take(DIGEST_EVENTS_SHOWN).map(ToString::to_string).collect();
    let inputs = json!({
        "lane": found.priority.name(),
        "category": found.category,
        "channels": channels,
        "class": found.class.map(|class| class.name()),
        "expiresAt": found.expires_at.map(time::text),
        "count": events.len(),
        "eventIds": newest,
    });
    step("digest", None, Some(time::text(found.accepted_at)), text, inputs)
}

/// What a template said: in which language by which channel, and to whom of those who are told different things.
fn rendered(made: &RenderedView) -> Step {
    let mut by_locale: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (kind, locale) in &made.locales {
        by_locale.entry(locale).or_default().push(kind.name());
    }
    let locales: Vec<String> =
        by_locale.iter().map(|(locale, kinds)| format!("in {locale} for {}", kinds.join(", "))).collect();
    let variant = made.variant.as_ref().map(|variant| format!(", variant {variant}")).unwrap_or_default();
    let text = format!("version {} of {}, {}{variant}", made.version, made.template, locales.join(", "));
    let locales: Map<String, Value> =
        made.locales.iter().map(|(kind, locale)| (kind.name().to_owned(), json!(locale))).collect();
    let inputs = json!({
        "templateId": made.template,
        "version": made.version,
        "variant": made.variant,
        "locales": locales,
    });
    step("rendered", None, None, text, inputs)
}

/// What was asked for beside the content.
fn wishes(found: &Explanation) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(due) = found.due {
        let text = format!("scheduled for {}: not sent, and in no inbox, before", time::text(due));
        steps.push(step("scheduled", None, None, text, json!({"scheduledAt": time::text(due)})));
    }
    steps.extend(found.appointment.map(appointed));
    if let Some(key) = &found.collapse_key {
        let text = format!("collapse key {key}: on a device it takes the place of an earlier one");
        steps.push(step("collapse", None, None, text, json!({"collapseKey": key})));
    }
    if found.is_sensitive {
        let text = "sensitive: channels carry a generic text, the content is in the inbox alone";
        steps.push(step("sensitive", None, None, text.to_owned(), json!({"sensitive": true})));
    }
    steps
}

/// When recipients are told by their own clocks.
fn appointed(appointment: Appointment) -> Step {
    let (text, inputs) = match appointment {
        Appointment::At(local) => {
            let text = format!("told when the recipient's clock shows {local}, and in no inbox");
            (text, json!({"sendAtLocal": local.to_string()}))
        }
        Appointment::OffPeak(window) => {
            let (start, end) = (window.times().start_minute, window.times().end_minute);
            let (start, end) = (show_minute(start), show_minute(end));
            let text = format!("told from {start} to {end} on the recipient's clock, and in no inbox");
            (text, json!({"offPeak": {"start": start, "end": end}}))
        }
    };
    step("appointment", None, None, text, inputs)
}

fn taken(found: &Explanation) -> Vec<Step> {
    if found.phase == Phase::Scheduled {
        let text = "waits for its time".to_owned();
        return vec![step("held", None, None, text, Value::Null)];
    }
    let text = match (found.arrival, found.is_in_inbox) {
        (None, _) => "the user's shard has not taken it, or nobody there is concerned".to_owned(),
        (Some(arrival), true) => format!("taken as arrival {arrival}, and in the inbox of {}", found.user),
        (Some(arrival), false) => {
            format!("taken as arrival {arrival}, but not in the inbox of {}", found.user)
        }
    };
    vec![step("taken", None, None, text, json!({"arrival": found.arrival.map(|arrival| arrival.0)}))]
}

fn halted(halt: Halt) -> Step {
    let text = match halt {
        Halt::Cancelled => "cancelled: what was not sent stays unsent",
        Halt::Retracted => "retracted: what was not sent stays unsent",
    };
    step("halted", None, None, text.to_owned(), Value::Null)
}

fn not_reached(found: &Explanation, channel: ChannelKind) -> Step {
    let text = if found.is_in_inbox || found.arrival.is_none() {
        format!("{}: no delivery yet, or {} has no endpoint there", channel.name(), found.user)
    } else if found.appointment.is_some() {
        // No inbox tells who it was for.
        format!("{}: no delivery yet, or {} is not to be told there", channel.name(), found.user)
    } else {
        format!("{}: {} is not in the audience", channel.name(), found.user)
    };
    step("gate", Some(channel), None, text, json!({"gate": "reachability"}))
}

fn delivery(found: &Explanation, channel: ChannelKind, one: &DeliveryView, steps: &mut Vec<Step>) {
    let name = channel.name();
    let endpoint =
        if one.device == 0 { "no endpoint".to_owned() } else { format!("endpoint {}", one.device) };
    let text = format!(
        "{name}, {endpoint}: planned at place {} of the parcel that begins at user {}",
        one.position, one.parcel_first
    );
    let inputs = json!({"parcel": one.parcel_first.0, "position": one.position, "round": one.round});
    steps.push(step("parcel", Some(channel), Some(time::text(one.begun_at)), text, inputs));
    for note in &one.notes {
        if let Some(tried) = chain::tried(found, channel, note) {
            steps.push(tried);
            continue;
        }
        if let Some(reason) = note.gate {
            let text = format!("{name}, {endpoint}: put off ({}): {}", note.code, wish(reason));
            let inputs = json!({"gate": note.code, "decision": "deferred"});
            steps.push(step("gate", Some(channel), Some(time::text(note.at)), text, inputs));
            continue;
        }
        if note.code == REDRIVEN {
            let text = format!("{name}, {endpoint}: redriven by an operator, its retries begin again");
            steps.push(step("redriven", Some(channel), Some(time::text(note.at)), text, Value::Null));
            continue;
        }
        let mut text = format!("{name}, {endpoint}: {}", answered(note.state));
        if !note.code.is_empty() {
            text.push_str(&format!(" ({})", note.code));
        }
        if !note.message.is_empty() {
            text.push_str(&format!(": {}", note.message));
        }
        if !note.provider_id.is_empty() {
            text.push_str(&format!(", as {}", note.provider_id));
        }
        let inputs =
            json!({"state": note.state.public_word(), "code": note.code, "providerId": note.provider_id});
        steps.push(step("attempt", Some(channel), Some(time::text(note.at)), text, inputs));
    }
    let inputs = json!({
        "state": one.state.public_word(),
        "code": one.code,
        "retries": one.retries,
        "resends": one.resends,
        "dueAt": (one.due.0 > 0).then(|| time::text(one.due)),
    });
    let stands = chain::stands(found, channel, one).unwrap_or_else(|| stands(found, one));
    let text = format!("{name}, {endpoint}: {stands}");
    steps.push(step("state", Some(channel), None, text, inputs));
}

/// What an attempt came to.
fn answered(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Accepted => "the provider took it",
        DeliveryState::Delivered => "it arrived",
        DeliveryState::Failed => "the provider refused it for good",
        DeliveryState::Deferred => "not taken, to be tried again",
        DeliveryState::Unknown => "no answer: it may or may not have been sent",
        DeliveryState::Dead => "given up, now a dead letter",
        DeliveryState::Expired => "not taken, and its time is over",
        DeliveryState::Unconfirmed => "given up without knowing",
        DeliveryState::Planned
        | DeliveryState::Intent
        | DeliveryState::Suppressed
        | DeliveryState::Cancelled
        | DeliveryState::Folded
        | DeliveryState::Superseded => "decided",
    }
}

/// Where it stands now.
fn stands(found: &Explanation, one: &DeliveryView) -> String {
    // A code that only says the state again is no reason.
    let is_reason = !one.code.is_empty() && one.code != one.state.public_word();
    let code = if is_reason { format!(" ({})", one.code) } else { String::new() };
    let due = time::text(one.due);
    match one.state {
        DeliveryState::Planned => "is planned".to_owned(),
        DeliveryState::Intent => "may be sent, and is being sent now".to_owned(),
        DeliveryState::Accepted => format!("sent: the provider has it, {}", tries(one)),
        DeliveryState::Delivered => "delivered".to_owned(),
        DeliveryState::Failed => format!("failed for good{code}"),
        DeliveryState::Suppressed => match Reason::parse(&one.code) {
            Some(reason) => format!("suppressed{code}: {}", wish(reason)),
            None if one.code == ADDRESS_SUPPRESSED => {
                format!("suppressed{code}: the address is on the suppression list")
            }
            None => format!("suppressed{code}: nothing was sent"),
        },
        DeliveryState::Deferred => match Reason::parse(&one.code) {
            Some(reason) => format!("waits{code}: {}; all gates are asked again at {due}", wish(reason)),
            None if one.code == COLLECTED && one.due.0 > 0 => {
                format!("waits to be sent together with others at {due}, or alone if they are too few")
            }
            None if one.code == COLLECTED => {
                "waits to be sent together with others: their window has ended, the digest is being written"
                    .to_owned()
            }
            None if one.code == SINGLY => "too few came to be told together: it is told alone now".to_owned(),
            None => format!("{}{code}, and will be tried again at {due}", failed(one)),
        },
        DeliveryState::Expired => format!("expired{code}: nothing is sent after its time to live"),
        DeliveryState::Cancelled => format!("called off{code}"),
        DeliveryState::Folded => format!("told as part of the digest {}", one.code),
        DeliveryState::Superseded => "a newer one took its place".to_owned(),
        DeliveryState::Unknown => {
            let class = found.class.map_or("", |class| class.name());
            format!("unknown{code}: evidence is awaited until {due}, then the policy for {class} decides")
        }
        DeliveryState::Unconfirmed if one.resends > 0 => {
            format!("unconfirmed{code}: perhaps sent, {}, and not sent any more", tries(one))
        }
        DeliveryState::Unconfirmed => format!("unconfirmed{code}: perhaps sent, and not sent again"),
        DeliveryState::Dead => {
            // The last failure asked for a retry that it did not get.
            let retries = one.retries.min(retries_max(found.priority));
            format!(
                "a dead letter{code}, {}: redrive or drop it",
                tries(&DeliveryView { retries, ..one.clone() })
            )
        }
    }
}

/// Why a gate objected.
fn wish(reason: Reason) -> &'static str {
    match reason {
        Reason::NoConsent => "the user has not agreed to this channel, or not any more",
        Reason::ChannelBlocked => "this category is not sent there",
        Reason::GlobalOff => "the user wants nothing at all",
        Reason::CategoryOff => "the user does not want this category",
        Reason::CategoryChannelOff => "the user wants this category elsewhere",
        Reason::ChannelOff => "the user wants nothing on this channel",
        Reason::QuietHours => "these are the user's quiet hours",
        Reason::QuietHoursNoZone => "the user has quiet hours, and nobody knows in which time zone",
        Reason::FrequencyCapped => "the user had enough on this channel for now",
        Reason::Throttled => "the user got one of its kind a moment ago",
        Reason::ProfileUnresolved => "what the user wants cannot be read",
        Reason::LocalTime => "the user's clock does not show the time yet",
        Reason::OffPeak => "these are not the hours at which it is told",
        Reason::EndpointPending => "the endpoint is not active yet: its address is being claimed",
    }
}

/// What was tried of something that waits for its next attempt: each failure has asked for one more.
fn failed(one: &DeliveryView) -> String {
    match one.retries.saturating_add(one.resends) {
        0 => "was put off before an attempt counted".to_owned(),
        1 => "the first attempt failed".to_owned(),
        more => format!("{more} attempts failed"),
    }
}

/// How often it was tried before it came to stand there. A resend follows an attempt that nobody answered.
fn tries(one: &DeliveryView) -> String {
    let retries = match one.retries {
        0 => "without a retry".to_owned(),
        1 => "after 1 retry".to_owned(),
        more => format!("after {more} retries"),
    };
    let tries = match (one.resends, one.retries) {
        (0, _) => retries,
        (1, 0) => "after 1 resend".to_owned(),
        (more, 0) => format!("after {more} resends"),
        (1, _) => format!("{retries} and 1 resend"),
        (more, _) => format!("{retries} and {more} resends"),
    };
    let is_redriven = one.notes.iter().any(|note| note.code == REDRIVEN);
    if is_redriven { format!("{tries} since it was redriven") } else { tries }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::{Millis, UserNo};

    fn waiting(retries: u8, resends: u8) -> DeliveryView {
        DeliveryView {
            device: 1,
            state: DeliveryState::Deferred,
            code: "503".to_owned(),
            retries,
            resends,
            due: Millis(0),
            parcel_first: UserNo(0),
            position: 0,
            round: 0,
            begun_at: Millis(0),
            notes: Vec::new(),
        }
    }

    // proves: TRK-06
    #[test]
    fn what_waits_says_how_many_attempts_failed() {
        for (retries, resends, expected) in [
            (0, 0, "was put off before an attempt counted"),
            (1, 0, "the first attempt failed"),
            (2, 0, "2 attempts failed"),
            (2, 1, "3 attempts failed"),
        ] {
            assert_eq!(failed(&waiting(retries, resends)), expected);
        }
    }
}
