//! A leader over the memory engines, with a machine whose records are as large as they are asked to be.

use super::*;
use crate::machines::{Reference, ReplayError};
use crate::ports::{Audit, Points};
use crate::spans::Spans;
use crate::supervise::Supervisor;
use fantail_audit::key::Signer;
use fantail_machine::codec::Malformed;
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::shard::Derived;
use fantail_memory::audit::MemoryAudit;
use fantail_memory::blobs::MemoryBlobs;
use fantail_memory::clock::ManualClock;
use fantail_memory::entropy::SeededEntropy;
use fantail_memory::erasure_list::MemoryErasureList;
use fantail_memory::journal::{Durability, MemoryJournal};
use fantail_memory::keyring::MemoryKeyring;
use fantail_memory::store::MemoryStore;
use fantail_ports::accounts::NoAccounts;
use fantail_ports::journal::{Journal, ReadLimit};
use fantail_ports::tasks::Tasks;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{KeyNo, ShardNo, TenantId};
use fantail_rules::limits::RECORD_BYTES_MAX;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use tokio::sync::oneshot;

const SHARD: PartitionId = PartitionId::Shard(ShardNo(0));

/// An ask is the number of keys in its one record, some four bytes each; the answer is the same number.
struct Sizes;

impl Machine for Sizes {
    type Ask = u64;
    type Answer = u64;

    fn partition(&self) -> PartitionId {
        SHARD
    }

    fn decide(
        &self,
        _: &mut View<'_>,
        keys: u64,
        at: Moment<'_>,
        batch: &mut Batch,
    ) -> Result<u64, Undecided> {
        let keys_of = (0..keys).map(|key| (TenantId(1), KeyNo(key))).collect();
        batch.add(at.now, vec![ShardRecord::Shredded { keys: keys_of }])?;
        Ok(keys)
    }

    fn replay(
        &self,
        _: &mut View<'_>,
        _: &[u8],
        _: &[FrontFact],
        _: &mut Derived,
    ) -> Result<(), ReplayError> {
        Ok(())
    }

    fn refers_to(&self, _: &[u8]) -> Result<Option<Reference>, Malformed> {
        Ok(None)
    }
}

struct NoTasks;

impl Tasks for NoTasks {
    fn spawn(&self, _: &'static str, _: BoxFuture<'static, ()>) {}

    fn sleep_until(&self, _: Millis) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

struct Rig {
    journal: MemoryJournal,
    queue: Arc<Queue<u64, u64>>,
    meter: Arc<Meter>,
    leader: Pin<Box<dyn Future<Output = ()>>>,
}

impl Rig {
    fn new(knobs: Knobs) -> Self {
        let journal = MemoryJournal::new(Durability::OnFlush);
        let ports = Ports {
            journal: Arc::new(journal.clone()),
            store: Arc::new(MemoryStore::new()),
            blobs: Arc::new(MemoryBlobs::new()),
            keyring: Arc::new(MemoryKeyring::new(1)),
            erasure_list: Arc::new(MemoryErasureList::default()),
            clock: Arc::new(ManualClock::new(Millis(1_000))),
            entropy: Arc::new(SeededEntropy::new(1)),
            tasks: Supervisor::new(Arc::new(NoTasks), Arc::default()),
            channels: BTreeMap::new(),
            accounts: Arc::new(NoAccounts),
            public_url: Arc::default(),
            audit: Audit {
                log: Arc::new(MemoryAudit::new()),
                signer: Signer::from_seed(&[7; 32]),
                checkpoint_every_ms: 1_000,
            },
            webhook_patience_ms: 1_000,
            stop: Arc::default(),
            points: Points::default(),
            spans: Spans::default(),
        };
        let (queue, meter) = (Arc::new(Queue::new(knobs, Arc::default())), Arc::<Meter>::default());
        let leader = Leader {
            machine: Sizes,
            ports: Arc::new(ports),
            meter: meter.clone(),
            queue: queue.clone(),
            usage: Arc::default(),
            epoch: Epoch(1),
            next: Position(1),
            time: Millis(0),
            applied: watch::channel(Position(0)).0,
            settled: Box::new(|_, _| {}),
            knobs,
        };
        let fenced = journal.fence(SHARD);
        journal.flush_all();
        drop(fenced);
        Self { journal, queue, meter, leader: Box::pin(leader.run()) }
    }

