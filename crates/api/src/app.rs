//! What every request shares: the node once it is open, the admin key's hash, clock, entropy and counters.
//!
//! The listener is up before the node has recovered, so that probes can see it. Until `serve` is called every
//! request is answered `NOT_READY`.

use crate::access::RefusedSums;
use crate::address_limits::{AddressLimits, AddressSettings};
use crate::aside::AsidePlaces;
use crate::bodies::BodyBudget;
use crate::exports_under_way::ExportsUnderWay;
use crate::hosted::LinkSaves;
use crate::merge_turns::MergeTurns;
use crate::problem::Problem;
use crate::refusal_lines::RefusalLines;
use crate::telemetry::{Telemetry, Text};
use fantail_channels::accounts::Registry;
use fantail_node::Node;
use fantail_outbound::policy::Policy;
use fantail_ports::BoxFuture;
use fantail_ports::clock::Clock;
use fantail_ports::entropy::Entropy;
use fantail_wire::code::Code;
use fantail_wire::health::{Backup, Check, Readiness};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What only the process that hosts the API knows.
pub trait Host: Send + Sync {
    /// Checks for the operator: journal, store, disk, lag.
    fn checks(&self) -> Vec<Check>;

    /// Whether every check is ok; reads no table.
    fn is_ready(&self) -> bool;

    /// Adds the metrics of journal, store, node and listener.
    fn write_metrics(&self, text: &mut Text);

    /// Makes a full verified copy of the data inside the data directory. The error is logged, not shown.
    fn backup(&self) -> BoxFuture<'static, Result<Backup, String>>;

    /// The accounts that messages go through.
    fn accounts(&self) -> &Arc<Registry>;
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// SHA-256 of the server's admin key.
    pub admin_key_hash: [u8; 32],
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// Slower requests are logged at info.
    pub slow_request: Duration,
    /// Where recipients find the hosted pages, without a slash at its end; empty: where the server listens.
    pub public_url: String,
    /// Where connections may go that tenants can cause.
    pub outbound: Policy,
    pub version: &'static str,
    /// Limits of addresses for requests without a key.
    pub addresses: AddressSettings,
}

pub struct App {
    pub settings: Settings,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub telemetry: Telemetry,
    /// What the bodies of requests may take.
    pub bodies: Arc<BodyBudget>,
    /// Merge patches of one document take turns.
    pub(crate) merge_turns: MergeTurns,
    /// Places for work beside the requests.
    pub aside: AsidePlaces,
    /// What is being exported.
    pub exports: Arc<ExportsUnderWay>,
    /// Counts the changes that links to preferences have saved.
    pub(crate) link_saves: Arc<LinkSaves>,
    pub addresses: AddressLimits,
    /// Requests that were refused because of who asked.
    pub refused: RefusedSums,
    /// Which refused requests get a line in the log.
    pub(crate) refusal_lines: RefusalLines,
    /// Where the server listens.
    listening: OnceLock<String>,
    serving: OnceLock<Serving>,
    stopping: AtomicBool,
}

struct Serving {
    node: Node,
    host: Arc<dyn Host>,
}

impl App {
    #[must_use]
    pub fn new(settings: Settings, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Arc<Self> {
        let link_saves = Arc::new(LinkSaves::new(entropy.random_u128()));
        let addresses = AddressLimits::new(settings.addresses.clone());
        Arc::new(Self {
            settings,
            addresses,
            refused: RefusedSums::default(),
            refusal_lines: RefusalLines::default(),
            clock,
            entropy,
            telemetry: Telemetry::default(),
            bodies: Arc::default(),
            merge_turns: MergeTurns::default(),
            aside: AsidePlaces::default(),
            exports: Arc::default(),
            link_saves,
            listening: OnceLock::new(),
            serving: OnceLock::new(),
            stopping: AtomicBool::new(false),
        })
    }

    /// Says where the server listens. Called once.
    pub fn listen(&self, url: String) {
        assert!(self.listening.set(url).is_ok(), "there is one listener");
    }

    /// What links to hosted pages begin with.
    pub fn public_url(&self) -> &str {
        match self.settings.public_url.as_str() {
            "" => self.listening.get().map_or("", String::as_str),
            given => given,
        }
    }

    /// From here on requests are answered. Called once.
    pub fn serve(&self, node: Node, host: Arc<dyn Host>) {
        assert!(self.serving.set(Serving { node, host }).is_ok(), "the node is opened once");
    }

    /// From here on `readyz` is red, so that no new traffic comes; requests are still answered.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// The node, if it is open.
    pub fn node(&self) -> Result<&Node, Problem> {
        match self.serving.get() {
            Some(serving) => Ok(&serving.node),
            None => Err(Problem::new(Code::NotReady, "the server is starting").retry_after_s(1)),
        }
    }

    pub fn host(&self) -> Option<&Arc<dyn Host>> {
        self.serving.get().map(|serving| &serving.host)
    }

    /// The accounts that messages go through, once the node is open.
    pub fn accounts(&self) -> Result<Arc<Registry>, Problem> {
        let starting = || Problem::new(Code::NotReady, "the server is starting").retry_after_s(1);
        Ok(self.host().ok_or_else(starting)?.accounts().clone())
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Whether traffic should come here. Costs little, because strangers may ask.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.is_stopping() && self.host().is_some_and(|host| host.is_ready())
    }

    #[must_use]
    pub fn readiness(&self) -> Readiness {
        let mut checks = match self.host() {
            Some(host) => host.checks(),
            None => vec![check("recovery", false, "the data is being opened")],
        };
        if self.is_stopping() {
            checks.push(check("stopping", false, "the server is stopping"));
        }
        let ready = checks.iter().all(|check| check.ok);
        Readiness { ready, version: self.settings.version.to_owned(), checks }
    }
}

fn check(name: &str, ok: bool, detail: &str) -> Check {
    Check { name: name.to_owned(), ok, detail: detail.to_owned() }
}
