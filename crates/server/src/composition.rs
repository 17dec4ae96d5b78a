//! The one place where ports meet engines: opens the data directory and gives a node that leads all its partitions.
//!
//! Comes from: `serve`. Goes to: `Node` and `Host`, which is all that the rest of the server sees. A store that is
//! empty (new, or deleted) is filled from the newest snapshot that verifies; the journal does the rest.

use crate::audit_files::{audit_directory, signer};
use crate::background::Background;
use crate::backups::{self, Backups};
use crate::channels;
use crate::check_command;
use crate::config::Config;
use crate::copy_mark::CopyMark;
use crate::erasure_files;
use crate::host::ServerHost;
use crate::listen::Connections;
use crate::otlp::Exporter;
use crate::sandbox::House;
use crate::snapshots::Snapshots;
use crate::test_faults::TestFaults;
use anyhow::{Context, Result, ensure};
use fantail_api::Host;
use fantail_local::audit::{AuditOptions, LocalAudit};
use fantail_local::blobs::LocalBlobs;
use fantail_local::disk::RealDisk;
use fantail_local::erasure_list::LocalErasureList;
use fantail_local::journal::{JournalOptions, LocalJournal, RoomOptions, TornTail};
use fantail_local::keyring::{KeyringOptions, LocalKeyring};
use fantail_local::store::{LocalStore, StoreOptions, TornLog};
use fantail_node::Node;
use fantail_node::ports::{Audit, Ports, Stop};
use fantail_node::spans::Spans;
use fantail_node::start::Options;
use fantail_node::supervise::Supervisor;
use fantail_ports::BoxFuture;
use fantail_ports::clock::Clock;
use fantail_ports::entropy::Entropy;
use fantail_ports::journal::Journal;
use fantail_ports::store::Store;
use fantail_ports::tasks::Tasks;
use fantail_rules::believed_time::StartClock;
use fantail_rules::ids::{Millis, PartitionId, Position};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tracing::{info, warn};

/// Version of the data directory as a whole; journal, store and keyring check their own.
const FORMAT: u32 = 1;
const DAY_MS: u64 = 86_400_000;
/// How often the process looks whether the node has given up.
const STOP_LOOK: Duration = Duration::from_millis(100);

/// Bytes that a pair takes while it is transposed: its own four, and as many to sort into or to grow.
const PAIR_BYTES: usize = 8;

fn store_options(data: &Path, config: &Config) -> StoreOptions {
    let memory = config.memory;
    StoreOptions {
        cache_bytes: memory.cache_bytes,
        column_bytes: memory.column_bytes,
        window_events_min: memory.window_events,
        transpose_pairs_max: memory.transpose_bytes / PAIR_BYTES,
        hot_bytes: memory.hot_bytes,
        ..StoreOptions::new(tables_directory(data))
    }
}

/// What opening needs from the process.
pub struct Surroundings<'a> {
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub tasks: Arc<dyn Tasks>,
    /// Counted by the listener, shown by the host.
    pub connections: Arc<Connections>,
    /// Where traces go, if anywhere.
    pub exporter: Option<&'a Exporter>,
    /// Where providers and recipients find us, without a slash at its end.
    pub public_url: String,
    /// Where messages of tenants go that have no accounts, if anywhere.
    pub sandbox: Option<Arc<House>>,
}

/// An open data directory.
pub struct Running {
    pub node: Node,
    pub host: Arc<dyn Host>,
    /// Version of the files on disk.
    pub format: u32,
    /// The mark of a restored copy, which sends nothing.
    pub paused: Option<CopyMark>,
    /// How many days the clock is too far ahead to be believed.
    pub clock_days_ahead: Option<u64>,
    /// Resolves with the reason when nothing more may be promised; the process must stop.
    pub failed: BoxFuture<'static, String>,
    /// Stops the node, makes everything durable and seals the journal.
    pub close: Box<dyn FnOnce() -> BoxFuture<'static, Result<()>> + Send>,
}

#[must_use]
pub fn journal_directory(data: &Path) -> PathBuf {
    data.join("journal")
}

#[must_use]
pub fn tables_directory(data: &Path) -> PathBuf {
    data.join("tables")
}

#[must_use]
pub fn blobs_directory(data: &Path) -> PathBuf {
    data.join("blobs")
}

#[must_use]
pub fn keys_directory(data: &Path) -> PathBuf {
    data.join("keys")
}

