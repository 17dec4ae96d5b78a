//! Stored-format fixtures: the bytes of one record of each kind, and of every row of a small written history. They
//! are what released builds have on disk. A failure here means that such a disk can no longer be read: give the
//! new layout a new version or tag, keep reading the old one, and add lines; never change one.

use crate::cancels;
use crate::courier::Courier;
use crate::deliveries::{by, one, told};
use crate::digests;
use crate::endpoints::{address, hear, register, registration};
use crate::erasures;
use crate::fallbacks::{SILENT, chained};
use crate::harness::{DAY_MS, DIRECTORY, Node, SHARD, START, TENANT, list, lookup, put_of, sealed};
use crate::policies;
use crate::respect;
use crate::schedules;
use crate::templates;
use crate::throttles;
use crate::walks;
use crate::{providers, webhooks};
use fantail_machine::columns::counts::Count;
use fantail_machine::directory::DirectoryAsk;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::parcel::{Collector, Words};
use fantail_machine::records::deletion::DeletionRecord;
use fantail_machine::records::delivery::{Consents, Counted, Intend, Outcome, Receipt, Redrive, Swept, Wake};
use fantail_machine::records::difference::Difference;
use fantail_machine::records::directory::{Claim, DirectoryRecord, Owner};
use fantail_machine::records::endpoint::{EndpointPut, EndpointState};
use fantail_machine::records::front::{Admitted, Audience, FrontRecord, Options, Personal, Released, Size};
use fantail_machine::records::root::{ApiKey, Layout, Noted, RootRecord, Tenant, TenantQuota};
use fantail_machine::records::shard::{Change, Edge, Given, ShardRecord, UserPut};
use fantail_machine::records::template::{About, DefinitionBytes, TemplateActivated, TemplatePut};
use fantail_machine::records::webhook::{Told, WebhookPut, WebhookSwitched};
use fantail_machine::records::wipe::WipedStretch;
use fantail_machine::records::{Fact, Stamped};
use fantail_machine::root::template::Expect;
use fantail_machine::root::{RootAsk, deletion};
use fantail_machine::shard::ShardAsk;
use fantail_machine::shard::outcome::Said;
use fantail_machine::shard::serve::Job;
use fantail_machine::shard::users::Put;
use fantail_machine::tables::ledger::{ParcelId, Standing};
use fantail_machine::tables::taken;
use fantail_machine::tables::track::Note;
use fantail_machine::tables::work::WorkId;
use fantail_ports::audit::Digest;
use fantail_ports::tables::{KeyRange, Order};
use fantail_rules::actor::Actor;
use fantail_rules::admit::Bucket;
use fantail_rules::attempt::State;
use fantail_rules::caps::Pace;
use fantail_rules::category::CategoryId;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{News, Platform, Status};
use fantail_rules::gates;
use fantail_rules::ids::{
    AddressHash, Arrival, ClaimNo, DeviceHash, DeviceNo, FrontNo, KeyNo, Lookup, Millis, PartitionId,
    Position, ShardNo, TenantId, UserNo,
};
use fantail_rules::marks::{Mark, Watermark};
use fantail_rules::pacing::Rate;
use fantail_rules::quota::{Quota, Resource};
use fantail_rules::retry::Cause;
use fantail_rules::suppression::Reason;
use fantail_rules::tier::Tier;
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;
use std::collections::BTreeSet;
use std::fmt::{Debug, Write};
use std::ops::ControlFlow;

const RECORDS: &str = include_str!("fixtures/records.txt");
/// Layout, the front's last id, what is scheduled, what was taken of each front, and timers of both kinds belong to the partition itself; 31 is the
/// row of another tenant that is deleted.
const OF_NO_TENANT: [u8; 8] = [1, 16, 21, 28, 31, 33, 54, 76];
const ROWS: &str = include_str!("fixtures/rows.txt");

#[test]
fn record_bytes_are_the_released_ones() {
    let mut written = String::new();
    write_examples(&mut written, "root", &root_examples());
    write_examples(&mut written, "front", &front_examples());
    write_examples(&mut written, "directory", &directory_examples());
    write_examples(&mut written, "shard", &shard_examples());
    assert_eq!(lines(RECORDS), lines(&written), "records are now written as\n{written}");
}

