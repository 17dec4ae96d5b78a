//! Events: CloudEvents 1.0 with our `data`. The envelope may carry any extension attribute (CloudEvents says so);
//! `data` refuses unknown fields.

use crate::code::Code;
use crate::encoded_data::EncodedData;
use crate::notification::SendOptions;
use schemars::JsonSchema;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// Something that happened. `source` and `id` together are the idempotency key.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CloudEvent {
    /// `1.0`
    pub specversion: String,
    /// Unique within `source`.
    pub id: String,
    /// Where the event comes from, for example `/shop/orders`.
    pub source: String,
    /// What happened, for example `post.created`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Extension attribute: the user who acted. For `followersOf` it is the owner of the list, and may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// When it happened (RFC 3339). It is checked and not kept: events are in the order in which they are accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub time: Option<String>,
    /// Or `data_base64`: the same JSON in base64, as some CloudEvents SDKs write it.
    pub data: EventData,
}

/// Who is told, and what.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventData {
    pub audience: Audience,
    /// The tenant's name for this kind of notification. The template's, or `general`, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// By category if left out: `security` and `transaction` are critical, `message` and `mention` high,
    /// `marketing` and `digest` low, all others normal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Besides inboxes: how else it is told. The template's, or nothing, if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<Channel>,
    /// As `options.ttl`; one of them at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
    #[serde(default)]
    pub options: SendOptions,
    /// What is told, the same on every channel. Either this or `templateId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// The template that is rendered when this is accepted, once for each locale and variant it has; each reader gets
    /// the one that fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<String>,
    /// The version in force if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version: Option<u32>,
    /// For the template.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub variables: Map<String, Value>,
}

/// A way to somebody.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Channel {
    InApp,
    Push,
    Email,
    Sms,
    Webhook,
}

impl Channel {
    pub const ALL: &[Self] = &[Self::InApp, Self::Push, Self::Email, Self::Sms, Self::Webhook];

    /// As in JSON.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::InApp => "inApp",
            Self::Push => "push",
            Self::Email => "email",
            Self::Sms => "sms",
            Self::Webhook => "webhook",
        }
    }
}

/// The words of all channels.
const CHANNELS: &[&str] = &["inApp", "push", "email", "sms", "webhook"];

/// Read as a text, so that a place below a channel is named with the channel.
impl<'de> Deserialize<'de> for Channel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<'de, str>::deserialize(deserializer)?;
        let found = Self::ALL.iter().copied().find(|channel| channel.text() == word);
        found.ok_or_else(|| Error::unknown_variant(&word, CHANNELS))
    }
}

/// Exactly one of the four.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Audience {
    /// These users.
    Users(Vec<String>),
    /// The followers of this actor.
    FollowersOf(String),
    /// The subscribers of this topic.
    Topic(String),
    /// Whoever this segment chooses, of the users there are when the event is taken.
    Segment(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Priority {
    Critical,
    High,
    Normal,
    Low,
}

/// What the user sees. Its serialization, with sorted `data`, is what is stored and hashed: the order of fields
/// here is frozen.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Content {
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Anything the app needs to open the right screen. Integers beyond 64 bits become floating point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// `https` or `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
}

