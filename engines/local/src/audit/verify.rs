//! For operators: walks all files of an audit log, or of an export, without the lock and without writing, and says
//! whether everything is still what was written.
//!
//! Two questions, asked separately: are the files sound (checksums, the journal's own hash chain), and do the entries and
//! checkpoints say what was signed (`fantail_audit::verify`)? The first finds accidents, the second finds intent.

use super::checkpoints::Assembly;
use super::layout::Logged;
use super::strand::unopened;
use super::{CHECKPOINTS, LOG};
use crate::disk::Disk;
use crate::journal::{self, DumpKind, DumpedRecord, Verdict};
use fantail_audit::key::Keys;
use fantail_audit::verify::{Evidence, Place, Report, Verifier};
use fantail_ports::audit::{AuditError, StoredCheckpoint};
use std::path::Path;

/// What a walk over the whole log found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditVerdict {
    /// The files of the entries, and those of the checkpoints.
    pub log: Verdict,
    pub checkpoints: Verdict,
    /// What entries and checkpoints say of each other. Places are offsets of blocks in segments of the log.
    pub report: Report,
    /// Why the walk ended before the end, if it did.
    pub stopped: Option<AuditError>,
}

impl AuditVerdict {
    /// Everything is what was written. A torn tail is what a crash leaves; it is reported and is not clean.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let sound = |files: &Verdict| files.damage.is_none() && files.torn_tail.is_none();
        sound(&self.log) && sound(&self.checkpoints) && self.stopped.is_none() && self.report.is_clean()
    }
}

/// Verifies the log in a directory against the keys that are believed and the checkpoints that were posted elsewhere.
#[must_use]
pub fn verify(disk: &dyn Disk, dir: &Path, keys: &Keys, posted: &[&str]) -> AuditVerdict {
    let (log_dir, checkpoints_dir) = (dir.join(LOG), dir.join(CHECKPOINTS));
    let mut stopped = None;
    let mut texts = Vec::new();
    let mut assembly = Assembly::default();
    let mut misplaced = Vec::new();
    let outcome = for_each(disk, &checkpoints_dir, |record| match assembly.take(&record.bytes) {
        Some(Some(checkpoint)) => texts.push(checkpoint.text),
        Some(None) => {}
        None => misplaced.push(place(record)),
    });
    stopped = stopped.or(outcome.err());
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut verifier = Verifier::new(Evidence { keys, checkpoints: &texts, posted });
    for place in misplaced {
        verifier.unreadable(place, "it is not a part of a checkpoint".to_owned());
    }
    let outcome = for_each(disk, &log_dir, |record| {
        if !matches!(Logged::decode(&record.bytes), Ok(Logged::Mark { .. })) {
            verifier.take(place(record), &record.bytes);
        }
    });
    stopped = stopped.or(outcome.err());
    AuditVerdict {
        log: journal::verify(disk, &log_dir),
        checkpoints: journal::verify(disk, &checkpoints_dir),
        report: verifier.finish(),
        stopped,
    }
}

/// The checkpoints of a log, in order, without the lock and without writing.
pub fn read_checkpoints(disk: &dyn Disk, dir: &Path) -> Result<Vec<StoredCheckpoint>, AuditError> {
    let mut checkpoints = Vec::new();
    let mut assembly = Assembly::default();
    for_each(disk, &dir.join(CHECKPOINTS), |record| {
        checkpoints.extend(assembly.take(&record.bytes).flatten());
    })?;
    Ok(checkpoints)
}

fn place(record: &DumpedRecord) -> Place {
    Place { segment: record.segment, offset: record.offset }
}

/// Every record that was appended, until the end or the first damage.
fn for_each(disk: &dyn Disk, dir: &Path, mut visit: impl FnMut(&DumpedRecord)) -> Result<(), AuditError> {
    for record in journal::dump(disk, dir).map_err(unopened)? {
        let record = record.map_err(unopened)?;
        match record.kind {
            DumpKind::Data => visit(&record),
            DumpKind::Fence | DumpKind::State | DumpKind::Footer => {}
        }
    }
    Ok(())
}
