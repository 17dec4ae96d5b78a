//! Start: fence, recover, lead. Root first, as it knows the layout; fronts and directories before the
//! shards that take from them.

use crate::ask::Refusal;
use crate::bell;
use crate::clock::BelievedClock;
use crate::control::{ControlPlane, refresh};
use crate::core::{Core, DirectoryHandle, FrontHandle, ShardHandle};
use crate::crowds::Crowds;
use crate::directory_todos::DirectoryTodos;
use crate::disk_share::DiskShare;
use crate::dispatch::Dispatch;
use crate::fanout_share::FanoutShare;
use crate::known::Known;
use crate::lead::{Leader, Settled};
use crate::loops;
use crate::machines::{Directory, Front, Machine, Root, Shard};
use crate::meter::Meter;
use crate::pause::Pause;
use crate::ports::Ports;
use crate::producers::{Defaults, Producers};
use crate::queue::Queue;
use crate::quotas::TenantUsage;
use crate::recover::{RecoverError, Recovered, recover};
use crate::tail::Tail;
use crate::todos::{LongTodos, Todos};
use crate::webhooks::WebhookProgresses;
use crate::{layout, providers};
use fantail_machine::front::fact::Said;
use fantail_machine::records::root::Layout;
use fantail_machine::shard::Offer;
use fantail_machine::tables::todo::TodoWorker;
use fantail_ports::journal::JournalError;
use fantail_ports::keyring::KeyringError;
use fantail_ports::store::StoreError;
use fantail_rules::believed_time::StartClock;
use fantail_rules::ids::{DirectoryNo, FrontNo, Millis, PartitionId, Position, ShardNo};
use fantail_rules::knobs::Knobs;
use fantail_rules::limits::{GUARD_MS, LANE_EVENTS_MAX, LINK_MS};
use fantail_rules::quota::Amounts;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use thiserror::Error;
use tokio::sync::watch;
use tracing::info;

/// How a new data directory is laid out; an existing one keeps its layout.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub shards: u16,
    pub fronts: u16,
    pub directories: u16,
    /// For tests. Each front knows its own idempotency keys: with several of them, one key under different actors is accepted
    /// once by each, so that no other node starts with more than one.
    pub may_have_fronts: bool,
    /// How fast producers may ask.
    pub producers: Defaults,
    /// How much tenants may have that have no quota of their own; 0: as much as there is.
    pub quotas: Amounts,
    /// Events of a tenant that may wait in one lane, counted once for each channel and shard.
    pub queue_max: u64,
    /// How long what is kept about deliveries outlives their event.
    pub guard_ms: u64,
    /// After how long links for recipients end that say nothing else; 0: when their user goes.
    pub link_ms: u64,
    pub knobs: Knobs,
    /// A time at which the server certainly ran, like that of its newest snapshot.
    pub known_time: Option<Millis>,
    /// Nothing leaves before [`crate::Node::resume`].
    pub is_paused: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shards: 4,
            fronts: 1,
            directories: 1,
            may_have_fronts: false,
            producers: Defaults::default(),
            quotas: Amounts::default(),
            queue_max: LANE_EVENTS_MAX,
            guard_ms: GUARD_MS,
            link_ms: LINK_MS,
            knobs: Knobs::default(),
            known_time: None,
            is_paused: false,
        }
    }
}

/// What start found.
#[derive(Clone, Debug)]
pub struct Report {
    pub replayed_records: u64,
    pub shards: u16,
    pub fronts: u16,
    pub clock: StartClock,
}

#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Recover(#[from] RecoverError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    #[error("the root did not answer")]
    NoLayout,
    #[error("{fronts} fronts: an idempotency key would be accepted once by each of them")]
    Fronts { fronts: u16 },
    #[error("the audit log does not belong to this journal: {0}")]
    Audit(Refusal),
    #[error("cannot read how far webhooks have told: {0}")]
    Webhooks(Refusal),
}

type MachineQueue<M> = Queue<<M as Machine>::Ask, <M as Machine>::Answer>;

/// Wakes the errand loop of a shard.
#[derive(Clone)]
struct Bell(Arc<watch::Sender<u64>>);

type Bells = BTreeMap<ShardNo, Bell>;

