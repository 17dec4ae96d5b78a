//! Deletions of tenants: everything that is kept of a tenant is removed, step by step, beside what other tenants do.
//!
//! Comes from: the admin API, which has the root say that the tenant is deleted; then from that row, so that a crash only makes it go on.
//! Does: waits until the shards have taken and the audit log has derived what came before, destroys the keys, removes the rows of
//! fronts, shards, directories and root, and has the root say that it is over. Goes to: `machine::wipe`, the keyring.
//!
//! Invariant: a tenant is over only once a round over all partitions found none of its rows.

use crate::ask::{Refusal, TenantView};
use crate::audit::feed::derived;
use crate::backoff::Backoff;
use crate::core::{Core, answer, broken, internal, locked};
use crate::node::Node;
use crate::queue::QueueLine;
use crate::take::{HOUSE, taken};
use fantail_machine::directory::{DirectoryAnswer, DirectoryAsk};
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::root::{RootAnswer, RootAsk, deletion};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::wipe::Wiped;
use fantail_ports::keyring::DestroyFrom;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{DirectoryNo, FrontNo, Millis, PartitionId, Position, ShardNo, TenantId};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::info;

/// What an ask takes in a queue.
const ASK_BYTES: usize = 4_096;
/// Steps after which the root hears how many rows were removed.
const NOTE_EVERY_STEPS: u32 = 16;
/// How often what is waited for is looked at.
const LOOK_EVERY_MS: u64 = 20;
/// The bell rings when a tenant is to be deleted; this is for a ring that was missed.
const IDLE_LOOK_MS: u64 = 60_000;

/// A tenant that is being deleted.
#[derive(Clone, Debug)]
pub struct Deletion {
    pub tenant: TenantView,
    pub begun_at: Millis,
    /// Rows that were removed so far.
    pub rows: u64,
}

impl Node {
    /// Deletes a tenant. The answer means that it is gone for every caller and every send, durably; what is kept of it is removed
    /// from then on. Again: a no-op.
    pub async fn delete_tenant(&self, tenant: TenantId) -> Result<Deletion, Refusal> {
        let core = &self.core;
        let ask = RootAsk::Deletion(deletion::Ask::Begin { tenant });
        match answer(core.root.push(HOUSE, &self.by, vec![ask], ASK_BYTES)).await? {
            RootAnswer::Ending => {}
            RootAnswer::UnknownTenant => return Err(Refusal::UnknownTenant),
            _ => return Err(other("root")),
        }
        core.ports.points.reach("deletion.begun");
        info!(%tenant, by = self.by.name(), "tenant is being deleted");
        refuse_requests(core, tenant);
        core.known.forget_events();
        core.deletions.ring();
        self.deletion(tenant).ok_or(Refusal::UnknownTenant)
    }

    /// `None`: no such tenant is being deleted.
    #[must_use]
    pub fn deletion(&self, tenant: TenantId) -> Option<Deletion> {
        self.core.control.now().ending.get(&tenant).map(Deletion::of)
    }

    #[must_use]
    pub fn deletion_by_slug(&self, slug: &str) -> Option<Deletion> {
        self.core.control.now().ending_by_slug(slug).map(Deletion::of)
    }

    #[must_use]
    pub fn deletions(&self) -> Vec<Deletion> {
        self.core.control.now().ending.values().map(Deletion::of).collect()
    }
}

impl Deletion {
    fn of(ending: &crate::control::EndingTenant) -> Self {
        Self { tenant: ending.tenant.clone(), begun_at: ending.begun_at, rows: ending.rows }
    }
}

/// Requests that were let in before reach no leader any more.
fn refuse_requests(core: &Core, tenant: TenantId) {
    core.fronts.values().for_each(|front| front.queue.refuse(tenant));
    core.shards.values().for_each(|shard| shard.queue.refuse(tenant));
    core.directories.values().for_each(|directory| directory.queue.refuse(tenant));
}

/// Whether a request that was let in before still waits for a leader.
fn has_requests(core: &Core, tenant: TenantId) -> bool {
    core.fronts.values().any(|front| front.queue.waits_for(tenant))
        || core.shards.values().any(|shard| shard.queue.waits_for(tenant))
        || core.directories.values().any(|directory| directory.queue.waits_for(tenant))
}

