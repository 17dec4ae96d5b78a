//! Nothing in the repository may depend on where one machine keeps it: absolute paths of a workplace are refused
//! in every text file.

use super::Finding;
use crate::repo::Repo;
use anyhow::Result;

/// Split so that this file may name them.
const PLACES: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

pub fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in repo.paths() {
        if let Some(text) = repo.text(path)? {
            findings.extend(check_text(path, &text));
        }
    }
    Ok(findings)
}

fn check_text(path: &str, text: &str) -> Vec<Finding> {
    let named = |line: &str| PLACES.iter().find(|place| begins_a_path(line, place)).copied();
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| named(line).map(|place| (index + 1, place)))
        .map(|(line, place)| Finding {
            path: path.to_string(),
            line: Some(line),
            message: format!("names {place}, a path of one machine"),
        })
        .collect()
}

/// Whether a path in the line begins with `place`. The name of a module folder, as in `src/machine/mod.rs`, is inside a path and is none.
fn begins_a_path(line: &str, place: &str) -> bool {
    let inside_path = |before: char| before.is_alphanumeric() || "_-.~/}*>)".contains(before);
    line.match_indices(place).any(|(offset, _)| !line[..offset].ends_with(inside_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_a_path_counts() {
        let place = PLACES[1];
        for (line, expected) in [
            (format!("cd {place}x"), 1),
            (format!("\"{place}x\""), 1),
            (format!("DIR={place}x"), 1),
            (format!("crates/machine/src{place}mod.rs"), 0),
            (format!("https://example.com{place}"), 0),
            ("root/".to_string(), 0),
        ] {
            assert_eq!(check_text("a.md", &line).len(), expected, "{line}");
        }
    }
}
