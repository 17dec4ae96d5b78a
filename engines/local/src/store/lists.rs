//! Lists over the overlay and the database: finding the page of a member, walking pages, editing one.
//!
//! Pages of a list cover all user numbers without gaps, and each says where the next one begins. Pages are never
//! deleted, except the only page of a list that has become empty. So the newest layer whose last page at or below
//! a user holds that user has the right one: had it been split since, the newer part would lie in a newer layer.

use super::keys::{self, PageKey};
use super::overlay::PageMap;
use super::page::{Builder, Members};
use super::rows::{Rows, taken};
use fantail_ports::lists::{ListEdit, ListKey, Member};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, PartitionId, UserNo};
use fantail_rules::interval::{Interval, Intervals};
use std::borrow::Cow;

/// All pages of one partition.
#[derive(Clone, Copy)]
pub struct Pages<'a> {
    pub rows: &'a Rows,
    pub partition: PartitionId,
    /// Newest first.
    pub layers: [Option<&'a PageMap>; 3],
}

/// One page and where it begins.
struct Page<'a> {
    from: UserNo,
    bytes: Cow<'a, [u8]>,
}

/// A page without members that holds every number: what a list begins with.
const EMPTY: &[u8] = &[0, 0];

impl<'a> Pages<'a> {
    /// Members above `after`, at most `limit`.
    pub fn members(
        &self,
        list: ListKey,
        after: Option<UserNo>,
        limit: usize,
    ) -> Result<Vec<Member>, TablesError> {
        let mut found = Vec::new();
        let mut next = match after {
            None => Some(UserNo(0)),
            Some(after) => after.0.checked_add(1).map(UserNo),
        };
        while let Some(from) = next.filter(|_| found.len() < limit) {
            next = self.visit_page(list, from, &mut |user, stays| {
                if found.len() < limit {
                    found.push((user, stays.to_vec()));
                }
            })?;
        }
        found.into_iter().map(|(user, stays)| member(user, stays)).collect()
    }

    /// Visits the members at or above `from` of the page that holds it; returns where the next page begins.
    pub fn visit_page(
        &self,
        list: ListKey,
        from: UserNo,
        visit: &mut dyn FnMut(UserNo, &[Interval]),
    ) -> Result<Option<UserNo>, TablesError> {
        let page = self.holding(list, from)?;
        let mut members = Members::begin(page.from, &page.bytes).ok_or_else(|| damaged("has no head"))?;
        while let Some((user, stays)) = members.next_member().map_err(|_| damaged("does not decode"))? {
            if user >= from {
                visit(user, stays);
            }
        }
        Ok(members.upper)
    }

    /// What an edit makes of its page: one page, or two if it is split. Stays that ended at or before `horizon`
    /// are dropped on the way, because every arrival in them is materialised.
    pub fn edit(&self, edit: &ListEdit, horizon: Arrival) -> Result<PageMap, TablesError> {
        let page = self.holding(edit.key, edit.user)?;
        let mut builder = Builder::new(page.from, page.bytes.len() + 32);
        let mut members = Members::begin(page.from, &page.bytes).ok_or_else(|| damaged("has no head"))?;
        let mut placed = false;
        while let Some((user, stays)) = members.next_member().map_err(|_| damaged("does not decode"))? {
            if !placed && user >= edit.user {
                placed = true;
                push_needed(&mut builder, edit.user, edit.intervals.as_slice(), horizon);
            }
            if user != edit.user {
                push_needed(&mut builder, user, stays, horizon);
            }
        }
        if !placed {
            push_needed(&mut builder, edit.user, edit.intervals.as_slice(), horizon);
        }
        let upper = members.upper;
        let (lower, higher) = builder.finish(upper);
        let is_whole_list = lower.from == UserNo(0) && upper.is_none();
        let keep_lower = lower.members > 0 || higher.is_some() || !is_whole_list;
        let at = |from| PageKey { list: edit.key, from };
        let mut pages = PageMap::from([(at(lower.from), keep_lower.then_some(lower.bytes))]);
        pages.extend(higher.map(|higher| (at(higher.from), Some(higher.bytes))));
        Ok(pages)
    }

    fn holding(&self, list: ListKey, user: UserNo) -> Result<Page<'a>, TablesError> {
        let (first, wanted) = (PageKey { list, from: UserNo(0) }, PageKey { list, from: user });
        for layer in self.layers.iter().flatten() {
            let Some((key, to)) = layer.range(first..=wanted).next_back() else { continue };
            let Some(bytes) = to else { return Ok(Page { from: UserNo(0), bytes: Cow::Borrowed(EMPTY) }) };
            if holds(key.from, bytes, user)? {
                return Ok(Page { from: key.from, bytes: Cow::Borrowed(bytes) });
            }
        }
        self.stored(first, wanted)
    }

    fn stored(&self, first: PageKey, wanted: PageKey) -> Result<Page<'a>, TablesError> {
        let range = keys::page(self.partition, first)..=keys::page(self.partition, wanted);
        let Some(row) = self.rows.main.range(range).next_back() else {
            return Ok(Page { from: UserNo(0), bytes: Cow::Borrowed(EMPTY) });
        };
        let (key, bytes) = taken(row)?;
        let key = keys::parse_page(&key).ok_or_else(|| damaged("has no key of a page"))?;
        if !holds(key.from, &bytes, wanted.from)? {
            return Err(damaged("ends before the next one begins"));
        }
        Ok(Page { from: key.from, bytes: Cow::Owned(bytes.to_vec()) })
    }
}

fn holds(from: UserNo, page: &[u8], user: UserNo) -> Result<bool, TablesError> {
    let members = Members::begin(from, page).ok_or_else(|| damaged("has no head"))?;
    Ok(members.upper.is_none_or(|upper| user < upper))
}

fn push_needed(builder: &mut Builder, user: UserNo, stays: &[Interval], horizon: Arrival) {
    let is_needed = |stay: &Interval| stay.until.is_none_or(|until| until > horizon);
    if stays.iter().all(is_needed) {
        if !stays.is_empty() {
            builder.push(user, stays);
        }
        return;
    }
    let needed: Vec<Interval> = stays.iter().copied().filter(is_needed).collect();
    if !needed.is_empty() {
        builder.push(user, &needed);
    }
}

fn member(user: UserNo, stays: Vec<Interval>) -> Result<Member, TablesError> {
    let intervals = Intervals::from_stored(stays).ok_or_else(|| damaged("has disordered intervals"))?;
    Ok(Member { user, intervals })
}

fn damaged(reason: &str) -> TablesError {
    TablesError::Damaged { family: "list pages", reason: format!("a page {reason}") }
}
