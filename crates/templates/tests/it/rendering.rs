//! What comes out, per channel, locale and variant.

use super::*;
use fantail_templates::{preview, variant_seed};
use fantail_wire::event::Content;
use fantail_wire::template::{Preview, SmsEncoding};

fn all_channels() -> Compiled {
    let app = json!({
        "title": "Order {{ v.id }}",
        "body": "{{ user.attributes.firstName }}, {{ n|plural(one='one item', other='many items') }}",
        "data": {"screen": "order", "id": "{{ v.id }}", "deep": [1, {"at": "{{ notification.at }}"}]},
        "imageUrl": "https://img.example/{{ v.id|urlencode }}.png",
        "actions": [{"id": "open", "title": "Open {{ v.id }}", "url": "shop://orders/{{ v.id }}"}],
    });
    template(json!({
        "push": app,
        "inApp": app,
        "email": {"subject": "Order {{ v.id }}", "html": "<b>{{ v.id }}</b>", "text": "{{ v.id }} & {{ tenant.name }}"},
        "sms": {"body": "{{ v.id }} on {{ notification.at|date('%d.%m.') }}"},
        "webhook": {"body": "{\"id\": {{ v.id }}, \"all\": {{ v }}, \"n\": {{ n }}}"},
    }))
}

// proves: TPL-01
// proves: PSH-11
// proves: EML-06
#[test]
fn each_channel_has_its_own_object() {
    let compiled = all_channels();
    let variables = json!({"v": {"id": "a\"b<c>"}, "n": 1});
    let json = |channel| Ask::new(channel).json(&compiled, variables.clone());
    let app = json!({
        "title": "Order a\"b<c>",
        "body": "Ada, one item",
        "data": {"screen": "order", "id": "a\"b<c>", "deep": [1, {"at": "1769860800000"}]},
        "imageUrl": "https://img.example/a%22b%3Cc%3E.png",
        "actions": [{"id": "open", "title": "Open a\"b<c>", "url": "shop://orders/a\"b<c>"}],
    });
    assert_eq!(json(Channel::Push), app);
    assert_eq!(json(Channel::InApp), app);
    serde_json::from_value::<Content>(json(Channel::InApp)).expect("the inbox takes it as it is");
    assert_eq!(
        json(Channel::Email),
        json!({"subject": "Order a\"b<c>", "html": "<b>a&quot;b&lt;c&gt;</b>", "text": "a\"b<c> & Acme"})
    );
    assert_eq!(json(Channel::Sms), json!({"body": "a\"b<c> on 31.01."}));
    let webhook = json(Channel::Webhook);
    assert_eq!(webhook["contentType"], "application/json");
    let body: Value = serde_json::from_str(webhook["body"].as_str().expect("a body")).expect("JSON");
    assert_eq!(body, json!({"id": "a\"b<c>", "all": {"id": "a\"b<c>"}, "n": 1}));
}

// proves: TPL-01, PSH-11
#[test]
fn a_push_has_fields_that_an_inbox_has_not() {
    let compiled = with(json!({
        "channels": {"push": {
            "title": "Order {{ v }}", "subtitle": "for {{ user.attributes.firstName }}",
            "iconUrl": "https://img.example/{{ v }}.png", "url": "shop://orders/{{ v }}",
            "badge": 3, "sound": "ping.caf", "category": "ORDER", "threadId": "orders",
            "channelId": "orders", "clickAction": "OPEN", "store": false,
        }},
        "translations": {"de": {"push": {"subtitle": "{{ v if v == 'x' else '' }}", "sound": "kling.caf", "badge": 0}}},
    }));
    let expected = json!({
        "title": "Order 7", "subtitle": "for Ada", "iconUrl": "https://img.example/7.png", "url": "shop://orders/7",
        "badge": 3, "sound": "ping.caf", "category": "ORDER", "threadId": "orders",
        "channelId": "orders", "clickAction": "OPEN", "store": false,
    });
    let english = Ask::new(Channel::Push);
    assert_eq!(english.json(&compiled, json!({"v": "7"})), expected);
    let german = Ask { locale: "de", ..Ask::new(Channel::Push) }.json(&compiled, json!({"v": "7"}));
    assert_eq!((&german["badge"], &german["sound"]), (&json!(0), &json!("kling.caf")));
    assert_eq!(german.get("subtitle"), None, "what is empty is left out");
    let rendered = english.render(&compiled, json!({"v": "7"})).expect("renders");
    let bytes = rendered.bytes.len() as u64;
    let cost = Preview::Push { payload_bytes: bytes, payload_bytes_max: 4_096, fits: true };
    assert_eq!(preview(Channel::Push, &rendered), cost);
    let missing = english.render(&compiled, json!({"v": "a b"}));
    assert!(
        matches!(missing, Err(RenderError::InvalidUrl { pointer, .. }) if pointer == "/channels/push/iconUrl")
    );
}

