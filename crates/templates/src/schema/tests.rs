//! Schemas that are refused, what they say about names, and which variables they let through.

use super::*;
use serde_json::json;

fn compile(schema: Value) -> Result<Schema, Vec<fantail_wire::template::Problem>> {
    let mut problems = Problems::default();
    let schema = schema.as_object().cloned();
    Schema::compile(schema.as_ref(), &mut problems).ok_or_else(|| problems.into_vec())
}

fn good(schema: Value) -> Schema {
    compile(schema).expect("a good schema")
}

#[test]
fn dangerous_schemas_are_refused() {
    let doubling: Map<String, Value> = (1..15)
        .map(|n| {
            let to = json!({"$ref": format!("#/$defs/d{}", n - 1)});
            (format!("d{n}"), json!({"allOf": [to, to]}))
        })
        .chain([("d0".to_owned(), json!({}))])
        .collect();
    let mut deep = json!({});
    for _ in 0..40 {
        deep = json!({"properties": {"a": deep}});
    }
    for (schema, code, part) in [
        (json!({"type": "array"}), ProblemCode::InvalidSchema, "an object"),
        (json!({"type": "objekt"}), ProblemCode::InvalidSchema, ""),
        (json!({"properties": {"a": {"type": 3}}}), ProblemCode::InvalidSchema, ""),
        (json!({"properties": {"a": {"pattern": "("}}}), ProblemCode::InvalidSchema, ""),
        (json!({"properties": {"user": {}}}), ProblemCode::ReservedVariable, "built-in"),
        (json!({"$ref": "https://example.com/s.json"}), ProblemCode::InvalidSchema, "does not name"),
        (json!({"$ref": "file:///etc/passwd"}), ProblemCode::InvalidSchema, "does not name"),
        (json!({"$ref": "#"}), ProblemCode::InvalidSchema, "does not name"),
        (json!({"$id": "https://example.com"}), ProblemCode::InvalidSchema, "$id"),
        (
            json!({"$defs": {"a": {"properties": {"x": {"$ref": "#/$defs/a"}}}}, "$ref": "#/$defs/a"}),
            ProblemCode::InvalidSchema,
            "back to itself",
        ),
        (json!({"$defs": doubling, "$ref": "#/$defs/d14"}), ProblemCode::InvalidSchema, "parts"),
        (deep, ProblemCode::InvalidSchema, "deeper"),
        (json!({"description": "x".repeat(SCHEMA_BYTES_MAX)}), ProblemCode::TooLarge, "bytes"),
    ] {
        let problems = compile(schema.clone()).expect_err("refused");
        assert_eq!(problems[0].code, code, "{schema}");
        assert!(problems[0].detail.contains(part), "{}: {part}", problems[0].detail);
    }
}

#[test]
fn schemas_say_which_names_there_are() {
    let schema = good(json!({
        "type": "object",
        "$defs": {"money": {"type": "object", "properties": {"amount": {"type": "number"}}}},
        "properties": {
            "name": {"type": "string"},
            "total": {"$ref": "#/$defs/money"},
            "any": {},
            "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": true},
            "either": {"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
            "items": {"type": "array", "items": {"properties": {"sku": {}}}},
        },
    }));
    let at = |path: &[&str]| {
        let mut found = schema.variable(path[0]);
        for name in &path[1..] {
            found = match found {
                Member::Known(node) if *name == "[]" => schema.item(node),
                Member::Known(node) => schema.member(node, name),
                other => other,
            };
        }
        match found {
            Member::Known(_) => "known",
            Member::Open => "open",
            Member::Missing => "missing",
        }
    };
    for (path, expected) in [
        (&["name"][..], "known"),
        (&["nome"], "missing"),
        (&["name", "first"], "missing"),
        (&["total", "amount"], "known"),
        (&["total", "amaunt"], "missing"),
        (&["any", "thing"], "open"),
        (&["open", "a"], "known"),
        (&["open", "b"], "open"),
        (&["either", "a"], "known"),
        (&["either", "b"], "known"),
        (&["either", "c"], "missing"),
        (&["items", "[]", "sku"], "known"),
        (&["items", "[]", "skv"], "missing"),
    ] {
        assert_eq!(at(path), expected, "{path:?}");
    }
    let Member::Known(total) = schema.variable("total") else { panic!("known") };
    let Member::Known(amount) = schema.member(total, "amount") else { panic!("known") };
    assert!(schema.is_number(amount) && !schema.is_number(total));
    let none = Schema::compile(None, &mut Problems::default()).expect("no schema");
    assert_eq!(none.variable("x"), Member::Missing);
}

// proves: TPL-03
#[test]
fn variables_are_checked_and_named() {
    let schema = good(json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}, "n": {"type": "integer"}},
    }));
    schema.check(&json!({"name": "ada", "n": 3, "extra": 1})).expect("valid");
    let invalid = |variables: Value| match schema.check(&variables).expect_err("invalid") {
        VariablesError::Invalid(faults) => {
            faults.into_iter().map(|f| f.pointer).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    };
    assert_eq!(invalid(json!({})), "");
    assert_eq!(invalid(json!({"name": 3})), "/name");
    assert_eq!(invalid(json!({"name": "A", "n": "x"})), "/n /name");
    assert_eq!(invalid(json!([])), "variables must be an object");
    assert!(invalid(json!({"name": "x".repeat(VARIABLES_BYTES_MAX)})).contains("bytes"));
    assert!(invalid(json!({"name": vec![0; VARIABLES_NODES_MAX]})).contains("values"));
    let mut deep = json!(1);
    for _ in 0..40 {
        deep = json!([deep]);
    }
    assert!(invalid(json!({"name": deep})).contains("deeper"));
}

#[test]
fn faults_do_not_repeat_values() {
    let schema = good(json!({"properties": {"pin": {"type": "integer"}}}));
    let Err(VariablesError::Invalid(faults)) = schema.check(&json!({"pin": "4711-secret"})) else {
        panic!("invalid");
    };
    assert!(!faults[0].detail.contains("4711"), "{}", faults[0].detail);
}

/// A backtracking engine would take hours.
#[test]
fn patterns_cannot_run_away() {
    let schema = good(json!({"properties": {"a": {"pattern": "^(a+)+$"}}}));
    let long = "a".repeat(2_000) + "!";
    schema.check(&json!({"a": long})).expect_err("no match");
}
