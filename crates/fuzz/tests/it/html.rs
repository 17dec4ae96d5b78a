//! HTML, as tenants write it: templates with variables in any place, and mails that become plain text.

use fantail_channels::email::text::text_of;
use fantail_fuzz::{Corpus, fuzz};
use fantail_templates::compile;
use serde_json::json;

const WORDS: &[&str] = &[
    "<!--",
    "-->",
    "<!--[if mso]>",
    "<![endif]-->",
    "<script>",
    "</script>",
    "<style>",
    "</style",
    "<a href=\"",
    "javascript:",
    "&#106;",
    "&colon;",
    "<meta http-equiv=refresh content=\"0;url=",
    "style=\"",
    "onclick='",
    "<td width=",
    "<br/>",
    "&amp",
    "<p",
    "</p>",
    "<table><tr><td>",
    "\u{0}",
    "ü",
    "\u{2028}",
    "{{ title }}",
    "{% if title %}",
    "{% endif %}",
    "<plaintext>",
];

fn corpus() -> Corpus {
    let documents = [
        "<p>Hello {{ title }},</p><ul>{% for i in items %}<li>{{ i }}</li>{% endfor %}</ul>",
        "<!doctype html><html><head><title>x</title><style>p{color:red}</style></head><body><a href=\"https://a.b/?q={{ title }}\">go</a><img src='cid:1'></body></html>",
        "<table><tr><td style=\"width:10px\">a &amp; b</td></tr></table><!-- c --><!--[if mso]><td width=\"1\"><![endif]-->",
        "<h1>T</h1><p>one<br>two</p><blockquote><pre> x </pre></blockquote><hr><ol><li>1<li>2</ol>",
    ];
    Corpus::new(documents.iter().map(|document| document.as_bytes().to_vec()).collect(), WORDS)
}

#[test]
fn mails_become_text_of_a_bounded_length() {
    fuzz("text of a mail", &corpus(), |input| {
        let html = String::from_utf8_lossy(input);
        let text = text_of(&html);
        assert!(text.len() <= 4 * html.len() + 1_024, "{} bytes of {}", text.len(), html.len());
    });
}

#[test]
fn templates_compile_or_are_refused() {
    fuzz("template of a mail", &corpus(), |input| {
        let definition = json!({
            "id": "t", "category": "c", "defaultLocale": "en",
            "schema": {"type": "object", "properties": {"title": {"type": "string"}, "items": {"type": "array"}}},
            "channels": {"email": {"subject": "s", "html": String::from_utf8_lossy(input)}},
        });
        let definition = serde_json::from_value(definition).expect("a definition");
        if let Ok(compiled) = compile(&definition) {
            let variables = compiled.variables(&json!({"title": "<x>", "items": ["a"]})).expect("they fit");
            let ask = fantail_templates::RenderAsk {
                channel: fantail_wire::template::Channel::Email,
                locale: "en",
                variant: None,
                variables: &variables,
                user: None,
                notification: fantail_templates::NotificationFacts { id: "n" },
                tenant: fantail_templates::TenantFacts { id: "t", name: "T" },
                now: fantail_rules::ids::Millis(0),
            };
            if let Ok(rendered) = compiled.render(&ask) {
                let shown: serde_json::Value = serde_json::from_slice(&rendered.bytes).expect("JSON");
                assert!(shown["html"].is_string(), "{shown}");
            }
        }
    });
}
