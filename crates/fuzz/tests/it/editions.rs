//! What templates froze, and what mails are made of.

use fantail_channels::email::content::Content;
use fantail_channels::email::links::Linked;
use fantail_fuzz::{Corpus, fuzz};
use fantail_ports::channel::Callbacks;
use fantail_rules::channel_kind::ChannelKind;
use fantail_templates::{Editions, Reader};

/// Two variants, of which one is in two languages that share a body.
fn good() -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
    let variant = |name: &str, end: u64| [&text(name)[..], &end.to_le_bytes()].concat();
    let edition = |variant: u8, locale: &str, body: u16| {
        let channel = [&[ChannelKind::Email as u8][..], &body.to_le_bytes()].concat();
        [&[variant][..], &text(locale), &[1], &channel].concat()
    };
    let body = |locale: &str, json: &str| {
        [&text(locale)[..], &(json.len() as u32).to_le_bytes(), json.as_bytes()].concat()
    };
    [
        &[2][..],
        &text("welcome"),
        &7u32.to_le_bytes(),
        &text("en"),
        &[2],
        &variant("a", u64::MAX / 2),
        &variant("b", u64::MAX),
        &[3],
        &edition(0, "en", 0),
        &edition(0, "de-AT", 0),
        &edition(1, "en", 1),
        &2u16.to_le_bytes(),
        &body("en", r#"{"subject":"a"}"#),
        &body("en", r#"{"subject":"b"}"#),
    ]
    .concat()
}

#[test]
fn editions_are_read_or_refused() {
    let corpus =
        Corpus::new(vec![good()], &["\0", "\u{1}", "\u{ff}", "en", "de-AT", "x-private-very-long-locale"]);
    assert!(Editions::read(&good()).is_some(), "the corpus has good editions");
    fuzz("editions of a template", &corpus, |input| {
        let Some(editions) = Editions::read(input) else { return };
        for (locale, name) in [("en", "ann"), ("de-AT", "bob"), ("", ""), ("zh-Hant-TW", "x")] {
            let reader = Reader { locale: locale.to_owned(), name: name.to_owned() };
            let edition = editions.choose(&reader);
            for kind in [ChannelKind::Email, ChannelKind::InApp, ChannelKind::Push] {
                let _body = editions.body(edition, kind);
            }
            let _named = (editions.locales(edition).count(), editions.variant(edition));
        }
    });
}

#[test]
fn contents_of_mails_are_read_or_refused() {
    let good = [
        r#"{"subject":"Hello","html":"<p>Hello</p>","text":"Hello"}"#,
        r#"{"title":"Hello","body":"you","digest":{"count":3,"items":[{"title":"a"},{"title":"b"}]}}"#,
    ];
    let inputs: Vec<Vec<u8>> = good.iter().map(|text| text.as_bytes().to_vec()).collect();
    let words =
        ["null", "\"subject\":", "\"html\":", "\"digest\":", "\\ud83d\\ude00", "\\u0000", "\\r\\n", "1e999"];
    fuzz("content of a mail", &Corpus::new(inputs, &words), |input| {
        if let Ok(content) = Content::read(input) {
            assert!(content.html.is_some() || content.text.is_some());
        }
    });
}

/// What is not a link of the mail stays as it is.
#[test]
fn documents_with_tracked_links_are_the_same_documents() {
    let good = [
        "<html><body><a href=\"https://a.example/x?y=1&amp;z=2\">go</a><a href='mailto:x@y.example'>no</a></body></html>",
        "<p>x<a HREF=https://b.example>b</a><!-- <a href=\"https://c.example\"> --><script>'<a href=\"https://d.example\">'</script>",
    ];
    let words = [
        "<a href=\"",
        "https://",
        "</body>",
        "<!--",
        "-->",
        "<script>",
        "</script>",
        "&amp;",
        "'",
        "\"",
        ">",
        "\u{e9}",
        "\0",
    ];
    let callbacks = Callbacks { base_url: "https://notify.example".to_owned(), key: [7; 16] };
    let inputs: Vec<Vec<u8>> = good.iter().map(|text| text.as_bytes().to_vec()).collect();
    fuzz("links of a mail", &Corpus::new(inputs, &words), |input| {
        let html = String::from_utf8_lossy(input);
        let written = Linked::read(&html, &callbacks).write("r1", &callbacks);
        let picture = "<img src=\"https://notify.example/t/o/r1.gif\" width=\"1\" height=\"1\" alt=\"\" style=\"display:block\">";
        let (before, behind) = written.split_once(picture).expect("one picture");
        if !html.to_ascii_lowercase().contains("http") {
            assert_eq!(format!("{before}{behind}"), html);
        }
    });
}