impl Default for Bell {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Bell {
    fn ring(&self) {
        self.0.send_modify(|rung| *rung += 1);
    }
}

struct Starter {
    ports: Arc<Ports>,
    meter: Arc<Meter>,
    replayed: u64,
    /// The latest time of any record.
    newest: Millis,
    applied: BTreeMap<PartitionId, watch::Receiver<Position>>,
    knobs: Knobs,
    disk: Arc<DiskShare>,
    usage: Arc<TenantUsage>,
}

pub async fn start(mut ports: Ports, options: Options) -> Result<(Arc<Core>, Report), StartError> {
    let meter: Arc<Meter> = Arc::default();
    let clock = Arc::new(BelievedClock::new(ports.clock, meter.clone()));
    ports.clock = clock.clone();
    let Options {
        shards,
        fronts,
        directories,
        may_have_fronts,
        producers,
        quotas,
        queue_max,
        guard_ms,
        knobs,
        ..
    } = options;
    let mut starter = Starter::new(ports, meter, knobs, TenantUsage::new(quotas));
    let plane = Arc::new(ControlPlane::default());
    let known: Arc<providers::Known> = Arc::default();
    let settled = refresh(starter.ports.clone(), plane.clone(), known.clone());
    let (root, _) = starter.lead(Root, &BTreeMap::new(), settled).await?;
    let layout = layout::agree(&root, Layout { shards, fronts, directories }, may_have_fronts).await?;
    // What was recovered is the control plane until the root's next batch.
    refresh(starter.ports.clone(), plane.clone(), known)(&[], &[]);
    let fronts = starter.lead_fronts(layout).await?;
    let tails = fronts.iter().map(|(no, front)| (*no, front.tail.clone())).collect();
    let bells: Bells = (0..layout.shards).map(|no| (ShardNo(no), Bell::default())).collect();
    let directories = starter.lead_directories(layout, &bells).await?;
    let now = starter.ports.clock.monotonic();
    let dispatch = Arc::new(Dispatch::new((0..layout.shards).map(ShardNo), now, knobs));
    let shards = starter.lead_shards(bells, &tails, &dispatch, &plane).await?;
    let Starter { ports, meter, replayed, newest, applied, knobs, disk, usage } = starter;
    // No record was written yet under the clock's word.
    let start_clock = clock.start_after(newest.max(options.known_time.unwrap_or_default()));
    let core = Arc::new(Core {
        ports,
        clock,
        meter,
        pause: Pause::new(options.is_paused),
        known: Known::default(),
        dispatch,
        producers: Producers::new(producers),
        usage,
        crowds: Crowds::default(),
        queue_max,
        guard_ms,
        link_ms: options.link_ms,
        knobs,
        disk,
        fanout: FanoutShare::default(),
        walks_asked: Arc::default(),
        naming: RwLock::default(),
        control: plane,
        layout,
        root,
        fronts,
        directories,
        shards,
        applied,
        webhook_progresses: WebhookProgresses::default(),
        schedules: bell::Bell::default(),
        deletions: bell::Bell::default(),
        audited: watch::Sender::new(false),
    });
    loops::start(&core)?;
    let Layout { shards, fronts, .. } = layout;
    let report = Report { replayed_records: replayed, shards, fronts, clock: start_clock };
    info!(replayed, shards, fronts, "node started");
    Ok((core, report))
}

impl Starter {
    fn new(ports: Ports, meter: Arc<Meter>, knobs: Knobs, usage: TenantUsage) -> Self {
        Self {
            ports: Arc::new(ports),
            meter,
            replayed: 0,
            newest: Millis(0),
            applied: BTreeMap::new(),
            knobs,
            disk: Arc::default(),
            usage: Arc::new(usage),
        }
    }

    async fn lead_directories(
        &mut self,
        layout: Layout,
        bells: &Bells,
    ) -> Result<BTreeMap<DirectoryNo, DirectoryHandle>, StartError> {
        let mut directories = BTreeMap::new();
        for no in (0..layout.directories).map(DirectoryNo) {
            let bells = bells.clone();
            let todos = Arc::new(DirectoryTodos::new(self.knobs.todos_held));
            let remembered = todos.clone();
            let settled: Settled = Box::new(move |_, found| {
                remembered.offer(found);
                bells.values().for_each(Bell::ring);
            });
            let (queue, _) = self.lead(Directory(no), &BTreeMap::new(), settled).await?;
            directories.insert(no, DirectoryHandle { queue, todos });
        }
        Ok(directories)
    }