    fn ask(&self, tenant: u32, asks: Vec<u64>) -> oneshot::Receiver<Result<Vec<u64>, Refusal>> {
        self.queue.push(TenantId(tenant), &Actor::System, asks, 64).expect("there is room")
    }

    /// Lets the leader go on as far as it can, and returns how many appends it made.
    fn go(&mut self) -> usize {
        let mut appends = 0;
        loop {
            let polled = self.leader.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending(), "it goes on");
            let waiting = self.journal.waiting();
            if waiting == 0 {
                return appends;
            }
            appends += waiting;
            self.journal.flush_all();
        }
    }

    /// Keys of the records in the journal, in order.
    fn records(&self) -> Vec<u64> {
        let limit = ReadLimit { records: usize::MAX, bytes: usize::MAX };
        let mut read = self.journal.read(SHARD, Position(1), limit);
        let Poll::Ready(read) = read.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the memory journal answers at once")
        };
        let keys = |bytes: &[u8]| match fantail_machine::records::Stamped::decode(bytes) {
            Ok(fantail_machine::records::Stamped { record: ShardRecord::Shredded { keys }, .. }) => {
                keys.len()
            }
            other => panic!("{other:?}"),
        };
        read.expect("it reads").iter().map(|record| keys(&record.bytes) as u64).collect()
    }
}

// fixes: correctness A3
#[test]
fn an_ask_that_does_not_fit_is_refused_alone() {
    let mut rig = Rig::new(Knobs::default());
    let (small, large, more) =
        (rig.ask(1, vec![1, 2]), rig.ask(1, vec![RECORD_BYTES_MAX as u64]), rig.ask(2, vec![3]));
    rig.go();
    assert_eq!(small.blocking_recv(), Ok(Ok(vec![1, 2])));
    let refused = large.blocking_recv().expect("it is answered");
    assert!(matches!(refused, Err(Refusal::TooLarge { what: "record", .. })), "{refused:?}");
    assert_eq!(more.blocking_recv(), Ok(Ok(vec![3])), "the leader goes on");
    assert_eq!((rig.records(), rig.meter.read().too_large), (vec![1, 2, 3], 1));
}

// fixes: correctness A3
/// An item whose records are larger than an append took the leader's life: 100 events with 190 KiB each are one request.
#[test]
fn an_item_larger_than_an_append_is_cut_into_batches() {
    let mut rig = Rig::new(Knobs::default());
    let asks = vec![50_000; 120];
    let (one, other) = (rig.ask(1, asks.clone()), rig.ask(2, vec![7]));
    let appends = rig.go();
    assert!(appends > 8, "{appends} appends for 23 MB");
    assert_eq!(one.blocking_recv(), Ok(Ok(asks.clone())), "one answer, for all of it");
    assert_eq!(other.blocking_recv(), Ok(Ok(vec![7])));
    assert_eq!(rig.records(), asks.into_iter().chain([7]).collect::<Vec<_>>(), "in order");
}

// fixes: correctness A3
#[test]
fn a_full_disk_refuses_an_item_that_was_begun_as_a_whole() {
    let mut rig = Rig::new(Knobs { batch_bytes: 100, ..Knobs::default() });
    let item = rig.ask(1, vec![40; 10]);
    rig.journal.set_full(true);
    rig.go();
    assert_eq!(item.blocking_recv(), Ok(Err(Refusal::NoRoom)));
    rig.journal.set_full(false);
    let again = rig.ask(1, vec![40; 10]);
    rig.go();
    assert_eq!(again.blocking_recv(), Ok(Ok(vec![40; 10])));
    assert_eq!(rig.records(), vec![40; 10]);
}
