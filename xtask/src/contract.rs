//! What the tests claim to prove. `docs/contract.md` gives every promise an id; a test that proves one says so in
//! a comment, `proves: FAN-03, INB-04`. Here the two are laid side by side.
//!
//! What must never happen: a claim for an id that the contract does not have, or one that stands on nothing that runs. A
//! promise without a claim is no error; it is work to do, and it is listed. Whether a test is good is for its readers.

mod id;
mod proof;

pub use id::Id;

use crate::claims::{self, Comment};
use crate::repo::Repo;
use anyhow::{Result, ensure};
use proof::Proofs;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const CONTRACT: &str = "docs/contract.md";
const CLAIM: &str = "proves:";
/// A test that says it proves an id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Claim {
    pub path: String,
    pub line: usize,
}

#[derive(Debug, Default)]
pub struct Report {
    pub defined: BTreeSet<Id>,
    pub claims: BTreeMap<Id, Vec<Claim>>,
    /// Claims that are not understood, name no id of the contract, or prove nothing. Empty if all is well.
    pub errors: Vec<String>,
}

pub fn check(repo: &Repo) -> Result<Report> {
    let defined = defined(&repo.text(CONTRACT)?.unwrap_or_default());
    ensure!(!defined.is_empty(), "{CONTRACT} defines no id");
    let mut report = Report { defined, ..Report::default() };
    let proofs = Proofs::read(repo)?;
    for comment in claims::comments(repo, CLAIM)? {
        report.add(&comment, &proofs);
    }
    Ok(report)
}

/// The ids that the bullets of the contract define. Headings name the areas (`## PRF / QH — …`), so that something
/// like `UTF-16` in the text of a bullet is no id.
fn defined(contract: &str) -> BTreeSet<Id> {
    let headings = contract.lines().filter(|line| line.starts_with("## "));
    let areas: BTreeSet<&str> = headings
        .flat_map(|line| line.split(|letter: char| !letter.is_ascii_uppercase()))
        .filter(|word| id::is_area(word))
        .collect();
    let bullets = contract.lines().filter(|line| line.trim_start().starts_with("- "));
    bullets.flat_map(id::find_all).filter(|id| areas.contains(id.area.as_str())).collect()
}

impl Report {
    fn add(&mut self, comment: &Comment, proofs: &Proofs) {
        if let Some(fault) = proofs.fault(comment) {
            self.errors.push(format!("{}:{}: {fault}", comment.path, comment.line));
            return;
        }
        let claim = Claim { path: comment.path.clone(), line: comment.line };
        match id::parse_list(&comment.list) {
            Ok(ids) => ids.into_iter().for_each(|id| self.add_claim(id, claim.clone())),
            Err(word) => {
                self.errors
                    .push(format!("{}:{}: `{word}` is not an id of the contract", claim.path, claim.line));
            }
        }
    }

    fn add_claim(&mut self, id: Id, claim: Claim) {
        if self.defined.contains(&id) {
            self.claims.entry(id).or_default().push(claim);
        } else {
            self.errors.push(format!("{}:{}: {CONTRACT} has no {id}", claim.path, claim.line));
        }
    }

    /// Ids that no test claims to prove.
    pub fn unproven(&self) -> impl Iterator<Item = &Id> {
        self.defined.iter().filter(|id| !self.claims.contains_key(id))
    }

    /// One line per area: how much of it is claimed.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut areas: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for id in &self.defined {
            let (proven, all) = areas.entry(id.area.as_str()).or_default();
            *all += 1;
            *proven += usize::from(self.claims.contains_key(id));
        }
        let mut text = String::new();
        for (area, (proven, all)) in areas {
            write_line(&mut text, &format!("{area:<4} {proven:>3} of {all:>3}"));
        }
        write_line(
            &mut text,
            &format!("all  {:>3} of {:>3} claimed by tests", self.claims.len(), self.defined.len()),
        );
        text
    }

    /// Every proven id with its tests, then those that none proves.
    #[must_use]
    pub fn listing(&self) -> String {
        let mut text = String::new();
        for (id, claims) in &self.claims {
            let places: Vec<String> =
                claims.iter().map(|claim| format!("{}:{}", claim.path, claim.line)).collect();
            write_line(&mut text, &format!("{id}  {}", places.join(", ")));
        }
        let unproven: Vec<String> = self.unproven().map(Id::to_string).collect();
        write_line(&mut text, &format!("no test proves: {}", unproven.join(" ")));
        text
    }
}

fn write_line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "\
# The contract
Tests say FAN-77.
## FAN — fan-out
- FAN-01 One. FAN-02 Two, in UTF-16.
- FAN-03/04 Three.
## PRF / QH — respect
- QH-01 in the zone.
  - PRF-01 inside.
";

    fn report(text: &str) -> Report {
        let mut report = Report { defined: defined(SMALL), ..Report::default() };
        let proofs = Proofs::with_cases("[\"python/a.py\"]");
        for comment in claims::comments_in("interop/python/a.py", text, CLAIM) {
            report.add(&comment, &proofs);
        }
        report
    }

    fn check_claims(text: &str, expected: &str) {
        let report = report(text);
        assert_eq!(report.errors, Vec::<String>::new(), "{text}");
        let claimed: Vec<String> = report.claims.keys().map(Id::to_string).collect();
        assert_eq!(claimed.join(" "), expected, "{text}");
    }

    #[test]
    fn bullets_define_ids() {
        let ids: Vec<String> = defined(SMALL).iter().map(Id::to_string).collect();
        assert_eq!(ids.join(" "), "FAN-01 FAN-02 FAN-03 FAN-04 PRF-01 QH-01");
    }

    #[test]
    fn claims_are_lists_and_ranges() {
        check_claims("// proves: FAN-01, QH-01", "FAN-01 QH-01");
        check_claims("    /// proves: FAN-01..03.", "FAN-01 FAN-02 FAN-03");
        check_claims("# proves: FAN-01..FAN-02 PRF-01", "FAN-01 FAN-02 PRF-01");
        check_claims("fn a() {} // proves: FAN-03/04 (both tiers)", "FAN-03 FAN-04");
        check_claims("// proves: FAN-01,\n//   FAN-02,\n// QH-01\n// FAN-03", "FAN-01 FAN-02 QH-01");
        check_claims("it proves: nothing", "");
        check_claims("//! Tests say `proves: X`.", "");
    }

    #[test]
    fn unknown_ids_are_errors() {
        for text in [
            "// proves: FAN-09",
            "// proves: FAN-03..05",
            "// proves: ABC-01",
            "// proves: FAN-1",
            "// proves: that",
        ] {
            assert_eq!(report(text).errors.len(), 1, "{text}");
        }
    }

    #[test]
    fn what_no_test_claims_is_listed() {
        let report = report("// proves: FAN-01..04");
        assert!(report.listing().ends_with("no test proves: PRF-01 QH-01\n"));
        assert!(report.listing().contains("FAN-02  interop/python/a.py:1\n"));
        assert!(report.summary().ends_with("all    4 of   6 claimed by tests\n"));
    }
}
