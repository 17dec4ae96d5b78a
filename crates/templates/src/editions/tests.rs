//! Held against rendering for one reader: who is told what, and how it is written down.

use super::*;
use crate::compile::compile;
use crate::render::{NotificationFacts, RenderAsk, TenantFacts};
use fantail_rules::ids::Millis;
use serde_json::{Value, json};

const CHANNELS: [(ChannelKind, Channel); 3] = [
    (ChannelKind::InApp, Channel::InApp),
    (ChannelKind::Push, Channel::Push),
    (ChannelKind::Sms, Channel::Sms),
];

fn compiled(variants: Value) -> Compiled {
    let definition = json!({
        "id": "t", "category": "c", "defaultLocale": "en",
        "channels": {"inApp": {"title": "in"}, "push": {"title": "push"}, "sms": {"body": "sms"}},
        "translations": {
            "de": {"push": {"title": "push de"}, "sms": {"body": "sms de"}},
            "de-AT": {"sms": {"body": "sms de-AT"}},
            "zh-Hant": {"inApp": {"title": "in zh-Hant"}},
        },
        "variants": variants,
    });
    compile(&serde_json::from_value(definition).expect("a definition")).expect("it compiles")
}

fn render(compiled: &Compiled, channel: Channel, locale: &str, variant: Option<usize>) -> Rendered {
    let variables = compiled.variables(&json!({})).expect("no variables");
    let ask = RenderAsk {
        channel,
        locale,
        variant,
        variables: &variables,
        user: None,
        notification: NotificationFacts { id: "n" },
        tenant: TenantFacts { id: "t", name: "T" },
        now: Millis(0),
    };
    compiled.render(&ask).expect("it renders")
}

fn frozen(compiled: &Compiled) -> Vec<u8> {
    let mut press = Press::for_all(compiled, 7);
    for key in compiled.editions(&CHANNELS.map(|(_, channel)| channel)) {
        for (kind, channel) in CHANNELS {
            press.add(&key, kind, render(compiled, channel, &key.locale, key.variant));
        }
    }
    let bytes = press.bytes();
    let frozen = press.finish();
    assert!(frozen.len().abs_diff(bytes) < 16, "{bytes} {}", frozen.len());
    frozen
}

fn loud() -> Value {
    json!([
        {"name": "plain", "weight": 1},
        {"name": "never", "weight": 0, "channels": {"push": {"title": "never"}}},
        {"name": "loud", "weight": 1, "channels": {"push": {"title": "PUSH"}},
         "translations": {"fr": {"push": {"title": "PUSH fr"}}}},
    ])
}

// proves: TPL-04, TPL-06, TPL-07
#[test]
fn every_reader_is_told_what_a_notification_of_its_own_would_say() {
    for variants in [json!([]), loud()] {
        let compiled = compiled(variants);
        let bytes = frozen(&compiled);
        let editions = Editions::read(&bytes).expect("editions");
        let locales = ["", "en", "de", "de-AT", "de-CH", "de_at", "zh-Hant-TW", "zh", "fr-CA", "ua", "x y"];
        for locale in locales {
            for name in ["ann", "bob", "cid", "dan", "eva"] {
                let reader = Reader { locale: locale.to_owned(), name: name.to_owned() };
                let edition = editions.choose(&reader);
                let variant = compiled.choose_variant(variant_seed("t", name));
                let named = variant.and_then(|variant| compiled.variant_name(variant));
                assert_eq!(editions.variant(edition), named, "{reader:?}");
                for (kind, channel) in CHANNELS {
                    let wanted = if locale.is_empty() { compiled.default_locale() } else { locale };
                    let own = render(&compiled, channel, wanted, variant);
                    let body = editions.body(edition, kind).expect("a body");
                    assert_eq!((body.bytes, body.locale), (&own.bytes[..], &*own.locale), "{reader:?}");
                }
            }
        }
    }
}