#[test]
fn released_records_are_still_read() {
    check_read("root", &root_examples());
    check_read("front", &front_examples());
    check_read("directory", &directory_examples());
    check_read("shard", &shard_examples());
}

#[test]
fn every_record_kind_has_a_fixture() {
    assert_eq!(
        tags(&root_examples()),
        (1..=8)
            .chain(10..=12)
            .chain(15..=17)
            .chain(20..=22)
            .chain(40..=46)
            .chain([50])
            .chain(70..=73)
            .collect()
    );
    assert_eq!(tags(&front_examples()), (1..=9).chain([17, 70]).collect());
    assert_eq!(tags(&directory_examples()), (1..=5).chain([70]).collect());
    assert_eq!(
        tags(&shard_examples()),
        (1..=15)
            .chain(20..=26)
            .chain(28..=29)
            .chain(30..=34)
            .chain(40..=45)
            .chain(50..=53)
            .chain([60, 70])
            .collect()
    );
}

// proves: TEN-01
/// Keys and values of all families, from a history that is always the same.
#[test]
fn row_bytes_are_the_released_ones() {
    let node = history();
    let (mut written, mut families) = (String::new(), BTreeSet::new());
    let directory = PartitionId::Directory(DIRECTORY);
    for partition in [PartitionId::Root, PartitionId::Front(FrontNo(0)), directory, PartitionId::Shard(SHARD)]
    {
        node.read(partition, |state| {
            let everything = KeyRange { from: &[], to: &[0xff; 64] };
            let visit = &mut |key: &[u8], value: &[u8]| {
                families.insert(key[0]);
                let of_tenant = key.get(1..5) == Some(&TENANT.0.to_be_bytes()[..]);
                assert!(of_tenant || OF_NO_TENANT.contains(&key[0]), "the tenant comes first: {}", hex(key));
                writeln!(written, "{partition} {} {}", hex(key), hex(value)).unwrap();
                ControlFlow::Continue(())
            };
            state.tables().scan(everything, Order::Ascending, visit).unwrap();
        });
    }
    let expected = (1..=28).chain(30..=60).chain(62..=68).chain(73..=90).chain([92, 96, 97]);
    assert_eq!(families, expected.collect(), "every family has a row");
    assert_eq!(lines(ROWS), lines(&written), "rows are now written as\n{written}");
}

fn delete_another_tenant(node: &mut Node) {
    node.root(RootAsk::CreateTenant { slug: "gone".into(), name: "Gone".into() });
    node.root(RootAsk::Deletion(deletion::Ask::Begin { tenant: TenantId(TENANT.0 + 1) }));
}

