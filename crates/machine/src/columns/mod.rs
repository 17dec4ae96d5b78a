//! Columns: what gates need of every user, at a fixed width, so that planning for a thousand members reads a handful
//! of rows and decodes nothing.
//!
//! ```text
//! 49 tenant page: u64 -> 64 × (reach: 16, respect: 16)            user = page * 64 + place
//! ```
//! What must never happen: a column that disagrees with the endpoint pages and with what the user wants. Every apply
//! that writes one writes the other; a property test compares them.

pub mod counts;
pub mod reach;
pub mod respect;

pub use reach::Reach;
pub use respect::Respect;

use crate::codec::Malformed;
use crate::records::shard::UserPut;
use crate::tables::endpoint::UserEndpoints;
use crate::tables::respect::RespectRow;
use crate::tables::{Family, Key};
use crate::view::View;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{TenantId, UserNo};
use fantail_rules::zone::ZoneNo;

const PAGE_BITS: u32 = 6;
const PAGE_USERS: usize = 1 << PAGE_BITS;
const WIDTH: usize = reach::WIDTH + respect::WIDTH;

/// One user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Column {
    pub reach: Reach,
    pub respect: Respect,
}

/// Calls `visit` with the place and the column of each of these users, which ascend. Each page is read once.
pub fn visit(
    tables: &dyn Tables,
    tenant: TenantId,
    users: &[UserNo],
    visit: &mut dyn FnMut(usize, Column),
) -> Result<(), TablesError> {
    let mut first = 0;
    for of_page in users.chunk_by(|one, other| page_of(*one) == page_of(*other)) {
        let mut is_whole = true;
        tables.read(&key(tenant, page_of(of_page[0])), &mut |row| {
            is_whole = row.is_none_or(is_page);
            for (place, user) in (first..).zip(of_page).filter(|_| is_whole) {
                visit(place, row.map_or_else(Column::default, |row| column_in(row, *user)));
            }
        })?;
        if !is_whole {
            return Err(Malformed::Value("length").in_row("column"));
        }
        first += of_page.len();
    }
    Ok(())
}

/// What one user's column says.
pub fn find(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<Column, TablesError> {
    Ok(column_in(&page(tables, tenant, page_of(user))?, user))
}

/// Users came: they exist from now on.
pub(crate) fn add_users(view: &mut View<'_>, tenant: TenantId, users: &[UserPut]) -> Result<(), TablesError> {
    let numbers = users.iter().map(|put| put.user);
    change(view, tenant, numbers, |place, column| Column {
        reach: column.reach.of_user(users[place].id.key),
        respect: column.respect.with_profile_zone(users[place].zone),
    })
}

pub(crate) fn remove_user(view: &mut View<'_>, tenant: TenantId, user: UserNo) -> Result<(), TablesError> {
    change(view, tenant, std::iter::once(user), |_, _| Column::default())
}

/// The endpoints of these users changed.
pub(crate) fn refresh<'u>(
    view: &mut View<'_>,
    tenant: TenantId,
    users: impl Iterator<Item = (UserNo, &'u UserEndpoints)>,
) -> Result<(), TablesError> {
    let users: Vec<(UserNo, &UserEndpoints)> = users.collect();
    change(view, tenant, users.iter().map(|(user, _)| *user), |place, column| Column {
        reach: column.reach.with_endpoints(users[place].1),
        ..column
    })
}

/// What may wait for the user without an index is searched for.
pub(crate) fn clear_waits(view: &mut View<'_>, tenant: TenantId, user: UserNo) -> Result<(), TablesError> {
    change(view, tenant, std::iter::once(user), |_, column| Column {
        respect: column.respect.with_waits(false),
        ..column
    })
}

/// A user wants something else.
pub(crate) fn set_respect(
    view: &mut View<'_>,
    tenant: TenantId,
    user: UserNo,
    row: &RespectRow,
    profile_zone: ZoneNo,
) -> Result<(), TablesError> {
    let respect = Respect::of(row, profile_zone);
    change(view, tenant, std::iter::once(user), |_, column| Column { respect, ..column })
}

/// Rewrites the pages of these users, those that change, each once as long as neighbours lie together.
fn change(
    view: &mut View<'_>,
    tenant: TenantId,
    users: impl Iterator<Item = UserNo>,
    change: impl Fn(usize, Column) -> Column,
) -> Result<(), TablesError> {
    let mut open: Option<Open> = None;
    for (place, user) in users.enumerate() {
        let no = page_of(user);
        let mut current = match open.take() {
            Some(open) if open.no == no => open,
            other => {
                other.into_iter().for_each(|left| left.write(view, tenant));
                Open { no, bytes: page(view, tenant, no)?, changed: false }
            }
        };
        let before = column_in(&current.bytes, user);
        let after = change(place, before);
        current.changed |= after != before;
        after.write(&mut current.bytes[at(user)..at(user) + WIDTH]);
        open = Some(current);
    }
    open.into_iter().for_each(|left| left.write(view, tenant));
    Ok(())
}

/// The page at hand.
struct Open {
    no: u64,
    bytes: Vec<u8>,
    changed: bool,
}

impl Open {
    fn write(self, view: &mut View<'_>, tenant: TenantId) {
        if !self.changed {
            return;
        }
        let key = key(tenant, self.no);
        if self.bytes.iter().all(|byte| *byte == 0) {
            view.delete(key);
        } else {
            view.put(key, self.bytes);
        }
    }
}

#[must_use]
pub fn key(tenant: TenantId, page: u64) -> Vec<u8> {
    Key::new(Family::Reach, tenant).u64(page).finish()
}

fn page(tables: &dyn Tables, tenant: TenantId, no: u64) -> Result<Vec<u8>, TablesError> {
    let bytes = tables.get(&key(tenant, no))?.unwrap_or_else(|| vec![0; PAGE_USERS * WIDTH]);
    if is_page(&bytes) { Ok(bytes) } else { Err(Malformed::Value("length").in_row("column")) }
}

fn is_page(row: &[u8]) -> bool {
    row.len() == PAGE_USERS * WIDTH
}

fn page_of(user: UserNo) -> u64 {
    user.0 >> PAGE_BITS
}

fn at(user: UserNo) -> usize {
    (user.0 as usize & (PAGE_USERS - 1)) * WIDTH
}

fn column_in(page: &[u8], user: UserNo) -> Column {
    Column::read(&page[at(user)..at(user) + WIDTH])
}

impl Column {
    fn write(&self, to: &mut [u8]) {
        let (reach, respect) = to.split_at_mut(reach::WIDTH);
        reach.copy_from_slice(&self.reach.0);
        self.respect.write(respect);
    }

    fn read(from: &[u8]) -> Self {
        let (of_reach, of_respect) = from.split_at(reach::WIDTH);
        let mut reach = Reach::default();
        reach.0.copy_from_slice(of_reach);
        Self { reach, respect: Respect::read(of_respect) }
    }
}
