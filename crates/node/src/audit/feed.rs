//! The feeder: walks every partition's durable records behind the mark and appends what they say, with the new mark.
//!
//! Comes from: leaders, whose applied positions move. Does: a bounded turn over all partitions, one append for all of them;
//! the mark in the log says where to go on after a crash, so nothing is said twice and nothing left out. Goes to: the log,
//! then `checkpoints`.
//!
//! Nobody waits for it: beside deliveries it rests seven times as long as it works, so that a burst of them has the cores
//! for itself and is told of afterwards, and stops resting once it is a minute behind.
//!
//! What must never happen: deriving a record that is not applied, as its ledger is looked at; appending without the mark; a
//! fact that cannot be encoded and so stops the log, or leaves no trace in it.

use super::checkpoints::Notary;
use super::derive::{self, Said};
use super::people::Recent;
use crate::ask::Refusal;
use crate::backoff::Backoff;
use crate::core::{Core, internal, stopped};
use crate::take::HOUSE;
use fantail_audit::digest::sha256;
use fantail_audit::fact::{Fact, Openings};
use fantail_ports::audit::{AppendError, Batch, Draft};
use fantail_ports::journal::{JournalError, ReadLimit, Record};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Millis, PartitionId, Position, TenantId};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::{error, info, warn};

/// How often the loop looks. What happens in between shares one sync.
const LOOK_EVERY_MS: u64 = 250;
/// So much longer than it works it rests, while something is on its way to a provider.
const REST_TIMES: u64 = 7;
/// It rests no more when what waits is older than this.
const BEHIND_MS_MAX: u64 = 60_000;
/// After the log had no room.
const REST_MS: u64 = 1_000;
/// Records of one partition in one turn.
const READ: ReadLimit = ReadLimit { records: 1_024, bytes: 2 << 20 };
/// Members that are told of in one turn: some twenty milliseconds.
const LEAVES_MAX: usize = 8_192;

/// Feeds the log until the root's queue closes, then what is still to derive, and tells that it has ended.
pub async fn run(core: Arc<Core>) {
    let ending = TellOnDrop(core.clone());
    if let Err(failed) = walk(&core).await {
        error!(%failed, "audit log stopped");
        core.ports.stop.set(&failed.to_string());
    }
    drop(ending);
}

/// Tells that the log is fed no more, also after a panic: nobody waits for it in vain.
struct TellOnDrop(Arc<Core>);

impl Drop for TellOnDrop {
    fn drop(&mut self) {
        self.0.audited.send_replace(true);
    }
}

/// An error ends it only if the log itself has failed, or while the node stops.
async fn walk(core: &Core) -> Result<(), Refusal> {
    let (ports, meter) = (&core.ports, &core.meter);
    let (recent, mut backoff) = (Recent::default(), Backoff::of("audit"));
    let mut notary: Option<Notary> = None;
    loop {
        let is_last = core.root.is_closed();
        let turned = match &mut notary {
            Some(notary) => feed(core, &recent, notary, is_last).await,
            None => match Notary::open(core).await {
                Ok(opened) => {
                    notary = Some(opened);
                    continue;
                }
                Err(refusal) => Err(refusal),
            },
        };
        match turned {
            Ok(Fed::All) => return Ok(()),
            Ok(Fed::Rests { ms }) => {
                backoff.reset();
                if ms > 0 {
                    ports.tasks.sleep_until(ports.clock.monotonic().plus(ms)).await;
                }
            }
            Err(stopped @ Refusal::Stopped { .. }) => return Err(stopped),
            Err(refusal) if is_last => return Err(refusal),
            Err(refusal) => backoff.wait(ports, meter, &refusal).await,
        }
    }
}

/// What came of one look.
enum Fed {
    /// The node stops, and everything is in the log.
    All,
    /// There may be more after a rest.
    Rests { ms: u64 },
}

async fn feed(core: &Core, recent: &Recent, notary: &mut Notary, is_last: bool) -> Result<Fed, Refusal> {
    let began = core.ports.clock.micros();
    let turn = turn(core, recent, notary).await?;
    let worked_ms = core.ports.clock.micros().saturating_sub(began) / 1_000;
    let ms = match turn {
        Turn::MoreWaiting { is_behind: true } => 0,
        Turn::MoreWaiting { is_behind: false } if is_last || !core.dispatch.is_busy() => 0,
        Turn::MoreWaiting { is_behind: false } => (REST_TIMES * worked_ms).min(REST_MS),
        Turn::NoRoom => REST_MS,
        Turn::Done => LOOK_EVERY_MS,
    };
    let is_done = !matches!(turn, Turn::MoreWaiting { .. });
    if is_last && is_done {
        notary.sign_now(core).await?;
        return Ok(Fed::All);
    }
    notary.sign_if_due(core).await?;
    Ok(Fed::Rests { ms })
}

