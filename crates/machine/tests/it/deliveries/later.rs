//! What is said after the attempts: operators about dead letters, providers by receipts.

use super::*;
use fantail_machine::shard::redrive::{DROPPED, Heard, REDRIVEN, Wish};
use fantail_machine::tables::track;

fn redrive(node: &mut Node, parcel: ParcelId, wish: Wish, users: Option<Vec<UserNo>>) -> ShardAnswer {
    let answer = node.shard(ShardAsk::Redrive { parcel, wish, users });
    audit(node);
    answer
}

fn receipt(node: &mut Node, parcel: ParcelId, to: Member, delivered: bool) -> ShardAnswer {
    let (code, message) = ("receipt".to_owned(), String::new());
    let heard = Heard { user: to.user, device: to.device, delivered, at: None, code, message };
    let answer = node.shard(ShardAsk::Receipt { parcel, heard });
    audit(node);
    answer
}

/// Members of one parcel in every state that answers can bring about.
fn mixed() -> (Node, ParcelId, Vec<UserNo>) {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..8).map(|name| user_with(&mut node, name, u64::from(name != 7))).collect();
    node.delivery = Some(by(&[PUSH]));
    node.send(&users);
    node.take_all();
    let work = work(&node);
    intend(&mut node, work, 100);
    let parcel = ParcelId::of(work, UserNo(0));
    let answers = vec![
        told(0, Said::Malformed, "bad"),
        told(1, Said::Malformed, "bad"),
        told(2, Said::Accepted, ""),
        told(3, Said::Rejected, "no"),
        told(4, later(Cause::Message), "busy"),
        told(5, Said::Unanswered, "timeout"),
    ];
    settle(&mut node, parcel, answers);
    use State::{Accepted, Dead, Deferred, Failed, Intent, Suppressed, Unknown};
    assert_eq!(states(&node, parcel), [Dead, Dead, Accepted, Failed, Deferred, Unknown, Intent, Suppressed]);
    (node, parcel, users)
}

// proves: DEL-07
// fixes: usability B7
#[test]
fn a_redrive_touches_dead_letters_and_nothing_else() {
    let (mut node, parcel, users) = mixed();
    let before = standings(&node, parcel);
    assert_eq!(
        redrive(&mut node, parcel, Wish::Redrive, Some(users[2..].to_vec())),
        ShardAnswer::Redriven(0)
    );
    assert_eq!(
        redrive(&mut node, parcel, Wish::Redrive, Some(vec![users[1], users[2]])),
        ShardAnswer::Redriven(1)
    );
    let after = standings(&node, parcel);
    assert_eq!(
        (after[1].state, after[1].code.as_str(), after[1].due),
        (State::Deferred, REDRIVEN, node.now.plus(1))
    );
    assert!((0..8).filter(|at| *at != 1).all(|at| before[at] == after[at]));
    let timer = next_timer(&mut node).unwrap();
    let (allowed, _) = wake(&mut node, timer, 100);
    assert_eq!(members(&allowed.unwrap().sends), [member(users[1], 1)]);
    settle(&mut node, parcel, vec![told(1, Said::Accepted, "")]);
    let notes = node.read_shard(|state| track::find(state.tables(), parcel, 1).unwrap());
    assert!(notes.iter().any(|note| note.code == REDRIVEN), "its story says that it was redriven");
    assert_eq!(redrive(&mut node, parcel, Wish::Redrive, None), ShardAnswer::Redriven(1), "the other one");
    assert_eq!(redrive(&mut node, parcel, Wish::Redrive, None), ShardAnswer::Redriven(0));
    let nowhere = ParcelId { first: UserNo(999), ..parcel };
    assert_eq!(redrive(&mut node, nowhere, Wish::Redrive, None), ShardAnswer::Redriven(0));
}

// proves: DEL-08
#[test]
fn a_dropped_letter_is_cancelled_for_good() {
    let (mut node, parcel, _) = mixed();
    assert_eq!(redrive(&mut node, parcel, Wish::Drop, None), ShardAnswer::Redriven(2));
    assert_eq!(
        words(&node, parcel)[..2],
        [(State::Cancelled, DROPPED.to_owned()), (State::Cancelled, DROPPED.to_owned())]
    );
    assert_eq!(dead_letters(&node), []);
    assert_eq!(redrive(&mut node, parcel, Wish::Redrive, None), ShardAnswer::Redriven(0));
}

#[test]
fn a_redrive_begins_its_retries_anew_but_gives_no_second_copy() {
    let (mut node, parcel) = one_under_way(push(Priority::Low, Class::Transactional));
    let again = |node: &mut Node, said: Said| {
        settle(node, parcel, vec![told(0, said, "said")]);
        next_timer(node).map(|timer| wake(node, timer, 1).0.unwrap().sends.len())
    };
    assert_eq!(again(&mut node, Said::Unanswered), Some(1));
    assert_eq!(again(&mut node, later(Cause::Message)), Some(1));
    assert_eq!(again(&mut node, later(Cause::Message)), Some(1));
    assert_eq!(again(&mut node, later(Cause::Message)), None);
    assert_eq!(states(&node, parcel), [State::Dead]);
    redrive(&mut node, parcel, Wish::Redrive, None);
    let standing = standings(&node, parcel).remove(0);
    assert_eq!((standing.retries, standing.resends), (0, 1));
    let timer = next_timer(&mut node).unwrap();
    assert_eq!(wake(&mut node, timer, 1).0.unwrap().sends.len(), 1);
    assert_eq!(again(&mut node, Said::Unanswered), Some(0));
    assert_eq!(states(&node, parcel), [State::Unconfirmed]);
}

