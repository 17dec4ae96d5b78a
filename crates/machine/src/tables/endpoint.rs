//! The endpoints of users, those of sixteen users in one row, so that a dense parcel reads few rows.
//!
//! ```text
//! 48 tenant page: u64 -> list of (slot: u8, length-prefixed: devices: varint, claims: varint, list of endpoint)
//!    user = page * 16 + slot, slots ascend, and one is found without decoding the others;
//!    devices and claims = how many were ever handed out
//!    endpoint = device, claim, status: u8, kind: u8, platform: u8, name hash: 16, name: option sealed,
//!               address hash: 16, address: sealed, meta: option sealed, registered: millis, last seen: millis
//! ```

use super::{Family, Key, Row, collect, get, tail_u64};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::endpoint::{EndpointPut, read_kind, read_platform, read_status, write_optional};
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{Platform, Status};
use fantail_rules::ids::{AddressHash, ClaimNo, DeviceHash, DeviceNo, Millis, TenantId, UserNo};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

/// Users of one page, as a power of two.
const PAGE_BITS: u32 = 4;

/// The page on which a user's endpoints are.
#[must_use]
pub fn page_of(user: UserNo) -> u64 {
    user.0 >> PAGE_BITS
}

fn slot_of(user: UserNo) -> u8 {
    (user.0 & ((1 << PAGE_BITS) - 1)) as u8
}

#[must_use]
pub fn key(tenant: TenantId, page: u64) -> Vec<u8> {
    Key::new(Family::EndpointPage, tenant).u64(page).finish()
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub device: DeviceNo,
    pub claim: ClaimNo,
    pub status: Status,
    pub kind: ChannelKind,
    pub platform: Platform,
    pub name_hash: DeviceHash,
    pub name: Option<Sealed>,
    pub address_hash: AddressHash,
    pub address: Sealed,
    pub meta: Option<Sealed>,
    /// When the endpoint came to its address.
    pub registered: Millis,
    pub last_seen: Millis,
}

/// Everything of one user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserEndpoints {
    /// The highest number of a device so far; it stays when the device goes.
    pub devices: u16,
    pub claims: u32,
    /// Ascending by device.
    pub endpoints: Vec<Endpoint>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page(BTreeMap<u8, UserEndpoints>);

impl UserEndpoints {
    #[must_use]
    pub fn find(&self, device: DeviceNo) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.device == device)
    }

    #[must_use]
    pub fn by_name(&self, name: DeviceHash) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.name_hash == name)
    }

    /// Folds a put; returns the endpoint as it was.
    pub fn put(&mut self, put: &EndpointPut, at: Millis) -> Option<Endpoint> {
        self.devices = self.devices.max(put.device.0);
        self.claims = self.claims.max(put.claim.0);
        let place = self.endpoints.binary_search_by_key(&put.device, |endpoint| endpoint.device);
        let known = place.ok().map(|found| self.endpoints[found].clone());
        let kept = known.as_ref().filter(|known| known.claim == put.claim);
        let endpoint = Endpoint {
            device: put.device,
            claim: put.claim,
            status: put.status,
            kind: put.kind,
            platform: put.platform,
            name_hash: put.name_hash,
            name: put.name.clone(),
            address_hash: put.address_hash,
            address: put.address.clone(),
            meta: put.meta.clone(),
            registered: kept.map_or(at, |known| known.registered),
            last_seen: at,
        };
        match place {
            Ok(found) => self.endpoints[found] = endpoint,
            Err(place) => self.endpoints.insert(place, endpoint),
        }
        known
    }

    pub fn remove(&mut self, device: DeviceNo) -> Option<Endpoint> {
        let place = self.endpoints.binary_search_by_key(&device, |endpoint| endpoint.device).ok()?;
        Some(self.endpoints.remove(place))
    }
}

impl Page {
    #[must_use]
    pub fn of(&self, user: UserNo) -> Option<&UserEndpoints> {
        self.0.get(&slot_of(user))
    }

    pub(crate) fn of_mut(&mut self, user: UserNo) -> &mut UserEndpoints {
        self.0.entry(slot_of(user)).or_default()
    }

    pub(crate) fn of_known(&mut self, user: UserNo) -> Option<&mut UserEndpoints> {
        self.0.get_mut(&slot_of(user))
    }

    pub(crate) fn forget(&mut self, user: UserNo) -> Option<UserEndpoints> {
        self.0.remove(&slot_of(user))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All users on this page that have, or had, endpoints.
    pub fn users(&self, page: u64) -> impl Iterator<Item = (UserNo, &UserEndpoints)> {
        self.0.iter().map(move |(slot, user)| (UserNo(page << PAGE_BITS | u64::from(*slot)), user))
    }
}

pub fn page(tables: &dyn Tables, tenant: TenantId, page: u64) -> Result<Page, TablesError> {
    Ok(get(tables, &key(tenant, page))?.unwrap_or_default())
}

/// Pages from `first` on, in ascending order, at most `limit`.
pub fn pages_from(
    tables: &dyn Tables,
    tenant: TenantId,
    first: u64,
    limit: usize,
) -> Result<Vec<(u64, Page)>, TablesError> {
    let (from, to) = (key(tenant, first), Key::new(Family::EndpointPage, tenant).end());
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, value| {
        Ok((tail_u64(key, Page::NAME)?, Page::decode(value)?))
    })
}

