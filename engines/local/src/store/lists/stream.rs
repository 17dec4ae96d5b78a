//! Lists in bulk: several pages at once, walked forward in the database instead of looked up one by one.

use super::super::kept::{self, Asked, KeptList, KeptPage};
use super::super::page::Block;
use super::{Bytes, EMPTY, Pages, Row, damaged, stored, taken, undecodable};
use fantail_ports::lists::ListKey;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, UserNo};
use std::sync::Arc;

/// Pages that are read into one block: some hundred microseconds under the partition's lock at most, and few
/// enough members that a block stays in the processor's cache.
const BLOCK_PAGES_MAX: usize = 32;

/// What is asked of a list.
#[derive(Clone, Copy)]
pub struct Stretch {
    pub list: ListKey,
    /// The smallest number.
    pub from: UserNo,
    /// Numbers at or above are left out.
    pub until: Option<UserNo>,
    /// Only arrivals above matter. Must not be below what is materialised: lists do not know what was before.
    pub after: Arrival,
}

impl Pages<'_> {
    /// Replaces what is in `block` by the members of the stretch's first pages, and returns where to go on; `None`
    /// at its end. A block may be empty though more follow. Between two calls the list may change: members move
    /// neither up nor down, so each is told once.
    pub fn stream(&self, stretch: Stretch, block: &mut Block) -> Result<Option<UserNo>, TablesError> {
        let Stretch { list, from, until, after } = stretch;
        let is_inside = |user: &UserNo| until.is_none_or(|until| *user < until);
        let kept = self.kept(list)?;
        let mut walk = PageWalk { pages: self, list, kept, ahead: None };
        block.clear();
        let mut next = Some(from).filter(is_inside);
        for _ in 0..BLOCK_PAGES_MAX {
            let Some(user) = next else { break };
            let row = walk.holding(user)?;
            let page = row.open()?;
            block.add(&page, after).map_err(undecodable)?;
            next = page.upper.filter(is_inside);
        }
        block.cut_below(from);
        if let Some(until) = until {
            block.cut_from(until);
        }
        Ok(next)
    }
}

impl Pages<'_> {
    /// The database's pages of a list, if they are in memory or worth it.
    fn kept(&self, list: ListKey) -> Result<Option<Arc<[KeptPage]>>, TablesError> {
        let lists = &self.rows.kept;
        match lists.ask(self.partition, list) {
            Asked::Known(KeptList::Pages(pages)) => Ok(Some(pages)),
            Asked::Again if self.is_settled => {
                let kept = self.load(list)?;
                lists.take_in(self.partition, list, kept.clone());
                match kept {
                    KeptList::Pages(pages) => Ok(Some(pages)),
                    KeptList::Large => Ok(None),
                }
            }
            Asked::Known(KeptList::Large) | Asked::Again | Asked::First => Ok(None),
        }
    }

    fn load(&self, list: ListKey) -> Result<KeptList, TablesError> {
        let mut pages = Vec::new();
        for row in self.rows.main.range(self.key(list, UserNo(0))..=self.key(list, UserNo(u64::MAX))) {
            let row = stored(taken(row)?)?;
            if pages.len() == kept::PAGES_MAX {
                return Ok(KeptList::Large);
            }
            pages.push(KeptPage { from: row.from, bytes: row.bytes.to_vec().into() });
        }
        Ok(KeptList::Pages(pages.into()))
    }
}

/// Goes from page to page, upwards.
struct PageWalk<'w, 'a> {
    pages: &'w Pages<'a>,
    list: ListKey,
    kept: Option<Arc<[KeptPage]>>,
    /// The database's pages from the last one on that was asked of it.
    ahead: Option<fjall::Iter>,
}

impl<'a> PageWalk<'_, 'a> {
    /// The page that holds a user. In most cases it is the next one.
    fn holding(&mut self, user: UserNo) -> Result<Row<'a>, TablesError> {
        if let Some(row) = self.pages.holding_recent(self.list, user)? {
            return Ok(row);
        }
        if let Some(kept) = &self.kept {
            return holding_kept(kept, user);
        }
        let mut ahead = self.ahead.take().unwrap_or_else(|| {
            let key = |from| self.pages.key(self.list, from);
            self.pages.rows.main.range(key(user)..=key(UserNo(u64::MAX)))
        });
        while let Some(row) = ahead.next() {
            let row = stored(taken(row)?)?;
            let page = row.open()?;
            if page.holds(user) {
                self.ahead = Some(ahead);
                return Ok(row);
            }
            if page.from > user {
                break;
            }
        }
        // It begins below: the stretch begins in its middle.
        self.pages.holding_stored(self.list, user)
    }
}

fn holding_kept<'a>(kept: &[KeptPage], user: UserNo) -> Result<Row<'a>, TablesError> {
    let Some(at) = kept.partition_point(|page| page.from <= user).checked_sub(1) else { return Ok(EMPTY) };
    let row = Row { from: kept[at].from, bytes: Bytes::Kept(Arc::clone(&kept[at].bytes)) };
    if row.open()?.holds(user) { Ok(row) } else { Err(damaged("ends before the next one begins")) }
}