/// Something of everything: both tiers, explicit users, marks, retractions, and to-do rows.
pub fn history() -> Node {
    let mut node = Node::new();
    node.root(RootAsk::Layout(Layout { shards: 4, fronts: 1, directories: 1 }));
    node.root(RootAsk::CreateTenant { slug: "default".into(), name: "Default".into() });
    node.root(RootAsk::CreateKey {
        tenant: TENANT,
        id: "k1".into(),
        secret_hash: [3; 32],
        scopes: vec!["inbox:read".into()],
        expires: Some(Millis(START.0 + DAY_MS)),
        rate: Some(Rate { per_second: 100, burst: 500 }),
    });
    node.root(RootAsk::RevokeKey { tenant: TENANT, id: "k1".into() });
    templates::put(&mut node, "welcome", Expect::Absent, 1);
    templates::put(&mut node, "welcome", Expect::Version(1), 2);
    templates::set(&mut node, "welcome", Some(1), Some(false));
    templates::put(&mut node, "gone", Expect::Absent, 3);
    templates::delete(&mut node, "gone");
    let users: Vec<UserNo> = (0..17).map(|name| node.user(name)).collect();
    let moved = Put { minted: false, locale: "de-AT".into(), ..put_of(2, 102) };
    node.shard(ShardAsk::PutUsers { tenant: TENANT, users: vec![moved] });
    (0..17).for_each(|name| node.join(name, list(2)));
    node.join(0, list(3));
    node.front(FrontAsk::Counted {
        shard: ShardNo(2),
        sizes: vec![Size { tenant: TENANT, list: list(2), members: 9_000 }],
    });
    node.post(list(2), false);
    let pointer = node.post(list(2), true);
    let given = node.send(&users[..2]);
    node.take_all();
    node.retract(pointer);
    node.retract(given);
    node.post(list(3), true);
    node.take_all();
    node.leave(1, list(2));
    node.mark(users[0], Mark::Read, &[1]);
    node.mark(users[0], Mark::Snooze { until: Millis(START.0 + 60_000) }, &[4]);
    node.mark_all(users[0], Mark::Seen, 2);
    register(&mut node, 0, registration(0, 1, 5));
    register(&mut node, 0, registration(0, 2, 6));
    hear(&mut node, users[0], 1, 1, News::Granted { suppressed: false });
    let suppress = |no| DirectoryAsk::Suppress { tenant: TENANT, address: address(no), reason: Reason::Stop };
    Courier::default().settle(&mut node, &[SHARD]);
    // A token changes hands, and the one who has it is still to hear that nothing may be sent to another.
    register(&mut node, 1, registration(1, 1, 5));
    assert!(Courier::default().step(&mut node, SHARD));
    node.directory(suppress(6));
    register(&mut node, 16, registration(16, 1, 7));
    node.delete_user(16);
    leave_the_house(&mut node, &users);
    respect::history(&mut node, 0);
    digests::history(&mut node, 20);
    node.shard(ShardAsk::Erase { tenant: TENANT, lookup: lookup(15), erasure: Ulid(9), entries: 2 });
    throttles::history(&mut node, 17);
    policies::history(&mut node);
    walks::history(&mut node);
    schedules::history(&mut node);
    providers::rows(&mut node);
    webhooks::put(&mut node, "wh_1");
    webhooks::fail(&mut node, "wh_1", true);
    webhooks::put(&mut node, "wh_2");
    webhooks::switch(&mut node, "wh_2", Some("gone"));
    webhooks::tell(&mut node, "wh_1", 300, None);
    let quota = Some(Quota::default().with(Resource::Devices, Some(300)));
    let (name, tier_up, retention_days, rate) = (None, None, None, None);
    node.root(RootAsk::PatchTenant { tenant: TENANT, name, tier_up, retention_days, rate, quota });
    delete_another_tenant(&mut node);
    node
}

/// Deliveries in every state that keeps rows: looked at in part, under way, due, dead, tracked, called off.
fn leave_the_house(node: &mut Node, users: &[UserNo]) {
    for name in 2..5 {
        register(node, name, registration(name, 1, 8 + name));
        hear(node, users[name as usize], 1, 1, News::Granted { suppressed: false });
    }
    node.delivery = Some(by(&[ChannelKind::InApp, ChannelKind::Push]));
    node.personal = vec![Personal { shard: SHARD, user: users[2], content: sealed(4) }];
    node.send(&users[..4]);
    node.options = Options {
        due: Some(Millis(START.0 + DAY_MS)),
        cancellation: Some([6; 16]),
        collapse: Some(sealed(3)),
        is_sensitive: true,
        name: None,
    };
    node.send(&users[..1]);
    let listed = node.post(list(2), false);
    let cancelled = node.post(list(2), true);
    node.take_all();
    let work = |arrival| WorkId { tenant: TENANT, arrival: Arrival(arrival), channel: ChannelKind::Push };
    node.shard(one(Job::Work(work(5)), 1_000));
    let told = vec![
        told(0, Said::Malformed, "bad_payload"),
        told(1, Said::NotTaken { cause: Cause::Message, retry_after_ms: Some(9_000) }, "busy"),
        told(2, Said::NotTaken { cause: Cause::Message, retry_after_ms: Some(9_000) }, "busy"),
    ];
    node.shard(ShardAsk::Outcome { parcel: ParcelId::of(work(5), UserNo(0)), told: told.into() });
    node.shard(one(Job::Work(work(6)), 2));
    assert_eq!(node.front(FrontAsk::Cancel { tenant: TENANT, event: cancelled }), FrontAnswer::Cancelled);
    node.take_all();
    assert!(listed < cancelled);
}