#[test]
fn the_same_ask_gives_the_same_bytes_and_hash() {
    let compiled = all_channels();
    for channel in Channel::ALL {
        let variables = json!({"v": {"id": "1", "b": 2, "a": 1}, "n": 2});
        let one = Ask::new(*channel).render(&compiled, variables.clone()).expect("renders");
        let again = Ask::new(*channel).render(&all_channels(), variables).expect("renders");
        assert_eq!(one, again);
        let other = Ask::new(*channel).render(&compiled, json!({"v": {"id": "2"}, "n": 2})).expect("renders");
        assert_ne!(one.hash, other.hash);
    }
    let frozen = Ask::new(Channel::Sms).render(&compiled, json!({"v": {"id": "1"}})).expect("renders");
    assert_eq!(frozen.bytes, b"{\"body\":\"1 on 31.01.\"}");
}

// proves: TPL-06
#[test]
fn locales_fall_back_field_by_field() {
    let compiled = with(json!({
        "channels": {"push": {"title": "Hello", "body": "World"}, "sms": {"body": "Hi"}},
        "translations": {
            "de": {"push": {"title": "Hallo", "body": "Welt"}},
            "de-AT": {"push": {"title": "Servus"}},
            "zh-Hant": {"push": {"title": "您好"}},
            "fr": {"sms": {"body": "Salut"}},
        },
    }));
    for (locale, used, title, body) in [
        ("en", "en", "Hello", "World"),
        ("en-GB", "en", "Hello", "World"),
        ("de", "de", "Hallo", "Welt"),
        ("de-CH", "de", "Hallo", "Welt"),
        ("de-AT", "de-AT", "Servus", "Welt"),
        ("DE_at", "de-AT", "Servus", "Welt"),
        ("de-AT-u-nu-latn", "de-AT", "Servus", "Welt"),
        ("zh-Hant-TW", "zh-Hant", "您好", "World"),
        ("zh", "en", "Hello", "World"),
        ("fr", "en", "Hello", "World"),
        ("", "en", "Hello", "World"),
        ("!!", "en", "Hello", "World"),
    ] {
        let ask = Ask { locale, ..Ask::new(Channel::Push) };
        let rendered = ask.render(&compiled, json!({})).expect("renders");
        assert_eq!(rendered.locale.as_ref(), used, "{locale}");
        assert_eq!(ask.json(&compiled, json!({})), json!({"title": title, "body": body}), "{locale}");
    }
    let french = Ask { locale: "fr-CA", ..Ask::new(Channel::Sms) };
    assert_eq!(french.json(&compiled, json!({})), json!({"body": "Salut"}));
    assert_eq!(compiled.locales(Channel::Push, None).collect::<Vec<_>>(), ["de", "de-AT", "en", "zh-Hant"]);
}

#[test]
fn words_are_counted_in_the_language_of_their_text() {
    let files = "{{ n }} {{ n|plural(one='файл', few='файла', many='файлов', other='файла') }}";
    let compiled = with(json!({
        "channels": {"push": {"title": "{{ n|plural(one='file', other='files') }}", "body": "{{ n|plural(few='few', other='other') }}"}},
        "translations": {"ru": {"push": {"title": files}}},
    }));
    for (n, title) in [(1, "1 файл"), (3, "3 файла"), (5, "5 файлов"), (21, "21 файл")] {
        let ask = Ask { locale: "ru-RU", ..Ask::new(Channel::Push) };
        // The body is still English, and English has no few.
        assert_eq!(ask.json(&compiled, json!({"n": n})), json!({"title": title, "body": "other"}));
    }
}

