//! Many told as one: windows take what comes, and every item is in one digest, told singly, or ended by itself.

use crate::deliveries::audit::audit;
use crate::deliveries::{PUSH, by, intend, next_timer, states, timers, user_with, wake, words};
use crate::harness::{Node, START, TENANT, sealed};
use crate::policies;
use crate::respect::want;
use crate::strategies::{
    arrival, millis, parcel_id, sealed as any_sealed, standing, tenant, terms, ulid, user, work_id,
};
use fantail_machine::records::digest::{
    Collected, DigestRecord, Digested, Folded, FoldedItem, Into, Taking, WindowClosed,
};
use fantail_machine::records::front::Delivery;
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::root::template::Expect;
use fantail_machine::shard::collect::{COLLECTED, SINGLY};
use fantail_machine::shard::windows::READ;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::digest::{self, DigestRow};
use fantail_machine::tables::ledger::{ParcelId, Standing};
use fantail_machine::tables::todo::Todo;
use fantail_machine::tables::window::{self, Ending, Kind, WindowKey, WindowNo, WindowRow};
use fantail_machine::tables::work::{Terms, WorkId};
use fantail_rules::attempt::State;
use fantail_rules::caps::{Caps, Limit};
use fantail_rules::category::CategoryId;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::digest::{self as rules, Storm, Window};
use fantail_rules::gates::Frequency;
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};
use fantail_rules::marks::Mark;
use fantail_rules::policy::CategoryPolicy;
use fantail_rules::preference::{CategoryChoice, Preferences};
use fantail_rules::ulid::Ulid;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub const LIKES_MS: u64 = 300_000;

pub fn of_category(category: &str) -> Delivery {
    let delivery = by(&[PUSH]);
    let category = CategoryId::of(category);
    Delivery { terms: Terms { category, group: category.0, ..delivery.terms }, ..delivery }
}

/// Sends something to a user and plans it; gives the parcel.
pub fn comes(node: &mut Node, user: UserNo) -> ParcelId {
    node.send(&[user]);
    node.take_all();
    let work = crate::deliveries::work(node);
    intend(node, work, 1_000);
    ParcelId::of(work, UserNo(0))
}

fn standing_of(node: &Node, parcel: ParcelId) -> (State, String) {
    words(node, parcel).into_iter().next().expect("it has a member")
}

/// Closes what is over and takes what waits; gives the digests that are to be written.
pub fn close(node: &mut Node) -> Vec<WindowNo> {
    while node.close_windows() > 0 {}
    audit(node);
    let folds = |todo: &Todo| match todo {
        Todo::Fold { window, .. } => Some(*window),
        _ => None,
    };
    for window in node.todos().iter().filter_map(folds).collect::<Vec<_>>() {
        while node.shard(ShardAsk::Fold { tenant: TENANT, window }) == (ShardAnswer::Folded { more: true }) {}
        audit(node);
    }
    let digests = |todo: &Todo| match todo {
        Todo::Digest { window, .. } => Some(*window),
        _ => None,
    };
    node.todos().iter().filter_map(digests).collect()
}

/// Writes a digest and plans it.
fn tell(node: &mut Node, window: WindowNo) -> (DigestRow, ParcelId) {
    let digest = node.read_shard(|state| window::find(state.tables(), TENANT, window).unwrap().unwrap());
    let digest = digest.digest.expect("it was folded");
    let ask = ShardAsk::Digested { tenant: TENANT, window, content: Some(sealed(7)) };
    assert_eq!(node.shard(ask.clone()), ShardAnswer::Noted);
    let records = node.records();
    assert_eq!(node.shard(ask), ShardAnswer::Noted, "a second time");
    assert_eq!(node.records(), records, "changes nothing");
    let row = node.read_shard(|state| digest::find(state.tables(), TENANT, digest).unwrap().unwrap());
    let work = WorkId { tenant: TENANT, arrival: row.arrival, channel: PUSH };
    intend(node, work, 1_000);
    (row, ParcelId::of(work, UserNo(0)))
}

