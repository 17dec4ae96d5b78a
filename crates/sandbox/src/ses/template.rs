//! Templates that stand in a request: `{{name}}` becomes what the data say. Nothing is escaped, as SES says of itself, and what was
//! put in is not looked at again.

use serde_json::Value;

pub fn fill(text: &str, data: &Value) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        filled.push_str(before);
        let Some((name, after)) = behind.split_once("}}") else {
            rest = &rest[before.len()..];
            break;
        };
        match data.get(name.trim()) {
            Some(Value::String(value)) => filled.push_str(value),
            Some(value) => filled.push_str(&value.to_string()),
            None => filled.push_str(&format!("{{{{{name}}}}}")),
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_become_what_the_data_say() {
        let data = json!({"a": "<b>{{n}}</b>", "n": 1});
        for (text, expected) in [
            ("{{a}}", "<b>{{n}}</b>"),
            ("x{{ n }}y{{n}}z", "x1y1z"),
            ("{{other}} {{n", "{{other}} {{n"),
            ("", ""),
            ("plain } text", "plain } text"),
        ] {
            assert_eq!(fill(text, &data), expected, "{text}");
        }
    }
}
