//! Recurring schedules in the root: when they come next is a fact, and what was waited for is dealt with once.

use crate::harness::{Node, START, TENANT, sealed};
use crate::strategies::{millis, tenant};
use fantail_machine::records::difference::Difference;
use fantail_machine::records::root::RootRecord;
use fantail_machine::records::schedule::{Author, Came, Definition, Run, SchedulePut, ScheduleRan, Sends};
use fantail_machine::root::schedule::{Answer, Ask};
use fantail_machine::root::template::Expect;
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_machine::tables::Row;
use fantail_machine::tables::schedule::{self, ScheduleRow, Standing, Waiting};
use fantail_rules::ids::{Millis, PartitionId, TenantId};
use fantail_rules::limits::SCHEDULES_PER_TENANT_MAX;
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;
use proptest::option;
use proptest::prelude::*;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

fn run() -> impl Strategy<Value = Run> {
    let came = prop_oneof![
        any::<u128>().prop_map(|id| Came::Issued(Ulid(id))),
        any::<String>().prop_map(Came::Refused)
    ];
    (millis(), came).prop_map(|(at, came)| Run { at, came })
}

fn a_definition() -> impl Strategy<Value = Definition> {
    let sends = prop_oneof![Just(Sends::Notification), Just(Sends::ToSegment)];
    let when =
        (any::<String>(), crate::respect::zone(), option::of(millis()), option::of(millis()), any::<bool>());
    let author = (option::of(any::<String>()), any::<bool>());
    let author = author.prop_map(|(key, may_be_critical)| Author { key, may_be_critical });
    (tenant(), any::<String>(), when, sends, any::<u64>(), option::of(author)).prop_map(
        |(tenant, id, (cron, zone, starts, ends, is_paused), sends, key, author)| Definition {
            tenant,
            id,
            cron,
            zone,
            starts,
            ends,
            is_paused,
            sends,
            body: sealed(key),
            author,
        },
    )
}

pub fn schedule_record() -> impl Strategy<Value = RootRecord> {
    prop_oneof![
        (a_definition(), any::<u32>(), option::of(millis())).prop_map(|(definition, version, next)| {
            let difference = Difference::default();
            RootRecord::SchedulePut(Box::new(SchedulePut { definition, version, next, difference }))
        }),
        (tenant(), any::<String>()).prop_map(|(tenant, id)| RootRecord::ScheduleGone {
            tenant,
            id,
            difference: Difference::default()
        }),
        (tenant(), any::<String>(), millis(), option::of(run()), option::of(millis())).prop_map(
            |(tenant, id, due, run, next)| RootRecord::ScheduleRan(ScheduleRan {
                tenant,
                id,
                due,
                run,
                next
            })
        ),
    ]
}

fn schedule_row() -> impl Strategy<Value = ScheduleRow> {
    (a_definition(), any::<u32>(), millis(), millis()).prop_map(|(definition, version, created, updated)| {
        ScheduleRow { definition, version, created, updated }
    })
}

fn standing() -> impl Strategy<Value = Standing> {
    (option::of(millis()), option::of(run())).prop_map(|(next, last)| Standing { next, last })
}

/// One of each, as they are stored for good.
pub fn examples(tenant: TenantId, difference: Difference) -> Vec<RootRecord> {
    let definition = Definition { ends: Some(START.plus(HOUR_MS)), ..daily("Europe/Vienna") };
    let ran = |run| ScheduleRan { tenant, id: "daily".into(), due: START, run, next: Some(START.plus(1)) };
    let issued = Run { at: START, came: Came::Issued(Ulid(7)) };
    let refused = Run { at: START, came: Came::Refused("TEMPLATE_INACTIVE".into()) };
    vec![
        RootRecord::SchedulePut(Box::new(SchedulePut {
            definition,
            version: 3,
            next: Some(START),
            difference,
        })),
        RootRecord::ScheduleRan(ran(Some(issued))),
        RootRecord::ScheduleRan(ran(Some(refused))),
        RootRecord::ScheduleRan(ran(None)),
        RootRecord::ScheduleGone { tenant, id: "daily".into(), difference },
    ]
}

/// Behind all others: records are stamped in turn.
pub fn examples_with_author(tenant: TenantId, difference: Difference) -> Vec<RootRecord> {
    let by_author = |author| {
        let definition = Definition { tenant, author: Some(author), ..daily("Europe/Vienna") };
        RootRecord::SchedulePut(Box::new(SchedulePut { definition, version: 4, next: None, difference }))
    };
    vec![
        by_author(Author { key: Some("0123456789AB".into()), may_be_critical: false }),
        by_author(Author { key: None, may_be_critical: true }),
    ]
}

