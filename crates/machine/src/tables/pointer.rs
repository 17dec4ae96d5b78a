//! Pointers: events of large lists, one row each, with a rank so that counting is a subtraction.
//!
//! ```text
//! 41 tenant list: 16 arrival: u64 -> rank: varint        (how many pointers the list had, this one included)
//! 42 tenant list: 16              -> rank: varint, expired: varint, first: arrival,
//!                                    recent: ascending (the newest arrivals, at most 16)
//! ```
//! Most readers look at the newest few only, and find them without a second read in family 42.

use super::{Family, Key, Row, collect, get, put, tail_u64};
use crate::codec::{Malformed, Reader, Writer};
use crate::view::View;
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Arrival, ListId, TenantId};
use fantail_rules::merge::Source;

const RECENT_MAX: usize = 16;

fn prefix(tenant: TenantId, list: ListId) -> Key {
    Key::new(Family::Pointer, tenant).bytes(&list.0)
}

#[must_use]
pub fn key(tenant: TenantId, list: ListId, arrival: Arrival) -> Vec<u8> {
    prefix(tenant, list).u64(arrival.0).finish()
}

#[must_use]
pub fn list_key(tenant: TenantId, list: ListId) -> Vec<u8> {
    Key::new(Family::PointerList, tenant).bytes(&list.0).finish()
}

struct Rank(u64);

/// The newest pointers of one list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PointerList {
    /// The rank of the newest pointer.
    pub rank: u64,
    /// How many pointers have expired: the rank before the oldest one that is left.
    pub expired: u64,
    /// No pointer that is left is older.
    pub first: Arrival,
    /// Ascending; never empty in a stored row.
    pub recent: Vec<Arrival>,
}

impl PointerList {
    fn oldest_recent(&self) -> Arrival {
        self.recent.first().copied().unwrap_or_default()
    }

    /// Whether no pointer is left but the recent ones.
    fn is_all_recent(&self) -> bool {
        self.rank.saturating_sub(self.expired) == self.recent.len() as u64
    }
}

pub fn find(tables: &dyn Tables, tenant: TenantId, list: ListId) -> Result<Option<PointerList>, TablesError> {
    get(tables, &list_key(tenant, list))
}

/// All lists of a tenant that have pointers, ascending by list.
pub fn lists(tables: &dyn Tables, tenant: TenantId) -> Result<Vec<(ListId, PointerList)>, TablesError> {
    let prefix = Key::new(Family::PointerList, tenant);
    let (from, to) = (prefix.clone().finish(), prefix.end());
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, usize::MAX, |key, value| {
        let list = key.get(5..).and_then(|tail| tail.try_into().ok());
        let list = list.ok_or_else(|| Malformed::Short.in_row(PointerList::NAME))?;
        Ok((ListId(list), PointerList::decode(value)?))
    })
}

/// Some pointers of a list inside a range, at most `limit`, in the given order. Newest first, the recent ones are
/// enough to begin with: most pages end before a list's older pointers matter.
pub fn page(
    tables: &dyn Tables,
    tenant: TenantId,
    list: ListId,
    known: &PointerList,
    range: ArrivalRange,
    order: Order,
    limit: usize,
) -> Result<Source, TablesError> {
    let recent = known.recent.iter().copied().filter(|arrival| range.contains(*arrival));
    let knows_all = range.after.next() >= known.oldest_recent() || known.is_all_recent();
    if order == Order::Descending {
        let newest: Vec<Arrival> = recent.rev().take(limit).collect();
        if knows_all || !newest.is_empty() {
            let exhausted = knows_all && newest.len() < limit;
            return Ok(Source { arrivals: newest, exhausted });
        }
    } else if knows_all {
        return Ok(Source::fetched(recent.take(limit).collect(), limit));
    }
    let (from, to) =
        (key(tenant, list, range.after.next().max(known.first)), key(tenant, list, range.before));
    if from >= to {
        return Ok(Source::fetched(Vec::new(), limit));
    }
    let range = KeyRange { from: &from, to: &to };
    let found = collect(tables, range, order, limit, |key, _| Ok(Arrival(tail_u64(key, Rank::NAME)?)))?;
    Ok(Source::fetched(found, limit))
}

