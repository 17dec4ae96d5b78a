//! Faults of single calls: the next call of one kind that one loop makes fails once, or takes its time.
//!
//! Only loops are hit. What a client asks for may fail with its call; a leader that cannot read ends its node, which is a
//! fault of its own. What must never happen: a loop that one such fault ends.

mod store;

pub use store::FaultyStore;

use crate::executor::Executor;
use crate::planted::Bug;
use fantail_ports::BoxFuture;
use fantail_ports::audit::StoredCheckpoint;
use fantail_ports::audit::{
    self, AuditError, AuditLog, Batch, ChainId, Entry, Found, Head, Search, Sequence,
};
use fantail_ports::clock::Clock;
use fantail_ports::journal::{Append, AppendError, Bounds, Journal, JournalError, ReadLimit, Record};
use fantail_ports::keyring::{Context, DestroyFrom, Keyring, KeyringError, ListName, Sealed};
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::{Epoch, KeyNo, ListId, Lookup, PartitionId, Position, TenantId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What can fail or be slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortCall {
    StoreRead,
    Keyring,
    JournalRead,
    Audit,
}

impl PortCall {
    pub const ALL: [Self; 4] = [Self::StoreRead, Self::Keyring, Self::JournalRead, Self::Audit];
}

/// Tasks that are hit, by their names.
pub const LOOPS: [&str; 11] = [
    "dispatch",
    "take",
    "errands",
    "windows",
    "bulk",
    "schedule",
    "audit",
    "retention",
    "books",
    "parcel",
    "turn",
];

/// A call that is to go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub call: PortCall,
    pub task: &'static str,
    /// `None`: it fails.
    pub delay_ms: Option<u64>,
}

/// A handle; clones are the same faults.
#[derive(Clone)]
pub struct PortFaults {
    bug: Option<Bug>,
    executor: Executor,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    armed: Option<Fault>,
    hits: u64,
    /// Reads of the dispatcher that see nothing, after one that failed: a planted bug.
    blind_reads: u64,
}

/// What happens to a call.
enum Hit {
    None,
    Fails,
    Waits(u64),
}

const REASON: &str = "a fault of the simulation";

impl PortFaults {
    pub fn new(bug: Option<Bug>, executor: Executor, clock: Arc<dyn Clock>) -> Self {
        Self { bug, executor, clock, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next such call goes wrong; an earlier wish is forgotten.
    pub fn arm(&self, fault: Fault) {
        self.state().armed = Some(fault);
    }

    pub fn disarm(&self) {
        self.state().armed = None;
    }

    /// How many calls went wrong.
    pub fn hits(&self) -> u64 {
        self.state().hits
    }

    fn hit(&self, call: PortCall) -> Hit {
        let task = self.executor.current();
        let mut state = self.state();
        let Some(fault) = state.armed.take_if(|fault| fault.call == call && fault.task == task) else {
            return Hit::None;
        };
        state.hits += 1;
        if let Some(ms) = fault.delay_ms {
            return Hit::Waits(ms);
        }
        match self.bug {
            // As loops did that took every error for the end.
            Some(Bug::QuitsLoops) => self.executor.drop_current(),
            Some(Bug::ForgetsLooks) if task == "dispatch" => state.blind_reads = 8,
            _ => {}
        }
        Hit::Fails
    }

    fn fails(&self, call: PortCall) -> bool {
        matches!(self.hit(call), Hit::Fails)
    }

    fn is_blind(&self) -> bool {
        if self.executor.current() != "dispatch" {
            return false;
        }
        let mut state = self.state();
        let is_blind = state.blind_reads > 0;
        state.blind_reads = state.blind_reads.saturating_sub(1);
        is_blind
    }

    /// The dispatcher reads, and forgets what of a whole page it cannot hold: a planted bug.
    fn forgets_pages(&self) -> bool {
        self.bug == Some(Bug::ForgetsOverflow) && self.executor.current() == "dispatch"
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        self.executor.sleep_until(self.clock.monotonic().plus(ms))
    }
}

pub struct FaultyJournal {
    pub faults: PortFaults,
    pub journal: Arc<dyn Journal>,
}

impl Journal for FaultyJournal {
    fn fence(&self, partition: PartitionId) -> BoxFuture<'_, Result<Epoch, JournalError>> {
        self.journal.fence(partition)
    }

    fn append(&self, append: Append) -> BoxFuture<'static, Result<Position, AppendError>> {
        self.journal.append(append)
    }

    fn read(
        &self,
        partition: PartitionId,
        from: Position,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Record>, JournalError>> {
        match self.faults.hit(PortCall::JournalRead) {
            Hit::None => self.journal.read(partition, from, limit),
            Hit::Fails => Box::pin(async {
                Err(JournalError::Io { file: "journal".to_owned(), reason: REASON.to_owned() })
            }),
            Hit::Waits(ms) => {
                let slept = self.faults.sleep(ms);
                Box::pin(async move {
                    slept.await;
                    self.journal.read(partition, from, limit).await
                })
            }
        }
    }

    fn bounds(&self, partition: PartitionId) -> Result<Bounds, JournalError> {
        self.journal.bounds(partition)
    }

    fn trim(&self, partition: PartitionId, before: Position) -> BoxFuture<'_, Result<(), JournalError>> {
        self.journal.trim(partition, before)
    }
}

