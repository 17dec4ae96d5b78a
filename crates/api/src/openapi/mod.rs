//! The OpenAPI 3.1 document, made from the route table and from the shapes themselves (serde attributes and doc
//! comments), so that it cannot say anything else than the code does.

mod examples;
mod examples_audit;
mod examples_bulk;
mod examples_categories;
mod examples_providers;
mod examples_respect;
mod examples_schedules;
mod examples_segments;
mod examples_sent;
mod examples_templates;
mod examples_webhooks;

mod bounds;
mod choices;
mod descriptions;
mod parameters;
mod plain;
mod rule;
mod variants;

use crate::reply::JSON;
use crate::route::{Answer, Body, Handle, Route};
use crate::routes::ROUTES;
use crate::time;
use fantail_rules::ids::Millis;
use fantail_rules::limits::EVENTS_PER_REQUEST_MAX;
use fantail_wire::event::CloudEvent;
use fantail_wire::problem::{MEDIA_TYPE, Problem};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A wire shape: how it is described, and one value of it.
#[derive(Clone, Copy)]
pub struct Shape {
    schema: fn(&mut SchemaGenerator) -> Schema,
    example: fn() -> Value,
}

/// One full value of a shape: every optional field is there.
pub trait Example: Serialize {
    fn example() -> Self;
}

impl Shape {
    pub const fn of<T: JsonSchema + Example>() -> Self {
        Self { schema: |generator| generator.subschema_for::<T>(), example: example_of::<T> }
    }
}

fn example_of<T: Example>() -> Value {
    serde_json::to_value(T::example()).expect("our shapes have string keys and finite numbers")
}

/// The whole document. Examples of times that must lie ahead are reckoned from `now`.
#[must_use]
pub fn document(version: &str, now: Millis) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        let operation = operation(route, &mut generator);
        paths.entry(route.path).or_default().insert(route.method.text().to_ascii_lowercase(), operation);
    }
    let schemas: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    let mut paths = json!(paths);
    let mut schemas = Value::Object(schemas);
    plain::simplify(&mut schemas);
    plain::simplify(&mut paths);
    bounds::say(&mut schemas);
    choices::say(&mut schemas);
    variants::add(&mut schemas);
    set_soon(&mut paths, now);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Fantail",
            "version": version,
            "summary": "Self-hosted notification platform",
            "description": "Errors are problem documents (RFC 9457) with a stable `code`; each code has a page \
                under `/errors/`. Cursors are opaque. Times lie between 1970 and 9999. Lengths are those of UTF-8, in bytes: a text \
                beyond ASCII has fewer characters than `maxLength` says. Where two paths fit a request, the one without a parameter in \
                that place is meant: what begins with `/api/v1/notifications/bulk/` is about bulk sends, and no \
                notification can be named `bulk`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "Where this document is served"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A tenant's key, or the server's admin key with the header Fantail-Tenant",
                },
            },
        },
    })
}

/// Stands in an example for a time of which the server demands that it is near.
pub(crate) const SOON: &str = "soon";
const SOON_MS: u64 = 90 * 24 * 3_600_000;

fn set_soon(value: &mut Value, now: Millis) {
    match value {
        Value::String(text) if text == SOON => *text = time::text(now.plus(SOON_MS)),
        Value::Array(items) => items.iter_mut().for_each(|item| set_soon(item, now)),
        Value::Object(fields) => fields.values_mut().for_each(|field| set_soon(field, now)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut operation = Map::new();
    operation.insert("operationId".to_owned(), json!(route.id));
    operation.insert("summary".to_owned(), json!(route.summary));
    if let Some(text) = descriptions::of(route.id) {
        operation.insert("description".to_owned(), json!(text));
    }
    operation.insert("tags".to_owned(), json!([tag(route)]));
    let parameters = parameters::of(route);
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), Value::Array(parameters));
    }
    match route.handle {
        Handle::Open(_) | Handle::Hosted(_) | Handle::Callback(_) => {
            operation.insert("security".to_owned(), json!([]));
        }
        Handle::Scoped(scope, _) => {
            operation.insert("security".to_owned(), json!([{"key": [scope.text()]}]));
        }
        Handle::TenantAdmin(_) => {
            operation.insert("security".to_owned(), json!([{"key": ["admin"]}]));
        }
        Handle::ServerAdmin(_) => {
            operation.insert("security".to_owned(), json!([{"key": ["server admin"]}]));
        }
    }
    if let Some(body) = request_body(route, generator) {
        operation.insert("requestBody".to_owned(), body);
    }
    operation.insert("responses".to_owned(), Value::Object(responses(route, generator)));
    Value::Object(operation)
}

