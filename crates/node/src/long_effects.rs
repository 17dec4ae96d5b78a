//! Long effects: erasures, the re-evaluation of what waits for a user, and the end of what waits of an event that was called off. Each takes many steps; they take turns, and no other
//! effect of the shard waits for them.
//!
//! Comes from: to-do rows of the kinds that `TodoWorker` names. Does: one step of each effect per round, a few erasures at a
//! time. Tenants take turns to begin, and none has all places. Goes to: `erasures`, and `machine::shard::{replan, halt}`.
//!
//! Invariant: a step that fails is tried again, and the effect goes on where it was. The worker ends only when the shard's
//! queue is closed.

use crate::ask::Refusal;
use crate::backoff::Backoff;
use crate::core::{Core, answer, internal};
use crate::erasures::Erasing;
use crate::errands::woken;
use crate::queue::QueueLine;
use crate::todos::{Found, LongTodos, Todos};
use fantail_machine::shard::{ReplanPlace, ShardAnswer, ShardAsk};
use fantail_machine::tables::ledger::ParcelId;
use fantail_machine::tables::todo::{Todo, TodoWorker};
use fantail_ports::store::View;
use fantail_rules::actor::Actor;
use fantail_rules::fair_queue::has_room;
use fantail_rules::ids::{Arrival, Millis, PartitionId, ShardNo, TenantId, UserNo};
use std::sync::Arc;

/// What an ask takes in a queue.
const ASK_BYTES: usize = 1_024;
const NAME: &str = "long effects";

pub struct LongEffectWorker {
    core: Arc<Core>,
    shard: ShardNo,
    replans: Vec<Replanning>,
    halts: Vec<Halting>,
    erasures: Vec<(Erasing, Retry)>,
}

struct Replanning {
    tenant: TenantId,
    user: UserNo,
    from: Option<ReplanPlace>,
    is_done: bool,
    retry: Retry,
}

/// What waits of an event ends, of ledgers behind one.
struct Halting {
    tenant: TenantId,
    arrival: Arrival,
    behind: Option<ParcelId>,
    is_done: bool,
    retry: Retry,
}

/// When an effect that failed goes on. The others do not wait for it.
struct Retry {
    backoff: Backoff,
    at: Option<Millis>,
}

impl Default for Retry {
    fn default() -> Self {
        Self { backoff: Backoff::of(NAME), at: None }
    }
}

impl Retry {
    fn is_due(&self, now: Millis) -> bool {
        self.at.is_none_or(|at| at <= now)
    }

    /// Notes how a step ended. A leader that is gone ends the worker.
    fn note(&mut self, core: &Core, step: Result<(), Refusal>) -> Result<(), Refusal> {
        match step {
            Ok(()) => {
                self.at = None;
                self.backoff.reset();
            }
            Err(stopped @ Refusal::Stopped { .. }) => return Err(stopped),
            Err(refusal) => {
                let after_ms = self.backoff.failed(&core.meter, &refusal);
                self.at = Some(core.ports.clock.monotonic().plus(after_ms));
            }
        }
        Ok(())
    }
}

/// How often what has begun may be found again in a round. Its rows are there until it is done: once they were all passed, a
/// walk finds nothing else.
struct Repeats(usize);

impl Repeats {
    fn of(begun: usize, places: usize) -> Self {
        Self(begun.max(places))
    }

    fn is_over(&mut self) -> bool {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                false
            }
            None => true,
        }
    }
}

impl LongEffectWorker {
    #[must_use]
    pub fn new(core: Arc<Core>, shard: ShardNo) -> Self {
        Self { core, shard, replans: Vec::new(), halts: Vec::new(), erasures: Vec::new() }
    }

    pub async fn run(mut self) {
        let core = self.core.clone();
        let mut notify = core.shard(self.shard).bell.clone();
        let mut backoff = Backoff::of(NAME);
        loop {
            notify.borrow_and_update();
            match self.run_once().await {
                Ok(true) => backoff.reset(),
                Ok(false) => {
                    let retry_at = self.retries().filter_map(|retry| retry.at).min();
                    let until = retry_at.map(|at| core.ports.tasks.sleep_until(at));
                    if !woken(&mut notify, until).await {
                        return;
                    }
                }
                Err(Refusal::Stopped { .. }) => return,
                Err(refusal) => backoff.wait(&core.ports, &core.meter, &refusal).await,
            }
        }
    }

    fn retries(&self) -> impl Iterator<Item = &Retry> {
        let replans = self.replans.iter().map(|one| &one.retry);
        let halts = self.halts.iter().map(|one| &one.retry);
        replans.chain(halts).chain(self.erasures.iter().map(|(_, retry)| retry))
    }

    /// One step of every effect that has begun and does not wait for its retry. Returns whether there was any.
    async fn run_once(&mut self) -> Result<bool, Refusal> {
        self.begin()?;
        let now = self.core.ports.clock.monotonic();
        if !self.retries().any(|retry| retry.is_due(now)) {
            return Ok(false);
        }
        self.end_halted(now).await?;
        self.replan(now).await?;
        for (erasing, retry) in self.erasures.iter_mut().filter(|(_, retry)| retry.is_due(now)) {
            let step = erasing.step(&self.core, self.shard).await;
            retry.note(&self.core, step)?;
        }
        self.halts.retain(|one| !one.is_done);
        self.replans.retain(|one| !one.is_done);
        self.erasures.retain(|(erasing, _)| !erasing.is_done());
        Ok(true)
    }

