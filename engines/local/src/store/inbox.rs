//! One user's inbox: rows up to `materialised_through`, recent events above it, nothing above `reached`.
//!
//! A count reads the slices since the last consolidation and at most three pages, however many entries there are.

use super::crowded::Crowded;
use super::entries::Entries;
use super::keys::{self, Owner};
use super::partition::TenantInbox;
use super::rows::{Rows, taken};
use fantail_ports::inbox::{ArrivalRange, Reader};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, PartitionId};
use fjall::{Readable, Snapshot, UserValue};

/// Slices of one user above which a reader asks for consolidation.
pub const SLICES_MAX: usize = 64;

pub struct UserInbox<'a> {
    rows: &'a Rows,
    crowded: &'a Crowded,
    tenant: &'a TenantInbox,
    owner: Owner,
    /// One state of the rows for everything that is read: consolidation may rewrite them meanwhile.
    snapshot: Snapshot,
}

/// One stored row.
struct Stored {
    first: Arrival,
    value: UserValue,
}

impl Stored {
    fn entries(&self) -> Result<Entries<'_>, TablesError> {
        Entries::decode(self.first, &self.value).ok_or_else(|| damaged("does not decode"))
    }

    fn arrivals(&self, range: ArrivalRange) -> Result<Vec<Arrival>, TablesError> {
        let all = self.entries()?.arrivals_checked().ok_or_else(|| damaged("contradicts itself"))?;
        Ok(all.into_iter().filter(|arrival| range.contains(*arrival)).collect())
    }
}

impl<'a> UserInbox<'a> {
    pub fn new(
        rows: &'a Rows,
        crowded: &'a Crowded,
        partition: PartitionId,
        tenant: &'a TenantInbox,
        reader: &Reader<'_>,
    ) -> Self {
        let owner = Owner { partition, tenant: reader.tenant, user: reader.user };
        Self { rows, crowded, tenant, owner, snapshot: rows.snapshot() }
    }

    pub fn page(
        &self,
        reader: &Reader<'_>,
        range: ArrivalRange,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<Arrival>, TablesError> {
        let recent = self.tenant.recent.arrivals(reader.user, reader.follows, self.recent_part(range));
        let rows = self.rows_part(range);
        let mut page = Vec::new();
        if newest_first {
            page.extend(recent.into_iter().rev().take(limit));
            self.newest_rows(rows, limit, &mut page)?;
        } else {
            self.oldest_rows(rows, limit, &mut page)?;
            let left = limit - page.len();
            page.extend(recent.into_iter().take(left));
        }
        Ok(page)
    }

    pub fn count(&self, reader: &Reader<'_>, range: ArrivalRange) -> Result<u64, TablesError> {
        let recent = self.tenant.recent.arrivals(reader.user, reader.follows, self.recent_part(range));
        Ok(recent.len() as u64 + self.count_rows(self.rows_part(range))?)
    }

    /// During a replay rows may exist of events that this state has not reached: they are not there yet.
    fn rows_part(&self, range: ArrivalRange) -> ArrivalRange {
        let through = self.tenant.materialised_through.min(self.tenant.reached);
        ArrivalRange { after: range.after, before: range.before.min(through.next()) }
    }

    fn recent_part(&self, range: ArrivalRange) -> ArrivalRange {
        ArrivalRange { after: range.after.max(self.tenant.materialised_through), before: range.before }
    }

    /// Rows that begin at or below `from`, newest first, down to the user's oldest.
    fn rows_from(&self, from: Arrival) -> impl DoubleEndedIterator<Item = Result<Stored, TablesError>> {
        let range = keys::entries(self.owner, from)..=keys::entries(self.owner, Arrival::START);
        self.snapshot.range(&self.rows.inbox, range).map(stored)
    }

    fn newest_rows(
        &self,
        range: ArrivalRange,
        limit: usize,
        page: &mut Vec<Arrival>,
    ) -> Result<(), TablesError> {
        if range.before.0 <= range.after.0.saturating_add(1) || page.len() >= limit {
            return Ok(());
        }
        let mut slices = 0;
        for row in self.rows_from(Arrival(range.before.0 - 1)) {
            let row = row?;
            let entries = row.entries()?;
            if page.len() >= limit || entries.last <= range.after {
                break;
            }
            slices += usize::from(entries.ordinal.is_none());
            let left = limit - page.len();
            page.extend(row.arrivals(range)?.into_iter().rev().take(left));
        }
        self.note(slices);
        Ok(())
    }

    fn oldest_rows(
        &self,
        range: ArrivalRange,
        limit: usize,
        page: &mut Vec<Arrival>,
    ) -> Result<(), TablesError> {
        if range.before.0 <= range.after.0.saturating_add(1) {
            return Ok(());
        }
        // The row that begins at or below `after` may reach above it.
        let straddling = self.rows_from(range.after).next().into_iter();
        let newest = keys::entries(self.owner, Arrival(range.before.0 - 1));
        let oldest = keys::entries(self.owner, range.after.next());
        let above = self.snapshot.range(&self.rows.inbox, newest..=oldest).rev().map(stored);
        for row in straddling.chain(above) {
            if page.len() >= limit {
                break;
            }
            let left = limit - page.len();
            page.extend(row?.arrivals(range)?.into_iter().take(left));
        }
        Ok(())
    }

    fn count_rows(&self, range: ArrivalRange) -> Result<u64, TablesError> {
        if range.before.0 <= range.after.0.saturating_add(1) {
            return Ok(0);
        }
        let last = Arrival(range.before.0 - 1);
        let (mut count, mut slices) = (0, 0);
        for row in self.rows_from(last) {
            let row = row?;
            let entries = row.entries()?;
            if entries.last <= range.after {
                break;
            }
            if let Some(ordinal) = entries.ordinal {
                count +=
                    ordinal + entries.count_through(last) - self.entries_through(&entries, range.after)?;
                break;
            }
            slices += 1;
            count += entries.count_through(last) - entries.count_through(range.after);
        }
        self.note(slices);
        Ok(count)
    }

    /// How many entries the user has in pages at or below `arrival`; `newest` is the newest page that matters.
    fn entries_through(&self, newest: &Entries<'_>, arrival: Arrival) -> Result<u64, TablesError> {
        let through = |entries: &Entries<'_>, arrival| {
            let ordinal = entries.ordinal.ok_or_else(|| damaged("is a slice below a page"))?;
            Ok(ordinal + if arrival < entries.first { 0 } else { entries.count_through(arrival) })
        };
        if newest.first <= arrival {
            return through(newest, arrival);
        }
        if let Some(row) = self.rows_from(arrival).next() {
            return through(&row?.entries()?, arrival);
        }
        // Everything at or below was forgotten: the oldest page says how much that was.
        match self.rows_from(newest.first).next_back() {
            Some(row) => through(&row?.entries()?, arrival),
            None => Err(damaged("disappeared from a snapshot")),
        }
    }

    fn note(&self, slices: usize) {
        if slices > SLICES_MAX {
            self.crowded.push(self.owner);
        }
    }
}

fn stored(guard: fjall::Guard) -> Result<Stored, TablesError> {
    let (key, value) = taken(guard)?;
    let (_, first) = keys::parse_entries(&key).ok_or_else(|| damaged("has no key of entries"))?;
    Ok(Stored { first, value })
}

fn damaged(reason: &str) -> TablesError {
    TablesError::Damaged { family: "inbox entries", reason: format!("a row {reason}") }
}