/// How many pointers the list had when `through` had arrived, expired ones included.
pub fn rank_at(
    tables: &dyn Tables,
    tenant: TenantId,
    list: ListId,
    known: &PointerList,
    through: Arrival,
) -> Result<u64, TablesError> {
    if through >= known.oldest_recent() {
        let later = known.recent.iter().filter(|arrival| **arrival > through).count();
        return Ok(known.rank - later as u64);
    }
    if through < known.first || known.is_all_recent() {
        return Ok(known.expired);
    }
    let from = prefix(tenant, list).finish();
    let to = key(tenant, list, through.next());
    let range = KeyRange { from: &from, to: &to };
    let at = collect(tables, range, Order::Descending, 1, |_, value| Rank::decode(value))?;
    if let Some(Rank(rank)) = at.first() {
        return Ok(*rank);
    }
    // Nothing is left at or before: everything before the first pointer still there has expired.
    let (from, to) = (to, prefix(tenant, list).end());
    let range = KeyRange { from: &from, to: &to };
    let next = collect(tables, range, Order::Ascending, 1, |_, value| Rank::decode(value))?;
    Ok(next.first().map_or(known.rank, |Rank(rank)| rank - 1))
}

/// Adds a pointer. Returns whether it is the list's first.
pub(crate) fn add(
    view: &mut View<'_>,
    tenant: TenantId,
    list: ListId,
    arrival: Arrival,
) -> Result<bool, TablesError> {
    let known = find(view, tenant, list)?;
    let first = known.is_none();
    let mut row = known.unwrap_or(PointerList { first: arrival, ..PointerList::default() });
    row.rank += 1;
    row.recent.push(arrival);
    if row.recent.len() > RECENT_MAX {
        row.recent.remove(0);
    }
    put(view, key(tenant, list, arrival), &Rank(row.rank));
    put(view, list_key(tenant, list), &row);
    Ok(first)
}

/// Drops an expired pointer. Returns whether the list has none left.
pub(crate) fn expire(
    view: &mut View<'_>,
    tenant: TenantId,
    list: ListId,
    arrival: Arrival,
) -> Result<bool, TablesError> {
    view.delete(key(tenant, list, arrival));
    let Some(mut row) = find(view, tenant, list)? else { return Ok(false) };
    if arrival >= row.first {
        (row.expired, row.first) = (row.expired + 1, arrival.next());
    }
    row.recent.retain(|recent| *recent > arrival);
    if row.recent.is_empty() {
        view.delete(list_key(tenant, list));
        return Ok(true);
    }
    put(view, list_key(tenant, list), &row);
    Ok(false)
}

impl Row for Rank {
    const NAME: &'static str = "pointer";

    fn write(&self, w: &mut Writer) {
        w.varint(self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.varint().map(Self)
    }
}

impl Row for PointerList {
    const NAME: &'static str = "pointer list";

