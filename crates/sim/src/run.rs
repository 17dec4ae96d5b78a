//! One run: chaos and load, then healing, then everything is looked at.
//!
//! The driver takes one small step at a time (poll a task, make appends durable, start a call, let time pass, break
//! something), each chosen by the seed. After every step the oracle hears the answers that came.

use crate::broken::{Broken, Invariant, Violation};
use crate::call::{Answer, Call};
use crate::chance::Chance;
use crate::deliveries::Deliveries;
use crate::executor::at_once;
use crate::knobs::Draw;
use crate::oracle::{CallId, Doubt, Now, Oracle, Seen};
use crate::owners;
use crate::perform::perform;
use crate::planted::{Bug, cancel_early};
use crate::provider;
use crate::swarm::Swarm;
use crate::trace::Trace;
use crate::workload::Workload;
use crate::world::World;
use fantail_node::Node;
use fantail_ports::clock::Clock;
use fantail_ports::keyring::Keyring;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::TenantId;
use fantail_rules::knobs::Knobs;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// What a run saw.
#[derive(Clone, Copy, Default, Debug)]
pub struct Report {
    pub trace: u128,
    pub steps: u64,
    pub calls: u64,
    pub crashes: u64,
    pub rebuilds: u64,
    pub failed_syncs: u64,
    pub full_disks: u64,
    pub clock_steps: u64,
    /// Events whose tier was "pointer", and lists events whose tier was "written".
    pub pointers: u64,
    pub written: u64,
    pub virtual_ms: u64,
    pub outages: u64,
    pub clean_stops: u64,
    pub pauses: u64,
    pub far_clocks: u64,
    /// Whether the node had tiny limits.
    pub tiny_limits: u64,
    /// Calls of ports that failed or took their time.
    pub port_faults: u64,
    /// Deliveries, and how some of them ended; and copies that were sent because nobody knew of the first.
    pub deliveries: u64,
    pub accepted: u64,
    pub unconfirmed: u64,
    pub dead_letters: u64,
    pub resends: u64,
    /// Digests that were written.
    pub digests: u64,
    /// Steps of walks over everybody.
    pub steps_of_walks: u64,
    pub sent: provider::Seen,
    pub seen: Seen,
}

type Answers = Arc<Mutex<VecDeque<(CallId, Answer)>>>;

pub struct Sim {
    pub(crate) world: World,
    pub(crate) oracle: Oracle,
    pub(crate) deliveries: Deliveries,
    pub(crate) workload: Workload,
    pub(crate) trace: Trace,
    pub(crate) swarm: Swarm,
    pub(crate) report: Report,
    pub(crate) order: Chance,
    pub(crate) faults: Chance,
    pub(crate) answers: Answers,
    last_call: CallId,
    pub(crate) calls_left: u32,
    pub(crate) chaos: bool,
}

/// How a seed is run, besides what the seed says.
#[derive(Default)]
pub struct Options {
    pub bug: Option<Bug>,
    /// Ask also what production is known not to hold yet.
    pub strict: bool,
    pub draw: Draw,
    pub trace: Trace,
}

/// Runs a seed to its end.
pub fn run(seed: u64) -> Result<Report, Violation> {
    run_with(seed, Options::default())
}

/// The same with a planted bug, or a trace that is shown.
pub fn run_with(seed: u64, options: Options) -> Result<Report, Violation> {
    let draw = options.draw;
    let mut sim = Sim::new(seed, options);
    let done = catch_unwind(AssertUnwindSafe(|| sim.whole_run()));
    let done = done.unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().cloned();
        let what = what.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Invariant::Serves.broken(format!("panic: {}", what.unwrap_or_default()))
    });
    sim.report.trace = sim.trace.hash();
    sim.report.steps = sim.trace.step;
    sim.report.seen = sim.oracle.seen;
    sim.report.port_faults = sim.world.faults.hits();
    sim.report.tiny_limits = u64::from(sim.swarm.knobs != Knobs::DEFAULT);
    sim.count_deliveries();
    done.map(|()| sim.report).map_err(|broken| Violation { seed, draw, step: sim.trace.step, broken })
}

impl Sim {
    fn new(seed: u64, Options { bug, strict, draw, trace }: Options) -> Self {
        let swarm = Swarm::of(seed, strict, draw);
        Self {
            world: World::new(seed, &swarm, bug),
            oracle: Oracle::default(),
            deliveries: Deliveries::default(),
            workload: Workload::new(seed, &swarm, Vec::new()),
            trace,
            report: Report::default(),
            order: Chance::of(seed, "order"),
            faults: Chance::of(seed, "faults"),
            answers: Answers::default(),
            last_call: 0,
            calls_left: 0,
            chaos: false,
            swarm,
        }
    }

