//! Spans as OTLP has them in JSON: ids in hexadecimal, times and numbers as text.

use fantail_ports::trace::{Attribute, Span};
use fantail_rules::ids::Millis;
use serde_json::{Value, json};

/// Done inside the house.
const KIND_INTERNAL: u8 = 1;
/// Asked for by somebody else.
const KIND_SERVER: u8 = 2;
/// Asked of somebody else.
const KIND_CLIENT: u8 = 3;

pub fn body(spans: &[Span]) -> Vec<u8> {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let scope = json!({"name": "fantail", "version": env!("CARGO_PKG_VERSION")});
    let resource = json!({"attributes": [attribute("service.name", &json!({"stringValue": "fantail"}))]});
    let all =
        json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]});
    all.to_string().into_bytes()
}

fn span(span: &Span) -> Value {
    let mut told = json!({
        "traceId": span.place.trace.text(),
        "spanId": span.place.span.text(),
        "name": span.name,
        "kind": kind(span.name),
        "startTimeUnixNano": nanos(span.began),
        "endTimeUnixNano": nanos(span.ended.max(span.began)),
        "attributes": span.attributes.iter().map(|(key, value)| attribute(key, &value_of(value))).collect::<Vec<_>>(),
    });
    if let Some(parent) = span.parent {
        told["parentSpanId"] = json!(parent.text());
    }
    if let Some(link) = span.link {
        told["links"] = json!([{"traceId": link.trace.text(), "spanId": link.span.text()}]);
    }
    told
}

fn kind(name: &str) -> u8 {
    match name {
        "accept" => KIND_SERVER,
        "send" | "parcel" => KIND_CLIENT,
        _ => KIND_INTERNAL,
    }
}

fn attribute(key: &str, value: &Value) -> Value {
    json!({"key": key, "value": value})
}

fn value_of(value: &Attribute) -> Value {
    match value {
        Attribute::Text(text) => json!({"stringValue": text}),
        Attribute::Number(number) => json!({"intValue": number.to_string()}),
    }
}

fn nanos(at: Millis) -> String {
    format!("{}000000", at.0)
}
