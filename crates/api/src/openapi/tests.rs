//! The document names every route, and its examples are what its schemas describe. The validator knows exactly the
//! keywords that occur; any other one fails the test instead of being passed over.

use super::*;
use crate::route::Method;
use fantail_wire::inbox::Marks;

fn the_document() -> Value {
    document("0.0.0", Millis(1_769_860_800_000))
}

// proves: API-04
#[test]
fn every_route_is_described() {
    let document = the_document();
    for route in ROUTES {
        let operation = &document["paths"][route.path][route.method.text().to_ascii_lowercase()];
        assert_eq!(operation["operationId"], route.id);
        assert_eq!(
            operation["security"] == json!([]),
            matches!(route.handle, Handle::Open(_) | Handle::Hosted(_) | Handle::Callback(_)),
            "{}",
            route.id
        );
        let described = operation["parameters"].as_array().map_or(0, Vec::len);
        assert!(operation["security"].is_array(), "{}", route.id);
        let header = usize::from(matches!(route.handle, Handle::Scoped(..)));
        let name = usize::from(route.is_idempotent_by_name());
        let headers = header + name + 2 * usize::from(route.is_conditional);
        assert_eq!(described, route.path_params().count() + route.query.len() + headers, "{}", route.id);
        for answer in route.answers.iter().flatten() {
            assert!(!operation["responses"][answer.status.to_string()].is_null(), "{}", route.id);
        }
        for code in route.all_codes() {
            let response = &operation["responses"][code.status().to_string()]["description"];
            assert!(response.as_str().is_some_and(|text| text.contains(code.text())), "{}", route.id);
        }
    }
    let described: usize = document["paths"]
        .as_object()
        .expect("paths")
        .values()
        .map(|path| path.as_object().map_or(0, Map::len))
        .sum();
    assert_eq!(described, ROUTES.len());
}

/// Whether one request could be meant by both, and the segments in which one has a word and the other a parameter.
fn overlap<'p>(one: &'p str, other: &'p str) -> Option<Vec<&'p str>> {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.split('/').collect(), other.split('/').collect());
    let is_open = |part: &str| part.starts_with('{');
    let fits = |(a, b): (&&str, &&str)| a == b || is_open(a) || is_open(b);
    if one.len() != other.len() || !one.iter().zip(&other).all(fits) {
        return None;
    }
    let word = |(a, b): (&'p str, &'p str)| match (is_open(a), is_open(b)) {
        (true, false) => Some(b),
        (false, true) => Some(a),
        (true, true) | (false, false) => None,
    };
    Some(one.into_iter().zip(other).filter_map(word).collect())
}

// fixes: interop F3
/// Generators and gateways do not agree which of two such paths is meant, so there are no others, and the document says it.
#[test]
fn only_bulk_sends_have_paths_that_fit_others() {
    let document = the_document();
    let about = document["info"]["description"].as_str().expect("a description");
    let mut found = 0;
    for (at, one) in ROUTES.iter().enumerate() {
        for other in &ROUTES[at + 1..] {
            let Some(words) = overlap(one.path, other.path).filter(|words| words.len() > 1) else { continue };
            assert!(words.contains(&"bulk"), "{} and {}", one.path, other.path);
            assert!(about.contains("/api/v1/notifications/bulk/"), "{about}");
            found += 1;
        }
    }
    assert!(found > 0, "nothing fits two paths any more: the note can go");
}

// fixes: interop F3
#[test]
fn the_document_says_where_it_is_served_and_times_are_times() {
    let document = the_document();
    assert_eq!(document["servers"][0]["url"], "/");
    fn check(value: &Value, name: &str) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| check(value, name)),
            Value::Array(items) => items.iter().for_each(|item| check(item, name)),
            Value::String(text) if name.ends_with("At") || name.ends_with("Until") => {
                assert!(text.parse::<jiff::Timestamp>().is_ok(), "{name}: {text}");
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    for route in ROUTES {
        if let Body::Json(shape) = route.body {
            check(&(shape.example)(), "");
        }
        for shape in route.answers.iter().flatten().filter_map(|answer| answer.shape) {
            check(&(shape.example)(), "");
        }
    }
}

#[test]
fn the_span_of_the_audit_log_is_two_times() {
    let document = the_document();
    let parameters = document["paths"]["/api/v1/audit"]["get"]["parameters"].as_array().expect("parameters");
    for name in ["from", "to"] {
        let found = parameters.iter().find(|one| one["name"] == name).expect("it is described");
        assert_eq!(found["schema"]["format"], "date-time", "{found}");
    }
}

