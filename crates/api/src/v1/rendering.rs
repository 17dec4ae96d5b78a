//! A template becomes the content of each recipient: rendered once, when the notification is accepted, and frozen.
//!
//! Comes from: `notifications`, with recipients resolved, and `events`, for all at once. Decides: which locale and variant each recipient gets; the
//! rest is the template's. Goes to: `Node::notify`, packed by channel.

use crate::problem::Problem;
use fantail_node::ask::{ChannelKind, ChannelSet, Recipient, TenantView};
use fantail_node::content::pack;
use fantail_rules::ids::Millis;
use fantail_rules::limits::EVENT_CONTENT_BYTES_MAX;
use fantail_templates::{
    Compiled, NotificationFacts, RenderAsk, TenantFacts, UserFacts, Variables, variant_seed,
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
    pub tenant: TenantView,
    pub id: String,
    pub channels: ChannelSet,
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
            contents.push(self.one(reader, variables).map_err(at)?);
        }
        Ok(contents)
    }

    /// The content of everybody, whoever that is: in the default locale, and one variant for all of them.
    pub fn render_for_all(&self) -> Result<Vec<u8>, Problem> {
        if let Some(kind) = self.channels.iter().find(|kind| self.compiled.needs_user(channel_of(*kind))) {
            let detail = format!("what the template says by {} depends on the user", kind.name());
            return Err(Problem::new(Code::InvalidTemplate, detail));
        }
        let variables = self.compiled.variables(&Value::Object(self.shared.clone()))?;
        let variant = self.compiled.choose_variant(variant_seed(self.compiled.id(), &self.id));
        let mut contents = Vec::new();
        for kind in self.channels.iter() {
            let rendered = self.compiled.render(&RenderAsk {
                channel: channel_of(kind),
                locale: self.compiled.default_locale(),
                variant,
                variables: &variables,
                user: None,
                notification: NotificationFacts { id: &self.id },
                tenant: TenantFacts { id: &self.tenant.slug, name: &self.tenant.name },
                now: self.now,
            })?;
            contents.push((kind, rendered.bytes));
        }
        let packed = pack(&contents);
        if packed.len() > EVENT_CONTENT_BYTES_MAX {
            let detail = format!("all channels together have more than {EVENT_CONTENT_BYTES_MAX} bytes");
            return Err(Problem::new(Code::RenderFailed, detail));
        }
        Ok(packed)
    }

    fn one(&self, reader: &Reader, variables: &Variables) -> Result<Vec<u8>, Problem> {
        let Recipient { locale, zone, attributes, .. } = &reader.recipient;
        let attributes: Value = serde_json::from_slice(attributes).unwrap_or_default();
        let locale = if locale.is_empty() { self.compiled.default_locale() } else { locale };
        let variant = self.compiled.choose_variant(variant_seed(self.compiled.id(), &reader.seed));
        let mut contents = Vec::new();
        for kind in self.channels.iter() {
            let rendered = self.compiled.render(&RenderAsk {
                channel: channel_of(kind),
                locale,
                variant,
                variables,
                user: Some(UserFacts {
                    id: &reader.name,
                    locale,
                    zone: if zone.is_empty() { ZONE } else { zone },
                    attributes: &attributes,
                }),
                notification: NotificationFacts { id: &self.id },
                tenant: TenantFacts { id: &self.tenant.slug, name: &self.tenant.name },
                now: self.now,
            })?;
            contents.push((kind, rendered.bytes));
        }
        Ok(pack(&contents))
    }
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
