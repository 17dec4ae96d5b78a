//! Columns: what gates need of every user, at a fixed width, so that planning for a thousand members reads a handful
//! of rows and decodes nothing.
//!
//! ```text
//! 49 tenant page: u64 -> 64 × reach            user = page * 64 + place
//! reach = 5 × code: u16 little-endian, flags: u8, key: u40 little-endian
//! code  = channel: 3 bits << 13 | device: 13 bits; 0 = none; ascending by device, active endpoints only
//! flags = bit 0: the user exists; bit 1: there are more active endpoints, on the page; bit 2: some are suppressed
//! key   = the number of the user's key; 0 = not said here, but in the user's row
//! ```
//! What must never happen: a column that disagrees with the endpoint pages. Every apply that writes one writes the
//! other; a property test compares them.

use crate::codec::Malformed;
use crate::records::shard::UserPut;
use crate::tables::endpoint::UserEndpoints;
use crate::tables::{Family, Key};
use crate::view::View;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{DeviceNo, KeyNo, TenantId, UserNo};

const PAGE_BITS: u32 = 6;
const PAGE_USERS: usize = 1 << PAGE_BITS;
const WIDTH: usize = 16;
const CODES: usize = 5;
const FLAGS: usize = 2 * CODES;
const KEY: usize = FLAGS + 1;
const DEVICE_BITS: u32 = 13;

const EXISTS: u8 = 1;
const MORE: u8 = 2;
const SUPPRESSED: u8 = 4;

/// Where one user can be reached, and under which key the user's secrets lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reach([u8; WIDTH]);

impl Reach {
    /// What the endpoints of a user come to, who has a key, or is not there any more.
    #[must_use]
    pub fn of(user: &UserEndpoints, key: Option<KeyNo>) -> Self {
        let known = key.map_or_else(Self::default, |key| Self::default().of_user(key));
        known.with_endpoints(user)
    }

    fn of_user(mut self, key: KeyNo) -> Self {
        self.0[FLAGS] |= EXISTS;
        let [low @ .., _, _, _] =
            if key.0 >> (8 * (WIDTH - KEY)) == 0 { key.0.to_le_bytes() } else { [0; 8] };
        self.0[KEY..].copy_from_slice(&low);
        self
    }

    fn with_endpoints(self, user: &UserEndpoints) -> Self {
        let mut reach = Self::default();
        reach.0[FLAGS] = self.0[FLAGS] & EXISTS;
        reach.0[KEY..].copy_from_slice(&self.0[KEY..]);
        let active = user.endpoints.iter().filter(|endpoint| endpoint.status == Status::Active);
        for (place, endpoint) in active.enumerate() {
            if place == CODES {
                reach.0[FLAGS] |= MORE;
                break;
            }
            let code = u16::from(endpoint.kind as u8) << DEVICE_BITS | endpoint.device.0;
            reach.0[2 * place..2 * place + 2].copy_from_slice(&code.to_le_bytes());
        }
        if user.endpoints.iter().any(|endpoint| endpoint.status == Status::Suppressed) {
            reach.0[FLAGS] |= SUPPRESSED;
        }
        reach
    }

    /// Active endpoints of a channel, ascending. If it [has more](Self::has_more), only the page knows them all.
    pub fn endpoints(&self, kind: ChannelKind) -> impl Iterator<Item = DeviceNo> {
        let codes = self.0;
        (0..CODES)
            .map(move |place| u16::from_le_bytes([codes[2 * place], codes[2 * place + 1]]))
            .filter(move |code| *code != 0 && code >> DEVICE_BITS == u16::from(kind as u8))
            .map(|code| DeviceNo(code & DeviceNo::MAX.0))
    }

