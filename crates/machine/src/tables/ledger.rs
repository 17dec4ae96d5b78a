//! Ledgers: what became of every delivery of a parcel. They are the dedup record and the status.
//!
//! ```text
//! 53 tenant arrival: u64 channel: u8 first: u64 -> event: ulid, terms, tracked: flag, round: varint, begun, members,
//!                                                  words of (state: u8, retries: u8, resends: u8, due, code: text)
//!                                                  bit 7 of a state: it was authorised before
//! 54 due tenant arrival way: u8 first           -> (empty)      members of the ledger are due then
//! 55 tenant arrival channel first               -> lane: u8     members of the ledger may be under way
//! 56 tenant arrival channel first               -> (empty)      members of the ledger are dead letters
//! ```
//! Numbers of 54 are `Key::ordered`, way = channel * 4 + lane: ten million timers take less than 200 MB.
//! A ledger of 1,000 deliveries that all went well takes about a byte each. Rows of 55 are to-do rows: a new leader
//! finds there what an old one may have sent.

use super::work::{Terms, WorkId};
use super::{Family, Key, Row, RowsFrom, collect, get, read_ordered};
use crate::codec::{Malformed, Reader, Writer};
use crate::parcel::{Members, Words};
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};
use fantail_rules::priority::Priority;
use fantail_rules::ulid::Ulid;

/// Lanes have numbers of so many bits.
const LANE_BITS: u32 = 2;

/// Names a parcel: its work, and the user at whom it begins. The same for every round.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ParcelId {
    pub tenant: TenantId,
    pub arrival: Arrival,
    pub channel: ChannelKind,
    pub first: UserNo,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LedgerRow {
    pub event: Ulid,
    pub terms: Terms,
    /// Asked for one by one: rows beside the ledger tell of the attempts of each delivery.
    pub is_tracked: bool,
    /// 1 for the first attempt.
    pub round: u16,
    /// When the parcel was first planned.
    pub begun: Millis,
    pub members: Members,
    pub standings: Words<Standing>,
}

/// Where one delivery stands.
#[derive(Clone, Eq, Debug)]
pub struct Standing {
    pub state: State,
    /// Retries that were burnt.
    pub retries: u8,
    /// Copies that were sent because an earlier one was unknown.
    pub resends: u8,
    /// When something is to be done again; 0 if nothing is.
    pub due: Millis,
    /// Why it is so, in a word: a gate's, the provider's, or ours.
    pub code: String,
    /// It may have been sent, now or before: its user's limits have counted it. Ledgers alone keep this; `ledgers` sets it,
    /// and records leave it out.
    pub was_authorised: bool,
}

/// In the byte of the state, whose numbers take four bits.
const WAS_AUTHORISED: u8 = 0x80;

/// By hand, because most have no code: an empty string points to no memory, and looking there, even at nothing, costs
/// the processor a hundred nanoseconds. Parcels compare a thousand of them, three times.
impl PartialEq for Standing {
    fn eq(&self, other: &Self) -> bool {
        let Self { state, retries, resends, due, code, was_authorised } = self;
        let same_code = code.len() == other.code.len() && (code.is_empty() || *code == other.code);
        let same_counts = (*state, *retries, *resends, *was_authorised)
            == (other.state, other.retries, other.resends, other.was_authorised);
        same_counts && *due == other.due && same_code
    }
}

impl Standing {
    /// As records say it.
    pub(crate) fn write(&self, w: &mut Writer) {
        self.write_with(self.state as u8, w);
    }

    fn write_in_row(&self, w: &mut Writer) {
        self.write_with(self.state as u8 | if self.was_authorised { WAS_AUTHORISED } else { 0 }, w);
    }

    fn write_with(&self, state: u8, w: &mut Writer) {
        w.u8(state).u8(self.retries).u8(self.resends).millis(self.due).text(&self.code);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let state = r.u8()?;
        Self::read_with(state, false, r)
    }

    fn read_in_row(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let state = r.u8()?;
        Self::read_with(state & !WAS_AUTHORISED, state & WAS_AUTHORISED != 0, r)
    }

    fn read_with(state: u8, was_authorised: bool, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            state: State::from_stored(state).ok_or(Malformed::Value("state"))?,
            retries: r.u8()?,
            resends: r.u8()?,
            due: r.millis()?,
            code: r.text()?,
            was_authorised,
        })
    }
}

impl ParcelId {
    #[must_use]
    pub fn of(work: WorkId, first: UserNo) -> Self {
        Self { tenant: work.tenant, arrival: work.arrival, channel: work.channel, first }
    }

    #[must_use]
    pub fn work(self) -> WorkId {
        WorkId { tenant: self.tenant, arrival: self.arrival, channel: self.channel }
    }

    fn suffix(self, key: Key) -> Key {
        key.u64(self.arrival.0).bytes(&[self.channel as u8]).u64(self.first.0)
    }

    #[must_use]
    pub fn key(self) -> Vec<u8> {
        self.suffix(Key::new(Family::Ledger, self.tenant)).finish()
    }