/// A button.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Action {
    /// Unique within the notification.
    pub id: String,
    /// At most 256 bytes; in a template 8,192.
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The event is durable.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventAccepted {
    pub request_id: String,
    /// The platform's id of the event.
    pub event_id: String,
    pub status: AcceptedStatus,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AcceptedStatus {
    Accepted,
    /// Held back until `scheduledAt`.
    Scheduled,
}

/// One result per event of the batch, in its order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventsAccepted {
    pub request_id: String,
    pub events: Vec<EventResult>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EventResult {
    /// Durable.
    Accepted {
        event_id: String,
        /// It was accepted before; this is the first answer again.
        replayed: bool,
    },
    /// Not accepted; send it again if the code says so.
    Refused { code: Code, detail: String },
}

impl<'de> Deserialize<'de> for CloudEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = CloudEvent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a CloudEvent")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CloudEvent, A::Error> {
        let mut specversion = None;
        let mut id = None;
        let mut source = None;
        let mut kind = None;
        let mut actor = None;
        let mut time = None;
        let mut data = None;
        while let Some(name) = map.next_key::<Attribute>()? {
            match name {
                Attribute::Specversion => once(&mut specversion, "specversion", map.next_value()?)?,
                Attribute::Id => once(&mut id, "id", map.next_value()?)?,
                Attribute::Source => once(&mut source, "source", map.next_value()?)?,
                Attribute::Type => once(&mut kind, "type", map.next_value()?)?,
                Attribute::Actor => once(&mut actor, "actor", map.next_value()?)?,
                Attribute::Time => once(&mut time, "time", map.next_value()?)?,
                Attribute::Data => once(&mut data, "data", map.next_value()?)?,
                Attribute::DataBase64 => {
                    let EncodedData(decoded) = map.next_value()?;
                    once(&mut data, "data", decoded)?;
                }
                // Extension attributes are allowed and not kept.
                Attribute::Extension => {
                    map.next_value::<Scalar>()?;
                }
            }
        }
        Ok(CloudEvent {
            specversion: specversion.ok_or_else(|| Error::missing_field("specversion"))?,
            id: id.ok_or_else(|| Error::missing_field("id"))?,
            source: source.ok_or_else(|| Error::missing_field("source"))?,
            kind: kind.ok_or_else(|| Error::missing_field("type"))?,
            actor: actor.flatten(),
            time: time.flatten(),
            data: data.ok_or_else(|| Error::missing_field("data"))?,
        })
    }
}

fn once<T, E: Error>(slot: &mut Option<T>, name: &'static str, value: T) -> Result<(), E> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::duplicate_field(name)),
    }
}

impl<'de> Deserialize<'de> for Audience {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AudienceVisitor)
    }
}

struct AudienceVisitor;

const AUDIENCES: &[&str] = &["users", "followersOf", "topic", "segment"];

impl<'de> Visitor<'de> for AudienceVisitor {
    type Value = Audience;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an audience with one of users, followersOf, topic, segment")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Audience, A::Error> {
        let exactly_one = || Error::custom("must have exactly one of users, followersOf, topic, segment");
        let audience = match map.next_key::<Cow<'de, str>>()?.as_deref() {
            Some("users") => Audience::Users(map.next_value()?),
            Some("followersOf") => Audience::FollowersOf(map.next_value()?),
            Some("topic") => Audience::Topic(map.next_value()?),
            Some("segment") => Audience::Segment(map.next_value()?),
            Some(other) => return Err(Error::unknown_field(other, AUDIENCES)),
            None => return Err(exactly_one()),
        };
        match map.next_key::<IgnoredAny>()? {
            None => Ok(audience),
            Some(_) => Err(exactly_one()),
        }
    }
}

enum Attribute {
    Specversion,
    Id,
    Source,
    Type,
    Actor,
    Time,
    Data,
    DataBase64,
    Extension,
}

impl<'de> Deserialize<'de> for Attribute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(AttributeVisitor)
    }
}

struct AttributeVisitor;

impl Visitor<'_> for AttributeVisitor {
    type Value = Attribute;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a CloudEvents attribute name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Attribute, E> {
        match name {
            "specversion" => Ok(Attribute::Specversion),
            "id" => Ok(Attribute::Id),
            "source" => Ok(Attribute::Source),
            "type" => Ok(Attribute::Type),
            "actor" => Ok(Attribute::Actor),
            "time" => Ok(Attribute::Time),
            "data" => Ok(Attribute::Data),
            "data_base64" => Ok(Attribute::DataBase64),
            _ if is_extension_name(name) => Ok(Attribute::Extension),
            _ => Err(Error::custom(format_args!(
                "unknown field `{}`, extension attributes are 1 to 64 lower-case letters and digits",
                name.chars().take(80).collect::<String>()
            ))),
        }
    }
}

/// CloudEvents: lower-case letters and digits.
#[must_use]
pub fn is_extension_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

