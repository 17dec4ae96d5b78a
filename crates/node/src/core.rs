//! What all parts of a running node share: the ports, the queues of the leaders, the layout.

use crate::ask::{ListAsk, Refusal};
use crate::bell::Bell;
use crate::bulk::WalksAsked;
use crate::clock::BelievedClock;
use crate::control::ControlPlane;
use crate::crowds::Crowds;
use crate::directory_todos::DirectoryTodos;
use crate::disk_share::DiskShare;
use crate::dispatch::Dispatch;
use crate::fanout_share::FanoutShare;
use crate::known::Known;
use crate::meter::Meter;
use crate::pause::Pause;
use crate::ports::Ports;
use crate::producers::Producers;
use crate::queue::Queue;
use crate::quotas::TenantUsage;
use crate::tail::Tail;
use crate::todos::{LongTodos, Todos};
use crate::webhooks::WebhookProgresses;
use fantail_machine::directory::{DirectoryAnswer, DirectoryAsk};
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::records::root::Layout;
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_ports::BoxFuture;
use fantail_ports::keyring::{KeyringError, ListName};
use fantail_ports::store::{StoreError, View};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{
    AddressHash, DirectoryNo, FrontNo, ListId, Lookup, PartitionId, Position, ShardNo, TenantId,
};
use fantail_rules::knobs::Knobs;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, Weak};
use tokio::sync::{oneshot, watch};

pub type RootQueue = Queue<RootAsk, RootAnswer>;
pub type FrontQueue = Queue<FrontAsk, FrontAnswer>;
pub type DirectoryQueue = Queue<DirectoryAsk, DirectoryAnswer>;
pub type ShardQueue = Queue<ShardAsk, ShardAnswer>;

pub struct Core {
    pub ports: Arc<Ports>,
    /// The same as in the ports, for what only it can tell.
    pub clock: Arc<BelievedClock>,
    pub meter: Arc<Meter>,
    pub pause: Pause,
    pub known: Known,
    pub dispatch: Arc<Dispatch>,
    pub producers: Producers,
    /// What each tenant has.
    pub usage: Arc<TenantUsage>,
    pub crowds: Crowds,
    /// Events of a tenant that may wait in one lane.
    pub queue_max: u64,
    /// How long what is kept about deliveries outlives their event.
    pub guard_ms: u64,
    /// After how long links for recipients end by themselves; 0: not before their user goes.
    pub link_ms: u64,
    pub knobs: Knobs,
    /// What each tenant may still write while the disk is short.
    pub disk: Arc<DiskShare>,
    /// What each tenant may still have accepted while fan-out is behind.
    pub fanout: FanoutShare,
    pub walks_asked: Arc<WalksAsked>,
    /// Held while somebody reads which list a segment has and puts what goes by it into a front's queue. Whoever drops lists
    /// takes it once, and knows that nobody is in between; never held across an await.
    pub naming: RwLock<()>,
    pub control: Arc<ControlPlane>,
    pub layout: Layout,
    pub root: Arc<RootQueue>,
    pub fronts: BTreeMap<FrontNo, FrontHandle>,
    pub directories: BTreeMap<DirectoryNo, DirectoryHandle>,
    pub shards: BTreeMap<ShardNo, ShardHandle>,
    /// What is durable and folded of every partition.
    pub applied: BTreeMap<PartitionId, watch::Receiver<Position>>,
    /// How webhooks to producers are doing.
    pub webhook_progresses: WebhookProgresses,
    /// Rings when a schedule was made or changed.
    pub schedules: Bell,
    /// Turns true when the audit log is fed no more.
    pub audited: watch::Sender<bool>,
}

pub struct FrontHandle {
    pub queue: Arc<FrontQueue>,
    pub tail: Arc<Tail>,
    /// Rings when something was scheduled.
    pub scheduled: Arc<Bell>,
    pub applied: watch::Receiver<Position>,
}

pub struct DirectoryHandle {
    pub queue: Arc<DirectoryQueue>,
    pub todos: Arc<DirectoryTodos>,
}

pub struct ShardHandle {
    pub queue: Arc<ShardQueue>,
    /// Rings when there may be an errand: the shard has one more, or a directory moved.
    pub bell: watch::Receiver<u64>,
    /// Rings it. Weak, because the loop ends when the leaders that ring it are gone.
    pub ringer: Weak<watch::Sender<u64>>,
    pub todos: Arc<Todos>,
    pub long_todos: LongTodos,
    /// Rings when a window was opened.
    pub windows: Arc<Bell>,
    /// Rings when a walk over its users may go on.
    pub walks: Arc<Bell>,
}

impl ShardHandle {
    /// Wakes the shard's errand loop, unless it has ended.
    pub fn ring(&self) {
        if let Some(ringer) = self.ringer.upgrade() {
            ringer.send_modify(|rung| *rung += 1);
        }
    }
}

