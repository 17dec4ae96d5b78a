//! The house rules hold for this repository.

use std::collections::BTreeSet;
use xtask::repo::Repo;
use xtask::{contract, fixes, tidy};

#[test]
fn the_repository_is_tidy() {
    let repo = Repo::here().expect("this repository opens");
    let findings = tidy::check(&repo).expect("every file can be read");
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn tests_claim_only_what_the_contract_promises() {
    let repo = Repo::here().expect("this repository opens");
    let report = contract::check(&repo).expect("the contract can be read");
    assert!(report.errors.is_empty(), "{}", report.errors.join("\n"));
    assert!(
        report.defined.len() > 100,
        "the contract has {} ids, some were not understood",
        report.defined.len()
    );
}

#[test]
fn fixes_name_findings_and_reviews_name_tests() {
    let repo = Repo::here().expect("this repository opens");
    let report = fixes::check(&repo).expect("the reviews can be read");
    assert!(report.errors.is_empty(), "{}", report.errors.join("\n"));
}

/// Clippy reads the nearest clippy.toml only, so the two crates that decide each have a copy of the bans.
#[test]
fn rules_and_machine_ban_the_same() {
    let repo = Repo::here().expect("this repository opens");
    let bans = |path: &str| -> Vec<String> {
        let text = repo.text(path).expect("readable").expect("text");
        text.lines().filter(|line| !line.starts_with('#')).map(String::from).collect()
    };
    let rules = bans("crates/rules/clippy.toml");
    assert!(rules.iter().any(|line| line.contains("SystemTime::now")));
    assert_eq!(rules, bans("crates/machine/clippy.toml"));
    let everywhere = bans("clippy.toml");
    let banned_path = |line: &String| line.split('"').nth(1).map(String::from);
    for path in everywhere.iter().filter_map(banned_path) {
        assert!(
            rules.iter().filter_map(banned_path).any(|known| known == path),
            "{path} is not banned in rules"
        );
    }
}

/// What a node does for the whole server. Whatever it does for a tenant names it, so that a caller who forgets it does not
/// compile. One that is added here says for whom it is.
const OF_THE_SERVER: &[(&str, &str)] = &[
    (
        "the operator: starting, stopping, health, housekeeping, backups",
        "accept_clock drain give_up health is_paused keeps_back_what_is_due panics \
      queued quota_defaults refuse_all replan_schedules resume retain set_disk_room sleep snapshot spawn_loop start stop stopped \
      supervised_thread sync tails taken_by_all tend trim_behind wall",
    ),
    (
        "the operator: the list of tenants, and what warns of all of their accounts",
        "create_tenant deletions providers_ending tenants",
    ),
    (
        "what says which tenant it is",
        "deletion_by_slug follow_link key_by_id tenant_by_slug tenant_of_reference",
    ),
    ("a value that has its tenant in it", "erase_again prefer_by_link put_segment"),
    ("runs of schedules, each with its tenant", "due_runs put_off run_came run_panicked"),
    ("the log of the server itself", "audit_checkpoints audit_key"),
    ("who asks, not for whom", "acting_as"),
];

// proves: TEN-02
#[test]
fn whoever_asks_a_node_names_the_tenant() {
    let repo = Repo::here().expect("this repository opens");
    let listed: BTreeSet<&str> =
        OF_THE_SERVER.iter().flat_map(|(_, names)| names.split_whitespace()).collect();
    let (mut with, mut without) = (0, BTreeSet::new());
    for path in repo.paths().filter(|path| path.starts_with("crates/node/src/") && path.ends_with(".rs")) {
        let text = repo.text(path).expect("readable").expect("text");
        for block in text.split("\nimpl Node {").skip(1) {
            let block = block.split("\n}\n").next().unwrap_or_default();
            for method in block.split("\n    pub ").skip(1) {
                let Some((_, method)) = method.split_once("fn ") else { continue };
                let name = method.split(['(', '<']).next().unwrap_or_default();
                let head = method.split([';', '{']).next().unwrap_or_default();
                let parameters = head.split("->").next().unwrap_or_default();
                match parameters.contains("TenantId") {
                    true => with += 1,
                    false => drop(without.insert(name.to_owned())),
                }
            }
        }
    }
    let unlisted: Vec<&String> = without.iter().filter(|name| !listed.contains(name.as_str())).collect();
    assert!(unlisted.is_empty(), "methods of Node without a tenant, and without a reason here: {unlisted:?}");
    let gone: Vec<&&str> = listed.iter().filter(|name| !without.contains(**name)).collect();
    assert!(gone.is_empty(), "no method without a tenant has this name: {gone:?}");
    assert!(with > 100, "only {with} methods name a tenant");
}
