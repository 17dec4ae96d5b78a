//! Whether a claim stands on something that runs and judges ours: a test, a case of a conformance suite that every engine passes,
//! or an interop case. Files without a language of tests make no claims.

use crate::claims::{Comment, Stand};
use crate::repo::Repo;
use anyhow::Result;

/// Lists the interop cases and the command of each.
const CASES: &str = "interop/cases.json";
/// Its functions are cases of tables that the engines' tests run; the compiler refuses those that no table has.
const CONFORMANCE: &str = "crates/conformance/src/";
/// Its tests are about our emulators of providers, not about our senders.
const SANDBOX: &str = "crates/sandbox/";

/// What a claim is judged by.
pub struct Proofs {
    cases: String,
}

impl Proofs {
    pub fn read(repo: &Repo) -> Result<Self> {
        let cases = if repo.contains(CASES) { repo.text(CASES)? } else { None };
        Ok(Self { cases: cases.unwrap_or_default() })
    }

    #[cfg(test)]
    pub fn with_cases(cases: &str) -> Self {
        Self { cases: cases.to_string() }
    }

    /// Why the claim proves nothing; `None` if it stands well.
    #[must_use]
    pub fn fault(&self, comment: &Comment) -> Option<&'static str> {
        if comment.path.starts_with(SANDBOX) {
            return Some("a test of the sandbox is about our emulator and proves nothing of the contract");
        }
        if !comment.path.ends_with(".rs") {
            return (!self.is_case(&comment.path)).then_some("no case in interop/cases.json runs this file");
        }
        match comment.stand {
            Stand::Test => None,
            Stand::Function if comment.path.starts_with(CONFORMANCE) => None,
            Stand::Function => Some("the function below is no test"),
            Stand::Ignored => Some("the test below is switched off"),
            Stand::Elsewhere => Some("a claim stands directly on a test"),
        }
    }

    /// Commands name their script relative to `interop/`.
    fn is_case(&self, path: &str) -> bool {
        path.strip_prefix("interop/").is_some_and(|script| self.cases.contains(&format!("\"{script}\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims;
    use crate::contract::CLAIM;

    /// `below` stands under a claim.
    fn check_fault(path: &str, below: &str, expected: Option<&str>) {
        let text = format!("// {CLAIM} FAN-01\n{below}");
        let proofs = Proofs::with_cases(r#"[{"name": "a", "run": ["python", "python/a.py"]}]"#);
        for comment in claims::comments_in(path, &text, CLAIM) {
            let fault = proofs.fault(&comment);
            assert_eq!(fault.is_some(), expected.is_some(), "{path}: {below}: {fault:?}");
            assert!(fault.unwrap_or_default().contains(expected.unwrap_or_default()), "{path}: {fault:?}");
        }
    }

    // fixes: contract 0
    #[test]
    fn a_claim_stands_on_a_test_that_runs() {
        const TEST: &str = "#[test]\nfn a() {}";
        const FUNCTION: &str = "fn a() {}";
        check_fault("crates/node/src/a.rs", TEST, None);
        check_fault("crates/node/src/a.rs", FUNCTION, Some("no test"));
        check_fault("crates/node/src/a.rs", "let a = 1;", Some("directly"));
        check_fault("crates/node/src/a.rs", "#[ignore]\n#[test]\nfn a() {}", Some("off"));
        check_fault("crates/conformance/src/a.rs", FUNCTION, None);
        check_fault("crates/conformance/src/a.rs", "let a = 1;", Some("directly"));
        check_fault("crates/sandbox/tests/it/a.rs", TEST, Some("emulator"));
        check_fault("interop/python/a.py", "", None);
        check_fault("interop/python/b.py", "", Some("cases.json"));
        check_fault("crates/server/tests/browser/a.mjs", "", Some("cases.json"));
    }
}