    /// There are more active endpoints than fit: read them with `tables::endpoint::of_user`.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.0[FLAGS] & MORE != 0
    }

    #[must_use]
    pub fn exists(&self) -> bool {
        self.0[FLAGS] & EXISTS != 0
    }

    /// Some endpoint of the user may not be sent to.
    #[must_use]
    pub fn is_suppressed(&self) -> bool {
        self.0[FLAGS] & SUPPRESSED != 0
    }

    /// The user's key; `None` if only the user's row tells.
    #[must_use]
    pub fn key(&self) -> Option<KeyNo> {
        let mut bytes = [0; 8];
        bytes[..WIDTH - KEY].copy_from_slice(&self.0[KEY..]);
        Some(KeyNo(u64::from_le_bytes(bytes))).filter(|key| *key != KeyNo::TENANT)
    }
}

/// Calls `visit` with the place and the reach of each of these users, which ascend. Each page is read once.
pub fn visit_reach(
    tables: &dyn Tables,
    tenant: TenantId,
    users: &[UserNo],
    visit: &mut dyn FnMut(usize, Reach),
) -> Result<(), TablesError> {
    let mut first = 0;
    for of_page in users.chunk_by(|one, other| page_of(*one) == page_of(*other)) {
        let mut is_whole = true;
        tables.read(&key(tenant, page_of(of_page[0])), &mut |row| {
            is_whole = row.is_none_or(is_page);
            for (place, user) in (first..).zip(of_page).filter(|_| is_whole) {
                visit(place, row.map_or_else(Reach::default, |row| reach_in(row, *user)));
            }
        })?;
        if !is_whole {
            return Err(Malformed::Value("length").in_row("reach"));
        }
        first += of_page.len();
    }
    Ok(())
}

/// Where one user can be reached.
pub fn reach(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<Reach, TablesError> {
    Ok(reach_in(&page(tables, tenant, page_of(user))?, user))
}

/// Users came: they exist from now on.
pub(crate) fn add_users(view: &mut View<'_>, tenant: TenantId, users: &[UserPut]) -> Result<(), TablesError> {
    let numbers = users.iter().map(|put| put.user);
    change(view, tenant, numbers, |place, reach| reach.of_user(users[place].id.key))
}

pub(crate) fn remove_user(view: &mut View<'_>, tenant: TenantId, user: UserNo) -> Result<(), TablesError> {
    change(view, tenant, std::iter::once(user), |_, _| Reach::default())
}

/// The endpoints of these users changed.
pub(crate) fn refresh<'u>(
    view: &mut View<'_>,
    tenant: TenantId,
    users: impl Iterator<Item = (UserNo, &'u UserEndpoints)>,
) -> Result<(), TablesError> {
    let users: Vec<(UserNo, &UserEndpoints)> = users.collect();
    change(view, tenant, users.iter().map(|(user, _)| *user), |place, reach| {
        reach.with_endpoints(users[place].1)
    })
}

/// Rewrites the pages of these users, those that change, each once as long as neighbours lie together.
fn change(
    view: &mut View<'_>,
    tenant: TenantId,
    users: impl Iterator<Item = UserNo>,
    change: impl Fn(usize, Reach) -> Reach,
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
        let before = reach_in(&current.bytes, user);
        let after = change(place, before);
        current.changed |= after != before;
        current.bytes[at(user)..at(user) + WIDTH].copy_from_slice(&after.0);
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
    if is_page(&bytes) { Ok(bytes) } else { Err(Malformed::Value("length").in_row("reach")) }
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

fn reach_in(page: &[u8], user: UserNo) -> Reach {
    let mut reach = Reach::default();
    reach.0.copy_from_slice(&page[at(user)..at(user) + WIDTH]);
    reach
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_does_not_fit_is_left_to_the_row() {
        for (key, said) in
            [(1, Some(1)), ((1 << 40) - 1, Some((1 << 40) - 1)), (1 << 40, None), (u64::MAX, None)]
        {
            let reach = Reach::default().of_user(KeyNo(key));
            assert_eq!((reach.key(), reach.exists()), (said.map(KeyNo), true), "{key}");
        }
        assert_eq!(Reach::default().key(), None);
    }
}
