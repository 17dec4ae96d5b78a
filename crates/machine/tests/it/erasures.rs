//! A user is erased: what is removed where, in which steps, and what is left.

use crate::deliveries::{
    by, dead_letters, intend, later, next_timer, one, one_under_way, settle, states, tally_of, timers, told,
    user_with, wake, words, work,
};
use crate::digests::{LIKES_MS, close, comes, of_category};
use crate::harness::{FRONT, Node, SHARD, START, TENANT, list, lookup, sealed};
use crate::strategies::{arrival, tenant, ulid, user};
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::records::erasure::{Attempts, Erasure, ErasurePlace, Step, Store};
use fantail_machine::records::front::Personal;
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::shard::outcome::Said;
use fantail_machine::shard::serve::Job;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::erasure::{self, ErasureRow};
use fantail_machine::tables::event::PersonalPlace;
use fantail_machine::tables::ledger::ParcelId;
use fantail_machine::tables::todo::Todo;
use fantail_machine::tables::{event, track};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind::{self, Push};
use fantail_rules::ids::{Arrival, DeviceNo, FrontNo, KeyNo, Lookup, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::marks::Mark;
use fantail_rules::retry::Cause;
use fantail_rules::ulid::Ulid;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

const ERASURE: Ulid = Ulid(77);
const ERASED: &str = "erased";

pub fn erasure_record() -> impl Strategy<Value = ShardRecord> {
    let attempts = (arrival(), 0usize..5, 0u16..8_192).prop_map(|(arrival, channel, device)| Attempts {
        arrival,
        channel: ChannelKind::ALL[channel],
        device: DeviceNo(device),
    });
    let step = prop_oneof![
        (user(), any::<u64>(), option::of(any::<[u8; 16]>())).prop_map(|(user, key, lookup)| {
            Step::Begun { user, key: KeyNo(key), lookup: lookup.map(Lookup) }
        }),
        (user(), vec(attempts, 0..4)).prop_map(|(user, attempts)| Step::Purged { user, attempts }),
        Just(Step::Done),
        place().prop_map(Step::Reached),
    ];
    (tenant(), ulid(), step, removed()).prop_map(|(tenant, erasure, step, removed)| {
        ShardRecord::Erasure(Erasure { tenant, erasure, step, removed })
    })
}

fn place() -> impl Strategy<Value = ErasurePlace> {
    let row = (ulid(), any::<u16>(), user()).prop_map(|(event, shard, user)| PersonalPlace {
        event,
        shard: ShardNo(shard),
        user,
    });
    prop_oneof![
        arrival().prop_map(ErasurePlace::Deliveries),
        (any::<u16>(), option::of(row))
            .prop_map(|(front, behind)| ErasurePlace::Content { front: FrontNo(front), behind }),
    ]
}

fn removed() -> impl Strategy<Value = Vec<(Store, u64)>> {
    vec((0usize..Store::ALL.len(), any::<u64>()), 0..4)
        .prop_map(|all| all.into_iter().map(|(store, count)| (Store::ALL[store], count)).collect())
}

pub fn erasure_row() -> impl Strategy<Value = ErasureRow> {
    (user(), any::<u64>(), any::<bool>(), removed()).prop_map(|(user, key, is_over, removed)| ErasureRow {
        user,
        key: KeyNo(key),
        begun: START,
        ended: is_over.then_some(START),
        removed,
    })
}

/// One of each, as they are stored for good.
pub fn examples(tenant: TenantId, user: UserNo) -> Vec<ShardRecord> {
    let one = Attempts { arrival: Arrival(300), channel: Push, device: DeviceNo(2) };
    let row = PersonalPlace { event: Ulid(0x0102_0304), shard: ShardNo(2), user };
    let fact = |step, removed: &[(Store, u64)]| {
        ShardRecord::Erasure(Erasure { tenant, erasure: ERASURE, step, removed: removed.to_vec() })
    };
    vec![
        fact(
            Step::Begun { user, key: KeyNo(500), lookup: None },
            &[(Store::Profile, 1), (Store::Follows, 300)],
        ),
        fact(Step::Purged { user, attempts: vec![one] }, &[(Store::Attempts, 1)]),
        fact(Step::Done, &[(Store::Key, 1)]),
        fact(Step::Reached(ErasurePlace::Deliveries(Arrival(300))), &[]),
        fact(Step::Reached(ErasurePlace::Content { front: FrontNo(3), behind: Some(row) }), &[]),
    ]
}

/// Since there is a list of erasures.
pub fn example_with_lookup(tenant: TenantId, user: UserNo) -> ShardRecord {
    let step = Step::Begun { user, key: KeyNo(500), lookup: Some(lookup(15)) };
    ShardRecord::Erasure(Erasure { tenant, erasure: ERASURE, step, removed: vec![(Store::Profile, 1)] })
}

fn erase(node: &mut Node, name: u64) -> ShardAnswer {
    node.shard(ShardAsk::Erase { tenant: TENANT, lookup: lookup(name), erasure: ERASURE, entries: 4 })
}

fn purge(node: &mut Node) {
    let mut behind = Some(Arrival::START);
    while let Some(from) = behind {
        behind = match node.shard(ShardAsk::Purge { tenant: TENANT, erasure: ERASURE, behind: from }) {
            ShardAnswer::Purged { next } => next,
            other => panic!("{other:?}"),
        };
    }
}

fn finish(node: &mut Node) {
    let removed = vec![(Store::Key, 1)];
    node.shard(ShardAsk::Removed { tenant: TENANT, erasure: ERASURE, removed, is_done: true });
}

fn receipt(node: &Node) -> ErasureRow {
    node.read_shard(|state| erasure::find(state.tables(), TENANT, ERASURE)).unwrap().expect("it was begun")
}

fn count(node: &Node, store: Store) -> u64 {
    receipt(node).removed.iter().find(|(known, _)| *known == store).map_or(0, |(_, count)| *count)
}

// proves: GDP-01
#[test]
fn what_was_to_be_sent_is_suppressed_and_what_was_told_goes() {
    let (mut node, parcel) = one_under_way(by(&[Push]));
    settle(&mut node, parcel, vec![told(0, later(Cause::Message), "busy")]);
    let tracked =
        |node: &Node| !node.read_shard(|state| track::find(state.tables(), parcel, 0)).unwrap().is_empty();
    assert!(tracked(&node) && timers(&node).len() == 1);
    assert_eq!(erase(&mut node, 0), ShardAnswer::Noted);
    assert_eq!(node.number(0), None, "gone for everybody");
    assert!(node.todos().contains(&Todo::Erase { tenant: TENANT, erasure: ERASURE }));
    purge(&mut node);
    assert_eq!(words(&node, parcel), [(State::Suppressed, ERASED.to_owned())]);
    assert!(!tracked(&node) && timers(&node).is_empty());
    assert_eq!((count(&node, Store::Deliveries), count(&node, Store::Attempts)), (1, 1));
    assert_eq!((count(&node, Store::Endpoints), count(&node, Store::Inbox)), (1, 4));
    // Again, as after a crash: nothing more is found, and nothing is counted twice.
    let before = receipt(&node);
    purge(&mut node);
    assert_eq!((receipt(&node), before.ended), (before, None));
    finish(&mut node);
    assert_eq!((receipt(&node).ended, count(&node, Store::Key)), (Some(node.now), 1));
    assert!(!node.todos().iter().any(|todo| matches!(todo, Todo::Erase { .. })));
    finish(&mut node);
    assert_eq!(count(&node, Store::Key), 1, "what is done is done");
    assert_eq!(erase(&mut node, 0), ShardAnswer::UnknownUser);
}

// proves: GDP-01, TRK-01
#[test]
fn what_was_told_about_others_of_the_same_parcel_stays() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..40).map(|name| user_with(&mut node, name, 2)).collect();
    node.delivery = Some(by(&[Push]));
    node.send(&users);
    node.take_all();
    let of_push = work(&node);
    let allowed = intend(&mut node, of_push, 1_000).0.expect("all are sent to");
    let (parcel, last) = (allowed.parcel, allowed.sends.len() as u16 - 1);
    assert_eq!(last, 79);
    // In portions that do not end where blocks end; what is said once more is added.
    for portion in [0..=10, 11..=40, 41..=last] {
        settle(&mut node, parcel, portion.map(|at| told(at, Said::Accepted, &format!("c{at}"))).collect());
    }
    let codes = |node: &Node, at: u16| -> Vec<String> {
        let found = node.read_shard(|state| track::find(state.tables(), parcel, at)).unwrap();
        found.into_iter().map(|note| note.code).collect()
    };
    for at in 0..=last {
        assert_eq!(codes(&node, at), [format!("c{at}")]);
    }
    // The last two places of the first block.
    assert_eq!(erase(&mut node, 15), ShardAnswer::Noted);
    purge(&mut node);
    assert_eq!(count(&node, Store::Attempts), 2);
    for at in 0..=last {
        let is_gone = at == 30 || at == 31;
        assert_eq!(codes(&node, at).is_empty(), is_gone, "{at}");
    }
}

