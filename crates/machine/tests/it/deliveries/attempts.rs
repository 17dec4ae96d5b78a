//! What answers lead to: retries, dead letters, copies, and endpoints that are gone.

use super::*;
use crate::harness::list;
use fantail_machine::shard::outcome::ORPHANED;
use fantail_machine::shard::wake::{RESENT, UNCONFIRMED};
use fantail_machine::tables::{endpoint, track};
use fantail_rules::endpoint::Status;
use fantail_rules::retry::retries_max;

const LANES: [Priority; 4] = [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];

/// Lets the next attempt of a parcel's only member begin.
fn again(node: &mut Node) -> Option<u8> {
    let timer = next_timer(node)?;
    let (allowed, more) = wake(node, timer, 1);
    assert!(!more);
    let sends = allowed?.sends;
    sends.first().map(|send| send.attempt)
}

// proves: DEL-05
#[test]
fn retries_climb_the_ladder_of_their_lane_and_end_as_dead_letters() {
    const LADDER_MS: [u64; 6] = [2_000, 8_000, 32_000, 128_000, 300_000, 300_000];
    for lane in LANES {
        let (mut node, parcel) = one_under_way(push(lane, Class::Transactional));
        for retry in 0..retries_max(lane) {
            let before = node.now;
            settle(&mut node, parcel, vec![told(0, later(Cause::Message), "busy")]);
            assert_eq!(words(&node, parcel), [(State::Deferred, "busy".to_owned())]);
            let waited = timers(&node)[0].due.since(before);
            let step = LADDER_MS[usize::from(retry)];
            // Times are kept by the second, or by ten if they are far off.
            assert!(
                waited >= step / 2 && waited <= step + 10_000,
                "{lane:?} retry {retry} after {waited} ms"
            );
            assert_eq!(again(&mut node), Some(retry + 2));
        }
        assert_eq!(dead_letters(&node), []);
        settle(&mut node, parcel, vec![told(0, later(Cause::Message), "busy")]);
        assert_eq!(words(&node, parcel), [(State::Dead, "busy".to_owned())]);
        assert_eq!((dead_letters(&node), timers(&node)), (vec![parcel], vec![]));
        let notes = node.read_shard(|state| track::find(state.tables(), parcel, 0).unwrap());
        assert_eq!(notes.len(), usize::from(retries_max(lane)) + 1, "every attempt is told about");
    }
}

#[test]
fn what_is_not_the_messages_fault_burns_no_retry() {
    let (mut node, parcel) = one_under_way(push(Priority::Low, Class::Bulk));
    for cause in [Cause::Scope, Cause::Ours].into_iter().cycle().take(20) {
        settle(&mut node, parcel, vec![told(0, later(cause), "rest")]);
        assert_eq!(states(&node, parcel), [State::Deferred]);
        assert_eq!(again(&mut node), Some(1));
    }
    let said = Said::NotTaken { cause: Cause::Scope, retry_after_ms: Some(90_000) };
    let before = node.now;
    settle(&mut node, parcel, vec![told(0, said, "rest")]);
    assert!(timers(&node)[0].due.since(before) >= 90_000, "the provider's word counts");
}

// proves: DEL-06
#[test]
fn a_malformed_payload_is_dead_at_once() {
    let (mut node, parcel) = one_under_way(push(Priority::Critical, Class::Critical));
    settle(&mut node, parcel, vec![told(0, Said::Malformed, "bad_payload")]);
    assert_eq!(words(&node, parcel), [(State::Dead, "bad_payload".to_owned())]);
    assert_eq!((dead_letters(&node), timers(&node)), (vec![parcel], vec![]));
}

