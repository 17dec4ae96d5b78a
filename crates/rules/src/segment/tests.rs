//! Tables of conditions and of faults, and a naive evaluator that was written apart from the real one.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const NOW: Millis = Millis(1_769_860_800_000); // 2026-01-31T12:00:00Z
const DAY_MS: u64 = 86_400_000;

fn attribute(path: &[String]) -> Value {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path[..] {
        ["plan"] => Value::Text("pro".into()),
        ["age"] => Value::Number(41.5),
        ["beta"] => Value::Flag(true),
        ["tags"] => Value::Many(vec![Value::Text("a".into()), Value::Number(2.0)]),
        ["address", "city of birth"] => Value::Text("Graz".into()),
        _ => Value::Null,
    }
}

fn ann<'a>(topics: &'a [bool], unwanted: &'a [String]) -> Person<'a> {
    Person {
        locale: "de-AT",
        zone: ZoneNo::find("Europe/Vienna").expect("a zone"),
        created: Millis(NOW.0 - 10 * DAY_MS),
        updated: Millis(NOW.0 - DAY_MS),
        last_seen: None,
        reachable: ChannelSet::EMPTY.with(ChannelKind::Push),
        consented: ChannelSet::EMPTY,
        enabled: ChannelSet::ALL.without(ChannelKind::Email),
        unwanted,
        topics,
        attribute: &attribute,
    }
}

