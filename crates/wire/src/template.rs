//! Templates as producers write them, what is wrong with them, what a preview says, and how two versions differ.
//!
//! Contents have the same shape everywhere: whole in `channels`, and in parts in `translations` and `variants`. What a
//! part leaves out comes from the less specific one.

use crate::event::Action;
pub use crate::event::Channel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One kind of notification, with a body per channel. Texts may contain `{{ variables }}`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TemplateDefinition")]
pub struct Definition {
    /// The producer's name for the template, for example `order-shipped`.
    pub id: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Decides preferences, consent and priority.
    pub category: String,
    pub channels: Channels,
    /// JSON Schema (2020-12) of the variables. Without it a template can only use `user`, `notification` and `tenant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Map<String, Value>>,
    /// BCP 47 tag of the texts in `channels`.
    pub default_locale: String,
    /// By BCP 47 tag; `de-AT` falls back to `de`, then to `channels`, field by field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub translations: BTreeMap<String, Channels>,
    /// Sources for `{% extends %}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub layouts: BTreeMap<String, String>,
    /// Sources for `{% include %}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partials: BTreeMap<String, String>,
    /// A/B: each user always gets the same one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
}

#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TemplateChannels")]
pub struct Channels {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<PushContent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<EmailContent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sms: Option<SmsContent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_app: Option<AppContent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookContent>,
}

/// What a device shows: what an inbox does, and what only some platforms know.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PushContent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// For the app. Strings at any depth may contain variables, and stay strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// `https` or `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<Action>>,
    /// Below the title, on Apple's devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtitle: Option<String>,
    /// A small picture beside the text, in browsers. `https` or `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
    /// Where a click leads, in browsers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The number on the app's icon, on Apple's devices; 0 removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub badge: Option<u32>,
    /// A sound of the app on Apple's devices, or `default`. Without variables, as are all names below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<String>,
    /// For which an app on Apple's devices has registered buttons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Notifications of one thread are shown together on Apple's devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// In which of the app's channels Android shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<String>,
    /// The intent of a click on Android.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub click_action: Option<String>,
    /// `false`: a device of Apple's that is not reached at once never gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<bool>,
}

/// What an inbox shows.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AppContent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// For the app. Strings at any depth may contain variables, and stay strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// `https` or `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<Action>>,
}

#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmailContent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Either this or `mjml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// Turned into HTML once, when the template is created. Blocks around MJML elements stand in `<mj-raw>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mjml: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SmsContent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookContent {
    /// `application/json` if left out. In JSON every `{{ expression }}` is written as a JSON value, quotes included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// Replaces parts of the contents for its share of the users.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TemplateVariant")]
pub struct Variant {
    pub name: String,
    /// Its share is its weight divided by the sum of all weights; 0 pauses it.
    pub weight: u32,
    #[serde(default)]
    pub channels: Channels,
    /// A text in the user's language comes before a variant in another language.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub translations: BTreeMap<String, Channels>,
}

/// Why a definition is refused.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// A JSON pointer into the definition.
    pub pointer: String,
    pub code: ProblemCode,
    pub detail: String,
}

/// What is wrong at one place of a definition. Names are frozen: editors branch on them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TemplateProblemCode")]
pub enum ProblemCode {
    /// A name is empty, too long, or has characters that names cannot have.
    InvalidName,
    /// No channel has a body.
    NoChannels,
    /// A channel lacks a field that it cannot do without.
    MissingBody,
    /// Both `html` and `mjml`.
    ConflictingBody,
    TooLarge,
    TooMany,
    /// The template language was not understood; the line is in the detail.
    Syntax,
    /// A part of the template language that is not available here.
    NotAllowed,
    UnknownFilter,
    UnknownTest,
    UnknownFunction,
    /// The schema has no such variable.
    UnknownVariable,
    /// The schema uses a built-in name.
    ReservedVariable,
    UnknownPartial,
    CyclicInclude,
    /// Rendering could cost more than is allowed.
    TooComplex,
    InvalidLocale,
    InvalidVariant,
    InvalidSchema,
    /// Not an absolute URL, or a scheme that is not allowed there.
    InvalidUrl,
    InvalidMjml,
    /// A variable stands where escaping cannot protect the reader.
    UnsafeHtml,
    InvalidJson,
    InvalidContentType,
    /// A header value has a line break or a control character.
    InvalidHeader,
    /// A date pattern or a time zone that is not known.
    InvalidFormat,
}

/// What a rendered message would cost.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "channel")]
#[schemars(rename = "PreviewCost")]
pub enum Preview {
    /// `payloadBytes` is the JSON of the content; the provider's envelope comes on top.
    Push {
        payload_bytes: u64,
        payload_bytes_max: u64,
        fits: bool,
    },
    Email {
        subject_bytes: u64,
        html_bytes: u64,
        text_bytes: u64,
    },
    Sms {
        encoding: SmsEncoding,
        units: u64,
        segments: u64,
        units_per_segment: u64,
    },
    InApp {
        bytes: u64,
    },
    Webhook {
        bytes: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum SmsEncoding {
    #[serde(rename = "gsm7")]
    Gsm7,
    #[serde(rename = "ucs2")]
    Ucs2,
}

/// One place where two versions differ.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TemplateChange")]
pub struct Change {
    /// A JSON pointer into the definitions.
    pub pointer: String,
    /// Left out if the place is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// Left out if the place is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: TPL-01
    #[test]
    fn definitions_refuse_misspelt_fields() {
        let whole = r#"{"id":"a","category":"c","channels":{"push":{"title":"t"}},"defaultLocale":"en"}"#;
        let read: Definition = serde_json::from_str(whole).expect("reads");
        assert_eq!(serde_json::to_string(&read).expect("writes"), whole);
        for (from, to) in [
            ("\"title\"", "\"titel\""),
            ("{\"push\":{", "{\"inApp\":{\"badge\":1,"),
            ("\"title\":\"t\"", "\"badge\":-1"),
            ("\"title\":\"t\"", "\"badge\":\"{{ n }}\""),
            ("\"push\"", "\"Push\""),
            ("defaultLocale", "default_locale"),
            ("{\"id\"", "{\"x\":1,\"id\""),
        ] {
            serde_json::from_str::<Definition>(&whole.replace(from, to)).expect_err(to);
        }
    }

    #[test]
    fn channels_are_called_as_in_json() {
        for channel in Channel::ALL {
            assert_eq!(serde_json::to_value(channel).expect("writes"), channel.text());
        }
    }
}
