//! Every public problem code has a page under docs/errors, and every page has a code: a caller who meets
//! `RATE_LIMITED` finds `docs/errors/rate-limited.md`, which begins with `# RATE_LIMITED`.

use super::Finding;
use crate::repo::Repo;
use crate::source::Source;
use anyhow::Result;
use std::collections::BTreeSet;

/// Where the codes are listed; whatever string literal looks like a code there is one.
const CODES: &str = "crates/wire/src/code.rs";
const PAGES: &str = "docs/errors/";
const CODE_LENGTH_MIN: usize = 4;

pub fn check(repo: &Repo) -> Result<Vec<Finding>> {
    if !repo.contains(CODES) {
        return Ok(Vec::new());
    }
    let codes = codes(&repo.text(CODES)?.unwrap_or_default());
    let mut findings = Vec::new();
    for code in &codes {
        let path = page_of(code);
        if !repo.contains(&path) {
            findings.push(finding(&path, format!("missing: {code} needs its page")));
        } else if !repo.text(&path)?.unwrap_or_default().starts_with(&format!("# {code}\n")) {
            findings.push(finding(&path, format!("does not begin with `# {code}`")));
        }
    }
    let wanted: BTreeSet<String> = codes.iter().map(|code| page_of(code)).collect();
    for path in repo.paths().filter(|path| is_page(path) && !wanted.contains(*path)) {
        findings.push(finding(path, format!("no code of {CODES} has this page: remove it")));
    }
    Ok(findings)
}

fn codes(text: &str) -> BTreeSet<String> {
    Source::new(text).literals.into_iter().filter(|literal| is_code(literal)).collect()
}

fn is_code(text: &str) -> bool {
    text.len() >= CODE_LENGTH_MIN
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

fn page_of(code: &str) -> String {
    format!("{PAGES}{}.md", code.to_ascii_lowercase().replace('_', "-"))
}

fn is_page(path: &str) -> bool {
    path.starts_with(PAGES) && path.ends_with(".md") && !path.ends_with("/README.md")
}

fn finding(path: &str, message: String) -> Finding {
    Finding { path: path.to_string(), line: None, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_shouting_literals() {
        let text = r#"
            Self::RateLimited => ("RATE_LIMITED", 429, "too many requests"), // "IN_COMMENT"
            Self::Http2 => "HTTP2_ONLY",
            "GET" "Mixed_Case" "_LEADING" "9_DIGIT"
            #[cfg(test)]
            mod tests { const A: &str = "ONLY_IN_TESTS"; }"#;
        let expected: BTreeSet<String> = ["RATE_LIMITED", "HTTP2_ONLY"].map(String::from).into();
        assert_eq!(codes(text), expected);
    }

    #[test]
    fn pages_are_named_after_codes() {
        assert_eq!(page_of("RATE_LIMITED"), "docs/errors/rate-limited.md");
        assert!(is_page("docs/errors/rate-limited.md"));
        assert!(!is_page("docs/errors/README.md"));
        assert!(!is_page("docs/decisions/0001-journal.md"));
    }
}
