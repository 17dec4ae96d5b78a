//! A file is one idea, a function one step: files up to 400 lines without their tests, functions up to 70.
//!
//! Exceptions are listed in a ratchet that only turns one way: a listed place may not grow, and when it shrank by
//! more than the slack its entry must follow, so that the next change cannot grow it back unseen.

use super::{File, Finding};
use std::collections::BTreeMap;

pub const RATCHET: &str = "xtask/tidy-ratchet.txt";

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
/// How far below its entry a place may be before the entry must be lowered: small edits need no second file.
const RATCHET_SLACK: usize = 10;

/// (path, kind): the kind is `file`, or `fn:` and a name.
type Place = (String, String);

pub fn check(files: &[File], ratchet: &str) -> Vec<Finding> {
    let (allowed, mut findings) = parse(ratchet);
    let measured = measure(files);
    for (place, size) in &measured {
        findings.extend(judge(place, size, allowed.get(place).copied()));
    }
    for (path, kind) in allowed.keys().filter(|place| !measured.contains_key(*place)) {
        findings.push(in_ratchet(format!("{path} {kind} does not exist any more: remove the entry")));
    }
    findings
}

struct Size {
    lines: usize,
    line: usize,
}

/// The size of every place. Functions of one name in one file share the place; the longest one counts.
fn measure(files: &[File]) -> BTreeMap<Place, Size> {
    let mut measured = BTreeMap::new();
    for file in files {
        if !file.is_test() {
            let size = Size { lines: file.source.lines_without_tests(), line: 1 };
            measured.insert((file.path.clone(), "file".to_string()), size);
        }
        for function in file.source.functions() {
            let place = (file.path.clone(), format!("fn:{}", function.name));
            let size = measured.entry(place).or_insert(Size { lines: 0, line: function.line });
            if function.lines > size.lines {
                *size = Size { lines: function.lines, line: function.line };
            }
        }
    }
    measured
}

fn judge((path, kind): &Place, size: &Size, allowed: Option<usize>) -> Option<Finding> {
    let limit = if kind == "file" { FILE_LINES_MAX } else { FUNCTION_LINES_MAX };
    let lines = size.lines;
    match allowed {
        None if lines > limit => Some(Finding {
            path: path.clone(),
            line: Some(size.line),
            message: format!("{kind} has {lines} lines, at most {limit} are wanted: split it"),
        }),
        None => None,
        Some(_) if lines <= limit => {
            Some(in_ratchet(format!("{path} {kind} is within {limit}: remove the entry")))
        }
        Some(entry) if lines > entry => Some(Finding {
            path: path.clone(),
            line: Some(size.line),
            message: format!("{kind} grew from {entry} to {lines} lines, the ratchet only shrinks: split it"),
        }),
        Some(entry) if lines + RATCHET_SLACK < entry => {
            Some(in_ratchet(format!("{path} {kind} shrank to {lines}: lower the entry from {entry}")))
        }
        Some(_) => None,
    }
}

/// Lines of `path kind number`; `#` begins a comment.
fn parse(ratchet: &str) -> (BTreeMap<Place, usize>, Vec<Finding>) {
    let (mut allowed, mut findings) = (BTreeMap::new(), Vec::new());
    for (index, line) in ratchet.lines().enumerate() {
        let line_no = index + 1;
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [path, kind, number] => match number.parse() {
                Err(_) => findings.push(in_ratchet(format!("line {line_no}: {number} is not a number"))),
                Ok(number) => {
                    if allowed.insert((path.to_string(), kind.to_string()), number).is_some() {
                        findings.push(in_ratchet(format!("line {line_no} repeats {path} {kind}")));
                    }
                }
            },
            _ => findings.push(in_ratchet(format!("line {line_no} is not `path kind number`"))),
        }
    }
    (allowed, findings)
}

fn in_ratchet(message: String) -> Finding {
    Finding { path: RATCHET.to_string(), line: None, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose one function, and so the file itself, has this many lines.
    fn function_of(lines: usize) -> File {
        let body = "    step();\n".repeat(lines - 2);
        File::new("crates/a/src/b.rs", &format!("fn long() {{\n{body}}}\n"))
    }

    fn check_function(lines: usize, ratchet: &str, expected: &[&str]) {
        let findings: Vec<String> =
            check(&[function_of(lines)], ratchet).into_iter().map(|finding| finding.message).collect();
        assert_eq!(findings.len(), expected.len(), "{lines} lines, ratchet {ratchet:?}: {findings:?}");
        for (finding, part) in findings.iter().zip(expected) {
            assert!(finding.contains(part), "{finding:?} does not say {part:?}");
        }
    }

    #[test]
    fn the_ratchet_turns_one_way() {
        let entry = "crates/a/src/b.rs fn:long 100  # being split";
        check_function(70, "", &[]);
        check_function(71, "", &["fn:long has 71 lines"]);
        check_function(100, entry, &[]);
        check_function(101, entry, &["grew from 100 to 101"]);
        check_function(90, entry, &[]);
        check_function(89, entry, &["lower the entry from 100"]);
        check_function(70, entry, &["remove the entry"]);
    }

    #[test]
    fn files_are_measured_without_tests() {
        let code = "const A: u8 = 1;\n".repeat(400);
        let with_tests = format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(check(&[File::new("crates/a/src/b.rs", &with_tests)], ""), []);
        let longer = format!("{code}const B: u8 = 2;\n");
        assert_eq!(check(&[File::new("crates/a/src/b.rs", &longer)], "").len(), 1);
        assert_eq!(check(&[File::new("crates/a/tests/it.rs", &longer)], ""), []);
    }

    #[test]
    fn entries_without_a_place_are_refused() {
        check_function(10, "crates/gone.rs file 500", &["does not exist any more"]);
        check_function(10, "crates/a/src/b.rs file", &["not `path kind number`"]);
        check_function(10, "crates/a/src/b.rs file many", &["not a number"]);
        check_function(
            80,
            "# why\n\ncrates/a/src/b.rs fn:long 80\ncrates/a/src/b.rs fn:long 80",
            &["repeats"],
        );
    }
}
