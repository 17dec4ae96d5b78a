//! Events in the order a shard took them: pages of up to `TAKE_EVENTS_MAX`, written once, dropped whole.
//!
//! ```text
//! 39 tenant first: arrival              -> at: millis, list of (event: ulid, audience)
//!                                          audience = 0 (given) | 1 list: 16, about (written) | 2 list: 16, about (pointer)
//!                                                   | 3 home: arrival, first: user (walked)
//!                                          about    = category: u64, critical: flag
//! 40 tenant front: u16 event: ulid      -> first: arrival      (the front's first event in that page)
//! 64 tenant event: ulid                 -> first: arrival      (a page of one event that was held back)
//! ```
//! Ids of one front ascend with arrivals, so the last index row at or before an id names the only page that can
//! hold it. But for what was held back: its id is of the time it was due at. It has a page and an index row of its own, where
//! it is not in anybody's way.

use super::{Family, Key, Row, collect, get, tail_u64};
use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::category::CategoryId;
use fantail_rules::ids::{Arrival, FrontNo, ListId, Millis, TenantId, UserNo};
use fantail_rules::priority::Priority;
use fantail_rules::ulid::Ulid;

#[must_use]
pub fn key(tenant: TenantId, first: Arrival) -> Vec<u8> {
    Key::new(Family::Taken, tenant).u64(first.0).finish()
}

#[must_use]
pub fn index_key(tenant: TenantId, event: Ulid) -> Vec<u8> {
    index_prefix(tenant, event.front()).bytes(&event.bytes()).finish()
}

#[must_use]
pub fn late_key(tenant: TenantId, event: Ulid) -> Vec<u8> {
    Key::new(Family::TakenLate, tenant).bytes(&event.bytes()).finish()
}

fn index_prefix(tenant: TenantId, front: FrontNo) -> Key {
    Key::new(Family::TakenByUlid, tenant).bytes(&front.0.to_be_bytes())
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    pub at: Millis,
    pub events: Vec<TakenEvent>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakenEvent {
    pub event: Ulid,
    pub reach: Reach,
}

/// How users come to have an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// It was given to explicit users: the inbox knows them.
    Given,
    /// It was written to the inboxes of a list: the inbox knows.
    Written(ListId, About),
    /// Whoever was on the list has it.
    Pointer(ListId, About),
    /// A walk brings it to those whom it passes, at arrivals behind that of the walk itself, `home`: see `shown`.
    Walked { home: Arrival, first: UserNo },
}

/// By what its readers may want not to see an event. Users who were named were asked when it was given to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct About {
    pub category: CategoryId,
    pub is_critical: bool,
}

impl About {
    #[must_use]
    pub fn of(category: &str, priority: u8) -> Self {
        let is_critical = Priority::from_stored(priority) == Priority::Critical;
        Self { category: CategoryId::of(category), is_critical }
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        w.fixed(&self.category.0.to_le_bytes()).flag(self.is_critical);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let category = CategoryId(u64::from_le_bytes(r.array()?));
        Ok(Self { category, is_critical: r.flag()? })
    }
}

pub(crate) struct First(pub Arrival);

/// The page that holds an arrival, with its first arrival.
pub fn page_of(
    tables: &dyn Tables,
    tenant: TenantId,
    arrival: Arrival,
) -> Result<Option<(Arrival, Page)>, TablesError> {
    let from = Key::new(Family::Taken, tenant).finish();
    let to = key(tenant, arrival.next());
    let mut found = collect(tables, KeyRange { from: &from, to: &to }, Order::Descending, 1, decode)?;
    Ok(found.pop())
}

/// The event of an arrival.
pub fn event_at(
    tables: &dyn Tables,
    tenant: TenantId,
    arrival: Arrival,
) -> Result<Option<Ulid>, TablesError> {
    let Some((first, page)) = page_of(tables, tenant, arrival)? else { return Ok(None) };
    let index = usize::try_from(arrival.0.saturating_sub(first.0)).unwrap_or(usize::MAX);
    Ok(page.events.get(index).map(|taken| taken.event))
}

/// Where an event arrived in this shard.
pub fn arrival_of(
    tables: &dyn Tables,
    tenant: TenantId,
    event: Ulid,
) -> Result<Option<(Arrival, TakenEvent)>, TablesError> {
    let from = index_prefix(tenant, event.front()).finish();
    let to = Key(index_key(tenant, event)).bytes(&[0]).finish();
    let range = KeyRange { from: &from, to: &to };
    let first = collect(tables, range, Order::Descending, 1, |_, value| First::decode(value))?;
    let in_order = match first.into_iter().next() {
        Some(First(first)) => in_page(tables, tenant, first, event)?,
        None => None,
    };
    if in_order.is_some() {
        return Ok(in_order);
    }
    match get::<First>(tables, &late_key(tenant, event))? {
        Some(First(first)) => in_page(tables, tenant, first, event),
        None => Ok(None),
    }
}