fn stretch_example(tenant: TenantId) -> WipedStretch {
    WipedStretch { tenant, from: vec![18, 0, 0, 1, 44], to: vec![18, 0, 0, 1, 45] }
}

fn deletion_examples(tenant: TenantId, difference: Difference) -> [RootRecord; 4] {
    [
        DeletionRecord::Wiped(stretch_example(tenant)),
        DeletionRecord::Ending { tenant, slug: "acme".into(), difference },
        DeletionRecord::Counted { tenant, rows: 1_000 },
        DeletionRecord::Ended { tenant, slug: "acme".into(), rows: 7 },
    ]
    .map(RootRecord::Deletion)
}

fn noted_example(tenant: TenantId) -> RootRecord {
    RootRecord::Noted(Noted { tenant, action: "provider.test".into(), target: "ios".into() })
}

fn root_examples() -> Vec<RootRecord> {
    let tenant = TenantId(300);
    let difference = Difference { before: Some(Digest([0x5b; 32])), after: Some(Digest([0x5c; 32])) };
    let mut all = vec![
        RootRecord::Layout(Layout { shards: 4, fronts: 1, directories: 1 }),
        RootRecord::TenantPut(
            Tenant {
                id: tenant,
                slug: "acme".into(),
                name: "Acme Ä".into(),
                tier_up: 10_000,
                retention_days: 90,
                created: Millis(1_750_000_000_000),
                rate: Some(Rate { per_second: 1_000, burst: 5_000 }),
            },
            difference,
        ),
        RootRecord::KeyPut(
            ApiKey {
                tenant,
                id: "k1".into(),
                secret_hash: [0x5a; 32],
                scopes: vec!["events:write".into(), "admin".into()],
                created: Millis(1_750_000_000_000),
                expires: Some(Millis(1_760_000_000_000)),
                rate: None,
            },
            Difference::default(),
        ),
        RootRecord::KeyRevoked { tenant, id: "k1".into(), difference },
        RootRecord::TemplatePut(Box::new(TemplatePut {
            tenant,
            id: "welcome".into(),
            version: 300,
            about: About {
                author: "k1".into(),
                category: "account".into(),
                name: Some("Welcome Ä".into()),
                note: None,
                hash: [0x5a; 32],
            },
            dropped: vec![200, 201],
            definition: DefinitionBytes(b"{}".to_vec()),
            difference,
        })),
        RootRecord::TemplateActivated(TemplateActivated {
            tenant,
            id: "welcome".into(),
            version: 299,
            active: true,
            difference,
        }),
        RootRecord::TemplateGone { tenant, id: "welcome".into(), difference },
        RootRecord::WebhookPut(
            WebhookPut { tenant, id: "wh_1".into(), target: sealed(1), url: sealed(2), events: 300 },
            difference,
        ),
        RootRecord::WebhookGone { tenant, id: "wh_1".into(), difference },
        RootRecord::WebhookSwitched(WebhookSwitched {
            tenant,
            id: "wh_1".into(),
            off: Some("410".into()),
            difference,
        }),
        RootRecord::WebhookFailing { tenant, id: "wh_1".into(), is_failing: true },
    ];
    all.extend(later_root_examples(tenant, difference));
    all
}

/// Of records that came later: their lines stand behind the others.
fn later_root_examples(tenant: TenantId, difference: Difference) -> Vec<RootRecord> {
    let mut all = policies::examples(tenant);
    all.extend([walks::root_examples(tenant, difference), schedules::examples(tenant, difference)].concat());
    all.extend(providers::examples(tenant, difference));
    all.push(quota_example(tenant, difference));
    let latest = vec![noted_example(tenant), providers::rotated_example(tenant, difference)];
    [
        all,
        schedules::examples_with_author(tenant, difference),
        latest,
        deletion_examples(tenant, difference).into(),
    ]
    .concat()
}

fn quota_example(tenant: TenantId, difference: Difference) -> RootRecord {
    let quota = Quota::default().with(Resource::Users, Some(1_000)).with(Resource::StoredBytes, Some(0));
    RootRecord::QuotaPut(TenantQuota { tenant, quota }, difference)
}

