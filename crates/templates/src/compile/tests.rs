//! Definitions that are refused, each with its place and its code.

use super::*;
use crate::limits::{DOCUMENT_SOURCE_BYTES_MAX, SOURCES_MAX, TEXT_SOURCE_BYTES_MAX};
use serde_json::{Value, json};

fn base() -> Value {
    json!({
        "id": "order-shipped",
        "name": "Order shipped",
        "category": "transaction",
        "defaultLocale": "en",
        "schema": {"type": "object", "properties": {"name": {"type": "string"}}},
        "channels": {
            "push": {"title": "Hi {{ name }}", "body": "Shipped"},
            "email": {"subject": "Hi {{ name }}", "html": "<p>{{ name }}</p>", "text": "{{ name }}"},
            "sms": {"body": "Hi {{ name }}"},
            "inApp": {"title": "Hi {{ name }}"},
            "webhook": {"body": "{\"name\": {{ name }}}"},
        },
    })
}

fn problems(definition: &Value) -> Vec<Problem> {
    let definition: Definition = serde_json::from_value(definition.clone()).expect("a definition");
    compile(&definition).err().unwrap_or_default()
}

/// Puts `value` at `pointer` of a good definition; a null removes.
fn check(pointer: &str, value: Value, code: ProblemCode, at: &str) {
    let mut definition = base();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let fields = definition.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
    if value.is_null() {
        fields.remove(name)
    } else {
        fields.insert(name.to_owned(), value.clone())
    };
    let found = problems(&definition);
    assert!(
        found.iter().any(|problem| problem.code == code && problem.pointer == at),
        "{pointer} = {}: {found:?}",
        value.to_string().chars().take(200).collect::<String>()
    );
}

#[test]
fn a_good_definition_compiles() {
    assert_eq!(problems(&base()), []);
    let definition: Definition = serde_json::from_value(base()).expect("a definition");
    let compiled = compile(&definition).expect("compiles");
    assert_eq!(compiled.channels().count(), 5);
    assert_eq!(
        (compiled.id(), compiled.category(), compiled.default_locale()),
        ("order-shipped", "transaction", "en")
    );
}

#[test]
fn compiled_templates_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Compiled>();
    shared::<Variables>();
}

#[test]
fn names_locales_and_variants() {
    check("/id", json!(""), ProblemCode::InvalidName, "/id");
    check("/id", json!("a\nb"), ProblemCode::InvalidName, "/id");
    check("/id", json!("x".repeat(300)), ProblemCode::InvalidName, "/id");
    check("/category", json!("x".repeat(65)), ProblemCode::InvalidName, "/category");
    check("/name", json!(""), ProblemCode::InvalidName, "/name");
    check("/defaultLocale", json!("english"), ProblemCode::InvalidLocale, "/defaultLocale");
    check("/translations", json!({"xx-1": {}}), ProblemCode::InvalidLocale, "/translations/xx-1");
    check("/translations", json!({"en": {}}), ProblemCode::InvalidLocale, "/translations/en");
    let twice = json!({"de-AT": {}, "de-at": {}});
    check("/translations", twice, ProblemCode::InvalidLocale, "/translations/de-at");
    let tags = (0..65).map(|n| {
        (
            format!(
                "de-{}{}",
                ('A'..='Z').nth(n / 26).expect("a letter"),
                ('A'..='Z').nth(n % 26).expect("a letter")
            ),
            json!({}),
        )
    });
    check("/translations", Value::Object(tags.collect()), ProblemCode::TooMany, "/translations");
    let variant = |name: &str, weight: u32| json!({"name": name, "weight": weight});
    check("/variants", json!([variant("a", 0)]), ProblemCode::InvalidVariant, "/variants");
    check(
        "/variants",
        json!([variant("a", 1), variant("a", 1)]),
        ProblemCode::InvalidVariant,
        "/variants/1/name",
    );
    check("/variants", json!([variant("a", 1_000_001)]), ProblemCode::InvalidVariant, "/variants/0/weight");
    check("/variants", json!([variant("", 1)]), ProblemCode::InvalidName, "/variants/0/name");
    let many: Vec<Value> = (0..9).map(|n| variant(&n.to_string(), 1)).collect();
    check("/variants", json!(many), ProblemCode::TooMany, "/variants");
    let partials: serde_json::Map<String, Value> = (0..33).map(|n| (n.to_string(), json!("x"))).collect();
    check("/partials", Value::Object(partials), ProblemCode::TooMany, "/partials");
    check("/partials", json!({"": "x"}), ProblemCode::InvalidName, "/partials/");
    let mut both = base();
    both["layouts"] = json!({"a": "x"});
    both["partials"] = json!({"a": "y"});
    assert_eq!(problems(&both)[0].pointer, "/partials/a");
}

