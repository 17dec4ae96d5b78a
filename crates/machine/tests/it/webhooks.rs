//! Webhooks to the producer: since when one fails, and how far it has told.

use crate::harness::{Node, TENANT, sealed};
use fantail_machine::records::webhook::{Told, WebhookPut};
use fantail_machine::root::webhook::{Answer, Ask};
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::webhook;
use fantail_rules::ids::{Millis, PartitionId, Position};

fn ask(node: &mut Node, ask: Ask) -> Answer {
    match node.root(RootAsk::Webhook(ask)) {
        RootAnswer::Webhook(answer) => answer,
        other => panic!("{other:?}"),
    }
}

pub fn put(node: &mut Node, id: &str) {
    let put = WebhookPut { tenant: TENANT, id: id.into(), target: sealed(1), url: sealed(2), events: 7 };
    assert!(matches!(ask(node, Ask::Put(put)), Answer::Webhook(_)));
}

pub fn fail(node: &mut Node, id: &str, is_failing: bool) {
    let answer = ask(node, Ask::Fail { tenant: TENANT, id: id.into(), is_failing });
    assert!(matches!(answer, Answer::Webhook(_)));
}

pub fn switch(node: &mut Node, id: &str, off: Option<&str>) {
    let answer = ask(node, Ask::Switch { tenant: TENANT, id: id.into(), off: off.map(str::to_owned) });
    assert!(matches!(answer, Answer::Webhook(_)));
}

pub fn tell(node: &mut Node, id: &str, through: u64, from: Option<u64>) {
    let told = Told { tenant: TENANT, webhook: id.into(), through: Position(through) };
    assert_eq!(node.shard(ShardAsk::Told { told, from: from.map(Position) }), ShardAnswer::Noted);
}

fn with_webhook() -> Node {
    let mut node = Node::new();
    node.root(RootAsk::CreateTenant { slug: "default".into(), name: "Default".into() });
    put(&mut node, "wh_1");
    node
}

fn failing_since(node: &Node) -> Option<Millis> {
    node.read(PartitionId::Root, |state| webhook::failing_since(state.tables(), TENANT, "wh_1").unwrap())
}

fn told(node: &Node) -> Option<u64> {
    let found = node.read_shard(|state| webhook::told(state.tables(), TENANT, "wh_1").unwrap());
    found.map(|through| through.0)
}

// proves: WHK-01
#[test]
fn the_first_failure_says_since_when_until_something_is_taken() {
    let mut node = with_webhook();
    assert_eq!(failing_since(&node), None);
    fail(&mut node, "wh_1", true);
    let first = node.now;
    node.now = node.now.plus(5_000);
    let records = node.records();
    fail(&mut node, "wh_1", true);
    assert_eq!((failing_since(&node), node.records()), (Some(first), records), "the first one stands");
    fail(&mut node, "wh_1", false);
    assert_eq!(failing_since(&node), None);
}

#[test]
fn whoever_is_switched_or_deleted_is_not_failing() {
    for off in [Some("410"), None] {
        let mut node = with_webhook();
        switch(&mut node, "wh_1", Some("500"));
        if off.is_some() {
            switch(&mut node, "wh_1", None);
        }
        fail(&mut node, "wh_1", true);
        switch(&mut node, "wh_1", off);
        assert_eq!(failing_since(&node), None, "{off:?}");
    }
    let mut node = with_webhook();
    fail(&mut node, "wh_1", true);
    assert_eq!(ask(&mut node, Ask::Delete { tenant: TENANT, id: "wh_1".into() }), Answer::Gone);
    assert_eq!(failing_since(&node), None);
    let late = Ask::Fail { tenant: TENANT, id: "wh_1".into(), is_failing: true };
    assert_eq!((ask(&mut node, late), failing_since(&node)), (Answer::Unknown, None));
}

// proves: API-06
#[test]
fn a_place_is_moved_by_who_knows_it_and_goes_with_its_webhook() {
    let mut node = Node::new();
    tell(&mut node, "wh_1", 5, None);
    tell(&mut node, "wh_1", 9, Some(5));
    tell(&mut node, "wh_1", 7, Some(6));
    assert_eq!(told(&node), Some(9), "a replay went elsewhere meanwhile");
    let all = node.read_shard(|state| webhook::all_told(state.tables()).unwrap());
    assert_eq!(all, [(TENANT, "wh_1".to_owned())]);
    let untell = ShardAsk::Untell { tenant: TENANT, webhook: "wh_1".into() };
    assert_eq!(node.shard(untell.clone()), ShardAnswer::Noted);
    tell(&mut node, "wh_1", 12, Some(9));
    assert_eq!(told(&node), None, "its task ends a little later");
    let records = node.records();
    node.shard(untell);
    assert_eq!(node.records(), records, "there is nothing to forget twice");
}

// fixes: usability B2
#[test]
fn of_two_who_replace_a_target_at_once_the_second_is_told() {
    let mut node = with_webhook();
    let retarget =
        |from, to| Ask::Retarget { tenant: TENANT, id: "wh_1".into(), from: sealed(from), to: sealed(to) };
    match ask(&mut node, retarget(1, 3)) {
        Answer::Webhook(row) => assert_eq!((row.put.target, row.put.url), (sealed(3), sealed(2))),
        other => panic!("{other:?}"),
    }
    let records = node.records();
    assert_eq!(ask(&mut node, retarget(1, 4)), Answer::Changed);
    assert_eq!(node.records(), records, "nothing is overwritten");
    assert_eq!(ask(&mut node, Ask::Delete { tenant: TENANT, id: "wh_1".into() }), Answer::Gone);
    assert_eq!(ask(&mut node, retarget(3, 4)), Answer::Unknown, "one that is deleted stays deleted");
}

/// Replacing a secret changes nothing else, and needs no room for another webhook.
// proves: WHK-01
#[test]
fn a_webhook_that_is_put_again_stays_what_it_was() {
    let mut node = with_webhook();
    for no in 2..=fantail_rules::limits::WEBHOOKS_PER_TENANT_MAX {
        put(&mut node, &format!("wh_{no}"));
    }
    switch(&mut node, "wh_1", Some("410"));
    let created = |node: &mut Node| {
        let put =
            WebhookPut { tenant: TENANT, id: "wh_1".into(), target: sealed(3), url: sealed(2), events: 7 };
        match ask(node, Ask::Put(put)) {
            Answer::Webhook(row) => (row.created, row.off.is_some()),
            other => panic!("{other:?}"),
        }
    };
    let first = created(&mut node);
    node.now = node.now.plus(5_000);
    assert_eq!(created(&mut node), first);
    assert!(first.1, "it is off as before");
}