fn counted() -> Counted {
    let pace = Some(Pace { burst: 5, refill_seconds: 600 });
    let mut how = Words::all(Count { day: 20_254, pace }, 1);
    how.push(Count { day: 20_255, pace: None });
    Counted { positions: vec![0, 2], how }
}

fn admitted(audience: Audience, options: Options) -> FrontRecord {
    FrontRecord::Admitted(Admitted {
        tenant: TenantId(300),
        event: Ulid::new(Millis(1_750_000_000_000), FrontNo(5), 77),
        key: [1; 16],
        body: [2; 16],
        kind: "post".into(),
        category: "social".into(),
        priority: 2,
        actor: Some(sealed(7)),
        content: sealed(0),
        delivery: None,
        personal: 0,
        options,
        audience,
    })
}

fn front_examples() -> Vec<FrontRecord> {
    let tenant = TenantId(300);
    let members = vec![(ShardNo(1), vec![UserNo(0), UserNo(500)]), (ShardNo(3), vec![UserNo(9)])];
    let options = Options {
        due: Some(Millis(1_760_000_000_000)),
        cancellation: Some([6; 16]),
        collapse: Some(sealed(3)),
        is_sensitive: true,
        name: None,
    };
    vec![
        admitted(Audience::Listed { list: list(2), tier: Tier::Pointer, turned: true }, Options::default()),
        admitted(Audience::Addressed(members.clone()), options),
        FrontRecord::Released(Released {
            tenant,
            event: Ulid(0x0102_0304),
            due: Millis(1_760_000_000_000),
            about: taken::About { category: CategoryId(0x0506_0708), is_critical: true },
            delivery: Some(chained(&[ChannelKind::Push, ChannelKind::Sms], &[SILENT])),
            audience: Audience::Addressed(members),
        }),
        FrontRecord::Part {
            tenant,
            event: Ulid(0x0102_0304),
            contents: vec![Personal { shard: ShardNo(3), user: UserNo(500), content: sealed(7) }],
        },
        walks::steered(tenant),
        admitted(Audience::Walked(Box::new(walks::walk())), Options::default()),
        FrontRecord::Retracted { tenant, event: Ulid(0x0102_0304) },
        FrontRecord::Cancelled { tenant, event: Ulid(0x0102_0304) },
        FrontRecord::Counted {
            shard: ShardNo(3),
            sizes: vec![Size { tenant, list: list(2), members: 12_345 }],
        },
        FrontRecord::Forgotten {
            tenant,
            bucket: Bucket(10_127),
            keys: vec![[4; 16], [5; 16]],
            events: vec![Ulid(6)],
        },
        FrontRecord::Unsaid { tenant, shard: ShardNo(3), user: UserNo(500), events: vec![Ulid(6)] },
        cancels::front_example(tenant),
        admitted(
            Audience::Addressed(vec![(ShardNo(3), vec![UserNo(500)])]),
            Options { name: Some(sealed(3)), ..Options::default() },
        ),
        FrontRecord::Wiped(stretch_example(tenant)),
    ]
}

