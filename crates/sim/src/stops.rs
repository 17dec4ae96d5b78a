//! How a node ends and comes back: a crash, a clean stop, a pause; and calls of ports that fail or take their time.

use crate::broken::{Broken, Invariant};
use crate::faults::{Fault, LOOPS, PortCall};
use crate::phases::DRAIN_STEPS_MAX;
use crate::run::Sim;
use fantail_node::Node;
use fantail_ports::tasks::Tasks;
use std::sync::{Arc, Mutex, PoisonError};

/// What the server gives deliveries under way by default.
const DRAIN_MS: u64 = 30_000;
/// Longer than some deadlines, than most timers, than a retry's rest.
const PAUSES_MS: [u64; 4] = [3_000, 20_000, 90_000, 900_000];
const DELAYS_MS: [u64; 3] = [100, 2_000, 10_000];

/// How many deliveries were left when a stop had ended, and whether the store was made durable.
type Stopped = Arc<Mutex<Option<(usize, bool)>>>;

impl Sim {
    /// The node dies and comes back; it may die again while it starts. Then what was lost is looked up.
    pub(crate) fn crash_and_restart(&mut self) -> Result<(), Broken> {
        self.crash()?;
        self.world.boot();
        let mut again = if self.swarm.crash_in_start { self.faults.below(3) } else { 0 };
        self.wait_for_start(|sim| {
            if again > 0 && sim.faults.below(60) == 0 {
                again -= 1;
                sim.crash()?;
                sim.world.boot();
            }
            Ok(())
        })?;
        for doubt in self.oracle.doubts() {
            self.resolve(&doubt)?;
        }
        Ok(())
    }

    fn crash(&mut self) -> Result<(), Broken> {
        self.report.crashes += 1;
        self.trace.note("crash", &self.world.journal.waiting());
        self.oracle.lose_all();
        self.world.crash(&self.faults);
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if self.swarm.rebuilds && self.faults.percent(40) {
            self.report.rebuilds += 1;
            self.trace.note("store lost", &());
            self.world.lose_store(self.faults.percent(60))?;
        }
        Ok(())
    }

    pub(crate) fn arm_port_fault(&mut self) {
        let task = self.faults.pick(&LOOPS).copied().unwrap_or("dispatch");
        let call = self.faults.pick(&PortCall::ALL).copied().unwrap_or(PortCall::StoreRead);
        let delay_ms = self.faults.percent(30).then(|| self.faults.pick(&DELAYS_MS).copied()).flatten();
        let fault = Fault { call, task, delay_ms };
        self.trace.note("port fault", &fault);
        self.world.faults.arm(fault);
    }

    pub(crate) fn pause(&mut self) -> Result<(), Broken> {
        let span = self.faults.pick(&PAUSES_MS).copied().unwrap_or(3_000);
        self.report.pauses += 1;
        self.report.virtual_ms += span;
        if self.faults.percent(50) {
            self.trace.note("pause", &span);
            self.world.pass(span);
            return Ok(());
        }
        self.trace.note("suspend", &span);
        self.world.suspend(span)
    }

    /// The node is asked to stop, ends, and another one starts. Nothing may be left unknown.
    pub(crate) fn stop_and_restart(&mut self) -> Result<(), Broken> {
        let Some(node) = self.world.node.clone() else { return Ok(()) };
        self.report.clean_stops += 1;
        self.trace.note("clean stop", &());
        self.world.set_full(false);
        self.world.faults.disarm();
        let left = self.stop(node)?;
        Invariant::CleanStop
            .holds(left == 0, || format!("{left} deliveries were under way after a clean stop"))?;
        let unknown = self.world.would_be_unknown()?;
        Invariant::CleanStop.holds(unknown.is_empty(), || {
            format!("a clean stop leaves {unknown:?} under way, so unknown to the next node")
        })?;
        self.crash_and_restart()
    }

    /// Returns how many deliveries did not end in time.
    fn stop(&mut self, node: Node) -> Result<usize, Broken> {
        let slot = Stopped::default();
        let (into, drains) = (slot.clone(), self.world.drains());
        let stop = async move {
            let left = if drains { node.drain(DRAIN_MS).await } else { 0 };
            let is_durable = node.stop().await.is_ok();
            *into.lock().unwrap_or_else(PoisonError::into_inner) = Some((left, is_durable));
        };
        self.world.executor.spawn("stop", Box::pin(stop));
        // Calls that are under way may be refused.
        self.world.failing = true;
        let (calls_left, chaos) = (self.calls_left, self.chaos);
        (self.calls_left, self.chaos) = (0, false);
        let mut stopped = None;
        for _ in 0..DRAIN_STEPS_MAX {
            stopped = stopped.or_else(|| *slot.lock().unwrap_or_else(PoisonError::into_inner));
            if stopped.is_some() && self.world.journal.waiting() == 0 {
                break;
            }
            self.step()?;
        }
        (self.calls_left, self.chaos) = (calls_left, chaos);
        match stopped {
            Some((left, true)) => Ok(left),
            Some((_, false)) => Invariant::CleanStop.broken("the store cannot be made durable".to_owned()),
            None => Invariant::CleanStop.broken("a clean stop never ends".to_owned()),
        }
    }
}
