//! Which findings of the reviews have a test. `docs/reviews/*.md` lists every finding in a table (id, test, commit);
//! a test that would fail without the fix says so in a comment, `fixes: correctness A1, torture 2`.
//!
//! What must never happen: a comment for a finding that no review lists, or a listed test that does not exist.
//! A finding without a test is no error; it is work to do, and it is counted.

use crate::claims::{self, Comment};
use crate::repo::Repo;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const REVIEWS: &str = "docs/reviews/";
const WORD: &str = "fixes:";

/// The reviews that a finding may come from.
const SOURCES: &[&str] =
    &["contract", "correctness", "interop", "proved", "security", "torture", "usability"];

#[derive(Debug, Default)]
pub struct Report {
    /// Findings in the tables, each with the tests that its row names.
    pub listed: BTreeMap<String, Vec<String>>,
    pub comments: BTreeMap<String, Vec<Comment>>,
    /// Empty if all is well.
    pub errors: Vec<String>,
}

pub fn check(repo: &Repo) -> Result<Report> {
    let mut report = Report::default();
    for path in repo.paths().filter(|path| path.starts_with(REVIEWS)) {
        report.list(&repo.text(path)?.unwrap_or_default());
    }
    ensure!(!report.listed.is_empty(), "{REVIEWS} lists no finding");
    for comment in claims::comments(repo, WORD)? {
        report.add(&comment);
    }
    report.compare();
    Ok(report)
}

impl Report {
    fn list(&mut self, text: &str) {
        for line in text.lines().filter(|line| line.starts_with('|')) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            if let [id, _, tests, ..] = cells.as_slice()
                && is_id(id)
            {
                let tests = tests.split('`').skip(1).step_by(2).map(String::from).collect();
                self.listed.insert((*id).to_string(), tests);
            }
        }
    }

    fn add(&mut self, comment: &Comment) {
        for id in comment.list.split(',').map(|word| word.trim().trim_end_matches('.')) {
            if self.listed.contains_key(id) {
                self.comments.entry(id.to_string()).or_default().push(comment.clone());
            } else {
                self.errors.push(format!("{}:{}: no review lists `{id}`", comment.path, comment.line));
            }
        }
    }

    /// Every test that a row names must carry a comment with the row's id.
    fn compare(&mut self) {
        for (id, tests) in &self.listed {
            let comments = self.comments.get(id).map_or(&[][..], Vec::as_slice);
            for test in tests {
                if !comments.iter().any(|comment| comment.test.as_ref() == Some(test)) {
                    self.errors.push(format!("{REVIEWS}: `{test}` has no comment `{WORD} {id}`"));
                }
            }
        }
    }

    #[must_use]
    pub fn summary(&self) -> String {
        let comments: usize = self.comments.values().map(Vec::len).sum();
        let open: Vec<&str> =
            self.listed.keys().filter(|id| !self.comments.contains_key(*id)).map(String::as_str).collect();
        let mut text = String::new();
        let fixed = self.comments.len();
        writeln!(text, "fixes: {comments} in tests, for {fixed} of {} findings", self.listed.len())
            .expect("writing to a string cannot fail");
        if !open.is_empty() {
            writeln!(text, "without a test: {}", open.join(", ")).expect("writing to a string cannot fail");
        }
        text
    }

    /// Every finding with its tests.
    #[must_use]
    pub fn listing(&self) -> String {
        let mut text = String::new();
        for (id, comments) in &self.comments {
            for comment in comments {
                let test = comment.test.as_deref().unwrap_or("(the file)");
                writeln!(text, "{id}  {}:{}  {test}", comment.path, comment.line)
                    .expect("writing to a string cannot fail");
            }
        }
        text + &self.summary()
    }
}

fn is_id(cell: &str) -> bool {
    cell.split_once(' ').is_some_and(|(source, id)| SOURCES.contains(&source) && !id.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(table: &str, test: &str) -> Report {
        let mut report = Report::default();
        report.list(table);
        for comment in claims::comments_in("a.rs", test, WORD) {
            report.add(&comment);
        }
        report.compare();
        report
    }

    const TABLE: &str = "\
| finding | what | test | commit |
|---|---|---|---|
| correctness A1 | one | `long_names_are_encodable` | abc |
| torture 2 | two | | |
";

    #[test]
    fn findings_and_tests_are_laid_side_by_side() {
        let report =
            report(TABLE, "// fixes: correctness A1, torture 2\n#[test]\nfn long_names_are_encodable() {}");
        assert_eq!(report.errors, Vec::<String>::new());
        assert_eq!(report.summary(), "fixes: 2 in tests, for 2 of 2 findings\n");
    }

    #[test]
    fn what_is_only_claimed_is_an_error() {
        for (test, error) in [
            ("// fixes: correctness A9\nfn long_names_are_encodable() {}", "no review lists"),
            ("// fixes: correctness A1\nfn another() {}", "has no comment"),
            ("// fixes: A1\nfn long_names_are_encodable() {}", "no review lists"),
        ] {
            let report = report(TABLE, test);
            assert!(report.errors.iter().any(|known| known.contains(error)), "{test}: {:?}", report.errors);
        }
    }

    #[test]
    fn findings_without_a_test_are_counted() {
        let report = report(TABLE, "// fixes: correctness A1\nfn long_names_are_encodable() {}");
        assert!(report.summary().ends_with("1 of 2 findings\nwithout a test: torture 2\n"));
    }
}
