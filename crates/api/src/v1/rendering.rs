//! A template becomes the content of each recipient: rendered once, when the notification is accepted, and frozen.
//!
//! Comes from: `notifications`, with recipients resolved, and `events`, for all at once. Decides: which locale and variant
//! each recipient of a notification gets; an event has all of them, and its readers choose. The rest is the template's.
//! Goes to: `Node::notify` and `Node::post_events`, packed as editions.

use crate::problem::Problem;
use fantail_node::ask::{ChannelKind, ChannelSet, Recipient, TenantView};
use fantail_rules::ids::Millis;
use fantail_rules::limits::EVENT_CONTENT_BYTES_MAX;
use fantail_templates::limits::{FUEL_EVENT, FUEL_NOTIFICATION};
use fantail_templates::{
    Compiled, EDITIONS_MAX, EditionKey, NotificationFacts, Press, RenderAsk, Rendered, TenantFacts,
    UserFacts, Variables, variant_seed,
};
use fantail_wire::code::Code;
use fantail_wire::template::Channel;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Where users live whose zone is not known.
const ZONE: &str = "UTC";

/// Everything that the messages of one notification share.
pub struct Scene {
    pub compiled: Arc<Compiled>,
    pub version: u32,
    pub tenant: TenantView,
    pub id: String,
    pub channels: ChannelSet,
    /// Inboxes show it, too, by a text of their own if the template has one.
    pub has_inbox: bool,
    pub shared: Map<String, Value>,
    pub now: Millis,
}

/// One recipient with its own variables.
pub struct Reader {
    /// Empty for somebody without one.
    pub name: String,
    /// Chooses the variant, the same one every time.
    pub seed: String,
    pub recipient: Recipient,
    pub own: Map<String, Value>,
}

impl Scene {
    /// The content of every reader, in order.
    pub fn render(&self, readers: &[Reader]) -> Result<Vec<Vec<u8>>, Problem> {
        let shared = self.compiled.variables(&Value::Object(self.shared.clone()));
        let mut contents = Vec::with_capacity(readers.len());
        let mut steps = 0;
        for (index, reader) in readers.iter().enumerate() {
            let at = |problem: Problem| problem.below(&format!("/recipients/{index}"));
            let own;
            let variables = if reader.own.is_empty() {
                shared.as_ref().map_err(|error| Problem::from(error.clone()))?
            } else {
                let mut all = self.shared.clone();
                all.extend(reader.own.clone());
                own = self.compiled.variables(&Value::Object(all)).map_err(|error| at(error.into()))?;
                &own
            };
            let (content, taken) = self.one(reader, variables).map_err(at)?;
            contents.push(content);
            steps += taken;
            if steps > FUEL_NOTIFICATION {
                let detail = format!(
                    "the contents of {} recipients take more than {FUEL_NOTIFICATION} steps to render: send them in several requests",
                    readers.len()
                );
                return Err(Problem::new(Code::TooManyRenderings, detail));
            }
        }
        Ok(contents)
    }

    /// The content of everybody, whoever that is: in each locale and variant.
    pub fn render_for_all(&self) -> Result<Vec<u8>, Problem> {
        if let Some(kind) = self.channels.iter().find(|kind| self.compiled.needs_user(channel_of(*kind))) {
            let detail = format!("what the template says by {} depends on the user", kind.name());
            return Err(Problem::new(Code::InvalidTemplate, detail));
        }
        let variables = self.compiled.variables(&Value::Object(self.shared.clone()))?;
        let channels: Vec<Channel> = self.channels.iter().map(channel_of).collect();
        let keys = self.compiled.editions(&channels);
        if keys.len() > EDITIONS_MAX {
            let detail = format!("{} locales and variants, at most {EDITIONS_MAX} are allowed", keys.len());
            return Err(Problem::new(Code::TooManyRenderings, detail));
        }
        let mut press = Press::for_all(&self.compiled, self.version);
        for key in &keys {
            for kind in self.channels.iter() {
                press.add(key, kind, self.message(kind, key, &variables, None)?);
            }
            if press.bytes() > EVENT_CONTENT_BYTES_MAX {
                let limit = format!("more than {EVENT_CONTENT_BYTES_MAX} bytes");
                return Err(too_much(keys.len(), &limit));
            }
            if press.steps() > FUEL_EVENT {
                return Err(too_much(keys.len(), &format!("to be rendered in more than {FUEL_EVENT} steps")));
            }
        }
        Ok(press.finish())
    }