/// The first word of the path behind the version.
fn tag(route: &Route) -> &'static str {
    let rest = route.path.strip_prefix("/api/v1/");
    rest.and_then(|rest| rest.split('/').next()).unwrap_or("server")
}

fn request_body(route: &Route, generator: &mut SchemaGenerator) -> Option<Value> {
    match route.body {
        Body::None => None,
        Body::Json(shape) => {
            let mut content = content(shape, generator);
            if let Some(name) = variants::of_route(route.id) {
                content["schema"] = json!({"$ref": format!("#/components/schemas/{name}")});
            }
            Some(json!({"required": !takes_nothing(route), "content": {JSON: content}}))
        }
        Body::Lines => Some(json!({
            "required": true,
            "description": "One user on each line: a name in quotes, or `{\"userId\": …}`; or CSV with the user in the \
                first column",
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}, "example": "\"ann\"\n{\"userId\": \"bob\"}\n"},
                "text/csv": {"schema": {"type": "string"}, "example": "userId\nann\nbob\n"},
            },
        })),
        Body::Form => {
            let schema = json!({"type": "object", "additionalProperties": true});
            let example = json!({"List-Unsubscribe": "One-Click"});
            let form = json!({"schema": schema, "example": example});
            let description = "`List-Unsubscribe=One-Click` as RFC 8058 has it, or the form of the page";
            Some(json!({
                "required": true, "description": description,
                "content": {"application/x-www-form-urlencoded": form, "multipart/form-data": form},
            }))
        }
        Body::Events => {
            let one = content(Shape::of::<CloudEvent>(), generator);
            let example = json!([one["example"]]);
            let many = json!({
                "schema": {"type": "array", "items": one["schema"], "minItems": 1, "maxItems": EVENTS_PER_REQUEST_MAX},
                "example": example,
            });
            Some(json!({
                "required": true,
                "description": "CloudEvents 1.0: structured, batch (also as a plain JSON array), or binary with \
                    `ce-` headers and the event's data as body",
                "content": {
                    JSON: one, "application/cloudevents+json": one, "application/cloudevents-batch+json": many,
                },
            }))
        }
    }
}

/// Whether a request without a body is as good as one with an empty object, or better.
fn takes_nothing(route: &Route) -> bool {
    let optional =
        ["putUser", "putSegment", "putSuppression", "redriveDeadLetters", "dropDeadLetters", "rotateWebhook"];
    optional.contains(&route.id)
}

fn content(shape: Shape, generator: &mut SchemaGenerator) -> Value {
    json!({"schema": (shape.schema)(generator), "example": (shape.example)()})
}

fn responses(route: &Route, generator: &mut SchemaGenerator) -> Map<String, Value> {
    let mut responses = Map::new();
    for answer in route.answers.iter().flatten() {
        let entry = responses.entry(answer.status.to_string());
        let response = entry.or_insert_with(|| json!({"description": "Done"}));
        add_content(response, answer, generator);
    }
    if route.path_params().next().is_some() || !route.query.is_empty() {
        // No body: the path is not read.
        responses
            .insert("414".to_owned(), json!({"description": "The path and the query have more than 64 KiB"}));
    }
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in route.all_codes() {
        by_status.entry(code.status()).or_default().push(code.text());
    }
    for (status, codes) in by_status {
        let mut content = content(Shape::of::<Problem>(), generator);
        content.as_object_mut().map(|content| content.remove("example"));
        let response = responses.entry(status.to_string()).or_insert_with(|| json!({}));
        response["description"] = json!(codes.join(", "));
        response["content"][MEDIA_TYPE] = content;
    }
    responses
}

/// Two answers with one status and media type are alternatives.
fn add_content(response: &mut Value, answer: &Answer, generator: &mut SchemaGenerator) {
    if answer.media_type.is_empty() {
        return;
    }
    let added = match answer.shape {
        Some(shape) => content(shape, generator),
        None => json!({}),
    };
    let slot = &mut response["content"][answer.media_type];
    if slot.is_null() {
        *slot = added;
    } else {
        *slot = json!({"schema": {"oneOf": [slot["schema"], added["schema"]]}, "example": slot["example"]});
    }
}

#[cfg(test)]
mod tests;
