//! Rules between the fields of a request: which of them go together, and what one says about another.
//!
//! A field that is `null` is left out, for the server and here. Choices are `if`, `then`, `else`, and combinations that are refused stand in
//! `not`: generators of clients turn a `oneOf` into types that no value fits.

use serde_json::{Map, Value, json};

/// Exactly one of these fields.
const EXACTLY_ONE: &[(&str, &[&str])] = &[
    ("NotificationSend", &["content", "templateId"]),
    ("EventData", &["content", "templateId"]),
    ("BulkSend", &["content", "templateId"]),
    ("SchedulePut", &["notification", "bulk"]),
    ("RecipientSend", &["userId", "email", "phone", "webhook", "pushToken"]),
];

/// One of these fields at most.
const AT_MOST_ONE: &[(&str, &[&str])] = &[
    ("BulkPatch", &["ratePerSecond", "spreadOverMinutes"]),
    ("DeadLetterChoice", &["eventId", "notificationId"]),
    ("SendOptions", &["scheduledAt", "sendAtLocal", "offPeak"]),
];

const OUT_OF_HOUSE: [&str; 4] = ["push", "email", "sms", "webhook"];

/// Says all of it in the schemas.
pub fn say(schemas: &mut Value) {
    for (name, fields) in EXACTLY_ONE {
        extend(&mut schemas[*name], exactly_one(fields));
    }
    for (name, fields) in AT_MOST_ONE {
        extend(&mut schemas[*name], at_most_one(fields));
    }
    say_messages(schemas);
    extend(&mut schemas["DeviceRegister"], devices());
    let hexadecimal = json!({"properties": {"token": {"pattern": HEXADECIMAL}}});
    let ios = has("platform", "ios");
    extend(&mut schemas["PushAddress"], when(ios, hexadecimal, without(&["environment"])));
    let all = with(&json!({"properties": {"all": {"const": true}}}), &present("all"));
    extend(&mut schemas["Marks"], when(present("ids"), without(&["all", "before"]), all));
    let waits = present("afterSeconds");
    extend(&mut schemas["FallbackStep"], when(has("when", "failed"), without(&["afterSeconds"]), waits));
    let contradictions = OUT_OF_HOUSE
        .map(|channel| with(&contains("mandatoryChannels", channel), &contains("blockedChannels", channel)));
    schemas["CategoryPolicy"]["not"] = json!({"anyOf": contradictions});
    // Entries of the inbox make no sound, so the server refuses a frequency for them.
    schemas["Preferences"]["not"] = within("channels", &within("inApp", &present("frequency")));
}

/// Notifications, events and bulk sends: what a recipient of their own time cannot have, and what a template says.
fn say_messages(schemas: &mut Value) {
    let at_own_time = json!({"anyOf": [present("sendAtLocal"), present("offPeak")]});
    let in_inbox = contains("channels", "inApp");
    let too_early = with(&in_inbox, &within("options", &at_own_time));
    let someone_without_inbox = json!({
        "required": ["recipients"],
        "properties": {"recipients": {"contains": {"not": present("userId")}}},
    });
    schemas["NotificationSend"]["not"] =
        json!({"anyOf": [too_early, with(&in_inbox, &someone_without_inbox)]});
    let ttl_twice = with(&present("ttl"), &within("options", &present("ttl")));
    schemas["EventData"]["not"] = json!({"anyOf": [too_early, ttl_twice]});
    let pace_twice = with(&present("ratePerSecond"), &present("spreadOverMinutes"));
    schemas["BulkSend"]["not"] = json!({"anyOf": [too_early, pace_twice]});
    // The template says it to everybody.
    let of_all = json!({"properties": {"recipients": {"items": without(&["content"])}}});
    schemas["NotificationSend"]["else"] = with(&schemas["NotificationSend"]["else"], &of_all);
    // Without a template nothing else says where it goes.
    let somewhere = json!({"required": ["channels"], "properties": {"channels": {"minItems": 1}}});
    schemas["BulkSend"]["then"] = with(&schemas["BulkSend"]["then"], &somewhere);
    // Each run has a name and a time of its own.
    let run = with(
        &without(&["notificationId"]),
        &json!({
            "properties": {"options": {"properties": {
                "scheduledAt": {"type": "null"}, "sendAtLocal": {"not": {"pattern": "T"}},
            }}},
        }),
    );
    for (branch, field) in [("then", "notification"), ("else", "bulk")] {
        let of_runs = json!({"properties": {field: run}});
        schemas["SchedulePut"][branch] = with(&schemas["SchedulePut"][branch], &of_runs);
    }
}

