//! Checkpoints: from time to time, while something moves, where every chain stands is signed and stored.
//!
//! Comes from: `feed`, after each turn. Does: signs the heads if they moved and the time has come, and numbers on from what
//! is stored. Goes to: the log; operators carry checkpoints to where an intruder cannot follow (`fantail audit export`).
//!
//! What must never happen: two checkpoints with one number, or one about entries that are not durable.

use crate::ask::Refusal;
use crate::core::{Core, internal, stopped};
use fantail_audit::checkpoint::{Checkpoint, Series, Statement, heads_root};
use fantail_ports::audit::{AppendError, AuditError, AuditLog, Digest, StoredCheckpoint};
use fantail_ports::journal::ReadLimit;
use fantail_rules::ids::Millis;
use tracing::{debug, info, warn};

/// Heads that are listed whether they moved or not: 25 kilobytes.
const HEADS_LISTED_MAX: usize = 256;

const ONE: ReadLimit = ReadLimit { records: 1, bytes: 0 };

/// Signs, and knows what was signed last.
pub struct Notary {
    series: Series,
    last: Option<Statement>,
    /// The root over the heads of the last checkpoint.
    signed: Option<Digest>,
    /// Entries were appended since.
    moved: bool,
    /// When the next one may be signed.
    due: Millis,
}

impl Notary {
    pub async fn open(core: &Core) -> Result<Self, Refusal> {
        let last = last(&*core.ports.audit.log).await.map_err(unreadable)?;
        let series = last.as_ref().map_or_else(Series::new, |last| Series::after(last.statement));
        if let Some(last) = &last {
            core.meter.signed(last.statement.at);
        }
        let key = core.ports.audit.signer.public().id();
        info!(%key, checkpoints = last.as_ref().map_or(0, |last| last.statement.number), "audit log is fed");
        let last = last.map(|last| last.statement);
        let signed = last.map(|last| last.root);
        Ok(Self { series, last, signed, moved: true, due: core.ports.clock.monotonic() })
    }

    /// Entries were appended.
    pub fn hear(&mut self) {
        self.moved = true;
    }

    pub async fn sign_if_due(&mut self, core: &Core) -> Result<(), Refusal> {
        if core.ports.clock.monotonic() < self.due { Ok(()) } else { self.sign_now(core).await }
    }

    /// Signs, unless nothing moved.
    pub async fn sign_now(&mut self, core: &Core) -> Result<(), Refusal> {
        if !std::mem::take(&mut self.moved) {
            return Ok(());
        }
        let audit = &core.ports.audit;
        let heads = audit.log.heads();
        // After a start it is not known whether the last checkpoint was the last thing that happened.
        if heads.is_empty() || self.signed == Some(heads_root(&heads)) {
            return Ok(());
        }
        self.due = core.ports.clock.monotonic().plus(audit.checkpoint_every_ms);
        // Few heads are all listed, so that a proof needs one checkpoint and not those before.
        let series = match self.last {
            Some(last) if heads.len() <= HEADS_LISTED_MAX => &Series::after(last),
            Some(_) | None => &self.series,
        };
        let signed = series.sign(&heads, core.ports.clock.wall(), &audit.signer);
        let checkpoint = match signed {
            Ok(checkpoint) => checkpoint,
            Err(failed) => {
                warn!(%failed, "no checkpoint was signed");
                return Ok(());
            }
        };
        let (number, text) = (checkpoint.statement.number, checkpoint.text());
        match audit.log.put_checkpoint(StoredCheckpoint { number, text }).await {
            Ok(()) => {}
            Err(AppendError::NoRoom { free_bytes, .. }) => {
                warn!(free_bytes, "no room for a checkpoint, it is signed later");
                self.moved = true;
                return Ok(());
            }
            // The log has failed: nothing more can be appended to it.
            Err(failed) => return Err(stopped(&failed.to_string())),
        }
        self.series.fold(&checkpoint);
        self.last = Some(checkpoint.statement);
        self.signed = Some(checkpoint.statement.root);
        core.meter.signed(checkpoint.statement.at);
        debug!(number, chains = heads.len(), "checkpoint signed");
        Ok(())
    }
}

/// The newest checkpoint. Asks for ever later numbers, then halves: a log of years answers at once.
pub async fn last(log: &dyn AuditLog) -> Result<Option<Checkpoint>, AuditError> {
    let (mut there, mut not) = (0, 1);
    while !log.checkpoints(not, ONE).await?.is_empty() {
        (there, not) = (not, not * 2);
    }
    while there + 1 < not {
        let middle = there + (not - there) / 2;
        if log.checkpoints(middle, ONE).await?.is_empty() { not = middle } else { there = middle }
    }
    if there == 0 {
        return Ok(None);
    }
    let stored = log.checkpoints(there, ONE).await?;
    stored.first().map(parsed).transpose()
}

/// What is stored, read.
pub fn parsed(stored: &StoredCheckpoint) -> Result<Checkpoint, AuditError> {
    Checkpoint::parse(&stored.text).map_err(|failed| AuditError::Damaged {
        file: format!("checkpoint {}", stored.number),
        offset: 0,
        reason: failed.to_string(),
    })
}

pub fn unreadable(failed: AuditError) -> Refusal {
    internal(&failed.to_string())
}
