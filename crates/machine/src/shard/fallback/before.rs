//! What the channels before a step say about a user.
//!
//! Comes from: `fallback`, with users who ascend. Does: reads the ledgers of those channels parcel by parcel. Goes to: the
//! judgement of `rules::chain`.

use crate::shard::redrive;
use crate::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use crate::tables::work::WorkId;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::attempt::State;
use fantail_rules::chain::Told;
use fantail_rules::ids::{Millis, UserNo};

/// What is unknown is resolved within this after its time, unless there is no permit for it. A step whose time comes in the
/// same moment waits for that: another copy begins its time again.
pub(super) const RESOLVING_MS: u64 = 2_000;

/// What a channel before says, parcel by parcel.
pub(super) struct Way {
    work: WorkId,
    pub is_previous: bool,
    /// Users from the first to the second are in the parcel that was read.
    parcel: (UserNo, UserNo),
    /// Ascending; who is not here has no delivery by this channel.
    told: Vec<(UserNo, Told)>,
    /// Users of whom something is unknown whose time has just come. Ascending.
    resolving: Vec<UserNo>,
}

impl Way {
    pub(super) fn new(work: WorkId, is_previous: bool) -> Self {
        Self { work, is_previous, parcel: (UserNo(0), UserNo(0)), told: Vec::new(), resolving: Vec::new() }
    }

    pub(super) fn told(
        &mut self,
        tables: &dyn Tables,
        user: UserNo,
        now: Millis,
    ) -> Result<Told, TablesError> {
        if !(self.parcel.0..self.parcel.1).contains(&user) {
            let found = parcel_of(tables, ParcelId::of(self.work, user))?;
            self.parcel = (found.first, found.until);
            let row = found.row.map(|(_, row)| row);
            self.told = row.as_ref().map_or_else(Vec::new, by_user);
            self.resolving = row.as_ref().map_or_else(Vec::new, |row| resolving(row, now));
        }
        let found = self.told.binary_search_by_key(&user, |(of, _)| *of);
        Ok(found.map_or_else(|_| Told::default(), |place| self.told[place].1))
    }

    /// Whether something of a user is about to be sent once more, or given up. Asked after [`told`](Self::told).
    pub(super) fn is_resolving(&self, user: UserNo) -> bool {
        self.resolving.binary_search(&user).is_ok()
    }
}

fn by_user(row: &LedgerRow) -> Vec<(UserNo, Told)> {
    let mut all: Vec<(UserNo, Told)> = Vec::with_capacity(row.members.users().len());
    for (member, standing) in row.members.iter().zip(row.standings.iter()) {
        let is_opened = redrive::is_engaged(&standing.code);
        match all.last_mut().filter(|(user, _)| *user == member.user) {
            Some((_, told)) => *told = told.and(standing.state, &standing.code, is_opened),
            None => {
                all.push((member.user, Told::default().and(standing.state, &standing.code, is_opened)));
            }
        }
    }
    all
}

fn resolving(row: &LedgerRow, now: Millis) -> Vec<UserNo> {
    let is_due = |one: &Standing| one.due <= now && now.since(one.due) < RESOLVING_MS;
    let all = row.members.iter().zip(row.standings.iter());
    let due = all.filter(|(_, one)| one.state == State::Unknown && is_due(one));
    let mut users: Vec<UserNo> = due.map(|(member, _)| member.user).collect();
    users.dedup();
    users
}

/// The parcel that would hold a user.
pub(super) struct Holding {
    /// `None` if none begins at or before the user.
    pub row: Option<(ParcelId, LedgerRow)>,
    first: UserNo,
    /// Where the next one begins.
    pub until: UserNo,
}

pub(super) fn parcel_of(tables: &dyn Tables, asked: ParcelId) -> Result<Holding, TablesError> {
    let row = ledger::holding(tables, asked)?;
    let (first, of) = row.as_ref().map_or((UserNo(0), asked), |(parcel, _)| (parcel.first, *parcel));
    let until = ledger::following(tables, of)?.unwrap_or(UserNo(u64::MAX));
    Ok(Holding { row, first, until })
}
