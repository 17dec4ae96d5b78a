//! What a test of a provider's account found, hop by hop: so that an operator sees which of the steps between a setting and
//! a delivered message does not work.
//!
//! What must never happen: a probe that a recipient could notice, or a detail that holds a secret.

/// One step of the way, in the order in which they are taken. Whatever comes behind one that failed was not tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hop {
    /// `settings`, `connect`, `credential`, `answer`.
    pub name: &'static str,
    pub ok: bool,
    /// For people.
    pub detail: String,
}

impl Hop {
    #[must_use]
    pub fn passed(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, ok: true, detail: detail.into() }
    }

    #[must_use]
    pub fn failed(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, ok: false, detail: detail.into() }
    }
}
