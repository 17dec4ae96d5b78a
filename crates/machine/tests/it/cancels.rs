//! What is called off ends at once: what waits, what was not planned, and what was not due.

use crate::deliveries::{PUSH, audit, by, intend, settle, states, timers, told, user_with, words, work};
use crate::digests::of_category;
use crate::endpoints::{hear, register, registration};
use crate::fallbacks::{SILENT, chained};
use crate::harness::{DAY_MS, Node, START, TENANT, list};
use crate::strategies::{arrival, delivery, tenant, ulid, user};
use fantail_machine::front::FrontAsk;
use fantail_machine::records::front::{FrontRecord, Options};
use fantail_machine::records::halt::{CalledOff, CalledOffSchedule, HaltRecord};
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::shard::outcome::Said;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::ledger::{self, ParcelId};
use fantail_machine::tables::todo::Todo;
use fantail_machine::tables::work::Halt;
use fantail_machine::tables::{taken, work as works};
use fantail_ports::inbox::ArrivalRange;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::News;
use fantail_rules::ids::{Arrival, FrontNo, Millis, Position, ShardNo, TenantId, UserNo};
use fantail_rules::limits::PARCEL_MEMBERS_MAX;
use fantail_rules::preference::{Preferences, Quiet};
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::retry::Cause;
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn halt() -> impl Strategy<Value = Halt> {
    prop_oneof![Just(Halt::Cancelled), Just(Halt::Retracted)]
}

pub fn shard_record() -> impl Strategy<Value = ShardRecord> {
    let called =
        (any::<u16>(), any::<u64>(), tenant(), ulid(), option::of(delivery()), vec(user(), 0..9), halt());
    let called = called.prop_map(|(front, position, tenant, event, delivery, mut members, why)| {
        members.sort_unstable();
        members.dedup();
        let (front, position) = (FrontNo(front), Position(position));
        HaltRecord::CalledOff(CalledOff { front, position, tenant, event, delivery, members, why })
    });
    let ended = (tenant(), arrival()).prop_map(|(tenant, arrival)| HaltRecord::Ended { tenant, arrival });
    prop_oneof![called, ended].prop_map(ShardRecord::Halt)
}

pub fn front_record() -> impl Strategy<Value = FrontRecord> {
    let members = proptest::collection::btree_map(
        any::<u16>(),
        proptest::collection::btree_set(any::<u64>(), 0..5),
        0..3,
    );
    (tenant(), ulid(), option::of(delivery()), members, halt()).prop_map(
        |(tenant, event, delivery, members, why)| {
            let users = |users: std::collections::BTreeSet<u64>| users.into_iter().map(UserNo).collect();
            let members = members.into_iter().map(|(shard, of)| (ShardNo(shard), users(of))).collect();
            FrontRecord::CalledOff(CalledOffSchedule { tenant, event, delivery, members, why })
        },
    )
}

/// One of each, as they are stored for good.
pub fn shard_examples(tenant: TenantId) -> Vec<ShardRecord> {
    let called = |delivery, why| CalledOff {
        front: FrontNo(5),
        position: Position(70_000),
        tenant,
        event: Ulid(0x0102_0304),
        delivery,
        members: vec![UserNo(0), UserNo(128)],
        why,
    };
    [
        HaltRecord::Ended { tenant, arrival: Arrival(300) },
        HaltRecord::CalledOff(called(Some(by(&[PUSH])), Halt::Cancelled)),
        HaltRecord::CalledOff(called(None, Halt::Retracted)),
    ]
    .into_iter()
    .map(ShardRecord::Halt)
    .collect()
}

pub fn front_example(tenant: TenantId) -> FrontRecord {
    let members = vec![(ShardNo(1), vec![UserNo(0), UserNo(500)]), (ShardNo(3), vec![UserNo(9)])];
    let (event, delivery, why) = (Ulid(0x0102_0304), Some(by(&[PUSH])), Halt::Cancelled);
    FrontRecord::CalledOff(CalledOffSchedule { tenant, event, delivery, members, why })
}

fn quiet() -> Preferences {
    let window = Window::new(Times { start_minute: 0, end_minute: 1_439 }, Days::ALL).unwrap();
    let quiet = Some(Quiet { is_enabled: true, window, zone: ZoneNo::find("UTC").unwrap() });
    Preferences { quiet, ..Preferences::default() }
}

fn cancel(node: &mut Node, event: Ulid) {
    node.front(FrontAsk::Cancel { tenant: TENANT, event });
    node.take_all();
}

