//! Windows: what is collected for one user, channel and key, until it is told together.
//!
//! ```text
//! 73 tenant user: u64 channel: u8 key: u64 -> no: varint       the window that is open
//! 74 tenant no: u64                        -> user, channel: u8, key: 8, sends: terms of work, kind: u8, terms, closes,
//!                                             led: varint, held: varint, ending: u8, digest: option ulid, events: list of ulid
//! 75 tenant no: u64 arrival: u64           -> first: user      an item that waits, and the parcel whose ledger has it
//! 76 closes: u64 tenant no: u64            -> (empty)          the window's end
//! 77 tenant                                -> no: varint       of the latest window
//! 79 tenant user: u64 category: 8          -> slot: varint, counts: 9 bytes      what came lately; see `rules::digest::Storm`
//!
//! terms = window seconds: varint, min: varint, max: varint, leading: varint
//! ```
//! A window has a number of its own, so that what waits in one that is being closed is never mistaken for what came after
//! it. Row 74 outlives the window until its digest is written.

use super::seek::{self, DueLook};
use super::{Family, Key, Row, collect, get, work};
use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::category::CategoryId;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::digest::{Storm, Terms, Window};
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

/// Dense per tenant and shard, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WindowNo(pub u64);

/// What a window is opened for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WindowKey {
    pub user: UserNo,
    pub channel: ChannelKind,
    /// What belongs together; see `rules::digest::group`.
    pub key: u64,
}

/// Why things are collected. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The category is collected.
    Category = 1,
    /// So much came that it is.
    Storm = 2,
    /// The user had enough for now.
    Capped = 3,
    /// The user wants it once a day, or once a week.
    Calendar = 4,
}

/// Where a window stands. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Ending {
    Open = 0,
    /// It is closed, and what waits becomes one digest.
    Digest = 1,
    /// It is closed, and what waits is told singly.
    Singly = 2,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowRow {
    pub of: WindowKey,
    /// What its latest item is held to, and so its digest, but for the time to live.
    pub sends: work::Terms,
    pub kind: Kind,
    pub terms: Terms,
    pub window: Window,
    pub ending: Ending,
    /// The digest that takes what waits, once the first of it was taken.
    pub digest: Option<Ulid>,
    /// What the digest has taken, in the order of arrival.
    pub events: Vec<Ulid>,
}

/// The window that is open, or the latest one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRow(pub WindowNo);

/// The parcel that has an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItemRow {
    pub first: UserNo,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Category, Self::Storm, Self::Capped, Self::Calendar];

    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

impl WindowKey {
    #[must_use]
    pub fn row_key(self, tenant: TenantId) -> Vec<u8> {
        let key = Key::new(Family::WindowOpen, tenant).u64(self.user.0);
        key.bytes(&[self.channel as u8]).u64(self.key).finish()
    }

    pub(crate) fn write(self, w: &mut Writer) {
        w.user(self.user).u8(self.channel as u8).fixed(&self.key.to_le_bytes());
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let user = r.user()?;
        let channel = ChannelKind::from_stored(r.u8()?).ok_or(Malformed::Value("channel"))?;
        Ok(Self { user, channel, key: u64::from_le_bytes(r.array()?) })
    }
}

#[must_use]
pub fn key(tenant: TenantId, no: WindowNo) -> Vec<u8> {
    Key::new(Family::Window, tenant).u64(no.0).finish()
}

#[must_use]
pub fn item_key(tenant: TenantId, no: WindowNo, arrival: Arrival) -> Vec<u8> {
    Key::new(Family::WindowItem, tenant).u64(no.0).u64(arrival.0).finish()
}

#[must_use]
pub fn timer_key(closes_at: Millis, tenant: TenantId, no: WindowNo) -> Vec<u8> {
    let key = Key::of_partition(Family::WindowTimer).u64(closes_at.0).bytes(&tenant.0.to_be_bytes());
    key.u64(no.0).finish()
}

#[must_use]
pub fn latest_key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::WindowLatest, tenant).finish()
}

#[must_use]
pub fn storm_key(tenant: TenantId, user: UserNo, category: CategoryId) -> Vec<u8> {
    Key::new(Family::Storm, tenant).u64(user.0).u64(category.0).finish()
}

