//! What variables and templates must not be able to do: become markup, a header, a JSON token or a link that runs; or
//! keep a core busy.

use super::*;
use fantail_templates::limits;

const XSS: &[&str] = &[
    "<script>alert(1)</script>",
    "\"><script>alert(1)</script>",
    "'><img src=x onerror=alert(1)>",
    "<img src=x onerror=alert(1)>",
    "\" onmouseover=\"alert(1)",
    "' onmouseover='alert(1)",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "--><script>alert(1)</script>",
    "<svg/onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "{{ 7 * 7 }}{% for x in y %}",
    "]]><script>",
    "<!--[if mso]><script>",
    "<a href=\"javascript:alert(1)\">",
    "\u{0}<script>",
    "\u{2028}<script>",
    "＜script＞",
    "<<script>alert(1);//<</script>",
    "<math><mi//xlink:href=\"data:x,<script>alert(4)</script>\">",
];

#[test]
fn values_do_not_become_markup() {
    let html = "<html><head><title>{{ v }}</title><style>p{color:red}</style></head><body title=\"{{ v }}\" \
                lang='{{ v }}'><!-- {{ v }} --><p>{{ v }}{{ v|upper }}{{ v|title }}{{ v|replace('x', v) }}{{ v ~ v }}\
                {{ [v, v]|join(v) }}{{ v|tojson }}{{ {v: v}|tojson }}{{ v|truncate(30) }}{{ [v] }}{{ {'a': v} }}</p></body></html>";
    let compiled = template(json!({"email": {"subject": "x", "html": html}}));
    let skeleton = |text: &str| text.matches('<').count();
    let plain = Ask::new(Channel::Email).json(&compiled, json!({"v": "x"}));
    let expected = skeleton(plain["html"].as_str().expect("html"));
    for attack in XSS {
        let rendered = Ask::new(Channel::Email).render(&compiled, json!({"v": attack}));
        if attack.contains('\0') {
            assert!(matches!(rendered, Err(RenderError::ControlCharacter { .. })));
            continue;
        }
        let bytes = rendered.unwrap_or_else(|error| panic!("{attack}: {error}")).bytes;
        let content: Value = serde_json::from_slice(&bytes).expect("JSON");
        let html = content["html"].as_str().expect("html");
        assert_eq!(skeleton(html), expected, "{attack}: {html}");
        let attributes = &html[html.find("<body").expect("body")..html.find("<!--").expect("comment")];
        assert_eq!(attributes.matches(['"', '\'']).count(), 4, "{attack}: {attributes}");
    }
}

// fixes: usability C16
#[test]
fn no_variable_stands_where_a_style_or_a_script_is_read() {
    for (html, allowed) in [
        ("<p style=\"color:red\" title=\"{{ v }}\">{{ v }}</p>", true),
        ("<td bgcolor=\"{{ v }}\">x</td>", true),
        ("<p style=\"color:{{ v }}\">x</p>", false),
        ("<p style='{{ v }}'>x</p>", false),
        ("<p STYLE=\"{% if v %}color:{{ v }}{% endif %}\">x</p>", false),
        ("<p style=\"background:url({{ v }})\">x</p>", false),
        ("<td background=\"url({{ v }}\">x</td>", false),
        ("<style>p{color:{{ v }}}</style>", false),
        ("<style>@import '{{ v }}';</style>", false),
        ("<p onclick=\"go('{{ v }}')\">x</p>", false),
        ("<body onload='{{ v }}'>x</body>", false),
        ("<script>var a = {{ v }}</script>", false),
    ] {
        let found = try_with(json!({"channels": {"email": {"subject": "x", "html": html}}}));
        assert_eq!(found.is_ok(), allowed, "{html}");
        let problems = found.err().unwrap_or_default();
        assert_eq!(
            problems.matches("code: ").count(),
            problems.matches("code: UnsafeHtml").count(),
            "{problems}"
        );
    }
    let mjml = "<mjml><mj-body><mj-section><mj-column><mj-text color=\"{{ v }}\">x</mj-text></mj-column></mj-section></mj-body></mjml>";
    assert!(try_with(json!({"channels": {"email": {"subject": "x", "mjml": mjml}}})).is_err());
}

