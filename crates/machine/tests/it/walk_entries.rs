//! Walks for inboxes: whoever is passed has the event from then on, and what was read before stays read.

use crate::deliveries::{PUSH, by, intend, user_with};
use crate::harness::{DAY_MS, Node, Post, TENANT, admitted};
use crate::respect::want;
use crate::walks::{pass, passed, plain, row};
use fantail_machine::front::FrontAsk;
use fantail_machine::front::admit::AskAudience;
use fantail_machine::records::walk::Walk;
use fantail_machine::shard::inbox::Counts;
use fantail_machine::shard::walk::{Answer, Held};
use fantail_machine::tables::walk::WalkState;
use fantail_machine::tables::work::WorkId;
use fantail_machine::tables::{retracted, shown};
use fantail_ports::inbox::ArrivalRange;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, UserNo};
use fantail_rules::marks::Mark;
use fantail_rules::preference::{Preferences, Switch, Switches};
use fantail_rules::ulid::Ulid;

fn begin(node: &mut Node, channels: &[ChannelKind], walk: Walk) -> (Ulid, WorkId) {
    node.delivery = Some(by(channels));
    let (key, audience) = (node.records() as u64 + 1_000, AskAudience::Walk(Box::new(walk)));
    let event = admitted(node.admit(Post { key, audience, tier_up: u32::MAX }));
    node.take_all();
    node.delivery = None;
    let arrival = node.progress().last;
    (event, WorkId { tenant: TENANT, arrival, channel: ChannelKind::InApp })
}

fn unread(node: &Node, user: UserNo) -> u64 {
    node.counts(user).unread
}

// proves: BLK-06, FAN-06, INB-06
#[test]
fn whoever_is_passed_has_it_from_then_on_and_unread() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..6).map(|name| node.user(name)).collect();
    let before = node.send(&[users[0], users[5]]);
    let (event, work) = begin(&mut node, &[ChannelKind::InApp], plain());
    node.user(6);
    assert_eq!(node.events(users[0]), [before], "nobody was passed yet");
    assert_eq!(passed(&pass(&mut node, work, 2)), Some(false));
    assert_eq!(row(&node, work).ahead, 0, "nothing waits for a delivery");
    // Everything there is was read, by somebody who has it and by somebody who has it not yet.
    let newest = node.progress().last.0;
    for user in [users[0], users[5]] {
        node.mark_all(user, Mark::Read, newest);
    }
    assert_eq!(passed(&pass(&mut node, work, 9)), Some(true));
    for user in &users {
        let entry = node.inbox(*user, |inbox| inbox.entry(event).unwrap()).expect("everybody has it");
        assert_eq!(entry.event, event);
        assert_eq!(entry.read, *user == users[0], "{user}");
        assert_eq!(*node.events(*user).last().unwrap(), event);
    }
    assert_eq!((unread(&node, users[0]), unread(&node, users[5]), unread(&node, users[1])), (0, 1, 1));
    assert_eq!(node.events(UserNo(6)), [], "and nobody who came later");
    let row = row(&node, work);
    assert_eq!((row.state, row.members, row.entries), (WalkState::Done, 6, 6));
}

// proves: FAN-12, INB-05, INB-06
#[test]
fn a_walk_that_is_taken_back_is_hidden_everywhere_until_it_is_gone() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..4).map(|name| node.user(name)).collect();
    let (event, work) = begin(&mut node, &[ChannelKind::InApp], plain());
    pass(&mut node, work, 1);
    // It was read there before it was taken back.
    node.mark_all(users[0], Mark::Read, node.progress().last.0);
    node.now = node.now.plus(DAY_MS / 2);
    let other = node.send(&users);
    node.take_all();
    pass(&mut node, work, 2);
    node.retract(event);
    node.take_all();
    assert_eq!(pass(&mut node, work, 9), Answer::Held(Held::Over), "nobody else is passed");
    for user in &users {
        assert_eq!(node.events(*user), [other], "{user}");
        assert_eq!(node.counts(*user), Counts { unread: 1, unseen: 1 }, "{user}");
        assert_eq!(node.inbox(*user, |inbox| inbox.entry(event).unwrap()), None);
    }
    // Its first entries are past retention, the others are not and stay hidden.
    node.now = node.now.plus(DAY_MS * 3 / 4);
    node.expire(1);
    assert_eq!((node.events(users[1]), unread(&node, users[1])), (vec![other], 1));
    assert_eq!(node.progress().retracted, 1);
    node.now = node.now.plus(9 * DAY_MS);
    node.expire(2);
    assert_eq!(node.progress().retracted, 0, "the last one takes the retraction along");
    let left = node.read_shard(|state| {
        let all = ArrivalRange { after: Arrival::START, before: Arrival(u64::MAX) };
        let shown = shown::arrival_for(state.tables(), TENANT, work.arrival, UserNo(9)).unwrap();
        (retracted::inside(state.tables(), TENANT, all).unwrap(), shown)
    });
    assert_eq!(left, (vec![], None));
}

// proves: BLK-03
#[test]
fn an_inbox_that_is_switched_off_shows_nothing_of_it() {
    for (channels, members, skipped) in [
        (vec![ChannelKind::InApp], 2, vec![("channel_off".to_owned(), 1)]),
        // Told by push, though not shown; whoever has no device is shown it.
        (vec![ChannelKind::InApp, PUSH], 3, vec![]),
    ] {
        let mut node = Node::new();
        for name in 0..3 {
            user_with(&mut node, name, u64::from(name != 2));
        }
        let channels_off = Switches::default().with(ChannelKind::InApp, Switch::Off);
        want(&mut node, 1, Preferences { channels: channels_off, ..Preferences::default() });
        let (event, work) = begin(&mut node, &channels, plain());
        assert_eq!(passed(&pass(&mut node, work, 9)), Some(true));
        let row = row(&node, work);
        assert_eq!((row.members, row.entries, row.skipped), (members, 2, skipped), "{channels:?}");
        for (user, is_shown) in [(0, true), (1, false), (2, true)] {
            assert_eq!(node.events(UserNo(user)) == [event], is_shown, "{channels:?} {user}");
        }
        if channels.contains(&PUSH) {
            let (allowed, _) = intend(&mut node, WorkId { channel: PUSH, ..work }, 9);
            let sent: Vec<u64> = allowed.unwrap().sends.iter().map(|send| send.member.user.0).collect();
            assert_eq!(sent, [0, 1]);
        }
    }
}

// proves: BLK-05
#[test]
fn a_walk_for_inboxes_alone_is_called_off() {
    let mut node = Node::new();
    let users: Vec<UserNo> = (0..3).map(|name| node.user(name)).collect();
    let (event, work) = begin(&mut node, &[ChannelKind::InApp], plain());
    pass(&mut node, work, 1);
    node.front(FrontAsk::Cancel { tenant: TENANT, event });
    node.take_all();
    assert_eq!(pass(&mut node, work, 9), Answer::Held(Held::Over));
    assert_eq!(row(&node, work).state, WalkState::Stopped);
    assert_eq!((node.events(users[0]), node.events(users[1])), (vec![event], vec![]), "what is there stays");
}
