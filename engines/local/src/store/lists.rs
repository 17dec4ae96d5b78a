//! Lists over the overlay and the database: finding the page of a member, walking pages, editing them.
//!
//! Pages of a list cover all user numbers without gaps, and each says where the next one begins. Pages are never
//! deleted, except the only page of a list that has become empty. So the newest layer whose last page at or below
//! a user holds that user has the right one: had it been split since, the newer part would lie in a newer layer.

use super::keys::{self, PageKey};
use super::overlay::PageMap;
use super::page::{self, Damaged, Page};
use super::rows::{Rows, taken};
use fantail_ports::lists::{ListEdit, ListKey, Member};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, PartitionId, UserNo};
use fantail_rules::interval::{Interval, Intervals};
use fjall::{UserKey, UserValue};
use std::ops::Deref;
use std::sync::Arc;

mod stream;

pub use self::{super::page::Block, stream::Stretch};

/// All pages of one partition.
#[derive(Clone, Copy)]
pub struct Pages<'a> {
    pub rows: &'a Rows,
    pub partition: PartitionId,
    /// Newest first.
    pub layers: [Option<&'a PageMap>; 3],
    /// No sync is writing pages meanwhile.
    pub is_settled: bool,
}

/// The lists that have pages here, each once.
pub fn lists_of(pages: &PageMap) -> impl Iterator<Item = ListKey> {
    let mut last = None;
    pages.keys().map(|key| key.list).filter(move |list| last.replace(*list) != Some(*list))
}

/// A page as it was found, and where it begins.
struct Row<'a> {
    from: UserNo,
    bytes: Bytes<'a>,
}

enum Bytes<'a> {
    Recent(&'a [u8]),
    Kept(Arc<[u8]>),
    Stored(UserValue),
}

/// A page without members that holds every number: what a list begins with.
const EMPTY: Row<'static> = Row { from: UserNo(0), bytes: Bytes::Recent(&[0, 0, 0]) };

impl<'a> Pages<'a> {
    /// Members above `after`, at most `limit`.
    pub fn members(
        &self,
        list: ListKey,
        after: Option<UserNo>,
        limit: usize,
    ) -> Result<Vec<Member>, TablesError> {
        let (mut found, mut is_whole) = (Vec::new(), true);
        let mut next = match after {
            None => Some(UserNo(0)),
            Some(after) => after.0.checked_add(1).map(UserNo),
        };
        while let Some(from) = next.filter(|_| found.len() < limit) {
            next = self.visit_page(list, from, &mut |user, stays| {
                if found.len() < limit {
                    match Intervals::from_stored(stays) {
                        Some(intervals) => found.push(Member { user, intervals }),
                        None => is_whole = false,
                    }
                }
            })?;
        }
        if is_whole { Ok(found) } else { Err(damaged("has disordered intervals")) }
    }

    /// Visits the members at or above `from` of the page that holds it; returns where the next page begins.
    pub fn visit_page(
        &self,
        list: ListKey,
        from: UserNo,
        visit: &mut dyn FnMut(UserNo, &[Interval]),
    ) -> Result<Option<UserNo>, TablesError> {
        let row = self.holding(list, from)?;
        let page = row.open()?;
        let visited = page.visit(|user, stays| {
            if user >= from {
                visit(user, stays);
            }
        });
        visited.map_err(undecodable)?;
        Ok(page.upper)
    }

    /// What edits of one list, in ascending order and one per user, make of the pages they fall into: each is
    /// rewritten once. What ended at or before `horizon`, and when that began which did not, is forgotten on the
    /// way, because every arrival up to there is materialised and delivered.
    pub fn edit(
        &self,
        list: ListKey,
        edits: &[&ListEdit],
        horizon: Arrival,
        edited: &mut PageMap,
    ) -> Result<(), TablesError> {
        let (mut left, mut scratch) = (edits, Vec::new());
        while let Some(first) = left.first() {
            let row = self.holding(list, first.user)?;
            let page = row.open()?;
            let here = left.partition_point(|edit| page.holds(edit.user));
            let (edits, later) = left.split_at(here);
            left = later;
            let mut pages = page::rewrite(&page, edits, horizon, &mut scratch).map_err(undecodable)?;
            let is_whole_list = page.from == UserNo(0) && page.upper.is_none();
            if let ([only], true) = (&mut pages[..], is_whole_list)
                && only.members == 0
            {
                edited.insert(PageKey { list, from: only.from }, None);
                continue;
            }
            edited.extend(pages.into_iter().map(|one| (PageKey { list, from: one.from }, Some(one.bytes))));
        }
        Ok(())
    }

    /// The page that holds a user.
    fn holding(&self, list: ListKey, user: UserNo) -> Result<Row<'a>, TablesError> {
        match self.holding_recent(list, user)? {
            Some(row) => Ok(row),
            None => self.holding_stored(list, user),
        }
    }

    /// The database's page that holds a user.
    fn holding_stored(&self, list: ListKey, user: UserNo) -> Result<Row<'a>, TablesError> {
        let range = self.key(list, UserNo(0))..=self.key(list, user);
        let Some(row) = self.rows.main.range(range).next_back() else { return Ok(EMPTY) };
        let row = stored(taken(row)?)?;
        if row.open()?.holds(user) { Ok(row) } else { Err(damaged("ends before the next one begins")) }
    }

    /// The page that holds a user if it is not the database's.
    fn holding_recent(&self, list: ListKey, user: UserNo) -> Result<Option<Row<'a>>, TablesError> {
        let range = PageKey { list, from: UserNo(0) }..=PageKey { list, from: user };
        for layer in self.layers.iter().flatten() {
            let Some((key, to)) = layer.range(range.clone()).next_back() else { continue };
            let Some(bytes) = to else { return Ok(Some(EMPTY)) };
            let row = Row { from: key.from, bytes: Bytes::Recent(bytes) };
            if row.open()?.holds(user) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    fn key(&self, list: ListKey, from: UserNo) -> Vec<u8> {
        keys::page(self.partition, PageKey { list, from })
    }
}

impl Row<'_> {
    fn open(&self) -> Result<Page<'_>, TablesError> {
        Page::open(self.from, &self.bytes).map_err(undecodable)
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Recent(bytes) => bytes,
            Self::Kept(bytes) => bytes,
            Self::Stored(bytes) => bytes,
        }
    }
}

fn stored((key, bytes): (UserKey, UserValue)) -> Result<Row<'static>, TablesError> {
    let key = keys::parse_page(&key).ok_or_else(|| damaged("has no key of a page"))?;
    Ok(Row { from: key.from, bytes: Bytes::Stored(bytes) })
}

fn undecodable(_: Damaged) -> TablesError {
    damaged("does not decode")
}

fn damaged(reason: &str) -> TablesError {
    TablesError::Damaged { family: "list pages", reason: format!("a page {reason}") }
}

#[cfg(test)]
mod tests;