// proves: AGG-01, AGG-05
// fixes: usability B9
#[test]
fn the_first_goes_out_and_the_others_become_one_digest() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 2);
    node.delivery = Some(of_category("like"));
    let parcels: Vec<ParcelId> = (0..5).map(|_| comes(&mut node, user)).collect();
    assert_eq!(states(&node, parcels[0]), [State::Intent; 2], "all devices of the first");
    for parcel in &parcels[1..] {
        assert_eq!(words(&node, *parcel), vec![(State::Deferred, COLLECTED.to_owned()); 2]);
    }
    assert!(timers(&node).is_empty(), "the window's end is their time");
    let ends = |parcel: ParcelId, channel| {
        let of = (user, channel);
        let found =
            node.read_shard(|state| window::holding(state.tables(), TENANT, of, parcel.arrival).unwrap());
        found.map(|row| row.window.closes_at)
    };
    assert_eq!(ends(parcels[4], PUSH), Some(START.plus(LIKES_MS)), "it is known until when they wait");
    assert_eq!((ends(parcels[0], PUSH), ends(parcels[4], ChannelKind::Email)), (None, None));
    node.now = node.now.plus(LIKES_MS - 1);
    assert!(close(&mut node).is_empty(), "not yet");
    node.now = node.now.plus(1);
    let windows = close(&mut node);
    assert_eq!(windows, [WindowNo(1)]);
    let (digest, parcel) = tell(&mut node, windows[0]);
    assert_eq!((digest.events.len(), digest.user), (4, user));
    assert_eq!(states(&node, parcel), [State::Intent; 2], "the digest passes the gates");
    for item in &parcels[1..] {
        let (state, code) = standing_of(&node, *item);
        assert_eq!(state, State::Folded);
        let told = Ulid::parse(&code).expect("the code names the digest");
        assert!(digest::is_digest(told));
    }
    assert!(node.todos().iter().all(|todo| !matches!(todo, Todo::Fold { .. } | Todo::Digest { .. })));
    // What comes now opens the next window.
    let next = comes(&mut node, user);
    assert_eq!(states(&node, next), [State::Intent; 2]);
}

// proves: AGG-01, AGG-02
#[test]
fn too_few_are_told_singly_at_the_end() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    node.delivery = Some(of_category("like"));
    let (_, second) = (comes(&mut node, user), comes(&mut node, user));
    node.now = node.now.plus(LIKES_MS);
    assert!(close(&mut node).is_empty(), "one is no digest");
    assert_eq!(standing_of(&node, second), (State::Deferred, SINGLY.to_owned()));
    let timer = next_timer(&mut node).expect("it is due");
    wake(&mut node, timer, 10);
    assert_eq!(states(&node, second), [State::Intent], "and is not collected again");
}

// proves: AGG-01, RL-03, DEL-21
#[test]
fn what_is_told_singly_meets_the_caps() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    let one_an_hour = Limit { caps: Caps { per_hour: 1, per_day: 0 }, pace: None };
    let limits = [(PUSH, one_an_hour)].into_iter().collect();
    want(&mut node, 0, Preferences { limits, ..Preferences::default() });
    // So that the window closes within the hour.
    node.now = Millis((node.now.0 / 3_600_000 + 1) * 3_600_000);
    node.delivery = Some(of_category("like"));
    let (first, second) = (comes(&mut node, user), comes(&mut node, user));
    assert_eq!(states(&node, first), [State::Intent], "the one of this hour");
    assert_eq!(standing_of(&node, second), (State::Suppressed, "frequency_capped".to_owned()));
    want(&mut node, 0, Preferences::default());
    let third = comes(&mut node, user);
    assert_eq!(standing_of(&node, third), (State::Deferred, COLLECTED.to_owned()));
    let limits = [(PUSH, one_an_hour)].into_iter().collect();
    want(&mut node, 0, Preferences { limits, ..Preferences::default() });
    node.now = node.now.plus(LIKES_MS);
    assert!(close(&mut node).is_empty(), "one is no digest");
    let timer = next_timer(&mut node).expect("it is due");
    wake(&mut node, timer, 10);
    assert_eq!(standing_of(&node, third), (State::Suppressed, "frequency_capped".to_owned()));
}

