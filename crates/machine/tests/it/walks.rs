//! Those who are chosen, not named: segments, uploaded lists, and walks over users.

use crate::deliveries::{self, PUSH, by, intend, user_with};
use crate::endpoints::hear;
use crate::harness::{DAY_MS, FRONT, Node, Post, TENANT, admitted, lookup};
use fantail_machine::front::admit::AskAudience;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::records::difference::Difference;
use fantail_machine::records::front::{FrontRecord, Options, Steer};
use fantail_machine::records::root::RootRecord;
use fantail_machine::records::segment::{SegmentListed, SegmentPut, UploadId};
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::records::walk::{Begun, Delisted, Enlisted, Pace, Passed, Walk, WalkRecord};
use fantail_machine::root::{RootAsk, segment};
use fantail_machine::shard::walk::{Answer, Ask, Held, Pass};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::walk::{self as tables, WalkRow, WalkState};
use fantail_machine::tables::work::{self, WorkId};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::News;
use fantail_rules::ids::{Arrival, FrontNo, Millis, PartitionId, Position, TenantId, UserNo};
use fantail_rules::limits::{WALK_PARTS_AHEAD_MAX, WALKS_PER_TENANT_MAX};
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;

pub fn root_examples(tenant: TenantId, difference: Difference) -> Vec<RootRecord> {
    vec![
        RootRecord::SegmentPut(
            SegmentPut { tenant, name: "vips".into(), filter: Some("everyone".into()), note: "all".into() },
            difference,
        ),
        RootRecord::SegmentListed(SegmentListed {
            tenant,
            name: "vips".into(),
            list: UploadId([0x33; 16]),
            members: 300,
            difference,
        }),
        RootRecord::SegmentGone { tenant, id: "vips".into(), difference },
    ]
}

pub fn walk() -> Walk {
    let times = Times { start_minute: 1_320, end_minute: 360 };
    Walk {
        segment: "vips".into(),
        filter: Some("everyone".into()),
        list: Some(UploadId([0x33; 16])),
        excludes_opted_out: true,
        ignores_quiet_hours: true,
        is_paused: false,
        pace: Pace::PerSecond(500),
        window: Some((Window::new(times, Days::ALL).unwrap(), ZoneNo::find("Europe/Vienna").unwrap())),
    }
}

pub fn steered(tenant: TenantId) -> FrontRecord {
    FrontRecord::Steered { tenant, event: Ulid(0x0102_0304), steer: Steer::Pace(Pace::Over(60_000)) }
}

pub fn examples(tenant: TenantId) -> Vec<ShardRecord> {
    vec![
        ShardRecord::Walk(WalkRecord::Begun(Begun {
            front: FrontNo(3),
            position: Position(70_000),
            tenant,
            event: Ulid(0x0102_0304),
            is_late: true,
            delivery: by(&[ChannelKind::Push]),
            walk: walk(),
            bound: UserNo(5_000),
        })),
        ShardRecord::Walk(WalkRecord::Passed(Passed {
            tenant,
            arrival: Arrival(70_000),
            next: UserNo(5_000),
            looked_at: 1_000,
            members: vec![UserNo(4_000), UserNo(4_999)],
            unshown: vec![UserNo(4_999)],
            skipped: vec![("no_consent".into(), 300)],
            paced_until: Millis(1_750_000_000_000),
            is_end: true,
        })),
        ShardRecord::Walk(WalkRecord::Enlisted(Enlisted {
            tenant,
            list: UploadId([0x33; 16]),
            users: vec![UserNo(7), UserNo(1_000)],
        })),
        ShardRecord::Walk(WalkRecord::Delisted(Delisted {
            tenant,
            list: UploadId([0x33; 16]),
            pages: vec![0, 300],
            is_last: true,
        })),
    ]
}

/// A walk as fast as can be over everybody.
pub fn plain() -> Walk {
    Walk { list: None, ignores_quiet_hours: false, pace: Pace::Free, window: None, ..walk() }
}

pub fn begin(node: &mut Node, walk: Walk) -> (Ulid, WorkId) {
    node.delivery = Some(by(&[PUSH]));
    let audience = AskAudience::Walk(Box::new(walk));
    let key = node.records() as u64 + 1_000;
    let event = admitted(node.admit(Post { key, audience, tier_up: u32::MAX }));
    node.take_all();
    (event, deliveries::work(node))
}

pub fn row(node: &Node, work: WorkId) -> WalkRow {
    node.read_shard(|state| tables::find(state.tables(), work.tenant, work.arrival)).unwrap().expect("a walk")
}