/// A rule that came later is for what is stored from then on.
#[test]
fn a_stored_template_is_rendered_as_it_was_allowed() {
    let html = "<p style=\"color:{{ v }}\">x</p>";
    let definition = json!({
        "id": "t", "defaultLocale": "en", "category": "c",
        "schema": {"type": "object", "properties": {"v": {}}},
        "channels": {"email": {"subject": "x", "html": html}},
    });
    let definition = serde_json::from_value(definition).expect("a definition");
    assert!(fantail_templates::compile(&definition).is_err());
    let compiled = fantail_templates::compile_stored(&definition).expect("it was stored");
    let content = Ask::new(Channel::Email).json(&compiled, json!({"v": "red\"><script>"}));
    assert!(!content["html"].as_str().expect("html").contains("<script>"), "{content}");
}

#[test]
fn links_that_run_are_refused_when_they_come_out() {
    let html = template(json!({"email": {"subject": "x", "html": "<a href=\"{{ v }}\">x</a>"}}));
    let push = template(json!({"push": {"title": "x", "imageUrl": "{{ v }}"}}));
    let action =
        template(json!({"push": {"title": "x", "actions": [{"id": "a", "title": "x", "url": "{{ v }}"}]}}));
    for (url, in_html, image, link) in [
        ("https://example.com/?a=1&b=2", true, true, true),
        ("mailto:a@b.c", true, false, true),
        ("#top", true, false, false),
        ("shop://orders/1", true, false, true),
        ("javascript:alert(1)", false, false, false),
        ("JAVASCRIPT:alert(1)", false, false, false),
        (" javascript:alert(1)", false, false, false),
        ("java\nscript:alert(1)", false, false, false),
        ("java\tscript:alert(1)", false, false, false),
        ("\u{1}javascript:alert(1)", false, false, false),
        ("data:text/html,<script>", false, false, false),
        ("vbscript:x", false, false, false),
    ] {
        for (compiled, channel, allowed) in
            [(&html, Channel::Email, in_html), (&push, Channel::Push, image), (&action, Channel::Push, link)]
        {
            let found = Ask::new(channel).render(compiled, json!({"v": url}));
            assert_eq!(found.is_ok(), allowed, "{channel:?} {url}: {found:?}");
            assert!(allowed || matches!(found, Err(RenderError::InvalidUrl { .. })), "{url}: {found:?}");
        }
    }
}

#[test]
fn headers_have_one_line() {
    let compiled = template(json!({"email": {"subject": "Hi {{ v }}", "text": "{{ v }}"}}));
    for bad in ["a\r\nBcc: x@y.z", "a\nb", "a\rb", "a\u{0}b", "a\u{85}b", "a\u{7f}"] {
        let found = Ask::new(Channel::Email).render(&compiled, json!({"v": bad}));
        let pointer = "/channels/email/subject".to_owned();
        assert_eq!(found, Err(RenderError::ControlCharacter { pointer }), "{bad:?}");
    }
    let content = Ask::new(Channel::Email).json(&compiled, json!({"v": "Zoë 😀"}));
    assert_eq!(content["subject"], "Hi Zoë 😀");
}

#[test]
fn values_do_not_become_json() {
    let compiled = template(json!({
        "webhook": {"body": "{\"a\": {{ v }}, \"b\": [{{ v }}]}"},
        "push": {"title": "{{ v }}", "data": {"a": "{{ v }}"}},
    }));
    for attack in
        ["\", \"admin\": true, \"x\": \"", "}", "\\", "\\\"", "\u{1}\u{1f}", "\u{2028}", "\n", "</script>"]
    {
        let body = Ask::new(Channel::Webhook).json(&compiled, json!({"v": attack}));
        let body: Value = serde_json::from_str(body["body"].as_str().expect("a body")).expect("JSON");
        assert_eq!(body, json!({"a": attack, "b": [attack]}), "{attack:?}");
        let push = Ask::new(Channel::Push).render(&compiled, json!({"v": attack}));
        if !attack.trim().is_empty() {
            let push: Value = serde_json::from_slice(&push.expect("renders").bytes).expect("JSON");
            assert_eq!(push, json!({"title": attack, "data": {"a": attack}}), "{attack:?}");
        }
    }
    let quoted = template(json!({"webhook": {"body": "{\"a\": \"{{ v }}\"}"}}));
    let found = Ask::new(Channel::Webhook).render(&quoted, json!({"v": "x"}));
    assert!(matches!(found, Err(RenderError::InvalidJson { .. })), "{found:?}");
}