/// The value of an extension attribute: CloudEvents allows no structure there.
struct Scalar;

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number or a boolean")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Scalar, E> {
        Ok(Scalar)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Scalar, E> {
        Ok(Scalar)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Scalar, E> {
        Ok(Scalar)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Scalar, E> {
        Ok(Scalar)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Scalar, E> {
        Ok(Scalar)
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Err(Error::custom("extension attributes have no structure"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    // fixes: interop F6
    #[test]
    fn data_may_come_in_base64() {
        let data = r#"{"audience":{"topic":"t"},"content":{"title":"x"}}"#;
        let event =
            |data: &str| format!(r#"{{"specversion":"1.0","id":"1","source":"s","type":"t",{data}}}"#);
        let encoded = |json: &str| event(&format!(r#""data_base64":"{}""#, STANDARD.encode(json)));
        let read: CloudEvent = serde_json::from_str(&encoded(data)).expect("an event");
        let plain: CloudEvent = serde_json::from_str(&event(&format!(r#""data":{data}"#))).expect("an event");
        let same = |event: &CloudEvent| serde_json::to_string(event).expect("JSON");
        assert_eq!(same(&read), same(&plain));
        check(&event(r#""data_base64":"?""#), Err("must be base64"));
        check(&event(r#""data_base64":1"#), Err("expected"));
        check(&encoded(r#"{"x":1}"#), Err("unknown field `x`"));
        check(&encoded(&format!("{}{}", "[".repeat(40), "]".repeat(40))), Err("nests at most 32"));
        let both = format!(r#""data":{data},"data_base64":"{}""#, STANDARD.encode(data));
        check(&event(&both), Err("duplicate field `data`"));
    }

    fn check(json: &str, expected: Result<(), &str>) {
        match (serde_json::from_str::<CloudEvent>(json), expected) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{json}: {error}"),
            (Ok(_), Err(part)) => panic!("{json} was read, expected: {part}"),
            (Err(error), Ok(())) => panic!("{json}: {error}"),
        }
    }

    #[test]
    fn channels_are_read_as_they_are_written() {
        for (channel, word) in Channel::ALL.iter().zip(CHANNELS) {
            assert_eq!(channel.text(), *word);
            assert_eq!(serde_json::to_value(channel).expect("JSON"), *word);
            assert_eq!(serde_json::from_value::<Channel>((*word).into()).expect("a channel"), *channel);
        }
        assert_eq!(CHANNELS.len(), Channel::ALL.len());
        assert!(serde_json::from_str::<Channel>(r#""pigeon""#).is_err());
    }

    const DATA: &str = r#""data":{"audience":{"topic":"t"},"content":{"title":"x"}}"#;

    #[test]
    fn envelopes_allow_extensions_and_data_does_not() {
        let head = r#""specversion":"1.0","id":"1","source":"s","type":"t""#;
        check(&format!("{{{head},{DATA}}}"), Ok(()));
        check(&format!(r#"{{{head},"traceparent":"00-x","n":1,"b":true,"actor":null,{DATA}}}"#), Ok(()));
        check(&format!(r#"{{{head},"time":"2026-01-01T00:00:00Z","subject":"s",{DATA}}}"#), Ok(()));
        check(&format!(r#"{{{head},"Trace":"x",{DATA}}}"#), Err("unknown field `Trace`"));
        check(&format!(r#"{{{head},"data_base65":"eA==",{DATA}}}"#), Err("unknown field `data_base65`"));
        check(&format!(r#"{{{head},"ext":{{"a":1}},{DATA}}}"#), Err("no structure"));
        check(&format!(r#"{{{head},"ext":[1],{DATA}}}"#), Err("a string, a number or a boolean"));
        check(&format!(r#"{{{head},"id":"2",{DATA}}}"#), Err("duplicate field `id`"));
        check(&format!("{{{head}}}"), Err("missing field `data`"));
        check(&format!(r#"{{"id":"1","source":"s","type":"t",{DATA}}}"#), Err("missing field `specversion`"));
        check(
            &format!(r#"{{{head},"data":{{"audience":{{"topic":"t"}},"content":{{"title":"x"}},"x":1}}}}"#),
            Err("unknown field `x`"),
        );
        check(
            &format!(
                r#"{{{head},"data":{{"audience":{{"topic":"t","users":["u"]}},"content":{{"title":"x"}}}}}}"#
            ),
            Err("exactly one of"),
        );
        check(
            &format!(r#"{{{head},"data":{{"audience":{{}},"content":{{"title":"x"}}}}}}"#),
            Err("exactly one of"),
        );
    }
}