/// Whether a full queue has room again is asked after this.
const ROOM_AGAIN_MS: u64 = 20;

impl Core {
    /// Runs a loop that goes on until the root's queue is closed.
    pub fn spawn_loop(self: &Arc<Self>, name: &'static str, task: BoxFuture<'static, ()>) {
        let root = self.root.clone();
        self.ports.tasks.spawn_loop(name, move || root.is_closed(), task);
    }

    /// The id of a list by its name.
    pub fn list_id(&self, tenant: TenantId, list: &ListAsk) -> Result<ListId, Refusal> {
        let (name, topic) = match list {
            ListAsk::FollowersOf(actor) => (ListName::FollowersOf(actor), false),
            ListAsk::Topic(topic) => (ListName::Topic(topic), true),
        };
        let hash = self.ports.keyring.lookup_list(tenant, name).map_err(locked)?;
        Ok(hash.with_kind(topic))
    }

    #[must_use]
    pub fn front_of(&self, list: ListId) -> FrontNo {
        list.front(self.layout.fronts)
    }

    #[must_use]
    pub fn shard_of(&self, lookup: Lookup) -> ShardNo {
        lookup.shard(self.layout.shards)
    }

    pub fn front(&self, front: FrontNo) -> Option<&FrontHandle> {
        self.fronts.get(&front)
    }

    #[must_use]
    pub fn directory_of(&self, address: AddressHash) -> DirectoryNo {
        address.directory(self.layout.directories)
    }

    #[must_use]
    pub fn directory(&self, no: DirectoryNo) -> &DirectoryHandle {
        self.directories.get(&no).expect("directory numbers come from the layout")
    }

    #[must_use]
    pub fn shard(&self, shard: ShardNo) -> &ShardHandle {
        self.shards.get(&shard).expect("shard numbers come from the layout")
    }

    /// Reads one consistent state of a partition.
    pub fn read<T>(
        &self,
        partition: PartitionId,
        read: impl FnOnce(&dyn View) -> Result<T, TablesError>,
    ) -> Result<T, Refusal> {
        let mut read = Some(read);
        let mut found = None;
        let done = self.ports.store.read(partition, &mut |view| {
            found = read.take().map(|read| read(view));
        });
        done.map_err(broken)?;
        match found {
            Some(Ok(value)) => Ok(value),
            Some(Err(failed)) => Err(broken(failed.into())),
            None => Err(internal("the store gave no state")),
        }
    }

    pub fn require_tenant(&self, tenant: TenantId) -> Result<(), Refusal> {
        if self.control.now().tenants.contains_key(&tenant) { Ok(()) } else { Err(Refusal::UnknownTenant) }
    }
}

/// Waits for answers; a leader that went away answers with a refusal.
pub async fn answers<R>(
    pushed: Result<oneshot::Receiver<Result<Vec<R>, Refusal>>, Refusal>,
) -> Result<Vec<R>, Refusal> {
    pushed?.await.unwrap_or_else(|_| Err(stopped("the leader has stopped")))
}

/// Waits for the answer to a single ask.
pub async fn answer<R>(
    pushed: Result<oneshot::Receiver<Result<Vec<R>, Refusal>>, Refusal>,
) -> Result<R, Refusal> {
    answers(pushed).await?.pop().ok_or_else(|| stopped("the leader gave no answer"))
}

/// Asks one thing for the node itself. A queue that is full has room again soon, so it is waited for: what was begun goes on
/// where it was.
pub async fn answer_when_there_is_room<R>(
    ports: &Ports,
    push: impl Fn() -> Result<oneshot::Receiver<Result<Vec<R>, Refusal>>, Refusal>,
) -> Result<R, Refusal> {
    loop {
        match push() {
            Err(Refusal::Busy { .. }) => {
                ports.tasks.sleep_until(ports.clock.monotonic().plus(ROOM_AGAIN_MS)).await;
            }
            pushed => return answer(pushed).await,
        }
    }
}

/// The leader is gone. A loop may end on it.
#[must_use]
pub fn stopped(reason: &str) -> Refusal {
    Refusal::Stopped { reason: reason.to_owned() }
}

/// Something failed for this one request: the next one may succeed. No loop may end on it.
#[must_use]
pub fn internal(reason: &str) -> Refusal {
    Refusal::Internal { reason: reason.to_owned() }
}

/// The store could not be read.
#[must_use]
pub fn broken(failed: StoreError) -> Refusal {
    internal(&failed.to_string())
}

/// The keyring cannot be used. An unknown tenant is the caller's mistake, all else is ours.
#[must_use]
pub fn locked(failed: KeyringError) -> Refusal {
    match failed {
        KeyringError::UnknownTenant { .. } => Refusal::UnknownTenant,
        other => internal(&other.to_string()),
    }
}
