//! What operations of root, fronts and directories cost at two sizes of what others have, and those of bulk sends.
//!
//! Others: tenants with a key, a template, a category, a segment, a schedule, a webhook and an account each; scheduled
//! notifications, bulk sends, uploaded lists and addresses of users of the same tenant.

use crate::deliveries::by;
use crate::endpoints::address;
use crate::growth::{Cost, growth};
use crate::harness::{DAY_MS, Node, SHARD, TENANT, lookup, sealed};
use crate::{providers, schedules, templates, walks};
use fantail_machine::directory::{DirectoryAsk, Tell};
use fantail_machine::front::FrontAsk;
use fantail_machine::records::directory::{Claim, Owner};
use fantail_machine::records::front::{Options, Steer};
use fantail_machine::records::segment::{SegmentPut, UploadId};
use fantail_machine::records::template::DefinitionBytes;
use fantail_machine::records::walk::Pace;
use fantail_machine::records::webhook::WebhookPut;
use fantail_machine::root::template::Expect;
use fantail_machine::root::{RootAsk, policy, provider, schedule, segment, template, webhook};
use fantail_machine::shard::{ShardAsk, walk};
use fantail_machine::tables::work::WorkId;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{ClaimNo, DeviceNo, TenantId, UserNo};
use fantail_rules::policy::CategoryPolicy;
use fantail_rules::suppression::Reason;
use fantail_rules::ulid::Ulid;

const SIZES: [u64; 2] = [8, 64];

/// What a tenant makes in the root, changes and deletes.
fn root_operations(tenant: TenantId) -> Vec<(&'static str, RootAsk)> {
    let id = || "own".to_owned();
    let key = RootAsk::CreateKey {
        tenant,
        id: format!("key-{tenant}"),
        secret_hash: [1; 32],
        scopes: vec![],
        expires: None,
        rate: None,
    };
    let template = |change| {
        RootAsk::Template(Box::new(template::Ask { tenant, id: id(), expect: Expect::Unsaid, change }))
    };
    let about = templates::about(1);
    let policy = |change| RootAsk::Policy(Box::new(policy::Ask { tenant, expect: Expect::Unsaid, change }));
    let provider = |change| RootAsk::Provider(Box::new(provider::Ask { expect: Expect::Unsaid, change }));
    let schedule = |ask| RootAsk::Schedule(Box::new(ask));
    let definition = schedule::Ask::Put {
        definition: fantail_machine::records::schedule::Definition {
            tenant,
            ..schedules::daily("Europe/Vienna")
        },
        expect: Expect::Unsaid,
    };
    let segment = SegmentPut { tenant, name: id(), filter: Some("everyone".into()), note: String::new() };
    let hook = WebhookPut { tenant, id: id(), target: sealed(1), url: sealed(2), events: 7 };
    vec![
        ("key: create", key),
        ("template: put", template(template::Change::Put { about, definition: DefinitionBytes(vec![1; 3]) })),
        ("template: set", template(template::Change::Set { version: None, active: Some(false) })),
        (
            "category: put",
            policy(policy::Change::PutCategory { name: id(), policy: CategoryPolicy::default() }),
        ),
        ("segment: put", RootAsk::Segment(segment::Ask::Put(segment))),
        (
            "segment: list",
            RootAsk::Segment(segment::Ask::List { tenant, name: id(), list: UploadId([1; 16]), members: 3 }),
        ),
        ("schedule: put", schedule(definition)),
        ("webhook: put", RootAsk::Webhook(webhook::Ask::Put(hook))),
        (
            "webhook: switch",
            RootAsk::Webhook(webhook::Ask::Switch { tenant, id: id(), off: Some("x".into()) }),
        ),
        ("account: put", provider(provider::Change::Put(providers::account(tenant, "own")))),
        (
            "tenant: patch",
            RootAsk::PatchTenant {
                tenant,
                name: Some("other".into()),
                tier_up: None,
                retention_days: None,
                rate: None,
                quota: None,
            },
        ),
    ]
}