#[test]
fn schema_names_are_unique_and_used() {
    let document = the_document();
    let text = document.to_string();
    for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
        // The generator would number the second shape of one name.
        assert!(!name.ends_with(|last: char| last.is_ascii_digit()), "{name} is the name of two shapes");
        assert!(text.contains(&format!("#/components/schemas/{name}")), "{name} is used");
    }
}

#[test]
fn examples_are_what_the_schemas_describe() {
    let document = the_document();
    let mut checked = 0;
    for route in ROUTES {
        let operation = &document["paths"][route.path][route.method.text().to_ascii_lowercase()];
        let mut contents: Vec<&Value> = vec![&operation["requestBody"]["content"]];
        let responses = operation["responses"].as_object().expect("responses");
        contents.extend(responses.values().map(|response| &response["content"]));
        for content in contents.into_iter().filter_map(Value::as_object) {
            for media in content.values().filter(|media| !media["example"].is_null()) {
                validate(&document, &media["schema"], &media["example"], route.id);
                checked += 1;
            }
        }
    }
    assert!(checked > 40, "{checked} examples");
}

/// A field that a shape gained but its schema lost, or the reverse, shows here.
#[test]
fn full_examples_have_every_property() {
    let document = the_document();
    // These have fields that exclude each other.
    let skipped = [
        "Marks",
        "NotificationSend",
        "BulkSend",
        "BulkPatch",
        "DeviceRegister",
        "SchedulePut",
        "SchedulePatch",
        "DeadLetterChoice",
    ];
    for route in ROUTES {
        let operation = &document["paths"][route.path][route.method.text().to_ascii_lowercase()];
        let media = &operation["requestBody"]["content"][JSON];
        let Some(name) = media["schema"]["$ref"].as_str().and_then(|path| path.rsplit('/').next()) else {
            continue;
        };
        let properties =
            document["components"]["schemas"][name]["properties"].as_object().expect("an object");
        for property in properties.keys().filter(|_| !skipped.contains(&name)) {
            assert!(!media["example"][property].is_null(), "{name}.{property}");
        }
    }
}

#[test]
fn unknown_fields_of_requests_are_described_as_refused() {
    let document = the_document();
    for route in ROUTES.iter().filter(|route| route.method != Method::Get) {
        let Body::Json(shape) = route.body else { continue };
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        let schema = (shape.schema)(&mut generator);
        let name =
            schema.as_value()["$ref"].as_str().and_then(|path| path.rsplit('/').next()).expect("a name");
        let described = &document["components"]["schemas"][name];
        assert_eq!(described["additionalProperties"], false, "{name}");
    }
}

