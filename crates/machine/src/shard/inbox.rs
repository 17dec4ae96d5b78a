//! Reading an inbox: entries and pointers, merged, minus what was retracted, deleted, filtered out, or not wanted there.
//!
//! Comes from: the inbox API, over one consistent state of the shard. Does: pages in either direction, finds one
//! entry, counts exactly without a scan (see `rules::marks`). Goes to: the API, which adds content.

mod hidden;

use crate::tables::pointer::PointerList;
use crate::tables::progress::Progress;
use crate::tables::taken::{self, Page, Reach, TakenEvent};
use crate::tables::{follow, mark, pointer, progress, shown};
use fantail_ports::inbox::{ArrivalRange, Followed, Inbox, Reader};
use fantail_ports::tables::{Order, Tables, TablesError};
use fantail_rules::ids::{Arrival, ListId, Millis, TenantId, UserNo};
use fantail_rules::interval::Interval;
use fantail_rules::marks::{Flags, Marks, State};
use fantail_rules::merge::{Direction, Source, merge};
use fantail_rules::policy::Policies;
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Stretches that one page may look through before it is cut short: filters can hide most of an inbox.
const STRETCHES_MAX: usize = 32;

/// The newest arrival there can be, as an exclusive bound.
const BEYOND: Arrival = Arrival(u64::MAX);

/// Finds pages of taken events; one that remembers them spares the tables a search per entry.
pub trait TakenPages {
    /// The page that holds an arrival, with its first arrival.
    fn page_of(
        &self,
        tables: &dyn Tables,
        tenant: TenantId,
        arrival: Arrival,
    ) -> Result<Option<(Arrival, Arc<Page>)>, TablesError>;
}

/// Remembers nothing.
pub struct FromTables;

impl TakenPages for FromTables {
    fn page_of(
        &self,
        tables: &dyn Tables,
        tenant: TenantId,
        arrival: Arrival,
    ) -> Result<Option<(Arrival, Arc<Page>)>, TablesError> {
        let found = taken::page_of(tables, tenant, arrival)?;
        Ok(found.map(|(first, page)| (first, Arc::new(page))))
    }
}

/// One user's inbox in one state of the shard.
pub struct UserInbox<'a> {
    tables: &'a dyn Tables,
    inbox: &'a dyn Inbox,
    taken: &'a dyn TakenPages,
    tenant: TenantId,
    user: UserNo,
    now: Millis,
    policies: &'a Policies,
    pub progress: Progress,
    marks: Marks,
    follows: Vec<Followed>,
    /// Stays on lists that have pointers.
    stays: Vec<Stay>,
}

struct Stay {
    list: ListId,
    pointers: PointerList,
    interval: Interval,
}

/// An entry as its user has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub arrival: Arrival,
    pub event: Ulid,
    pub read: bool,
    pub seen: bool,
    pub archived: bool,
    pub snoozed_until: Option<Millis>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    pub entries: Vec<Entry>,
    /// Where the next page goes on; `None` at the end.
    pub resume: Option<Arrival>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    pub unread: u64,
    pub unseen: u64,
}

impl<'a> UserInbox<'a> {
    pub fn open(
        tables: &'a dyn Tables,
        inbox: &'a dyn Inbox,
        taken: &'a dyn TakenPages,
        (tenant, user): (TenantId, UserNo),
        policies: &'a Policies,
        now: Millis,
    ) -> Result<Self, TablesError> {
        let progress = progress::find(tables, tenant)?;
        let marks = mark::find(tables, tenant, user)?;
        let follows = follow::of_user(tables, tenant, user, None, usize::MAX)?;
        let stays = stays(tables, tenant, &follows, progress.pointer_lists)?;
        Ok(Self { tables, inbox, taken, tenant, user, now, policies, progress, marks, follows, stays })
    }

    /// A page strictly beyond `from` in the given direction (from the very end if `None`).
    pub fn page(
        &self,
        direction: Direction,
        from: Option<Arrival>,
        state: State,
        limit: usize,
    ) -> Result<Found, TablesError> {
        let mut cursor = from;
        let mut entries = Vec::new();
        for _ in 0..STRETCHES_MAX {
            let merged =
                merge(direction, &self.sources(self.range(direction, cursor), direction, limit + 1)?);
            for entry in self.describe(&merged.arrivals, state)? {
                if entries.len() == limit {
                    let last: &Entry = &entries[limit - 1];
                    return Ok(Found { resume: Some(last.arrival), entries });
                }
                entries.push(entry);
            }
            cursor = merged.resume;
            if cursor.is_none() {
                return Ok(Found { entries, resume: None });
            }
        }
        Ok(Found { entries, resume: cursor })
    }