/// How many windows are open for a user.
pub fn of_user(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<usize, TablesError> {
    Ok(keys_of(tables, Key::new(Family::WindowOpen, tenant).u64(user.0))?.len())
}

/// The rows of what came lately for a user.
pub(crate) fn storms_of(
    tables: &dyn Tables,
    tenant: TenantId,
    user: UserNo,
) -> Result<Vec<Vec<u8>>, TablesError> {
    keys_of(tables, Key::new(Family::Storm, tenant).u64(user.0))
}

fn keys_of(tables: &dyn Tables, prefix: Key) -> Result<Vec<Vec<u8>>, TablesError> {
    let (from, to) = (prefix.clone().finish(), prefix.end());
    collect(
        tables,
        KeyRange { from: &from, to: &to },
        Order::Ascending,
        usize::MAX,
        |key, _| Ok(key.to_vec()),
    )
}

pub fn find(tables: &dyn Tables, tenant: TenantId, no: WindowNo) -> Result<Option<WindowRow>, TablesError> {
    get(tables, &key(tenant, no))
}

/// The window that is open for this.
pub fn open(
    tables: &dyn Tables,
    tenant: TenantId,
    of: WindowKey,
) -> Result<Option<(WindowNo, WindowRow)>, TablesError> {
    let Some(NoRow(no)) = get(tables, &of.row_key(tenant))? else { return Ok(None) };
    Ok(find(tables, tenant, no)?.map(|row| (no, row)))
}

/// Windows of one user that are looked at for an item.
const LOOKED_AT_MAX: usize = 1_000;

/// The open window in which an item waits. `None` if it waits in none, or in one that is over.
pub fn holding(
    tables: &dyn Tables,
    tenant: TenantId,
    (user, channel): (UserNo, ChannelKind),
    item: Arrival,
) -> Result<Option<WindowRow>, TablesError> {
    let prefix = Key::new(Family::WindowOpen, tenant).u64(user.0).bytes(&[channel as u8]);
    let (from, to) = (prefix.clone().finish(), prefix.end());
    let range = KeyRange { from: &from, to: &to };
    let open = collect(tables, range, Order::Ascending, LOOKED_AT_MAX, |_, row| NoRow::decode(row))?;
    for NoRow(no) in open {
        if get::<ItemRow>(tables, &item_key(tenant, no, item))?.is_some() {
            return find(tables, tenant, no);
        }
    }
    Ok(None)
}

/// The number of the latest window of a tenant.
pub fn latest(tables: &dyn Tables, tenant: TenantId) -> Result<WindowNo, TablesError> {
    Ok(get::<NoRow>(tables, &latest_key(tenant))?.map_or(WindowNo(0), |row| row.0))
}

pub fn storm(
    tables: &dyn Tables,
    tenant: TenantId,
    user: UserNo,
    category: CategoryId,
) -> Result<Storm, TablesError> {
    Ok(get(tables, &storm_key(tenant, user, category))?.unwrap_or_default())
}

/// What waits in a window, in the order of arrival.
pub fn items(
    tables: &dyn Tables,
    tenant: TenantId,
    no: WindowNo,
    limit: usize,
) -> Result<Vec<(Arrival, ItemRow)>, TablesError> {
    let prefix = Key::new(Family::WindowItem, tenant).u64(no.0);
    let (from, to) = (prefix.clone().finish(), prefix.end());
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, row| {
        Ok((Arrival(super::tail_u64(key, ItemRow::NAME)?), ItemRow::decode(row)?))
    })
}

/// The end of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowEnd {
    pub closes_at: Millis,
    pub tenant: TenantId,
    pub no: WindowNo,
}

/// The earliest ends of windows from a time on, of all tenants.
pub fn ends(
    tables: &dyn Tables,
    from: Millis,
    through: Millis,
    limit: usize,
) -> Result<Vec<WindowEnd>, TablesError> {
    let from = ends_from(from);
    let to = Key::of_partition(Family::WindowTimer).u64(through.0.saturating_add(1)).finish();
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, _| end_of(key))
}