/// Schemas that a request body leads to.
fn of_requests(document: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut waiting: Vec<Value> = Vec::new();
    for route in ROUTES {
        let operation = &document["paths"][route.path][route.method.text().to_ascii_lowercase()];
        waiting.push(operation["requestBody"]["content"].clone());
    }
    while let Some(place) = waiting.pop() {
        match place {
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => {
                if let Some(name) =
                    fields.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next())
                    && !found.contains_key(name)
                {
                    let schema = document["components"]["schemas"][name].clone();
                    waiting.push(schema.clone());
                    found.insert(name.to_owned(), schema);
                }
                waiting
                    .extend(fields.into_iter().filter(|(name, _)| name != "example").map(|(_, value)| value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

/// Requires that each value of a request has a bound, a list of words or the format of a time.
fn require_bounds(schema: &Value, place: &str) {
    let is = |name: &str| match &schema["type"] {
        Value::Array(names) => names.iter().any(|one| one == name),
        one => one == name,
    };
    let has = |keyword: &str| !schema[keyword].is_null();
    if is("string") {
        assert!(
            has("maxLength") || has("enum") || has("format") || UNBOUNDED.contains(&place),
            "{place}: {schema}"
        );
    }
    if is("integer") {
        let is_wide = schema["format"] == "uint64";
        assert!(has("minimum") && (has("maximum") || is_wide), "{place}: {schema}");
    }
    if is("array") {
        let items = &schema["items"];
        let of_words = has("minItems") || items["$ref"].is_string() || items["enum"].is_array();
        assert!(has("maxItems") || of_words, "{place}: {schema}");
        require_bounds(items, &format!("{place}[]"));
    }
    for keyword in ["oneOf", "anyOf"] {
        for one in schema[keyword].as_array().into_iter().flatten() {
            require_bounds(one, place);
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        require_bounds(property, &format!("{place}.{name}"));
    }
}

/// Texts that are looked up, whatever they are: an unknown one is an error of its item, not of the request.
const UNBOUNDED: &[&str] = &["Receipt.reference"];

// fixes: usability §2.1, usability §2.2
#[test]
fn every_status_that_is_answered_is_documented() {
    let document = the_document();
    let of =
        |path: &str, method: &str, status: &str| document["paths"][path][method]["responses"][status].clone();
    let html = "text/html; charset=utf-8";
    for status in ["200", "400", "404", "409"] {
        assert!(!of("/u/{token}", "post", status)["content"][html].is_null(), "{status}");
    }
    assert!(!of("/u/{token}", "post", "400")["content"][MEDIA_TYPE].is_null(), "broken HTTP is a problem");
    for (status, media) in
        [("200", JSON), ("503", JSON), ("503", "text/plain; charset=utf-8"), ("422", MEDIA_TYPE)]
    {
        assert!(!of("/readyz", "get", status)["content"][media].is_null(), "{status} {media}");
    }
}

// fixes: usability §2.4
#[test]
fn everything_in_a_request_is_bounded() {
    let document = the_document();
    let schemas = of_requests(&document);
    assert!(schemas.len() > 60, "{} schemas", schemas.len());
    for (name, schema) in &schemas {
        require_bounds(schema, name);
    }
    let receipt = &schemas["Receipt"]["properties"]["reference"];
    assert!(receipt["maxLength"].is_null(), "the exception is needed");
}

fn check_choices(cases: &[(&str, Value, bool)]) {
    let document = the_document();
    for (name, value, is_good) in cases {
        let schema = json!({"$ref": format!("#/components/schemas/{name}")});
        let found = fault(&document, &schema, value);
        assert_eq!(found.is_none(), *is_good, "{name} {value}: {found:?}");
    }
}

// fixes: usability §2.4, usability §3.25
#[test]
fn choices_between_fields_are_said() {
    let recipients = json!([{"userId": "ann"}]);
    let content = json!({"title": "x"});
    check_choices(&[
        ("NotificationSend", json!({"recipients": recipients, "content": content}), true),
        ("NotificationSend", json!({"recipients": recipients, "templateId": "t"}), true),
        ("NotificationSend", json!({"recipients": recipients}), false),
        ("NotificationSend", json!({"recipients": recipients, "content": content, "templateId": "t"}), false),
        ("NotificationSend", json!({"recipients": [], "content": content}), false),
        ("RecipientSend", json!({"userId": "ann"}), true),
        ("RecipientSend", json!({"phone": "+436601234567"}), true),
        ("RecipientSend", json!({}), false),
        ("RecipientSend", json!({"userId": "ann", "email": "ann@example.com"}), false),
        ("RecipientSend", json!({"phone": "+436601234567", "email": "ann@example.com"}), false),
        ("Marks", json!({"all": true}), true),
        ("Marks", json!({"all": true, "ids": ["a"]}), false),
        ("Marks", json!({}), false),
        ("BulkPatch", json!({}), true),
        ("BulkPatch", json!({"ratePerSecond": 5, "spreadOverMinutes": 5}), false),
        ("DeviceRegister", json!({"userId": "a", "deviceId": "d", "platform": "ios", "token": "ab"}), true),
        ("DeviceRegister", json!({"userId": "a", "deviceId": "d", "token": "ab"}), false),
        ("DeviceRegister", json!({"userId": "a", "deviceId": "d", "kind": "webhook"}), false),
        ("Frequency", json!({"maxPerHour": 1_000}), true),
        ("Frequency", json!({"maxPerHour": 1_001}), false),
        ("TenantChange", json!({"celebrityThreshold": 99}), false),
    ]);
}

/// The validator treats a field that is null like one that is left out.
#[test]
fn what_goes_with_what_is_said_and_null_is_nothing() {
    let recipients = json!([{"userId": "ann"}]);
    let content = json!({"title": "x"});
    check_choices(&[
        ("NotificationSend", json!({"recipients": recipients, "content": content, "templateId": null}), true),
        ("NotificationSend", json!({"recipients": recipients, "content": null}), false),
        ("RecipientSend", json!({"userId": "ann", "email": null}), true),
        ("RecipientSend", json!({"userId": null}), false),
        ("Marks", json!({"all": true, "ids": null, "before": "a"}), true),
        ("Marks", json!({"all": false}), false),
        ("Marks", json!({"ids": ["a"], "before": "a"}), false),
        ("DeadLetterChoice", json!({"eventId": null, "notificationId": null}), true),
        ("DeadLetterChoice", json!({"eventId": "a", "notificationId": "b"}), false),
        ("SendOptions", json!({"sendAtLocal": "18:00", "scheduledAt": null}), true),
        ("SendOptions", json!({"sendAtLocal": "18:00", "scheduledAt": "2026-01-31T12:00:00Z"}), false),
        (
            "SendOptions",
            json!({"sendAtLocal": "18:00", "offPeak": {"start": "01:00", "end": "02:00"}}),
            false,
        ),
        (
            "NotificationSend",
            json!({"recipients": recipients, "content": content, "channels": ["inApp"], "options": {"sendAtLocal": "18:00"}}),
            false,
        ),
        (
            "NotificationSend",
            json!({"recipients": [{"email": "ann@example.com"}], "content": content, "channels": ["inApp", "email"]}),
            false,
        ),
        (
            "NotificationSend",
            json!({"recipients": [{"userId": "ann", "content": content}], "templateId": "t"}),
            false,
        ),
        (
            "BulkSend",
            json!({"recipientQuery": {"segment": "s"}, "content": content, "channels": ["inApp"]}),
            true,
        ),
        ("BulkSend", json!({"recipientQuery": {"segment": "s"}, "content": content}), false),
        (
            "EventData",
            json!({"audience": {"topic": "t"}, "content": content, "ttl": 60, "options": {"ttl": 60}}),
            false,
        ),
    ]);
}

#[test]
fn what_devices_and_policies_need_is_said() {
    check_choices(&[
        ("DeviceRegister", json!({"userId": "a", "deviceId": "d", "platform": "web", "token": "ab"}), false),
        (
            "DeviceRegister",
            json!({"userId": "a", "deviceId": "d", "platform": "android", "token": "ab", "environment": "sandbox"}),
            false,
        ),
        (
            "DeviceRegister",
            json!({"userId": "a", "deviceId": "d", "platform": "ios", "token": "ab", "environment": "sandbox", "url": null}),
            true,
        ),
        (
            "DeviceRegister",
            json!({"userId": "a", "deviceId": "d", "platform": "ios", "service": "fcm", "token": "x", "tokenKind": "fid"}),
            true,
        ),
        (
            "DeviceRegister",
            json!({"userId": "a", "deviceId": "d", "kind": "webhook", "url": "https://a.b", "secret": "s", "platform": "ios"}),
            false,
        ),
        ("FallbackStep", json!({"channel": "sms", "when": "failed"}), true),
        ("FallbackStep", json!({"channel": "sms", "when": "failed", "afterSeconds": 5}), false),
        ("FallbackStep", json!({"channel": "sms", "when": "notSeen"}), false),
        ("CategoryPolicy", json!({"mandatoryChannels": ["sms"], "blockedChannels": ["email"]}), true),
        ("CategoryPolicy", json!({"mandatoryChannels": ["sms"], "blockedChannels": ["sms"]}), false),
        ("PreferencesPatch", json!({"channels": {"push": null}, "quietHours": {"enabled": null}}), true),
        ("PreferencesPatch", json!({"channels": {"inApp": {"enabled": false}}}), true),
        ("PreferencesPatch", json!({"channels": {"inApp": {"frequency": {"maxPerHour": 1}}}}), false),
        ("DefaultPreferencesPatch", json!({"channels": {"inApp": {"enabled": false}}}), false),
        ("PreferenceLinkAsk", json!({"channel": null}), true),
    ]);
}

#[test]
fn the_validator_refuses_what_is_wrong() {
    let document = the_document();
    let schema = &json!({"$ref": "#/components/schemas/Marks"});
    validate(&document, schema, &example_of::<Marks>(), "a full example");
    for wrong in [json!({"ids": 1}), json!({"idz": []}), json!([]), json!({"all": "yes"})] {
        assert!(fault(&document, schema, &wrong).is_some(), "{wrong}");
    }
    let event = &json!({"$ref": "#/components/schemas/CloudEvent"});
    assert!(fault(&document, event, &json!({"id": "1"})).is_some());
}

fn validate(document: &Value, schema: &Value, value: &Value, what: &str) {
    if let Some(fault) = fault(document, schema, value) {
        panic!("{what}: {fault}\nvalue: {value}\nschema: {schema}");
    }
}

/// Why `value` is not what `schema` describes.
fn fault(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    let keywords = match schema {
        Value::Bool(true) => return None,
        Value::Bool(false) => return Some("nothing is allowed here".to_owned()),
        Value::Object(keywords) => keywords,
        _ => return Some(format!("not a schema: {schema}")),
    };
    keywords.iter().find_map(|(keyword, wanted)| keyword_fault(document, keywords, (keyword, wanted), value))
}

fn keyword_fault(
    document: &Value,
    schema: &Map<String, Value>,
    (keyword, wanted): (&str, &Value),
    value: &Value,
) -> Option<String> {
    let nested = |schema: &Value, value: &Value| fault(document, schema, value);
    match keyword {
        "description" | "title" | "format" | "default" | "pattern" | "propertyNames" | "then" | "else" => {
            None
        }
        "contains" => contains_fault(document, wanted, value),
        "if" => {
            let branch = if nested(wanted, value).is_none() { "then" } else { "else" };
            schema.get(branch).and_then(|branch| nested(branch, value))
        }
        "not" => nested(wanted, value).is_none().then(|| format!("{value} is what it must not be: {wanted}")),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "maxProperties" => {
            size_fault((keyword, wanted), value)
        }
        "maximum" => (value.as_f64() > wanted.as_f64()).then(|| format!("{value} is above {wanted}")),
        "$ref" => {
            let path = wanted.as_str().and_then(|path| path.strip_prefix('#')).expect("a local reference");
            nested(document.pointer(path).expect("the reference leads somewhere"), value)
        }
        "type" => {
            let names: Vec<&str> = match wanted {
                Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
                name => name.as_str().into_iter().collect(),
            };
            let fits = names.iter().any(|name| has_type(value, name));
            (!fits).then(|| format!("{value} is not {wanted}"))
        }
        "const" => (value != wanted).then(|| format!("{value} is not {wanted}")),
        "enum" => {
            let known = wanted.as_array().is_some_and(|known| known.contains(value));
            (!known).then(|| format!("{value} is none of {wanted}"))
        }
        "minimum" => (value.as_f64() < wanted.as_f64()).then(|| format!("{value} is below {wanted}")),
        "required" => {
            let names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
            let mut missing = names.filter(|name| value.is_object() && value.get(name).is_none());
            missing.next().map(|name| format!("{name} is missing"))
        }
        "properties" => {
            let wanted = wanted.as_object().expect("properties");
            wanted.iter().find_map(|(name, schema)| nested(schema, value.get(name)?))
        }
        "additionalProperties" => {
            let known = schema.get("properties").and_then(Value::as_object);
            let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
            let object = value.as_object()?;
            object.iter().filter(|(name, _)| !is_known(name)).find_map(|(_, value)| nested(wanted, value))
        }
        "items" => value.as_array()?.iter().find_map(|item| nested(wanted, item)),
        "oneOf" | "anyOf" => {
            let schemas = wanted.as_array().expect("alternatives");
            let fits = schemas.iter().filter(|schema| nested(schema, value).is_none()).count();
            let good = if keyword == "oneOf" { fits == 1 } else { fits >= 1 };
            (!good).then(|| format!("{value} fits {fits} of {wanted}"))
        }
        _ => Some(format!("the validator does not know {keyword}")),
    }
}

fn size_fault((keyword, wanted): (&str, &Value), value: &Value) -> Option<String> {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => return None,
    };
    let limit = usize::try_from(wanted.as_u64()?).ok()?;
    let fits = if keyword.starts_with("min") { size >= limit } else { size <= limit };
    (!fits).then(|| format!("{value} has {size}, {keyword} is {limit}"))
}

fn contains_fault(document: &Value, wanted: &Value, value: &Value) -> Option<String> {
    let fits =
        value.as_array().is_none_or(|items| items.iter().any(|item| fault(document, wanted, item).is_none()));
    (!fits).then(|| format!("{value} has no {wanted}"))
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}
