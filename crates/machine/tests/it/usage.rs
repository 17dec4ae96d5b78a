//! What a tenant has is kept with every change: always what a recount of the rows gives, in every partition.

use crate::endpoints::{device, register, registration};
use crate::harness::{DAY_MS, FRONT, Node, TENANT, lookup, put_of, sealed};
use crate::random::op;
use crate::replay::{SHARDS, TENANTS, run};
use crate::{schedules, templates};
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::records::front::{Options, Personal};
use fantail_machine::root::RootAsk;
use fantail_machine::root::schedule::Ask;
use fantail_machine::root::template::Expect;
use fantail_machine::shard::ShardAsk;
use fantail_machine::tables::event::EventRow;
use fantail_machine::tables::schedule::ScheduleRow;
use fantail_machine::tables::usage::{self, Usage, UsageNow};
use fantail_machine::tables::user::UserRow;
use fantail_machine::tables::{Row, endpoint};
use fantail_ports::keyring::Sealed;
use fantail_ports::store::View;
use fantail_ports::tables::{Changes, KeyRange, Order};
use fantail_rules::ids::{PartitionId, Position, TenantId, UserNo};
use fantail_rules::quota::{Amounts, Resource};
use fantail_rules::ulid::Ulid;
use proptest::collection::vec;
use proptest::prelude::*;
use std::ops::ControlFlow;

