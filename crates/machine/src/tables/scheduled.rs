//! What a front holds back, and what can be called off together.
//!
//! ```text
//! 21 due: u64 tenant: u32 event: ulid -> audience     released by the record that deletes it
//! 22 tenant key: 16 event: ulid       -> nothing      accepted under this cancellation key; goes with its event
//! 23 tenant                            -> varint       how many of the tenant are held
//! 29 tenant                            -> varint       how many of these are walks
//! ```
//! The first one is ordered by time for all tenants of the front: the clock asks for it, never a caller.

use super::seek::{self, DueLook};
use super::usage::{self, Balance};
use super::{Family, Key, Row, collect, get, put};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::front::Audience;
use crate::view::View;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::ulid::Ulid;

/// Something that is to be released.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    pub due: Millis,
    pub tenant: TenantId,
    pub event: Ulid,
    pub audience: Audience,
}

/// Names what is held back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldId {
    pub due: Millis,
    pub tenant: TenantId,
    pub event: Ulid,
}

/// How many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count(pub u64);

#[must_use]
pub fn key(due: Millis, tenant: TenantId, event: Ulid) -> Vec<u8> {
    let key = Key::of_partition(Family::Scheduled).u64(due.0).bytes(&tenant.0.to_be_bytes());
    key.bytes(&event.bytes()).finish()
}

/// Offers what is due by a time, the earliest first, from a key on. Looks at so many rows at most.
pub fn look_for_due(
    tables: &dyn Tables,
    from: Option<&[u8]>,
    by: Millis,
    limit: usize,
    accept: &mut dyn FnMut(HeldId) -> bool,
) -> Result<DueLook, TablesError> {
    seek::look_for_due(tables, Family::Scheduled, from, by, limit, &mut |key| {
        parse(key).map(&mut *accept).ok_or_else(malformed)
    })
}

/// What is held back, if it is still.
pub fn find(tables: &dyn Tables, id: HeldId) -> Result<Option<Held>, TablesError> {
    let HeldId { due, tenant, event } = id;
    let audience = get(tables, &key(due, tenant, event))?;
    Ok(audience.map(|audience| Held { due, tenant, event, audience }))
}

/// How many of a tenant's are held back.
pub fn count(tables: &dyn Tables, tenant: TenantId) -> Result<u64, TablesError> {
    Ok(get::<Count>(tables, &count_key(tenant))?.map_or(0, |count| count.0))
}

/// How many walks of a tenant are held back.
pub fn walks(tables: &dyn Tables, tenant: TenantId) -> Result<u64, TablesError> {
    Ok(get::<Count>(tables, &walks_key(tenant))?.map_or(0, |count| count.0))
}

/// Holds an event back.
pub(crate) fn hold(view: &mut View<'_>, held: &Held, balance: &mut Balance) -> Result<(), TablesError> {
    let Held { due, tenant, event, audience } = held;
    let count = count(view, *tenant)?;
    let row = audience.encode();
    balance.add(None, usage::weight_of_row(&row));
    view.put(key(*due, *tenant, *event), row);
    put(view, count_key(*tenant), &Count(count + 1));
    if matches!(audience, Audience::Walked(_)) {
        let walks = walks(view, *tenant)?;
        put(view, walks_key(*tenant), &Count(walks + 1));
    }
    Ok(())
}

/// Holds an event back no more. Nothing if it was not.
pub(crate) fn let_go(
    view: &mut View<'_>,
    due: Millis,
    tenant: TenantId,
    event: Ulid,
) -> Result<(), TablesError> {
    let key = key(due, tenant, event);
    let Some(row) = view.get(&key)? else { return Ok(()) };
    view.delete(key);
    let mut balance = Balance::default();
    balance.remove(None, usage::weight_of_row(&row));
    balance.write(view, tenant)?;
    // Zero for what an earlier version held, which did not count.
    match count(view, tenant)?.saturating_sub(1) {
        0 => view.delete(count_key(tenant)),
        left => put(view, count_key(tenant), &Count(left)),
    }
    if !Audience::is_walk(&row) {
        return Ok(());
    }
    match walks(view, tenant)? {
        0 => {}
        1 => view.delete(walks_key(tenant)),
        more => put(view, walks_key(tenant), &Count(more - 1)),
    }
    Ok(())
}

#[must_use]
pub fn count_key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::ScheduledCount, tenant).finish()
}

#[must_use]
pub fn walks_key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::ScheduledWalks, tenant).finish()
}

/// When the next one is due.
pub fn earliest(tables: &dyn Tables) -> Result<Option<Millis>, TablesError> {
    let prefix = Key::of_partition(Family::Scheduled);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    let first = collect(tables, range, Order::Ascending, 1, |key, _| {
        parse(key).map(|id| id.due).ok_or_else(malformed)
    })?;
    Ok(first.first().copied())
}

fn parse(key: &[u8]) -> Option<HeldId> {
    let due = Millis(u64::from_be_bytes(key.get(1..9)?.try_into().ok()?));
    let tenant = TenantId(u32::from_be_bytes(key.get(9..13)?.try_into().ok()?));
    Some(HeldId { due, tenant, event: Ulid::from_bytes(key.get(13..)?.try_into().ok()?) })
}

fn malformed() -> TablesError {
    Malformed::Value("schedule key").in_row(Audience::NAME)
}

#[must_use]
pub fn cancellation_key(tenant: TenantId, cancellation: &[u8; 16], event: Ulid) -> Vec<u8> {
    Key::new(Family::CancellationKey, tenant).bytes(cancellation).bytes(&event.bytes()).finish()
}

/// Events that were accepted under a cancellation key, above one of them.
pub fn cancellable(
    tables: &dyn Tables,
    tenant: TenantId,
    cancellation: &[u8; 16],
    after: Option<Ulid>,
    limit: usize,
) -> Result<Vec<Ulid>, TablesError> {
    let prefix = Key::new(Family::CancellationKey, tenant).bytes(cancellation);
    let from = match after {
        None => prefix.clone().finish(),
        Some(after) => [cancellation_key(tenant, cancellation, after), vec![0]].concat(),
    };
    collect(tables, KeyRange { from: &from, to: &prefix.end() }, Order::Ascending, limit, |key, _| {
        let event = key.get(21..).and_then(|tail| tail.try_into().ok()).map(Ulid::from_bytes);
        event.ok_or_else(|| Malformed::Value("cancellation key").in_row(Audience::NAME))
    })
}

impl Row for Audience {
    const NAME: &'static str = "held audience";

    fn write(&self, w: &mut Writer) {
        Self::write(self, w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::read(r)
    }
}

impl Row for Count {
    const NAME: &'static str = "scheduled count";

    fn write(&self, w: &mut Writer) {
        w.varint(self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.varint().map(Self)
    }
}
