//! Admission: repeats, order and tiers, each decided once and recorded.

use crate::harness::{DAY_MS, FRONT, Node, Post, START, TENANT, admitted, list};
use fantail_machine::front::admit::AskAudience;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::records::Stamped;
use fantail_machine::records::front::{Audience, FrontRecord, Options, Size};
use fantail_machine::tables::event;
use fantail_rules::ids::{Millis, PartitionId, ShardNo, TenantId};
use fantail_rules::limits::IDEMPOTENCY_WINDOW_MS;
use fantail_rules::tier::Tier;

fn post(key: u64) -> Post {
    Post { key, audience: AskAudience::List(list(2)), tier_up: 10_000 }
}

fn ask(key: u8, body: u8) -> FrontAsk {
    FrontAsk::Admit(Box::new(fantail_machine::front::admit::Ask {
        tenant: TENANT,
        key: [key; 16],
        body: [body; 16],
        kind: "like".into(),
        category: String::new(),
        priority: 0,
        actor: None,
        content: crate::harness::sealed(0),
        delivery: None,
        personal: Vec::new(),
        options: Options::default(),
        audience: AskAudience::List(list(2)),
        tier_up: 10_000,
    }))
}

fn written(node: &Node) -> usize {
    node.journal.get(&PartitionId::Front(FRONT)).map_or(0, Vec::len)
}

// proves: DED-08
#[test]
fn the_same_request_gets_the_same_event_and_another_body_none() {
    let mut node = Node::new();
    let event = admitted(node.front(ask(1, 1)));
    assert_eq!(node.front(ask(1, 1)), FrontAnswer::Repeat(event));
    assert_eq!(node.front(ask(1, 2)), FrontAnswer::OtherBody);
    assert_eq!(written(&node), 1, "neither left a record");
    assert_ne!(admitted(node.front(ask(2, 1))), event);
    node.tenant = TenantId(2);
    assert!(admitted(node.admit(post(1))) > event, "keys of tenants do not meet");
}

#[test]
fn a_repeat_is_known_for_the_whole_window_and_forgotten_after_two() {
    for offset in [0, 1, IDEMPOTENCY_WINDOW_MS / 2, IDEMPOTENCY_WINDOW_MS - 1] {
        let mut node = Node::new();
        node.now = Millis(START.0 + offset);
        let event = admitted(node.front(ask(1, 1)));
        node.now = node.now.plus(IDEMPOTENCY_WINDOW_MS);
        node.front(FrontAsk::Forget { tenant: TENANT, retention_days: 90 });
        assert_eq!(node.front(ask(1, 1)), FrontAnswer::Repeat(event), "offset {offset}");
        node.now = node.now.plus(IDEMPOTENCY_WINDOW_MS);
        node.front(FrontAsk::Forget { tenant: TENANT, retention_days: 90 });
        assert!(admitted(node.front(ask(1, 1))) > event);
    }
}

// proves: INB-02
#[test]
fn ids_of_a_front_ascend_whatever_the_clock_does() {
    let mut node = Node::new();
    let mut last = admitted(node.admit(post(0)));
    for (key, now) in [0, 5, 5, 5, 4, 1, 6, 0].into_iter().enumerate() {
        node.now = Millis(START.0 + now);
        let event = admitted(node.admit(post(key as u64 + 1)));
        assert!(event > last, "{key}");
        assert_eq!(event.front(), FRONT);
        last = event;
    }
}

#[test]
fn forgetting_drops_old_events_and_keeps_the_others() {
    let mut node = Node::new();
    let old = node.post(list(2), false);
    node.now = node.now.plus(50 * DAY_MS);
    let young = node.post(list(2), false);
    node.now = node.now.plus(43 * DAY_MS);
    forget_all(&mut node);
    let find = |node: &Node, id| {
        node.read(PartitionId::Front(FRONT), |state| event::find(state.tables(), TENANT, id).unwrap())
    };
    assert!(find(&node, old).is_none());
    assert!(find(&node, young).is_some());
    assert_eq!(node.retract(old), FrontAnswer::UnknownEvent);
    let records = written(&node);
    forget_all(&mut node);
    assert_eq!(written(&node), records, "nothing to forget, nothing to write");
}

/// Asks until the front says that nothing is left, as the housekeeping loop does.
fn forget_all(node: &mut Node) {
    let forget = FrontAsk::Forget { tenant: TENANT, retention_days: 90 };
    while node.front(forget.clone()) == (FrontAnswer::Forgot { more: true }) {}
}

#[test]
fn forgetting_goes_in_bounded_steps() {
    let mut node = Node::new();
    for key in 0..501 {
        node.admit(post(key));
    }
    node.now = node.now.plus(200 * DAY_MS);
    let forget = FrontAsk::Forget { tenant: TENANT, retention_days: 90 };
    assert_eq!(node.front(forget.clone()), FrontAnswer::Forgot { more: true });
    // With what the tenant has.
    assert_eq!(node.rows_touched, [1_001]);
    node.front(forget.clone());
    assert_eq!(node.rows_touched, [3]);
    assert_eq!(node.front(forget), FrontAnswer::Forgot { more: false });
}

/// The tier that the last record of the front decided.
fn tier(node: &Node) -> Tier {
    let bytes = node.journal[&PartitionId::Front(FRONT)].last().unwrap();
    match Stamped::<FrontRecord>::decode(bytes).unwrap().record {
        FrontRecord::Admitted(admitted) => match admitted.audience {
            Audience::Listed { tier, .. } => tier,
            Audience::Addressed(_) | Audience::Walked(_) => panic!("not for a list"),
        },
        other => panic!("{other:?}"),
    }
}

// proves: FAN-01, FAN-02
#[test]
fn the_tier_follows_the_sum_of_the_shards_with_hysteresis() {
    let mut node = Node::new();
    let steps = [
        (0, 4_999, Tier::Written),
        (1, 5_000, Tier::Written),
        (0, 5_000, Tier::Pointer),
        (0, 3_000, Tier::Pointer),
        (1, 4_999, Tier::Written),
        (1, 6_999, Tier::Written),
        (1, 7_000, Tier::Pointer),
    ];
    for (key, (shard, members, expected)) in steps.into_iter().enumerate() {
        let sizes = vec![Size { tenant: TENANT, list: list(2), members }];
        node.front(FrontAsk::Counted { shard: ShardNo(shard), sizes });
        node.admit(post(key as u64));
        assert_eq!(tier(&node), expected, "after shard {shard} had {members}");
    }
    node.admit(Post { key: 100, audience: AskAudience::List(list(4)), tier_up: 10_000 });
    assert_eq!(tier(&node), Tier::Written, "another list has its own tier");
    node.tenant = TenantId(2);
    node.admit(post(101));
    assert_eq!(tier(&node), Tier::Written, "and another tenant its own lists");
}

#[test]
fn a_new_threshold_applies_to_the_next_event() {
    let mut node = Node::new();
    let sizes = vec![Size { tenant: TENANT, list: list(2), members: 500 }];
    node.front(FrontAsk::Counted { shard: ShardNo(0), sizes });
    for (key, (tier_up, expected)) in
        [(501, Tier::Written), (500, Tier::Pointer), (625, Tier::Pointer), (627, Tier::Written)]
            .into_iter()
            .enumerate()
    {
        node.admit(Post { key: key as u64, audience: AskAudience::List(list(2)), tier_up });
        assert_eq!(tier(&node), expected, "{tier_up}");
    }
}