    async fn lead_shards(
        &mut self,
        bells: Bells,
        tails: &BTreeMap<FrontNo, Arc<Tail>>,
        dispatch: &Arc<Dispatch>,
        plane: &Arc<ControlPlane>,
    ) -> Result<BTreeMap<ShardNo, ShardHandle>, StartError> {
        let mut shards = BTreeMap::new();
        for (shard, bell) in bells {
            let (heard, ringer, offers) = (bell.0.subscribe(), Arc::downgrade(&bell.0), dispatch.clone());
            let todos = Arc::new(Todos::of(TodoWorker::Errands, self.knobs.todos_held));
            let long_todos = LongTodos::new(self.knobs.todos_held);
            let LongTodos { replans, halts, erasures } = long_todos.clone();
            let remembered = [todos.clone(), replans, halts, erasures];
            let windows: Arc<bell::Bell> = Arc::default();
            let opened = windows.clone();
            let walks: Arc<bell::Bell> = Arc::default();
            let further = walks.clone();
            let settled: Settled = Box::new(move |_, found| {
                offers.offer(shard, found);
                if found.contains(&Offer::Walk) {
                    further.ring();
                }
                // Most batches bring none.
                if found.iter().any(|offer| matches!(offer, Offer::Todo(_))) {
                    remembered.iter().for_each(|todos| todos.offer(found));
                    bell.ring();
                }
                if found.iter().any(|offer| matches!(offer, Offer::Window { .. })) {
                    opened.ring();
                }
            });
            let machine = Shard { no: shard, control: plane.clone() };
            let (queue, _) = self.lead(machine, tails, settled).await?;
            shards
                .insert(shard, ShardHandle { queue, bell: heard, ringer, todos, long_todos, windows, walks });
        }
        Ok(shards)
    }

    async fn lead_fronts(&mut self, layout: Layout) -> Result<BTreeMap<FrontNo, FrontHandle>, StartError> {
        let mut fronts = BTreeMap::new();
        for front in (0..layout.fronts).map(FrontNo) {
            let tail = Arc::new(Tail::new(front, self.ports.journal.clone(), self.knobs));
            let feed = tail.clone();
            let scheduled: Arc<bell::Bell> = Arc::default();
            let later = scheduled.clone();
            let settled: Settled = Box::new(move |facts, _| {
                feed.extend(facts);
                if facts.iter().any(|fact| matches!(fact.said, Said::Scheduled { .. })) {
                    later.ring();
                }
            });
            let (queue, applied) = self.lead(Front::new(front), &BTreeMap::new(), settled).await?;
            fronts.insert(front, FrontHandle { queue, tail, scheduled, applied });
        }
        Ok(fronts)
    }

    async fn lead<M: Machine>(
        &mut self,
        machine: M,
        tails: &BTreeMap<FrontNo, Arc<Tail>>,
        settled: Settled,
    ) -> Result<(Arc<MachineQueue<M>>, watch::Receiver<Position>), StartError> {
        let epoch = self.ports.journal.fence(machine.partition()).await?;
        let Recovered { last, time, replayed } = recover(&machine, &self.ports, tails, &self.knobs).await?;
        self.replayed += replayed;
        self.newest = self.newest.max(time);
        self.usage.read(&*self.ports.store, machine.partition())?;
        let queue: Arc<MachineQueue<M>> = Arc::new(Queue::new(self.knobs, self.disk.clone()));
        let (applied, watching) = watch::channel(last);
        self.applied.insert(machine.partition(), watching.clone());
        let leader = Leader {
            machine,
            ports: self.ports.clone(),
            meter: self.meter.clone(),
            queue: queue.clone(),
            usage: self.usage.clone(),
            epoch,
            next: last.next(),
            time,
            applied,
            settled,
            knobs: self.knobs,
        };
        let led = queue.clone();
        self.ports.tasks.spawn_loop("leader", move || led.is_closed(), Box::pin(leader.run()));
        Ok((queue, watching))
    }
}
