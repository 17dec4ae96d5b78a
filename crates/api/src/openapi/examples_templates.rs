//! Examples of templates. The definition is a whole one: it compiles, and the previews are what it gives.

use super::Example;
use super::examples::{examples, map, text};
use fantail_wire::event::{Action, Channel};
use fantail_wire::template::{
    AppContent, Change, Channels, Definition, EmailContent, Preview, PushContent, SmsContent, Variant,
    WebhookContent,
};
use fantail_wire::template_resource::{
    DraftPreviewAsk, Template, TemplateActivate, TemplateDiff, TemplatePreview, TemplatePreviewAsk,
    TemplateSummary, TemplateSwitch, TemplateVersion, TemplateVersions, Templates, UserFacts,
};
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const TIME: &str = "2026-01-31T12:00:00.000Z";
const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const KEY: &str = "3mBqZ81kXw0P";
const NOTE: &str = "shorter title";

fn some(value: &str) -> Option<String> {
    Some(text(value))
}

fn app(title: &str, body: &str) -> AppContent {
    AppContent {
        title: some(title),
        body: some(body),
        data: Some(map(json!({"orderId": "{{ orderId }}"}))),
        image_url: some("https://example.com/parcel.png"),
        actions: Some(vec![Action {
            id: text("track"),
            title: text("Track"),
            url: some("https://example.com/orders/{{ orderId }}"),
        }]),
    }
}

fn push(title: &str, body: &str) -> PushContent {
    let AppContent { title, body, data, image_url, actions } = app(title, body);
    PushContent {
        title,
        body,
        data,
        image_url,
        actions,
        subtitle: some("Order {{ orderId }}"),
        icon_url: some("https://example.com/icon.png"),
        url: some("https://example.com/orders/{{ orderId }}"),
        badge: Some(1),
        sound: some("default"),
        category: some("ORDER"),
        thread_id: some("orders"),
        channel_id: some("orders"),
        click_action: some("OPEN_ORDER"),
        store: Some(true),
    }
}

fn channels() -> Channels {
    Channels {
        push: Some(push("{{ user.attributes.firstName }}, it is on its way", "Order {{ orderId }} has left")),
        email: Some(EmailContent {
            subject: some("Order {{ orderId }} has left"),
            html: some(r#"{% extends "page" %}{% block main %}<p>Order {{ orderId }}</p>{% endblock %}"#),
            mjml: None,
            text: some(r#"Order {{ orderId }} has left. {% include "greeting" %}"#),
        }),
        sms: Some(SmsContent { body: some("Order {{ orderId }} has left") }),
        in_app: Some(app("It is on its way", "Order {{ orderId }} has left")),
        webhook: Some(WebhookContent {
            content_type: some("application/json"),
            body: some(r#"{"order": {{ orderId }}}"#),
        }),
    }
}

fn variables() -> serde_json::Map<String, serde_json::Value> {
    map(json!({"orderId": "A-42"}))
}

fn user() -> UserFacts {
    UserFacts {
        id: text("ann"),
        locale: some("de-AT"),
        zone: some("Europe/Vienna"),
        attributes: map(json!({"firstName": "Ann"})),
    }
}

examples! {
    Definition => Definition {
        id: text("order-shipped"),
        name: some("Order shipped"),
        category: text("orders"),
        channels: channels(),
        schema: Some(map(json!({
            "type": "object", "properties": {"orderId": {"type": "string"}}, "required": ["orderId"],
        }))),
        default_locale: text("en"),
        translations: BTreeMap::from([(
            text("de"),
            Channels { sms: Some(SmsContent { body: some("Bestellung {{ orderId }} ist unterwegs") }), ..Channels::default() },
        )]),
        layouts: BTreeMap::from([(text("page"), text("<html><body>{% block main %}{% endblock %}</body></html>"))]),
        partials: BTreeMap::from([(text("greeting"), text("Thank you!"))]),
        variants: vec![Variant {
            name: text("cheerful"),
            weight: 1,
            channels: Channels {
                sms: Some(SmsContent { body: some("Hooray, order {{ orderId }} has left!") }),
                ..Channels::default()
            },
            translations: BTreeMap::new(),
        }],
    };
    TemplateSummary => TemplateSummary {
        id: text("order-shipped"),
        name: some("Order shipped"),
        category: text("orders"),
        active_version: 3,
        newest_version: 3,
        active: true,
        created_at: text(TIME),
        updated_at: text(TIME),
    };
    Templates => Templates {
        templates: vec![TemplateSummary::example()],
        next_cursor: some("AQMk3w8AAAAAAAAABw"),
    };
    Template<'static> => Template {
        id: text("order-shipped"),
        version: 3,
        active_version: 3,
        newest_version: 3,
        active: true,
        author: text(KEY),
        note: some(NOTE),
        hash: text(HASH),
        created_at: text(TIME),
        updated_at: text(TIME),
        definition: raw(
            r#"{"id":"order-shipped","category":"orders","channels":{"sms":{"body":"It has left"}},"defaultLocale":"en"}"#,
        ),
    };
    TemplateVersions => TemplateVersions {
        versions: vec![TemplateVersion {
            version: 3,
            author: text(KEY),
            note: some(NOTE),
            hash: text(HASH),
            created_at: text(TIME),
        }],
    };
    TemplateDiff => TemplateDiff {
        from: 2,
        to: 3,
        changes: vec![Change {
            pointer: text("/channels/push/title"),
            old: some("Your order is on its way"),
            new: some("It is on its way"),
        }],
    };
    TemplateActivate => TemplateActivate { version: 1 };
    TemplateSwitch => TemplateSwitch { active: false };
    TemplatePreviewAsk => TemplatePreviewAsk {
        channel: Channel::Sms,
        locale: some("de-AT"),
        variables: variables(),
        user_facts: Some(user()),
        variant: some("cheerful"),
        version: Some(1),
    };
    DraftPreviewAsk => DraftPreviewAsk {
        definition: Definition::example(),
        channel: Channel::Sms,
        locale: some("de-AT"),
        variables: variables(),
        user_facts: Some(user()),
        variant: some("cheerful"),
    };
    TemplatePreview<'static> => TemplatePreview {
        version: Some(1),
        locale: text("de"),
        variant: some("cheerful"),
        content: raw(r#"{"body":"Bestellung A-42 ist unterwegs"}"#),
        cost: Preview::Sms {
            encoding: fantail_wire::template::SmsEncoding::Gsm7,
            units: 29,
            segments: 1,
            units_per_segment: 160,
        },
    };
}

fn raw(json: &'static str) -> &'static RawValue {
    serde_json::from_str(json).expect("examples are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_compiles() {
        if let Err(problems) = fantail_templates::compile(&Definition::example()) {
            panic!("{problems:?}");
        }
    }
}