enum Turn {
    Done,
    MoreWaiting { is_behind: bool },
    NoRoom,
}

/// Derives what waits in all partitions, up to a limit, and appends it.
async fn turn(core: &Core, recent: &Recent, notary: &mut Notary) -> Result<Turn, Refusal> {
    let derived = core.ports.audit.log.derived();
    let mut batches = Vec::new();
    let (drafts, bytes) = (core.knobs.audit_drafts, core.knobs.audit_draft_bytes);
    let mut budget = Budget { drafts, bytes, leaves: LEAVES_MAX, oldest: Millis(u64::MAX) };
    let (mut is_all, mut failure) = (true, None);
    let began = core.ports.clock.micros();
    for (partition, applied) in &core.applied {
        let (after, applied) = (mark(&derived, *partition), *applied.borrow());
        if after >= applied {
            continue;
        }
        let batch = match batch((core, recent), *partition, after, applied, &mut budget).await {
            Ok(batch) => batch,
            // It holds up no other partition.
            Err(refusal) => {
                failure.get_or_insert(refusal);
                continue;
            }
        };
        is_all &= batch.through == applied;
        // What is applied and cannot be read yet is looked for again, after a rest.
        if batch.through > after {
            batches.push(batch);
        }
    }
    if batches.is_empty() {
        return failure.map_or(Ok(Turn::Done), Err);
    }
    let entries: u64 = batches.iter().map(|batch| batch.drafts.len() as u64).sum();
    core.meter.derived(core.ports.clock.micros().saturating_sub(began));
    core.ports.points.reach("audit.derived");
    match core.ports.audit.log.append(batches).await {
        Ok(()) => {}
        Err(AppendError::NoRoom { free_bytes, .. }) => {
            warn!(free_bytes, "audit log has no room, it goes on later");
            return Ok(Turn::NoRoom);
        }
        Err(failed) => return Err(stopped(&failed.to_string())),
    }
    if entries > 0 {
        core.meter.audited(entries);
        notary.hear();
    }
    core.ports.points.reach("audit.appended");
    if let Some(refusal) = failure {
        return Err(refusal);
    }
    let is_behind = core.ports.clock.wall().since(budget.oldest) > BEHIND_MS_MAX;
    Ok(if is_all { Turn::Done } else { Turn::MoreWaiting { is_behind } })
}

struct Budget {
    drafts: usize,
    bytes: usize,
    leaves: usize,
    /// The time of the oldest record that it was spent on.
    oldest: Millis,
}

/// What one record comes to.
struct Derived {
    at: Millis,
    drafts: Vec<Draft>,
    leaves: usize,
}

impl Budget {
    fn spend(&mut self, derived: &Derived) {
        let bytes = derived.drafts.iter().map(|draft| draft.body.len()).sum();
        self.drafts = self.drafts.saturating_sub(derived.drafts.len());
        self.bytes = self.bytes.saturating_sub(bytes);
        self.leaves = self.leaves.saturating_sub(derived.leaves);
        self.oldest = self.oldest.min(derived.at);
    }

    fn is_spent(&self) -> bool {
        self.drafts == 0 || self.bytes == 0 || self.leaves == 0
    }
}

/// What the records of one partition say, from the mark on, no further than what is applied.
async fn batch(
    (core, recent): (&Core, &Recent),
    partition: PartitionId,
    after: Position,
    applied: Position,
    budget: &mut Budget,
) -> Result<Batch, Refusal> {
    let mut batch = Batch { partition, after, through: after, drafts: Vec::new() };
    if budget.is_spent() {
        return Ok(batch);
    }
    let records = match core.ports.journal.read(partition, after.next(), READ).await {
        Ok(records) => records,
        Err(JournalError::Trimmed { first, .. }) => return gap(core, batch, first),
        Err(failed) => return Err(internal(&failed.to_string())),
    };
    for record in records.iter().take_while(|record| record.position <= applied) {
        let derived = match drafts(core, recent, partition, record).await {
            Ok(derived) => derived,
            // What comes before it is appended first.
            Err(_) if batch.through > after => break,
            Err(refusal) => return Err(refusal),
        };
        budget.spend(&derived);
        batch.through = record.position;
        batch.drafts.extend(derived.drafts);
        if budget.is_spent() {
            break;
        }
    }
    Ok(batch)
}