/// Each of these would run for a very long time or take all memory without limits. The bound is in steps and bytes;
/// `examples/render_rate.rs` measures what that is in milliseconds.
#[test]
fn endless_templates_end() {
    let long = "x".repeat(limits::VARIABLES_BYTES_MAX - 200);
    let many: Vec<u8> = vec![7; limits::VARIABLES_NODES_MAX - 10];
    for source in ENDLESS {
        for (channel, channels) in [
            (Channel::Sms, json!({"sms": {"body": source}})),
            (Channel::Email, json!({"email": {"subject": "x", "html": source}})),
        ] {
            let Ok(compiled) = try_with(json!({ "channels": channels })) else { continue };
            for variables in [json!({"v": long, "list": [1]}), json!({"v": "x", "list": many})] {
                let found = Ask::new(channel).render(&compiled, variables);
                let bounded = matches!(
                    found,
                    Err(RenderError::TooMuchWork { .. }
                        | RenderError::TooLarge { .. }
                        | RenderError::Failed { .. })
                );
                let quiet = matches!(found, Err(RenderError::Empty { .. }) | Ok(_));
                assert!(bounded || quiet, "{source}: {found:?}");
            }
        }
    }
}

pub const ENDLESS: &[&str] = &[
    "{% for i in range(1000000000) %}x{% endfor %}",
    "{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}",
    "{% for a in range(999) %}{% for b in range(999) %}{% for c in range(999) %}{% for d in range(999) %}{% endfor %}{% endfor %}{% endfor %}{% endfor %}",
    "{% for i in range(1000) %}{{ v }}{% endfor %}",
    "{% for i in range(1000) %}{% if v|upper == 'x' %}y{% endif %}{% endfor %}",
    "{% for i in range(1000) %}{% if v ~ v ~ v == 'x' %}y{% endif %}{% endfor %}",
    "{% for i in range(1000) %}{% if v|replace('x', v) == 'x' %}y{% endif %}{% endfor %}",
    "{% for i in range(1000) %}{% if list|sort|join(v) == 'x' %}y{% endif %}{% endfor %}",
    "{% for i in range(1000) %}{% if list|unique|length == 3 %}y{% endif %}{% endfor %}",
    "{% for i in list %}{% for j in list %}{% if i in list %}{% endif %}{% endfor %}{% endfor %}",
    "{% for i in range(1000) %}{% if 9 in list %}y{% endif %}{% endfor %}",
    "{{ v|replace('x', v)|replace('x', v)|replace('x', v) }}",
    "{{ list|join(v) }}",
    "{{ 9999999999 ** 9999999999 }}",
    "{{ v|truncate(99999999999) }}",
    "{% for i in range(1000) %}{% if v|tojson|tojson == 1 %}{% endif %}{% endfor %}",
    "{% for i in range(1000) %}{% if v|split('x')|length == 1 %}{% endif %}{% endfor %}",
];

#[test]
fn endless_templates_give_the_error_that_is_meant() {
    let work = |source: &str| sms(source, json!({"v": "x".repeat(30_000), "list": [1]}));
    assert!(matches!(work(ENDLESS[0]), Err(RenderError::Failed { .. })));
    assert!(matches!(work(ENDLESS[1]), Err(RenderError::TooMuchWork { .. })));
    assert!(matches!(work(ENDLESS[3]), Err(RenderError::TooLarge { .. })));
    assert!(matches!(work(ENDLESS[4]), Err(RenderError::TooMuchWork { .. })));
    assert!(matches!(work(ENDLESS[6]), Err(RenderError::TooMuchWork { .. })));
}

/// A text may take thousands of steps; a hundred such texts may not.
#[test]
fn many_texts_share_their_steps() {
    let quiet = "{% for i in range(400) %}{% endfor %}x";
    let push = |count: usize| template(json!({"push": {"title": "x", "data": {"a": vec![quiet; count]}}}));
    Ask::new(Channel::Push).render(&push(2), json!({})).expect("renders");
    let found = Ask::new(Channel::Push).render(&push(100), json!({}));
    assert!(matches!(found, Err(RenderError::TooMuchWork { .. })), "{found:?}");
}

#[test]
fn messages_are_bounded_as_they_go_out() {
    let compiled =
        template(json!({"sms": {"body": "{{ v }}"}, "email": {"subject": "x", "html": "{{ v }}"}}));
    let render = |channel, v: String| Ask::new(channel).render(&compiled, json!({ "v": v }));
    assert!(render(Channel::Sms, "x".repeat(8_000)).is_ok());
    for (channel, v) in [(Channel::Sms, "x".repeat(9_000)), (Channel::Sms, "\u{1}".repeat(2_000))] {
        let bytes_max = limits::MESSAGE_BYTES_MAX;
        assert_eq!(render(channel, v), Err(RenderError::TooLarge { bytes_max }));
    }
    assert!(render(Channel::Email, "x".repeat(30_000)).is_ok());
}