#[test]
fn bodies_are_whole() {
    check("/channels", json!({}), ProblemCode::NoChannels, "/channels");
    check("/channels/push", json!({"data": {}}), ProblemCode::MissingBody, "/channels/push");
    check("/channels/inApp", json!({"body": "x"}), ProblemCode::MissingBody, "/channels/inApp");
    check("/channels/email", json!({"subject": "x"}), ProblemCode::MissingBody, "/channels/email");
    check("/channels/email", json!({"html": "x"}), ProblemCode::MissingBody, "/channels/email");
    check("/channels/webhook", json!({}), ProblemCode::MissingBody, "/channels/webhook");
    check("/channels/email/mjml", json!("<mjml/>"), ProblemCode::ConflictingBody, "/channels/email");
    let mut only_translated = base();
    only_translated["channels"].as_object_mut().expect("channels").remove("sms");
    only_translated["translations"] = json!({"de": {"sms": {"body": "x"}}});
    assert_eq!(problems(&only_translated)[0].code, ProblemCode::MissingBody);
}

#[test]
fn names_in_a_push_are_the_same_for_everybody() {
    for field in ["sound", "category", "threadId", "channelId", "clickAction"] {
        let pointer = format!("/channels/push/{field}");
        for wrong in ["", " ", "a\nb", "{{ name }}", &"x".repeat(257)] {
            check(&pointer, json!(wrong), ProblemCode::InvalidName, &pointer);
        }
        let mut good = base();
        good["channels"]["push"][field] = json!("default");
        good["translations"] = json!({"de": {"push": {field: "leise.caf"}}});
        assert_eq!(problems(&good), [], "{field}");
    }
    check("/channels/push/iconUrl", json!("ftp://a/b"), ProblemCode::InvalidUrl, "/channels/push/iconUrl");
    check("/channels/push/url", json!("javascript:a()"), ProblemCode::InvalidUrl, "/channels/push/url");
    check("/channels/push", json!({"badge": 1}), ProblemCode::MissingBody, "/channels/push");
}

#[test]
fn every_text_is_checked_wherever_it_stands() {
    for pointer in [
        "/channels/push/title",
        "/channels/push/body",
        "/channels/push/imageUrl",
        "/channels/push/subtitle",
        "/channels/push/iconUrl",
        "/channels/push/url",
        "/channels/email/subject",
        "/channels/email/html",
        "/channels/email/text",
        "/channels/sms/body",
        "/channels/inApp/title",
        "/channels/webhook/body",
    ] {
        check(pointer, json!("{{ nope }}"), ProblemCode::UnknownVariable, pointer);
        check(pointer, json!("{{ name"), ProblemCode::Syntax, pointer);
    }
    let title = json!({"push": {"title": "{{ nope }}"}});
    check("/translations", json!({"de": title}), ProblemCode::UnknownVariable, "/translations/de/push/title");
    let variant = json!([{"name": "a", "weight": 1, "channels": title, "translations": {"fr": title}}]);
    check("/variants", variant.clone(), ProblemCode::UnknownVariable, "/variants/0/channels/push/title");
    check("/variants", variant, ProblemCode::UnknownVariable, "/variants/0/translations/fr/push/title");
    let data = json!({"a": [{"b": "{{ nope }}"}]});
    check("/channels/push/data", data, ProblemCode::UnknownVariable, "/channels/push/data/a/0/b");
    let action = |id: &str, title: &str, url: &str| json!({"id": id, "title": title, "url": url});
    let at = "/channels/push/actions";
    check(
        at,
        json!([action("a", "{{ nope }}", "https://a.b")]),
        ProblemCode::UnknownVariable,
        &format!("{at}/0/title"),
    );
    check(at, json!([action("a", "x", "{{ nope }}")]), ProblemCode::UnknownVariable, &format!("{at}/0/url"));
    check(
        at,
        json!([action("{{ name }}", "x", "https://a.b")]),
        ProblemCode::InvalidName,
        &format!("{at}/0/id"),
    );
    check(at, json!([action("a", "", "https://a.b")]), ProblemCode::MissingBody, &format!("{at}/0/title"));
    let same = action("a", "x", "https://a.b");
    check(at, json!([same, same]), ProblemCode::InvalidName, &format!("{at}/1/id"));
    check(at, json!(vec![&same; 6]), ProblemCode::TooMany, at);
    check("/partials", json!({"p": "{% if %}"}), ProblemCode::Syntax, "/partials/p");
    check("/layouts", json!({"l": "<mjml><mj-nope/></mjml>"}), ProblemCode::InvalidMjml, "/layouts/l");
    check("/schema", json!({"type": 3}), ProblemCode::InvalidSchema, "/schema/type");
    check(
        "/schema",
        json!({"properties": {"user": {}}}),
        ProblemCode::ReservedVariable,
        "/schema/properties/user",
    );
    check("/schema", Value::Null, ProblemCode::UnknownVariable, "/channels/sms/body");
}