/// Goes on with all deletions, a step of each in turn, until the root's queue closes.
pub async fn run(core: Arc<Core>) {
    let mut running: BTreeMap<TenantId, Running> = BTreeMap::new();
    let mut backoff = Backoff::of("deletions");
    while !core.root.is_closed() {
        let control = core.control.now();
        running.retain(|tenant, _| control.ending.contains_key(tenant));
        for tenant in control.ending.keys() {
            running.entry(*tenant).or_insert_with(|| {
                refuse_requests(&core, *tenant);
                Running::new(*tenant)
            });
        }
        let mut does_wait = true;
        for deletion in running.values_mut() {
            match deletion.step(&core).await {
                Ok(step) => {
                    backoff.reset();
                    does_wait &= step == Step::Waits;
                }
                Err(Refusal::Stopped { .. }) => return,
                Err(refusal) => backoff.wait(&core.ports, &core.meter, &refusal).await,
            }
        }
        if does_wait {
            let now = core.ports.clock.monotonic();
            let after_ms = if running.is_empty() { IDLE_LOOK_MS } else { LOOK_EVERY_MS };
            core.deletions.wait(Some(core.ports.tasks.sleep_until(now.plus(after_ms)))).await;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Done,
    /// Others have to go on first.
    Waits,
}

/// One deletion that goes on. Doing any step again changes nothing.
struct Running {
    tenant: TenantId,
    stage: Stage,
    /// Rows that this round removed in fronts, shards and directories.
    found: u64,
    /// Rows that the root has not heard of.
    unreported: u64,
    unreported_steps: u32,
}

/// What is done next. After a crash it begins with the first one.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// Requests that were let in before are decided.
    Requests,
    Front(FrontNo, Option<Vec<u8>>),
    /// Shards take what the fronts accepted before.
    Taken(BTreeMap<FrontNo, Position>),
    /// The audit log derives what the shards did before.
    Audited(BTreeMap<ShardNo, Position>),
    Keys(DestroyFrom),
    Shard(ShardNo, Option<Vec<u8>>),
    Directory(DirectoryNo, Option<Vec<u8>>),
    Root(Option<Vec<u8>>),
    Over,
}

impl Running {
    fn new(tenant: TenantId) -> Self {
        Self { tenant, stage: Stage::Requests, found: 0, unreported: 0, unreported_steps: 0 }
    }

    /// After a failure the next call takes the same step again.
    async fn step(&mut self, core: &Core) -> Result<Step, Refusal> {
        if self.unreported_steps >= NOTE_EVERY_STEPS {
            self.report(core, false).await?;
        }
        match self.stage.clone() {
            Stage::Requests if has_requests(core, self.tenant) => return Ok(Step::Waits),
            Stage::Requests => self.begin_round(core),
            Stage::Front(front, from) => self.wipe_front(core, front, from).await?,
            Stage::Taken(marks) => {
                if !have_taken(core, &marks)? {
                    return Ok(Step::Waits);
                }
                core.ports.points.reach("deletion.taken");
                let applied = |shard: &ShardNo| (*shard, applied(core, PartitionId::Shard(*shard)));
                self.stage = Stage::Audited(core.shards.keys().map(applied).collect());
            }
            Stage::Audited(marks) => {
                let is_behind =
                    |(shard, mark): (&ShardNo, &Position)| derived(core, PartitionId::Shard(*shard)) < *mark;
                if marks.iter().any(is_behind) {
                    return Ok(Step::Waits);
                }
                self.stage = Stage::Keys(DestroyFrom::default());
            }
            Stage::Keys(from) => self.destroy_keys(core, from)?,
            Stage::Shard(shard, from) => self.wipe_shard(core, shard, from).await?,
            Stage::Directory(directory, from) => self.wipe_directory(core, directory, from).await?,
            Stage::Root(from) => self.wipe_root(core, from).await?,
            Stage::Over => {
                core.ports.points.reach("deletion.over");
                self.report(core, true).await?;
                info!(tenant = %self.tenant, "tenant deleted");
            }
        }
        Ok(Step::Done)
    }

    fn begin_round(&mut self, core: &Core) {
        self.found = 0;
        self.stage = front_of(core.fronts.keys().next()).unwrap_or_else(|| taken_stage(core));
    }

    async fn wipe_front(
        &mut self,
        core: &Core,
        front: FrontNo,
        from: Option<Vec<u8>>,
    ) -> Result<(), Refusal> {
        core.ports.points.reach("deletion.front");
        let tenant = self.tenant;
        let handle = core.front(front).ok_or_else(|| other("layout"))?;
        let ask = FrontAsk::Wipe { tenant, from };
        let line = QueueLine::internal(tenant);
        let wiped = match answer(handle.queue.push(line, &Actor::System, vec![ask], ASK_BYTES)).await? {
            FrontAnswer::Wiped(wiped) => wiped,
            _ => return Err(other("front")),
        };
        self.stage = match self.removed(core, wiped) {
            Some(next) => Stage::Front(front, Some(next)),
            None => {
                front_of(core.fronts.keys().find(|one| **one > front)).unwrap_or_else(|| taken_stage(core))
            }
        };
        Ok(())
    }

    /// From here on nothing that is sealed can be read.
    fn destroy_keys(&mut self, core: &Core, from: DestroyFrom) -> Result<(), Refusal> {
        core.ports.points.reach("deletion.keys");
        self.stage = match core.ports.keyring.destroy_tenant(self.tenant, from).map_err(locked)? {
            Some(next) => Stage::Keys(next),
            None => {
                core.known.forget_events();
                let first = core.shards.keys().next().map(|shard| Stage::Shard(*shard, None));
                first.unwrap_or(Stage::Root(None))
            }
        };
        Ok(())
    }

    async fn wipe_shard(
        &mut self,
        core: &Core,
        shard: ShardNo,
        from: Option<Vec<u8>>,
    ) -> Result<(), Refusal> {
        core.ports.points.reach("deletion.shard");
        let tenant = self.tenant;
        let (ask, line) = (ShardAsk::Wipe { tenant, from }, QueueLine::internal(tenant));
        let queue = &core.shard(shard).queue;
        let wiped = match answer(queue.push(line, &Actor::System, vec![ask], ASK_BYTES)).await? {
            ShardAnswer::Wiped(wiped) => wiped,
            _ => return Err(other("shard")),
        };
        self.stage = match self.removed(core, wiped) {
            Some(next) => Stage::Shard(shard, Some(next)),
            None => match core.shards.keys().find(|one| **one > shard) {
                Some(next) => Stage::Shard(*next, None),
                None => match core.directories.keys().next() {
                    Some(first) => Stage::Directory(*first, None),
                    None => self.end_of_round(),
                },
            },
        };
        Ok(())
    }

    async fn wipe_directory(
        &mut self,
        core: &Core,
        no: DirectoryNo,
        from: Option<Vec<u8>>,
    ) -> Result<(), Refusal> {
        core.ports.points.reach("deletion.directory");
        let (tenant, rows_max) = (self.tenant, core.knobs.steps.wiped_rows);
        let (ask, line) = (DirectoryAsk::Wipe { tenant, from, rows_max }, QueueLine::internal(tenant));
        let queue = &core.directory(no).queue;
        let wiped = match answer(queue.push(line, &Actor::System, vec![ask], ASK_BYTES)).await? {
            DirectoryAnswer::Wiped(wiped) => wiped,
            _ => return Err(other("directory")),
        };
        self.stage = match self.removed(core, wiped) {
            Some(next) => Stage::Directory(no, Some(next)),
            None => match core.directories.keys().find(|one| **one > no) {
                Some(next) => Stage::Directory(*next, None),
                None => self.end_of_round(),
            },
        };
        Ok(())
    }

    /// What was on its way while the round went on is found by the next one.
    fn end_of_round(&self) -> Stage {
        if self.found > 0 { Stage::Requests } else { Stage::Root(None) }
    }

    async fn wipe_root(&mut self, core: &Core, from: Option<Vec<u8>>) -> Result<(), Refusal> {
        core.ports.points.reach("deletion.root");
        let (tenant, rows_max) = (self.tenant, core.knobs.steps.wiped_rows);
        let ask = RootAsk::Deletion(deletion::Ask::Wipe { tenant, from, rows_max });
        let wiped = match answer(core.root.push(HOUSE, &Actor::System, vec![ask], ASK_BYTES)).await? {
            RootAnswer::Wiped(wiped) => wiped,
            _ => return Err(other("root")),
        };
        self.stage = match self.removed(core, wiped) {
            Some(next) => Stage::Root(Some(next)),
            None => Stage::Over,
        };
        Ok(())
    }

    /// Counts what a step removed. Returns where the partition goes on.
    fn removed(&mut self, core: &Core, Wiped { removed, next }: Wiped) -> Option<Vec<u8>> {
        core.meter.wiped(removed);
        self.found += removed;
        self.unreported += removed;
        self.unreported_steps += 1;
        next
    }

    async fn report(&mut self, core: &Core, is_done: bool) -> Result<(), Refusal> {
        let (tenant, rows) = (self.tenant, self.unreported);
        let ask = RootAsk::Deletion(deletion::Ask::Wiped { tenant, rows, is_done });
        match answer(core.root.push(HOUSE, &Actor::System, vec![ask], ASK_BYTES)).await? {
            RootAnswer::Noted => {
                (self.unreported, self.unreported_steps) = (0, 0);
                Ok(())
            }
            _ => Err(other("root")),
        }
    }
}

fn front_of(front: Option<&FrontNo>) -> Option<Stage> {
    front.map(|front| Stage::Front(*front, None))
}

/// What the fronts have accepted by now is to be taken.
fn taken_stage(core: &Core) -> Stage {
    let mark = |front: &FrontNo| (*front, applied(core, PartitionId::Front(*front)));
    Stage::Taken(core.fronts.keys().map(mark).collect())
}

fn applied(core: &Core, partition: PartitionId) -> Position {
    core.applied.get(&partition).map_or(Position::START, |applied| *applied.borrow())
}

fn have_taken(core: &Core, marks: &BTreeMap<FrontNo, Position>) -> Result<bool, Refusal> {
    for (front, mark) in marks {
        for shard in core.shards.keys() {
            if taken(&core.ports, *shard, *front).map_err(broken)? < *mark {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn other(who: &str) -> Refusal {
    internal(&format!("the {who} answered something else"))
}