// proves: AGG-01
#[test]
fn windows_are_of_one_user_and_one_key() {
    let mut node = Node::new();
    let (ann, bob) = (user_with(&mut node, 0, 1), user_with(&mut node, 1, 1));
    let likes = of_category("like");
    let about = |group| Some(Delivery { terms: Terms { group, ..likes.terms }, ..likes });
    for (user, group) in [(ann, 1), (bob, 1), (ann, 2)] {
        node.delivery = about(group);
        let parcel = comes(&mut node, user);
        assert_eq!(states(&node, parcel), [State::Intent], "the first of its window");
    }
    let urgent = Terms { lane: fantail_rules::priority::Priority::Critical, ..likes.terms };
    node.delivery = Some(Delivery { terms: Terms { group: 1, ..urgent }, ..likes });
    let parcel = comes(&mut node, ann);
    assert_eq!(states(&node, parcel), [State::Intent], "what is critical is not collected");
}

// proves: AGG-05, FAN-12
#[test]
fn what_was_called_off_or_read_is_not_in_the_digest() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    node.delivery = Some(of_category("like"));
    comes(&mut node, user);
    let mut items = Vec::new();
    for _ in 0..5 {
        let event = node.send(&[user]);
        node.take_all();
        let work = crate::deliveries::work(&node);
        intend(&mut node, work, 1_000);
        items.push((event, ParcelId::of(work, UserNo(0))));
    }
    node.retract(items[0].0);
    node.take_all();
    node.mark(user, Mark::Read, &[items[1].1.arrival.0]);
    node.now = node.now.plus(LIKES_MS);
    let windows = close(&mut node);
    let (digest, _) = tell(&mut node, windows[0]);
    assert_eq!(digest.events, items[2..].iter().map(|(event, _)| *event).collect::<Vec<_>>());
    assert_eq!(standing_of(&node, items[0].1), (State::Cancelled, "retracted".to_owned()));
    assert_eq!(standing_of(&node, items[1].1), (State::Suppressed, READ.to_owned()));
}

#[test]
fn a_window_whose_user_is_gone_tells_nobody() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    node.delivery = Some(of_category("like"));
    let parcels: Vec<ParcelId> = (0..4).map(|_| comes(&mut node, user)).collect();
    node.delete_user(0);
    node.now = node.now.plus(LIKES_MS);
    assert!(close(&mut node).is_empty());
    for parcel in &parcels[1..] {
        assert_eq!(standing_of(&node, *parcel), (State::Suppressed, "endpoint_gone".to_owned()));
    }
}

// proves: RL-02
#[test]
fn a_storm_is_collected_though_nobody_asked_for_it() {
    let mut node = policies::tenant_node();
    let user = user_with(&mut node, 0, 1);
    policies::put(&mut node, "mentions", Expect::Absent, CategoryPolicy::default());
    node.delivery = Some(of_category("mentions"));
    let parcels: Vec<ParcelId> = (0..60).map(|_| comes(&mut node, user)).collect();
    let sent = parcels.iter().filter(|parcel| states(&node, **parcel) == [State::Intent]).count();
    assert_eq!(sent, 20, "nineteen of good weather, and the first of the storm");
    node.now = node.now.plus(LIKES_MS);
    let windows = close(&mut node);
    let (digest, _) = tell(&mut node, windows[0]);
    assert_eq!(digest.events.len(), 40);
    let calm = comes(&mut node, user);
    assert_eq!(states(&node, calm), [State::Intent], "it is over");
}

// proves: PRF-01
#[test]
fn whoever_wants_it_once_a_day_gets_it_at_that_hour() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    let daily = CategoryChoice { frequency: Some(Frequency::Daily), ..CategoryChoice::default() };
    let categories = [("news".to_owned(), daily)].into_iter().collect();
    want(&mut node, 0, Preferences { categories, ..Preferences::default() });
    node.delivery = Some(of_category("news"));
    let first = comes(&mut node, user);
    assert_eq!(standing_of(&node, first), (State::Deferred, COLLECTED.to_owned()), "not even the first");
    let ends =
        node.read_shard(|state| window::ends(state.tables(), Millis(0), Millis(u64::MAX - 1), 9).unwrap());
    let [end] = ends[..] else { panic!("{ends:?}") };
    assert_eq!(end.closes_at.0 % 86_400_000, 8 * 3_600_000, "at eight, by UTC where no zone is known");
    node.now = end.closes_at;
    let windows = close(&mut node);
    let (digest, parcel) = tell(&mut node, windows[0]);
    assert_eq!(digest.events.len(), 1, "one is enough, and its time to live does not end it");
    assert_eq!(states(&node, parcel), [State::Intent], "the digest is not collected again");
}

