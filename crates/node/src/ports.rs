//! Everything of the world that a node uses, in one place.

use crate::spans::Spans;
use crate::supervise::Supervisor;
use fantail_audit::key::Signer;
use fantail_ports::accounts::Accounts;
use fantail_ports::audit::AuditLog;
use fantail_ports::blobs::Blobs;
use fantail_ports::channel::Channel;
use fantail_ports::clock::Clock;
use fantail_ports::entropy::Entropy;
use fantail_ports::erasure_list::ErasureList;
use fantail_ports::journal::Journal;
use fantail_ports::keyring::Keyring;
use fantail_ports::store::Store;
use fantail_rules::channel_kind::ChannelKind;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub struct Ports {
    pub journal: Arc<dyn Journal>,
    pub store: Arc<dyn Store>,
    pub blobs: Arc<dyn Blobs>,
    pub keyring: Arc<dyn Keyring>,
    pub erasure_list: Arc<dyn ErasureList>,
    /// The machine's; `start` puts the one in its place that does not jump.
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// It sets the same stop as below.
    pub tasks: Supervisor,
    /// The ways out of the house; what has none is refused.
    pub channels: BTreeMap<ChannelKind, Arc<dyn Channel>>,
    /// Whoever sends through the tenants' accounts with providers.
    pub accounts: Arc<dyn Accounts>,
    /// Where providers and recipients find us, without a slash at its end, once that is known.
    pub public_url: Arc<OnceLock<String>>,
    pub audit: Audit,
    /// A webhook to the producer that fails for this long is switched off.
    pub webhook_patience_ms: u64,
    pub stop: Arc<Stop>,
    pub points: Points,
    pub spans: Spans,
}

/// The audit log, and what vouches for it.
pub struct Audit {
    pub log: Arc<dyn AuditLog>,
    pub signer: Signer,
    /// How often a checkpoint is signed while something moves.
    pub checkpoint_every_ms: u64,
}

/// Named places on the way of a notification, where a test can have the process die. Nobody listens otherwise.
#[derive(Default)]
pub struct Points(Option<Box<dyn Fn(&'static str) + Send + Sync>>);

impl Points {
    /// In the order in which a notification meets them.
    pub const ALL: &[&str] = &[
        "accept.sealed",
        "lead.planned",
        "lead.durable",
        "lead.folded",
        "lead.settled",
        "take.proposed",
        "dispatch.started",
        "deliver.allowed",
        "deliver.packed",
        "deliver.answered",
        "deliver.sent",
        "deliver.settling",
        "deliver.settled",
        "audit.derived",
        "audit.appended",
    ];

    /// Those that only what is told together meets.
    pub const OF_DIGESTS: &[&str] = &["digest.folding", "digest.written"];

    /// Those that only runs of recurring schedules meet.
    pub const OF_SCHEDULES: &[&str] = &["schedule.due", "schedule.issued"];

    /// Those that threads beside the runtime meet.
    pub const OF_THREADS: &[&str] = &["store.tended"];

    #[must_use]
    pub fn watched_by(watcher: Box<dyn Fn(&'static str) + Send + Sync>) -> Self {
        Self(Some(watcher))
    }

    pub fn reach(&self, point: &'static str) {
        if let Some(watcher) = &self.0 {
            let listed = [Self::ALL, Self::OF_DIGESTS, Self::OF_SCHEDULES, Self::OF_THREADS];
            let is_listed = listed.iter().any(|points| points.contains(&point));
            debug_assert!(is_listed, "{point} is not listed");
            watcher(point);
        }
    }
}

/// Why the node can promise nothing more, once it cannot. The first reason stays.
#[derive(Default)]
pub struct Stop(Mutex<Option<String>>);

impl Stop {
    pub fn set(&self, reason: &str) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert_with(|| reason.to_owned());
    }

    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