// proves: DED-01, DED-04
#[test]
fn what_is_not_known_is_sent_once_more_or_left_alone_by_its_class() {
    for said in [Said::Unanswered, Said::Orphaned] {
        for (class, resends) in [(Class::Critical, 1), (Class::Transactional, 1), (Class::Bulk, 0)] {
            let (mut node, parcel) = one_under_way(push(Priority::Normal, class));
            for resend in 0..resends {
                let before = node.now;
                settle(&mut node, parcel, vec![told(0, said, "timeout")]);
                assert_eq!(states(&node, parcel), [State::Unknown]);
                assert!(timers(&node)[0].due.since(before) >= 5_000, "evidence has its time");
                assert_eq!(again(&mut node), Some(resend + 2));
                assert_eq!(words(&node, parcel), [(State::Intent, RESENT.to_owned())]);
            }
            settle(&mut node, parcel, vec![told(0, said, "timeout")]);
            assert_eq!(again(&mut node), None);
            assert_eq!(words(&node, parcel), [(State::Unconfirmed, UNCONFIRMED.to_owned())], "{class:?}");
            assert_eq!((timers(&node), dead_letters(&node)), (vec![], vec![]));
        }
    }
}

#[test]
fn a_resend_that_is_not_taken_is_retried_but_never_resent() {
    let (mut node, parcel) = one_under_way(push(Priority::Normal, Class::Transactional));
    settle(&mut node, parcel, vec![told(0, Said::Unanswered, "timeout")]);
    assert_eq!(again(&mut node), Some(2));
    settle(&mut node, parcel, vec![told(0, later(Cause::Message), "busy")]);
    assert_eq!(again(&mut node), Some(3));
    settle(&mut node, parcel, vec![told(0, Said::Unanswered, "timeout")]);
    assert_eq!(again(&mut node), None);
    assert_eq!(states(&node, parcel), [State::Unconfirmed]);
}

// proves: DED-04
#[test]
fn a_new_leader_finds_everything_that_may_be_under_way() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..5).map(|name| user_with(&mut node, name, 1)).collect();
    node.delivery = Some(by(&[PUSH]));
    node.send(&users);
    node.take_all();
    let work = work(&node);
    for _ in 0..2 {
        intend(&mut node, work, 2);
    }
    let first = ParcelId::of(work, UserNo(0));
    settle(&mut node, first, vec![told(1, Said::Accepted, "")]);
    let found = node.read_shard(|state| ledger::under_way(state.tables(), None, 9).unwrap());
    assert_eq!(found.len(), 2);
    let after = node.read_shard(|state| ledger::under_way(state.tables(), Some(found[0].0), 9).unwrap());
    assert_eq!(after, found[1..]);
    for (parcel, lane) in found {
        assert_eq!(lane, Priority::Normal);
        assert_eq!(node.shard(ShardAsk::Orphans { parcel }), ShardAnswer::Noted);
        audit(&node);
    }
    let orphan = (State::Unknown, ORPHANED.to_owned());
    assert_eq!(words(&node, first), [orphan, (State::Accepted, String::new())]);
    assert_eq!(node.read_shard(|state| ledger::under_way(state.tables(), None, 9).unwrap()), []);
    // Late answers of the leader before find nobody under way.
    settle(&mut node, first, vec![told(0, Said::Accepted, "")]);
    assert_eq!(states(&node, first)[0], State::Unknown);
    // Whoever was not looked at goes on.
    let (allowed, more) = intend(&mut node, work, 9);
    assert_eq!((members(&allowed.unwrap().sends), more), (vec![member(users[4], 1)], false));
}

fn status(node: &Node, user: UserNo) -> (u32, Status) {
    let found = node.read_shard(|state| endpoint::of_user(state.tables(), TENANT, user).unwrap());
    (found[0].claim.0, found[0].status)
}

// proves: DEV-02
#[test]
fn a_dead_endpoint_is_retired_and_not_used_by_what_waits() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    node.join(0, list(2));
    node.delivery = Some(by(&[PUSH]));
    node.post(list(2), false);
    node.post(list(2), false);
    node.take_all();
    let second = work(&node);
    let first = WorkId { arrival: fantail_rules::ids::Arrival(1), ..second };
    intend(&mut node, first, 10);
    intend(&mut node, second, 10);
    let (first, second) = (ParcelId::of(first, UserNo(0)), ParcelId::of(second, UserNo(0)));
    settle(&mut node, first, vec![told(0, later(Cause::Message), "busy")]);
    settle(&mut node, second, vec![told(0, Said::Dead, "unregistered")]);
    assert_eq!(words(&node, second), [(State::Failed, "unregistered".to_owned())]);
    assert_eq!(status(&node, user), (1, Status::Dead));
    assert_eq!(again(&mut node), None);
    assert_eq!(states(&node, first), [State::Suppressed]);
    node.post(list(2), false);
    node.take_all();
    let third = work(&node);
    assert_eq!(intend(&mut node, third, 10).0.map(|allowed| allowed.sends), Some(vec![]));
    assert_eq!(tally_of(&node, third).unreached, 1);
}

