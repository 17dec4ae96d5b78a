//! For any variables, rendering returns, and what it returns is JSON.

use super::*;
use fantail_templates::diff;
use proptest::prelude::*;
use std::sync::LazyLock;

static TEMPLATE: LazyLock<Compiled> = LazyLock::new(|| {
    let text = "{{ v }} {% for x in list %}{{ x }}{{ loop.index }}{% endfor %} {{ v|string|default('')|truncate(9) }}";
    template(json!({
        "push": {"title": "{{ v }}", "body": text, "data": {"a": ["{{ v }}", {"b": text}]}, "imageUrl": "{{ v }}"},
        "inApp": {"title": "t{{ v }}", "actions": [{"id": "a", "title": "x{{ v }}", "url": "https://a.b/{{ v|string|urlencode }}"}]},
        "email": {"subject": "s {{ v }}", "html": "<a title=\"{{ v }}\" href='https://a.b/{{ v }}'>{{ list }}</a>", "text": text},
        "sms": {"body": text},
        "webhook": {"body": "{\"v\": {{ v }}, \"list\": {{ list }}, \"both\": {{ [v, list] }}}"},
    }))
});

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        "[<>&\"'/\\\\{}%\r\n\u{0}a:]{0,20}".prop_map(Value::from),
        "(https?|javascript|data):[a-z/<\"]{0,9}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn rendering_returns_and_its_bytes_are_json(v in any_json(), list in prop::collection::vec(any_json(), 0..4)) {
        for channel in Channel::ALL {
            let variables = json!({"v": v, "list": list});
            let Ok(rendered) = Ask::new(*channel).render(&TEMPLATE, variables.clone()) else { continue };
            let content: Value = serde_json::from_slice(&rendered.bytes).expect("JSON");
            prop_assert!(content.is_object());
            if *channel == Channel::Email {
                let html = content["html"].as_str().expect("html");
                prop_assert_eq!(html.matches('<').count(), 2);
                prop_assert_eq!(html.matches('"').count(), 2);
                prop_assert_eq!(html.matches('\'').count(), 2);
                prop_assert!(!content["subject"].as_str().expect("a subject").contains(['\r', '\n', '\0']));
            }
            if *channel == Channel::Webhook {
                let body: Value = serde_json::from_str(content["body"].as_str().expect("a body")).expect("JSON");
                prop_assert!(body.get("both").is_some());
            }
            let again = Ask::new(*channel).render(&TEMPLATE, variables).expect("renders again");
            prop_assert_eq!(rendered, again);
        }
    }

    #[test]
    fn any_source_compiles_or_is_refused(source in "([ a-z.|~()\\[\\]'0-9]|\\{\\{|\\}\\}|\\{%|%\\}|for|in|if|end|v|list|set){0,30}") {
        for channels in [json!({"sms": {"body": source}}), json!({"email": {"subject": "x", "html": source}})] {
            if let Ok(compiled) = try_with(json!({ "channels": channels })) {
                for channel in compiled.channels() {
                    let _refused = Ask::new(channel).render(&compiled, json!({"v": {"a": 1}, "list": [1, "b"]}));
                }
            }
        }
    }

    #[test]
    fn equal_definitions_do_not_differ(title in ".{0,20}", other in ".{0,20}") {
        let definition = |title: &str| -> Definition {
            serde_json::from_value(json!({
                "id": "t", "category": "c", "defaultLocale": "en", "channels": {"push": {"title": title}},
            })).expect("a definition")
        };
        let changes = diff(&definition(&title), &definition(&other));
        prop_assert_eq!(changes.is_empty(), title == other);
    }
}