    #[must_use]
    pub fn under_way_key(self) -> Vec<u8> {
        self.suffix(Key::new(Family::UnderWay, self.tenant)).finish()
    }

    #[must_use]
    pub fn dead_key(self) -> Vec<u8> {
        self.suffix(Key::new(Family::Dead, self.tenant)).finish()
    }

    /// Reads the last 21 bytes of a key.
    fn parse(key: &[u8]) -> Option<Self> {
        let tail = key.get(key.len().checked_sub(21)?..)?;
        Some(Self {
            tenant: TenantId(u32::from_be_bytes(tail[..4].try_into().ok()?)),
            arrival: Arrival(u64::from_be_bytes(tail[4..12].try_into().ok()?)),
            channel: ChannelKind::from_stored(tail[12])?,
            first: UserNo(u64::from_be_bytes(tail[13..].try_into().ok()?)),
        })
    }
}

fn parcel(key: &[u8]) -> Result<ParcelId, TablesError> {
    ParcelId::parse(key).ok_or_else(|| Malformed::Value("parcel key").in_row(LedgerRow::NAME))
}

pub fn find(tables: &dyn Tables, parcel: ParcelId) -> Result<Option<LedgerRow>, TablesError> {
    get(tables, &parcel.key())
}

/// The parcel of an event and channel that would hold a user.
pub fn holding(
    tables: &dyn Tables,
    parcel_of: ParcelId,
) -> Result<Option<(ParcelId, LedgerRow)>, TablesError> {
    let first = ParcelId { first: UserNo(0), ..parcel_of };
    let to = [parcel_of.key(), vec![0]].concat();
    let range = KeyRange { from: &first.key(), to: &to };
    let found =
        collect(tables, range, Order::Descending, 1, |key, row| Ok((parcel(key)?, LedgerRow::decode(row)?)))?;
    Ok(found.into_iter().next())
}

/// Where the next parcel of the same work begins, behind one.
pub fn following(tables: &dyn Tables, behind: ParcelId) -> Result<Option<UserNo>, TablesError> {
    let from = [behind.key(), vec![0]].concat();
    let end =
        Key::new(Family::Ledger, behind.tenant).u64(behind.arrival.0).bytes(&[behind.channel as u8]).end();
    let range = KeyRange { from: &from, to: &end };
    let found = collect(tables, range, Order::Ascending, 1, |key, _| Ok(parcel(key)?.first))?;
    Ok(found.first().copied())
}

/// Parcels of an event at or above one, in order of channel and first user.
pub fn of_event(
    tables: &dyn Tables,
    from: ParcelId,
    limit: usize,
) -> Result<Vec<(ParcelId, LedgerRow)>, TablesError> {
    let end = Key::new(Family::Ledger, from.tenant).u64(from.arrival.0).end();
    let range = KeyRange { from: &from.key(), to: &end };
    collect(tables, range, Order::Ascending, limit, |key, row| Ok((parcel(key)?, LedgerRow::decode(row)?)))
}

/// Parcels of the events in a range, in order.
pub fn of_events(
    tables: &dyn Tables,
    tenant: TenantId,
    range: ArrivalRange,
    limit: usize,
) -> Result<Vec<(ParcelId, LedgerRow)>, TablesError> {
    let from = Key::new(Family::Ledger, tenant).u64(range.after.0.saturating_add(1)).finish();
    let to = Key::new(Family::Ledger, tenant).u64(range.before.0).finish();
    let range = KeyRange { from: &from, to: &to };
    collect(tables, range, Order::Ascending, limit, |key, row| Ok((parcel(key)?, LedgerRow::decode(row)?)))
}

/// Parcels of all tenants above one, in order.
pub fn all(
    tables: &dyn Tables,
    after: Option<ParcelId>,
    limit: usize,
) -> Result<Vec<(ParcelId, LedgerRow)>, TablesError> {
    let prefix = Key::of_partition(Family::Ledger);
    let from = match after {
        None => prefix.clone().finish(),
        Some(after) => [after.key(), vec![0]].concat(),
    };
    let range = KeyRange { from: &from, to: &prefix.end() };
    collect(tables, range, Order::Ascending, limit, |key, row| Ok((parcel(key)?, LedgerRow::decode(row)?)))
}

/// What the deliveries of an event are held to, if it has any.
pub fn terms_of(
    tables: &dyn Tables,
    tenant: TenantId,
    arrival: Arrival,
) -> Result<Option<Terms>, TablesError> {
    let from = ParcelId { tenant, arrival, channel: ChannelKind::InApp, first: UserNo(0) };
    Ok(of_event(tables, from, 1)?.first().map(|(_, row)| row.terms))
}

/// Whether some work has a ledger.
pub fn exist(tables: &dyn Tables, work: WorkId) -> Result<bool, TablesError> {
    let prefix = Key::new(Family::Ledger, work.tenant).u64(work.arrival.0).bytes(&[work.channel as u8]);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    Ok(!collect(tables, range, Order::Ascending, 1, |_, _| Ok(()))?.is_empty())
}

