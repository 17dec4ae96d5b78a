//! What a digest says: by the tenant's template if there is one, else in a few words of our own.
//!
//! Comes from: the events that a digest tells of. Decides: only the words; who is named and how many are counted is
//! `rules::digest`'s. Goes to: frozen bytes, one JSON object for the channel of the digest.
//!
//! The template is the one with the id `digest-` and the category, or else `digest`. Its variables: `count`, `actors` (at
//! most three, newest first), `others`, `headline`, `category`, `eventIds` (the newest).

use crate::ask::{EventView, ListAsk, Recipient, Refusal};
use crate::content::generic;
use crate::core::Core;
use crate::templates;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::digest::{Item, Summary, headline, summarise};
use fantail_rules::ids::{ListId, TenantId};
use fantail_rules::ulid::Ulid;
use fantail_templates::{NotificationFacts, RenderAsk, TenantFacts, UserFacts};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::warn;

/// Ids that a message carries: a push message has room for few. All of them are kept with the digest.
const IDS_MAX: usize = 32;

pub struct Teller<'a> {
    pub core: &'a Arc<Core>,
    pub tenant: TenantId,
    pub channel: ChannelKind,
    pub reader: &'a Recipient,
}

/// Something that a digest tells of, if it can still be read.
pub type Told = (Ulid, Option<Arc<EventView>>);

impl Teller<'_> {
    pub fn tell(&self, digest: Option<Ulid>, told: &[Told]) -> Result<Vec<u8>, Refusal> {
        if told.iter().any(|(_, view)| view.as_ref().is_some_and(|view| view.is_sensitive)) {
            return Ok(generic(self.channel).to_vec());
        }
        let (summary, names) = self.summarise(told)?;
        let category =
            told.iter().rev().find_map(|(_, view)| view.as_ref().map(|view| view.category.clone()));
        let variables = variables(&summary, &names, &category.unwrap_or_default());
        let id = digest.map(|digest| digest.to_string()).unwrap_or_default();
        match self.by_template(&id, &variables) {
            Some(content) => Ok(content),
            None => Ok(in_our_words(self.channel, &variables).to_string().into_bytes()),
        }
    }

    /// Who did how much. An actor is known by the list of those who follow.
    fn summarise(&self, told: &[Told]) -> Result<(Summary, Vec<String>), Refusal> {
        let mut names: BTreeMap<ListId, String> = BTreeMap::new();
        let mut items = Vec::with_capacity(told.len());
        for (event, view) in told {
            let actor = match view.as_ref().and_then(|view| view.actor.clone()) {
                None => None,
                Some(name) => {
                    let list = self.core.list_id(self.tenant, &ListAsk::FollowersOf(name.clone()))?;
                    names.insert(list, name);
                    Some(list)
                }
            };
            items.push(Item { event: *event, actor });
        }
        let summary = summarise(&items);
        let named = summary.actors.iter().filter_map(|actor| names.get(actor).cloned()).collect();
        Ok((summary, named))
    }

    /// `None` if there is no template for it, or none that can say it: then our own words do.
    fn by_template(&self, id: &str, variables: &Value) -> Option<Vec<u8>> {
        let category = variables["category"].as_str().unwrap_or_default();
        let named = [format!("digest-{category}"), "digest".to_owned()];
        let found = named.iter().find_map(|name| templates::in_force(self.core, self.tenant, name));
        let compiled = found?;
        let control = self.core.control.now();
        let tenant = control.tenants.get(&self.tenant)?;
        let attributes: Value = serde_json::from_slice(&self.reader.attributes).unwrap_or_default();
        let locale = match self.reader.locale.as_str() {
            "" => compiled.default_locale(),
            locale => locale,
        };
        let zone = self.reader.zone.name().unwrap_or("UTC");
        let rendered =
            compiled.variables(variables).map_err(|wrong| format!("{wrong:?}")).and_then(|variables| {
                let rendered = compiled.render(&RenderAsk {
                    channel: templates::channel_of(self.channel),
                    locale,
                    variant: None,
                    variables: &variables,
                    user: Some(UserFacts { id: "", locale, zone, attributes: &attributes }),
                    notification: NotificationFacts { id },
                    tenant: TenantFacts { id: &tenant.slug, name: &tenant.name },
                    now: self.core.ports.clock.wall(),
                });
                rendered.map_err(|failed| format!("{failed:?}"))
            });
        match rendered {
            Ok(rendered) => Some(with_digest(rendered.bytes, variables)),
            Err(failed) => {
                warn!(tenant = %self.tenant, template = compiled.id(), failed, "digest template cannot be rendered");
                None
            }
        }
    }
}

fn variables(summary: &Summary, names: &[String], category: &str) -> Value {
    let newest = summary.events.iter().rev().take(IDS_MAX).map(ToString::to_string);
    json!({
        "count": summary.count,
        "actors": names,
        "others": summary.others,
        "headline": headline(summary, names.first().map(String::as_str)),
        "category": category,
        "eventIds": newest.collect::<Vec<_>>(),
    })
}

/// What a template says, and beside it the digest's own fields.
fn with_digest(rendered: Vec<u8>, variables: &Value) -> Vec<u8> {
    match serde_json::from_slice(&rendered) {
        Ok(Value::Object(mut fields)) => {
            fields.insert("digest".to_owned(), variables.clone());
            Value::Object(fields).to_string().into_bytes()
        }
        Ok(_) | Err(_) => rendered,
    }
}

fn in_our_words(channel: ChannelKind, variables: &Value) -> Value {
    let (headline, count) = (&variables["headline"], variables["count"].as_u64().unwrap_or_default());
    let body = match variables["category"].as_str().unwrap_or_default() {
        "" => format!("{count} new notifications"),
        category => format!("{count} new in {category}"),
    };
    match channel {
        ChannelKind::Push | ChannelKind::InApp | ChannelKind::Webhook => {
            json!({"title": headline, "body": body, "digest": variables})
        }
        ChannelKind::Email => json!({"subject": headline, "text": body, "digest": variables}),
        ChannelKind::Sms => {
            json!({"body": format!("{}: {body}", headline.as_str().unwrap_or_default())})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: AGG-05
    // fixes: usability C9
    #[test]
    fn a_template_says_the_text_and_the_digest_its_fields() {
        let variables = json!({"count": 2, "eventIds": ["a", "b"]});
        let shown = with_digest(br#"{"title":"t","data":{"k":1}}"#.to_vec(), &variables);
        let shown: Value = serde_json::from_slice(&shown).expect("JSON");
        assert_eq!(shown, json!({"title": "t", "data": {"k": 1}, "digest": variables}));
        for channel in [ChannelKind::Push, ChannelKind::Email] {
            assert_eq!(in_our_words(channel, &variables)["digest"], variables, "{channel:?}");
        }
    }
}