/// The provider speaks of the token that it was given, not of the one that came since.
#[test]
fn a_dead_answer_about_an_old_token_leaves_the_new_one_alone() {
    let (mut node, parcel) = one_under_way(by(&[PUSH]));
    let user = UserNo(0);
    register(&mut node, 0, registration(0, 1, 9));
    hear(&mut node, user, 1, 2, News::Granted { suppressed: false });
    assert_eq!(status(&node, user), (2, Status::Active));
    let old = told(0, Said::Dead, "unregistered").about(fantail_rules::ids::ClaimNo(1));
    settle(&mut node, parcel, vec![old]);
    assert_eq!((states(&node, parcel), status(&node, user)), (vec![State::Failed], (2, Status::Active)));
}

/// However many things a provider says about one parcel, each member keeps its own state.
#[test]
fn more_words_than_a_byte_can_name_change_nobodys_state() {
    const USERS: u16 = 900;
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..u64::from(USERS)).map(|name| user_with(&mut node, name, 1)).collect();
    node.delivery = Some(by(&[PUSH]));
    node.send(&users);
    node.take_all();
    let work = work(&node);
    intend(&mut node, work, 1_000);
    let parcel = ParcelId::of(work, UserNo(0));
    let answer = |at: u16| {
        let code = format!("code {at}");
        match at % 3 {
            _ if at >= 880 => told(at, Said::Accepted, &code),
            0 => told(at, Said::Rejected, &code),
            1 => told(at, Said::Unanswered, &code),
            _ => {
                let after = Some(u64::from(at) * 4_000);
                told(at, Said::NotTaken { cause: Cause::Message, retry_after_ms: after }, &code)
            }
        }
    };
    for portion in (0..USERS).collect::<Vec<_>>().chunks(300) {
        settle(&mut node, parcel, portion.iter().map(|at| answer(*at)).collect());
    }
    for (state, at) in states(&node, parcel).into_iter().zip(0u16..) {
        let expected = match at % 3 {
            _ if at >= 880 => State::Accepted,
            0 => State::Failed,
            1 => State::Unknown,
            _ => State::Deferred,
        };
        assert_eq!(state, expected, "member {at}");
    }
    let bytes = fantail_machine::tables::Row::encode(&row(&node, parcel)).len();
    assert!(bytes < 12_000, "{bytes} bytes: beyond plenty, words are left out");
}

#[test]
fn a_wake_takes_what_it_has_permits_for_and_leaves_the_rest_due() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..7).map(|name| user_with(&mut node, name, 1)).collect();
    node.delivery = Some(by(&[PUSH]));
    node.send(&users);
    node.take_all();
    let work = work(&node);
    intend(&mut node, work, 10);
    let parcel = ParcelId::of(work, UserNo(0));
    settle(&mut node, parcel, (0..7).map(|at| told(at, Said::Unanswered, "timeout")).collect());
    let timer = next_timer(&mut node).unwrap();
    let mut seen = Vec::new();
    for (most, more) in [(3, true), (3, true), (3, false)] {
        let (allowed, left) = wake(&mut node, timer, most);
        assert_eq!(left, more);
        seen.extend(members(&allowed.unwrap().sends));
    }
    assert_eq!(seen, users.iter().map(|user| member(*user, 1)).collect::<Vec<_>>());
    assert_eq!((wake(&mut node, timer, 3), timers(&node)), ((None, false), vec![]));
    assert_eq!(row(&node, parcel).round, 4);
}
