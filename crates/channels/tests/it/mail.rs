//! Mails as they leave: some as they are, byte for byte, and any as a reader of mail understands them.

use super::parcel::message;
use super::time::WALL;
use fantail_channels::email::{Composer, Mail};
use fantail_channels::smtp;
use fantail_ports::channel::{Callbacks, Message};
use mail_parser::MessageParser;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::Path;

const RSA: &str = include_str!("../golden/dkim-rsa.pem");
const ED25519: &str = include_str!("../golden/dkim-ed25519.pem");

/// Settings of an account with everything, and its secrets.
pub fn account() -> (Value, Value) {
    let settings = json!({
        "host": "localhost",
        "security": "none",
        "fromAddress": "news@shop.example",
        "fromName": "Shöp",
        "replyTo": "help@shop.example",
        "tracking": true,
        "unsubscribeMailbox": "out@shop.example",
        "feedbackId": "c1:shop",
        "dkim": {"domain": "shop.example", "rsaSelector": "r1", "ed25519Selector": "e1"},
    });
    (settings, json!({"dkimRsaKey": RSA, "dkimEd25519Key": ED25519}))
}

fn composer(change: impl FnOnce(&mut Value, &mut Value)) -> Composer {
    let (mut settings, mut secrets) = account();
    change(&mut settings, &mut secrets);
    let settings = smtp::Settings::read(&settings).expect("settings");
    let secrets = smtp::Secrets::read(&secrets).expect("secrets");
    Composer::new(settings.sender, &secrets.sender).expect("a composer")
}

fn callbacks() -> Callbacks {
    Callbacks { base_url: "https://notify.shop.example".into(), key: [3; 16] }
}

fn to_ann() -> Message {
    Message {
        unsubscribe: Some("https://notify.shop.example/h/out/abc123".into()),
        ..message("0w1w1h070608jyg2yy03m1m6t8", b"ann@Mail.example")
    }
}

fn write(composer: &Composer, content: &Value, message: &Message) -> Mail {
    let callbacks = callbacks();
    let prepared = composer.prepare(content.to_string().as_bytes(), Some(&callbacks)).expect("a content");
    composer.mail(&prepared, message, Some(&callbacks), WALL).expect("a mail")
}

/// A mail that differs lies beside the build afterwards, to be looked at and put in its place.
fn check_golden(name: &str, mail: &Mail) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let expected = std::fs::read(&file).unwrap_or_default();
    if expected != mail.bytes {
        let found = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&found, &mail.bytes).expect("room for a mail");
        panic!("{} differs: compare {}", file.display(), found.display());
    }
}

// proves: EML-03, EML-04, EML-06, EML-07
#[test]
fn a_mail_with_everything_is_as_it_was() {
    let content = json!({
        "subject": "Grüße: deine Bestellung A-42 ist unterwegs",
        "html": "<html><body><h1>Hallo Ann</h1><p>Schau <a href=\"https://shop.example/o?a=42&amp;b=1\">hier</a>.</p>\
                 <p>.</p></body></html>",
    });
    check_golden("mail-everything.eml", &write(&composer(|_, _| ()), &content, &to_ann()));
}

// proves: EML-06
#[test]
fn a_mail_of_plain_text_is_as_it_was() {
    let content = json!({"subject": "Order shipped", "text": "Hello,\n\nyour order is on its way.\n"});
    let plain = composer(|settings, secrets| {
        for field in ["fromName", "replyTo", "unsubscribeMailbox", "feedbackId", "dkim"] {
            settings[field] = Value::Null;
        }
        *secrets = json!({});
    });
    check_golden("mail-plain.eml", &write(&plain, &content, &message("r1", b"ann@mail.example")));
}

// proves: EML-03
#[test]
fn the_way_out_stands_on_one_line_and_is_signed() {
    let content = json!({"subject": "s", "html": "<p>h</p>"});
    let long = format!("https://notify.shop.example/h/out/{}", "a".repeat(400));
    let to = Message { unsubscribe: Some(long.clone()), ..to_ann() };
    let mail = String::from_utf8(write(&composer(|_, _| ()), &content, &to).bytes).expect("ASCII");
    let line = mail.lines().find(|line| line.starts_with("List-Unsubscribe:")).expect("a way out");
    assert_eq!(
        line,
        format!(
            "List-Unsubscribe: <{long}>, <mailto:out@shop.example?subject=unsubscribe%20{}>",
            to.reference
        )
    );
    assert!(mail.contains("\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"));
    let signed: Vec<&str> = mail.split("DKIM-Signature: ").skip(1).collect();
    assert_eq!(signed.len(), 2, "one of each kind");
    for signature in signed {
        let names = signature.split("h=").nth(1).and_then(|rest| rest.split(';').next()).expect("names");
        let names: Vec<&str> = names.split(':').map(str::trim).collect();
        for name in
            ["List-Unsubscribe", "List-Unsubscribe-Post", "Message-ID", "MIME-Version", "Content-Type"]
        {
            assert!(names.contains(&name), "{name} is signed");
        }
        assert_eq!(names.iter().filter(|name| **name == "From").count(), 2, "From is signed once too often");
    }
}

