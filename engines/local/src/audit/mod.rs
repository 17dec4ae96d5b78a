//! The audit log on local files: three journals of its own in one directory, driven by hand.
//!
//! ```text
//! log/          entries of all tenants, in the order of appending, and marks: how far each partition is derived
//! index/        pages: which chains and times lie where in the log; made again from the log if it is lost
//! checkpoints/  signed statements, as text
//! ```
//! Nothing here writes a file: blocks with checksums, one sync per append, sealed segments, the torn tail that is saved
//! aside and cut, and the refusal to open over damage are those of `journal`, and so are their tests. What is added is
//! the chain (`fantail_audit::chain`), the marks in the same append as their entries, and the index.
//!
//! Reading order: `write`, `recover`, `query`, `checkpoints`, `export`, `verify`; below them `strand` (one journal),
//! `pages` (the index) and `layout` (bytes). For the node: it appends what it derives from the journal, trims the journal
//! no further than `derived`, signs `heads`, and serves reads; `fantail audit verify` and exports are for operators.
//!
//! What must never happen: what `fantail_ports::audit` says must never happen.

mod options;

mod write;

mod recover;

mod query;

mod checkpoints;
mod export;
mod verify;

mod layout;
mod pages;
mod strand;

pub use export::Exported;
pub use options::{AuditOptions, AuditReport};
pub use verify::{AuditVerdict, read_checkpoints, verify};

use crate::disk::Disk;
use crate::journal::Drive;
use crate::journal::worker::Worker;
use fantail_audit::chain::Chains;
use fantail_ports::BoxFuture;
use fantail_ports::audit::{
    AppendError, AuditError, AuditLog, Batch, ChainId, Entry, Found, Head, Search, Sequence, StoredCheckpoint,
};
use fantail_ports::journal::ReadLimit;
use fantail_rules::ids::{PartitionId, Position, TenantId};
use pages::Pages;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strand::Strand;

const LOG: &str = "log";
const INDEX: &str = "index";
const CHECKPOINTS: &str = "checkpoints";

/// The audit log of one data directory. Owns its threads: one writes, one reads, so that no caller waits for the disk.
pub struct LocalAudit {
    shared: Arc<Shared>,
    writer: Worker,
    reader: Worker,
    report: AuditReport,
}

struct Shared {
    disk: Arc<dyn Disk>,
    log: Strand,
    index: Strand,
    checkpoints: Strand,
    /// Held by whoever appends, from looking at the state to changing it.
    writing: Mutex<()>,
    state: Mutex<State>,
}

/// What is durable.
struct State {
    chains: Chains,
    pages: Pages,
    /// The number of the last checkpoint.
    checkpoint: u64,
}

/// Locks a mutex. A panic elsewhere does not make the data worse: states are changed by folds that cannot panic
/// half-way, or the journals below are poisoned.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LocalAudit {
    /// Opens the log in a directory, which is created if needed. What was found is in [`LocalAudit::report`].
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: &AuditOptions) -> Result<Self, AuditError> {
        let (shared, report) = recover::open(disk, dir, options)?;
        let failed = |error: std::io::Error| AuditError::Io {
            file: dir.display().to_string(),
            reason: error.to_string(),
        };
        let start = |name| match options.drive {
            Drive::Manual => Ok(Worker::inline()),
            Drive::Threads => Worker::start(name),
        };
        let (writer, reader) =
            (start("audit-writer").map_err(failed)?, start("audit-reader").map_err(failed)?);
        Ok(Self { shared: Arc::new(shared), writer, reader, report })
    }

    /// What opening found.
    #[must_use]
    pub fn report(&self) -> &AuditReport {
        &self.report
    }

    /// The clean stop: seals the files; appends are refused from then on. Reads go on.
    pub fn close(&self) -> Result<(), AuditError> {
        let _nobody_writes = held(&self.shared.writing);
        let strands = [&self.shared.log, &self.shared.index, &self.shared.checkpoints];
        strands.into_iter().try_for_each(Strand::close)
    }

    /// Copies the log and its checkpoints to a directory that opens as an audit log, beside appends. The checkpoints
    /// first: every entry that one of them knows is then in the copy. Returns the bytes. Blocks.
    pub fn copy_to(&self, dir: &Path) -> Result<u64, AuditError> {
        let checkpoints = self.shared.checkpoints.copy_to(&dir.join(CHECKPOINTS))?;
        Ok(checkpoints + self.shared.log.copy_to(&dir.join(LOG))?)
    }

    /// Copies everything up to now to a directory, as files that never change again. What an earlier export copied
    /// is left as it is, so the directory can be one that only takes new files. Entries appended meanwhile may be in
    /// it or not.
    pub fn export(&self, to: PathBuf) -> BoxFuture<'_, Result<Exported, AuditError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { answered(self.reader.perform(move || shared.export(&to)).await) })
    }
}

impl AuditLog for LocalAudit {
    fn append(&self, batches: Vec<Batch>) -> BoxFuture<'_, Result<(), AppendError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let answer = self.writer.perform(move || shared.append(batches)).await;
            answer.unwrap_or_else(|| Err(AppendError::Failed { reason: STOPPED.to_owned() }))
        })
    }

    fn derived(&self) -> BTreeMap<PartitionId, Position> {
        held(&self.shared.state).chains.derived().clone()
    }

    fn heads(&self) -> Vec<Head> {
        held(&self.shared.state).chains.heads()
    }

    fn read_chain(
        &self,
        chain: ChainId,
        from: Sequence,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Entry>, AuditError>> {
        let shared = Arc::clone(&self.shared);
        let read = move || shared.read_chain(chain, from, limit);
        Box::pin(async move { answered(self.reader.perform(read).await) })
    }

    fn search(&self, tenant: TenantId, search: Search) -> BoxFuture<'_, Result<Found, AuditError>> {
        let shared = Arc::clone(&self.shared);
        let look = move || shared.search(tenant, &search);
        Box::pin(async move { answered(self.reader.perform(look).await) })
    }

    fn put_checkpoint(&self, checkpoint: StoredCheckpoint) -> BoxFuture<'_, Result<(), AppendError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let answer = self.writer.perform(move || shared.put_checkpoint(&checkpoint)).await;
            answer.unwrap_or_else(|| Err(AppendError::Failed { reason: STOPPED.to_owned() }))
        })
    }

    fn checkpoints(
        &self,
        from: u64,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<StoredCheckpoint>, AuditError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { answered(self.reader.perform(move || shared.checkpoints(from, limit)).await) })
    }
}

const STOPPED: &str = "the audit log's thread stopped";

fn answered<T>(answer: Option<Result<T, AuditError>>) -> Result<T, AuditError> {
    answer.unwrap_or_else(|| Err(AuditError::Io { file: LOG.to_owned(), reason: STOPPED.to_owned() }))
}
