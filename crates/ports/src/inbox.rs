//! The inbox index of one shard: which events each user has, in arrival order. Derived, never read by `apply`.
//!
//! It takes windows of (event, audience), never row by row, and answers pages and counts. Pointers (celebrity
//! events) are not in here; the reader merges them. An event is visible as soon as its window is committed,
//! whether or not its entries were materialised yet.

use crate::tables::TablesError;
use fantail_rules::ids::{Arrival, ListId, TenantId, UserNo};
use fantail_rules::interval::Intervals;

pub trait Inbox {
    /// The reader's arrivals inside `range`, at most `limit`, newest first if `newest_first`, else oldest first.
    fn page(
        &self,
        reader: &Reader<'_>,
        range: ArrivalRange,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<Arrival>, TablesError>;

    /// How many arrivals the reader has inside `range`. Exact.
    fn count(&self, reader: &Reader<'_>, range: ArrivalRange) -> Result<u64, TablesError>;
}

/// Who reads, with the lists this user is or was on: recent events are found through them.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub tenant: TenantId,
    pub user: UserNo,
    /// Ascending by list.
    pub follows: &'a [Followed],
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Followed {
    pub list: ListId,
    pub intervals: Intervals,
}

/// Arrivals strictly between the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrivalRange {
    pub after: Arrival,
    pub before: Arrival,
}

impl ArrivalRange {
    #[must_use]
    pub fn contains(&self, arrival: Arrival) -> bool {
        self.after < arrival && arrival < self.before
    }
}

/// Events of one tenant with ascending arrivals, and who gets them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    pub tenant: TenantId,
    pub events: Vec<WindowEvent>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowEvent {
    pub arrival: Arrival,
    pub audience: Audience,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    /// Whoever's interval on this list contains the arrival.
    List(ListId),
    /// Exactly these users of this shard, ascending.
    Members(Vec<UserNo>),
}

/// Entries that no reader will ask for again; the engine drops them when it can.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Forget {
    /// Everything of a tenant up to and including this arrival (retention).
    Through { tenant: TenantId, arrival: Arrival },
    /// Everything of one user.
    User { tenant: TenantId, user: UserNo },
}
