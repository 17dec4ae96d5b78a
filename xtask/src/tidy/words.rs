//! Words that must not stay: unfinished code, switched-off tests, sleeps in tests, and waiting in code that has
//! to be the same on every machine.

use super::{File, Finding};

/// Never in code.
const BANNED: &[(&str, &str)] = &[
    ("todo!", "finish it, or leave it out"),
    ("unimplemented!", "finish it, or leave it out"),
    ("dbg!", "remove it"),
    (
        "#[ignore",
        "a test that does not run proves nothing: fix it, delete it, or move it to the nightly suites",
    ),
];

/// Never in tests.
const BANNED_IN_TESTS: &[(&str, &str)] = &[("thread::sleep", "wait for a signal, not for time to pass")];

/// Never in comments either; split here so that this file may name it.
const BANNED_ANYWHERE: &[(&str, &str)] =
    &[(concat!("FIX", "ME"), "fix it, or describe it in an issue and say here why it may stay")];

/// Crates whose code decides: synchronous, so that a run can be repeated exactly.
const SYNCHRONOUS: &[&str] = &["crates/rules/src/", "crates/audit/src/", "crates/machine/src/"];
const BANNED_IN_SYNCHRONOUS: &[(&str, &str)] = &[
    ("async", "deciding does not wait: this belongs in node"),
    (".await", "deciding does not wait: this belongs in node"),
];

pub fn check(files: &[File]) -> Vec<Finding> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut ban = |word: &str, advice: &str, offsets: Vec<usize>| {
        findings.extend(offsets.into_iter().map(|at| file.finding(Some(at), format!("`{word}`: {advice}"))));
    };
    for (word, advice) in BANNED {
        ban(word, advice, file.source.code_offsets(word));
    }
    let tests_at = if file.is_test() { 0 } else { file.source.tests_at };
    for (word, advice) in BANNED_IN_TESTS {
        let mut offsets = file.source.code_offsets(word);
        offsets.retain(|offset| *offset >= tests_at);
        ban(word, advice, offsets);
    }
    for (word, advice) in BANNED_ANYWHERE {
        ban(word, advice, file.source.text.match_indices(word).map(|(offset, _)| offset).collect());
    }
    if SYNCHRONOUS.iter().any(|directory| file.path.starts_with(directory)) {
        for (word, advice) in BANNED_IN_SYNCHRONOUS {
            ban(word, advice, file.source.code_offsets(word));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_lines(path: &str, text: &str, expected: &[usize]) {
        let lines: Vec<usize> =
            check(&[File::new(path, text)]).into_iter().filter_map(|finding| finding.line).collect();
        assert_eq!(lines, expected, "{path}: {text}");
    }

    #[test]
    fn banned_words_are_found_where_they_count() {
        let path = "crates/node/src/a.rs";
        check_lines(path, "fn a() {\n    todo!()\n}\n", &[2]);
        check_lines(path, "fn a() { \"todo!\"; } // todo! is only named here\n", &[]);
        check_lines(path, "#[ignore = \"slow\"]\nfn a() {}\n", &[1]);
        check_lines(path, "#[ignored]\nfn a() { not_todo!() }\n", &[]);
        check_lines(path, &format!("// {}: later\n", BANNED_ANYWHERE[0].0), &[1]);
    }

    #[test]
    fn sleeping_is_banned_in_tests_only() {
        let sleep = "std::thread::sleep(span);\n";
        check_lines("crates/node/src/a.rs", sleep, &[]);
        check_lines("crates/node/tests/it.rs", sleep, &[1]);
        check_lines("crates/node/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{sleep}}}\n"), &[3]);
    }

    #[test]
    fn rules_and_machines_do_not_wait() {
        check_lines("crates/rules/src/a.rs", "async fn a() {\n b.await }\n", &[1, 2]);
        check_lines("crates/node/src/a.rs", "async fn a() {\n b.await }\n", &[]);
    }
}