    /// One small step.
    pub(crate) fn step(&mut self) -> Result<(), Broken> {
        self.trace.step += 1;
        let (ready, waiting) = (self.world.executor.has_ready(), self.world.journal.waiting());
        let may_call = self.calls_left > 0
            && self.world.node.is_some()
            && self.oracle.in_flight() < self.swarm.in_flight_max;
        let on = |on: bool, weight: u64| if on { weight } else { 0 };
        let idle = !ready && waiting == 0;
        let weights = [
            on(ready, 100),
            on(waiting > 0, self.swarm.flush_weight),
            on(may_call, 15),
            if idle { 10 } else { 1 },
            1,
            on(self.chaos, 1),
        ];
        match self.order.weighted(&weights) {
            0 => {
                let polled = self.world.executor.run_one(&self.order);
                self.trace.fold_number(polled.map_or(0, |(task, _)| task));
            }
            1 => {
                let group = self.order.index(waiting) + 1;
                self.trace.note("flush", &group);
                for _ in 0..group {
                    self.world.journal.flush_next();
                }
            }
            2 => self.start_call(),
            3 => self.pass_time(idle),
            4 => self.tidy_up()?,
            _ => self.break_something()?,
        }
        self.after_step()
    }

    fn pass_time(&mut self, idle: bool) {
        let now = self.world.clock.monotonic();
        let next = self.world.executor.next_timer().map_or(100, |next| next.since(now));
        let span = if idle { next.max(1) } else { self.order.below(20).min(next) };
        self.trace.note("time", &span);
        self.world.pass(span);
        self.report.virtual_ms += span;
    }

    fn tidy_up(&mut self) -> Result<(), Broken> {
        let Some(node) = &self.world.node else { return Ok(()) };
        if self.order.percent(50) {
            let tended = node.tend();
            return tended.map(drop).or_else(|failed| Invariant::Serves.broken(failed.to_string()));
        }
        if self.order.percent(30) {
            self.trace.note("sync", &());
            self.world.sync_store();
        }
        Ok(())
    }

    fn start_call(&mut self) {
        let call = self.workload.next(&mut self.oracle, self.world.wall());
        if self.oracle.may_start(&call) {
            self.calls_left -= 1;
            self.invoke(call);
        }
    }

    pub(crate) fn invoke(&mut self, call: Call) {
        let Some(node) = self.world.node.clone() else { return };
        self.last_call += 1;
        self.report.calls += 1;
        let id = self.last_call;
        self.trace.note("call", &(id, &call));
        self.oracle.invoke(id, &call, self.trace.step);
        let (answers, tasks, clock) =
            (self.answers.clone(), self.world.executor.clone(), self.world.clock.clone());
        let bug = self.world.bug();
        let work = async move {
            let answer = match (bug, &call) {
                (Some(Bug::AnswersEarly), Call::Cancel { tenant, event, .. }) => {
                    Answer::Cancelled(cancel_early(&node, *tenant, *event).await)
                }
                _ => perform(node, call, tasks, clock).await,
            };
            answers.lock().unwrap_or_else(PoisonError::into_inner).push_back((id, answer));
        };
        self.world.executor.spawn("call", Box::pin(work));
    }

    /// Hears the answers, and notices when all shards have caught up.
    pub(crate) fn after_step(&mut self) -> Result<(), Broken> {
        self.judge_calls()?;
        // Before the answers: a leader that panics refuses what waited for it, and the panic is the reason.
        let panics = self.world.node.as_ref().map(Node::panics).unwrap_or_default();
        Invariant::Serves.holds(panics.is_empty(), || format!("panics: {panics:?}"))?;
        loop {
            let heard = self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((id, answer)) = heard else { break };
            self.trace.note("answer", &(id, &answer));
            self.judge_answer(id, &answer)?;
            let now = self.now();
            self.oracle.complete(id, answer, now, self.world.failing)?;
        }
        if self.trace.step.is_multiple_of(4) && self.world.take_lag() == Some(0) {
            self.oracle.quiet(self.trace.step);
        }
        if self.trace.step.is_multiple_of(8) && self.swarm.devices {
            owners::check(&self.world, &self.workload.tenants)?;
        }
        if self.trace.step.is_multiple_of(8) {
            self.world.check_bounded()?;
        }
        if self.trace.step.is_multiple_of(64) {
            self.world.tidy_orphans()?;
        }
        if self.trace.step.is_multiple_of(64) && !self.world.failing {
            let stopped = self.world.node.as_ref().and_then(|node| node.health().stopped);
            Invariant::Serves.holds(stopped.is_none(), || format!("the node stopped: {stopped:?}"))?;
        }
        Ok(())
    }