    /// One entry, if the user has it and it was neither deleted nor retracted.
    pub fn entry(&self, event: Ulid) -> Result<Option<Entry>, TablesError> {
        let Some((arrival, taken)) = taken::arrival_of(self.tables, self.tenant, event)? else {
            return Ok(None);
        };
        match self.place(arrival, taken)?.filter(|arrival| *arrival > self.progress.horizon) {
            Some(arrival) => Ok(self.describe(&[arrival], State::All)?.pop()),
            None => Ok(None),
        }
    }

    /// Exact counts: what lies above the watermarks, adjusted by what was flagged, retracted and snoozed.
    pub fn counts(&self) -> Result<Counts, TablesError> {
        let (marks, horizon) = (&self.marks, self.progress.horizon);
        let mut unread = self.count_above(marks.unread_floor().max(horizon))? + marks.unread_adjustment;
        let mut unseen = if marks.unseen_floor() == marks.unread_floor() {
            unread - marks.unread_adjustment + marks.unseen_adjustment
        } else {
            self.count_above(marks.unseen_floor().max(horizon))? + marks.unseen_adjustment
        };
        // Flags of expired entries that were not swept yet.
        for (arrival, flags) in self.flags(Arrival::START, horizon)? {
            let contribution = marks.contribution(arrival, flags);
            unread -= contribution.unread;
            unseen -= contribution.unseen;
        }
        for arrival in self.hidden()? {
            let flags = mark::flags(self.tables, self.tenant, self.user, arrival)?;
            unread -= i64::from(marks.counts_unread(arrival, flags));
            unseen -= i64::from(marks.counts_unseen(arrival, flags));
        }
        let whole = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(Counts { unread: whole(unread), unseen: whole(unseen) })
    }

    /// Where the user has an event that arrived there, if so.
    fn place(&self, arrival: Arrival, taken: TakenEvent) -> Result<Option<Arrival>, TablesError> {
        let has = match taken.reach {
            Reach::Given => self.in_inbox(arrival)?,
            Reach::Written(list, _) | Reach::Pointer(list, _) => self.was_on(list, arrival),
            Reach::Walked { home, .. } => return self.passed(home),
        };
        Ok(has.then_some(arrival))
    }

    /// Where a walk passed the user, if its inbox shows it.
    fn passed(&self, home: Arrival) -> Result<Option<Arrival>, TablesError> {
        match shown::arrival_for(self.tables, self.tenant, home, self.user)? {
            Some(arrival) => Ok(self.in_inbox(arrival)?.then_some(arrival)),
            None => Ok(None),
        }
    }

    fn in_inbox(&self, arrival: Arrival) -> Result<bool, TablesError> {
        let range = ArrivalRange { after: Arrival(arrival.0 - 1), before: arrival.next() };
        Ok(self.inbox.count(&self.reader(), range)? > 0)
    }

    fn was_on(&self, list: ListId, arrival: Arrival) -> bool {
        let found = self.follows.binary_search_by_key(&list, |followed| followed.list);
        found.is_ok_and(|index| self.follows[index].intervals.contains(arrival))
    }