// proves: TPL-06, TPL-07
#[test]
fn the_choice_reads_no_more_of_a_reader_than_it_needs() {
    let plain = json!([{"name": "one", "weight": 1}]);
    for (variants, differ_by_name) in [(json!([]), false), (plain, false), (loud(), true)] {
        let compiled = compiled(variants);
        let bytes = frozen(&compiled);
        let editions = Editions::read(&bytes).expect("editions");
        assert_eq!((editions.differ(), editions.differ_by_name()), (true, differ_by_name));
    }
    let compiled = compiled(loud());
    let mut press = Press::for_one(&compiled, 7, Some(2));
    let key = EditionKey { variant: Some(2), locale: "fr-CA".to_owned() };
    press.add(&key, ChannelKind::Push, render(&compiled, Channel::Push, "fr-CA", Some(2)));
    let bytes = press.finish();
    let editions = Editions::read(&bytes).expect("editions");
    assert!(!editions.differ());
    let edition = editions.choose(&Reader::default());
    assert_eq!(editions.variant(edition), Some("loud"));
    assert_eq!(editions.locales(edition).collect::<Vec<_>>(), [(ChannelKind::Push, "fr")]);
    let instead = editions.body(edition, ChannelKind::Sms).expect("another channel's");
    assert_eq!(instead.bytes, br#"{"title":"PUSH fr"}"#);
}

#[test]
fn only_what_somebody_gets_is_an_edition_and_equal_bodies_are_there_once() {
    let compiled = compiled(loud());
    let all = CHANNELS.map(|(_, channel)| channel);
    let keys = compiled.editions(&all);
    let of = |variant: usize| -> Vec<&str> {
        let of_variant = keys.iter().filter(|key| key.variant == Some(variant));
        of_variant.map(|key| key.locale.as_str()).collect()
    };
    assert_eq!(of(0), ["de", "de-AT", "en", "zh-Hant"]);
    assert_eq!(of(1), [""; 0]);
    assert_eq!(of(2), ["de", "de-AT", "en", "fr", "zh-Hant"]);
    assert_eq!(compiled.editions(&[Channel::InApp]).len(), 4, "locales of other channels do not count");
    let bytes = frozen(&compiled);
    let editions = Editions::read(&bytes).expect("editions");
    // In-app: en, zh-Hant. SMS: en, de, de-AT. Push: en and de of both variants; German goes before loud.
    assert_eq!(editions.bodies.len(), 2 + 3 + 4);
}

#[test]
fn the_bytes_are_frozen_and_cut_ones_are_refused() {
    let compiled = compiled(json!([{"name": "a", "weight": 3}]));
    let mut press = Press::for_all(&compiled, 7);
    let key = EditionKey { variant: Some(0), locale: "de".to_owned() };
    press.add(&key, ChannelKind::Sms, render(&compiled, Channel::Sms, "de", Some(0)));
    let bytes = press.finish();
    let expected = [
        &[2, 1, 0, b't', 7, 0, 0, 0, 2, 0, b'e', b'n', 1, 1, 0, b'a', 3, 0, 0, 0, 0, 0, 0, 0][..],
        &[1, 0, 2, 0, b'd', b'e', 1, 3, 0, 0, 1, 0, 2, 0, b'd', b'e', 17, 0, 0, 0],
        br#"{"body":"sms de"}"#,
    ];
    assert_eq!(bytes, expected.concat());
    for cut in 0..bytes.len() {
        assert_eq!(Editions::read(&bytes[..cut]), None, "{cut}");
    }
    assert_eq!(Editions::read(&[&bytes[..], b"x"].concat()), None);
    for at in 0..bytes.len() {
        for value in [0, 1, 9, 255] {
            let mut other = bytes.clone();
            other[at] = value;
            if let Some(editions) = Editions::read(&other) {
                let edition = editions.choose(&Reader { locale: "de".to_owned(), name: "ann".to_owned() });
                assert!(editions.body(edition, ChannelKind::Push).is_none_or(|body| body.bytes.len() <= 17));
            }
        }
    }
}