// proves: TPL-07
#[test]
fn variants_replace_parts_and_language_goes_first() {
    let compiled = with(json!({
        "channels": {"push": {"title": "A", "body": "body"}},
        "translations": {"de": {"push": {"title": "A de"}}},
        "variants": [
            {"name": "control", "weight": 1},
            {"name": "b", "weight": 1, "channels": {"push": {"title": "B", "body": "other"}}},
            {"name": "c", "weight": 0, "channels": {"push": {"title": "C"}}, "translations": {"de": {"push": {"title": "C de"}}}},
        ],
    }));
    let json =
        |variant, locale| Ask { variant, locale, ..Ask::new(Channel::Push) }.json(&compiled, json!({}));
    assert_eq!(json(None, "en"), json!({"title": "A", "body": "body"}));
    assert_eq!(json(Some(0), "en"), json!({"title": "A", "body": "body"}));
    assert_eq!(json(Some(1), "en"), json!({"title": "B", "body": "other"}));
    assert_eq!(json(Some(1), "de"), json!({"title": "A de", "body": "other"}));
    assert_eq!(json(Some(2), "de"), json!({"title": "C de", "body": "body"}));
    let far = Ask { variant: Some(3), ..Ask::new(Channel::Push) }.render(&compiled, json!({}));
    assert_eq!(far, Err(RenderError::NoVariant { variant: 3 }));
    let mut counts = [0; 3];
    for user in 0..1_000 {
        let seed = variant_seed(compiled.id(), &format!("u{user}"));
        counts[compiled.choose_variant(seed).expect("a variant")] += 1;
    }
    assert!(counts[2] == 0 && counts[0] > 400 && counts[1] > 400, "{counts:?}");
    assert_eq!(compiled.variant_name(1), Some("b"));
}

#[test]
fn layouts_and_partials_come_from_the_definition() {
    let compiled = with(json!({
        "channels": {
            "email": {
                "subject": "{% include 'who' %}",
                "html": "{% extends 'page' %}{% block main %}<p>{% include 'who' %}</p>{% endblock %}",
                "text": "{% include 'who' %}",
            },
        },
        "layouts": {"page": "<html><body>{% block main %}{% endblock %}<hr>{{ tenant.name }}</body></html>"},
        "partials": {"who": "{{ v }}!"},
    }));
    // The same partial is escaped where it stands.
    assert_eq!(
        Ask::new(Channel::Email).json(&compiled, json!({"v": "<a>"})),
        json!({"subject": "<a>!", "html": "<html><body><p>&lt;a&gt;!</p><hr>Acme</body></html>", "text": "<a>!"})
    );
}

#[test]
fn mjml_is_rendered_like_html() {
    let compiled = with(json!({
        "channels": {"email": {"subject": "x", "mjml": "<mjml><mj-body><mj-section><mj-column>\
            <mj-text>Hi {{ v }}</mj-text><mj-button href=\"https://a.b/?q={{ v|urlencode }}\">Go</mj-button>\
            </mj-column></mj-section></mj-body></mjml>"}},
    }));
    let html = Ask::new(Channel::Email).json(&compiled, json!({"v": "<Bob>"}))["html"].to_string();
    assert!(
        html.contains("Hi &lt;Bob&gt;") && html.contains("q=%3CBob%3E") && !html.contains("<mj-"),
        "{html}"
    );
    let compiled = with(json!({
        "channels": {"email": {"subject": "x", "html": "{% extends 'page' %}{% block main %}{{ v }}{% endblock %}"}},
        "layouts": {"page": "<mjml><mj-body><mj-section><mj-column><mj-text>{% block main %}{% endblock %}</mj-text>\
            </mj-column></mj-section></mj-body></mjml>"},
    }));
    let html = Ask::new(Channel::Email).json(&compiled, json!({"v": "<Bob>"}))["html"].to_string();
    assert!(html.contains("&lt;Bob&gt;") && html.contains("<!doctype html>"), "{html}");
}

#[test]
fn what_is_empty_is_left_out_or_refused() {
    let compiled = template(json!({
        "push": {"title": "{% if n %}t{% endif %}", "body": "{% if n %}b{% endif %}", "imageUrl": "{% if n %}https://a.b{% endif %}"},
        "inApp": {"title": "{{ v }}", "body": "{{ v }}"},
        "email": {"subject": "{{ v }}", "text": "x"},
        "sms": {"body": " {{ v }} "},
    }));
    assert_eq!(
        Ask::new(Channel::Push).json(&compiled, json!({"n": 1})),
        json!({"title": "t", "body": "b", "imageUrl": "https://a.b"})
    );
    for channel in [Channel::Push, Channel::InApp, Channel::Email, Channel::Sms] {
        let found = Ask::new(channel).render(&compiled, json!({"n": 0, "v": ""}));
        assert!(matches!(found, Err(RenderError::Empty { .. })), "{channel:?}: {found:?}");
    }
}

