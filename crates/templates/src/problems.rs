//! Problems of a definition, collected so that its author sees all of them at once: sorted by place, without repeats.

use crate::limits::PROBLEMS_MAX;
use fantail_wire::template::{Problem, ProblemCode};
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub struct Problems {
    found: BTreeSet<Problem>,
    /// Of a definition that was accepted before, by the rules of then.
    is_stored: bool,
}

impl Problems {
    pub fn of_stored() -> Self {
        Self { is_stored: true, ..Self::default() }
    }

    pub fn add(&mut self, pointer: &str, code: ProblemCode, detail: impl Into<String>) {
        if self.is_stored && code == ProblemCode::UnsafeHtml {
            return;
        }
        if self.found.len() < PROBLEMS_MAX {
            self.found.insert(Problem { pointer: pointer.to_owned(), code, detail: detail.into() });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn count(&self) -> usize {
        self.found.len()
    }

    pub fn into_vec(self) -> Vec<Problem> {
        self.found.into_iter().collect()
    }
}

/// A place below another. Parts are escaped as RFC 6901 says.
pub fn below(pointer: &str, part: &str) -> String {
    format!("{pointer}/{}", part.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_sorted_once_each_and_bounded() {
        let mut problems = Problems::default();
        for pointer in ["/b", "/a", "/b"] {
            problems.add(pointer, ProblemCode::Syntax, "x");
        }
        assert_eq!(problems.count(), 2);
        for n in 0..1_000 {
            problems.add(&format!("/{n}"), ProblemCode::Syntax, "x");
        }
        assert_eq!(problems.into_vec().len(), PROBLEMS_MAX);
        assert_eq!(below("/a", "b/c~d"), "/a/b~1c~0d");
    }
}
