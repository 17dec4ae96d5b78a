//! Tallies: how many deliveries stand where, kept with every change and never counted.
//!
//! ```text
//! 57 tenant arrival: u64 channel: u8 -> deliveries by state: 14 varints, unreached: varint, open: varint     of one event
//! 58 tenant lane: u8                 -> the same, of everything since the beginning
//! 61 tenant lane: u8                 -> the same, of what is past the guard: no ledger tells of it any more
//! ```
//! A delivery is in exactly one state, so the sum is what was ever planned, and what is not terminal is in flight.

use super::work::WorkId;
use super::{Family, Key, Row, collect, get, put};
use crate::codec::{Malformed, Reader, Writer};
use crate::view::View;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, TenantId};
use fantail_rules::priority::Priority;

const STATES: usize = State::ALL.len();

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    by_state: [u64; STATES],
    /// Members of a list who had no endpoint there: nobody asked to reach them.
    pub unreached: u64,
    /// Of a lane alone: work of which members are left to be looked at.
    pub open: u64,
}

impl Tally {
    #[must_use]
    pub fn of(&self, state: State) -> u64 {
        self.by_state[state as usize]
    }

    #[must_use]
    pub fn all(&self) -> u64 {
        self.by_state.iter().sum()
    }

    #[must_use]
    pub fn in_flight(&self) -> u64 {
        State::ALL.into_iter().filter(|state| !state.is_terminal()).map(|state| self.of(state)).sum()
    }

    /// So many deliveries are in a state, which they were not in before.
    pub fn enter(&mut self, state: State, count: u64) {
        self.by_state[state as usize] += count;
    }

    pub fn leave(&mut self, state: State, count: u64) {
        let left = self.by_state[state as usize].checked_sub(count);
        self.by_state[state as usize] = left.expect("what leaves a state was in it");
    }

    /// Adds what another one has.
    pub fn join(&mut self, other: &Self) {
        self.by_state.iter_mut().zip(other.by_state).for_each(|(own, other)| *own += other);
        self.unreached += other.unreached;
        self.open += other.open;
    }
}

#[must_use]
pub fn key(tenant: TenantId, arrival: Arrival, channel: ChannelKind) -> Vec<u8> {
    Key::new(Family::Tally, tenant).u64(arrival.0).bytes(&[channel as u8]).finish()
}

#[must_use]
pub fn lane_key(tenant: TenantId, lane: Priority) -> Vec<u8> {
    Key::new(Family::LaneTally, tenant).bytes(&[lane as u8]).finish()
}

#[must_use]
pub fn swept_key(tenant: TenantId, lane: Priority) -> Vec<u8> {
    Key::new(Family::SweptTally, tenant).bytes(&[lane as u8]).finish()
}

pub fn find(tables: &dyn Tables, key: &[u8]) -> Result<Tally, TablesError> {
    Ok(get(tables, key)?.unwrap_or_default())
}

/// Work begins in a lane.
pub(crate) fn open_work(view: &mut View<'_>, tenant: TenantId, lane: Priority) -> Result<(), TablesError> {
    let key = lane_key(tenant, lane);
    let mut tally = find(view, &key)?;
    tally.open += 1;
    put(view, key, &tally);
    Ok(())
}

/// Everybody in some work was looked at.
pub(crate) fn close_work(view: &mut View<'_>, tenant: TenantId, lane: Priority) -> Result<(), TablesError> {
    let key = lane_key(tenant, lane);
    let mut tally = find(view, &key)?;
    tally.open = tally.open.checked_sub(1).expect("work that ends was begun");
    put(view, key, &tally);
    Ok(())
}

/// Of which events and channels a tenant has ledgers, above one event, in order. Whatever has a ledger has a tally.
pub fn works_behind(
    tables: &dyn Tables,
    tenant: TenantId,
    behind: Arrival,
    limit: usize,
) -> Result<Vec<WorkId>, TablesError> {
    let from = Key::new(Family::Tally, tenant).u64(behind.0.saturating_add(1)).finish();
    let range = KeyRange { from: &from, to: &Key::new(Family::Tally, tenant).end() };
    collect(tables, range, Order::Ascending, limit, |key, _| {
        WorkId::parse(key).ok_or_else(|| Malformed::Value("key").in_row(Tally::NAME))
    })
}

/// Tallies of events of all tenants above one, in order.
pub fn all(
    tables: &dyn Tables,
    after: Option<WorkId>,
    limit: usize,
) -> Result<Vec<(WorkId, Tally)>, TablesError> {
    let prefix = Key::of_partition(Family::Tally);
    let from = match after {
        None => prefix.clone().finish(),
        Some(WorkId { tenant, arrival, channel }) => [key(tenant, arrival, channel), vec![0]].concat(),
    };
    collect(tables, KeyRange { from: &from, to: &prefix.end() }, Order::Ascending, limit, |key, row| {
        let work = WorkId::parse(key).ok_or_else(|| Malformed::Value("tally key").in_row(Tally::NAME))?;
        Ok((work, Tally::decode(row)?))
    })
}

/// The sums of all tenants and lanes.
pub fn by_lane(tables: &dyn Tables) -> Result<Vec<(TenantId, Priority, Tally)>, TablesError> {
    lanes_of(tables, Family::LaneTally)
}

/// What was swept of all tenants and lanes.
pub fn swept_by_lane(tables: &dyn Tables) -> Result<Vec<(TenantId, Priority, Tally)>, TablesError> {
    lanes_of(tables, Family::SweptTally)
}

fn lanes_of(tables: &dyn Tables, family: Family) -> Result<Vec<(TenantId, Priority, Tally)>, TablesError> {
    let prefix = Key::of_partition(family);
    let range = KeyRange { from: &prefix.clone().finish(), to: &prefix.end() };
    collect(tables, range, Order::Ascending, usize::MAX, |key, row| {
        let malformed = || Malformed::Value("lane key").in_row(Tally::NAME);
        let tenant = key.get(1..5).and_then(|tenant| tenant.try_into().ok()).ok_or_else(malformed)?;
        let lane = key.get(5).copied().ok_or_else(malformed)?;
        let tenant = TenantId(u32::from_be_bytes(tenant));
        Ok((tenant, Priority::from_stored(lane), Tally::decode(row)?))
    })
}

impl Row for Tally {
    const NAME: &'static str = "tally";

    fn write(&self, w: &mut Writer) {
        self.by_state.iter().for_each(|count| {
            w.varint(*count);
        });
        w.varint(self.unreached).varint(self.open);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut tally = Self::default();
        for count in &mut tally.by_state {
            *count = r.varint()?;
        }
        tally.unreached = r.varint()?;
        tally.open = r.varint()?;
        Ok(tally)
    }
}
