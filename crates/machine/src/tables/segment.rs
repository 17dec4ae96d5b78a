//! Segments, in the root; and in every shard which of its users are on uploaded lists.
//!
//! ```text
//! 12 tenant name: text           -> filter: option text, note: text, created, updated, list: option (16, members, uploaded)
//! 82 tenant list: 16 page: u64   -> places: ascending           user = page * 1024 + place
//! 83 tenant list: 16             -> members: varint, touched: millis
//! ```
//! A page holds who of 1,024 users is on the list, so that a walk over users reads it in their order.

use super::{Family, Key, Row, collect, get, put, tail_u64};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::segment::{SegmentPut, UploadId};
use crate::view::View;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Millis, TenantId, UserNo};

const PAGE_USERS: u64 = 1_024;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentRow {
    pub put: SegmentPut,
    pub created: Millis,
    pub updated: Millis,
    pub list: Option<SegmentList>,
}

/// The list that a segment has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentList {
    pub id: UploadId,
    /// When it was uploaded, in all shards.
    pub members: u64,
    pub uploaded: Millis,
}

/// What a shard knows of an uploaded list besides its members.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UploadRow {
    pub members: u64,
    /// When somebody was added.
    pub touched: Millis,
}

/// Users of a page by their places, ascending.
pub struct UploadPage(pub Vec<u64>);

#[must_use]
pub fn key(tenant: TenantId, name: &str) -> Vec<u8> {
    Key::new(Family::Segment, tenant).bytes(name.as_bytes()).finish()
}

#[must_use]
pub fn upload_key(tenant: TenantId, list: UploadId) -> Vec<u8> {
    Key::new(Family::Upload, tenant).bytes(&list.0).finish()
}

#[must_use]
pub fn page_key(tenant: TenantId, list: UploadId, page: u64) -> Vec<u8> {
    Key::new(Family::UploadPage, tenant).bytes(&list.0).u64(page).finish()
}

pub fn find(tables: &dyn Tables, tenant: TenantId, name: &str) -> Result<Option<SegmentRow>, TablesError> {
    get(tables, &key(tenant, name))
}

/// Segments of a tenant behind a name, in order.
pub fn of_tenant(
    tables: &dyn Tables,
    tenant: TenantId,
    behind: Option<&str>,
    limit: usize,
) -> Result<Vec<SegmentRow>, TablesError> {
    let prefix = Key::new(Family::Segment, tenant);
    let from = behind.map_or_else(|| prefix.clone().finish(), |name| [key(tenant, name), vec![0]].concat());
    let range = KeyRange { from: &from, to: &prefix.end() };
    collect(tables, range, Order::Ascending, limit, |_, row| SegmentRow::decode(row))
}

pub fn upload(tables: &dyn Tables, tenant: TenantId, list: UploadId) -> Result<UploadRow, TablesError> {
    Ok(get(tables, &upload_key(tenant, list))?.unwrap_or_default())
}

/// All uploaded lists of a tenant that this shard has members of.
pub fn uploads(tables: &dyn Tables, tenant: TenantId) -> Result<Vec<(UploadId, UploadRow)>, TablesError> {
    let prefix = Key::new(Family::Upload, tenant);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    collect(tables, range, Order::Ascending, usize::MAX, |key, row| {
        let list = key.get(5..).and_then(|list| list.try_into().ok()).map(UploadId);
        let list = list.ok_or_else(|| Malformed::Value("upload key").in_row(UploadRow::NAME))?;
        Ok((list, UploadRow::decode(row)?))
    })
}

/// Members of a list at or above one user and below another, ascending.
pub fn members(
    tables: &dyn Tables,
    tenant: TenantId,
    list: UploadId,
    users: std::ops::Range<u64>,
) -> Result<Vec<UserNo>, TablesError> {
    let from = page_key(tenant, list, users.start / PAGE_USERS);
    let to = page_key(tenant, list, users.end.div_ceil(PAGE_USERS));
    let mut found = Vec::new();
    for (page, UploadPage(places)) in
        collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, usize::MAX, decode_page)?
    {
        let all = places.into_iter().map(|place| page * PAGE_USERS + place);
        found.extend(all.filter(|user| users.contains(user)).map(UserNo));
    }
    Ok(found)
}