#[test]
fn literals_are_checked_when_written() {
    let url = "/channels/push/imageUrl";
    check(url, json!("javascript:alert(1)"), ProblemCode::InvalidUrl, url);
    check(url, json!("myapp://x"), ProblemCode::InvalidUrl, url);
    let actions = json!([{"id": "a", "title": "x", "url": "javascript:x"}]);
    check("/channels/inApp/actions", actions, ProblemCode::InvalidUrl, "/channels/inApp/actions/0/url");
    let html = "/channels/email/html";
    check(html, json!("<a href=\"javascript:x\">"), ProblemCode::InvalidUrl, html);
    check(html, json!("<a href={{ name }}>"), ProblemCode::UnsafeHtml, html);
    check(html, json!("<script>{{ name }}</script>"), ProblemCode::UnsafeHtml, html);
    check(
        "/channels/email/subject",
        json!("a\r\nBcc: x"),
        ProblemCode::InvalidHeader,
        "/channels/email/subject",
    );
    check("/channels/sms/body", json!("a\u{0}b"), ProblemCode::InvalidHeader, "/channels/sms/body");
    check("/channels/webhook/body", json!("{\"a\":}"), ProblemCode::InvalidJson, "/channels/webhook/body");
    let kind = "/channels/webhook/contentType";
    for bad in ["", "json", "a/b\r\nX: y", "a b/c", "text/"] {
        check(kind, json!(bad), ProblemCode::InvalidContentType, kind);
    }
    let translated = json!({"de": {"webhook": {"contentType": "text/plain"}}});
    check("/translations", translated, ProblemCode::NotAllowed, "/translations/de/webhook/contentType");
    let mut mjml = base();
    mjml["channels"]["email"] =
        json!({"subject": "x", "mjml": "<mjml><mj-body>{% if name %}</mj-body></mjml>"});
    assert_eq!(problems(&mjml)[0].pointer, "/channels/email/mjml");
}

#[test]
fn sizes_are_bounded() {
    let long = json!("x".repeat(TEXT_SOURCE_BYTES_MAX + 1));
    check("/channels/sms/body", long, ProblemCode::TooLarge, "/channels/sms/body");
    let document = json!("x".repeat(DOCUMENT_SOURCE_BYTES_MAX + 1));
    check("/channels/email/html", document.clone(), ProblemCode::TooLarge, "/channels/email/html");
    check("/partials", json!({"p": document}), ProblemCode::TooLarge, "/partials/p");
    check("/partials", json!({"p": "x".repeat(DEFINITION_BYTES_MAX)}), ProblemCode::TooLarge, "");
    let texts: Vec<&str> = vec!["{{ name }}"; SOURCES_MAX + 1];
    let mut definition = base();
    definition["channels"]["push"]["data"] = json!({"a": texts});
    assert!(problems(&definition).iter().any(|problem| problem.code == ProblemCode::TooMany));
    let mut deep = json!("{{ name }}");
    for _ in 0..40 {
        deep = json!([deep]);
    }
    let mut definition = base();
    definition["channels"]["push"]["data"] = json!({"a": deep});
    assert_eq!(problems(&definition)[0].code, ProblemCode::TooComplex);
}
