//! The two rows of a page.
//!
//! ```text
//! 48 tenant page: u64 -> list of (slot: u8, length-prefixed: list of destination)
//! 92 tenant page: u64 -> list of (slot: u8, length-prefixed: devices: varint, claims: varint, list of detail)
//!    user = page * 16 + slot, slots ascend, and one is found without decoding the others;
//!    devices and claims = how many were ever handed out
//!    destination = device, claim, status: u8, kind: u8, address: sealed
//!    detail = device, platform: u8, name hash: 16, name: option sealed, address hash: 16, meta: option sealed,
//!             registered: millis, last seen: millis
//! ```
//! Both rows of a page have the same users, and the same devices of each. Sends read the first alone: it has less than
//! half of the bytes.

use super::{Destination, Endpoint, Page, UserEndpoints};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::endpoint::{read_kind, read_platform, read_status, write_optional};
use crate::tables::{Family, Key, Row, tail_u64};
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::TablesError;
use fantail_rules::endpoint::Platform;
use fantail_rules::ids::{AddressHash, DeviceHash, DeviceNo, Millis, TenantId, UserNo};

/// Users of one page, as a power of two.
const PAGE_BITS: u32 = 4;

/// The page on which a user's endpoints are.
#[must_use]
pub fn page_of(user: UserNo) -> u64 {
    user.0 >> PAGE_BITS
}

pub(super) fn slot_of(user: UserNo) -> u8 {
    (user.0 & ((1 << PAGE_BITS) - 1)) as u8
}

pub(super) fn user_at(page: u64, slot: u8) -> UserNo {
    UserNo(page << PAGE_BITS | u64::from(slot))
}

/// Where the destinations of a page are.
#[must_use]
pub fn key(tenant: TenantId, page: u64) -> Vec<u8> {
    Key::new(Family::Destinations, tenant).u64(page).finish()
}

/// Where the rest of a page is.
#[must_use]
pub fn details_key(tenant: TenantId, page: u64) -> Vec<u8> {
    Key::new(Family::EndpointDetails, tenant).u64(page).finish()
}

pub(super) fn page_no(key: &[u8]) -> Result<u64, TablesError> {
    tail_u64(key, Destinations::NAME)
}

/// What is kept for each user of a page.
pub trait OfUser: Sized {
    const NAME: &'static str;

    fn write(&self, w: &mut Writer);
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// By slot, ascending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slots<T>(Vec<(u8, T)>);

pub type Destinations = Slots<Vec<Destination>>;
pub type Details = Slots<UserDetails>;

/// Whatever of a user no send asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserDetails {
    devices: u16,
    claims: u32,
    details: Vec<Detail>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Detail {
    device: DeviceNo,
    platform: Platform,
    name_hash: DeviceHash,
    name: Option<Sealed>,
    address_hash: AddressHash,
    meta: Option<Sealed>,
    registered: Millis,
    last_seen: Millis,
}

/// One user's part of a row, encoded.
pub(super) fn slot(row: &[u8], wanted: u8) -> Result<Option<&[u8]>, Malformed> {
    let mut r = Reader::new(row);
    for _ in 0..r.varint()? {
        let (slot, user) = (r.u8()?, r.bytes()?);
        if slot == wanted {
            return Ok(Some(user));
        }
    }
    Ok(None)
}

/// One user's part of a row.
pub(super) fn of_user<T: OfUser>(row: &[u8], user: UserNo) -> Result<Option<T>, TablesError> {
    let found = slot(row, slot_of(user)).and_then(|found| found.map(whole).transpose());
    found.map_err(|malformed| malformed.in_row(T::NAME))
}

fn whole<T: OfUser>(bytes: &[u8]) -> Result<T, Malformed> {
    let mut r = Reader::new(bytes);
    let of_user = T::read(&mut r)?;
    r.end()?;
    Ok(of_user)
}

impl<T: OfUser> Row for Slots<T> {
    const NAME: &'static str = T::NAME;

