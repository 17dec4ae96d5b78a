//! What an event's category says about it, once and for all: what it belongs together with in a digest, and which channels
//! wait for which, and of what one is enough for a while.
//!
//! Comes from: acceptance, with what an event says. Decides: the key, by the template of the category's policy if there is
//! one, else by the event's own collapse key; nothing of it can be read back. Goes to: the terms of the delivery, and with
//! them to the shards, which compare numbers. A policy that is changed later does not change them.

use crate::ask::Refusal;
use crate::core::{Core, locked};
use fantail_rules::category::CategoryId;
use fantail_rules::ids::TenantId;
use fantail_rules::policy::Step;
use serde_json::Value;

/// What an event says, as far as keys can name it.
pub struct Facts<'a> {
    pub kind: &'a str,
    pub category: &'a str,
    pub actor: Option<&'a str>,
    pub source: &'a str,
    pub collapse_key: Option<&'a str>,
    /// As JSON, if it is.
    pub content: &'a [u8],
}

/// What the category says.
#[derive(Clone, Debug, Default)]
pub struct Ties {
    /// The same for those that are told as one.
    pub group: u64,
    /// What is tried after what.
    pub fallback: Vec<Step>,
    /// The same for those of which one is enough for a while, if there is a key for that.
    pub kind: Option<u64>,
}

pub fn of(core: &Core, tenant: TenantId, facts: &Facts<'_>) -> Result<Ties, Refusal> {
    let control = core.control.now();
    let policy = control.policies.of(tenant, CategoryId::of(facts.category));
    let template = policy.digest.as_ref().and_then(|digest| digest.collapse_key.as_ref());
    let key = match template {
        Some(template) => template.fill(|field| facts.field(field)),
        None => facts.collapse_key.unwrap_or_default().to_owned(),
    };
    let text = format!("digest\0{}\0{key}", facts.category);
    let throttle = policy.throttle.as_ref().and_then(|throttle| throttle.key.as_ref());
    let kind = throttle.map(|key| {
        let key = key.fill(|field| facts.field(field));
        number(core, tenant, &format!("throttle\0{}\0{key}", facts.category))
    });
    let (group, fallback) = (number(core, tenant, &text)?, policy.fallback.clone());
    Ok(Ties { group, fallback, kind: kind.transpose()? })
}

/// A number that tells nothing.
fn number(core: &Core, tenant: TenantId, text: &str) -> Result<u64, Refusal> {
    let hash = core.ports.keyring.digest(tenant, text.as_bytes()).map_err(locked)?;
    let [first, ..] = hash.as_chunks::<8>().0 else { return Ok(0) };
    Ok(u64::from_be_bytes(*first))
}

impl Facts<'_> {
    /// A field of the event itself, or else of its content, with dots between names.
    fn field(&self, name: &str) -> Option<String> {
        match name {
            "type" => Some(self.kind.to_owned()),
            "category" => Some(self.category.to_owned()),
            "actor" => self.actor.map(str::to_owned),
            "source" => Some(self.source.to_owned()),
            "collapseKey" => self.collapse_key.map(str::to_owned),
            other => {
                let content: Value = serde_json::from_slice(self.content).ok()?;
                match content.pointer(&format!("/{}", other.replace('.', "/")))? {
                    Value::String(text) => Some(text.clone()),
                    Value::Null => None,
                    value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                        Some(value.to_string())
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: AGG-01
    #[test]
    fn fields_are_the_events_own_or_of_its_content() {
        let facts = Facts {
            kind: "post.liked",
            category: "like",
            actor: Some("bob"),
            source: "/app",
            collapse_key: None,
            content: br#"{"title":"Hi","data":{"post":7,"none":null}}"#,
        };
        for (name, value) in [
            ("type", Some("post.liked")),
            ("category", Some("like")),
            ("actor", Some("bob")),
            ("source", Some("/app")),
            ("collapseKey", None),
            ("title", Some("Hi")),
            ("data.post", Some("7")),
            ("data.none", None),
            ("data.other", None),
        ] {
            assert_eq!(facts.field(name).as_deref(), value, "{name}");
        }
    }
}