    /// The content of one reader, and how many steps it took.
    fn one(&self, reader: &Reader, variables: &Variables) -> Result<(Vec<u8>, u64), Problem> {
        let Recipient { locale, zone, attributes, .. } = &reader.recipient;
        let attributes: Value = serde_json::from_slice(attributes).unwrap_or_default();
        let locale = if locale.is_empty() { self.compiled.default_locale() } else { locale };
        let variant = self.compiled.choose_variant(variant_seed(self.compiled.id(), &reader.seed));
        let user = UserFacts {
            id: &reader.name,
            locale,
            zone: zone.name().unwrap_or(ZONE),
            attributes: &attributes,
        };
        let key = EditionKey { variant, locale: locale.to_owned() };
        let mut press = Press::for_one(&self.compiled, self.version, variant);
        for kind in self.channels.iter() {
            press.add(&key, kind, self.message(kind, &key, variables, Some(user))?);
        }
        let inbox = ChannelKind::InApp;
        let is_beside = self.has_inbox && !self.channels.contains(inbox);
        if is_beside && self.compiled.channels().any(|channel| kind_of(channel) == inbox) {
            // A text that was not asked for must not refuse the send: the inbox then shows what the others say.
            if let Ok(shown) = self.message(inbox, &key, variables, Some(user)) {
                press.add(&key, inbox, shown);
            }
        }
        let steps = press.steps();
        Ok((press.finish(), steps))
    }

    fn message(
        &self,
        kind: ChannelKind,
        key: &EditionKey,
        variables: &Variables,
        user: Option<UserFacts<'_>>,
    ) -> Result<Rendered, Problem> {
        let rendered = self.compiled.render(&RenderAsk {
            channel: channel_of(kind),
            locale: &key.locale,
            variant: key.variant,
            variables,
            user,
            notification: NotificationFacts { id: &self.id },
            tenant: TenantFacts { id: &self.tenant.slug, name: &self.tenant.name },
            now: self.now,
        })?;
        Ok(rendered)
    }
}

fn too_much(editions: usize, limit: &str) -> Problem {
    let code = if editions > 1 { Code::TooManyRenderings } else { Code::RenderFailed };
    let detail = format!("what is said by all channels, in {editions} locales and variants, has {limit}");
    Problem::new(code, detail)
}

/// The channels that a template is sent by: those that were asked for, or all that it has.
pub fn channels_of(compiled: &Compiled, asked: ChannelSet) -> Result<ChannelSet, Problem> {
    let has: ChannelSet = compiled.channels().map(kind_of).collect();
    if asked.is_empty() {
        return Ok(has);
    }
    match asked.iter().find(|kind| !has.contains(*kind)) {
        None => Ok(asked),
        Some(missing) => Err(Problem::new(
            Code::InvalidTemplate,
            format!("the template has nothing to say by {}", missing.name()),
        )),
    }
}

fn channel_of(kind: ChannelKind) -> Channel {
    match kind {
        ChannelKind::InApp => Channel::InApp,
        ChannelKind::Push => Channel::Push,
        ChannelKind::Email => Channel::Email,
        ChannelKind::Sms => Channel::Sms,
        ChannelKind::Webhook => Channel::Webhook,
    }
}

fn kind_of(channel: Channel) -> ChannelKind {
    match channel {
        Channel::InApp => ChannelKind::InApp,
        Channel::Push => ChannelKind::Push,
        Channel::Email => ChannelKind::Email,
        Channel::Sms => ChannelKind::Sms,
        Channel::Webhook => ChannelKind::Webhook,
    }
}
