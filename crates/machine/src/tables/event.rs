//! Events as a front keeps them: content once, however many users have it; and the front's own state.
//!
//! ```text
//! 16                    -> last: ulid
//! 18 tenant event: ulid -> flags: u8 (1 retracted, 2 cancelled, 4 released), at: millis, kind, category, priority,
//!                          actor: option sealed, content: sealed, delivery: option (channels: u8, terms), personal: varint,
//!                          recipients: varint, options
//! 20 tenant event: ulid shard: u16 user: u64 -> content: sealed     of this recipient alone
//! ```

use super::look::{FoundRows, LookMax, look};
use super::{Family, Key, Row, collect, get, usage};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::front::{Delivery, Options};
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{FrontNo, Millis, ShardNo, TenantId, UserNo};
use fantail_rules::ulid::Ulid;
use std::ops::Range;

#[must_use]
pub fn key(tenant: TenantId, event: Ulid) -> Vec<u8> {
    Key::new(Family::Event, tenant).bytes(&event.bytes()).finish()
}

#[must_use]
pub fn state_key() -> Vec<u8> {
    Key::of_partition(Family::FrontState).finish()
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventRow {
    pub retracted: bool,
    pub cancelled: bool,
    /// It was scheduled, and its time has come.
    pub released: bool,
    pub at: Millis,
    pub kind: String,
    pub category: String,
    pub priority: u8,
    pub actor: Option<Sealed>,
    pub content: Sealed,
    /// How it leaves the house, if it does.
    pub delivery: Option<Delivery>,
    /// How many recipients have content of their own.
    pub personal: u64,
    /// How many were named; 0 for a list.
    pub recipients: u64,
    pub options: Options,
}

impl EventRow {
    /// Until when the front holds it back, if it does.
    #[must_use]
    pub fn held_until(&self) -> Option<Millis> {
        self.options.due.filter(|_| !self.released && !self.is_called_off())
    }

    /// Whether it was called off before anybody heard of it.
    #[must_use]
    pub fn is_stillborn(&self) -> bool {
        self.options.due.is_some() && !self.released && self.is_called_off()
    }

    fn is_called_off(&self) -> bool {
        self.cancelled || self.retracted
    }
}

/// What one recipient alone is told.
pub struct PersonalRow(pub Sealed);

/// The last id this front minted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrontState {
    pub last: Ulid,
}

pub fn find(tables: &dyn Tables, tenant: TenantId, event: Ulid) -> Result<Option<EventRow>, TablesError> {
    get(tables, &key(tenant, event))
}

pub fn state(tables: &dyn Tables) -> Result<FrontState, TablesError> {
    Ok(get(tables, &state_key())?.unwrap_or_default())
}

/// Some events older than `before`, oldest first, of which nothing could be sent after `sent_before`. At most so many rows
/// are looked at.
pub fn outdated(
    tables: &dyn Tables,
    tenant: TenantId,
    before: Millis,
    sent_before: Millis,
    limit: Limit,
) -> Result<Vec<(Ulid, u64)>, TablesError> {
    let from = Key::new(Family::Event, tenant).finish();
    let to = key(tenant, Ulid::new(before, FrontNo(0), 0));
    let range = KeyRange { from: &from, to: &to };
    let found = collect(tables, range, Order::Ascending, limit.rows, |key, row| {
        let tail = key.get(5..).and_then(|tail| tail.try_into().ok());
        let event = tail.map(Ulid::from_bytes).ok_or_else(|| Malformed::Short.in_row(EventRow::NAME))?;
        let row = EventRow::decode(row)?;
        let is_over = row.delivery.is_none_or(|delivery| delivery.terms.expires_at < sent_before);
        Ok(is_over.then_some((event, row.personal)))
    })?;
    Ok(found.into_iter().flatten().take(limit.events).collect())
}

/// Some events from one id up to another, which is not included, the newest first, and the one that was looked at last if there
/// are more. Events of other categories count as rows.
pub fn newest(
    tables: &dyn Tables,
    tenant: TenantId,
    ids: Range<Ulid>,
    category: Option<&str>,
    most: LookMax,
) -> Result<FoundRows<Ulid, EventRow>, TablesError> {
    let (from, to) = (key(tenant, ids.start), key(tenant, ids.end));
    let range = KeyRange { from: &from, to: &to };
    let looked = look(tables, range, Order::Descending, most, |key, row| {
        let row = EventRow::decode(row)?;
        let is_meant = category.is_none_or(|category| category == row.category);
        if is_meant { Ok(Some((event_of(key)?, row))) } else { Ok(None) }
    })?;
    Ok((looked.found, looked.cut_at.map(|key| event_of(&key)).transpose()?))
}

fn event_of(key: &[u8]) -> Result<Ulid, TablesError> {
    let tail = key.get(5..).and_then(|tail| tail.try_into().ok());
    tail.map(Ulid::from_bytes).ok_or_else(|| Malformed::Short.in_row(EventRow::NAME))
}

/// How many rows may be looked at, and how many events may be found.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub rows: usize,
    pub events: usize,
}