/// The first pages of a list.
pub fn pages(
    tables: &dyn Tables,
    tenant: TenantId,
    list: UploadId,
    limit: usize,
) -> Result<Vec<u64>, TablesError> {
    let (from, to) = (page_key(tenant, list, 0), page_key(tenant, list, u64::MAX));
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, _| {
        tail_u64(key, UploadPage::NAME)
    })
}

fn decode_page(key: &[u8], row: &[u8]) -> Result<(u64, UploadPage), TablesError> {
    Ok((tail_u64(key, UploadPage::NAME)?, UploadPage::decode(row)?))
}

/// Adds users, who ascend; returns how many were not on the list before.
pub(crate) fn add(
    view: &mut View<'_>,
    tenant: TenantId,
    list: UploadId,
    users: &[UserNo],
) -> Result<u64, TablesError> {
    let mut fresh = 0;
    for of_page in users.chunk_by(|one, other| one.0 / PAGE_USERS == other.0 / PAGE_USERS) {
        let key = page_key(tenant, list, of_page[0].0 / PAGE_USERS);
        let mut places = get::<UploadPage>(view, &key)?.map_or_else(Vec::new, |page| page.0);
        for user in of_page {
            let place = user.0 % PAGE_USERS;
            if let Err(at) = places.binary_search(&place) {
                places.insert(at, place);
                fresh += 1;
            }
        }
        put(view, key, &UploadPage(places));
    }
    Ok(fresh)
}

impl Row for SegmentRow {
    const NAME: &'static str = "segment";

    fn write(&self, w: &mut Writer) {
        self.put.write(w);
        w.millis(self.created).millis(self.updated).option(self.list, |w, list| {
            w.fixed(&list.id.0).varint(list.members).millis(list.uploaded);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let list = |r: &mut Reader<'_>| {
            let (id, members) = (UploadId(r.array()?), r.varint()?);
            Ok(SegmentList { id, members, uploaded: r.millis()? })
        };
        Ok(Self {
            put: SegmentPut::read(r)?,
            created: r.millis()?,
            updated: r.millis()?,
            list: r.option(list)?,
        })
    }
}

impl Row for UploadRow {
    const NAME: &'static str = "uploaded list";

    fn write(&self, w: &mut Writer) {
        w.varint(self.members).millis(self.touched);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { members: r.varint()?, touched: r.millis()? })
    }
}

impl Row for UploadPage {
    const NAME: &'static str = "uploaded members";

    fn write(&self, w: &mut Writer) {
        w.ascending(self.0.iter().copied());
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let places = r.ascending()?;
        let is_page = places.last().is_none_or(|last| *last < PAGE_USERS);
        if is_page && places.is_sorted_by(|one, other| one < other) {
            Ok(Self(places))
        } else {
            Err(Malformed::Value("places"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::Plain;
    use fantail_ports::tables::Changes;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Whatever was added in whatever order is found, between any two users, and nothing of another list.
        #[test]
        fn members_are_those_that_were_added(
            batches in proptest::collection::vec(proptest::collection::btree_set(0u64..5_000, 0..40), 0..6),
            from in 0u64..5_000, span in 0u64..5_000,
        ) {
            let (base, mut changes) = (Plain::default(), Changes::new());
            let mut view = View::new(&base, &[], &mut changes);
            let (tenant, list) = (TenantId(7), UploadId([1; 16]));
            let (mut all, mut counted) = (BTreeSet::new(), 0);
            for batch in batches {
                let users: Vec<UserNo> = batch.iter().copied().map(UserNo).collect();
                counted += add(&mut view, tenant, list, &users).expect("plain");
                all.extend(batch);
            }
            prop_assert_eq!(counted, all.len() as u64);
            let expected: Vec<UserNo> = all.range(from..from + span).copied().map(UserNo).collect();
            prop_assert_eq!(members(&view, tenant, list, from..from + span), Ok(expected));
            prop_assert_eq!(members(&view, tenant, UploadId([2; 16]), 0..9_000), Ok(Vec::new()));
            let touched: BTreeSet<u64> = all.iter().map(|user| user / PAGE_USERS).collect();
            prop_assert_eq!(pages(&view, tenant, list, 99), Ok(touched.into_iter().collect::<Vec<_>>()));
        }
    }
}
