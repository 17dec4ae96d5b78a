//! Many small rows of one user become pages of up to a thousand entries, so that pages and counts stay cheap.
//!
//! One atomic write replaces the rows. Nothing that a reader could ask changes: the same arrivals, in order, and
//! all pages older than all slices.

use super::Shared;
use super::entries::{Entries, PAGE_ENTRIES_MAX, encode_page};
use super::keys::{self, Owner};
use super::rows::taken;
use fantail_ports::store::StoreError;
use fantail_ports::tables::{Changes, TablesError};
use fantail_rules::ids::Arrival;
use std::collections::VecDeque;

/// Users in one slice of background work.
const USERS_MAX: usize = 64;
/// Slices of one user that are rewritten at once; the oldest ones, so that pages stay older than slices.
const SLICES_MAX: usize = 4_096;

/// Consolidates some crowded users.
pub fn run(shared: &Shared) -> Result<(), StoreError> {
    let mut changes = Changes::new();
    for owner in shared.crowded.take(USERS_MAX) {
        rewrite(shared, owner, &mut changes)?;
    }
    if changes.is_empty() {
        return Ok(());
    }
    let count = changes.len();
    let rows = changes.into_iter().map(|(key, to)| (key.into(), to.map(Into::into)));
    shared.rows.write(&shared.rows.inbox, count, rows)
}

struct Tail {
    /// Oldest last.
    slices: VecDeque<Row>,
    newest_page: Option<Row>,
}

struct Row {
    first: Arrival,
    ordinal: u64,
    arrivals: Vec<Arrival>,
}

fn rewrite(shared: &Shared, owner: Owner, changes: &mut Changes) -> Result<(), StoreError> {
    let tail = read_tail(shared, owner)?;
    if tail.slices.len() < 2 {
        return Ok(());
    }
    let (mut ordinal, mut arrivals) = match tail.newest_page {
        Some(page) if page.arrivals.len() < PAGE_ENTRIES_MAX => (page.ordinal, page.arrivals),
        Some(page) => (page.ordinal + page.arrivals.len() as u64, Vec::new()),
        None => (0, Vec::new()),
    };
    for slice in tail.slices.into_iter().rev() {
        changes.insert(keys::entries(owner, slice.first).to_vec(), None);
        arrivals.extend(slice.arrivals);
    }
    for page in arrivals.chunks(PAGE_ENTRIES_MAX) {
        changes.insert(keys::entries(owner, page[0]).to_vec(), Some(encode_page(ordinal, page)));
        ordinal += page.len() as u64;
    }
    Ok(())
}

/// The slices of a user, at most the oldest `SLICES_MAX`, and the page they continue.
fn read_tail(shared: &Shared, owner: Owner) -> Result<Tail, TablesError> {
    let range = keys::entries(owner, Arrival(u64::MAX))..=keys::entries(owner, Arrival::START);
    let mut tail = Tail { slices: VecDeque::new(), newest_page: None };
    for row in shared.rows.inbox.range(range) {
        let (key, value) = taken(row)?;
        let (_, first) = keys::parse_entries(&key).ok_or_else(damaged)?;
        let entries = Entries::decode(first, &value).ok_or_else(damaged)?;
        let arrivals = entries.arrivals_checked().ok_or_else(damaged)?;
        if let Some(ordinal) = entries.ordinal {
            tail.newest_page = Some(Row { first, ordinal, arrivals });
            break;
        }
        tail.slices.push_back(Row { first, ordinal: 0, arrivals });
        if tail.slices.len() > SLICES_MAX {
            tail.slices.pop_front();
        }
    }
    Ok(tail)
}

fn damaged() -> TablesError {
    TablesError::Damaged { family: "inbox entries", reason: "a row does not decode".to_owned() }
}
