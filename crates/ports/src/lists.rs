//! Who is on a list: the members of one shard, sorted by number, each with the arrivals between which it was on
//! the list. Derived from the follow facts; read by fan-out and by whoever lists followers.
//!
//! A list is exact about arrivals that are not materialised yet, about those above the floor of its edits, and about
//! who is on it now. What it says about older arrivals means nothing, so that it need not remember when each member
//! joined: the inbox has their entries.

use crate::tables::TablesError;
use fantail_rules::ids::{Arrival, ListId, TenantId, UserNo};
use fantail_rules::interval::Intervals;

pub trait Lists {
    /// Members with a number above `after` in ascending order, at most `limit`: those on the list now, and those
    /// who left it but whose intervals the inbox may still need. Callers filter by interval. An interval that
    /// begins at or below the last arrival the tenant has materialised may be told as if it began at
    /// `Arrival::START`, and one that ended there may be left out; nothing else differs from the last edit. An edit
    /// forgets nothing above its [`floor`](ListEdit::floor), materialised or not.
    fn members(&self, list: ListKey, after: Option<UserNo>, limit: usize)
    -> Result<Vec<Member>, TablesError>;
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListKey {
    pub tenant: TenantId,
    pub list: ListId,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub user: UserNo,
    pub intervals: Intervals,
}

/// The intervals of one member after a change: the whole truth, so folding it again changes nothing, and of several
/// edits of one member in a commit the last one counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListEdit {
    pub key: ListKey,
    pub user: UserNo,
    /// Empty: the member is forgotten.
    pub intervals: Intervals,
    /// The arrival the tenant had reached in this shard when the edit was made.
    pub at: Arrival,
    /// Arrivals above this one still matter to deliveries, whatever is materialised; the same for all edits of a tenant
    /// in a commit. `Arrival(u64::MAX)` if nothing is left to be delivered.
    pub floor: Arrival,
}