    pub(crate) fn run_one(&mut self) -> Result<(), Broken> {
        self.world.executor.run_one(&self.order);
        self.judge_calls()
    }

    /// The node dies with nothing under way.
    pub(crate) fn die(&mut self) {
        self.world.crash(&self.order);
    }

    pub(crate) fn now(&self) -> Now {
        Now { step: self.trace.step, wall: self.world.wall(), latest: self.world.latest() }
    }

    /// A fault, if the swarm of this seed has it.
    fn break_something(&mut self) -> Result<(), Broken> {
        let swarm = &self.swarm;
        let on = |on: bool, weight: u64| if on { weight } else { 0 };
        let weights = [
            60,
            on(swarm.crashes, 6),
            on(swarm.sync_failures, 2),
            on(swarm.full_disks, if self.world.full { 20 } else { 4 }),
            on(swarm.clock_steps, 4),
            on(swarm.rebuilds, 4),
            on(swarm.deliveries && swarm.moods, 2),
            on(swarm.port_faults, 20),
            on(swarm.clean_stops && !self.world.failing, 3),
            on(swarm.pauses, 3),
            on(swarm.far_clocks && swarm.crashes, 2),
        ];
        match self.faults.weighted(&weights) {
            1 => self.crash_and_restart(),
            2 if !self.world.failing => {
                self.trace.note("sync fails", &());
                self.report.failed_syncs += 1;
                self.world.fail_sync();
                for _ in 0..self.faults.below(60) {
                    self.trace.step += 1;
                    self.world.executor.run_one(&self.order);
                    self.after_step()?;
                }
                self.crash_and_restart()
            }
            3 => {
                let full = !self.world.full;
                self.trace.note("full", &full);
                self.report.full_disks += u64::from(full);
                self.world.set_full(full);
                Ok(())
            }
            4 => {
                let stepped = self.world.step_clock(&self.faults);
                self.report.clock_steps += 1;
                let wall = self.world.clock.wall();
                self.trace.note("clock", &wall);
                stepped
            }
            5 => {
                self.trace.note("snapshot", &());
                self.world.snapshot();
                Ok(())
            }
            6 => {
                let is_down = self.world.provider.turn();
                self.trace.note("provider down", &is_down);
                self.report.outages += u64::from(is_down);
                Ok(())
            }
            7 => {
                self.arm_port_fault();
                Ok(())
            }
            8 => self.stop_and_restart(),
            9 => self.pause(),
            10 => {
                self.trace.note("clock far ahead", &());
                self.report.far_clocks += 1;
                self.world.set_far_ahead();
                self.crash_and_restart()
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn wait_for_start(
        &mut self,
        mut meanwhile: impl FnMut(&mut Self) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        for _ in 0..100_000 {
            if self.world.started()? {
                self.trace.note("started", &());
                return self.world.note_orphans();
            }
            self.trace.step += 1;
            if self.order.percent(20) {
                self.world.journal.flush_next();
            }
            if self.world.executor.run_one(&self.order).is_none() {
                self.world.journal.flush_next();
            }
            self.judge_calls()?;
            meanwhile(self)?;
        }
        Invariant::Drains.broken("the node never starts".to_owned())
    }

    /// Reads what a lost call may have changed.
    pub(crate) fn resolve(&mut self, doubt: &Doubt) -> Result<(), Broken> {
        let Some(node) = self.world.node.clone() else { return Ok(()) };
        match doubt {
            Doubt::Put { who, .. } | Doubt::Deleted { who } | Doubt::Duel { who } => {
                let found = at_once(node.user(who.tenant, &who.name())).and_then(Result::ok);
                self.trace.note("resolve", &(doubt, &found));
                self.oracle.resolve_user(doubt, found.map(|view| view.attributes))
            }
            Doubt::Edge { who, list } => {
                let edge = fantail_node::ask::EdgeAsk { user: who.name(), list: list.ask() };
                let found = at_once(node.is_member(who.tenant, edge)).and_then(Result::ok);
                self.trace.note("resolve", &(doubt, &found));
                self.oracle.resolve_edge(*who, *list, found, self.trace.step)
            }
        }
    }

    pub(crate) fn use_tenants(&mut self, seed_tenants: Vec<TenantId>) {
        let seed = self.world.seed();
        self.workload = Workload::new(seed, &self.swarm, seed_tenants);
        for stranger in self.workload.strangers() {
            let lookup = self.world.keyring.lookup_user(stranger.tenant, &stranger.name());
            self.deliveries.nameless.extend(lookup.ok().map(|lookup| (stranger.tenant, lookup)));
        }
    }
}
