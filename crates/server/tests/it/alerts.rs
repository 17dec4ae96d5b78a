//! What operators are woken by: every metric and label of the rules exists, and every alert has a page that helps.

use crate::deliveries::metric;
use crate::server::Server;
use fantail_api::routes::ROUTES;
use fantail_node::meter::ANSWER_NAMES;
use fantail_node::reasons::REASONS;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::priority::Priority;
use fantail_server::client::Client;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rules() -> String {
    std::fs::read_to_string(repository().join("ops/alerts.yml")).expect("the rules")
}

/// Whether an alert of the plain form `metric > number` fires by what a server says of itself.
pub fn fires(alert: &str, client: &mut Client) -> bool {
    let rules = rules();
    let rule = rules.split("- alert: ").find(|rule| rule.lines().next() == Some(alert)).expect("a rule");
    let expression = rule.lines().find_map(|line| line.trim().strip_prefix("expr: ")).expect("an expression");
    let (name, least) = expression.split_once(" > ").expect("a comparison");
    metric(client, name, "") > least.parse().expect("a whole number")
}

/// Names of ours, as histograms call themselves.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let own = words.filter(|word| word.starts_with("fantail_"));
    own.map(|word| word.strip_suffix("_bucket").unwrap_or(word)).collect()
}

/// Every `label="one|other"` of an expression.
fn labels(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("=\"").chain(text.match_indices("=~\"")) {
        let name = text[..at].rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next();
        let value = text[at..].split('"').nth(1);
        if let (Some(name), Some(value)) = (name, value) {
            found.push((name, value.split('|').collect()));
        }
    }
    found
}

fn known(label: &str) -> Vec<&'static str> {
    match label {
        "channel" => ChannelKind::ALL.map(ChannelKind::name).to_vec(),
        "lane" => Priority::ALL.map(Priority::name).to_vec(),
        "state" => State::ALL.map(State::public_word).to_vec(),
        "outcome" => ANSWER_NAMES.to_vec(),
        "reason" => REASONS.to_vec(),
        "status" => vec!["dead"],
        "route" => ROUTES.iter().map(|route| route.id).collect(),
        "job" => vec!["fantail"],
        other => panic!("{other} is not a label of ours"),
    }
}

// proves: OBS-01
#[test]
fn rules_and_runbooks_name_metrics_that_exist() {
    let server = Server::start();
    let scrape = server.anonymous().get("/metrics").expect("an answer").text();
    let mut texts = vec![rules()];
    for page in pages() {
        texts.push(std::fs::read_to_string(repository().join("docs/runbooks").join(page)).expect("a page"));
    }
    for text in &texts {
        for metric in metrics(text) {
            assert!(scrape.contains(&format!("# TYPE {metric} ")), "{metric} is not among the metrics");
        }
        for (label, values) in labels(text) {
            let known = known(label);
            assert!(values.iter().all(|value| known.contains(value)), "{label} is never one of {values:?}");
        }
    }
}

/// Every `metric{label="one|other"}` of the expressions, with one entry for each combination.
fn series(rules: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for expression in rules.split("expr: ").skip(1).filter_map(|rule| rule.split("for: ").next()) {
        let expression = expression.split("labels: {").next().unwrap_or_default();
        for (at, _) in expression.match_indices("fantail_") {
            let rest = &expression[at..];
            let end =
                rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').expect("an end");
            let selector = rest[end..].strip_prefix('{').and_then(|rest| rest.split('}').next());
            let mut combinations = vec![Vec::new()];
            for (label, values) in labels(selector.unwrap_or_default()) {
                let with = |value: &&str| format!("{label}=\"{value}\"");
                combinations = combinations
                    .iter()
                    .flat_map(|chosen: &Vec<String>| {
                        values.iter().map(move |value| [chosen.clone(), vec![with(value)]].concat())
                    })
                    .collect();
            }
            found.extend(combinations.into_iter().map(|chosen| (rest[..end].to_owned(), chosen)));
        }
    }
    found
}

/// Its tasks are not known before they fail. A loop that fails goes on failing, so the increase after the first scrape is
/// enough for its alert.
const GROWS_ON: &str = "fantail_loop_errors_total";

// fixes: interop F5
#[test]
fn counters_of_alerts_exist_before_their_first_event() {
    let server = Server::start();
    let scrape = server.anonymous().get("/metrics").expect("an answer").text();
    let mut checked = 0;
    for (metric, chosen) in series(&rules()) {
        let family = metric.strip_suffix("_bucket").unwrap_or(&metric);
        if scrape.contains(&format!("# TYPE {family} gauge")) || metric == GROWS_ON {
            continue;
        }
        let mut lines = scrape.lines().filter(|line| line.split(['{', ' ']).next() == Some(&*metric));
        let found = lines.any(|line| chosen.iter().all(|label| line.contains(label)));
        assert!(found, "{metric} {chosen:?} is not there from the start");
        checked += 1;
    }
    assert!(checked >= 20, "{checked} series");
}

fn pages() -> BTreeSet<String> {
    let pages = std::fs::read_dir(repository().join("docs/runbooks")).expect("the pages");
    pages.map(|page| page.expect("a page").file_name().into_string().expect("a name")).collect()
}

#[test]
fn every_alert_has_its_page_and_every_page_its_alert() {
    let rules = rules();
    let mut named = BTreeSet::new();
    for alert in rules.split("- alert: ").skip(1) {
        let name = alert.lines().next().expect("a name").trim();
        let field = |key: &str| {
            let line = alert.lines().find_map(|line| line.trim().strip_prefix(key));
            line.unwrap_or_else(|| panic!("{name} has no {key}")).trim().to_owned()
        };
        field("expr:");
        assert!(["{ severity: page }", "{ severity: warn }"].contains(&field("labels:").as_str()), "{name}");
        assert!(!field("summary:").is_empty());
        let page = field("runbook:");
        let text = std::fs::read_to_string(repository().join(&page));
        let text = text.unwrap_or_else(|_| panic!("{name} has no page {page}"));
        assert!(text.contains(&format!("`{name}`")), "{page} does not say that it is about {name}");
        named.insert(page.strip_prefix("docs/runbooks/").expect("a page of ours").to_owned());
    }
    assert_eq!(named, pages());
}
