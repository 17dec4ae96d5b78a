//! Templates as a resource: what lists, histories and previews show, and what their requests say.

use crate::event::Channel;
use crate::template::{Change, Definition, Preview};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A template without its definition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSummary {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub category: String,
    /// The version in force.
    pub active_version: u32,
    pub newest_version: u32,
    /// Whether notifications may use it.
    pub active: bool,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Templates {
    /// By id.
    pub templates: Vec<TemplateSummary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One version of a template, with its definition.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Template<'a> {
    pub id: String,
    /// The version that is shown.
    pub version: u32,
    /// The version in force.
    pub active_version: u32,
    pub newest_version: u32,
    /// Whether notifications may use it.
    pub active: bool,
    /// The id of the key that wrote this version.
    pub author: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// SHA-256 of the definition as it is stored, in hex.
    pub hash: String,
    /// When this version was written.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// When the template last changed.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
    #[schemars(with = "Definition")]
    pub definition: &'a RawValue,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateVersion {
    pub version: u32,
    /// The id of the key that wrote it.
    pub author: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// SHA-256 of the definition as it is stored, in hex.
    pub hash: String,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
}

/// The versions that are kept, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateVersions {
    pub versions: Vec<TemplateVersion>,
}

/// Where two versions differ, by place.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateDiff {
    pub from: u32,
    pub to: u32,
    pub changes: Vec<Change>,
}

/// Puts a version in force, and the template in use.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateActivate {
    pub version: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateSwitch {
    /// Whether notifications may use the template.
    pub active: bool,
}

/// What to show a template with.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplatePreviewAsk {
    pub channel: Channel,
    /// The user's locale if left out, else the template's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    #[serde(default)]
    pub variables: Map<String, Value>,
    /// For texts that name the user, and for the user's variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_facts: Option<UserFacts>,
    /// By name; the user's own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The version in force if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A definition that is not stored, and what to show it with.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DraftPreviewAsk {
    pub definition: Definition,
    pub channel: Channel,
    /// The user's locale if left out, else the template's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    #[serde(default)]
    pub variables: Map<String, Value>,
    /// For texts that name the user, and for the user's variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_facts: Option<UserFacts>,
    /// By name; the user's own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// `user.*` of a preview.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserFacts {
    pub id: String,
    /// The template's default if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    /// IANA name; `UTC` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(default)]
    pub attributes: Map<String, Value>,
}

/// A message as it would be sent, and what it would cost.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplatePreview<'a> {
    /// Left out for a definition that is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The locale of the texts, after falling back.
    pub locale: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The fields of the channel.
    #[schemars(with = "Map<String, Value>")]
    pub content: &'a RawValue,
    pub cost: Preview,
}