#[test]
fn what_fits_into_no_mail_is_refused() {
    let composer = composer(|_, _| ());
    let callbacks = callbacks();
    let content = br#"{"subject":"s","text":"t"}"#;
    let prepared = composer.prepare(content, Some(&callbacks)).expect("a content");
    let told = |message: &Message| {
        let refused = composer.mail(&prepared, message, Some(&callbacks), WALL);
        refused.expect_err("refused").code().to_owned()
    };
    for endpoint in
        [&b"ann"[..], b"", b"\xff@a.example", b"a@b.example\r\nBcc: c@d.example", b"a b@c.example"]
    {
        assert_eq!(told(&Message { endpoint: endpoint.to_vec(), ..to_ann() }), "endpoint");
    }
    for reference in ["", "a b", "a\r\nb", "a@b", &"r".repeat(58)] {
        assert_eq!(told(&Message { reference: reference.into(), ..to_ann() }), "reference");
    }
    for url in
        ["ftp://a", "https://a>\r\nBcc: b@c.example", "https://a b", &format!("https://{}", "a".repeat(900))]
    {
        assert_eq!(told(&Message { unsubscribe: Some(url.into()), ..to_ann() }), "unsubscribe");
    }
}

/// Lines as a reader of mail has them.
fn lines(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.trim_end_matches('\n').split('\n').map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    // proves: EML-06
    #[test]
    fn what_was_written_is_read(
        subject in "[ -~üЖ漢😀]{0,120}", text in "[ -~üЖ漢\t\n😀]{0,400}", html in "[ -~üЖ漢\t\n]{0,400}",
    ) {
        let plain = composer(|settings, secrets| {
            settings["tracking"] = false.into();
            settings["dkim"] = Value::Null;
            *secrets = json!({});
        });
        let mail = write(&plain, &json!({"subject": subject, "text": text, "html": html}), &to_ann());
        let read = MessageParser::default().parse(&mail.bytes).expect("a mail");
        prop_assert_eq!(read.subject().unwrap_or_default(), subject.trim());
        prop_assert_eq!(read.from().and_then(|from| from.first()).and_then(|from| from.name()), Some("Shöp"));
        prop_assert_eq!(read.to().and_then(|to| to.first()).and_then(|to| to.address()), Some("ann@mail.example"));
        prop_assert_eq!(read.message_id(), Some(mail.message_id.as_str()));
        prop_assert_eq!(lines(&read.body_text(0).expect("a text")), lines(&text));
        prop_assert_eq!(lines(&read.body_html(0).expect("a page")), lines(&html));
    }

    #[test]
    fn no_text_makes_a_header(subject in any::<String>(), name in any::<String>(), text in any::<String>()) {
        let plain = composer(|settings, secrets| {
            settings["fromName"] = name.chars().filter(|letter| !letter.is_control()).take(40).collect::<String>().into();
            settings["dkim"] = Value::Null;
            *secrets = json!({});
            if settings["fromName"] == "" {
                settings["fromName"] = Value::Null;
            }
        });
        let mail = write(&plain, &json!({"subject": subject, "text": text}), &to_ann());
        prop_assert!(mail.bytes.is_ascii());
        let whole = String::from_utf8(mail.bytes).expect("ASCII");
        let (head, _) = whole.split_once("\r\n\r\n").expect("a head");
        let names: Vec<&str> = head
            .split("\r\n")
            .filter(|line| !line.starts_with(' '))
            .map(|line| line.split(':').next().unwrap_or_default())
            .collect();
        let expected = [
            "From", "To", "Reply-To", "Subject", "Date", "Message-ID", "Feedback-ID", "List-Unsubscribe",
            "List-Unsubscribe-Post", "MIME-Version", "Content-Type", "Content-Transfer-Encoding",
        ];
        prop_assert_eq!(names, expected);
        prop_assert!(!whole.replace("\r\n", "").contains(['\r', '\n']));
    }
}