async fn drafts(
    core: &Core,
    recent: &Recent,
    partition: PartitionId,
    record: &Record,
) -> Result<Derived, Refusal> {
    let (at, said) = derive::say(core, recent, partition, record).await?;
    let mut drafts = Vec::with_capacity(said.len());
    let leaves = said.iter().map(|said| said.members.len()).sum();
    for Said { tenant, fact, members, is_tracked } in said {
        let kind = fact.kind();
        let openings = is_tracked.then(|| Openings::of(kind, &members).map(Fact::Openings));
        for fact in std::iter::once(fact).chain(openings.into_iter().flatten()) {
            let fact = encodable(fact, tenant, partition, record);
            let body = fact.encode().map_err(|failed| internal(&failed.to_string()))?;
            drafts.push(Draft { tenant, position: record.position, at, kind: fact.kind(), body });
        }
    }
    Ok(Derived { at, drafts, leaves })
}

/// The fact, or an action in its place that names the record by its hash: a limit that somebody forgot is not a reason to
/// stop, and the record is not to go without a trace.
fn encodable(fact: Fact, tenant: TenantId, partition: PartitionId, record: &Record) -> Fact {
    let Err(failed) = fact.encode() else { return fact };
    error!(%tenant, %partition, position = %record.position, %failed, "a fact does not fit into the audit log");
    let hash = sha256(&record.bytes);
    let target = format!("{partition}/{}/{}/{hash}", record.position, fact.kind().0);
    Said::action(&Actor::System, tenant, "audit.unencodable", target).fact
}

/// The journal was trimmed before there was an audit log, or the log was lost: says what is missing, and goes on.
fn gap(core: &Core, mut batch: Batch, first: Position) -> Result<Batch, Refusal> {
    let last = Position(first.0.saturating_sub(1));
    warn!(partition = %batch.partition, from = %batch.after.next(), to = %last, "records were trimmed underived");
    let target = format!("{}/{}-{}", batch.partition, batch.after.next(), last);
    let fact = Said::action(&Actor::System, HOUSE, "audit.gap", target).fact;
    let body = fact.encode().map_err(|failed| internal(&failed.to_string()))?;
    let (kind, at) = (fact.kind(), core.ports.clock.wall());
    batch.drafts.push(Draft { tenant: HOUSE, position: last, at, kind, body });
    batch.through = last;
    Ok(batch)
}

fn mark(derived: &BTreeMap<PartitionId, Position>, partition: PartitionId) -> Position {
    derived.get(&partition).copied().unwrap_or(Position::START)
}

/// Returns when the log is fed no more: what was asked for before is in it, and a checkpoint over it.
pub async fn ended(core: &Core) {
    let mut audited = core.audited.subscribe();
    // It cannot fail: the sender is in the core.
    audited.wait_for(|ended| *ended).await.ok();
}

/// Records that are applied and not derived yet.
#[must_use]
pub fn lag(core: &Core) -> u64 {
    let derived = core.ports.audit.log.derived();
    let lag = |(partition, applied): (&PartitionId, &tokio::sync::watch::Receiver<Position>)| {
        applied.borrow().0.saturating_sub(mark(&derived, *partition).0)
    };
    core.applied.iter().map(lag).sum()
}

/// Up to where the journal may be trimmed as far as the audit log is concerned.
#[must_use]
pub fn derived(core: &Core, partition: PartitionId) -> Position {
    mark(&core.ports.audit.log.derived(), partition)
}

/// A log that knows of records which the journal does not have belongs to another journal.
pub fn check(core: &Core) -> Result<(), Refusal> {
    for (partition, derived) in core.ports.audit.log.derived() {
        let applied = core.applied.get(&partition).map_or(Position::START, |applied| *applied.borrow());
        if derived > applied {
            let reason = format!(
                "the audit log is derived through {derived} of {partition}, but its journal ends at {applied}"
            );
            return Err(internal(&reason));
        }
    }
    let lag = lag(core);
    if lag > 0 {
        info!(lag, "audit log has records to derive");
    }
    Ok(())
}