// proves: GDP-01, AGG-01
#[test]
fn what_is_collected_for_a_digest_is_told_to_nobody() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    node.delivery = Some(of_category("like"));
    let parcels: Vec<ParcelId> = (0..4).map(|_| comes(&mut node, user)).collect();
    erase(&mut node, 0);
    assert_eq!(count(&node, Store::Digests), 1);
    purge(&mut node);
    for parcel in &parcels[1..] {
        assert_eq!(words(&node, *parcel), [(State::Suppressed, ERASED.to_owned())]);
    }
    node.now = node.now.plus(LIKES_MS);
    assert!(close(&mut node).is_empty());
}

// proves: GDP-01, AUD-01
#[test]
fn what_may_have_been_sent_is_not_called_suppressed() {
    let (mut node, parcel) = one_under_way(by(&[Push]));
    erase(&mut node, 0);
    purge(&mut node);
    assert_eq!(words(&node, parcel), [(State::Intent, String::new())]);
    // Its answer is heard, but nothing is kept of what the provider said.
    settle(&mut node, parcel, vec![told(0, later(Cause::Message), "busy")]);
    assert_eq!(node.read_shard(|state| track::find(state.tables(), parcel, 0)).unwrap(), []);
    let timer = next_timer(&mut node).unwrap();
    assert!(wake(&mut node, timer, 10).0.unwrap().sends.is_empty());
    assert_eq!(words(&node, parcel), [(State::Suppressed, ERASED.to_owned())]);
}