    fn write(&self, w: &mut Writer) {
        w.varint(self.rank).varint(self.expired).arrival(self.first);
        w.ascending(self.recent.iter().map(|arrival| arrival.0));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (rank, expired, first) = (r.varint()?, r.varint()?, r.arrival()?);
        Ok(Self { rank, expired, first, recent: r.ascending()?.into_iter().map(Arrival).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::Plain;
    use fantail_ports::tables::Changes;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    const TENANT: TenantId = TenantId(7);
    const LISTS: [ListId; 2] = [ListId([1; 16]), ListId([2; 16])];

    /// Adds pointers of the first list at these arrivals (the others go to the second), and expires the oldest.
    fn history(own: &[bool], expired: usize, changes: &mut Changes) -> Vec<u64> {
        let base = Plain::default();
        let mut view = View::new(&base, &[], changes);
        for (index, own) in own.iter().enumerate() {
            let list = LISTS[usize::from(!own)];
            let first = find(&view, TENANT, list).expect("plain").is_none();
            assert_eq!(add(&mut view, TENANT, list, Arrival(index as u64 + 1)), Ok(first));
        }
        let mut left: Vec<u64> =
            (1..).zip(own).filter(|(_, own)| **own).map(|(arrival, _)| arrival).collect();
        let dropped: Vec<u64> = left.drain(..expired.min(left.len())).collect();
        for (index, arrival) in dropped.iter().enumerate() {
            let none_left = left.is_empty() && index + 1 == dropped.len();
            assert_eq!(expire(&mut view, TENANT, LISTS[0], Arrival(*arrival)), Ok(none_left));
        }
        left
    }

    proptest! {
        // proves: INB-06
        /// Long histories, so that most pointers have left the recent ones.
        #[test]
        fn pages_and_ranks_equal_a_plain_list(
            own in vec(prop::bool::weighted(0.7), 1..70), expired in 0usize..60,
            after in 0u64..75, span in 0u64..75, limit in 1usize..30, descending: bool,
        ) {
            let mut changes = Changes::new();
            let left = history(&own, expired, &mut changes);
            let base = Plain::default();
            let view = View::new(&base, &[], &mut changes);
            let known = find(&view, TENANT, LISTS[0]).expect("plain");
            prop_assert_eq!(known.is_none(), left.is_empty());
            let Some(known) = known else { return Ok(()) };
            let range = ArrivalRange { after: Arrival(after), before: Arrival(after + span) };
            let order = if descending { Order::Descending } else { Order::Ascending };
            let found = page(&view, TENANT, LISTS[0], &known, range, order, limit).expect("plain");
            let mut expected: Vec<Arrival> =
                left.iter().copied().map(Arrival).filter(|arrival| range.contains(*arrival)).collect();
            if descending { expected.reverse(); }
            // It may stop early, but says so, and never before something it could have told.
            prop_assert!(found.exhausted || !found.arrivals.is_empty());
            if found.exhausted { prop_assert!(expected.len() < limit); } else { expected.truncate(found.arrivals.len()); }
            prop_assert_eq!(found.arrivals, expected);
            // Ranks count what has expired too, so only differences mean anything.
            let rank = |through| rank_at(&view, TENANT, LISTS[0], &known, Arrival(through)).expect("plain");
            let inside = left.iter().filter(|arrival| **arrival > after && **arrival <= after + span).count();
            prop_assert_eq!(rank(after + span) - rank(after), inside as u64);
        }

        #[test]
        fn rows_round_trip(rank: u64, expired: u64, first: u64, recent in btree_set(any::<u64>(), 1..RECENT_MAX)) {
            prop_assert_eq!(Rank::decode(&Rank(rank).encode()).map(|row| row.0), Ok(rank));
            let recent = recent.into_iter().map(Arrival).collect();
            let row = PointerList { rank, expired, first: Arrival(first), recent };
            prop_assert_eq!(PointerList::decode(&row.encode()), Ok(row));
        }
    }

    #[test]
    fn a_list_that_lost_all_its_pointers_starts_again() {
        let (base, mut changes) = (Plain::default(), Changes::new());
        let mut view = View::new(&base, &[], &mut changes);
        assert_eq!(add(&mut view, TENANT, LISTS[0], Arrival(1)), Ok(true));
        assert_eq!(expire(&mut view, TENANT, LISTS[0], Arrival(1)), Ok(true));
        assert_eq!(expire(&mut view, TENANT, LISTS[0], Arrival(1)), Ok(false));
        assert_eq!(lists(&view, TENANT), Ok(Vec::new()));
        assert_eq!(add(&mut view, TENANT, LISTS[0], Arrival(9)), Ok(true));
        let known = find(&view, TENANT, LISTS[0]).expect("plain").expect("just added");
        let ranks = [1, 8, 9, 20].map(|at| rank_at(&view, TENANT, LISTS[0], &known, Arrival(at)));
        assert_eq!(ranks, [Ok(0), Ok(0), Ok(1), Ok(1)]);
    }
}