/// Chooses everybody from where the walk is, at most so many.
pub fn pass(node: &mut Node, work: WorkId, at_most: u64) -> Answer {
    let WalkRow { next: from, bound, .. } = row(node, work);
    let next = UserNo(bound.0.min(from.0 + at_most));
    pass_to(node, work, from, next)
}

fn pass_to(node: &mut Node, work: WorkId, from: UserNo, next: UserNo) -> Answer {
    let WorkId { tenant, arrival, .. } = work;
    let members = (from.0..next.0).map(UserNo).collect();
    let ask = Ask::Pass(Pass { tenant, arrival, from, next, members, shards: 1 });
    match node.shard(ShardAsk::Walk(ask)) {
        ShardAnswer::Walk(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// Whether it was the last step; `None` if it was none.
pub fn passed(answer: &Answer) -> Option<bool> {
    match answer {
        Answer::Passed { is_end, .. } => Some(*is_end),
        Answer::Held(_) | Answer::Enlisted { .. } | Answer::Delisted { .. } => None,
    }
}

/// Everybody whom the work may send to now.
fn sent(node: &mut Node, work: WorkId, deliveries_max: u32) -> Vec<UserNo> {
    let mut users = Vec::new();
    loop {
        let (allowed, more) = intend(node, work, deliveries_max);
        users.extend(allowed.iter().flat_map(|allowed| &allowed.sends).map(|send| send.member.user));
        if !more {
            return users;
        }
    }
}

pub fn history(node: &mut Node) {
    let put = SegmentPut { tenant: TENANT, name: "vips".into(), filter: None, note: String::new() };
    node.root(RootAsk::Segment(segment::Ask::Put(put)));
    let (list, users) = (UploadId([9; 16]), vec![lookup(0), lookup(3), lookup(99)]);
    let known = node.shard(ShardAsk::Walk(Ask::Enlist { tenant: TENANT, list, users }));
    assert_eq!(known, ShardAnswer::Walk(Answer::Enlisted { known: vec![true, true, false] }));
    let (_, work) = begin(node, Walk { excludes_opted_out: false, list: Some(list), ..plain() });
    assert_eq!(passed(&pass(node, work, 3)), Some(false));
    node.delivery = Some(by(&[ChannelKind::InApp]));
    let (key, audience) = (node.records() as u64 + 1_000, AskAudience::Walk(Box::new(plain())));
    admitted(node.admit(Post { key, audience, tier_up: u32::MAX }));
    node.take_all();
    let shown = WorkId { arrival: node.progress().last, channel: ChannelKind::InApp, ..work };
    assert_eq!(passed(&pass(node, shown, 3)), Some(false));
    node.delivery = None;
}

// proves: BLK-02, BLK-05, BLK-06
#[test]
fn everybody_is_passed_once_whatever_is_asked_twice() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..40).map(|name| user_with(&mut node, name, 1)).collect();
    let (_, work) = begin(&mut node, plain());
    user_with(&mut node, 40, 1);
    let mut told = Vec::new();
    assert_eq!(sent(&mut node, work, 7), [], "nobody was found yet");
    for step in 0.. {
        let before = row(&node, work).next;
        match pass(&mut node, work, 3) {
            Answer::Passed { is_end, .. } => {
                let again = pass_to(&mut node, work, before, UserNo(before.0 + 3));
                assert!(matches!(again, Answer::Held(_)), "{again:?}");
                if is_end {
                    break;
                }
            }
            Answer::Held(held) => {
                assert_eq!(held, Held::Ahead);
                told.extend(sent(&mut node, work, 4));
            }
            other => panic!("{other:?}"),
        }
        assert!(row(&node, work).ahead <= WALK_PARTS_AHEAD_MAX && step < 100);
    }
    told.extend(sent(&mut node, work, 4));
    assert_eq!(told, users, "no gap, no repeat, and nobody who came later");
    let row = row(&node, work);
    assert_eq!((row.state, row.members, row.looked_at, row.ahead), (WalkState::Done, 40, 40, 0));
    let open = node.read_shard(|state| work::find(state.tables(), work)).unwrap();
    assert_eq!(open, None, "its work is closed");
}

// proves: BLK-03
#[test]
fn whoever_wants_none_of_it_is_counted_by_reason() {
    let mut node = Node::new();
    for name in 0..4 {
        user_with(&mut node, name, u64::from(name != 2));
    }
    let (_, work) = begin(&mut node, plain());
    assert_eq!(passed(&pass(&mut node, work, 10)), Some(true));
    assert_eq!(row(&node, work).skipped, [("no_endpoint".to_owned(), 1)]);
    assert_eq!(sent(&mut node, work, 10), [UserNo(0), UserNo(1), UserNo(3)]);
}

// fixes: usability P4
#[test]
fn whoever_has_a_suppressed_address_is_counted_apart() {
    let mut node = Node::new();
    let users = [0, 1, 2].map(|name| user_with(&mut node, name, u64::from(name != 2)));
    hear(&mut node, users[1], 1, 1, News::Told { suppressed: true });
    let (_, work) = begin(&mut node, plain());
    assert_eq!(passed(&pass(&mut node, work, 10)), Some(true));
    let skipped = [("address_suppressed".to_owned(), 1), ("no_endpoint".to_owned(), 1)];
    assert_eq!(row(&node, work).skipped, skipped);
    assert_eq!(sent(&mut node, work, 10), [users[0]]);
}

// proves: BLK-04, BLK-08
#[test]
fn a_walk_keeps_its_pace() {
    let mut node = Node::new();
    for name in 0..20 {
        user_with(&mut node, name, 1);
    }
    let (event, work) = begin(&mut node, Walk { pace: Pace::PerSecond(5), ..plain() });
    assert_eq!(passed(&pass(&mut node, work, 5)), Some(false));
    let until = node.now.plus(1_000);
    assert_eq!(pass(&mut node, work, 5), Answer::Held(Held::Until(until)));
    node.now = until;
    assert_eq!(passed(&pass(&mut node, work, 5)), Some(false));
    // Another pace holds at once, and the rest is spread evenly.
    let steer = Steer::Pace(Pace::Over(20_000));
    assert_eq!(node.front(FrontAsk::Steer { tenant: TENANT, event, steer }), FrontAnswer::Steered);
    node.take_all();
    assert_eq!(passed(&pass(&mut node, work, 2)), Some(false));
    assert_eq!(pass(&mut node, work, 1), Answer::Held(Held::Until(node.now.plus(2_000))));
}

// proves: BLK-05
#[test]
fn what_is_called_off_or_paused_passes_nobody() {
    let mut node = Node::new();
    for name in 0..9 {
        user_with(&mut node, name, 1);
    }
    let (event, work) = begin(&mut node, plain());
    assert_eq!(passed(&pass(&mut node, work, 3)), Some(false));
    for (steer, held) in [(Steer::Pause, true), (Steer::Resume, false)] {
        node.front(FrontAsk::Steer { tenant: TENANT, event, steer });
        node.take_all();
        assert_eq!(pass(&mut node, work, 3) == Answer::Held(Held::Paused), held);
    }
    node.front(FrontAsk::Cancel { tenant: TENANT, event });
    node.take_all();
    assert_eq!(pass(&mut node, work, 3), Answer::Held(Held::Over));
    assert_eq!(sent(&mut node, work, 10), [], "cancel wins over what was found");
    let row = row(&node, work);
    assert_eq!((row.state, row.ahead), (WalkState::Stopped, 0), "nothing waits behind it");
    let late = node.front(FrontAsk::Steer { tenant: TENANT, event, steer: Steer::Resume });
    assert_eq!(late, FrontAnswer::TooLate);
}

// fixes: correctness A14
#[test]
fn a_walk_that_is_paused_ends_with_its_time_to_live() {
    let mut node = Node::new();
    for name in 0..9 {
        user_with(&mut node, name, 1);
    }
    let (event, work) = begin(&mut node, plain());
    assert_eq!(passed(&pass(&mut node, work, 3)), Some(false));
    node.front(FrontAsk::Steer { tenant: TENANT, event, steer: Steer::Pause });
    node.take_all();
    assert_eq!(pass(&mut node, work, 3), Answer::Held(Held::Paused));
    node.now = by(&[PUSH]).terms.expires_at;
    assert_eq!(passed(&pass(&mut node, work, 3)), Some(true));
    assert_eq!(sent(&mut node, work, 10), [], "nothing leaves any more");
    assert_eq!(row(&node, work).state, WalkState::Stopped);
    let (open, is_listed) = node.read_shard(|state| {
        (work::find(state.tables(), work).unwrap(), !tables::open(state.tables()).unwrap().is_empty())
    });
    assert_eq!((open, is_listed), (None, false), "its work is closed, and nothing looks at it again");
    let late = node.front(FrontAsk::Steer { tenant: TENANT, event, steer: Steer::Resume });
    assert_eq!(late, FrontAnswer::Steered);
    node.take_all();
    assert_eq!(pass(&mut node, work, 3), Answer::Held(Held::Over), "too late");
}

// proves: BLK-07
#[test]
fn a_front_knows_whose_walk_goes_by_a_list_until_it_forgets_it() {
    let mut node = Node::new();
    user_with(&mut node, 0, 1);
    let list = UploadId([9; 16]);
    let (first, _) = begin(&mut node, Walk { list: Some(list), ..plain() });
    let (second, _) = begin(&mut node, plain());
    let listed = |node: &Node| {
        node.read(PartitionId::Front(FRONT), |state| tables::by_list(state.tables(), TENANT, list)).unwrap()
    };
    let newest = |node: &Node, before: Option<Ulid>, limit: usize| {
        node.read(PartitionId::Front(FRONT), |state| tables::bulks(state.tables(), TENANT, before, limit))
            .unwrap()
    };
    assert_eq!(listed(&node), [first]);
    assert_eq!(newest(&node, None, 9), [second, first]);
    assert_eq!((newest(&node, None, 1), newest(&node, Some(second), 9)), (vec![second], vec![first]));
    node.now = node.now.plus(10 * DAY_MS);
    while node.front(FrontAsk::Forget { tenant: TENANT, retention_days: 1 })
        == (FrontAnswer::Forgot { more: true })
    {}
    assert_eq!((listed(&node), newest(&node, None, 9)), (vec![], vec![]));
}

// proves: BLK-05, SCH-02
#[test]
fn what_is_said_about_a_scheduled_walk_holds_when_it_begins() {
    let mut node = Node::new();
    for name in 0..9 {
        user_with(&mut node, name, 1);
    }
    let due = node.now.plus(DAY_MS / 2);
    node.options = Options { due: Some(due), ..Options::default() };
    let (event, _) = begin(&mut node, plain());
    for steer in [Steer::Pause, Steer::Pace(Pace::PerSecond(3))] {
        assert_eq!(node.front(FrontAsk::Steer { tenant: TENANT, event, steer }), FrontAnswer::Steered);
    }
    node.now = due;
    assert_eq!(node.release(), 1);
    node.take_all();
    let work = deliveries::work(&node);
    assert_eq!(pass(&mut node, work, 3), Answer::Held(Held::Paused), "it was paused before it began");
    node.front(FrontAsk::Steer { tenant: TENANT, event, steer: Steer::Resume });
    node.take_all();
    assert_eq!(passed(&pass(&mut node, work, 3)), Some(false));
    assert_eq!(pass(&mut node, work, 3), Answer::Held(Held::Until(due.plus(1_000))), "and has its pace");
}

fn admit_walk(node: &mut Node, due: Millis, key: u64) -> FrontAnswer {
    node.options = Options { due: Some(due), ..Options::default() };
    let audience = AskAudience::Walk(Box::new(plain()));
    node.admit(Post { key: 10_000 + key, audience, tier_up: u32::MAX })
}

/// They would all begin at once.
#[test]
fn only_so_many_walks_of_a_tenant_wait_for_their_time() {
    let mut node = Node::new();
    user_with(&mut node, 0, 1);
    node.delivery = Some(by(&[PUSH]));
    let due = node.now.plus(DAY_MS / 2);
    let limit = WALKS_PER_TENANT_MAX as u64;
    let events: Vec<Ulid> = (0..limit).map(|key| admitted(admit_walk(&mut node, due, key))).collect();
    let refused = FrontAnswer::TooManyScheduled { limit };
    assert_eq!(admit_walk(&mut node, due, limit), refused);
    assert_eq!(admit_walk(&mut node, due, 0), FrontAnswer::Repeat(events[0]), "a repeat is no other walk");
    node.options = Options { due: Some(due), ..Options::default() };
    let send = node.send(&[UserNo(0)]);
    for event in [events[0], send] {
        node.front(FrontAsk::Cancel { tenant: TENANT, event });
    }
    admitted(admit_walk(&mut node, due, limit + 1));
    assert_eq!(admit_walk(&mut node, due, limit + 2), refused, "one place was free");
    node.now = due;
    while node.release() > 0 {}
    node.take_all();
    admitted(admit_walk(&mut node, due.plus(1), limit + 3));
    let open = node.read_shard(|state| tables::open(state.tables())).unwrap();
    assert_eq!(open.len() as u64, limit, "what was called off does not begin");
}