/// Names what one recipient alone is told of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PersonalPlace {
    pub event: Ulid,
    pub shard: ShardNo,
    pub user: UserNo,
}

impl PersonalPlace {
    fn parse(key: &[u8]) -> Option<Self> {
        let (event, tail) = key.get(5..)?.split_first_chunk()?;
        let (shard, user) = tail.split_first_chunk()?;
        let (shard, user) = (u16::from_be_bytes(*shard), u64::from_be_bytes(user.try_into().ok()?));
        Some(Self { event: Ulid::from_bytes(*event), shard: ShardNo(shard), user: UserNo(user) })
    }
}

/// Rows of all recipients behind one, in order.
pub fn personal_behind(
    tables: &dyn Tables,
    tenant: TenantId,
    behind: Option<PersonalPlace>,
    limit: usize,
) -> Result<Vec<PersonalPlace>, TablesError> {
    let all = Key::new(Family::Personal, tenant);
    let from = match behind {
        None => all.clone().finish(),
        Some(PersonalPlace { event, shard, user }) => {
            [personal_key(tenant, event, shard, user), vec![0]].concat()
        }
    };
    collect(tables, KeyRange { from: &from, to: &all.end() }, Order::Ascending, limit, |key, _| {
        PersonalPlace::parse(key).ok_or_else(|| Malformed::Short.in_row(PersonalRow::NAME))
    })
}

#[must_use]
pub fn personal_key(tenant: TenantId, event: Ulid, shard: ShardNo, user: UserNo) -> Vec<u8> {
    let key = Key::new(Family::Personal, tenant).bytes(&event.bytes()).bytes(&shard.0.to_be_bytes());
    key.u64(user.0).finish()
}

pub fn personal(
    tables: &dyn Tables,
    tenant: TenantId,
    event: Ulid,
    shard: ShardNo,
    user: UserNo,
) -> Result<Option<Sealed>, TablesError> {
    let row: Option<PersonalRow> = get(tables, &personal_key(tenant, event, shard, user))?;
    Ok(row.map(|row| row.0))
}

/// What each of these users, who ascend, is told alone; with its place among them.
pub fn personals(
    tables: &dyn Tables,
    tenant: TenantId,
    event: Ulid,
    (shard, users): (ShardNo, &[UserNo]),
) -> Result<Vec<(usize, Sealed)>, TablesError> {
    let (Some(first), Some(last)) = (users.first(), users.last()) else { return Ok(Vec::new()) };
    let from = personal_key(tenant, event, shard, *first);
    let to = [personal_key(tenant, event, shard, *last), vec![0]].concat();
    let found =
        collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, usize::MAX, |key, row| {
            let place =
                PersonalPlace::parse(key).ok_or_else(|| Malformed::Short.in_row(PersonalRow::NAME))?;
            let Ok(at) = users.binary_search(&place.user) else { return Ok(None) };
            Ok(Some((at, PersonalRow::decode(row)?.0)))
        })?;
    Ok(found.into_iter().flatten().collect())
}

/// The keys of all personal contents of an event.
pub(crate) fn personal_rows(
    tables: &dyn Tables,
    tenant: TenantId,
    event: Ulid,
) -> Result<Vec<(Vec<u8>, u64)>, TablesError> {
    let prefix = Key::new(Family::Personal, tenant).bytes(&event.bytes());
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    collect(tables, range, Order::Ascending, usize::MAX, |key, row| {
        Ok((key.to_vec(), usage::weight_of_row(row)))
    })
}

impl Row for EventRow {
    const NAME: &'static str = "event";

    fn write(&self, w: &mut Writer) {
        let flags = u8::from(self.retracted) | u8::from(self.cancelled) << 1 | u8::from(self.released) << 2;
        w.u8(flags).millis(self.at).text(&self.kind).text(&self.category).u8(self.priority);
        w.option(self.actor.as_ref(), |w, actor| {
            w.sealed(actor);
        });
        w.sealed(&self.content).option(self.delivery.as_ref(), |w, delivery| delivery.write(w));
        w.varint(self.personal).varint(self.recipients);
        self.options.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let flags = r.u8()?;
        if flags > 7 {
            return Err(Malformed::Value("flags"));
        }
        Ok(Self {
            retracted: flags & 1 != 0,
            cancelled: flags & 2 != 0,
            released: flags & 4 != 0,
            at: r.millis()?,
            kind: r.text()?,
            category: r.text()?,
            priority: r.u8()?,
            actor: r.option(Reader::sealed)?,
            content: r.sealed()?,
            delivery: r.option(Delivery::read)?,
            personal: r.varint()?,
            recipients: r.varint()?,
            options: Options::read(r)?,
        })
    }
}

impl Row for PersonalRow {
    const NAME: &'static str = "personal content";

    fn write(&self, w: &mut Writer) {
        w.sealed(&self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.sealed().map(Self)
    }
}

impl Row for FrontState {
    const NAME: &'static str = "front state";

    fn write(&self, w: &mut Writer) {
        w.ulid(self.last);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { last: r.ulid()? })
    }
}