/// A timer and the parcel that it wakes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Timer {
    pub due: Millis,
    pub parcel: ParcelId,
    pub lane: Priority,
}

impl Timer {
    #[must_use]
    pub fn key(self) -> Vec<u8> {
        let ParcelId { tenant, arrival, channel, first } = self.parcel;
        let way = (channel as u8) << LANE_BITS | self.lane as u8;
        let key = due_key(self.due).ordered(tenant.0.into()).ordered(arrival.0);
        key.bytes(&[way]).ordered(first.0).finish()
    }

    fn parse(key: &[u8]) -> Option<Self> {
        let (due, rest) = read_ordered(key.get(1..)?)?;
        let (tenant, rest) = read_ordered(rest)?;
        let (arrival, rest) = read_ordered(rest)?;
        let (way, rest) = rest.split_first()?;
        let (first, rest) = read_ordered(rest)?;
        let parcel = ParcelId {
            tenant: TenantId(u32::try_from(tenant).ok()?),
            arrival: Arrival(arrival),
            channel: ChannelKind::from_stored(way >> LANE_BITS)?,
            first: UserNo(first),
        };
        let lane = Priority::from_stored(way & ((1 << LANE_BITS) - 1));
        rest.is_empty().then_some(Self { due: Millis(due), parcel, lane })
    }
}

fn due_key(due: Millis) -> Key {
    Key::of_partition(Family::Timer).ordered(due.0)
}

/// The earliest timers after one time and up to another, of all tenants.
pub fn timers(
    tables: &dyn Tables,
    after: Millis,
    through: Millis,
    limit: usize,
) -> Result<Vec<Timer>, TablesError> {
    let from = due_key(after.plus(1)).finish();
    timers_from(tables, &from, through, limit)
}

/// Where to begin among the timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimersFrom {
    Due(Millis),
    Row(RowsFrom<Timer>),
}

/// Timers from a place up to a time, of all tenants, in order.
pub fn timers_due(
    tables: &dyn Tables,
    from: TimersFrom,
    through: Millis,
    limit: usize,
) -> Result<Vec<Timer>, TablesError> {
    let from = match from {
        TimersFrom::Due(due) => due_key(due).finish(),
        TimersFrom::Row(RowsFrom::At(timer)) => timer.key(),
        TimersFrom::Row(RowsFrom::Behind(timer)) => [timer.key(), vec![0]].concat(),
    };
    timers_from(tables, &from, through, limit)
}

fn timers_from(
    tables: &dyn Tables,
    from: &[u8],
    through: Millis,
    limit: usize,
) -> Result<Vec<Timer>, TablesError> {
    let to = due_key(through.plus(1)).finish();
    collect(tables, KeyRange { from, to: &to }, Order::Ascending, limit, |key, _| {
        Timer::parse(key).ok_or_else(|| Malformed::Value("timer key").in_row("timer"))
    })
}

/// Parcels with members that may be under way, of all tenants, above one.
pub fn under_way(
    tables: &dyn Tables,
    after: Option<ParcelId>,
    limit: usize,
) -> Result<Vec<(ParcelId, Priority)>, TablesError> {
    let prefix = Key::of_partition(Family::UnderWay);
    let from = match after {
        None => prefix.clone().finish(),
        Some(after) => [after.under_way_key(), vec![0]].concat(),
    };
    let range = KeyRange { from: &from, to: &prefix.end() };
    collect(tables, range, Order::Ascending, limit, |key, value| Ok((parcel(key)?, lane_of(value))))
}

/// Parcels of a tenant with dead letters, at or above one.
pub fn dead(
    tables: &dyn Tables,
    tenant: TenantId,
    after: Option<ParcelId>,
    limit: usize,
) -> Result<Vec<ParcelId>, TablesError> {
    let prefix = Key::new(Family::Dead, tenant);
    let from = match after {
        None => prefix.clone().finish(),
        Some(after) => [after.dead_key(), vec![0]].concat(),
    };
    let range = KeyRange { from: &from, to: &prefix.end() };
    collect(tables, range, Order::Ascending, limit, |key, _| parcel(key))
}

fn lane_of(value: &[u8]) -> Priority {
    Priority::from_stored(value.first().copied().unwrap_or(Priority::Normal as u8))
}

impl Row for LedgerRow {
    const NAME: &'static str = "ledger";

    fn write(&self, w: &mut Writer) {
        w.ulid(self.event);
        self.terms.write(w);
        w.flag(self.is_tracked).varint(self.round.into()).millis(self.begun);
        self.members.write(w);
        self.standings.write(w, |w, standing| standing.write_in_row(w));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let row = Self {
            event: r.ulid()?,
            terms: Terms::read(r)?,
            is_tracked: r.flag()?,
            round: r.u16()?,
            begun: r.millis()?,
            members: Members::read(r)?,
            standings: Words::read(r, Standing::read_in_row)?,
        };
        if row.members.count() == row.standings.codes.len() {
            Ok(row)
        } else {
            Err(Malformed::Value("ledger"))
        }
    }
}
