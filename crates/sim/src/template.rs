//! The one template of the simulation, in two languages, and what it must come to for each reader.
//!
//! Comes from: `perform`, which renders with what the node has stored, and `oracle`, which knows beforehand what it must be.

use crate::call::Post;
use fantail_node::ask::ChannelKind;
use fantail_node::ask::templates::{Expect, PreparedTemplate, TemplateAsk};
use fantail_rules::ids::Millis;
use fantail_templates::{Compiled, NotificationFacts, Press, RenderAsk, TenantFacts};
use fantail_wire::template::{Channel, Definition};
use serde_json::json;
use std::sync::{Arc, OnceLock};

pub const TEMPLATE: &str = "sim";
/// The only version that is ever written.
const VERSION: u32 = 1;
const KINDS: [(ChannelKind, Channel); 3] = [
    (ChannelKind::InApp, Channel::InApp),
    (ChannelKind::Push, Channel::Push),
    (ChannelKind::Webhook, Channel::Webhook),
];

/// The locale of a user, which never changes; some have none.
#[must_use]
pub fn locale_of(user: u16) -> &'static str {
    ["", "de", "en"][usize::from(user % 3)]
}

fn definition() -> Definition {
    let says = |greeting: &str| {
        let title = format!("{greeting} {{{{ owner }}}} {{{{ key }}}} {{{{ body }}}}");
        json!({
            "inApp": {"title": title}, "push": {"title": title, "body": greeting},
            "webhook": {"body": format!("{{\"says\": \"{title}\"}}")},
        })
    };
    let definition = json!({
        "id": TEMPLATE, "category": "social", "defaultLocale": "en",
        "schema": {
            "type": "object",
            "properties": {
                "owner": {"type": "integer"}, "key": {"type": "integer"}, "body": {"type": "integer"},
            },
        },
        "channels": says("Hello"), "translations": {"de": says("Hallo")},
    });
    serde_json::from_value(definition).expect("it is a definition")
}

/// What a tenant writes when it begins.
#[must_use]
pub fn ask() -> TemplateAsk {
    let prepared = PreparedTemplate::compile(&definition()).expect("the template is sound");
    TemplateAsk { prepared, expect: Expect::Absent, author: "sim".to_owned(), note: None }
}

fn own() -> &'static Arc<Compiled> {
    static COMPILED: OnceLock<Arc<Compiled>> = OnceLock::new();
    COMPILED.get_or_init(|| Arc::clone(ask().prepared.compiled()))
}

/// What a post says to everybody, as the node is to store it.
#[must_use]
pub fn content(post: &Post) -> Vec<u8> {
    render(own(), VERSION, post)
}

/// All that may leave the house of a post.
pub fn bodies(post: &Post) -> impl Iterator<Item = Vec<u8>> {
    KINDS.into_iter().flat_map(|(_, channel)| ["en", "de"].map(|locale| body(post, channel, locale)))
}

/// What a reader with this locale must get by a channel.
#[must_use]
pub fn expected(post: &Post, kind: ChannelKind, locale: &str) -> Option<Vec<u8>> {
    let (_, channel) = KINDS.into_iter().find(|(one, _)| *one == kind)?;
    Some(body(post, channel, if locale.is_empty() { "en" } else { locale }))
}

fn body(post: &Post, channel: Channel, locale: &str) -> Vec<u8> {
    message(own(), post, channel, locale).bytes
}

/// As the API renders for all: in each locale, for each channel.
#[must_use]
pub fn render(compiled: &Compiled, version: u32, post: &Post) -> Vec<u8> {
    let mut press = Press::for_all(compiled, version);
    for key in compiled.editions(&KINDS.map(|(_, channel)| channel)) {
        for (kind, channel) in KINDS {
            press.add(&key, kind, message(compiled, post, channel, &key.locale));
        }
    }
    press.finish()
}

fn message(compiled: &Compiled, post: &Post, channel: Channel, locale: &str) -> fantail_templates::Rendered {
    let variables = json!({"owner": post.tenant.0, "key": post.key, "body": post.body});
    let variables = compiled.variables(&variables).expect("the schema asks for three numbers");
    let ask = RenderAsk {
        channel,
        locale,
        variant: None,
        variables: &variables,
        user: None,
        notification: NotificationFacts { id: "" },
        tenant: TenantFacts { id: "", name: "" },
        now: Millis(0),
    };
    compiled.render(&ask).expect("three numbers can be rendered")
}
