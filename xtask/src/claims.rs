//! Comments in tests that name ids: `proves: FAN-03` for promises, `fixes: correctness A1` for findings of reviews.

use crate::repo::Repo;
use anyhow::Result;

/// Languages in which tests are written.
const EXTENSIONS: &[&str] = &[".rs", ".ts", ".py", ".sh", ".mjs"];
/// Its tests are about claims, they make none.
const NOT_SCANNED: &str = "xtask/";

/// One comment: where it stands, what it lists, and the test that follows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comment {
    pub path: String,
    pub line: usize,
    pub list: String,
    /// The name of the next function; `None` where a file or a table of cases makes the claim.
    pub test: Option<String>,
}

/// All comments of the repository's tests that begin with `word`.
pub fn comments(repo: &Repo, word: &str) -> Result<Vec<Comment>> {
    let is_scanned = |path: &&str| {
        !path.starts_with(NOT_SCANNED) && EXTENSIONS.iter().any(|extension| path.ends_with(extension))
    };
    let mut found = Vec::new();
    for path in repo.paths().filter(is_scanned) {
        if let Some(text) = repo.text(path)? {
            found.extend(comments_in(path, &text, word));
        }
    }
    Ok(found)
}

#[must_use]
pub fn comments_in(path: &str, text: &str, word: &str) -> Vec<Comment> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(list) = list_in(line, word) else { continue };
        let following = &lines[index + 1..];
        let list = with_continuation(list, following);
        found.push(Comment { path: path.to_string(), line: index + 1, list, test: next_function(following) });
    }
    found
}

/// What follows the word, if the word stands right behind a comment mark.
fn list_in<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let (before, list) = line.split_once(word)?;
    before.trim_end().ends_with(['/', '#', '*', '!']).then_some(list)
}

/// A list whose line ends in a comma goes on in the next comment line.
fn with_continuation(list: &str, following: &[&str]) -> String {
    let mut whole = list.trim().to_string();
    for line in following {
        if !whole.ends_with(',') {
            break;
        }
        let comment = line.trim().trim_start_matches(['/', '#', '*', '!']);
        whole = format!("{whole} {}", comment.trim());
    }
    whole
}

fn next_function(following: &[&str]) -> Option<String> {
    following.iter().find_map(|line| {
        let code = line.trim_start().trim_start_matches("pub ").trim_start_matches("async ");
        let rest = code.strip_prefix("fn ").or_else(|| code.strip_prefix("def "))?;
        Some(rest.split(['(', '<']).next().unwrap_or(rest).to_string())
    })
}