fn in_page(
    tables: &dyn Tables,
    tenant: TenantId,
    first: Arrival,
    event: Ulid,
) -> Result<Option<(Arrival, TakenEvent)>, TablesError> {
    let Some(page) = get::<Page>(tables, &key(tenant, first))? else { return Ok(None) };
    let found = page.events.iter().position(|taken| taken.event == event);
    Ok(found.map(|index| (Arrival(first.0 + index as u64), page.events[index])))
}

/// The oldest pages, in order.
pub fn oldest(
    tables: &dyn Tables,
    tenant: TenantId,
    limit: usize,
) -> Result<Vec<(Arrival, Page)>, TablesError> {
    let prefix = Key::new(Family::Taken, tenant);
    let (from, to) = (prefix.clone().finish(), prefix.end());
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, decode)
}

/// The pages that begin at or before an arrival, oldest first.
pub fn through(
    tables: &dyn Tables,
    tenant: TenantId,
    last: Arrival,
) -> Result<Vec<(Arrival, Page)>, TablesError> {
    let from = Key::new(Family::Taken, tenant).finish();
    let to = key(tenant, last.next());
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, usize::MAX, decode)
}

fn decode(key: &[u8], value: &[u8]) -> Result<(Arrival, Page), TablesError> {
    Ok((Arrival(tail_u64(key, Page::NAME)?), Page::decode(value)?))
}

impl Row for Page {
    const NAME: &'static str = "taken";

    fn write(&self, w: &mut Writer) {
        w.millis(self.at).list(self.events.iter(), |w, taken| {
            w.ulid(taken.event);
            match taken.reach {
                Reach::Given => {
                    w.u8(0);
                }
                Reach::Written(list, about) => about.write(w.u8(1).list_id(list)),
                Reach::Pointer(list, about) => about.write(w.u8(2).list_id(list)),
                Reach::Walked { home, first } => {
                    w.u8(3).arrival(home).user(first);
                }
            }
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let at = r.millis()?;
        let events = r.list(|r| {
            let event = r.ulid()?;
            let reach = match r.u8()? {
                0 => Reach::Given,
                1 => Reach::Written(r.list_id()?, About::read(r)?),
                2 => Reach::Pointer(r.list_id()?, About::read(r)?),
                3 => Reach::Walked { home: r.arrival()?, first: r.user()? },
                other => return Err(Malformed::Tag(other)),
            };
            Ok(TakenEvent { event, reach })
        })?;
        Ok(Self { at, events })
    }
}

impl Row for First {
    const NAME: &'static str = "taken by id";

    fn write(&self, w: &mut Writer) {
        w.arrival(self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.arrival().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::put;
    use crate::view::View;
    use crate::view::tests::Plain;
    use fantail_ports::tables::Changes;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const TENANT: TenantId = TenantId(7);

    proptest! {
        /// Pages of several fronts in any mixture: each id is found in its page, and no other id is found.
        #[test]
        fn index_rows_find_the_right_page(pages in vec((0u16..3, 1usize..6, 1u128..4), 1..20), dropped in 0usize..4) {
            let (base, mut changes) = (Plain::default(), Changes::new());
            let mut view = View::new(&base, &[], &mut changes);
            let (mut expected, mut firsts, mut next, mut last) = (Vec::new(), Vec::new(), 1u64, [0u128; 3]);
            for (front, count, step) in pages {
                let mut events = Vec::new();
                for _ in 0..count {
                    // Steps above one leave ids that nobody has.
                    last[usize::from(front)] += step;
                    let event = Ulid::new(Millis(9), FrontNo(front), last[usize::from(front)]);
                    events.push(TakenEvent { event, reach: Reach::Given });
                }
                let first = Arrival(next);
                put(&mut view, index_key(TENANT, events[0].event), &First(first));
                firsts.push((first, events[0].event));
                expected.extend((next..).zip(events.iter().copied()));
                next += count as u64;
                put(&mut view, key(TENANT, first), &Page { at: Millis(1), events });
            }
            for (first, event) in firsts.iter().take(dropped) {
                view.delete(key(TENANT, *first));
                view.delete(index_key(TENANT, *event));
            }
            let kept = firsts.get(dropped).map_or(Arrival(next), |(first, _)| *first);
            for front in 0..3u16 {
                for id in 0..=last[usize::from(front)] + 2 {
                    let event = Ulid::new(Millis(9), FrontNo(front), id);
                    let own = expected.iter().find(|(arrival, taken)| taken.event == event && *arrival >= kept.0);
                    let own = own.map(|(arrival, taken)| (Arrival(*arrival), *taken));
                    prop_assert_eq!(arrival_of(&view, TENANT, event), Ok(own));
                    prop_assert_eq!(arrival_of(&view, TenantId(8), event), Ok(None));
                }
            }
            for (arrival, taken) in expected.iter().filter(|(arrival, _)| *arrival >= kept.0) {
                let (first, page) = page_of(&view, TENANT, Arrival(*arrival)).expect("plain").expect("kept");
                prop_assert_eq!(page.events[(arrival - first.0) as usize], *taken);
            }
        }

        #[test]
        fn index_rows_round_trip(arrival: u64) {
            prop_assert_eq!(First::decode(&First(Arrival(arrival)).encode()).map(|row| row.0.0), Ok(arrival));
        }
    }
}
