//! Every module begins by saying what it is. Steps of the walk also say where their input comes from, what they
//! decide or do, and where the result goes, so that a reader can follow an event from file to file.

use super::{File, Finding};

/// Steps of the walk: a file, or a directory whose files are all steps. What does not exist yet is not asked for.
const WALK: &[&str] = &[
    "crates/node/src/accept.rs",
    "crates/node/src/lead.rs",
    "crates/node/src/take.rs",
    "crates/machine/src/front/",
    "crates/machine/src/shard/",
];

pub fn check(files: &[File]) -> Vec<Finding> {
    files.iter().filter(|file| file.path.contains("/src/")).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Option<Finding> {
    let header = file.source.header();
    if header.is_empty() {
        return Some(file.finding(Some(0), "the file does not begin with `//!`: say what it is"));
    }
    if !is_step(file) {
        return None;
    }
    let told = [&["Comes from"][..], &["Decides", "Does"], &["Goes to"]];
    let missing: Vec<String> = told
        .iter()
        .filter(|words| !words.iter().any(|word| header.contains(word)))
        .map(|words| format!("\"{}\"", words.join("\" or \"")))
        .collect();
    (!missing.is_empty()).then(|| {
        file.finding(Some(0), format!("a step of the walk says {} in its header", missing.join(" and ")))
    })
}

/// The `mod.rs` of a directory is a table of contents, not a step.
fn is_step(file: &File) -> bool {
    !file.is_test()
        && !file.path.ends_with("/mod.rs")
        && WALK.iter().any(|step| file.path == *step || (step.ends_with('/') && file.path.starts_with(step)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_header(path: &str, text: &str, expected: Option<&str>) {
        let finding = check(&[File::new(path, text)]).pop().map(|finding| finding.message);
        match expected {
            None => assert_eq!(finding, None, "{path}: {text}"),
            Some(part) => {
                assert!(finding.as_ref().is_some_and(|f| f.contains(part)), "{finding:?} not {part:?}")
            }
        }
    }

    #[test]
    fn every_module_says_what_it_is() {
        check_header("crates/wire/src/event.rs", "//! Events.\n", None);
        check_header("crates/wire/src/event.rs", "use a;\n", Some("does not begin"));
        check_header("crates/wire/tests/it.rs", "use a;\n", None);
    }

    #[test]
    fn steps_say_where_things_come_from_and_go() {
        let whole = "//! Takes.\n//!\n//! *Comes from* a. *Decides* b. *Goes\n//! to* c.\n";
        let split = whole.replace("*Goes\n//! to*", "*Goes to*");
        check_header("crates/machine/src/shard/take.rs", &split, None);
        check_header("crates/machine/src/shard/take.rs", whole, None);
        check_header("crates/machine/src/shard/take.rs", &split.replace("Decides", "Does"), None);
        check_header("crates/machine/src/shard/take.rs", "//! Takes.\n", Some("\"Comes from\""));
        check_header(
            "crates/machine/src/shard/take.rs",
            &split.replace("Goes", "Flies"),
            Some("\"Goes to\""),
        );
        check_header("crates/machine/src/shard/mod.rs", "//! Takes.\n", None);
        check_header("crates/node/src/accept.rs", "//! Accepts.\n", Some("\"Decides\" or \"Does\""));
        check_header("crates/node/src/clock.rs", "//! Time.\n", None);
    }
}
