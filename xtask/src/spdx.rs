//! SPDX licence expressions, as packages write them: `MIT OR Apache-2.0`, `(A OR B) AND C`, `A WITH exception`, and the old `A/B`.

use std::collections::BTreeSet;

/// Whether the allowed licences are enough for all that the expression demands. What is no expression is not allowed.
#[must_use]
pub fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let words = words(expression);
    let mut rest = words.as_slice();
    let result = alternatives(&mut rest, allowed);
    rest.is_empty() && result == Some(true)
}

/// The expression in today's form.
#[must_use]
pub fn modern(expression: &str) -> String {
    words(expression).join(" ").replace("( ", "(").replace(" )", ")")
}

fn words(expression: &str) -> Vec<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(String::from).collect()
}

fn alternatives(rest: &mut &[String], allowed: &BTreeSet<String>) -> Option<bool> {
    let mut result = all_of(rest, allowed)?;
    while take(rest, "OR") {
        result |= all_of(rest, allowed)?;
    }
    Some(result)
}

fn all_of(rest: &mut &[String], allowed: &BTreeSet<String>) -> Option<bool> {
    let mut result = one(rest, allowed)?;
    while take(rest, "AND") {
        result &= one(rest, allowed)?;
    }
    Some(result)
}

fn one(rest: &mut &[String], allowed: &BTreeSet<String>) -> Option<bool> {
    if take(rest, "(") {
        let inner = alternatives(rest, allowed)?;
        return take(rest, ")").then_some(inner);
    }
    let (name, after) = rest.split_first()?;
    if ["AND", "OR", "WITH", "(", ")"].contains(&name.as_str()) {
        return None;
    }
    *rest = after;
    if !take(rest, "WITH") {
        return Some(allowed.contains(name));
    }
    let (exception, after) = rest.split_first()?;
    *rest = after;
    Some(allowed.contains(&format!("{name} WITH {exception}")))
}

fn take(rest: &mut &[String], word: &str) -> bool {
    let found = rest.first().is_some_and(|first| first == word);
    if found {
        *rest = &rest[1..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, expected: bool) {
        let allowed = ["MIT", "ISC", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(String::from).into();
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }

    #[test]
    fn expressions_are_allowed_if_what_they_demand_is() {
        for expression in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-2.0-only OR MIT",
            "Apache-2.0 / MIT",
            "ISC AND (Apache-2.0 OR GPL-3.0-only)",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0-only",
            "GPL-3.0-only OR ISC AND MIT",
        ] {
            check(expression, true);
        }
        for expression in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR ISC) AND BUSL-1.1",
            "MIT WITH Classpath-exception-2.0",
            "GPL-3.0-only OR ISC AND BUSL-1.1",
            "",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT ISC",
        ] {
            check(expression, false);
        }
    }

    #[test]
    fn old_forms_are_written_anew() {
        assert_eq!(modern("MIT/Apache-2.0"), "MIT OR Apache-2.0");
        assert_eq!(modern("(MIT OR Apache-2.0) AND Unicode-3.0"), "(MIT OR Apache-2.0) AND Unicode-3.0");
    }
}