pub struct FaultyKeyring {
    pub faults: PortFaults,
    pub keyring: Arc<dyn Keyring>,
}

impl FaultyKeyring {
    fn check(&self) -> Result<(), KeyringError> {
        match self.faults.fails(PortCall::Keyring) {
            true => Err(KeyringError::Io { file: "keys".to_owned(), reason: REASON.to_owned() }),
            false => Ok(()),
        }
    }
}

impl Keyring for FaultyKeyring {
    fn create_tenant(&self, tenant: TenantId) -> Result<(), KeyringError> {
        self.check()?;
        self.keyring.create_tenant(tenant)
    }

    fn mint(&self, tenant: TenantId) -> Result<KeyNo, KeyringError> {
        self.check()?;
        self.keyring.mint(tenant)
    }

    fn seal(
        &self,
        tenant: TenantId,
        key: KeyNo,
        context: Context,
        plain: &[u8],
    ) -> Result<Sealed, KeyringError> {
        self.check()?;
        self.keyring.seal(tenant, key, context, plain)
    }

    fn open(&self, tenant: TenantId, context: Context, sealed: &Sealed) -> Result<Vec<u8>, KeyringError> {
        self.check()?;
        self.keyring.open(tenant, context, sealed)
    }

    fn open_all(
        &self,
        tenant: TenantId,
        context: Context,
        sealed: Vec<Sealed>,
    ) -> Result<Vec<Option<Vec<u8>>>, KeyringError> {
        self.check()?;
        self.keyring.open_all(tenant, context, sealed)
    }

    fn lookup_user(&self, tenant: TenantId, external_id: &str) -> Result<Lookup, KeyringError> {
        self.check()?;
        self.keyring.lookup_user(tenant, external_id)
    }

    fn lookup_list(&self, tenant: TenantId, list: ListName<'_>) -> Result<ListId, KeyringError> {
        self.check()?;
        self.keyring.lookup_list(tenant, list)
    }

    fn digest(&self, tenant: TenantId, text: &[u8]) -> Result<[u8; 16], KeyringError> {
        self.check()?;
        self.keyring.digest(tenant, text)
    }

    fn secrets(&self, tenant: TenantId, keys: &[KeyNo]) -> Result<Vec<Option<[u8; 32]>>, KeyringError> {
        self.check()?;
        self.keyring.secrets(tenant, keys)
    }

    fn destroy(&self, tenant: TenantId, key: KeyNo) -> Result<(), KeyringError> {
        self.check()?;
        self.keyring.destroy(tenant, key)
    }

    fn destroy_tenant(
        &self,
        tenant: TenantId,
        from: DestroyFrom,
    ) -> Result<Option<DestroyFrom>, KeyringError> {
        self.check()?;
        self.keyring.destroy_tenant(tenant, from)
    }
}

pub struct FaultyAudit {
    pub faults: PortFaults,
    pub audit: Arc<dyn AuditLog>,
}

impl AuditLog for FaultyAudit {
    fn append(&self, batches: Vec<Batch>) -> BoxFuture<'_, Result<(), audit::AppendError>> {
        match self.faults.hit(PortCall::Audit) {
            Hit::None => self.audit.append(batches),
            Hit::Fails => {
                Box::pin(async { Err(audit::AppendError::NoRoom { free_bytes: 0, needed_bytes: 1 }) })
            }
            Hit::Waits(ms) => {
                let slept = self.faults.sleep(ms);
                Box::pin(async move {
                    slept.await;
                    self.audit.append(batches).await
                })
            }
        }
    }

    fn derived(&self) -> BTreeMap<PartitionId, Position> {
        self.audit.derived()
    }

    fn heads(&self) -> Vec<Head> {
        self.audit.heads()
    }

    fn read_chain(
        &self,
        chain: ChainId,
        from: Sequence,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Entry>, AuditError>> {
        self.audit.read_chain(chain, from, limit)
    }

    fn search(&self, tenant: TenantId, search: Search) -> BoxFuture<'_, Result<Found, AuditError>> {
        self.audit.search(tenant, search)
    }

    fn put_checkpoint(&self, checkpoint: StoredCheckpoint) -> BoxFuture<'_, Result<(), audit::AppendError>> {
        self.audit.put_checkpoint(checkpoint)
    }

    fn checkpoints(
        &self,
        from: u64,
        limit: ReadLimit,
    ) -> BoxFuture<'_, Result<Vec<StoredCheckpoint>, AuditError>> {
        if self.faults.fails(PortCall::Audit) {
            let (file, reason) = ("checkpoints".to_owned(), REASON.to_owned());
            return Box::pin(async { Err(AuditError::Io { file, reason }) });
        }
        self.audit.checkpoints(from, limit)
    }
}
