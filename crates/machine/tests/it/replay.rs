//! Replay equals the run: a journal folded again, in other batches, through crashes and sync points, gives the same
//! rows, the same lists and the same inboxes. This is what lets another node take over.

use crate::courier::Courier;
use crate::deliveries;
use crate::endpoints::{address, device, register, registration};
use crate::harness::{DAY_MS, DIRECTORY, FRONT, Node, list, lookup, walk};
use crate::model::STATES;
use crate::random::{Op, mark_of, op};
use crate::templates;
use fantail_machine::directory::{self, DirectoryAsk};
use fantail_machine::front::fact::FrontFact;
use fantail_machine::front::{self, FrontAsk};
use fantail_machine::records::Stamped;
use fantail_machine::records::directory::DirectoryRecord;
use fantail_machine::records::front::FrontRecord;
use fantail_machine::records::root::{Layout, RootRecord};
use fantail_machine::records::shard::{Change, ShardRecord};
use fantail_machine::root::{self, RootAsk};
use fantail_machine::shard::inbox::FromTables;
use fantail_machine::shard::inbox::{Counts, Entry, UserInbox};
use fantail_machine::shard::{self, Derived, ShardAsk};
use fantail_machine::view::View;
use fantail_memory::store::MemoryStore;
use fantail_ports::lists::{ListKey, Member};
use fantail_ports::store::{Commit, Store};
use fantail_ports::tables::Changes;
use fantail_rules::ids::{PartitionId, Position, ShardNo, TenantId, UserNo};
use fantail_rules::merge::Direction;
use fantail_rules::policy::Policies;
use fantail_rules::suppression::Reason;
use fantail_rules::ulid::Ulid;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

pub const SHARDS: [ShardNo; 2] = [ShardNo(0), ShardNo(1)];
pub const TENANTS: [TenantId; 2] = [TenantId(1), TenantId(2)];
const USERS: u64 = 3;
const PARTITIONS: [PartitionId; 5] = [
    PartitionId::Root,
    PartitionId::Front(FRONT),
    PartitionId::Shard(SHARDS[0]),
    PartitionId::Shard(SHARDS[1]),
    PartitionId::Directory(DIRECTORY),
];

type Journal = BTreeMap<PartitionId, Vec<Vec<u8>>>;

/// What happens to an instance while it replays.
#[derive(Clone, Debug)]
enum Step {
    /// Folds up to so many records of a partition in one batch.
    Batch(usize, usize),
    /// The same in two batches, the second applied while the first is not committed yet.
    Ahead(usize, usize, usize),
    Sync,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let partition = 0..PARTITIONS.len();
    prop_oneof![
        6 => (partition.clone(), 1usize..40).prop_map(|(partition, count)| Step::Batch(partition, count)),
        3 => (partition, 1usize..20, 1usize..20).prop_map(|(partition, a, b)| Step::Ahead(partition, a, b)),
        2 => Just(Step::Sync),
        2 => Just(Step::Crash),
    ]
}

/// Runs a random history through two tenants and two shards of one front.
pub fn run(ops: &[(usize, usize, Op)]) -> Node {
    let mut node = Node::new();
    node.root(RootAsk::Layout(Layout { shards: 2, fronts: 1, directories: 1 }));
    let mut posted: BTreeMap<TenantId, Vec<Ulid>> = BTreeMap::new();
    for tenant in TENANTS {
        node.root(RootAsk::CreateTenant { slug: tenant.to_string(), name: String::new() });
        node.tenant = tenant;
        for shard in SHARDS {
            node.at = shard;
            (0..USERS).for_each(|name| {
                node.user(name);
            });
        }
    }
    for (tenant, shard, op) in ops {
        (node.tenant, node.at) = (TENANTS[*tenant], SHARDS[*shard]);
        drive(&mut node, posted.entry(TENANTS[*tenant]).or_default(), op);
    }
    node
}