// fixes: correctness A10
#[test]
fn an_erasure_goes_on_where_its_row_says() {
    let mut node = Node::new();
    let users = [user_with(&mut node, 0, 1), user_with(&mut node, 1, 1)];
    node.delivery = Some(by(&[Push]));
    let deliver = |node: &mut Node, user| {
        node.send(&[user]);
        node.take_all();
        let work = work(node);
        node.shard(one(Job::Work(work), 10));
        ParcelId::of(work, UserNo(0))
    };
    // Something of the user among the first events, then so many of others that the row has to hear of it.
    let parcel = deliver(&mut node, users[0]);
    settle(&mut node, parcel, vec![told(0, Said::Accepted, "")]);
    for _ in 0..4_400 {
        deliver(&mut node, users[1]);
    }
    erase(&mut node, 0);
    let place =
        |node: &Node| node.read_shard(|state| erasure::place(state.tables(), TENANT, ERASURE)).unwrap();
    let (mut behind, mut records, mut places) = (Arrival::START, Vec::new(), Vec::new());
    loop {
        let ask = ShardAsk::Purge { tenant: TENANT, erasure: ERASURE, behind };
        let ShardAnswer::Purged { next } = node.shard(ask) else { panic!("it goes on") };
        records.push(node.rows_touched.len());
        places.extend(place(&node));
        match next {
            Some(next) => behind = next,
            None => break,
        }
    }
    places.dedup();
    let noted = |no| ErasurePlace::Deliveries(Arrival(no));
    assert_eq!(places, [noted(63), noted(63 + 4_158)], "once something was found, and every 4,096 events");
    assert_eq!(
        records.iter().sum::<usize>(),
        3,
        "what was removed and two places; nothing for events of others"
    );
    assert_eq!(records.len(), 70, "steps of 63 events");
    // Another leader hears of a place elsewhere.
    let front = ErasurePlace::Content { front: FRONT, behind: None };
    node.shard(ShardAsk::Reached { tenant: TENANT, erasure: ERASURE, place: front });
    assert_eq!(place(&node), Some(front));
    finish(&mut node);
    assert_eq!(place(&node), None);
}

// proves: GDP-01
#[test]
fn what_is_looked_at_later_is_suppressed_too_and_dead_letters_go() {
    let (mut node, parcel) = one_under_way(by(&[Push]));
    settle(&mut node, parcel, vec![told(0, Said::Malformed, "bad")]);
    assert_eq!(dead_letters(&node), [parcel]);
    node.send(&[UserNo(0)]);
    node.take_all();
    erase(&mut node, 0);
    purge(&mut node);
    assert_eq!((dead_letters(&node), count(&node, Store::DeadLetters)), (vec![], 1));
    let work = work(&node);
    let (allowed, _) = intend(&mut node, work, 10);
    let allowed = allowed.unwrap();
    assert!(allowed.sends.is_empty());
    assert_eq!(words(&node, allowed.parcel), [(State::Suppressed, ERASED.to_owned())]);
    assert_eq!(tally_of(&node, work).of(State::Suppressed), 1);
}

#[test]
fn others_keep_what_is_theirs() {
    let mut node = Node::new();
    let users = [user_with(&mut node, 0, 1), user_with(&mut node, 1, 1)];
    node.delivery = Some(by(&[Push]));
    let own = |user| Personal { shard: SHARD, user, content: sealed(4) };
    node.personal = vec![own(users[0])];
    let second = node.send(&users[..1]);
    node.personal = users.map(own).to_vec();
    let event = node.send(&users);
    node.take_all();
    node.join(0, list(3));
    node.mark(users[0], Mark::Read, &[1]);
    erase(&mut node, 0);
    let unsay = |node: &mut Node| {
        node.front(FrontAsk::Unsay { tenant: TENANT, shard: SHARD, user: users[0], behind: None })
    };
    assert_eq!(unsay(&mut node), FrontAnswer::Unsaid { removed: 2, next: None });
    assert_eq!(unsay(&mut node), FrontAnswer::Unsaid { removed: 0, next: None });
    let personal = |event, user| {
        let front = PartitionId::Front(FRONT);
        node.read(front, |state| event::personal(state.tables(), TENANT, event, SHARD, user)).unwrap()
    };
    assert_eq!(personal(event, users[0]).or(personal(second, users[0])), None);
    assert!(personal(event, users[1]).is_some());
    assert_eq!((count(&node, Store::Follows), count(&node, Store::Marks)), (1, 1));
    purge(&mut node);
    let works = work(&node);
    let (allowed, _) = intend(&mut node, works, 10);
    let allowed = allowed.unwrap();
    assert_eq!(states(&node, allowed.parcel), [State::Suppressed, State::Intent]);
}