fn root_deletions(tenant: TenantId) -> Vec<(&'static str, RootAsk)> {
    let id = || "own".to_owned();
    let expect = Expect::Unsaid;
    let delete = policy::Change::DeleteCategory { name: id() };
    let account = provider::Change::Delete { tenant, id: id() };
    vec![
        ("key: revoke", RootAsk::RevokeKey { tenant, id: format!("key-{tenant}") }),
        (
            "template: delete",
            RootAsk::Template(Box::new(template::Ask {
                tenant,
                id: id(),
                expect,
                change: template::Change::Delete,
            })),
        ),
        ("category: delete", RootAsk::Policy(Box::new(policy::Ask { tenant, expect, change: delete }))),
        ("segment: delete", RootAsk::Segment(segment::Ask::Delete { tenant, name: id() })),
        (
            "schedule: delete",
            RootAsk::Schedule(Box::new(schedule::Ask::Delete { tenant, id: "daily".into(), expect })),
        ),
        ("webhook: delete", RootAsk::Webhook(webhook::Ask::Delete { tenant, id: id() })),
        ("account: delete", RootAsk::Provider(Box::new(provider::Ask { expect, change: account }))),
    ]
}

fn create_tenant(node: &mut Node, no: u64) {
    node.root(RootAsk::CreateTenant { slug: format!("t{no}"), name: format!("T{no}") });
}

/// No tenant creates tenants: that compares the slugs of all.
#[test]
fn no_operation_of_the_root_costs_more_because_other_tenants_have_more() {
    let costs: Vec<Vec<(&str, Cost)>> = SIZES
        .into_iter()
        .map(|others| {
            let mut node = Node::new();
            (1..=others + 1).for_each(|no| create_tenant(&mut node, no));
            for other in 2..=others as u32 + 1 {
                for (_, ask) in root_operations(TenantId(other)) {
                    node.root(ask);
                }
            }
            let mut costs = Vec::new();
            for (name, ask) in root_operations(TENANT).into_iter().chain(root_deletions(TENANT)) {
                let before = node.records();
                node.root(ask);
                assert!(node.records() > before, "{name} is done");
                costs.push((name, node.last_cost()));
            }
            costs
        })
        .collect();
    let pairs = costs[0].iter().zip(&costs[1]);
    let grown: Vec<String> =
        pairs.filter_map(|((name, few), (_, many))| growth(name, [few.clone(), many.clone()])).collect();
    assert_eq!(grown, Vec::<String>::new());
}

/// A user, and what it and the tenant have in a front, a directory and a shard.
struct World {
    node: Node,
    own: UserNo,
    scheduled: Ulid,
    bulk: Ulid,
    walk: WorkId,
}

fn schedule(node: &mut Node, user: UserNo, in_ms: u64, key: u8) -> Ulid {
    node.delivery = Some(by(&[ChannelKind::InApp]));
    node.options =
        Options { due: Some(node.now.plus(in_ms)), cancellation: Some([key; 16]), ..Options::default() };
    node.send(&[user])
}

fn claim(token: u64, user: u64, claim: u32) -> Claim {
    let owner = Owner { shard: SHARD, user: UserNo(user), device: DeviceNo(1), claim: ClaimNo(claim) };
    Claim { address: address(token), owner }
}

fn claims(node: &mut Node, claim: Claim) {
    node.directory(DirectoryAsk::Claim { tenant: TENANT, claims: vec![claim] });
}

fn list(no: u8) -> UploadId {
    UploadId([no; 16])
}

fn enlist(node: &mut Node, no: u8) {
    node.shard(ShardAsk::Walk(walk::Ask::Enlist { tenant: TENANT, list: list(no), users: vec![lookup(0)] }));
}

/// A world in which others have so much more.
fn world(others: u64) -> World {
    let mut node = Node::new();
    let own = node.user(0);
    for name in 1..=others {
        let user = node.user(name);
        schedule(&mut node, user, 2 * DAY_MS + name, 1);
        claims(&mut node, claim(name, name, 1));
        claims(&mut node, claim(name, name + 1, 2));
        enlist(&mut node, name as u8 + 1);
        if name % 8 == 0 {
            walks::begin(&mut node, walks::plain());
        }
    }
    let scheduled = schedule(&mut node, own, DAY_MS, 2);
    claims(&mut node, claim(0, 0, 1));
    node.directory(DirectoryAsk::Suppress { tenant: TENANT, address: address(900), reason: Reason::Manual });
    enlist(&mut node, 0);
    let (bulk, walk) = walks::begin(&mut node, walks::plain());
    node.take_all();
    World { node, own, scheduled, bulk, walk }
}

