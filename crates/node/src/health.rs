//! How a node is doing, for readiness and metrics.

use crate::ask::{ChannelKind, DeliveryState, Priority};
use crate::backlog::{self, Backlog};
use crate::bulk::{self, Jobs};
use crate::latency::Waited;
use crate::meter::Reading;
use crate::node::Node;
use crate::queue::{Held, QueueClass};
use crate::reasons::Stood;
use crate::{audit, deliveries};
use fantail_ports::store::Gauges;
use fantail_rules::believed_time::Jump;
use fantail_rules::ids::{FrontNo, PartitionId, Position};
use std::collections::BTreeMap;

/// How the node is doing, for readiness and metrics.
#[derive(Clone, Debug)]
pub struct Health {
    /// Why nothing more can be promised, if so.
    pub stopped: Option<String>,
    /// How far the machine's wall clock is off, if it is.
    pub clock_jump: Option<Jump>,
    /// Nothing is released, expired or deleted before an operator confirms the machine's clock.
    pub clock_held: bool,
    /// Nothing is sent before an operator resumes the node.
    pub paused: bool,
    pub counters: Reading,
    /// Panics of tasks and errors of loops that try again, by the name of the task. Tasks whose panic stops the node are
    /// listed from the start on.
    pub panics: Vec<(&'static str, u64)>,
    pub loop_errors: Vec<(&'static str, u64)>,
    pub store: Gauges,
    /// Front facts that the slowest shard has not taken yet.
    pub take_lag: u64,
    /// Records that the audit log has still to derive.
    pub audit_lag: u64,
    pub waiting: usize,
    /// Commands that were refused because the disk is short and their tenant has had its share of it.
    pub disk_share_refused: u64,
    pub tenants: usize,
    /// Deliveries that are being planned or sent.
    pub in_flight: Vec<(ChannelKind, u32)>,
    /// Deliveries since the beginning, by lane and state; those that are none are left out.
    pub deliveries: Vec<(Priority, DeliveryState, u64)>,
    /// Of these, the dead ones that wait for an operator.
    pub dead_letters: u64,
    /// What deliveries came to since the start, and why.
    pub outcomes: Stood,
    /// Attempts of webhooks to producers that failed, by reason.
    pub webhook_failures: BTreeMap<String, u64>,
    pub backlog: Backlog,
    pub bulk: Jobs,
    /// From acceptance to the provider's answer, in the order of the lanes.
    pub waited: [Waited; Priority::ALL.len()],
}

impl Node {
    #[must_use]
    pub fn health(&self) -> Health {
        let core = &self.core;
        Health {
            stopped: core.ports.stop.reason(),
            clock_jump: core.clock.jump(),
            clock_held: core.clock.hold().is_some(),
            paused: core.pause.is_on(),
            counters: core.meter.read(),
            panics: core.ports.tasks.panics(),
            loop_errors: core.meter.loop_errors(),
            store: core.ports.store.gauges(),
            take_lag: self.take_lag(),
            audit_lag: audit::feed::lag(core),
            waiting: core.fronts.values().map(|front| front.queue.len()).sum::<usize>()
                + core.shards.values().map(|shard| shard.queue.len()).sum::<usize>(),
            disk_share_refused: core.disk.refused(),
            tenants: core.control.now().tenants.len(),
            in_flight: core.dispatch.in_flight(),
            deliveries: deliveries::totals(core),
            dead_letters: deliveries::dead_letters(core),
            outcomes: core.meter.outcomes(),
            webhook_failures: core.webhook_progresses.failures(),
            backlog: backlog::look(core),
            bulk: bulk::jobs(core),
            waited: core.meter.waited(),
        }
    }

    /// What waits for each leader in memory, by class.
    #[must_use]
    pub fn queued(&self) -> Vec<(PartitionId, Held)> {
        let core = &self.core;
        let of = |partition, held: [Held; QueueClass::ALL.len()]| held.map(|held| (partition, held));
        let fronts =
            core.fronts.iter().map(|(no, front)| of(PartitionId::Front(*no), front.queue.all_held()));
        let shards =
            core.shards.iter().map(|(no, shard)| of(PartitionId::Shard(*no), shard.queue.all_held()));
        fronts.chain(shards).flatten().collect()
    }

    /// The facts of each front that are in memory.
    #[must_use]
    pub fn tails(&self) -> Vec<(FrontNo, Held)> {
        self.core.fronts.iter().map(|(no, front)| (*no, front.tail.held())).collect()
    }

    fn take_lag(&self) -> u64 {
        let mut worst = 0;
        for (front, handle) in &self.core.fronts {
            let durable = handle.applied.borrow().0;
            for shard in self.core.shards.keys() {
                let taken = crate::take::taken(&self.core.ports, *shard, *front).unwrap_or(Position::START);
                worst = worst.max(durable.saturating_sub(taken.0));
            }
        }
        worst
    }
}