#[test]
fn more_items_than_one_record_takes_are_all_in_the_digest() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    node.delivery = Some(of_category("like"));
    let parcels: Vec<ParcelId> = (0..231).map(|_| comes(&mut node, user)).collect();
    node.now = node.now.plus(LIKES_MS);
    let windows = close(&mut node);
    let (digest, _) = tell(&mut node, windows[0]);
    assert_eq!(digest.events.len(), 230);
    assert!(parcels[1..].iter().all(|parcel| states(&node, *parcel) == [State::Folded]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    // proves: AGG-01, DED-01
    /// Whatever comes when, for whom and of what: once all windows are over, every item was sent, or is in exactly one
    /// digest.
    #[test]
    fn every_item_is_told_once(comings in vec((0u64..3, 0u8..3, 0u64..90_000), 1..60)) {
        let mut node = policies::tenant_node();
        let users: Vec<UserNo> = (0..3).map(|name| user_with(&mut node, name, 1 + name % 2)).collect();
        policies::put(&mut node, "mentions", Expect::Absent, CategoryPolicy::default());
        let (mut items, mut told) = (Vec::new(), Vec::new());
        for (name, category, gap_ms) in comings {
            node.now = node.now.plus(gap_ms);
            node.delivery = Some(of_category(["like", "reply", "mentions"][usize::from(category)]));
            items.push(comes(&mut node, users[name as usize]));
            if gap_ms % 4 == 0 {
                for window in close(&mut node) {
                    told.extend(tell(&mut node, window).0.events);
                }
            }
        }
        for _ in 0..2 {
            node.now = node.now.plus(600_000);
            for window in close(&mut node) {
                told.extend(tell(&mut node, window).0.events);
            }
        }
        while let Some(timer) = timers(&node).into_iter().find(|timer| timer.due <= node.now) {
            wake(&mut node, timer, 1_000);
        }
        let mut folded = Vec::new();
        for item in &items {
            let row = crate::deliveries::row(&node, *item);
            match row.standings.of(0).expect("a member").state {
                State::Intent => {}
                State::Folded => folded.push(row.event),
                other => prop_assert!(false, "{item:?} is {other:?}"),
            }
        }
        told.sort();
        folded.sort();
        prop_assert_eq!(told, folded);
        let left = node.read_shard(|state| window::ends(state.tables(), Millis(0), Millis(u64::MAX - 1), 9).unwrap());
        prop_assert!(left.is_empty(), "no window is open");
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    proptest::sample::select(&Kind::ALL[..])
}

fn digest_terms() -> impl Strategy<Value = rules::Terms> {
    any::<(u32, u16, u16, u16)>().prop_map(|(window_seconds, min_count, max_count, leading)| rules::Terms {
        window_seconds,
        min_count,
        max_count,
        leading,
    })
}

fn window() -> impl Strategy<Value = Window> {
    (millis(), any::<(u16, u16)>()).prop_map(|(closes_at, (led, held))| Window { closes_at, led, held })
}

pub fn window_row() -> impl Strategy<Value = WindowRow> {
    let of =
        (user(), any::<u64>()).prop_map(|(user, key)| WindowKey { user, channel: ChannelKind::Email, key });
    let ending = prop_oneof![Just(Ending::Open), Just(Ending::Digest), Just(Ending::Singly)];
    (of, terms(), kind(), digest_terms(), window(), ending, option::of(ulid()), vec(ulid(), 0..4)).prop_map(
        |(of, sends, kind, terms, window, ending, digest, events)| WindowRow {
            of,
            sends,
            kind,
            terms,
            window,
            ending,
            digest,
            events,
        },
    )
}

pub fn digest_row() -> impl Strategy<Value = DigestRow> {
    (arrival(), user(), any::<u64>(), vec(ulid(), 0..4), any_sealed()).prop_map(
        |(arrival, user, collapse, events, content)| DigestRow { arrival, user, collapse, events, content },
    )
}

pub fn digest_record() -> impl Strategy<Value = ShardRecord> {
    let no = || any::<u64>().prop_map(WindowNo);
    let storm = any::<(u64, [u8; 9])>().prop_map(|(slot, counts)| Storm { slot, counts });
    let into = (no(), any::<u64>(), kind(), digest_terms(), window(), any::<bool>())
        .prop_map(|(no, key, kind, terms, window, is_held)| Into { no, key, kind, terms, window, is_held });
    let taking = (user(), option::of(storm), option::of(into)).prop_map(|(user, storm, into)| Taking {
        user,
        storm,
        into,
    });
    let item = (parcel_id(), proptest::collection::btree_set(any::<u16>(), 0..4), standing()).prop_map(
        |(parcel, positions, standing)| FoldedItem {
            arrival: parcel.arrival,
            first: parcel.first,
            positions: positions.into_iter().collect(),
            standing,
        },
    );
    prop_oneof![
        (work_id(), user(), terms(), vec(taking, 0..4)).prop_map(|(work, first, terms, takes)| {
            DigestRecord::Collected(Collected { work, first, terms, takes })
        }),
        (tenant(), no(), any::<bool>())
            .prop_map(|(tenant, no, is_singly)| DigestRecord::Closed(WindowClosed { tenant, no, is_singly })),
        (tenant(), no(), option::of(ulid()), any::<bool>(), vec(item, 0..4)).prop_map(
            |(tenant, no, digest, is_last, items)| {
                let channel = ChannelKind::Sms;
                DigestRecord::Folded(Folded { tenant, no, channel, digest, is_last, items })
            }
        ),
        (tenant(), no(), millis(), option::of(any_sealed())).prop_map(|(tenant, no, expires_at, content)| {
            DigestRecord::Digested(Digested { tenant, no, expires_at, content })
        }),
    ]
    .prop_map(ShardRecord::Digest)
}

/// One of each, as they are stored for good.
pub fn examples(tenant: TenantId, user: UserNo) -> Vec<ShardRecord> {
    let work = WorkId { tenant, arrival: Arrival(70_000), channel: PUSH };
    let terms = Terms { group: 0x1122_3344_5566_7788, ..by(&[PUSH]).terms };
    let window = Window { closes_at: START.plus(LIKES_MS), led: 1, held: 300 };
    let digest_terms = rules::Terms { leading: 3, ..rules::Terms::USUAL };
    let (no, kind, is_held) = (WindowNo(300), Kind::Storm, true);
    let into = Into { no, key: 7, kind, terms: digest_terms, window, is_held };
    let storm = Storm { slot: 70_000, counts: [1, 2, 3, 4, 5, 6, 7, 8, 9] };
    let takes = vec![
        Taking { user, storm: Some(storm), into: Some(into) },
        Taking { user: UserNo(user.0 + 1), storm: None, into: None },
    ];
    let (state, code) = (State::Folded, "01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned());
    let standing = Standing { state, retries: 0, resends: 0, due: Millis(0), code, was_authorised: false };
    let item = FoldedItem { arrival: Arrival(70_000), first: user, positions: vec![0, 1], standing };
    let (expires_at, digest) = (START.plus(LIKES_MS), Some(Ulid(1 << 100)));
    [
        DigestRecord::Collected(Collected { work, first: user, terms, takes }),
        DigestRecord::Closed(WindowClosed { tenant, no, is_singly: true }),
        DigestRecord::Folded(Folded { tenant, no, channel: PUSH, digest, is_last: true, items: vec![item] }),
        DigestRecord::Digested(Digested { tenant, no, expires_at, content: Some(sealed(8)) }),
    ]
    .map(ShardRecord::Digest)
    .to_vec()
}

/// A digest that was told, one that is to be written, a window that is to be folded and one that is open.
pub fn history(node: &mut Node, name: u64) {
    let user = user_with(node, name, 1);
    node.delivery = Some(of_category("like"));
    let over = |node: &mut Node| {
        for _ in 0..3 {
            comes(node, user);
        }
        node.now = node.now.plus(LIKES_MS);
        node.close_windows();
    };
    over(node);
    let windows = close(node);
    tell(node, windows[0]);
    over(node);
    close(node);
    over(node);
    for _ in 0..3 {
        comes(node, user);
    }
    policies::put(node, "mentions", Expect::Absent, CategoryPolicy::default());
    node.delivery = Some(of_category("mentions"));
    comes(node, user);
}