/// A user's endpoints and the numbers handed out so far.
pub fn state_of(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<UserEndpoints, TablesError> {
    let mut found = Ok(None);
    tables.read(&key(tenant, page_of(user)), &mut |row| {
        let of_user = row.map_or(Ok(None), |row| slot(row, slot_of(user)));
        found = of_user.and_then(|found| found.map(UserEndpoints::read).transpose());
    })?;
    Ok(found.map_err(|malformed| malformed.in_row(Page::NAME))?.unwrap_or_default())
}

/// All endpoints of a user, whatever their status, ascending by device.
pub fn of_user(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<Vec<Endpoint>, TablesError> {
    Ok(state_of(tables, tenant, user)?.endpoints)
}

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
        read = tail_u64(key, Page::NAME).and_then(|no| {
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
        read.map_err(|malformed| malformed.in_row(Page::NAME))?;
    }
    Ok(())
}

fn read_destinations(
    user: &[u8],
    place: usize,
    visit: &mut dyn FnMut(usize, Destination),
) -> Result<(), Malformed> {
    let mut r = Reader::new(user);
    let (_devices, _claims) = (r.u16()?, r.u32()?);
    for _ in 0..r.varint()? {
        visit(place, Destination::read(&mut r)?);
    }
    r.end()
}

/// One user of a page, encoded.
fn slot(row: &[u8], wanted: u8) -> Result<Option<&[u8]>, Malformed> {
    let mut r = Reader::new(row);
    for _ in 0..r.varint()? {
        let (slot, user) = (r.u8()?, r.bytes()?);
        if slot == wanted {
            return Ok(Some(user));
        }
    }
    Ok(None)
}

pub fn find(
    tables: &dyn Tables,
    tenant: TenantId,
    user: UserNo,
    device: DeviceNo,
) -> Result<Option<Endpoint>, TablesError> {
    Ok(state_of(tables, tenant, user)?.find(device).cloned())
}

impl Endpoint {
    fn write(&self, w: &mut Writer) {
        w.device(self.device).claim(self.claim);
        w.u8(self.status as u8).u8(self.kind as u8).u8(self.platform as u8);
        w.fixed(&self.name_hash.0);
        write_optional(w, self.name.as_ref());
        w.fixed(&self.address_hash.0).sealed(&self.address);
        write_optional(w, self.meta.as_ref());
        w.millis(self.registered).millis(self.last_seen);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            device: r.device()?,
            claim: r.claim()?,
            status: read_status(r)?,
            kind: read_kind(r)?,
            platform: read_platform(r)?,
            name_hash: r.device_hash()?,
            name: r.option(Reader::sealed)?,
            address_hash: r.address()?,
            address: r.sealed()?,
            meta: r.option(Reader::sealed)?,
            registered: r.millis()?,
            last_seen: r.millis()?,
        })
    }
}

impl Destination {
    /// As [`Endpoint`], without the rest.
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (device, claim) = (r.device()?, r.claim()?);
        let (status, kind, _platform) = (read_status(r)?, read_kind(r)?, read_platform(r)?);
        r.device_hash()?;
        r.option(Reader::skip_sealed)?;
        r.address()?;
        let address = r.sealed()?;
        r.option(Reader::skip_sealed)?;
        let (_registered, _last_seen) = (r.millis()?, r.millis()?);
        Ok(Self { device, claim, status, kind, address })
    }
}

impl UserEndpoints {
    fn bytes(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.varint(self.devices.into()).varint(self.claims.into());
        w.list(self.endpoints.iter(), |w, endpoint| endpoint.write(w));
        w.finish()
    }

    fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let user = Self { devices: r.u16()?, claims: r.u32()?, endpoints: r.list(Endpoint::read)? };
        r.end()?;
        let ascending = user.endpoints.is_sorted_by(|a, b| a.device < b.device);
        let known = user.devices <= DeviceNo::MAX.0 && ascending;
        if known { Ok(user) } else { Err(Malformed::Value("endpoints")) }
    }
}

impl Row for Page {
    const NAME: &'static str = "endpoint page";

    fn write(&self, w: &mut Writer) {
        w.list(self.0.iter(), |w, (slot, user)| {
            w.u8(*slot).bytes(&user.bytes());
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let users = r.list(|r| Ok((r.u8()?, UserEndpoints::read(r.bytes()?)?)))?;
        let count = users.len();
        let ascending = users.is_sorted_by(|a, b| a.0 < b.0);
        let known = users.iter().all(|(slot, _)| *slot < 1 << PAGE_BITS);
        let page = Self(users.into_iter().collect());
        if known && ascending && page.0.len() == count { Ok(page) } else { Err(Malformed::Value("slot")) }
    }
}