    fn reader(&self) -> Reader<'_> {
        Reader { tenant: self.tenant, user: self.user, follows: &self.follows }
    }

    fn range(&self, direction: Direction, cursor: Option<Arrival>) -> ArrivalRange {
        let horizon = self.progress.horizon;
        match direction {
            Direction::NewestFirst => ArrivalRange { after: horizon, before: cursor.unwrap_or(BEYOND) },
            Direction::OldestFirst => {
                ArrivalRange { after: cursor.unwrap_or_default().max(horizon), before: BEYOND }
            }
        }
    }

    fn sources(
        &self,
        range: ArrivalRange,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Source>, TablesError> {
        let (newest_first, order) = match direction {
            Direction::NewestFirst => (true, Order::Descending),
            Direction::OldestFirst => (false, Order::Ascending),
        };
        let entries = self.inbox.page(&self.reader(), range, newest_first, limit)?;
        let mut sources = vec![Source::fetched(entries, limit)];
        for stay in &self.stays {
            let inside = clip(range, stay.interval);
            if inside.after.next() >= inside.before {
                continue;
            }
            let found =
                pointer::page(self.tables, self.tenant, stay.list, &stay.pointers, inside, order, limit)?;
            if !found.arrivals.is_empty() {
                sources.push(found);
            }
        }
        Ok(sources)
    }

    fn count_above(&self, floor: Arrival) -> Result<i64, TablesError> {
        let range = ArrivalRange { after: floor, before: BEYOND };
        let mut count = self.inbox.count(&self.reader(), range)?;
        for stay in &self.stays {
            let inside = clip(range, stay.interval);
            if inside.after.next() >= inside.before {
                continue;
            }
            let rank =
                |through| pointer::rank_at(self.tables, self.tenant, stay.list, &stay.pointers, through);
            let through = Arrival(inside.before.0 - 1).min(self.progress.last);
            count += rank(through)?.saturating_sub(rank(inside.after)?);
        }
        Ok(i64::try_from(count).expect("no inbox holds 2^63 entries"))
    }

    fn flags(&self, after: Arrival, through: Arrival) -> Result<Vec<(Arrival, Flags)>, TablesError> {
        mark::flagged(self.tables, self.tenant, self.user, after, through, Order::Ascending, usize::MAX)
    }

    /// What the user sees of a stretch of arrivals, in the same order.
    fn describe(&self, arrivals: &[Arrival], state: State) -> Result<Vec<Entry>, TablesError> {
        let (Some(low), Some(high)) = (arrivals.iter().min(), arrivals.iter().max()) else {
            return Ok(Vec::new());
        };
        let after = Arrival(low.0 - 1);
        let flags: BTreeMap<Arrival, Flags> = self.flags(after, *high)?.into_iter().collect();
        let gone = self.gone(ArrivalRange { after, before: high.next() })?;
        let mut pages = Pages { inbox: self, current: None };
        let mut entries = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            let flags = flags.get(arrival).copied().unwrap_or_default();
            if gone.contains(arrival) || !state.shows(&self.marks, *arrival, flags, self.now) {
                continue;
            }
            let Some(taken) = pages.taken(*arrival)?.filter(|taken| !self.hides(*arrival, *taken)) else {
                continue;
            };
            if self.is_walked_back(taken)? {
                continue;
            }
            entries.push(Entry {
                arrival: *arrival,
                event: taken.event,
                read: self.marks.is_read(*arrival, flags),
                seen: self.marks.is_seen(*arrival, flags),
                archived: self.marks.is_archived(*arrival, flags),
                snoozed_until: self.marks.snoozed_until(*arrival, self.now),
            });
        }
        Ok(entries)
    }
}

/// The part of a range during which a stay lasted: `(from, until]`.
fn clip(range: ArrivalRange, stay: Interval) -> ArrivalRange {
    let end = stay.until.map_or(BEYOND, Arrival::next);
    ArrivalRange { after: range.after.max(stay.from), before: range.before.min(end) }
}

/// The reader's stays on lists that have pointers: walks the shorter of its lists and the tenant's pointer lists.
fn stays(
    tables: &dyn Tables,
    tenant: TenantId,
    follows: &[Followed],
    pointer_lists: u64,
) -> Result<Vec<Stay>, TablesError> {
    let mut stays = Vec::new();
    let mut add = |followed: &Followed, pointers: &PointerList| {
        stays.extend(followed.intervals.as_slice().iter().map(|interval| Stay {
            list: followed.list,
            pointers: pointers.clone(),
            interval: *interval,
        }));
    };
    if pointer_lists == 0 {
        return Ok(stays);
    }
    if pointer_lists <= 8 * follows.len() as u64 {
        for (list, pointers) in pointer::lists(tables, tenant)? {
            if let Ok(index) = follows.binary_search_by_key(&list, |followed| followed.list) {
                add(&follows[index], &pointers);
            }
        }
        return Ok(stays);
    }
    for followed in follows {
        if let Some(pointers) = pointer::find(tables, tenant, followed.list)? {
            add(followed, &pointers);
        }
    }
    Ok(stays)
}

/// Looks arrivals up page by page; neighbours share a page.
struct Pages<'a> {
    inbox: &'a UserInbox<'a>,
    current: Option<(Arrival, Arc<Page>)>,
}

impl Pages<'_> {
    fn taken(&mut self, arrival: Arrival) -> Result<Option<TakenEvent>, TablesError> {
        let held = self
            .current
            .as_ref()
            .is_some_and(|(first, page)| *first <= arrival && arrival.0 < first.0 + page.events.len() as u64);
        if !held {
            let UserInbox { tables, taken, tenant, .. } = self.inbox;
            self.current = taken.page_of(*tables, *tenant, arrival)?;
        }
        let Some((first, page)) = &self.current else { return Ok(None) };
        let offset = usize::try_from(arrival.0 - first.0).unwrap_or(usize::MAX);
        Ok(page.events.get(offset).copied())
    }
}
