//! Reading: by chain and sequence, or by tenant and time. Pages say where to look; entries are looked at in place and
//! copied only if they are wanted.
//!
//! What must never happen: an entry of another tenant in an answer, or a search that walks the whole log in one call.

use super::layout::Logged;
use super::pages::Span;
use super::recover::READ;
use super::{Shared, held};
use fantail_audit::entry::{self, Peek};
use fantail_ports::audit::{AuditError, ChainId, Cursor, Entry, Found, Search, Sequence};
use fantail_ports::journal::{ReadLimit, Record};
use fantail_rules::ids::{Position, TenantId};

/// Pages that one search walks over; those that it can skip are free.
const PAGES_PER_SEARCH_MAX: usize = 32;

impl Shared {
    pub(super) fn read_chain(
        &self,
        chain: ChainId,
        from: Sequence,
        limit: ReadLimit,
    ) -> Result<Vec<Entry>, AuditError> {
        let mut taken = Taken::new(limit);
        let mut looked_at = 0;
        loop {
            let span = held(&self.state).pages.next_of_chain(looked_at, chain, from.0);
            let Some(span) = span else { return Ok(taken.entries) };
            let wanted = |peek: &Peek| peek.chain == chain && peek.sequence >= from;
            if self.walk(span, &wanted, &mut taken)?.is_some() {
                return Ok(taken.entries);
            }
            looked_at = span.last;
        }
    }

    pub(super) fn search(&self, tenant: TenantId, search: &Search) -> Result<Found, AuditError> {
        let mut taken = Taken::new(search.limit);
        let mut looked_at = search.after.map_or(0, |Cursor(looked_at)| looked_at);
        let times = search.from..search.until;
        for _ in 0..PAGES_PER_SEARCH_MAX {
            let span = held(&self.state).pages.next_of_tenant(looked_at, tenant, times.start, times.end);
            let Some(span) = span else { return Ok(Found { entries: taken.entries, next: None }) };
            let rest = Span { first: span.first.max(looked_at + 1), last: span.last };
            let wanted = |peek: &Peek| peek.chain.tenant == tenant && times.contains(&peek.at);
            if let Some(stopped) = self.walk(rest, &wanted, &mut taken)? {
                return Ok(Found { entries: taken.entries, next: Some(Cursor(stopped - 1)) });
            }
            looked_at = span.last;
        }
        Ok(Found { entries: taken.entries, next: Some(Cursor(looked_at)) })
    }

    /// Takes what is wanted from a page. If the limit ends it: the position that did not fit.
    fn walk(
        &self,
        span: Span,
        wanted: &dyn Fn(&Peek) -> bool,
        taken: &mut Taken,
    ) -> Result<Option<u64>, AuditError> {
        let mut next = Position(span.first);
        while next.0 <= span.last {
            let records = self.log.read(next, READ)?;
            let Some(last) = records.last() else {
                return Err(self.log.damaged(next, "it is in the index and not in the log"));
            };
            next = last.position.next();
            for record in records.iter().take_while(|record| record.position.0 <= span.last) {
                if self.is_wanted(record, wanted)? && !taken.push(self.decoded(record)?, record.bytes.len()) {
                    return Ok(Some(record.position.0));
                }
            }
        }
        Ok(None)
    }

    fn is_wanted(&self, record: &Record, wanted: &dyn Fn(&Peek) -> bool) -> Result<bool, AuditError> {
        match Logged::decode(&record.bytes) {
            Ok(Logged::Entry(peek)) => Ok(wanted(&peek)),
            Ok(Logged::Mark { .. }) => Ok(false),
            Err(error) => Err(self.log.damaged(record.position, error)),
        }
    }

    fn decoded(&self, record: &Record) -> Result<Entry, AuditError> {
        entry::decode(&record.bytes).map_err(|error| self.log.damaged(record.position, error))
    }
}

/// Entries up to a limit: always one, then as many as fit.
struct Taken {
    entries: Vec<Entry>,
    bytes: usize,
    limit: ReadLimit,
}

impl Taken {
    fn new(limit: ReadLimit) -> Self {
        Self { entries: Vec::new(), bytes: 0, limit }
    }

    /// Takes the entry, or answers false if the limit is reached.
    fn push(&mut self, entry: Entry, bytes: usize) -> bool {
        let fits =
            self.entries.len() < self.limit.records && self.bytes.saturating_add(bytes) <= self.limit.bytes;
        if !fits && !self.entries.is_empty() {
            return false;
        }
        self.bytes += bytes;
        self.entries.push(entry);
        true
    }
}