fn shard_examples() -> Vec<ShardRecord> {
    let (tenant, user, lookup) = (TenantId(300), UserNo(1_000), Lookup([0xcd; 16]));
    let edge = |name| Edge { user, list: list(2), name };
    let given = Given {
        front: FrontNo(5),
        position: Position(70_000),
        tenant,
        event: Ulid(0x0102_0304),
        is_late: true,
        delivery: None,
        members: vec![UserNo(0), UserNo(128), UserNo(129)],
        unwanted: vec![(UserNo(128), gates::Reason::ChannelOff)],
    };
    let marked = |mark, arrivals: &[u64]| ShardRecord::Marked {
        tenant,
        user,
        mark,
        arrivals: arrivals.iter().copied().map(Arrival).collect(),
    };
    let (locale, zone) = ("de-AT".into(), ZoneNo::find("Europe/Vienna").unwrap());
    let put = UserPut { user, lookup, id: sealed(8), attributes: sealed(8), locale, zone };
    let moved = |watermark| ShardRecord::Moved { tenant, user, watermark, to: Arrival(70_000) };
    vec![
        ShardRecord::UserPut { tenant, users: vec![put] },
        ShardRecord::UserGone { tenant, user, lookup, key: KeyNo(8) },
        ShardRecord::Edges { tenant, change: Change::Join, edges: vec![edge(Some(sealed(0))), edge(None)] },
        ShardRecord::Edges { tenant, change: Change::Leave, edges: vec![edge(None)] },
        ShardRecord::Take { front: FrontNo(5), from: Position(69_000), to: Position(69_255) },
        ShardRecord::Given(given),
        marked(Mark::Read, &[3, 300]),
        marked(Mark::Unread, &[3]),
        marked(Mark::Seen, &[3]),
        marked(Mark::Archive, &[3]),
        marked(Mark::Unarchive, &[3]),
        marked(Mark::Snooze { until: Millis(1_750_000_060_000) }, &[3]),
        marked(Mark::Unsnooze, &[3]),
        marked(Mark::Delete, &[3]),
        moved(Watermark::Read),
        moved(Watermark::Seen),
        moved(Watermark::Archived),
        ShardRecord::Cleared { tenant, user, arrivals: vec![Arrival(3), Arrival(300)] },
        ShardRecord::Reported { sizes: vec![Size { tenant, list: list(2), members: 12_345 }] },
        ShardRecord::Shredded { keys: vec![(tenant, KeyNo(8))] },
        ShardRecord::Expired { tenant, through: Arrival(70_000) },
        ShardRecord::Unlisted { tenant, user, lists: vec![list(2), list(5)] },
        ShardRecord::EndpointPut { tenant, endpoints: endpoint_examples(user) },
        ShardRecord::EndpointState {
            tenant,
            states: vec![EndpointState {
                user,
                device: DeviceNo(2),
                claim: ClaimNo(300),
                status: Status::Active,
            }],
        },
        ShardRecord::EndpointGone { tenant, endpoints: vec![(user, DeviceNo(2)), (UserNo(7), DeviceNo(1))] },
    ]
    .into_iter()
    .chain(delivery_examples())
    .chain(walks::examples(tenant))
    .chain(respect::examples(tenant, user))
    .chain(throttles::examples(tenant, user))
    .chain(digests::examples(tenant, user))
    .chain(erasures::examples(tenant, user))
    .chain(cancels::shard_examples(tenant))
    .chain([erasures::example_with_lookup(tenant, user)])
    .chain([ShardRecord::Wiped(stretch_example(tenant))])
    .collect()
}

fn standing(state: State, due: u64, code: &str) -> Standing {
    Standing { state, retries: 2, resends: 1, due: Millis(due), code: code.into(), was_authorised: false }
}

fn delivery_examples() -> Vec<ShardRecord> {
    let work = WorkId { tenant: TenantId(300), arrival: Arrival(70_000), channel: ChannelKind::Push };
    let parcel = ParcelId::of(work, UserNo(1_000));
    let mut collector = Collector::default();
    for (user, devices) in [(1_000, &[1, 2][..]), (1_001, &[1]), (1_300, &[1, 2]), (90_000, &[8_191])] {
        let devices: Vec<DeviceNo> = devices.iter().copied().map(DeviceNo).collect();
        collector.add(UserNo(user), &devices, 1_000);
    }
    let mut words = Words::all(standing(State::Intent, 0, ""), 5);
    words.push(standing(State::Suppressed, 0, "no_endpoint"));
    let mut standings = Words::all(standing(State::Accepted, 0, ""), 1);
    standings.push(standing(State::Deferred, 1_750_000_060_000, "busy"));
    standings.push(standing(State::Unknown, 1_750_000_005_000, "timeout"));
    let note = Note {
        at: Millis(1_750_000_000_500),
        state: State::Accepted,
        code: "200".into(),
        message: "ok".into(),
        provider_id: "p-1".into(),
    };
    let positions = vec![0, 2, 300];
    vec![
        ShardRecord::Intend(Intend {
            work,
            next: Some(UserNo(90_001)),
            unreached: 12,
            members: collector.finish(),
            verdicts: words,
            counted: counted(),
            consents: Consents::of([7, 7, 0, 300, 300, 0]),
        }),
        ShardRecord::Wake(Wake {
            parcel,
            round: 2,
            due: Millis(1_750_000_060_000),
            positions: positions.clone(),
            verdicts: standings.clone(),
            counted: Counted::nothing(),
            consents: Consents::of([0, 0, 2]),
        }),
        ShardRecord::Outcome(Outcome {
            parcel,
            round: 1,
            positions: positions.clone(),
            standings: standings.clone(),
            notes: vec![note.clone(); 3],
        }),
        ShardRecord::Receipt(Receipt {
            parcel,
            position: 300,
            standing: standing(State::Delivered, 0, "seen"),
            note,
        }),
        ShardRecord::Redrive(Redrive { parcel, positions, standings }),
        ShardRecord::Closed { work, code: "ttl_expired".into() },
        ShardRecord::Swept(Swept {
            tenant: TenantId(300),
            parcels: vec![parcel, ParcelId { channel: ChannelKind::Sms, ..parcel }],
            arrivals: vec![Arrival(69_000), Arrival(70_000)],
        }),
        ShardRecord::Told(Told { tenant: TenantId(300), webhook: "wh_1".into(), through: Position(70_000) }),
        ShardRecord::Untold { tenant: TenantId(300), webhook: "wh_1".into() },
    ]
}