#[test]
fn what_is_redriven_after_its_time_expires() {
    let (mut node, parcel, _) = mixed();
    node.now = START.plus(DAY_MS);
    redrive(&mut node, parcel, Wish::Redrive, None);
    while let Some(timer) = next_timer(&mut node) {
        assert_eq!(wake(&mut node, timer, 100).0.map(|allowed| allowed.sends), Some(vec![]));
    }
    assert_eq!(states(&node, parcel)[..2], [State::Expired; 2]);
}

#[test]
fn receipts_only_move_forward_and_know_their_delivery() {
    let (mut node, parcel, users) = mixed();
    // (who, bounces, then delivered, then bounces again)
    use State::{Dead, Delivered, Failed};
    for (at, bounced) in [(0, Dead), (2, Failed), (3, Failed), (4, Failed), (5, Failed), (6, Failed)] {
        let to = member(users[at], 1);
        let is_news = states(&node, parcel)[at] != bounced;
        let expected = if is_news { ShardAnswer::Noted } else { ShardAnswer::Known };
        assert_eq!(receipt(&mut node, parcel, to, false), expected);
        assert_eq!(states(&node, parcel)[at], bounced);
        for (delivered, expected) in
            [(true, ShardAnswer::Noted), (true, ShardAnswer::Known), (false, ShardAnswer::Known)]
        {
            assert_eq!(receipt(&mut node, parcel, to, delivered), expected);
            assert_eq!(states(&node, parcel)[at], Delivered);
        }
    }
    // The answer that was overtaken is old news.
    settle(&mut node, parcel, vec![told(6, Said::Unanswered, "timeout")]);
    assert_eq!(states(&node, parcel)[6], Delivered);
    for (of, to) in [
        (parcel, member(users[1], 2)),
        (parcel, member(UserNo(77), 1)),
        (ParcelId { arrival: fantail_rules::ids::Arrival(99), ..parcel }, member(users[1], 1)),
        (ParcelId { channel: ChannelKind::Sms, ..parcel }, member(users[1], 1)),
        (ParcelId { tenant: fantail_rules::ids::TenantId(2), ..parcel }, member(users[1], 1)),
    ] {
        assert_eq!(receipt(&mut node, of, to, true), ShardAnswer::UnknownDelivery);
    }
    assert_eq!(timers(&node), [], "nothing that was heard of is tried again");
}

#[test]
fn a_receipt_finds_its_member_in_whichever_parcel_it_is() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..9).map(|name| user_with(&mut node, name, 2)).collect();
    node.delivery = Some(by(&[PUSH]));
    node.send(&users);
    node.take_all();
    let work = work(&node);
    while intend(&mut node, work, 4).1 {}
    for user in &users {
        let nowhere = ParcelId::of(work, UserNo(0));
        assert_eq!(receipt(&mut node, nowhere, member(*user, 2), true), ShardAnswer::Noted);
    }
    let tally = tally_of(&node, work);
    assert_eq!((tally.of(State::Delivered), tally.of(State::Intent)), (9, 9));
}

// proves: TRK-02, TRK-03
#[test]
fn what_a_recipient_did_is_kept_as_far_as_it_went_in_any_order() {
    for order in [
        ["delivered", "opened", "clicked", "opened", "delivered"],
        ["clicked", "delivered", "opened", "clicked", "delivered"],
        ["opened", "opened", "clicked", "delivered", "clicked"],
    ] {
        let (mut node, parcel) = one_under_way(by(&[PUSH]));
        let to = row(&node, parcel).members.iter().next().expect("a member");
        let Member { user, device } = to;
        let (mut furthest, mut notes) = (None, 0);
        for said in order {
            let at = Some(START.plus(365 * DAY_MS));
            let code = if said == "delivered" { String::new() } else { said.to_owned() };
            let heard =
                Heard { user, device, delivered: true, at, code: code.clone(), message: String::new() };
            let answer = node.shard(ShardAsk::Receipt { parcel, heard });
            audit(&node);
            let rank = ["delivered", "opened", "clicked"].iter().position(|known| *known == said);
            let is_news = rank > furthest;
            assert_eq!(answer, if is_news { ShardAnswer::Noted } else { ShardAnswer::Known }, "{order:?}");
            furthest = furthest.max(rank);
            notes += usize::from(is_news);
        }
        assert_eq!(words(&node, parcel), [(State::Delivered, "clicked".to_owned())]);
        let told = node.read_shard(|state| track::find(state.tables(), parcel, 0).unwrap());
        assert_eq!(told.len(), notes);
        assert!(told.iter().all(|note| note.at == node.now), "nothing was heard ahead of time");
    }
}
