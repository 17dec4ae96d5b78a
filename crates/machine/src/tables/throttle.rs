//! What users got lately of each kind that is throttled.
//!
//! ```text
//! 66 tenant kind: u64 page: u64           -> list of (place: u8, event: arrival, until)      user = page * 64 + place
//! 67 tenant hour: u64 kind: u64 page: u64 -> (empty)      after this hour since 1970 the page holds nobody back
//! ```
//! Pages hold those alone who got something, so that one user costs some bytes and a long list a row for every 64 of its
//! members. What has lapsed leaves its page when the page is written, and pages that nobody writes are swept by row 67. A kind
//! is a keyed hash: nothing here tells what it was about.

use super::{Family, Key, Row, collect, get, put};
use crate::codec::{Malformed, Reader, Writer};
use crate::view::View;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Millis, TenantId, UserNo};
use fantail_rules::throttle::Latest;

const PAGE_BITS: u32 = 6;
const HOUR_MS: u64 = 3_600_000;

/// Ascending by place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ThrottlePage(pub Vec<(u8, Latest)>);

/// A page, and the hour after which nothing of it is in force.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PageId {
    pub hour: u64,
    pub kind: u64,
    pub page: u64,
}

#[must_use]
pub fn key(tenant: TenantId, kind: u64, page: u64) -> Vec<u8> {
    Key::new(Family::Throttle, tenant).u64(kind).u64(page).finish()
}

#[must_use]
pub fn end_key(tenant: TenantId, of: PageId) -> Vec<u8> {
    Key::new(Family::ThrottleEnd, tenant).u64(of.hour).u64(of.kind).u64(of.page).finish()
}

/// Of each of these users, who ascend. Each page is read once.
pub fn read(
    tables: &dyn Tables,
    tenant: TenantId,
    kind: u64,
    users: &[UserNo],
) -> Result<Vec<Option<Latest>>, TablesError> {
    let mut found = Vec::with_capacity(users.len());
    for of_page in users.chunk_by(|one, other| page_of(*one) == page_of(*other)) {
        let page = page(tables, tenant, kind, page_of(of_page[0]))?;
        found.extend(of_page.iter().map(|user| page.find(place_of(*user))));
    }
    Ok(found)
}

/// These users, who ascend, got this. A page is read and written once.
pub(crate) fn keep(
    view: &mut View<'_>,
    (tenant, kind): (TenantId, u64),
    users: &[UserNo],
    latest: Latest,
    at: Millis,
) -> Result<(), TablesError> {
    for of_page in users.chunk_by(|one, other| page_of(*one) == page_of(*other)) {
        let no = page_of(of_page[0]);
        let mut row = page(view, tenant, kind, no)?;
        let before = row.hour();
        row.0.retain(|(_, latest)| at < latest.until);
        of_page.iter().for_each(|user| row.set(place_of(*user), latest));
        let after = row.hour();
        if before != after {
            let id = |hour| PageId { hour, kind, page: no };
            before.into_iter().for_each(|hour| view.delete(end_key(tenant, id(hour))));
            after.into_iter().for_each(|hour| view.put(end_key(tenant, id(hour)), Vec::new()));
        }
        put(view, key(tenant, kind, no), &row);
    }
    Ok(())
}

/// Pages of a tenant that hold nobody back any more.
pub fn lapsed(
    tables: &dyn Tables,
    tenant: TenantId,
    now: Millis,
    limit: usize,
) -> Result<Vec<PageId>, TablesError> {
    let prefix = Key::new(Family::ThrottleEnd, tenant);
    let to = prefix.clone().u64(now.0 / HOUR_MS + 1).finish();
    let range = KeyRange { from: &prefix.finish(), to: &to };
    collect(tables, range, Order::Ascending, limit, |key, _| {
        let part = |from: usize| key.get(from..from + 8).and_then(|bytes| bytes.try_into().ok());
        let number = |from| part(from).map(u64::from_be_bytes);
        let found = (number(5), number(13), number(21));
        let (Some(hour), Some(kind), Some(page)) = found else {
            return Err(Malformed::Short.in_row(ThrottlePage::NAME));
        };
        Ok(PageId { hour, kind, page })
    })
}

pub(crate) fn forget(view: &mut View<'_>, tenant: TenantId, of: PageId) {
    view.delete(key(tenant, of.kind, of.page));
    view.delete(end_key(tenant, of));
}

fn page(tables: &dyn Tables, tenant: TenantId, kind: u64, no: u64) -> Result<ThrottlePage, TablesError> {
    Ok(get(tables, &key(tenant, kind, no))?.unwrap_or_default())
}

fn page_of(user: UserNo) -> u64 {
    user.0 >> PAGE_BITS
}

fn place_of(user: UserNo) -> u8 {
    (user.0 & ((1 << PAGE_BITS) - 1)) as u8
}

impl ThrottlePage {
    fn find(&self, place: u8) -> Option<Latest> {
        let found = self.0.binary_search_by_key(&place, |(of, _)| *of).ok()?;
        Some(self.0[found].1)
    }

    fn set(&mut self, place: u8, latest: Latest) {
        match self.0.binary_search_by_key(&place, |(of, _)| *of) {
            Ok(found) => self.0[found].1 = latest,
            Err(at) => self.0.insert(at, (place, latest)),
        }
    }

    /// The first whole hour at which nothing of it is in force.
    fn hour(&self) -> Option<u64> {
        self.0.iter().map(|(_, latest)| latest.until.0.div_ceil(HOUR_MS)).max()
    }
}

impl Row for ThrottlePage {
    const NAME: &'static str = "throttle";

    fn write(&self, w: &mut Writer) {
        w.list(self.0.iter(), |w, (place, latest)| {
            w.u8(*place).arrival(latest.event).millis(latest.until);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self(r.list(|r| Ok((r.u8()?, Latest { event: r.arrival()?, until: r.millis()? })))?))
    }
}
