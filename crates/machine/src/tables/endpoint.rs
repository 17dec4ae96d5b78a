//! The endpoints of users, those of sixteen users together, so that a dense parcel reads few rows: one row with where to
//! send, and one with all the rest.

mod destination;
mod rows;

pub use destination::{Destination, destinations};
pub use rows::{Destinations, Details, details_key, key, page_of};

use super::{Key, Row, collect};
use crate::records::endpoint::EndpointPut;
use crate::view::View;
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{Platform, Status};
use fantail_rules::ids::{AddressHash, ClaimNo, DeviceHash, DeviceNo, Millis, TenantId, UserNo};
use rows::{UserDetails, join, page_no, slot_of, split, user_at};
use std::collections::BTreeMap;

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

    fn destinations(&self) -> Vec<Destination> {
        let destination = |one: &Endpoint| Destination {
            device: one.device,
            claim: one.claim,
            status: one.status,
            kind: one.kind,
            address: one.address.clone(),
        };
        self.endpoints.iter().map(destination).collect()
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
        self.0.iter().map(move |(slot, user)| (user_at(page, *slot), user))
    }
}

/// A page that is being changed, and its rows as they were.
pub(crate) struct OpenPage {
    no: u64,
    pub page: Page,
    destinations: Option<Vec<u8>>,
    details: Option<Vec<u8>>,
}

impl OpenPage {
    pub(crate) fn open(tables: &dyn Tables, tenant: TenantId, no: u64) -> Result<Self, TablesError> {
        let destinations = tables.get(&key(tenant, no))?;
        let details = tables.get(&details_key(tenant, no))?;
        let page = match (&destinations, &details) {
            (None, None) => Page::default(),
            _ => join(decoded(destinations.as_deref())?, decoded(details.as_deref())?)?,
        };
        Ok(Self { no, page, destinations, details })
    }

    pub(crate) fn is(&self, no: u64) -> bool {
        self.no == no
    }

    /// Writes the rows that changed.
    pub(crate) fn write(&self, view: &mut View<'_>, tenant: TenantId) {
        let (destinations, details) = split(&self.page);
        let row = |bytes: Vec<u8>| (!self.page.is_empty()).then_some(bytes);
        let rows = [
            (key(tenant, self.no), &self.destinations, row(destinations.encode())),
            (details_key(tenant, self.no), &self.details, row(details.encode())),
        ];
        for (key, before, now) in rows.into_iter().filter(|(_, before, now)| *before != now) {
            match now {
                Some(row) => view.put(key, row),
                None if before.is_some() => view.delete(key),
                None => {}
            }
        }
    }
}

/// A row that is missing has nobody on it.
fn decoded<R: Row>(row: Option<&[u8]>) -> Result<R, TablesError> {
    R::decode(row.unwrap_or(&[0]))
}

pub fn page(tables: &dyn Tables, tenant: TenantId, no: u64) -> Result<Page, TablesError> {
    Ok(OpenPage::open(tables, tenant, no)?.page)
}

/// Pages from `first` on, in ascending order, at most `limit`.
pub fn pages_from(
    tables: &dyn Tables,
    tenant: TenantId,
    first: u64,
    limit: usize,
) -> Result<Vec<(u64, Page)>, TablesError> {
    let (from, to) = (key(tenant, first), Key::new(super::Family::Destinations, tenant).end());
    let range = KeyRange { from: &from, to: &to };
    let pages = collect(tables, range, Order::Ascending, limit, |key, row| {
        Ok((page_no(key)?, Destinations::decode(row)?))
    })?;
    let page = |(no, destinations)| {
        let details = tables.get(&details_key(tenant, no))?;
        Ok((no, join(destinations, decoded(details.as_deref())?)?))
    };
    pages.into_iter().map(page).collect()
}

/// A user's endpoints and the numbers handed out so far.
pub fn state_of(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<UserEndpoints, TablesError> {
    let (mut destinations, mut details) = (Ok(None), Ok(None));
    let no = page_of(user);
    tables.read(&key(tenant, no), &mut |row| {
        destinations = row.map_or(Ok(None), |row| rows::of_user::<Vec<Destination>>(row, user));
    })?;
    tables.read(&details_key(tenant, no), &mut |row| {
        details = row.map_or(Ok(None), |row| rows::of_user::<UserDetails>(row, user));
    })?;
    details?.unwrap_or_default().with(destinations?.unwrap_or_default())
}

/// All endpoints of a user, whatever their status, ascending by device.
pub fn of_user(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<Vec<Endpoint>, TablesError> {
    Ok(state_of(tables, tenant, user)?.endpoints)
}

pub fn find(
    tables: &dyn Tables,
    tenant: TenantId,
    user: UserNo,
    device: DeviceNo,
) -> Result<Option<Endpoint>, TablesError> {
    Ok(state_of(tables, tenant, user)?.find(device).cloned())
}