/// Opens engines, recovers, and takes the lead of every partition.
pub async fn open(config: &Config, surroundings: Surroundings<'_>) -> Result<Running> {
    let data = &config.data;
    let mark = CopyMark::to_serve(data)?;
    let journal = open_journal(config)?;
    let stop = Arc::<Stop>::default();
    let keyring = open_keyring(config, &journal, stop.clone())?;
    let erasure_list = erasure_files::open(data, config.erasure_list.as_deref())?;
    remove_unfinished(data)?;
    let blobs = Arc::new(LocalBlobs::open(blobs_directory(data)).context("cannot open the blobs")?);
    let snapshots = Arc::new(Snapshots::open(blobs.clone())?);
    let store = open_store(config, &snapshots)?;
    let audit = open_audit(config)?;
    let started_at = surroundings.clock.wall();
    let exporter = surroundings.exporter;
    let test_faults = TestFaults::new(&config.delivery, surroundings.clock.clone());
    let tasks = Supervisor::new(surroundings.tasks, stop.clone()).with_poll_hook(test_faults.poll_hook());
    let shared: Arc<dyn Tasks> = Arc::new(tasks.clone());
    let channels = channels::open(config, &surroundings.clock, &shared, surroundings.sandbox)?;
    let accounts = channels.accounts;
    let ports = Ports {
        journal: journal.clone(),
        store: store.clone(),
        blobs,
        keyring: keyring.clone(),
        erasure_list: erasure_list.clone(),
        clock: surroundings.clock,
        entropy: surroundings.entropy.clone(),
        tasks,
        channels: channels.ways,
        accounts: accounts.clone(),
        public_url: Arc::new(OnceLock::from(surroundings.public_url)),
        audit: audit_of(config, audit.clone(), &*surroundings.entropy)?,
        webhook_patience_ms: config.delivery.webhook_patience_ms,
        stop,
        points: test_faults.points(),
        spans: exporter.map(|exporter| Spans::told_to(exporter.tracer.clone())).unwrap_or_default(),
    };
    let options = Options { is_paused: mark.is_some(), ..node_options(config, snapshots.newest_at()) };
    let (node, report) = Node::start(ports, options).await.context("cannot recover")?;
    let paused = erasure_files::settle(data, mark, &erasure_list, &node).await?;
    // Not before: if nothing else recovers, an operator may still want to try a copy that was not finished.
    snapshots.remove_unfinished().context("cannot remove a snapshot that was not finished")?;
    let clock_days_ahead = days_ahead(report.clock);
    let background = Background::start(node.clone(), snapshots.clone(), data.clone(), config)?;
    let host = ServerHost {
        node: node.clone(),
        journal: journal.clone(),
        audit: audit.clone(),
        report,
        connections: surroundings.connections,
        traces: exporter.map(|exporter| exporter.counts.clone()),
        room: config.room,
        data: data.clone(),
        paused: Arc::new(Mutex::new(paused)),
        accounts,
        started_at,
        backups: backups_of(config, &node, snapshots, &journal, &audit, keyring, erasure_list),
    };
    Ok(Running {
        node: node.clone(),
        host: Arc::new(host),
        format: FORMAT,
        paused,
        clock_days_ahead,
        failed: Box::pin(failure(node.clone())),
        close: Box::new(move || Box::pin(close(node, background, journal, audit))),
    })
}

fn backups_of(
    config: &Config,
    node: &Node,
    snapshots: Arc<Snapshots>,
    journal: &Arc<LocalJournal>,
    audit: &Arc<LocalAudit>,
    keyring: Arc<LocalKeyring>,
    erasure_list: Arc<LocalErasureList>,
) -> Arc<Backups> {
    Arc::new(Backups {
        node: node.clone(),
        snapshots,
        journal: journal.clone(),
        audit: audit.clone(),
        keyring,
        erasure_list,
        data: config.data.clone(),
        settings: config.backup,
        making: Mutex::default(),
    })
}

/// Opens the tables, and fills empty ones from the newest snapshot.
fn open_store(config: &Config, snapshots: &Snapshots) -> Result<Arc<LocalStore>> {
    let store = LocalStore::open(store_options(&config.data, config));
    let store = Arc::new(store.context("cannot open the tables")?);
    if let Some(TornLog { file, offset }) = store.torn_log() {
        warn!(file = %file.display(), offset, "a sync point that was cut off was removed");
    }
    if store.marks().is_empty()
        && let Some(name) = snapshots.fill(&*store)?
    {
        info!(name, "tables rebuilt from a snapshot");
    }
    Ok(store)
}