/// What the effect loop does; gives how often it asked.
fn end_halted(node: &mut Node) -> usize {
    let halts = node.todos().into_iter().filter_map(|todo| match todo {
        Todo::Halt { tenant, arrival } => Some((tenant, arrival)),
        _ => None,
    });
    let mut asked = 0;
    for (tenant, arrival) in halts.collect::<Vec<_>>() {
        let mut behind = None;
        loop {
            asked += 1;
            assert!(asked < 1_000, "it ends");
            let answer = node.shard(ShardAsk::EndHalted { tenant, arrival, behind });
            audit(node);
            match answer {
                ShardAnswer::HaltGoesOn { behind: next } => behind = next,
                ShardAnswer::HaltEnded => break,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(!node.todos().iter().any(|todo| matches!(todo, Todo::Halt { .. })));
    asked
}

fn cancelled(why: &str) -> (State, String) {
    (State::Cancelled, why.to_owned())
}

// fixes: usability B5
#[test]
fn what_waits_for_quiet_hours_is_cancelled_at_once() {
    for is_retracted in [false, true] {
        let mut node = Node::new();
        let users = [user_with(&mut node, 0, 1), user_with(&mut node, 1, 1), user_with(&mut node, 2, 1)];
        crate::respect::want(&mut node, 0, quiet());
        node.delivery = Some(by(&[PUSH]));
        let event = node.send(&users);
        node.take_all();
        let work = work(&node);
        let parcel = intend(&mut node, work, 10).0.unwrap().parcel;
        let retry = Said::NotTaken { cause: Cause::Message, retry_after_ms: None };
        settle(&mut node, parcel, vec![told(1, retry, "busy")]);
        assert_eq!(states(&node, parcel), [State::Deferred, State::Deferred, State::Intent]);
        let why = if is_retracted {
            node.retract(event);
            node.take_all();
            "retracted"
        } else {
            cancel(&mut node, event);
            "cancelled"
        };
        assert_eq!(end_halted(&mut node), 1);
        let found = words(&node, parcel);
        assert_eq!(found, [cancelled(why), cancelled(why), (State::Intent, String::new())]);
        assert_eq!(timers(&node), [], "nothing is waited for");
        settle(&mut node, parcel, vec![told(2, Said::Accepted, "")]);
        assert_eq!(states(&node, parcel)[2], State::Accepted, "what was under way keeps its answer");
    }
}

// fixes: usability B5
#[test]
fn what_was_not_planned_yet_is_cancelled_with_its_fallback_steps() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..3).map(|name| user_with(&mut node, name, 1)).collect();
    node.delivery = Some(chained(&[PUSH, ChannelKind::Sms], &[SILENT]));
    let event = node.send(&users);
    node.take_all();
    cancel(&mut node, event);
    end_halted(&mut node);
    for channel in [PUSH, ChannelKind::Sms] {
        let work = works::WorkId { channel, ..work(&node) };
        assert_eq!(node.read_shard(|state| works::find(state.tables(), work).unwrap()), None);
        let found = words(&node, ParcelId::of(work, UserNo(0)));
        assert_eq!(found, vec![cancelled("cancelled"); 3], "{channel:?}");
    }
    // Nobody on a list was promised anything.
    (0..3).for_each(|name| node.join(name, list(0)));
    let event = node.post(list(0), false);
    node.take_all();
    cancel(&mut node, event);
    end_halted(&mut node);
    let work = work(&node);
    assert_eq!(node.read_shard(|state| works::find(state.tables(), work).unwrap()), None);
}

// fixes: usability B5
#[test]
fn a_step_that_waits_and_an_item_of_a_digest_are_cancelled() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    let mut number = registration(0, 2, 2);
    number.kind = ChannelKind::Sms;
    register(&mut node, 0, number);
    hear(&mut node, user, 2, 2, News::Granted { suppressed: false });
    node.delivery = Some(chained(&[PUSH, ChannelKind::Sms], &[SILENT]));
    let event = node.send(&[user]);
    node.take_all();
    let push = work(&node);
    let sms = works::WorkId { channel: ChannelKind::Sms, ..push };
    let parcel = intend(&mut node, push, 10).0.unwrap().parcel;
    settle(&mut node, parcel, vec![told(0, Said::Accepted, "")]);
    intend(&mut node, sms, 10);
    cancel(&mut node, event);
    end_halted(&mut node);
    assert_eq!(words(&node, ParcelId::of(sms, user)), [cancelled("cancelled")]);
    assert_eq!(states(&node, parcel), [State::Accepted]);

    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    node.delivery = Some(of_category("like"));
    crate::digests::comes(&mut node, user);
    let event = node.send(&[user]);
    node.take_all();
    let work = work(&node);
    intend(&mut node, work, 10);
    let parcel = ParcelId::of(work, user);
    assert_eq!(words(&node, parcel), [(State::Deferred, "digest_window".to_owned())]);
    cancel(&mut node, event);
    end_halted(&mut node);
    assert_eq!(words(&node, parcel), [cancelled("cancelled")]);
    node.now = node.now.plus(DAY_MS);
    crate::digests::close(&mut node);
    assert_eq!(words(&node, parcel), [cancelled("cancelled")], "its window ends without it");
}

