//! A node on local files in this process.

use anyhow::{Context, Result, anyhow};
use fantail_audit::key::Signer;
use fantail_channels::stub::{Settings, Stub};
use fantail_local::audit::{AuditOptions, LocalAudit};
use fantail_local::blobs::LocalBlobs;
use fantail_local::disk::RealDisk;
use fantail_local::erasure_list::LocalErasureList;
use fantail_local::journal::{JournalOptions, LocalJournal};
use fantail_local::keyring::{KeyringOptions, LocalKeyring};
use fantail_local::store::{LocalStore, StoreOptions};
use fantail_machine::tables::Family;
use fantail_node::Node;
use fantail_node::ask::TenantAsk;
use fantail_node::ports::{Audit, Points, Ports, Stop};
use fantail_node::spans::Spans;
use fantail_node::start::Options;
use fantail_node::supervise::Supervisor;
use fantail_ports::accounts::NoAccounts;
use fantail_ports::channel::Channel;
use fantail_ports::clock::Clock;
use fantail_ports::store::{Store, StoreError, Tended};
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, PartitionId, ShardNo, TenantId};
use fantail_server::system::{SystemClock, SystemEntropy, SystemTasks};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

pub const SHARDS: u16 = 4;
/// How long the store's background work rests when there is none.
const TEND_REST: Duration = Duration::from_millis(50);

/// The machine's clock, later by a fixed time.
struct LaterClock {
    clock: Arc<SystemClock>,
    later_ms: u64,
}

impl Clock for LaterClock {
    fn wall(&self) -> Millis {
        self.clock.wall().plus(self.later_ms)
    }

    fn monotonic(&self) -> Millis {
        self.clock.monotonic()
    }

    fn steady(&self) -> Millis {
        self.clock.steady()
    }

    fn micros(&self) -> u64 {
        self.clock.micros()
    }
}

/// The thread of a store's background work.
pub struct Tending {
    stop: Sender<()>,
    thread: JoinHandle<Result<(), StoreError>>,
}

impl Tending {
    /// Waits until what is under way is done.
    pub fn stop(self) -> Result<()> {
        drop(self.stop);
        let ended = self.thread.join().map_err(|_| anyhow!("the store's background work panicked"))?;
        ended.context("the store's background work failed")
    }
}

pub struct House {
    pub clock: Arc<dyn Clock>,
    pub tasks: Arc<SystemTasks>,
    pub journal: Arc<LocalJournal>,
    pub store: Arc<LocalStore>,
    pub keyring: Arc<LocalKeyring>,
    pub erasure_list: Arc<LocalErasureList>,
    pub blobs: Arc<LocalBlobs>,
    pub audit: Arc<LocalAudit>,
}

impl House {
    pub fn open(directory: &Path) -> Result<Self> {
        Self::open_later(directory, 0)
    }

    /// Opens it so much later than it is.
    pub fn open_later(directory: &Path, later_ms: u64) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let clock = Arc::new(SystemClock::default());
        let handle = tokio::runtime::Handle::current();
        let options = JournalOptions::default();
        let journal = LocalJournal::open(Arc::new(RealDisk), &directory.join("journal"), options)?;
        Ok(Self {
            tasks: Arc::new(SystemTasks { handle, clock: clock.clone() }),
            clock: Arc::new(LaterClock { clock, later_ms }),
            journal: Arc::new(journal),
            store: Arc::new(LocalStore::open(StoreOptions::new(directory.join("tables")))?),
            keyring: Arc::new(LocalKeyring::open(KeyringOptions::new(directory.join("keys")))?),
            erasure_list: Arc::new(LocalErasureList::open(&directory.join("erasures.list"))?),
            blobs: Arc::new(LocalBlobs::open(directory.join("blobs"))?),
            audit: Arc::new(LocalAudit::open(
                Arc::new(RealDisk),
                &directory.join("audit"),
                &AuditOptions::default(),
            )?),
        })
    }

    pub fn close(&self) -> Result<()> {
        self.audit.close()?;
        Ok(self.journal.close()?)
    }

    pub fn stub(&self) -> Result<Arc<dyn Channel>> {
        let stub = Stub::open(&Settings::default(), self.clock.clone(), self.tasks.clone())?;
        Ok(Arc::new(stub))
    }

    pub async fn start(&self, push: Arc<dyn Channel>) -> Result<Node> {
        let stop = Arc::<Stop>::default();
        let ports = Ports {
            journal: self.journal.clone(),
            store: self.store.clone(),
            blobs: self.blobs.clone(),
            keyring: self.keyring.clone(),
            erasure_list: self.erasure_list.clone(),
            clock: self.clock.clone(),
            entropy: Arc::new(SystemEntropy::default()),
            tasks: Supervisor::new(self.tasks.clone(), stop.clone()),
            channels: BTreeMap::from([(ChannelKind::Push, push)]),
            audit: Audit {
                log: self.audit.clone(),
                signer: Signer::from_seed(&[7; 32]),
                checkpoint_every_ms: 60_000,
            },
            accounts: Arc::new(NoAccounts),
            public_url: Arc::default(),
            webhook_patience_ms: 86_400_000,
            stop,
            points: Points::default(),
            spans: Spans::default(),
        };
        let (node, _) = Node::start(ports, Options { shards: SHARDS, ..Options::default() }).await?;
        Ok(node)
    }

    /// Begins with the store's background work, as a server has it, on a thread of its own.
    pub fn tend(&self) -> Result<Tending> {
        let (stop, stopped) = channel();
        let store = self.store.clone();
        let work = move || {
            let mut rest = TEND_REST;
            while stopped.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
                rest = if store.tend()? == Tended::MoreWaiting { Duration::ZERO } else { TEND_REST };
            }
            Ok(())
        };
        Ok(Tending { stop, thread: Builder::new().name("store-tend".to_owned()).spawn(work)? })
    }

    /// Reads the tables of a shard.
    pub fn read<T>(&self, shard: ShardNo, read: impl Fn(&dyn Tables) -> Result<T, TablesError>) -> Result<T> {
        let mut found = None;
        self.store.read(PartitionId::Shard(shard), &mut |state| found = Some(read(state.tables())))?;
        found.context("the store reads nothing")?.context("cannot read the tables")
    }

    /// The bytes of all ledgers: the guard, and what became of each delivery.
    pub async fn ledger_bytes(&self) -> Result<f64> {
        let mut bytes = 0;
        for no in 0..SHARDS {
            let mut scanned = Ok(());
            self.store.read(PartitionId::Shard(ShardNo(no)), &mut |state| {
                let range = KeyRange { from: &[Family::Ledger as u8], to: &[Family::Ledger as u8 + 1] };
                scanned = state.tables().scan(range, Order::Ascending, &mut |key, row| {
                    bytes += key.len() + row.len();
                    ControlFlow::Continue(())
                });
            })?;
            scanned.context("cannot read ledgers")?;
        }
        Ok(bytes as f64)
    }

    /// New tenants.
    pub async fn tenants<const COUNT: usize>(&self, slugs: [&str; COUNT]) -> Result<[TenantId; COUNT]> {
        let node = self.start(self.stub()?).await?;
        let mut ids = [TenantId(0); COUNT];
        for (slug, id) in slugs.into_iter().zip(&mut ids) {
            let ask = TenantAsk { slug: slug.to_owned(), name: slug.to_owned() };
            *id = node.create_tenant(ask).await.map_err(|refusal| anyhow!("{refusal}"))?.id;
        }
        node.stop().await.map_err(|refusal| anyhow!("{refusal}"))?;
        Ok(ids)
    }
}
