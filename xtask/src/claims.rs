//! Comments in tests that name ids: `proves: FAN-03` for promises, `fixes: correctness A1` for findings of reviews.

use crate::repo::Repo;
use anyhow::Result;

/// Languages in which tests are written.
const EXTENSIONS: &[&str] = &[".rs", ".ts", ".py", ".sh", ".mjs"];
/// Their tests are about claims, they make none.
const NOT_SCANNED: &[&str] = &["xtask/src/claims.rs", "xtask/src/contract.rs", "xtask/src/fixes.rs"];

/// One comment: where it stands, what it lists, and the test that follows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comment {
    pub path: String,
    pub line: usize,
    pub list: String,
    /// The name of the next function; `None` where a file or a table of cases makes the claim.
    pub test: Option<String>,
    pub stand: Stand,
}

/// What a comment stands on. Other comments and attributes may lie between the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stand {
    /// A function with `#[test]` or `#[tokio::test]`, or a `proptest!` block that begins with one.
    Test,
    /// Another function.
    Function,
    /// A test with `#[ignore]`.
    Ignored,
    /// The middle of a function, a type, the file.
    Elsewhere,
}

/// All comments of the repository's tests that begin with `word`.
pub fn comments(repo: &Repo, word: &str) -> Result<Vec<Comment>> {
    let is_scanned = |path: &&str| {
        !NOT_SCANNED.iter().any(|prefix| path.starts_with(prefix))
            && EXTENSIONS.iter().any(|extension| path.ends_with(extension))
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
        found.push(Comment {
            path: path.to_string(),
            line: index + 1,
            list: with_continuation(list, following),
            test: next_function(following),
            stand: stand_of(&lines, index),
        });
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
    following.iter().find_map(|line| function_name(line))
}

fn function_name(line: &str) -> Option<String> {
    let code = line.trim_start();
    let code = code.strip_prefix("pub ").unwrap_or(code);
    let code = code.strip_prefix("pub(crate) ").unwrap_or(code);
    let code = code.strip_prefix("async ").unwrap_or(code);
    let rest = code.strip_prefix("fn ").or_else(|| code.strip_prefix("def "))?;
    Some(rest.split(['(', '<']).next().unwrap_or(rest).to_string())
}

/// Looks at the block of comments and attributes around the line, and at the item below it.
fn stand_of(lines: &[&str], index: usize) -> Stand {
    let belongs = |line: &&&str| ["//", "#["].iter().any(|mark| line.trim_start().starts_with(mark));
    let above = lines[..index].iter().rev().take_while(belongs);
    let below = lines[index + 1..].iter().take_while(belongs);
    let attributes: Vec<&str> = above.chain(below).map(|line| line.trim_start()).collect();
    let has = |attribute: &str| attributes.iter().any(|line| line.starts_with(attribute));
    let mut rest = lines[index + 1..].iter().skip_while(belongs).map(|line| line.trim_start());
    let item = rest.next().unwrap_or_default();
    if has("#[ignore") {
        Stand::Ignored
    } else if item.starts_with("proptest!") {
        let is_test = rest
            .find(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with("#!["))
            == Some("#[test]");
        if is_test { Stand::Test } else { Stand::Elsewhere }
    } else if function_name(item).is_none() {
        Stand::Elsewhere
    } else if has("#[test]") || has("#[tokio::test") {
        Stand::Test
    } else {
        Stand::Function
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_stand(text: &str, expected: Stand) {
        let comments = comments_in("a.rs", text, "proves:");
        let stands: Vec<Stand> = comments.iter().map(|comment| comment.stand).collect();
        assert_eq!(stands, [expected], "{text}");
    }

    #[test]
    fn a_comment_stands_on_the_item_below_it() {
        check_stand("// proves: A-01\n#[test]\nfn a() {}", Stand::Test);
        check_stand("#[test]\n// proves: A-01\nfn a() {}", Stand::Test);
        check_stand(
            "// proves: A-01,\n// A-02\n/// Why.\n#[tokio::test(flavor = \"x\")]\nasync fn a() {}",
            Stand::Test,
        );
        check_stand(
            "// proves: A-01\nproptest! {\n    #![config(1)]\n\n    /// Why.\n    #[test]\n    fn a() {}",
            Stand::Test,
        );
        check_stand("// proves: A-01\nproptest! {\n    fn a() {}", Stand::Elsewhere);
        check_stand("// proves: A-01\npub fn a() {}", Stand::Function);
        check_stand("// proves: A-01\n#[test]\n#[ignore]\nfn a() {}", Stand::Ignored);
        check_stand("#[test]\nfn a() {\n    // proves: A-01\n    let b = 1;\n}", Stand::Elsewhere);
        check_stand("// proves: A-01\n\n#[test]\nfn a() {}", Stand::Elsewhere);
        check_stand("// proves: A-01", Stand::Elsewhere);
    }
}