    /// Begins what there is room for, in turns of the tenants.
    fn begin(&mut self) -> Result<(), Refusal> {
        let (core, knobs) = (self.core.clone(), self.core.knobs);
        let LongTodos { replans, halts, erasures } = &core.shard(self.shard).long_todos;
        let mut repeats = Repeats::of(self.replans.len(), knobs.replans_at_once);
        while let Some(todo) =
            next(&core, self.shard, replans, knobs.replans_at_once, &self.under_way(replans))?
        {
            let Todo::Replan { tenant, user } = todo else { continue };
            if !self.replans.iter().any(|one| (one.tenant, one.user) == (tenant, user)) {
                let retry = Retry::default();
                self.replans.push(Replanning { tenant, user, from: None, is_done: false, retry });
            } else if repeats.is_over() {
                break;
            }
        }
        let mut repeats = Repeats::of(self.halts.len(), knobs.halts_at_once);
        while let Some(todo) = next(&core, self.shard, halts, knobs.halts_at_once, &self.under_way(halts))? {
            let Todo::Halt { tenant, arrival } = todo else { continue };
            if !self.halts.iter().any(|one| (one.tenant, one.arrival) == (tenant, arrival)) {
                let retry = Retry::default();
                self.halts.push(Halting { tenant, arrival, behind: None, is_done: false, retry });
            } else if repeats.is_over() {
                break;
            }
        }
        let mut repeats = Repeats::of(self.erasures.len(), knobs.erasures_at_once);
        while let Some(todo) =
            next(&core, self.shard, erasures, knobs.erasures_at_once, &self.under_way(erasures))?
        {
            let Todo::Erase { tenant, erasure } = todo else { continue };
            if !self.erasures.iter().any(|(one, _)| one.is_of(tenant, erasure)) {
                self.erasures.push((Erasing::new(tenant, erasure), Retry::default()));
            } else if repeats.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// The tenants of the effects of this kind that have begun, each as often as it has one.
    fn under_way(&self, todos: &Todos) -> Vec<TenantId> {
        match todos.worker() {
            TodoWorker::Replans => self.replans.iter().map(|one| one.tenant).collect(),
            TodoWorker::Halts => self.halts.iter().map(|one| one.tenant).collect(),
            TodoWorker::Erasures => self.erasures.iter().map(|(one, _)| one.tenant()).collect(),
            TodoWorker::Errands => Vec::new(),
        }
    }

    /// What waits of each of these events ends, some ledgers at a time.
    async fn end_halted(&mut self, now: Millis) -> Result<(), Refusal> {
        let queue = &self.core.shard(self.shard).queue;
        let mut asked = Vec::with_capacity(self.halts.len());
        for one in self.halts.iter_mut().filter(|one| one.retry.is_due(now)) {
            let Halting { tenant, arrival, behind, .. } = *one;
            let ask = ShardAsk::EndHalted { tenant, arrival, behind };
            let pushed = queue.push(QueueLine::internal(tenant), &Actor::System, vec![ask], ASK_BYTES);
            asked.push((one, pushed));
        }
        for (one, pushed) in asked {
            let step = match answer(pushed).await {
                Ok(ShardAnswer::HaltGoesOn { behind }) => {
                    one.behind = behind;
                    Ok(())
                }
                Ok(ShardAnswer::HaltEnded) => {
                    one.is_done = true;
                    Ok(())
                }
                Ok(_) => Err(internal("the shard answered something else")),
                Err(refusal) => Err(refusal),
            };
            one.retry.note(&self.core, step)?;
        }
        Ok(())
    }

    /// The waiting deliveries of each of these users meet their gates again.
    async fn replan(&mut self, now: Millis) -> Result<(), Refusal> {
        let queue = &self.core.shard(self.shard).queue;
        let mut asked = Vec::with_capacity(self.replans.len());
        for one in self.replans.iter_mut().filter(|one| one.retry.is_due(now)) {
            let ask = ShardAsk::Replan { tenant: one.tenant, user: one.user, from: one.from };
            let pushed = queue.push(QueueLine::internal(one.tenant), &Actor::System, vec![ask], ASK_BYTES);
            asked.push((one, pushed));
        }
        for (one, pushed) in asked {
            let step = match answer(pushed).await {
                Ok(ShardAnswer::Replanned { next }) => {
                    one.from = next;
                    one.is_done = next.is_none();
                    Ok(())
                }
                Ok(_) => Err(internal("the shard answered something else")),
                Err(refusal) => Err(refusal),
            };
            one.retry.note(&self.core, step)?;
        }
        Ok(())
    }
}

/// The next effect of a tenant that may begin one more: as many of `places` as are still free beside those that it has, so
/// none takes them all.
fn next(
    core: &Core,
    shard: ShardNo,
    todos: &Todos,
    places: usize,
    under_way: &[TenantId],
) -> Result<Option<Todo>, Refusal> {
    let may = |tenant: TenantId| {
        let own = under_way.iter().filter(|other| **other == tenant).count();
        has_room(own, under_way.len(), places)
    };
    loop {
        match todos.take_where(1, may) {
            Found::Here(found) => return Ok(found.first().copied()),
            Found::InTables(look) => {
                let walk = |view: &dyn View| look.rows(view.tables());
                let found = core.read(PartitionId::Shard(shard), walk).inspect_err(|_| todos.miss())?;
                todos.found(found);
            }
        }
    }
}