    fn write(&self, w: &mut Writer) {
        w.list(self.0.iter(), |w, (slot, of_user)| {
            let mut bytes = Writer::default();
            of_user.write(&mut bytes);
            w.u8(*slot).bytes(&bytes.finish());
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let slots = r.list(|r| Ok((r.u8()?, whole(r.bytes()?)?)))?;
        let ascending = slots.is_sorted_by(|a, b| a.0 < b.0);
        let known = slots.iter().all(|(slot, _)| *slot < 1 << PAGE_BITS);
        if known && ascending { Ok(Self(slots)) } else { Err(Malformed::Value("slot")) }
    }
}

/// A page as its two rows.
pub(super) fn split(page: &Page) -> (Destinations, Details) {
    let destinations = page.0.iter().map(|(slot, user)| (*slot, user.destinations()));
    let details = page.0.iter().map(|(slot, user)| (*slot, UserDetails::of(user)));
    (Slots(destinations.collect()), Slots(details.collect()))
}

/// The page of two rows.
pub(super) fn join(destinations: Destinations, details: Details) -> Result<Page, TablesError> {
    let apart = || Malformed::Value("slot").in_row(Details::NAME);
    if destinations.0.len() != details.0.len() {
        return Err(apart());
    }
    let mut page = Page::default();
    for ((slot, destinations), (other, details)) in destinations.0.into_iter().zip(details.0) {
        if slot != other {
            return Err(apart());
        }
        page.0.insert(slot, details.with(destinations)?);
    }
    Ok(page)
}

impl UserDetails {
    fn of(user: &UserEndpoints) -> Self {
        let detail = |one: &Endpoint| Detail {
            device: one.device,
            platform: one.platform,
            name_hash: one.name_hash,
            name: one.name.clone(),
            address_hash: one.address_hash,
            meta: one.meta.clone(),
            registered: one.registered,
            last_seen: one.last_seen,
        };
        let details = user.endpoints.iter().map(detail).collect();
        Self { devices: user.devices, claims: user.claims, details }
    }

    pub(super) fn with(self, destinations: Vec<Destination>) -> Result<UserEndpoints, TablesError> {
        let devices = self.details.iter().map(|detail| detail.device);
        if !destinations.iter().map(|one| one.device).eq(devices) {
            return Err(Malformed::Value("endpoints").in_row(Details::NAME));
        }
        let endpoint = |(to, detail): (Destination, Detail)| Endpoint {
            device: to.device,
            claim: to.claim,
            status: to.status,
            kind: to.kind,
            platform: detail.platform,
            name_hash: detail.name_hash,
            name: detail.name,
            address_hash: detail.address_hash,
            address: to.address,
            meta: detail.meta,
            registered: detail.registered,
            last_seen: detail.last_seen,
        };
        let endpoints = destinations.into_iter().zip(self.details).map(endpoint).collect();
        Ok(UserEndpoints { devices: self.devices, claims: self.claims, endpoints })
    }
}

impl OfUser for UserDetails {
    const NAME: &'static str = "endpoint details";

    fn write(&self, w: &mut Writer) {
        w.varint(self.devices.into()).varint(self.claims.into());
        w.list(self.details.iter(), |w, detail| {
            w.device(detail.device).u8(detail.platform as u8).fixed(&detail.name_hash.0);
            write_optional(w, detail.name.as_ref());
            w.fixed(&detail.address_hash.0);
            write_optional(w, detail.meta.as_ref());
            w.millis(detail.registered).millis(detail.last_seen);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let detail = |r: &mut Reader<'_>| {
            Ok(Detail {
                device: r.device()?,
                platform: read_platform(r)?,
                name_hash: r.device_hash()?,
                name: r.option(Reader::sealed)?,
                address_hash: r.address()?,
                meta: r.option(Reader::sealed)?,
                registered: r.millis()?,
                last_seen: r.millis()?,
            })
        };
        let user = Self { devices: r.u16()?, claims: r.u32()?, details: r.list(detail)? };
        let ascending = user.details.is_sorted_by(|a, b| a.device < b.device);
        let known = user.devices <= DeviceNo::MAX.0 && ascending;
        if known { Ok(user) } else { Err(Malformed::Value("endpoints")) }
    }
}

impl OfUser for Vec<Destination> {
    const NAME: &'static str = "destinations";

    fn write(&self, w: &mut Writer) {
        w.list(self.iter(), |w, one| {
            w.device(one.device)
                .claim(one.claim)
                .u8(one.status as u8)
                .u8(one.kind as u8)
                .sealed(&one.address);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let all = r.list(Destination::read)?;
        let ascending = all.is_sorted_by(|a, b| a.device < b.device);
        if ascending { Ok(all) } else { Err(Malformed::Value("destinations")) }
    }
}

impl Destination {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (device, claim) = (r.device()?, r.claim()?);
        let (status, kind, address) = (read_status(r)?, read_kind(r)?, r.sealed()?);
        Ok(Self { device, claim, status, kind, address })
    }
}
