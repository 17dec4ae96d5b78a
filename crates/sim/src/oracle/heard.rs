//! What an answer says of its call.

use crate::broken::{Broken, Invariant};
use fantail_node::ask::Refusal;

/// What became of one part of a call.
pub enum Heard<T> {
    Yes(T),
    /// It did not happen.
    No(Refusal),
    /// It may have happened.
    Unknown,
}

/// Sorts an answer by what it says of the call. A node whose journal works never says that it stopped.
pub fn sort<T>(answer: Result<T, Refusal>, failing: bool) -> Result<Heard<T>, Broken> {
    match answer {
        Ok(value) => Ok(Heard::Yes(value)),
        Err(Refusal::Stopped { .. } | Refusal::Internal { .. }) if failing => Ok(Heard::Unknown),
        Err(
            refusal @ (Refusal::Stopped { .. }
            | Refusal::Internal { .. }
            | Refusal::UnknownTenant
            | Refusal::BadCursor),
        ) => Invariant::Serves.broken(format!("refused although nothing failed: {refusal}")),
        Err(refusal) => Ok(Heard::No(refusal)),
    }
}