fn drive(node: &mut Node, posted: &mut Vec<Ulid>, op: &Op) {
    match op {
        Op::Join(name, no) => drop(node.edit(Change::Join, *name, list(*no))),
        Op::Leave(name, no) => drop(node.edit(Change::Leave, *name, list(*no))),
        Op::Post(no, pointer) => posted.push(node.post(list(*no), *pointer)),
        Op::Send(bits) => {
            let users: Vec<UserNo> = (0..8).filter(|bit| bits & (1 << bit) != 0).map(UserNo).collect();
            posted.push(node.send_to(SHARDS.iter().map(|shard| (*shard, users.clone())).collect()));
        }
        Op::Retract(_) if posted.is_empty() => {}
        Op::Retract(pick) => drop(node.retract(*pick.get(posted))),
        Op::Take(at_most) => node.take(at_most * 3),
        Op::Mark(name, mark, picks) => {
            let user = node.number(*name).unwrap();
            let had = node.arrivals(user);
            if !had.is_empty() {
                let arrivals: Vec<u64> = picks.iter().map(|pick| *pick.get(&had)).collect();
                drop(node.mark(user, mark_of(*mark, node.now), &arrivals));
            }
        }
        Op::MarkAll(name, mark, through) => {
            let (user, last) = (node.number(*name).unwrap(), node.progress().last.0);
            drop(node.mark_all(user, mark_of(*mark, node.now), through.index(last as usize + 1) as u64));
        }
        Op::Wait(hours) => node.now = node.now.plus(hours * DAY_MS / 24),
        Op::Expire => {
            node.expire(3);
            node.front(FrontAsk::Forget { tenant: node.tenant, retention_days: 3 });
        }
        Op::DeleteUser(name) => {
            node.delete_user(*name);
            node.user(*name);
        }
        Op::Errands => {
            node.run_errands();
            Courier::default().settle(node, &SHARDS);
        }
        Op::Register(name, no, token) => {
            drop(register(node, *name, registration(*name, *no, *token)));
        }
        Op::Unregister(name, no) => {
            let (tenant, user, device) = (node.tenant, lookup(*name), device(*no));
            drop(node.shard(ShardAsk::Unregister { tenant, user, device }));
        }
        Op::Deliver(act) => deliveries::drive(node, act),
        Op::Suppress(token, on) => drop(node.directory(suppress(node.tenant, *token, *on))),
    }
}

fn suppress(tenant: TenantId, token: u64, on: bool) -> DirectoryAsk {
    let address = address(token);
    match on {
        true => DirectoryAsk::Suppress { tenant, address, reason: Reason::Complaint },
        false => DirectoryAsk::Unsuppress { tenant, address },
    }
}

/// An instance that has nothing but the journal.
struct Instance<'a> {
    journal: &'a Journal,
    store: MemoryStore,
    /// The next record of each partition is the one after this.
    done: BTreeMap<PartitionId, Position>,
}

impl<'a> Instance<'a> {
    fn new(journal: &'a Journal) -> Self {
        Self { journal, store: MemoryStore::new(), done: BTreeMap::new() }
    }

    fn replay(mut self, steps: &[Step]) -> MemoryStore {
        for step in steps {
            match step {
                Step::Batch(partition, count) => self.advance(PARTITIONS[*partition], &[*count]),
                Step::Ahead(partition, first, second) => {
                    self.advance(PARTITIONS[*partition], &[*first, *second])
                }
                Step::Sync => sync(&self.store),
                Step::Crash => {
                    self.store.crash();
                    self.done = self.store.marks();
                }
            }
        }
        for partition in PARTITIONS {
            self.advance(partition, &[usize::MAX]);
        }
        self.store
    }

    /// Folds batches of these sizes, each over those before it, and commits them at the end, in order.
    fn advance(&mut self, partition: PartitionId, sizes: &[usize]) {
        let mut commits: Vec<Commit> = Vec::new();
        for size in sizes {
            let from = self.done.get(&partition).copied().unwrap_or_default();
            assert!(from >= self.store.position(partition));
            let records: Vec<&Vec<u8>> = self
                .journal
                .get(&partition)
                .into_iter()
                .flatten()
                .skip(from.0 as usize)
                .take(*size)
                .collect();
            if records.is_empty() {
                break;
            }
            let through = Position(from.0 + records.len() as u64);
            let (mut changes, mut derived) = (Changes::new(), Derived::default());
            let pending: Vec<&Changes> = commits.iter().map(|commit| &commit.changes).collect();
            let read = self.store.read(partition, &mut |state| {
                let mut view = View::new(state.tables(), &pending, &mut changes);
                records.iter().for_each(|record| self.fold(partition, &mut view, record, &mut derived));
            });
            read.unwrap();
            let Derived { edits, windows, forgets, offers: _ } = derived;
            commits.push(Commit { through, changes, edits, windows, forgets });
            self.done.insert(partition, through);
        }
        commits.into_iter().for_each(|commit| self.store.commit(partition, commit).unwrap());
    }