/// Everything of a tenant in a partition, row by row.
fn recount(state: &dyn View, tenant: TenantId) -> (Amounts, u64) {
    let (mut found, mut waiting) = (Amounts::default(), 0);
    let mut add = |resource: Option<Resource>, bytes: u64| {
        let one = resource.map_or(Amounts::default(), |resource| Amounts::default().with(resource, 1));
        found = found.plus(&one).plus(&Amounts::default().with(Resource::StoredBytes, bytes));
    };
    let tables = state.tables();
    let everything = KeyRange { from: &[], to: &[0xff; 64] };
    let visit = &mut |key: &[u8], value: &[u8]| {
        // What is scheduled is ordered by its time before its tenant.
        let of = if key[0] == 21 { key.get(9..13) } else { key.get(1..5) };
        if of != Some(&tenant.0.to_be_bytes()[..]) {
            return ControlFlow::Continue(());
        }
        match key[0] {
            6 | 20 => add(None, usage::weight_of_row(value)),
            14 => {
                add(Some(Resource::Schedules), usage::weight_of_row(value));
                ScheduleRow::decode(value).unwrap();
            }
            18 => add(None, usage::weight_of_event(&EventRow::decode(value).unwrap())),
            21 => {
                waiting += 1;
                add(None, usage::weight_of_row(value));
            }
            35 => {
                let row = UserRow::decode(value).unwrap();
                add(Some(Resource::Users), usage::weight(&[&row.id, &row.attributes]));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    };
    tables.scan(everything, Order::Ascending, visit).unwrap();
    for (no, page) in endpoint::pages_from(tables, tenant, 0, usize::MAX).unwrap() {
        for one in page.users(no).flat_map(|(_, user)| &user.endpoints) {
            let weight = usage::weight_of_endpoint(one.name.as_ref(), &one.address, one.meta.as_ref());
            add(one.name.as_ref().map(|_| Resource::Devices), weight);
        }
    }
    (found, waiting)
}

/// What is kept, checked against the recount.
fn checked(node: &Node, partition: PartitionId, tenant: TenantId) -> Amounts {
    node.read(partition, |state| {
        let kept = usage::find(state.tables(), tenant).unwrap().0;
        let (counted, waiting) = recount(state, tenant);
        assert_eq!(kept, counted, "{partition} {tenant}");
        let all = usage::all(state.tables()).unwrap();
        let of = |now| all.contains(&(tenant, now));
        assert!(kept == Amounts::default() || of(UsageNow::Kept(Usage(kept))));
        assert!(waiting == 0 || of(UsageNow::Waiting(waiting)), "{waiting} wait");
        kept.with(Resource::Waiting, waiting)
    })
}

fn all(node: &Node) -> Amounts {
    let partitions = [PartitionId::Root, PartitionId::Front(FRONT), PartitionId::Shard(node.at)];
    partitions.into_iter().fold(Amounts::default(), |all, one| all.plus(&checked(node, one, TENANT)))
}

// fixes: security M8
#[test]
fn everything_that_goes_gives_its_room_back() {
    let mut node = Node::new();
    node.root(RootAsk::CreateTenant { slug: "a".into(), name: "A".into() });
    assert_eq!(all(&node), Amounts::default());
    let ann = node.user(0);
    let one = all(&node);
    assert_eq!(one.of(Resource::Users), 1);
    node.user(0);
    assert_eq!(all(&node), one, "an update that changes nothing adds nothing");
    let long = Sealed { bytes: vec![7; 5_000], ..sealed(100) };
    let grown = fantail_machine::shard::users::Put { attributes: long, ..put_of(0, 100) };
    node.shard(ShardAsk::PutUsers { tenant: TENANT, users: vec![grown] });
    assert!(all(&node).of(Resource::StoredBytes) > one.of(Resource::StoredBytes) + 4_000);
    node.user(0);
    assert_eq!(all(&node), one);

    for token in [5, 6, 6] {
        register(&mut node, 0, registration(0, 1, token));
        assert_eq!(all(&node).of(Resource::Devices), 1, "another token is no other device");
    }
    register(&mut node, 0, registration(0, 2, 7));
    assert_eq!(all(&node).of(Resource::Devices), 2);
    node.shard(ShardAsk::Unregister { tenant: TENANT, user: lookup(0), device: device(1) });
    assert_eq!(all(&node).of(Resource::Devices), 1);

    let held = all(&node);
    node.personal = vec![Personal { shard: node.at, user: ann, content: sealed(100) }];
    node.options = Options { due: Some(node.now.plus(DAY_MS)), ..Options::default() };
    let event = node.send(&[ann]);
    assert_eq!(all(&node).of(Resource::Waiting), 1);
    assert_eq!(node.front(FrontAsk::Cancel { tenant: TENANT, event }), FrontAnswer::Cancelled);
    assert_eq!(all(&node).of(Resource::Waiting), 0);
    node.personal = vec![Personal { shard: node.at, user: ann, content: sealed(100) }];
    node.send(&[ann]);
    let (tenant, shard, user) = (TENANT, node.at, ann);
    let before = all(&node);
    node.front(FrontAsk::Unsay { tenant, shard, user, behind: None });
    assert!(all(&node).of(Resource::StoredBytes) < before.of(Resource::StoredBytes));
    node.now = node.now.plus(400 * DAY_MS);
    node.front(FrontAsk::Forget { tenant, retention_days: 90 });
    assert_eq!(all(&node), held, "retention gives the room of events back");

    schedules::put(&mut node, schedules::daily("Europe/Vienna"), Expect::Unsaid);
    schedules::put(&mut node, schedules::daily(""), Expect::Unsaid);
    assert_eq!(all(&node).of(Resource::Schedules), 1);
    let id = "daily".to_owned();
    schedules::ask(&mut node, Ask::Delete { tenant, id, expect: Expect::Unsaid });
    templates::put(&mut node, "welcome", Expect::Absent, 1);
    templates::put(&mut node, "welcome", Expect::Version(1), 2);
    all(&node);
    templates::delete(&mut node, "welcome");
    assert_eq!(all(&node), held);
    // A user who is erased takes the devices along.
    node.shard(ShardAsk::Erase { tenant, lookup: lookup(0), erasure: Ulid(9), entries: 0 });
    assert_eq!(all(&node), Amounts::default());
}

/// What was not counted when it came is not taken below zero when it goes.
#[test]
fn rows_of_an_earlier_version_were_not_counted() {
    let mut node = Node::new();
    node.user(0);
    node.user(1);
    let shard = PartitionId::Shard(node.at);
    let journal = node.journal.get_mut(&shard).unwrap();
    journal.push(Vec::new());
    let through = Position(journal.len() as u64);
    let changes = Changes::from([(usage::key(TENANT), None)]);
    let commit =
        fantail_ports::store::Commit { through, changes, edits: vec![], windows: vec![], forgets: vec![] };
    fantail_ports::store::Store::commit(&node.store, shard, commit).unwrap();
    node.delete_user(0);
    assert_eq!(node.read_shard(|state| usage::find(state.tables(), TENANT).unwrap()), Usage::default());
    node.user(2);
    node.read_shard(|state| {
        let found = usage::find(state.tables(), TENANT).unwrap().0;
        assert_eq!((found.of(Resource::Users), found.of(Resource::Devices)), (1, 0));
    });
}

#[test]
fn what_a_batch_changed_is_told() {
    let row = Usage(Amounts::default().with(Resource::Users, 3));
    let changes = Changes::from([
        (usage::key(TenantId(1)), Some(row.encode())),
        (usage::key(TenantId(2)), None),
        (fantail_machine::tables::scheduled::count_key(TenantId(1)), None),
        (fantail_machine::tables::user::key(TenantId(1), UserNo(1)), None),
    ]);
    let found = usage::among(&changes).unwrap();
    let nothing = UsageNow::Kept(Usage::default());
    let expected =
        [(TenantId(1), UsageNow::Kept(row)), (TenantId(2), nothing), (TenantId(1), UsageNow::Waiting(0))];
    assert_eq!(found, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    // fixes: security M8
    /// Whatever users, authors and time do.
    #[test]
    fn usage_is_what_a_recount_gives(ops in vec((0usize..2, 0usize..2, op()), 1..80)) {
        let node = run(&ops);
        for tenant in TENANTS {
            checked(&node, PartitionId::Front(FRONT), tenant);
            for shard in SHARDS {
                checked(&node, PartitionId::Shard(shard), tenant);
            }
        }
    }
}