/// What leaves a row of each family.
pub fn history(node: &mut Node) {
    put(node, daily("Europe/Vienna"), Expect::Unsaid);
    let due = standing_of(node, "daily").next.unwrap();
    ran(node, "daily", due, due);
    put(node, Definition { id: "paused".into(), is_paused: true, ..daily("") }, Expect::Unsaid);
}

/// At eight, by UTC 06:00 in Vienna, or everybody's own.
pub fn daily(zone: &str) -> Definition {
    Definition {
        tenant: TENANT,
        id: "daily".into(),
        cron: "0 8 * * *".into(),
        zone: ZoneNo::find(zone).unwrap_or(ZoneNo::NONE),
        starts: None,
        ends: None,
        is_paused: false,
        sends: Sends::Notification,
        body: sealed(5),
        author: None,
    }
}

pub fn ask(node: &mut Node, ask: Ask) -> Answer {
    match node.root(RootAsk::Schedule(Box::new(ask))) {
        RootAnswer::Schedule(answer) => answer,
        other => panic!("{other:?}"),
    }
}

pub fn put(node: &mut Node, definition: Definition, expect: Expect) -> Answer {
    ask(node, Ask::Put { definition, expect })
}

fn ran(node: &mut Node, id: &str, due: Millis, through: Millis) -> Answer {
    let run = Some(Run { at: through, came: Came::Issued(Ulid(1)) });
    ask(node, Ask::Ran { tenant: TENANT, id: id.into(), due, run, through })
}

fn standing_of(node: &Node, id: &str) -> Standing {
    node.read(PartitionId::Root, |state| schedule::standing(state.tables(), TENANT, id).unwrap())
}

fn waiting(node: &Node) -> Vec<Waiting> {
    node.read(PartitionId::Root, |state| schedule::waiting(state.tables(), 99).unwrap())
}

/// The only one that waits.
fn next(node: &Node) -> Option<Millis> {
    let all = waiting(node);
    assert!(all.len() <= 1, "{all:?}");
    let found = all.first().map(|one| one.due);
    assert_eq!(found, standing_of(node, "daily").next, "a timer for what is waited for");
    found
}

fn begun() -> Node {
    let mut node = Node::new();
    node.root(RootAsk::CreateTenant { slug: "a".into(), name: "A".into() });
    node
}

/// Eight o'clock in Vienna of so many days after 2025-06-15.
fn eight(days: u64) -> Millis {
    Millis(1_749_967_200_000 + days * 24 * HOUR_MS)
}

// proves: SCH-02
#[test]
fn a_run_is_dealt_with_once_and_the_next_one_waited_for() {
    let mut node = begun();
    put(&mut node, daily("Europe/Vienna"), Expect::Absent);
    assert_eq!(next(&node), Some(eight(1)), "today's has passed");
    node.now = eight(1);
    assert_eq!(ran(&mut node, "daily", eight(1), eight(1)), Answer::Ran);
    assert_eq!(next(&node), Some(eight(2)));
    let records = node.records();
    assert_eq!(ran(&mut node, "daily", eight(1), eight(1)), Answer::Unknown, "it was dealt with");
    assert_eq!((node.records(), next(&node)), (records, Some(eight(2))));
    // Nobody was there for three days: what was left out leaves the last one that was not.
    node.now = eight(5).plus(2 * HOUR_MS);
    let left_out =
        Ask::Ran { tenant: TENANT, id: "daily".into(), due: eight(2), run: None, through: node.now };
    assert_eq!(ask(&mut node, left_out), Answer::Ran);
    assert_eq!(next(&node), Some(eight(6)));
    assert_eq!(standing_of(&node, "daily").last.map(|run| run.at), Some(eight(1)));
}

// proves: SCH-02
#[test]
fn changes_of_what_is_sent_lose_no_run_and_changes_of_when_begin_anew() {
    let mut node = begun();
    put(&mut node, daily("Europe/Vienna"), Expect::Unsaid);
    node.now = eight(1).plus(500);
    put(&mut node, Definition { body: sealed(6), ..daily("Europe/Vienna") }, Expect::Version(1));
    assert_eq!(next(&node), Some(eight(1)), "it is due, and somebody changed its words");
    put(&mut node, Definition { is_paused: true, ..daily("Europe/Vienna") }, Expect::Version(2));
    assert_eq!(next(&node), None);
    assert_eq!(ran(&mut node, "daily", eight(1), eight(1)), Answer::Unknown, "it was paused before");
    put(&mut node, daily("Europe/Vienna"), Expect::Version(3));
    assert_eq!(next(&node), Some(eight(2)), "what passed while it was paused is not made up for");
    put(&mut node, daily("Asia/Tokyo"), Expect::Version(4));
    assert_eq!(next(&node), Some(Millis(eight(1).0 + 17 * HOUR_MS)));
    // Eight o'clock begins in Kiritimati.
    put(&mut node, daily(""), Expect::Version(5));
    assert_eq!(next(&node), Some(Millis(eight(1).0 + 12 * HOUR_MS)));
    let ends = Some(node.now.plus(HOUR_MS));
    put(&mut node, Definition { ends, ..daily("") }, Expect::Version(6));
    assert_eq!(next(&node), None, "it is over");
}

