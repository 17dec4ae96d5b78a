//! The document in the form that generators of clients understand.
//!
//! Some of them turn a `oneOf` of constants into a type that no value fits, and a `default` beside a `$ref` into code that
//! does not compile.

use serde_json::{Map, Value, json};

/// Rewrites every schema below.
pub fn simplify(document: &mut Value) {
    match document {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(fields) => {
            fields.values_mut().for_each(simplify);
            if let Some((words, meanings)) = fields.get("oneOf").and_then(words_of) {
                fields.remove("oneOf");
                fields.insert("type".to_owned(), json!("string"));
                fields.insert("enum".to_owned(), json!(words));
                describe(fields, &meanings);
            }
            if fields.get("format").is_some_and(|format| format == "uint64")
                && !fields.contains_key("maximum")
            {
                fields.insert("maximum".to_owned(), json!(u64::MAX));
            }
            // An empty object says no more than that the field can be left out.
            if fields.contains_key("$ref") || fields.get("default").is_some_and(Value::is_object) {
                fields.remove("default");
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The words of alternatives that are all constant strings, and what is said about each.
fn words_of(alternatives: &Value) -> Option<(Vec<String>, Vec<String>)> {
    let (mut words, mut meanings) = (Vec::new(), Vec::new());
    for alternative in alternatives.as_array()? {
        let several = alternative["enum"].as_array().map(Vec::as_slice);
        let constants = several.unwrap_or_else(|| std::slice::from_ref(&alternative["const"]));
        for constant in constants {
            let word = constant.as_str()?;
            words.push(word.to_owned());
            if let Some(meaning) = alternative["description"].as_str() {
                meanings.push(format!("`{word}`: {meaning}"));
            }
        }
    }
    Some((words, meanings))
}

fn describe(schema: &mut Map<String, Value>, meanings: &[String]) {
    let own = schema.get("description").and_then(Value::as_str).map(str::to_owned);
    let lines: Vec<String> = own.into_iter().chain(meanings.iter().cloned()).collect();
    if !lines.is_empty() {
        schema.insert("description".to_owned(), json!(lines.join("\n\n")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut schema: Value, simple: Value) {
        simplify(&mut schema);
        assert_eq!(schema, simple);
    }

    // fixes: interop F3
    #[test]
    fn constants_are_an_enum() {
        check(
            json!({"description": "Which.", "oneOf": [
                {"type": "string", "enum": ["a", "b"]},
                {"type": "string", "const": "c", "description": "The third."},
            ]}),
            json!({"description": "Which.\n\n`c`: The third.", "type": "string", "enum": ["a", "b", "c"]}),
        );
        let of_objects = json!({"oneOf": [{"type": "object"}, {"const": "a"}]});
        check(of_objects.clone(), of_objects);
    }

    // fixes: interop F3
    #[test]
    fn defaults_are_plain_values() {
        check(json!({"$ref": "#/x", "default": {"a": 1}}), json!({"$ref": "#/x"}));
        check(json!({"type": "object", "default": {}}), json!({"type": "object"}));
        check(json!({"type": "boolean", "default": true}), json!({"type": "boolean", "default": true}));
    }
}
