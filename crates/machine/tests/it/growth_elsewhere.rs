//! What operations of root, fronts and directories cost at two sizes of what others have, and those of bulk sends.
//!
//! Others: tenants with a key, a template, a category, a segment, a schedule, a webhook and an account each; scheduled
//! notifications with content for one recipient alone, bulk sends, uploaded lists and addresses of users of the same tenant.
//!
//! Exceptions: `CreateTenant` compares the names of all tenants, of which there are [`TENANTS_MAX`] at most, and only the
//! operator of the server creates them. `Unsay`, a step of an erasure, is bounded, and the number of steps grows with the
//! content of the tenant that is for one recipient alone.

use crate::deliveries::by;
use crate::endpoints::address;
use crate::growth::{Cost, growth};
use crate::harness::{DAY_MS, Node, SHARD, TENANT, lookup, sealed};
use crate::{providers, schedules, templates, walks};
use fantail_machine::directory::{DirectoryAsk, Tell};
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::records::directory::{Claim, Owner};
use fantail_machine::records::front::{Options, Personal, Steer};
use fantail_machine::records::schedule::Definition;
use fantail_machine::records::segment::{SegmentPut, UploadId};
use fantail_machine::records::template::DefinitionBytes;
use fantail_machine::records::walk::Pace;
use fantail_machine::records::webhook::WebhookPut;
use fantail_machine::root::template::Expect;
use fantail_machine::root::{RootAsk, policy, provider, schedule, segment, template, webhook};
use fantail_machine::shard::{ShardAsk, walk};
use fantail_machine::tables::work::WorkId;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{ClaimNo, DeviceNo, Millis, TenantId, UserNo};
use fantail_rules::knobs::Knobs;
use fantail_rules::policy::{CategoryPolicy, Defaults};
use fantail_rules::preference::{Preferences, Switch};
use fantail_rules::quota::{Quota, Resource};
use fantail_rules::suppression::Reason;
use fantail_rules::ulid::Ulid;

const SIZES: [u64; 2] = [8, 64];
/// When the daily schedule is due first: 2025-06-16T06:00:00Z.
const RUN: Millis = Millis(1_750_053_600_000);

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
    let policy = |change| RootAsk::Policy(Box::new(policy::Ask { tenant, expect: Expect::Unsaid, change }));
    let provider = |change| RootAsk::Provider(Box::new(provider::Ask { expect: Expect::Unsaid, change }));
    let schedule = |ask| RootAsk::Schedule(Box::new(ask));
    let put_schedule = |is_paused| schedule::Ask::Put {
        definition: Definition { tenant, is_paused, ..schedules::daily("Europe/Vienna") },
        expect: Expect::Unsaid,
    };
    let preferences = Preferences { everything: Switch::Off, ..Preferences::default() };
    let defaults = Defaults { preferences };
    let segment = SegmentPut { tenant, name: id(), filter: Some("everyone".into()), note: String::new() };
    let hook = WebhookPut { tenant, id: id(), target: sealed(1), url: sealed(2), events: 7 };
    let mut operations = vec![("key: create", key)];
    operations.extend(template_operations(tenant));
    operations.extend([
        (
            "category: put",
            policy(policy::Change::PutCategory { name: id(), policy: CategoryPolicy::default() }),
        ),
        ("preferences: defaults", policy(policy::Change::PutDefaults(defaults))),
        ("segment: put", RootAsk::Segment(segment::Ask::Put(segment))),
        (
            "segment: list",
            RootAsk::Segment(segment::Ask::List { tenant, name: id(), list: UploadId([1; 16]), members: 3 }),
        ),
        ("schedule: put", schedule(put_schedule(false))),
        ("schedule: pause", schedule(put_schedule(true))),
        ("schedule: resume", schedule(put_schedule(false))),
        (
            "schedule: run",
            schedule(schedule::Ask::Ran { tenant, id: "daily".into(), due: RUN, run: None, through: RUN }),
        ),
        ("webhook: put", RootAsk::Webhook(webhook::Ask::Put(hook))),
        (
            "webhook: rotate",
            RootAsk::Webhook(webhook::Ask::Retarget { tenant, id: id(), from: sealed(1), to: sealed(3) }),
        ),
        ("webhook: failing", RootAsk::Webhook(webhook::Ask::Fail { tenant, id: id(), is_failing: true })),
        (
            "webhook: switch",
            RootAsk::Webhook(webhook::Ask::Switch { tenant, id: id(), off: Some("x".into()) }),
        ),
        ("webhook: enable", RootAsk::Webhook(webhook::Ask::Switch { tenant, id: id(), off: None })),
        ("account: put", provider(provider::Change::Put(providers::account(tenant, "own")))),
        ("account: put mail", provider(provider::Change::Put(providers::mail(tenant, "mail")))),
        (
            "tenant: patch",
            RootAsk::PatchTenant {
                tenant,
                name: Some("other".into()),
                tier_up: None,
                retention_days: None,
                rate: None,
                quota: Some(Quota::default().with(Resource::Users, Some(5))),
            },
        ),
    ]);
    operations
}