// fixes: correctness C5
#[test]
fn new_time_zones_move_what_is_waited_for_and_nothing_else() {
    let mut node = begun();
    put(&mut node, daily("Europe/Vienna"), Expect::Absent);
    let replan = |node: &mut Node, due| ask(node, Ask::Replan { tenant: TENANT, id: "daily".into(), due });
    let records = node.records();
    assert_eq!(replan(&mut node, eight(1)), Answer::Replanned { next: None });
    assert_eq!(node.records(), records, "nothing has changed, nothing is written");
    // The time zones of an earlier build had put it an hour later.
    let stale = eight(1).plus(HOUR_MS);
    let planned =
        ScheduleRan { tenant: TENANT, id: "daily".into(), due: eight(1), run: None, next: Some(stale) };
    node.write_root(RootRecord::ScheduleRan(planned.clone()));
    assert_eq!(next(&node), Some(stale));
    assert_eq!(replan(&mut node, stale), Answer::Replanned { next: Some(Some(eight(1))) });
    assert_eq!((next(&node), standing_of(&node, "daily").last), (Some(eight(1)), None));
    // What is due already runs as it was planned.
    node.write_root(RootRecord::ScheduleRan(planned));
    node.now = stale;
    assert_eq!(replan(&mut node, stale), Answer::Replanned { next: None });
    assert_eq!(next(&node), Some(stale));
}

// proves: API-04
#[test]
fn a_change_is_made_to_what_its_author_saw() {
    let mut node = begun();
    let stale = |current| Answer::Conflict { current };
    assert_eq!(put(&mut node, daily("UTC"), Expect::Present), stale(None));
    let Answer::Schedule { row, is_new: true } = put(&mut node, daily("UTC"), Expect::Absent) else {
        panic!()
    };
    assert_eq!((row.version, row.created), (1, START));
    node.now = START.plus(5);
    let Answer::Schedule { row, is_new: false } = put(&mut node, daily("UTC"), Expect::Version(1)) else {
        panic!()
    };
    assert_eq!((row.version, row.created, row.updated), (2, START, node.now));
    assert_eq!(put(&mut node, daily("UTC"), Expect::Version(1)), stale(Some(2)));
    let gone = |expect| Ask::Delete { tenant: TENANT, id: "daily".into(), expect };
    assert_eq!(ask(&mut node, gone(Expect::Version(1))), stale(Some(2)));
    assert_eq!(ask(&mut node, gone(Expect::Version(2))), Answer::Gone);
    assert_eq!((waiting(&node), standing_of(&node, "daily")), (vec![], Standing::default()));
    assert_eq!(ask(&mut node, gone(Expect::Unsaid)), Answer::Unknown);
    let nobody = Definition { tenant: TenantId(99), ..daily("UTC") };
    assert_eq!(put(&mut node, nobody, Expect::Unsaid), Answer::UnknownTenant);
}

#[test]
fn a_tenant_has_so_many_and_the_earliest_is_first() {
    let mut node = begun();
    for no in 0..SCHEDULES_PER_TENANT_MAX {
        let definition =
            Definition { id: format!("s{no:03}"), cron: format!("{} 8 * * *", no % 60), ..daily("UTC") };
        assert!(matches!(put(&mut node, definition, Expect::Unsaid), Answer::Schedule { .. }));
    }
    assert_eq!(put(&mut node, daily("UTC"), Expect::Unsaid), Answer::TooMany);
    let replaced = Definition { id: "s001".into(), ..daily("UTC") };
    assert!(matches!(put(&mut node, replaced, Expect::Unsaid), Answer::Schedule { is_new: false, .. }));
    let all = waiting(&node);
    assert!(all.is_sorted_by_key(|one| one.due));
    assert_eq!(all.len(), 99, "as many as were asked for");
    let page = node.read(PartitionId::Root, |state| {
        schedule::of_tenant(state.tables(), TENANT, Some("s097"), 9).unwrap()
    });
    let ids: Vec<&str> = page.iter().map(|row| row.definition.id.as_str()).collect();
    assert_eq!(ids, ["s098", "s099"]);
}

proptest! {
    #[test]
    fn rows_of_schedules_round_trip(row in schedule_row(), stands in standing()) {
        prop_assert_eq!(ScheduleRow::decode(&row.encode()).unwrap(), row);
        prop_assert_eq!(Standing::decode(&stands.encode()).unwrap(), stands);
    }
}