/// Removes what backups and checks have left that were killed.
fn remove_unfinished(data: &Path) -> Result<()> {
    backups::remove_unfinished(data)?;
    check_command::remove_scratch(data)
}

fn open_journal(config: &Config) -> Result<Arc<LocalJournal>> {
    let options = JournalOptions { room: room(config), ..JournalOptions::default() };
    let journal = LocalJournal::open(Arc::new(RealDisk), &journal_directory(&config.data), options);
    let journal = journal.context("cannot open the journal")?;
    tell_torn("journal", journal.report().torn_tail.as_ref());
    Ok(Arc::new(journal))
}

fn open_audit(config: &Config) -> Result<Arc<LocalAudit>> {
    let options = AuditOptions { room: room(config), ..AuditOptions::default() };
    let audit = LocalAudit::open(Arc::new(RealDisk), &audit_directory(&config.data), &options);
    let audit = audit.context("cannot open the audit log")?;
    tell_torn("audit log", &audit.report().torn_tails);
    Ok(Arc::new(audit))
}

/// Opens the keys. A journal with records had keys from its first start on: new ones would not open what they sealed.
fn open_keyring(config: &Config, journal: &LocalJournal, stop: Arc<Stop>) -> Result<Arc<LocalKeyring>> {
    let directory = keys_directory(&config.data);
    let root = journal.bounds(PartitionId::Root).context("cannot open the journal")?;
    let check = directory.join("server.check");
    ensure!(
        root.next == Position(1) || check.exists(),
        "keyring {} is missing: the journal needs its keys",
        check.display()
    );
    let options = KeyringOptions {
        cache_bytes: config.memory.key_bytes,
        on_failure: Some(Arc::new(move |reason: &str| stop.set(reason))),
        ..KeyringOptions::new(directory)
    };
    Ok(Arc::new(LocalKeyring::open(options).context("cannot open the keyring")?))
}

/// A tail that was cut off was never acknowledged; what was is elsewhere damage. It is said all the same.
fn tell_torn<'a>(what: &str, tails: impl IntoIterator<Item = &'a TornTail>) {
    for TornTail { file, offset, bytes, reason, saved_as } in tails {
        warn!(what, file, offset, bytes, reason, saved_as, "a write that was cut off was saved aside");
    }
}

fn node_options(config: &Config, known_time: Option<Millis>) -> Options {
    Options {
        shards: config.shards,
        producers: config.producers,
        quotas: config.quotas,
        queue_max: config.delivery.queue_max,
        guard_ms: config.delivery.guard_ms,
        link_ms: config.link_ms,
        known_time,
        ..Options::default()
    }
}

fn days_ahead(clock: StartClock) -> Option<u64> {
    match clock {
        StartClock::Held { by_ms } => Some(by_ms / DAY_MS),
        StartClock::AsExpected | StartClock::Behind { .. } => None,
    }
}

fn audit_of(config: &Config, log: Arc<LocalAudit>, entropy: &dyn Entropy) -> Result<Audit> {
    let checkpoint_every_ms = config.checkpoint_every.as_millis() as u64;
    Ok(Audit { log, signer: signer(&config.data, entropy)?, checkpoint_every_ms })
}

fn room(config: &Config) -> RoomOptions {
    RoomOptions {
        free_bytes_min: config.room.free_bytes_min,
        free_percent_min: config.room.free_percent_min,
        ..RoomOptions::default()
    }
}

async fn failure(node: Node) -> String {
    loop {
        if let Some(reason) = node.stopped() {
            return reason;
        }
        tokio::time::sleep(STOP_LOOK).await;
    }
}

async fn close(
    node: Node,
    background: Background,
    journal: Arc<LocalJournal>,
    audit: Arc<LocalAudit>,
) -> Result<()> {
    tokio::task::spawn_blocking(move || background.stop()).await.context("a background thread panicked")?;
    node.stop().await.context("cannot make the tables durable")?;
    let sealed = tokio::task::spawn_blocking(move || (audit.close(), journal.close())).await;
    let (audit, journal) = sealed.context("sealing panicked")?;
    audit.context("cannot seal the audit log")?;
    journal.context("cannot seal the journal")
}
