//! What the test of a provider account tells: one line for each hop on the way, up to the first that fails.

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hop {
    /// `settings`, `connect`, `tls`, `credential`, `answer`.
    pub name: &'static str,
    pub ok: bool,
    /// For an operator to read; no secrets.
    pub detail: String,
}
