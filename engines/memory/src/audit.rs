//! The audit log as a model: a list of entries, and what the contract says about it.
//!
//! Everything is durable when it returns; a crash takes nothing. What must never happen: a shortcut past
//! `fantail_audit::chain`, because then its hashes would not be those of another engine.

use fantail_audit::chain::Chains;
use fantail_ports::BoxFuture;
use fantail_ports::audit::{
    AppendError, AuditError, AuditLog, Batch, ChainId, Cursor, Entry, Found, Head, Search, Sequence,
    StoredCheckpoint,
};
use fantail_ports::journal::ReadLimit;
use fantail_rules::ids::{PartitionId, Position, TenantId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A handle; clones are the same log.
#[derive(Clone, Default, Debug)]
pub struct MemoryAudit {
    state: Arc<Mutex<State>>,
}

#[derive(Default, Debug)]
struct State {
    chains: Chains,
    entries: Vec<Entry>,
    checkpoints: Vec<StoredCheckpoint>,
    full: bool,
    failed: Option<String>,
}

/// Entries that one search looks at, so that callers learn to go on.
const SEARCHED_MAX: usize = 1_000;

impl MemoryAudit {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on appends find no room, or find it again.
    pub fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// The disk breaks: nothing more is appended until [`crash`](MemoryAudit::crash).
    pub fn fail(&self, reason: &str) {
        self.lock().failed = Some(reason.to_owned());
    }

    /// The process dies and comes back.
    pub fn crash(&self) {
        self.lock().failed = None;
    }

    /// Each call leaves the state whole, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check_usable(&self) -> Result<(), AppendError> {
        match (&self.failed, self.full) {
            (Some(reason), _) => Err(AppendError::Failed { reason: reason.clone() }),
            (None, true) => Err(AppendError::NoRoom { free_bytes: 0, needed_bytes: 1 }),
            (None, false) => Ok(()),
        }
    }

    fn append(&mut self, batches: Vec<Batch>) -> Result<(), AppendError> {
        let staged = self.chains.stage(batches)?;
        if staged.derived.is_empty() {
            return Ok(());
        }
        self.check_usable()?;
        self.chains.fold(&staged);
        self.entries.extend(staged.entries.into_iter().map(|linked| linked.entry));
        Ok(())
    }

    fn search(&self, tenant: TenantId, search: &Search) -> Found {
        let start = search.after.map_or(0, |Cursor(looked_at)| looked_at);
        let start = usize::try_from(start).unwrap_or(usize::MAX).min(self.entries.len());
        let mut found = Found::default();
        let mut taken = Taken::new(search.limit);
        for (looked_at, entry) in self.entries.iter().enumerate().skip(start) {
            let wanted = entry.chain.tenant == tenant && (search.from..search.until).contains(&entry.at);
            if looked_at == start + SEARCHED_MAX || (wanted && !taken.has_room(entry.body.len())) {
                found.next = Some(Cursor(looked_at as u64));
                break;
            }
            if wanted {
                taken.add(entry.body.len());
                found.entries.push(entry.clone());
            }
        }
        found
    }

    fn put_checkpoint(&mut self, checkpoint: StoredCheckpoint) -> Result<(), AppendError> {
        let last = self.checkpoints.len() as u64;
        if checkpoint.number != last + 1 {
            let (what, after) = ("the checkpoints".to_owned(), checkpoint.number.saturating_sub(1));
            return Err(AppendError::OutOfOrder { what, after, expected: last });
        }
        self.check_usable()?;
        self.checkpoints.push(checkpoint);
        Ok(())
    }
}

/// What was taken of a limit: always one, then as many as fit.
struct Taken {
    limit: ReadLimit,
    records: usize,
    bytes: usize,
}

impl Taken {
    fn new(limit: ReadLimit) -> Self {
        Self { limit, records: 0, bytes: 0 }
    }

    fn has_room(&self, bytes: usize) -> bool {
        let fits = self.records < self.limit.records && self.bytes.saturating_add(bytes) <= self.limit.bytes;
        fits || self.records == 0
    }

    fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes;
    }

    fn take<'a, T: Clone + 'a>(
        mut self,
        items: impl Iterator<Item = &'a T>,
        bytes: impl Fn(&T) -> usize,
    ) -> Vec<T> {
        let mut taken = Vec::new();
        for item in items {
            if !self.has_room(bytes(item)) {
                break;
            }
            self.add(bytes(item));
            taken.push(item.clone());
        }
        taken
    }
}

fn ready<'a, T: Send + 'a>(answer: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(answer))
}

impl AuditLog for MemoryAudit {
    fn append(&self, batches: Vec<Batch>) -> BoxFuture<'_, Result<(), AppendError>> {
        ready(self.lock().append(batches))
    }

    fn derived(&self) -> BTreeMap<PartitionId, Position> {
        self.lock().chains.derived().clone()
    }

    fn heads(&self) -> Vec<Head> {
        self.lock().chains.heads()
    }

    fn read_chain(
        &self,
        chain: ChainId,
        from: Sequence,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Entry>, AuditError>> {
        let state = self.lock();
        let of_chain = state.entries.iter().filter(|entry| entry.chain == chain && entry.sequence >= from);
        ready(Ok(Taken::new(limit).take(of_chain, |entry| entry.body.len())))
    }

    fn search(&self, tenant: TenantId, search: Search) -> BoxFuture<'_, Result<Found, AuditError>> {
        ready(Ok(self.lock().search(tenant, &search)))
    }

    fn put_checkpoint(&self, checkpoint: StoredCheckpoint) -> BoxFuture<'_, Result<(), AppendError>> {
        ready(self.lock().put_checkpoint(checkpoint))
    }

    fn checkpoints(
        &self,
        from: u64,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<StoredCheckpoint>, AuditError>> {
        let state = self.lock();
        let wanted = state.checkpoints.iter().filter(|checkpoint| checkpoint.number >= from);
        ready(Ok(Taken::new(limit).take(wanted, |checkpoint| checkpoint.text.len())))
    }
}
