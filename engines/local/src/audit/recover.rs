//! Opening: where every chain ends, how far every partition is derived, and what lies where.
//!
//! The pages of the index say so for most of the log; what lies behind the last page is read. An index that is damaged,
//! or that does not fit the log, is removed and made again. The log itself is opened as any journal: a torn tail is cut
//! and reported, damage refuses to open.
//!
//! What must never happen: an index that knows of entries which the log does not have. Its pages are written when their
//! entries are durable, and compared with the end of the log here.

use super::layout::{Logged, StoredPage};
use super::options::{AuditOptions, AuditReport};
use super::pages::Pages;
use super::strand::Strand;
use super::{CHECKPOINTS, INDEX, LOG, Shared, State, checkpoints};
use crate::disk::Disk;
use crate::journal::mark_path;
use fantail_audit::chain::Chains;
use fantail_audit::entry;
use fantail_ports::audit::{AuditError, Digest, Head, Sequence};
use fantail_ports::journal::{ReadLimit, Record};
use fantail_rules::ids::Position;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Read at a time.
pub const READ: ReadLimit = ReadLimit { records: 4_096, bytes: 1 << 20 };

pub fn open(
    disk: Arc<dyn Disk>,
    dir: &Path,
    options: &AuditOptions,
) -> Result<(Shared, AuditReport), AuditError> {
    let log = Strand::open(&disk, dir.join(LOG), options.large())?;
    let checkpoints = Strand::open(&disk, dir.join(CHECKPOINTS), options.small())?;
    let mut report = AuditReport {
        clean: log.report().clean && checkpoints.report().clean,
        segments: log.report().segments,
        torn_tails: [&log, &checkpoints]
            .into_iter()
            .filter_map(|strand| strand.report().torn_tail.clone())
            .collect(),
        ..AuditReport::default()
    };
    let (index, (chains, pages)) = match open_index(&disk, dir, options, &log)? {
        Some(opened) => opened,
        None => {
            report.index_rebuilt = true;
            remove_index(&*disk, &dir.join(INDEX))?;
            let opened = open_index(&disk, dir, options, &log)?;
            opened.ok_or_else(|| failed(&dir.join(INDEX), &io::Error::other("the index is not new")))?
        }
    };
    let checkpoint = checkpoints::last_number(&checkpoints)?;
    let state = Mutex::new(State { chains, pages, checkpoint });
    let shared = Shared { disk, log, index, checkpoints, writing: Mutex::new(()), state };
    report.entries_read = shared.read_tail()?;
    shared.save_pages();
    Ok((shared, report))
}

type Loaded = (Chains, Pages);

/// The index and what it says; `None` if it has to be made again.
fn open_index(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    options: &AuditOptions,
    log: &Strand,
) -> Result<Option<(Strand, Loaded)>, AuditError> {
    let index = match Strand::open(disk, dir.join(INDEX), options.small()) {
        Ok(index) => index,
        Err(AuditError::Damaged { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    match load(&index, log, options.page_bytes) {
        Ok(Some(loaded)) => Ok(Some((index, loaded))),
        Ok(None) | Err(AuditError::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Folds all pages; `None` if one does not follow, or knows of more than the log.
fn load(index: &Strand, log: &Strand, page_bytes: usize) -> Result<Option<Loaded>, AuditError> {
    let (mut chains, mut pages) = (Chains::default(), Pages::new(page_bytes));
    let mut from = Position(1);
    loop {
        let records = index.read(from, READ)?;
        let Some(last) = records.last() else { break };
        from = last.position.next();
        for record in &records {
            let Some(stored) = StoredPage::decode(&record.bytes) else { return Ok(None) };
            if !pages.load(&stored) {
                return Ok(None);
            }
            for (row, hash) in &stored.rows {
                chains.fold_head(Head { chain: row.chain, sequence: Sequence(row.last), hash: *hash });
            }
            for (partition, through) in &stored.derived {
                chains.fold_derived(*partition, *through);
            }
        }
    }
    Ok((pages.next() <= log.next()).then_some((chains, pages)))
}

/// Removes all files of the index, whatever they are: it holds nothing that the log does not.
fn remove_index(disk: &dyn Disk, dir: &Path) -> Result<(), AuditError> {
    let removed = disk.list(dir).and_then(|names| {
        names
            .iter()
            .filter(|name| name.contains(".segment"))
            .try_for_each(|name| disk.remove(&dir.join(name)))?;
        disk.sync_dir(dir)
    });
    let removed = removed.and_then(|()| match disk.remove(&mark_path(dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    });
    removed.map_err(|error| failed(dir, &error))
}

fn failed(file: &Path, error: &io::Error) -> AuditError {
    AuditError::Io { file: file.display().to_string(), reason: error.to_string() }
}

impl Shared {
    /// Reads what lies behind the last page, and says how many entries that were.
    fn read_tail(&self) -> Result<u64, AuditError> {
        let mut state = super::held(&self.state);
        let mut entries = 0;
        loop {
            let records = self.log.read(state.pages.next(), READ)?;
            if records.is_empty() {
                return Ok(entries);
            }
            for record in &records {
                entries += u64::from(self.fold_stored(&mut state, record)?);
            }
        }
    }

    /// Takes over one record of the log; false if it is a mark.
    fn fold_stored(&self, state: &mut State, record: &Record) -> Result<bool, AuditError> {
        let damaged = |reason: String| self.log.damaged(record.position, reason);
        let logged = Logged::decode(&record.bytes).map_err(|error| damaged(error.to_string()))?;
        match logged {
            Logged::Entry(_) => {
                let entry = entry::decode(&record.bytes).map_err(|error| damaged(error.to_string()))?;
                let hash = entry::hash_of(&record.bytes);
                let follows = state.chains.fold_stored(&entry, hash);
                follows.map_err(|end| {
                    let (chain, sequence) = (entry.chain, entry.sequence);
                    damaged(format!("{chain} entry {sequence} does not follow entry {}", end.sequence))
                })?;
                state.pages.add(&logged, record.bytes.len(), hash);
            }
            Logged::Mark { partition, through } => {
                state.chains.fold_derived(partition, through);
                state.pages.add(&logged, 0, Digest::default());
            }
        }
        state.pages.close_if_full(state.chains.derived());
        Ok(matches!(logged, Logged::Entry(_)))
    }
}