fn template_operations(tenant: TenantId) -> Vec<(&'static str, RootAsk)> {
    let id = || "own".to_owned();
    let template =
        |expect, change| RootAsk::Template(Box::new(template::Ask { tenant, id: id(), expect, change }));
    let version = |text| template::Change::Put {
        about: templates::about(text),
        definition: DefinitionBytes(vec![text; 3]),
    };
    vec![
        ("template: put", template(Expect::Absent, version(1))),
        ("template: new version", template(Expect::Version(1), version(2))),
        (
            "template: activate",
            template(Expect::Unsaid, template::Change::Set { version: Some(1), active: None }),
        ),
        (
            "template: set",
            template(Expect::Unsaid, template::Change::Set { version: None, active: Some(false) }),
        ),
    ]
}

fn root_deletions(tenant: TenantId) -> Vec<(&'static str, RootAsk)> {
    let id = || "own".to_owned();
    let expect = Expect::Unsaid;
    let delete = policy::Change::DeleteCategory { name: id() };
    let account = provider::Change::Delete { tenant, id: id() };
    let rotate = provider::Change::RotateCallback { tenant, id: "mail".into(), until: Millis(u64::MAX) };
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
        ("account: rotate", RootAsk::Provider(Box::new(provider::Ask { expect, change: rotate }))),
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
    node.personal = vec![Personal { shard: SHARD, user, content: sealed(4) }];
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
        enlist(&mut node, (name as u8).wrapping_add(1));
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
    ("bulk: resume", |world| {
        steer(world, Steer::Pause);
        steer(world, Steer::Resume);
    }),
    ("bulk: resume: take", |world| {
        steer(world, Steer::Pause);
        world.node.take_all();
        steer(world, Steer::Resume);
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
            let cost = world.node.last_cost();
            assert!(!cost.1.is_empty(), "{name} is done");
            cost
        });
        grown.extend(growth(name, costs));
    }
    assert_eq!(grown, Vec::<String>::new());
}

/// The exception: the steps grow with the content that is for one recipient alone, and each looks at a bounded number of rows.
#[test]
fn a_step_of_a_purge_of_personal_content_is_bounded() {
    let rows = Knobs::DEFAULT.steps.unsaid_rows;
    for others in [8, rows as u64, 3 * rows as u64] {
        let mut node = Node::new();
        let (tenant, shard, user) = (TENANT, SHARD, node.user(0));
        for name in 0..=others {
            let user = if name == 0 { user } else { node.user(name) };
            schedule(&mut node, user, DAY_MS + name, 1);
        }
        let (mut behind, mut steps, mut removed_in_all) = (None, 0, 0);
        loop {
            let answer = node.front(FrontAsk::Unsay { tenant, shard, user, behind });
            let (read, changed) = node.last_cost();
            // Besides the rows that a step looks at: what is removed, and the tenant's usage.
            assert!(read <= rows + 4 && changed.len() <= 1, "{read} rows, {changed:?} with {others} others");
            let FrontAnswer::Unsaid { removed, next } = answer else { panic!("{answer:?}") };
            (steps, removed_in_all, behind) = (steps + 1, removed_in_all + removed, next);
            if behind.is_none() {
                break;
            }
        }
        assert_eq!((removed_in_all, steps), (1, (others + 1) / rows as u64 + 1), "with {others} others");
    }
}