/// The first key of the ends of windows at or after a time.
#[must_use]
pub fn ends_from(from: Millis) -> Vec<u8> {
    Key::of_partition(Family::WindowTimer).u64(from.0).finish()
}

/// Offers the ends of windows by a time, the earliest first, from a key on. Looks at so many rows at most.
pub fn look_for_ends(
    tables: &dyn Tables,
    from: Option<&[u8]>,
    by: Millis,
    limit: usize,
    accept: &mut dyn FnMut(WindowEnd) -> bool,
) -> Result<DueLook, TablesError> {
    seek::look_for_due(tables, Family::WindowTimer, from, by, limit, &mut |key| end_of(key).map(&mut *accept))
}

fn end_of(key: &[u8]) -> Result<WindowEnd, TablesError> {
    let malformed = || Malformed::Value("window timer").in_row(WindowRow::NAME);
    let closes_at = key.get(1..9).and_then(|bytes| bytes.try_into().ok()).ok_or_else(malformed)?;
    let tenant = key.get(9..13).and_then(|bytes| bytes.try_into().ok()).ok_or_else(malformed)?;
    Ok(WindowEnd {
        closes_at: Millis(u64::from_be_bytes(closes_at)),
        tenant: TenantId(u32::from_be_bytes(tenant)),
        no: WindowNo(super::tail_u64(key, WindowRow::NAME)?),
    })
}

pub(crate) fn write_terms(w: &mut Writer, terms: &Terms) {
    let Terms { window_seconds, min_count, max_count, leading } = *terms;
    w.varint(window_seconds.into()).varint(min_count.into()).varint(max_count.into()).varint(leading.into());
}

pub(crate) fn read_terms(r: &mut Reader<'_>) -> Result<Terms, Malformed> {
    Ok(Terms { window_seconds: r.u32()?, min_count: r.u16()?, max_count: r.u16()?, leading: r.u16()? })
}

pub(crate) fn write_window(w: &mut Writer, window: &Window) {
    w.millis(window.closes_at).varint(window.led.into()).varint(window.held.into());
}

pub(crate) fn read_window(r: &mut Reader<'_>) -> Result<Window, Malformed> {
    Ok(Window { closes_at: r.millis()?, led: r.u16()?, held: r.u16()? })
}

pub(crate) fn write_storm(w: &mut Writer, storm: &Storm) {
    w.varint(storm.slot).fixed(&storm.counts);
}

pub(crate) fn read_storm(r: &mut Reader<'_>) -> Result<Storm, Malformed> {
    Ok(Storm { slot: r.varint()?, counts: r.array()? })
}

impl Row for WindowRow {
    const NAME: &'static str = "window";

    fn write(&self, w: &mut Writer) {
        self.of.write(w);
        self.sends.write(w);
        w.u8(self.kind as u8);
        write_terms(w, &self.terms);
        write_window(w, &self.window);
        w.u8(self.ending as u8).option(self.digest, |w, digest| {
            w.ulid(digest);
        });
        w.list(self.events.iter(), |w, event| {
            w.ulid(*event);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            of: WindowKey::read(r)?,
            sends: work::Terms::read(r)?,
            kind: Kind::from_stored(r.u8()?).ok_or(Malformed::Value("kind"))?,
            terms: read_terms(r)?,
            window: read_window(r)?,
            ending: match r.u8()? {
                0 => Ending::Open,
                1 => Ending::Digest,
                2 => Ending::Singly,
                _ => return Err(Malformed::Value("ending")),
            },
            digest: r.option(Reader::ulid)?,
            events: r.list(Reader::ulid)?,
        })
    }
}

impl Row for NoRow {
    const NAME: &'static str = "window number";

    fn write(&self, w: &mut Writer) {
        w.varint(self.0.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self(WindowNo(r.varint()?)))
    }
}

impl Row for ItemRow {
    const NAME: &'static str = "window item";

    fn write(&self, w: &mut Writer) {
        w.user(self.first);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { first: r.user()? })
    }
}

impl Row for Storm {
    const NAME: &'static str = "storm";

    fn write(&self, w: &mut Writer) {
        write_storm(w, self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        read_storm(r)
    }
}