// proves: BLK-07
#[test]
fn conditions_hold_or_do_not() {
    let check = |text: &str, expected: bool| {
        let filter = Filter::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        let topics: Vec<bool> = filter.topics().iter().map(|topic| topic == "news").collect();
        let unwanted = ["likes".to_owned()];
        assert_eq!(filter.matches(&ann(&topics, &unwanted), NOW), expected, "{text}");
    };
    for (text, expected) in [
        (r#"attributes.plan == "pro""#, true),
        (r#"attributes.plan != "pro""#, false),
        (r#"attributes.plan in ["free", "pro"]"#, true),
        (r#"attributes.plan in ["free"]"#, false),
        ("attributes.age >= 41.5 and attributes.age < 42", true),
        (r#"attributes.age == "41.5""#, false),
        (r#"attributes.age < "5""#, false),
        ("attributes.beta", true),
        ("not attributes.beta", false),
        ("everyone", true),
        ("not everyone", false),
        ("attributes.none", false),
        ("attributes.none == null", true),
        ("attributes.none < 3 or attributes.none > 3", false),
        (r#"attributes.tags contains "a" and attributes.tags contains 2"#, true),
        (r#"attributes.tags contains 3"#, false),
        (r#"attributes.plan contains "r" and attributes.plan startsWith "pr""#, true),
        (r#"attributes.address["city of birth"] == "Graz""#, true),
        (r#"attributes["address"]["city of birth"] == "Graz""#, true),
        (r#"locale == "de-AT" and language == "de" and timezone startsWith "Europe/""#, true),
        ("createdAt > ago(30d) and createdAt < ago(9d)", true),
        ("createdAt > ago(1w)", false),
        (r#"createdAt < date("2026-01-31") and updatedAt >= date("2026-01-30T12:00:00Z")"#, true),
        ("lastSeenAt == null", true),
        ("lastSeenAt > ago(1h)", false),
        (r#"reachable("push") and not reachable("sms")"#, true),
        (r#"consented("push")"#, false),
        (r#"enabled("push") && !enabled("email")"#, true),
        (r#"wants("news") and not wants("likes")"#, true),
        (r#"topic("news")"#, true),
        (r#"topic("other") or topic("news")"#, true),
        (r#"topic("other")"#, false),
        // `and` binds closer than `or`, `not` closest.
        (r#"attributes.beta or attributes.beta and attributes.none"#, true),
        (r#"(attributes.beta or attributes.beta) and attributes.none"#, false),
        (r#"not attributes.none and attributes.beta"#, true),
        (r#"attributes.plan == "p\"\\\n""#, false),
    ] {
        check(&text.replace("&& !", "&& not "), expected);
    }
}

#[test]
fn faults_name_their_place() {
    let deep = format!("{}attributes.a{}", "(".repeat(40), ")".repeat(40));
    let many = vec!["attributes.a"; 129].join(" or ");
    let values = format!("attributes.a in [{}]", vec!["1"; 257].join(","));
    let topics: Vec<String> = (0..17).map(|n| format!("topic(\"{n}\")")).collect();
    let long = "x".repeat(5_000);
    for (text, at) in [
        ("", 0),
        ("locale", 0),
        ("locale ==", 9),
        ("locale = 1", 7),
        ("locale == de", 10),
        (r#"locale == "de"#, 10),
        (r#"locale == "d\x""#, 12),
        ("name == 1", 0),
        ("attributes == 1", 11),
        ("attributes. == 1", 12),
        ("attributes[a] == 1", 11),
        ("attributes.a == 1 attributes.b", 18),
        ("attributes.a == 1)", 17),
        ("(attributes.a == 1", 18),
        ("attributes.a in 1", 16),
        ("attributes.a in []", 17),
        ("createdAt > ago(30)", 16),
        ("createdAt > ago(30y)", 18),
        ("createdAt > 30d", 12),
        (r#"createdAt > date("soon")"#, 17),
        (r#"createdAt > date("2026-02-30")"#, 17),
        (r#"reachable("inApp")"#, 10),
        ("reachable(push)", 10),
        ("wants()", 6),
        ("attributes.a == 1-2", 16),
        ("attributes.a == é", 16),
        ("attributes.a == 1 # no", 18),
        (deep.as_str(), 33),
        (many.as_str(), 128 * 16),
        (values.as_str(), 17 + 256 * 2),
        (topics.join(" or ").as_str(), 16 * 14 + 6 + 6),
        (long.as_str(), 0),
    ] {
        let fault = Filter::parse(text).expect_err(text);
        assert_eq!(fault.at, at, "{text}: {}", fault.what);
    }
}

#[test]
fn a_filter_says_what_it_needs() {
    let needs = |text: &str| Filter::parse(text).expect(text).needs();
    assert_eq!(needs(r#"topic("a")"#), Needs::default());
    assert_eq!(needs("not attributes.a"), Needs { attributes: true, ..Needs::default() });
    let all = r#"locale == "de" or reachable("push") and wants("x") or lastSeenAt > ago(1d)"#;
    let expected = Needs { profile: true, column: true, choices: true, last_seen: true, attributes: false };
    assert_eq!(needs(all), expected);
}

/// A condition as the naive evaluator has it.
#[derive(Clone, Debug)]
enum Naive {
    Both(Box<Naive>, Box<Naive>),
    Either(Box<Naive>, Box<Naive>),
    Opposite(Box<Naive>),
    Test(String, &'static str, i8),
    Member(String, Vec<i8>),
    Flag(String),
}

impl Naive {
    fn text(&self) -> String {
        match self {
            Self::Both(one, other) => format!("({}) and ({})", one.text(), other.text()),
            Self::Either(one, other) => format!("({}) or ({})", one.text(), other.text()),
            Self::Opposite(one) => format!("not ({})", one.text()),
            Self::Test(name, op, value) => format!("attributes.{name} {op} {value}"),
            Self::Member(name, values) => {
                let values: Vec<String> = values.iter().map(i8::to_string).collect();
                format!("attributes[\"{name}\"] in [{}]", values.join(", "))
            }
            Self::Flag(name) => format!("attributes.{name}"),
        }
    }

    fn holds(&self, known: &BTreeMap<String, Option<i8>>) -> bool {
        // `Some(None)` is a flag that is on.
        let number = |name: &String| known.get(name).copied().flatten();
        match self {
            Self::Both(one, other) => one.holds(known) & other.holds(known),
            Self::Either(one, other) => one.holds(known) | other.holds(known),
            Self::Opposite(one) => !one.holds(known),
            Self::Test(name, "==", value) => number(name) == Some(*value),
            Self::Test(name, "!=", value) => number(name) != Some(*value),
            Self::Test(name, "<", value) => number(name).is_some_and(|known| known < *value),
            Self::Test(name, "<=", value) => number(name).is_some_and(|known| known <= *value),
            Self::Test(name, ">", value) => number(name).is_some_and(|known| known > *value),
            Self::Test(name, _, value) => number(name).is_some_and(|known| known >= *value),
            Self::Member(name, values) => number(name).is_some_and(|known| values.contains(&known)),
            Self::Flag(name) => known.get(name) == Some(&None),
        }
    }
}

fn naive() -> impl Strategy<Value = Naive> {
    let name = || prop_oneof![Just("a"), Just("b"), Just("c")].prop_map(str::to_owned);
    let op = prop_oneof![Just("=="), Just("!="), Just("<"), Just("<="), Just(">"), Just(">=")];
    let leaf = prop_oneof![
        (name(), op, -3i8..4).prop_map(|(name, op, value)| Naive::Test(name, op, value)),
        (name(), proptest::collection::vec(-3i8..4, 1..4))
            .prop_map(|(name, values)| Naive::Member(name, values)),
        name().prop_map(Naive::Flag),
    ];
    leaf.prop_recursive(5, 40, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Naive::Both(a.into(), b.into())),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Naive::Either(a.into(), b.into())),
            inner.prop_map(|a| Naive::Opposite(a.into())),
        ]
    })
}

proptest! {
    #[test]
    fn it_agrees_with_the_naive_evaluator(
        condition in naive(),
        known in proptest::collection::btree_map(
            prop_oneof![Just("a".to_owned()), Just("b".to_owned()), Just("c".to_owned())],
            proptest::option::of(-3i8..4), 0..4),
    ) {
        let filter = Filter::parse(&condition.text()).expect("it is well formed");
        let attribute = |path: &[String]| match known.get(&path[0]) {
            None => Value::Null,
            Some(None) => Value::Flag(true),
            Some(Some(number)) => Value::Number(f64::from(*number)),
        };
        let person = Person { attribute: &attribute, ..ann(&[], &[]) };
        prop_assert_eq!(filter.matches(&person, NOW), condition.holds(&known), "{}", condition.text());
    }

    /// Whatever is written, the answer is a filter or a place in the text.
    #[test]
    fn any_text_is_understood_or_refused(text in "[a-z\"\\\\()\\[\\].,<>=! 0-9é-]{0,60}") {
        if let Err(fault) = Filter::parse(&text) {
            prop_assert!(fault.at <= text.len() && text.is_char_boundary(fault.at));
        }
    }
}
