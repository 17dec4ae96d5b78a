//! Where messages go: what users and producers register, and what is stored of it.

use fantail_channels::webhook::endpoint::Endpoint;
use fantail_channels::webhook::url::{Host, Url};
use fantail_channels::webpush::target::Target;
use fantail_fuzz::{Corpus, fuzz};
use fantail_rules::address;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::push_address::PushAddress;

const URL_WORDS: &[&str] = &[
    "https://",
    "http://",
    "//",
    "@",
    ":",
    ":443",
    ":0",
    "[::1]",
    "[",
    "]",
    "127.1",
    "0x7f",
    "0177",
    "2130706433",
    ".",
    "..",
    "%2f",
    "\\",
    "#",
    "?",
    "xn--",
    "\u{ad}",
    "\t",
    " ",
    "evil.example",
];

fn texts(inputs: &[&str]) -> Vec<Vec<u8>> {
    inputs.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// No two readers may disagree about the host, so what is read is written plainly and read again.
#[test]
fn urls_are_read_or_refused() {
    let inputs = texts(&[
        "https://hooks.example.com/a/b?c=d",
        "http://127.0.0.1:8080/",
        "https://[2001:db8::1]:8443/x",
        "https://xn--bcher-kva.example:443",
    ]);
    fuzz("URL", &Corpus::new(inputs, URL_WORDS), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let Ok(url) = Url::parse(text) else { return };
        let written = url.to_string();
        assert_eq!(Url::parse(&written).as_ref(), Ok(&url), "{written}");
        let Host::Name(name) = &url.origin.host else { return };
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        assert!(name.bytes().all(is_plain) && name.parse::<std::net::IpAddr>().is_err(), "{name}");
        let last = name.rsplit('.').next().unwrap_or_default();
        assert!(!last.bytes().all(|byte| byte.is_ascii_digit()), "{name} is a number to some resolvers");
    });
}

#[test]
fn endpoints_of_webhooks_are_read_or_refused() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let registered = format!(
        r#"{{"url":"https://a.example/x","secret":"{secret}","previousSecret":"{secret}","previousUntil":1800000000}}"#
    );
    let stored = Endpoint::decode(registered.as_bytes()).expect("a good endpoint").encode();
    let headers = [&stored[..], &[3, 0, 7], b"x-tag:1"].concat();
    let inputs = vec![registered.into_bytes(), stored, headers];
    for input in &inputs {
        assert!(Endpoint::decode(input).is_ok(), "the corpus has good endpoints");
    }
    let words =
        ["whsec_", "whsk_", "host:", "\u{1}\0", "\u{2}\0\u{18}", "\u{3}\0\u{4}", "\u{5}", "\r\n", "null"];
    fuzz("endpoint of a webhook", &Corpus::new(inputs, &words), |input| {
        if let Ok(endpoint) = Endpoint::decode(input) {
            assert_eq!(Endpoint::decode(&endpoint.encode()), Ok(endpoint), "what is stored is what was read");
        }
    });
}

#[test]
fn push_addresses_are_read_or_refused() {
    let (key, auth) = (
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "BTBZMqHH6r4Tts7J_aSIgg",
    );
    let inputs = texts(&[
        "apns production 12 com.example.app ab12ff",
        "apns sandbox 12 - ab12ff",
        "fcm token 1760000000000 p1 abc:DEF_1",
        "fcm fid 12 - x",
        &format!("web 12 {key} {auth} https://push.example.com/send/1"),
    ]);
    for input in &inputs {
        assert!(PushAddress::read(input).is_some(), "the corpus has good addresses");
    }
    let words = [" ", "-", "apns", "web", "fcm", "token", "production", "https://", "A", "=", "\u{e9}"];
    fuzz("push address", &Corpus::new(inputs, &words), |input| {
        if let Some(address) = PushAddress::read(input) {
            let written = address.write();
            assert_eq!(PushAddress::read(written.as_bytes()), Some(address), "{written}");
        }
        if let Ok(target) = Target::read(input) {
            assert_eq!(target.browser.public[0], 4, "an uncompressed point");
        }
    });
}

#[test]
fn addresses_of_users_are_read_or_refused() {
    let inputs = texts(&[
        "ann@example.com",
        "Ann.B+c@mail.Example.co.uk",
        "+12025550100",
        "https://a.example/x",
        "ab12ff",
    ]);
    let words =
        ["@", ".", "+", "..", "xn--", "\u{130}", "\u{ad}", "\r\n", ",", "<", ">", "\"", "(0)", "[127.0.0.1]"];
    fuzz("address of a user", &Corpus::new(inputs, &words), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        for kind in [
            ChannelKind::Email,
            ChannelKind::Sms,
            ChannelKind::Push,
            ChannelKind::Webhook,
            ChannelKind::InApp,
        ] {
            let Ok(read) = address::read(kind, text) else { continue };
            assert_eq!(
                address::read(kind, &read.text).as_ref(),
                Ok(&read),
                "{kind:?}: what is kept is read alike"
            );
            assert!(!read.text.contains(['\r', '\n', '\0']), "{kind:?}: {text:?} has no second line");
            assert!(!read.identity.is_empty());
        }
    });
}
