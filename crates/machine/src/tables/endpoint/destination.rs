//! What sends read of endpoints: where to, and nothing else.

use super::rows::{Destinations, key, page_no, page_of, slot, slot_of};
use crate::codec::{Malformed, Reader};
use crate::tables::Row;
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{ClaimNo, DeviceNo, TenantId, UserNo};
use std::ops::{ControlFlow, Range};

/// What a send needs of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Destination {
    pub device: DeviceNo,
    pub claim: ClaimNo,
    pub status: Status,
    pub kind: ChannelKind,
    pub address: Sealed,
}

/// Visits the destinations of each of these users, with its place in `users`. Each page is read once as long as users of
/// one page are neighbours; nobody else on it is decoded. Pages that lie close together are walked: finding one by its
/// key costs as much as walking over ten.
pub fn destinations(
    tables: &dyn Tables,
    tenant: TenantId,
    users: &[UserNo],
    visit: &mut dyn FnMut(usize, Destination),
) -> Result<(), TablesError> {
    if is_close(users) { walk(tables, tenant, users, visit) } else { pick(tables, tenant, users, visit) }
}

/// Fewer are found one by one.
const WALKED_USERS_MIN: usize = 32;
/// Pages that are walked over for each user that is wanted.
const WALKED_PAGES_MAX: u64 = 4;

fn is_close(users: &[UserNo]) -> bool {
    let (Some(first), Some(last)) = (users.first(), users.last()) else { return false };
    let pages = page_of(*last).saturating_sub(page_of(*first));
    users.len() >= WALKED_USERS_MIN && pages <= WALKED_PAGES_MAX * users.len() as u64 && users.is_sorted()
}

/// Page after page, from the first to the last that is wanted.
fn walk(
    tables: &dyn Tables,
    tenant: TenantId,
    users: &[UserNo],
    visit: &mut dyn FnMut(usize, Destination),
) -> Result<(), TablesError> {
    let pages = (page_of(users[0]), page_of(users[users.len() - 1]));
    let (from, to) = (key(tenant, pages.0), key(tenant, pages.1 + 1));
    let (mut next, mut read) = (0, Ok(()));
    tables.scan(KeyRange { from: &from, to: &to }, Order::Ascending, &mut |key, row| {
        read = page_no(key).and_then(|no| {
            next += users[next..].partition_point(|user| page_of(*user) < no);
            let end = next + users[next..].partition_point(|user| page_of(*user) == no);
            let on_page = next..end;
            next = end;
            visit_page(row, users, on_page, visit)
        });
        if read.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    read
}

/// Each page by its key.
fn pick(
    tables: &dyn Tables,
    tenant: TenantId,
    users: &[UserNo],
    visit: &mut dyn FnMut(usize, Destination),
) -> Result<(), TablesError> {
    let mut first = 0;
    for of_page in users.chunk_by(|one, other| page_of(*one) == page_of(*other)) {
        let on_page = first..first + of_page.len();
        first = on_page.end;
        let mut read = Ok(());
        tables.read(&key(tenant, page_of(of_page[0])), &mut |row| {
            read = row.map_or(Ok(()), |row| visit_page(row, users, on_page.clone(), visit));
        })?;
        read?;
    }
    Ok(())
}

/// Visits some users of one page.
fn visit_page(
    row: &[u8],
    users: &[UserNo],
    on_page: Range<usize>,
    visit: &mut dyn FnMut(usize, Destination),
) -> Result<(), TablesError> {
    for place in on_page {
        let read = slot(row, slot_of(users[place]))
            .and_then(|found| found.map_or(Ok(()), |user| read_destinations(user, place, visit)));
        read.map_err(|malformed| malformed.in_row(Destinations::NAME))?;
    }
    Ok(())
}

fn read_destinations(
    user: &[u8],
    place: usize,
    visit: &mut dyn FnMut(usize, Destination),
) -> Result<(), Malformed> {
    let mut r = Reader::new(user);
    for _ in 0..r.varint()? {
        visit(place, Destination::read(&mut r)?);
    }
    r.end()
}