type Operation = (&'static str, fn(&mut World));

fn steer(world: &mut World, steer: Steer) {
    world.node.front(FrontAsk::Steer { tenant: TENANT, event: world.bulk, steer });
}

const OPERATIONS: &[Operation] = &[
    ("schedule", |world| {
        schedule(&mut world.node, world.own, DAY_MS, 2);
    }),
    ("cancel of what is scheduled", |world| {
        world.node.front(FrontAsk::Cancel { tenant: TENANT, event: world.scheduled });
    }),
    ("retraction of what is scheduled", |world| {
        world.node.retract(world.scheduled);
    }),
    ("release", |world| {
        world.node.now = world.node.now.plus(DAY_MS);
        assert_eq!(world.node.release(), 1);
    }),
    ("release: take", |world| {
        world.node.now = world.node.now.plus(DAY_MS);
        assert_eq!(world.node.release(), 1);
        world.node.take_all();
    }),
    ("bulk: create", |world| {
        walks::begin(&mut world.node, walks::plain());
    }),
    ("bulk: pause", |world| steer(world, Steer::Pause)),
    ("bulk: pause: take", |world| {
        steer(world, Steer::Pause);
        world.node.take_all();
    }),
    ("bulk: rate", |world| steer(world, Steer::Pace(Pace::PerSecond(3)))),
    ("bulk: rate: take", |world| {
        steer(world, Steer::Pace(Pace::PerSecond(3)));
        world.node.take_all();
    }),
    ("bulk: cancel", |world| {
        world.node.front(FrontAsk::Cancel { tenant: TENANT, event: world.bulk });
    }),
    ("bulk: cancel: take", |world| {
        world.node.front(FrontAsk::Cancel { tenant: TENANT, event: world.bulk });
        world.node.take_all();
    }),
    ("bulk: a step of four users", |world| {
        walks::pass(&mut world.node, world.walk, 4);
    }),
    ("upload", |world| enlist(&mut world.node, 0)),
    ("upload: delete", |world| {
        world.node.shard(ShardAsk::Walk(walk::Ask::Delist { tenant: TENANT, list: list(0) }));
    }),
    ("personal content: purge", |world| {
        let (tenant, shard, user) = (TENANT, SHARD, world.own);
        world.node.front(FrontAsk::Unsay { tenant, shard, user, behind: None });
    }),
    ("address: claim", |world| claims(&mut world.node, claim(901, 0, 2))),
    ("address: claim of another user's", |world| claims(&mut world.node, claim(1, 0, 3))),
    ("address: release", |world| {
        world.node.directory(DirectoryAsk::Released { tenant: TENANT, claims: vec![claim(0, 0, 1)] });
    }),
    ("address: owner knows", |world| {
        let told = vec![Tell { claim: claim(0, 0, 1), suppressed: false }];
        world.node.directory(DirectoryAsk::Told { tenant: TENANT, told });
    }),
    ("address: suppress", |world| {
        let (address, reason) = (address(0), Reason::Manual);
        world.node.directory(DirectoryAsk::Suppress { tenant: TENANT, address, reason });
    }),
    ("address: unsuppress", |world| {
        world.node.directory(DirectoryAsk::Unsuppress { tenant: TENANT, address: address(900) });
    }),
];

#[test]
fn no_operation_of_fronts_directories_and_bulk_sends_costs_more_because_others_have_more() {
    let mut grown = Vec::new();
    for (name, operation) in OPERATIONS {
        let costs = SIZES.map(|others| {
            let mut world = world(others);
            operation(&mut world);
            world.node.last_cost()
        });
        grown.extend(growth(name, costs));
    }
    assert_eq!(grown, Vec::<String>::new());
}