#[test]
fn lists_are_rendered_without_a_user_if_nothing_needs_one() {
    let compiled = template(json!({
        "push": {"title": "{{ v }}"},
        "sms": {"body": "{{ user.id }}"},
        "inApp": {"title": "x", "body": "{{ n|time }}"},
        "webhook": {"contentType": "text/plain", "body": "{{ n|time(zone='UTC') }} {{ tenant.id }}"},
    }));
    let needs: Vec<bool> = Channel::ALL.iter().map(|channel| compiled.needs_user(*channel)).collect();
    assert_eq!(needs, [true, false, false, true, false], "{:?}", Channel::ALL);
    let nobody =
        |channel| Ask { with_user: false, ..Ask::new(channel) }.render(&compiled, json!({"v": "x", "n": 0}));
    nobody(Channel::Push).expect("renders");
    assert_eq!(
        nobody(Channel::Webhook).expect("renders").bytes,
        b"{\"contentType\":\"text/plain\",\"body\":\"00:00 acme\"}"
    );
    assert_eq!(nobody(Channel::Sms), Err(RenderError::NeedsUser));
    assert_eq!(nobody(Channel::InApp), Err(RenderError::NeedsUser));
    assert_eq!(nobody(Channel::Email), Err(RenderError::NoChannel { channel: Channel::Email }));
}

// fixes: usability §3.7
#[test]
fn missing_values_are_errors_and_name_their_place() {
    let found = sms("a\n{{ v.name }}", json!({"v": {}}));
    let Err(RenderError::Missing { pointer, line, .. }) = found else { panic!("{found:?}") };
    assert_eq!((pointer.as_str(), line), ("/channels/sms/body", 2));
    for (source, variables, detail) in [
        ("{{ v }} {{ n }}", json!({"n": 1}), "`v` has no value"),
        (
            "{{ n }} {{ v.d }} {{ user.attributes.age }}",
            json!({}),
            "`n`, `user.attributes.age` and `v.d` have no value",
        ),
        ("{{ n }}\n{{ v.name }}", json!({"n": 1, "v": {}}), "`v.name` has no value"),
        ("{% for one in list %}{{ one.name }}{% endfor %}", json!({"list": [{}]}), "a variable has no value"),
    ] {
        let found = sms(source, variables);
        let Err(RenderError::Missing { detail: said, .. }) = found else { panic!("{source}: {found:?}") };
        assert_eq!(said, detail, "{source}");
    }
    assert_eq!(sms("{{ v.name|default('you') }}", json!({"v": {}})).expect("renders"), "you");
    assert_eq!(sms("{% if v.name is defined %}x{% endif %}y", json!({"v": {}})).expect("renders"), "y");
    assert!(matches!(sms("{{ v.a.b }}", json!({"v": {}})), Err(RenderError::Missing { .. })));
    assert!(matches!(sms("{{ v }}", json!({})), Err(RenderError::Missing { .. })));
    assert!(matches!(sms("{{ v / 0 }}", json!({"v": 1})), Err(RenderError::Failed { .. })));
}

// proves: SMS-02
#[test]
fn previews_tell_what_a_message_costs() {
    let compiled = template(json!({
        "push": {"title": "{{ v }}"},
        "email": {"subject": "ä", "html": "<p>{{ v }}</p>", "text": "{{ v }}"},
        "sms": {"body": "{{ v }}"},
        "inApp": {"title": "{{ v }}"},
        "webhook": {"body": "{{ v }}"},
    }));
    let show = |channel, v: &str| {
        preview(channel, &Ask::new(channel).render(&compiled, json!({"v": v})).expect("renders"))
    };
    assert_eq!(
        show(Channel::Sms, &"😀".repeat(36)),
        Preview::Sms { encoding: SmsEncoding::Ucs2, units: 72, segments: 2, units_per_segment: 67 }
    );
    // Quotes take two bytes: the size is what goes out, not what is shown.
    let quotes = "\"".repeat(10);
    assert_eq!(
        show(Channel::Push, &quotes),
        Preview::Push { payload_bytes: 32, payload_bytes_max: 4_096, fits: true }
    );
    let Preview::Push { fits, .. } = show(Channel::Push, &"x".repeat(4_100)) else { panic!("push") };
    assert!(!fits);
    assert_eq!(show(Channel::Email, "<"), Preview::Email { subject_bytes: 2, html_bytes: 11, text_bytes: 1 });
    assert_eq!(show(Channel::InApp, "abc"), Preview::InApp { bytes: 15 });
    assert_eq!(serde_json::to_value(show(Channel::Webhook, "a")).expect("JSON")["channel"], "webhook");
}