/// Tokens of APNs.
const HEXADECIMAL: &str = "^([0-9A-Fa-f]{2})+$";

/// A webhook has a URL and a secret. Everything else is pushed to: by its platform's own service, unless another is named.
fn devices() -> Map<String, Value> {
    let is_webhook = has("kind", "webhook");
    let of_push =
        ["token", "platform", "service", "environment", "tokenKind", "appId", "subscription", "consent"];
    let rotated = when(present("previousSecret"), present("previousUntil"), without(&["previousUntil"]));
    let webhook = with(&with(&present("url"), &present("secret")), &without(&of_push));
    let webhook = with(&webhook, &Value::Object(rotated));
    let apns = with(&json!({"properties": {"token": {"pattern": HEXADECIMAL}}}), &without(&["tokenKind"]));
    let by_token = when(carried_by("apns", "ios"), apns, without(&["environment"]));
    let by_token = with(&with(&present("token"), &without(&["subscription"])), &Value::Object(by_token));
    let browser = with(&present("subscription"), &without(&["token", "environment", "tokenKind", "appId"]));
    let push = with(&present("platform"), &without(&["url", "secret", "previousSecret", "previousUntil"]));
    let push = with(&push, &Value::Object(when(carried_by("webPush", "web"), browser, by_token)));
    when(is_webhook, webhook, push)
}

/// This service is named, or none and it is the platform's own.
fn carried_by(service: &str, platform: &str) -> Value {
    json!({"anyOf": [has("service", service), with(&has("platform", platform), &without(&["service"]))]})
}

fn exactly_one(fields: &[&str]) -> Map<String, Value> {
    let Some((first, others)) = fields.split_first() else { return Map::new() };
    if others.is_empty() {
        return object(present(first));
    }
    when(present(first), without(others), Value::Object(exactly_one(others)))
}

fn at_most_one(fields: &[&str]) -> Map<String, Value> {
    let Some((first, others)) = fields.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Map::new();
    };
    when(present(first), without(others), Value::Object(at_most_one(others)))
}

/// Of two branches the second is left out if it says nothing.
fn when(condition: Value, then: Value, otherwise: Value) -> Map<String, Value> {
    let mut said = Map::from_iter([("if".to_owned(), condition), ("then".to_owned(), then)]);
    if otherwise.as_object().is_some_and(|otherwise| !otherwise.is_empty()) {
        said.insert("else".to_owned(), otherwise);
    }
    said
}

fn present(field: &str) -> Value {
    json!({"required": [field], "properties": {field: {"not": {"type": "null"}}}})
}

fn without(fields: &[&str]) -> Value {
    let nothing = fields.iter().map(|field| ((*field).to_owned(), json!({"type": "null"})));
    json!({"properties": Map::from_iter(nothing)})
}

fn has(field: &str, word: &str) -> Value {
    json!({"required": [field], "properties": {field: {"const": word}}})
}

fn contains(field: &str, word: &str) -> Value {
    json!({"required": [field], "properties": {field: {"contains": {"const": word}}}})
}

fn within(field: &str, said: &Value) -> Value {
    json!({"required": [field], "properties": {field: said}})
}

/// Both: what is required of either, and what either says about its fields.
fn with(one: &Value, other: &Value) -> Value {
    let mut both = one.clone();
    for (keyword, value) in other.as_object().into_iter().flatten() {
        match (&mut both[keyword], value) {
            (Value::Array(names), Value::Array(more)) => names.extend(more.iter().cloned()),
            (Value::Object(fields), Value::Object(more)) if keyword == "properties" => {
                for (field, said) in more {
                    let place = fields.entry(field.clone()).or_insert(Value::Null);
                    *place = if place.is_null() { said.clone() } else { with(place, said) };
                }
            }
            (place @ Value::Null, _) => *place = value.clone(),
            (
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_),
                _,
            ) => {
                panic!("{keyword} cannot be said twice")
            }
        }
    }
    both
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn extend(schema: &mut Value, said: Map<String, Value>) {
    schema.as_object_mut().expect("a schema of an object").extend(said);
}
