//! Pushes: what an inbox shows too, and fields that only some platforms know. Those that people read are texts like all others;
//! numbers, flags and names are the same for everybody.

use super::texts::Texts;
use crate::content::{Content, Field, Layer, Rule};
use crate::problems::below;
use crate::source::has_tags;
use fantail_rules::limits::NAME_BYTES_MAX;
use fantail_wire::event::Action;
use fantail_wire::template::{AppContent, Channel, ProblemCode, PushContent};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What pushes and inboxes have in common.
pub struct Shown<'a> {
    pub title: Option<&'a str>,
    pub body: Option<&'a str>,
    pub data: Option<&'a Map<String, Value>>,
    pub image_url: Option<&'a str>,
    pub actions: Option<&'a [Action]>,
}

impl<'a> From<&'a AppContent> for Shown<'a> {
    fn from(content: &'a AppContent) -> Self {
        Self {
            title: content.title.as_deref(),
            body: content.body.as_deref(),
            data: content.data.as_ref(),
            image_url: content.image_url.as_deref(),
            actions: content.actions.as_deref(),
        }
    }
}

impl<'a> From<&'a PushContent> for Shown<'a> {
    fn from(content: &'a PushContent) -> Self {
        Self {
            title: content.title.as_deref(),
            body: content.body.as_deref(),
            data: content.data.as_ref(),
            image_url: content.image_url.as_deref(),
            actions: content.actions.as_deref(),
        }
    }
}

impl Texts<'_, '_> {
    pub(super) fn push(&mut self, pointer: &str, content: &PushContent, layer: &mut Layer) {
        self.app(pointer, Channel::Push, Shown::from(content), layer);
        let texts = [
            (Field::Subtitle, content.subtitle.as_deref(), Rule::Plain),
            (Field::IconUrl, content.icon_url.as_deref(), Rule::Image),
            (Field::Url, content.url.as_deref(), Rule::Link),
        ];
        self.put_each(pointer, Channel::Push, &texts, layer);
        for (field, name) in [
            (Field::Sound, &content.sound),
            (Field::Category, &content.category),
            (Field::ThreadId, &content.thread_id),
            (Field::ChannelId, &content.channel_id),
            (Field::ClickAction, &content.click_action),
        ] {
            let Some(name) = name else { continue };
            if let Some(detail) = name_fault(name) {
                self.problems.add(&below(pointer, field.key()), ProblemCode::InvalidName, detail);
            }
            fix(layer, field, &json!(name));
        }
        if let Some(badge) = content.badge {
            fix(layer, Field::Badge, &json!(badge));
        }
        if let Some(store) = content.store {
            fix(layer, Field::Store, &json!(store));
        }
    }
}

fn fix(layer: &mut Layer, field: Field, value: &Value) {
    layer.insert((Channel::Push, field), Arc::new(Content::Fixed(value.to_string())));
}

/// A name that an app was built with.
fn name_fault(name: &str) -> Option<String> {
    match name {
        _ if name.trim().is_empty() => Some("must not be empty".to_owned()),
        _ if name.len() > NAME_BYTES_MAX => Some(format!("must have at most {NAME_BYTES_MAX} bytes")),
        _ if name.chars().any(char::is_control) => Some("must not contain control characters".to_owned()),
        _ if has_tags(name) => Some("must be a name without variables".to_owned()),
        _ => None,
    }
}
