//! Schemas that are made of others: what a merge patch may say, and the buttons of templates.
//!
//! The server reads them with the same types, so they are no shapes of their own there.

use crate::openapi::rule::Rule;
use fantail_templates::limits::TEXT_SOURCE_BYTES_MAX;
use serde_json::{Map, Value, json};

/// Where a route takes a merge patch of a schema. Of what holds for users who have not said otherwise, the inbox is no part.
const PATCHES: &[(&str, &str, &[&str])] = &[
    ("patchPreferences", "PreferencesPatch", &[]),
    ("patchDefaultPreferences", "DefaultPreferencesPatch", &["inApp"]),
];
const PATCHED: &str = "Preferences";

/// The schema that a route's body has instead of that of its type.
pub fn of_route(id: &str) -> Option<&'static str> {
    PATCHES.iter().find(|(route, ..)| *route == id).map(|(_, name, _)| *name)
}

pub fn add(schemas: &mut Value) {
    for (_, name, without) in PATCHES {
        let mut patch = Patch { of: schemas, made: Map::new() };
        let mut schema = patch.of_component(PATCHED);
        let Patch { made, .. } = patch;
        for channel in *without {
            let channels = schema["properties"]["channels"]["properties"].as_object_mut();
            channels.map(|channels| channels.remove(*channel));
            schema.as_object_mut().map(|schema| schema.remove("not"));
        }
        schemas[*name] = schema;
        schemas.as_object_mut().expect("a map of schemas").extend(made);
    }
    // The source of a template may be longer than the text that it renders.
    let mut button = schemas["Action"].clone();
    Rule::Text(TEXT_SOURCE_BYTES_MAX).say(&mut button["properties"]["title"]);
    schemas["TemplateAction"] = button;
    for name in ["PushContent", "AppContent"] {
        schemas[name]["properties"]["actions"]["items"] = reference("TemplateAction");
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// RFC 7396: nothing is required, and `null` takes away what was said.
struct Patch<'a> {
    of: &'a Value,
    made: Map<String, Value>,
}

impl Patch<'_> {
    fn of_component(&mut self, name: &str) -> Value {
        let mut schema = self.of[name].clone();
        self.loosen(&mut schema);
        schema
    }

    /// Lists and words are replaced whole; only objects are patched inside.
    fn loosen(&mut self, schema: &mut Value) {
        if let Some(fields) = schema.as_object_mut() {
            fields.remove("required");
        }
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (_, property) in properties.into_iter().flatten() {
            *property = self.or_nothing(property);
        }
        if schema["additionalProperties"].is_object() {
            schema["additionalProperties"] = self.or_nothing(&schema["additionalProperties"]);
        }
    }

    fn or_nothing(&mut self, schema: &Value) -> Value {
        let nothing = json!({"type": "null"});
        if let Some(path) = schema["$ref"].as_str() {
            return json!({"anyOf": [self.patched(path), nothing]});
        }
        let mut schema = schema.clone();
        if let Some(ways) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
            for way in ways {
                if let Some(path) = way["$ref"].as_str().map(str::to_owned) {
                    *way = self.patched(&path);
                }
            }
            return schema;
        }
        self.loosen(&mut schema);
        if let Some(kind) = schema["type"].as_str() {
            schema["type"] = json!([kind, "null"]);
        }
        schema
    }

    fn patched(&mut self, path: &str) -> Value {
        let name = path.rsplit('/').next().unwrap_or_default();
        if !self.of[name]["properties"].is_object() {
            return reference(name);
        }
        let own = format!("{name}Patch");
        if !self.made.contains_key(&own) {
            let schema = self.of_component(name);
            self.made.insert(own.clone(), schema);
        }
        reference(&own)
    }
}
