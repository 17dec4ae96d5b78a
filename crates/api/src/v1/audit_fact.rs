//! What an entry of the audit log says, as JSON.
//!
//! Comes from: `audit`. Goes to: readers. Names are frozen; a new kind of fact brings new ones.

use super::audit::hex;
use fantail_audit::fact::{Action, Consent, Fact};
use fantail_audit::member::{Commitment, Tally};
use serde_json::{Map, Value, json};

/// The name of the kind, and what it says.
pub fn tell(fact: &Fact) -> (&'static str, Map<String, Value>) {
    let (kind, value) = match fact {
        Fact::Action(fact) => ("action", action(fact)),
        Fact::Accepted(fact) => {
            let (event, key, body) = (fact.event.to_string(), hex(&fact.key), hex(&fact.body));
            ("accepted", json!({"eventId": event, "key": key, "body": body, "actor": fact.actor}))
        }
        Fact::Deduplicated(fact) => {
            ("deduplicated", json!({"eventId": fact.event.to_string(), "key": hex(&fact.key)}))
        }
        Fact::Parcel(fact) => (
            "parcel",
            json!({
                "eventId": fact.event.to_string(), "channel": fact.channel.name(), "round": fact.round,
                "members": members(&fact.members), "states": states(&fact.tally),
            }),
        ),
        Fact::Outcome(fact) => (
            "outcome",
            json!({
                "eventId": fact.event.to_string(), "channel": fact.channel.name(), "round": fact.round,
                "members": members(&fact.members), "states": states(&fact.tally),
            }),
        ),
        Fact::DeadLettered(fact) => (
            "deadLettered",
            json!({
                "eventId": fact.event.to_string(), "channel": fact.channel.name(), "round": fact.round,
                "reason": fact.reason, "members": members(&fact.members),
            }),
        ),
        Fact::Redriven(fact) => (
            "redriven",
            json!({
                "eventId": fact.event.to_string(), "channel": fact.channel.name(),
                "members": members(&fact.members), "actor": fact.actor,
            }),
        ),
        Fact::Cancelled(fact) => {
            ("cancelled", json!({"eventId": fact.event.to_string(), "actor": fact.actor}))
        }
        Fact::Erased(fact) => {
            let (pseudonym, receipt) = (fact.pseudonym.to_string(), fact.receipt.to_string());
            let (key, actor) = (fact.key.0, &fact.actor);
            ("erased", json!({"pseudonym": pseudonym, "key": key, "receipt": receipt, "actor": actor}))
        }
        Fact::Consent(fact) => ("consent", consent(fact, None)),
        Fact::ConsentBy(fact) => ("consent", consent(&fact.consent, Some(&fact.actor))),
        Fact::Endpoint(fact) => {
            let status = fact.status.map_or("gone", |status| status.name());
            let (pseudonym, endpoint) = (fact.pseudonym.to_string(), fact.device.0);
            (
                "endpoint",
                json!({"pseudonym": pseudonym, "endpoint": endpoint, "status": status, "actor": fact.actor}),
            )
        }
        Fact::Openings(fact) => ("openings", json!({"first": fact.first, "count": fact.veiled.len()})),
    };
    (kind, value.as_object().cloned().unwrap_or_default())
}

fn action(fact: &Action) -> Value {
    let digest = |digest: Option<fantail_ports::audit::Digest>| digest.map(|digest| digest.to_string());
    json!({
        "actor": fact.actor, "action": fact.action, "target": fact.target,
        "before": digest(fact.before), "after": digest(fact.after),
    })
}

/// `actor` is null in entries of versions that did not write it down.
fn consent(fact: &Consent, actor: Option<&str>) -> Value {
    json!({
        "pseudonym": fact.pseudonym.to_string(), "channel": fact.channel.name(), "given": fact.given,
        "version": fact.version.0, "actor": actor,
    })
}

fn members(members: &Commitment) -> Value {
    json!({"count": members.count, "root": members.root.to_string()})
}

fn states(tally: &Tally) -> Value {
    let count = |(state, count): (fantail_rules::attempt::State, u32)| {
        (state.public_word().to_owned(), Value::from(count))
    };
    Value::Object(tally.counts().map(count).collect())
}