    fn fold(&self, partition: PartitionId, view: &mut View<'_>, record: &[u8], derived: &mut Derived) {
        match partition {
            PartitionId::Root => {
                let Stamped { at, record, .. } = Stamped::<RootRecord>::decode(record).unwrap();
                root::apply(view, &record, at).unwrap();
            }
            PartitionId::Front(_) => {
                let Stamped { at, record, .. } = Stamped::<FrontRecord>::decode(record).unwrap();
                front::apply(view, &record, at).unwrap();
            }
            PartitionId::Directory(_) => {
                let Stamped { at, record, .. } = Stamped::<DirectoryRecord>::decode(record).unwrap();
                directory::apply(view, &record, at).unwrap();
            }
            PartitionId::Shard(_) => {
                let Stamped { at, record, .. } = Stamped::<ShardRecord>::decode(record).unwrap();
                let facts = self.facts(&record);
                shard::apply(view, &record, at, &facts, derived).unwrap();
            }
        }
    }

    /// What a take refers to, from the front's journal: the front itself may be anywhere.
    fn facts(&self, record: &ShardRecord) -> Vec<FrontFact> {
        let ShardRecord::Take { front, from, to } = record else { return Vec::new() };
        let journal = &self.journal[&PartitionId::Front(*front)];
        let positions = (from.0..=to.0).map(Position);
        positions.map(|at| FrontFact::decode(at, &journal[at.0 as usize - 1]).unwrap()).collect()
    }
}

fn sync(store: &MemoryStore) {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(store.sync()).poll(&mut context) {
        Poll::Ready(synced) => drop(synced.unwrap()),
        Poll::Pending => panic!("the reference store syncs at once"),
    }
}

/// Everything that is not a row but must be equal too.
#[derive(PartialEq, Debug)]
struct Seen {
    inboxes: Vec<(Counts, Vec<Vec<Entry>>)>,
    lists: Vec<Vec<Member>>,
}

fn look(store: &MemoryStore, node: &Node) -> Seen {
    let mut seen = Seen { inboxes: Vec::new(), lists: Vec::new() };
    for shard in SHARDS {
        for tenant in TENANTS {
            let read = store.read(PartitionId::Shard(shard), &mut |state| {
                for name in 0..USERS {
                    let lookup = crate::harness::lookup(name);
                    let user = fantail_machine::tables::user::number(state.tables(), tenant, lookup).unwrap();
                    let user = user.expect("users come back after they go");
                    let (tables, reader, policies) = (state.tables(), (tenant, user), Policies::default());
                    let inbox =
                        UserInbox::open(tables, state.inbox(), &FromTables, reader, &policies, node.now)
                            .unwrap();
                    let pages = STATES.map(|filter| walk(&inbox, Direction::NewestFirst, filter, 5));
                    seen.inboxes.push((inbox.counts().unwrap(), pages.to_vec()));
                }
                for no in 0..3 {
                    let key = ListKey { tenant, list: list(no) };
                    seen.lists.push(state.lists().members(key, None, 1_000).unwrap());
                }
            });
            read.unwrap();
        }
    }
    seen
}

fn digests(store: &MemoryStore) -> Vec<(Position, u128)> {
    PARTITIONS.iter().map(|partition| (store.position(*partition), store.digest(*partition))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn replay_gives_the_same_state_whatever_happens_on_the_way(
        ops in vec((0usize..2, 0usize..2, op()), 1..160),
        templates in vec((0usize..2, templates::op()), 0..30),
        here in vec(step(), 0..30),
        there in vec(step(), 0..30),
    ) {
        let mut node = run(&ops);
        for (tenant, op) in &templates {
            node.tenant = TENANTS[*tenant];
            templates::drive(&mut node, 4, op);
        }
        let first = Instance::new(&node.journal).replay(&here);
        let second = Instance::new(&node.journal).replay(&there);
        prop_assert_eq!(digests(&first), digests(&second));
        prop_assert_eq!(digests(&first), digests(&node.store));
        prop_assert!(first.digest(PARTITIONS[2]) != 0);
        prop_assert_eq!(look(&first, &node), look(&second, &node));
        prop_assert_eq!(look(&first, &node), look(&node.store, &node));
    }
}

/// The test above can see a difference: another record, another digest.
#[test]
fn one_changed_record_changes_the_digest() {
    let ops = [Op::Join(0, 0), Op::Post(0, true), Op::Take(9), Op::Leave(0, 0)];
    let ops: Vec<(usize, usize, Op)> = ops.into_iter().map(|op| (0, 0, op)).collect();
    let node = run(&ops);
    let mut other = node.journal.clone();
    let last = other.get_mut(&PARTITIONS[2]).unwrap().pop();
    assert!(last.is_some());
    let store = Instance::new(&other).replay(&[]);
    assert_ne!(digests(&store)[2].1, digests(&node.store)[2].1);
    assert_eq!(digests(&store)[1], digests(&node.store)[1]);
}
