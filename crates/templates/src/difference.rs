//! Where two versions of a template differ: each changed text by its place, for the history of a template.

use crate::problems::below;
use fantail_wire::template::{Change, Definition};
use serde_json::Value;
use std::collections::BTreeSet;

/// Sorted by place. Equal definitions have no changes.
#[must_use]
pub fn diff(old: &Definition, new: &Definition) -> Vec<Change> {
    let value = |definition| serde_json::to_value(definition).expect("a definition has string keys only");
    let mut changes = Vec::new();
    compare("", Some(&value(old)), Some(&value(new)), &mut changes);
    changes
}

fn compare(pointer: &str, old: Option<&Value>, new: Option<&Value>, changes: &mut Vec<Change>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                compare(&below(pointer, key), old.get(key), new.get(key), changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                compare(&below(pointer, &index.to_string()), old.get(index), new.get(index), changes);
            }
        }
        (old, new) => {
            changes.push(Change { pointer: pointer.to_owned(), old: old.map(text), new: new.map(text) })
        }
    }
}

/// A string as it is, anything else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(value: Value) -> Definition {
        serde_json::from_value(value).expect("a definition")
    }

    #[test]
    fn changes_name_their_place() {
        let old = definition(json!({
            "id": "a", "category": "c", "defaultLocale": "en",
            "channels": {"push": {"title": "Hi"}, "sms": {"body": "x"}},
            "variants": [{"name": "v", "weight": 1}],
        }));
        let new = definition(json!({
            "id": "a", "category": "c", "defaultLocale": "en",
            "channels": {"push": {"title": "Hello", "data": {"a/b": 1}}},
            "variants": [{"name": "v", "weight": 2}, {"name": "w", "weight": 1}],
        }));
        assert_eq!(diff(&old, &old), []);
        let found: Vec<(String, Option<String>, Option<String>)> =
            diff(&old, &new).into_iter().map(|change| (change.pointer, change.old, change.new)).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            found,
            [
                ("/channels/push/data".to_owned(), None, some("{\"a/b\":1}")),
                ("/channels/push/title".to_owned(), some("Hi"), some("Hello")),
                ("/channels/sms".to_owned(), some("{\"body\":\"x\"}"), None),
                ("/variants/0/weight".to_owned(), some("1"), some("2")),
                ("/variants/1".to_owned(), None, some("{\"channels\":{},\"name\":\"w\",\"weight\":1}")),
            ]
        );
    }
}
