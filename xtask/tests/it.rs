//! The house rules hold for this repository.

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