// fixes: usability B5, correctness A11
/// The work of it is cut: no plan looks at more than some ledgers, however many wait.
#[test]
fn many_that_wait_end_some_ledgers_at_a_time() {
    let mut node = Node::new();
    let count = 10 * PARCEL_MEMBERS_MAX as u64 / 100;
    let users: Vec<UserNo> = (0..count).map(|name| user_with(&mut node, name, 1)).collect();
    (0..count).for_each(|name| crate::respect::want(&mut node, name, quiet()));
    node.delivery = Some(by(&[PUSH]));
    let event = node.send(&users);
    node.take_all();
    let work = work(&node);
    // Parcels of five: twenty ledgers.
    while intend(&mut node, work, 5).1 {}
    cancel(&mut node, event);
    assert_eq!(end_halted(&mut node), 3, "eight, eight and four ledgers");
    assert_eq!(timers(&node), []);
}

// fixes: usability B5
#[test]
fn what_is_called_off_before_its_time_has_cancelled_deliveries_and_no_entry() {
    for is_retracted in [false, true] {
        let mut node = Node::new();
        let users: Vec<UserNo> = (0..2).map(|name| user_with(&mut node, name, 1)).collect();
        node.delivery = Some(by(&[ChannelKind::InApp, PUSH]));
        let due = Some(Millis(START.0 + 3_600_000));
        node.options = Options { due, ..Options::default() };
        let event = node.send(&users);
        node.take_all();
        let why = if is_retracted {
            node.retract(event);
            node.take_all();
            "retracted"
        } else {
            cancel(&mut node, event);
            "cancelled"
        };
        audit(&node);
        let arrival =
            node.read_shard(|state| taken::arrival_of(state.tables(), TENANT, event).unwrap()).unwrap().0;
        for channel in [ChannelKind::InApp, PUSH] {
            let parcel = ParcelId { tenant: TENANT, arrival, channel, first: users[0] };
            assert_eq!(words(&node, parcel), vec![cancelled(why); 2], "{channel:?}");
        }
        assert_eq!(node.events(users[0]), [], "it is in no inbox");
        assert_eq!(node.counts(users[0]).unread, 0);
        end_halted(&mut node);
        node.now = Millis(START.0 + 3_600_000);
        assert_eq!(node.release(), 0);
        node.take_all();
        assert_eq!(node.events(users[0]), []);
        assert_eq!(node.offers.len(), 0, "nothing is to be sent");
    }
}

/// It is of the time at which it was due, but what is kept about it is of the time at which it was called off.
#[test]
fn a_cancelled_schedule_holds_up_no_sweep() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    node.delivery = Some(by(&[PUSH]));
    let due = Some(Millis(START.0 + 300 * DAY_MS));
    node.options = Options { due, ..Options::default() };
    let event = node.send(&[user]);
    cancel(&mut node, event);
    end_halted(&mut node);
    node.options = Options::default();
    for _ in 0..20 {
        node.send(&[user]);
        node.take_all();
        let work = work(&node);
        let parcel = intend(&mut node, work, 10).0.unwrap().parcel;
        settle(&mut node, parcel, vec![told(0, Said::Accepted, "")]);
    }
    node.now = Millis(START.0 + 29 * DAY_MS);
    node.sweep();
    assert_eq!(ledgers(&node), 21, "the guard is not over");
    node.now = Millis(START.0 + 31 * DAY_MS);
    node.sweep();
    assert_eq!(ledgers(&node), 0);
}

fn ledgers(node: &Node) -> usize {
    let all = ArrivalRange { after: Arrival::START, before: Arrival(u64::MAX) };
    node.read_shard(|state| ledger::of_events(state.tables(), TENANT, all, 1_000).unwrap().len())
}