fn directory_examples() -> Vec<DirectoryRecord> {
    let (tenant, address) = (TenantId(300), AddressHash([0x22; 16]));
    let owner = Owner { shard: ShardNo(3), user: UserNo(1_000), device: DeviceNo(2), claim: ClaimNo(300) };
    let claims = vec![Claim { address, owner }];
    let difference = Difference { before: Some(Digest([0x5b; 32])), after: None };
    vec![
        DirectoryRecord::Claimed { tenant, claims: claims.clone() },
        DirectoryRecord::Released { tenant, claims },
        DirectoryRecord::Told { tenant, addresses: vec![address] },
        DirectoryRecord::Suppressed { tenant, address, reason: Reason::HardBounce, difference },
        DirectoryRecord::Unsuppressed { tenant, address, difference },
        DirectoryRecord::Wiped(stretch_example(tenant)),
    ]
}

fn endpoint_examples(user: UserNo) -> Vec<EndpointPut> {
    let token = EndpointPut {
        user,
        device: DeviceNo(2),
        claim: ClaimNo(300),
        status: Status::Pending,
        kind: ChannelKind::Push,
        platform: Platform::Android,
        name_hash: DeviceHash([0x11; 16]),
        name: Some(sealed(8)),
        address_hash: AddressHash([0x22; 16]),
        address: sealed(8),
        meta: Some(sealed(8)),
    };
    let (kind, platform) = (ChannelKind::Email, Platform::None);
    let mail = EndpointPut { device: DeviceNo(1), kind, platform, name: None, meta: None, ..token.clone() };
    vec![token, mail]
}

fn tags<R: Fact>(examples: &[R]) -> BTreeSet<u8> {
    examples.iter().map(Fact::tag).collect()
}

fn write_examples<R: Fact + Clone>(out: &mut String, machine: &str, examples: &[R]) {
    for stamped in stamped(examples) {
        let bytes = stamped.encode();
        writeln!(out, "{machine} {}", hex(&bytes)).unwrap();
    }
}

fn check_read<R: Fact + PartialEq + Debug + Clone>(machine: &str, examples: &[R]) {
    let stored = lines(RECORDS).into_iter().filter_map(|line| line.strip_prefix(machine));
    let read: Vec<Stamped<R>> = stored.map(|hex| Stamped::decode(&unhex(hex.trim())).unwrap()).collect();
    assert_eq!(read, stamped(examples));
}

/// By everybody who can ask, in turn.
fn stamped<R: Clone>(examples: &[R]) -> Vec<Stamped<R>> {
    let actors = [Actor::Key("0123456789AB".into()), Actor::System, Actor::Admin];
    let stamp = |(record, by): (&R, &Actor)| Stamped { at: START, by: by.clone(), record: record.clone() };
    examples.iter().zip(actors.iter().cycle()).map(stamp).collect()
}

/// Lines that say something: `#` begins a comment.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
