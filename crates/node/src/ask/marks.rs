//! What a user did with entries of the inbox, and what that came to.

use fantail_rules::ids::Arrival;
use fantail_rules::marks::Mark;
use fantail_rules::ulid::Ulid;

#[derive(Clone, Debug)]
pub struct MarkAsk {
    pub user: String,
    pub mark: Mark,
    pub target: MarkTarget,
}

#[derive(Clone, Debug)]
pub enum MarkTarget {
    Events(Vec<Ulid>),
    /// Everything that had arrived at `through` (or until now).
    All {
        through: Option<Arrival>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub unread: u64,
    pub unseen: u64,
}

/// What a mark has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkResult {
    pub counts: Counts,
    /// What was named and is not in the inbox, in the order of the request. Everything else is marked.
    pub unknown: Vec<Ulid>,
}
