//! Templates from outside: what they render, what cannot be done to them, and what holds for any input.

mod attacks;
mod properties;
mod rendering;

use fantail_rules::ids::Millis;
use fantail_templates::{
    Compiled, NotificationFacts, RenderAsk, RenderError, Rendered, TenantFacts, UserFacts, compile,
};
use fantail_wire::template::{Channel, Definition};
use serde_json::{Value, json};

/// A template with a schema that allows anything under `v`.
fn template(channels: Value) -> Compiled {
    with(json!({ "channels": channels }))
}

/// A definition with these fields.
fn with(fields: Value) -> Compiled {
    try_with(fields).unwrap_or_else(|problems| panic!("{problems}"))
}

fn try_with(fields: Value) -> Result<Compiled, String> {
    let mut definition = json!({
        "id": "t", "category": "c", "defaultLocale": "en",
        "schema": {"type": "object", "properties": {"v": {}, "list": {"type": "array"}, "n": {"type": "integer"}}},
    });
    for (name, value) in fields.as_object().expect("fields") {
        definition[name] = value.clone();
    }
    let definition: Definition = serde_json::from_value(definition).expect("a definition");
    compile(&definition).map_err(|problems| format!("{problems:?}"))
}

struct Ask {
    channel: Channel,
    locale: &'static str,
    variant: Option<usize>,
    with_user: bool,
}

impl Ask {
    fn new(channel: Channel) -> Self {
        Self { channel, locale: "en", variant: None, with_user: true }
    }

    fn render(&self, compiled: &Compiled, variables: Value) -> Result<Rendered, RenderError> {
        let attributes = json!({"firstName": "Ada", "vip": true});
        let variables = compiled.variables(&variables).expect("valid variables");
        let user = UserFacts { id: "u1", locale: "de-AT", zone: "Europe/Vienna", attributes: &attributes };
        compiled.render(&RenderAsk {
            channel: self.channel,
            locale: self.locale,
            variant: self.variant,
            variables: &variables,
            user: self.with_user.then_some(user),
            notification: NotificationFacts { id: "n1" },
            tenant: TenantFacts { id: "acme", name: "Acme" },
            now: Millis(1_769_860_800_000),
        })
    }

    fn json(&self, compiled: &Compiled, variables: Value) -> Value {
        let rendered = self.render(compiled, variables).expect("renders");
        serde_json::from_slice(&rendered.bytes).expect("JSON")
    }
}

/// Renders an SMS body.
fn sms(source: &str, variables: Value) -> Result<String, RenderError> {
    let compiled = template(json!({"sms": {"body": source}}));
    let rendered = Ask::new(Channel::Sms).render(&compiled, variables)?;
    let content: Value = serde_json::from_slice(&rendered.bytes).expect("JSON");
    Ok(content["body"].as_str().expect("a body").to_owned())
}
