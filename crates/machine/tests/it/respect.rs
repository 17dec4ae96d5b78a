//! What users want: told to the shard, kept with its history, and obeyed by whatever is authorised after it.

use crate::deliveries::{
    PUSH, by, intend, next_timer, push, settle, states, timers, told, user_with, wake, words, work,
};
use crate::harness::{DAY_MS, Node, START, TENANT, lookup};
use crate::strategies::{millis, tenant, user};
use fantail_machine::columns::{self, Respect};
use fantail_machine::records::respect::{Consent, Consented, Preferred};
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::shard::outcome::Said;
use fantail_machine::shard::respect::Prefer;
use fantail_machine::shard::{ReplanPlace, ShardAnswer, ShardAsk};
use fantail_machine::tables::ledger::{self, ParcelId, Standing};
use fantail_machine::tables::respect::{self, Changed, Consenting, RespectRow, What};
use fantail_machine::tables::todo::Todo;
use fantail_machine::tables::track;
use fantail_machine::tables::user as users;
use fantail_machine::tables::waiting;
use fantail_machine::tables::work::Terms;
use fantail_ports::store::{Commit, Store};
use fantail_ports::tables::Changes;
use fantail_rules::attempt::{Class, State};
use fantail_rules::caps::{Caps, Limit, Pace};
use fantail_rules::category::CategoryId;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::gates::{Frequency, Reason};
use fantail_rules::ids::{PartitionId, Position, TenantId, UserNo};
use fantail_rules::limits::RESPECT_HISTORY_MAX;
use fantail_rules::preference::{CategoryChoice, ChangeKind, Preferences, Quiet, Switch, Switches};
use fantail_rules::priority::Priority;
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::zone::ZoneNo;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn switch() -> impl Strategy<Value = Switch> {
    prop_oneof![Just(Switch::NotSaid), Just(Switch::On), Just(Switch::Off)]
}

fn channel() -> impl Strategy<Value = ChannelKind> {
    proptest::sample::select(&ChannelKind::ALL[..])
}

pub fn zone() -> impl Strategy<Value = ZoneNo> {
    (0u16..590).prop_map(|number| ZoneNo::from_stored(number).unwrap())
}

fn quiet() -> impl Strategy<Value = Quiet> {
    (any::<bool>(), 0u16..1_440, 0u16..1_440, 1u8..128, zone()).prop_map(
        |(is_enabled, start_minute, end_minute, days, zone)| {
            let times = Times { start_minute, end_minute };
            Quiet { is_enabled, window: Window::new(times, Days::from_bits(days).unwrap()).unwrap(), zone }
        },
    )
}

pub fn preferences() -> impl Strategy<Value = Preferences> {
    let frequency = option::of(proptest::sample::select(&Frequency::ALL[..]));
    let choice = (switch(), option::of(0u8..32), frequency).prop_map(|(switch, channels, frequency)| {
        CategoryChoice { switch, channels: channels.map(ChannelSet::from_stored), frequency }
    });
    let categories = proptest::collection::btree_map("[a-z]{0,8}", choice, 0..4);
    let limit = any::<[u8; 10]>().prop_map(Limit::from_stored);
    let limits = proptest::collection::btree_map(channel(), limit, 0..3);
    (switch(), option::of(quiet()), vec((channel(), switch()), 0..6), limits, categories).prop_map(
        |(everything, quiet, channels, limits, categories)| {
            let channels =
                channels.into_iter().fold(Switches::default(), |all, (kind, said)| all.with(kind, said));
            Preferences { everything, quiet, channels, limits, categories }
        },
    )
}

pub fn consent() -> impl Strategy<Value = Consent> {
    (any::<bool>(), millis(), any::<String>(), any::<String>())
        .prop_map(|(is_granted, given, version, source)| Consent { is_granted, given, version, source })
}

fn change_kind() -> impl Strategy<Value = ChangeKind> {
    prop_oneof![Just(ChangeKind::OptIn), Just(ChangeKind::OptOut), Just(ChangeKind::Update)]
}

pub fn respect_record() -> impl Strategy<Value = ShardRecord> {
    let consented = (user(), any::<u32>(), channel(), consent())
        .prop_map(|(user, revision, channel, consent)| Consented { user, revision, channel, consent });
    prop_oneof![
        (tenant(), user(), any::<u32>(), change_kind(), any::<String>(), preferences()).prop_map(
            |(tenant, user, revision, kind, source, preferences)| {
                ShardRecord::Preferred(Preferred { tenant, user, revision, kind, source, preferences })
            }
        ),
        (tenant(), user()).prop_map(|(tenant, user)| ShardRecord::Replanned { tenant, user }),
        (tenant(), vec(consented, 0..4))
            .prop_map(|(tenant, consents)| ShardRecord::Consented { tenant, consents }),
    ]
}

/// One of each, as they are stored for good.
pub fn examples(tenant: TenantId, user: UserNo) -> Vec<ShardRecord> {
    let consent =
        |is_granted| Consent { is_granted, given: START, version: "2026-01".into(), source: "app".into() };
    let consented =
        |channel, is_granted| Consented { user, revision: 2, channel, consent: consent(is_granted) };
    let likes = CategoryChoice {
        switch: Switch::Off,
        channels: Some(ChannelSet::EMPTY.with(PUSH)),
        frequency: Some(Frequency::Daily),
    };
    let preferences = Preferences {
        everything: Switch::On,
        quiet: Some(night("Europe/Vienna")),
        channels: Switches::default().with(ChannelKind::Email, Switch::Off).with(PUSH, Switch::On),
        limits: [(PUSH, capped(5, 20))].into_iter().collect(),
        categories: [("likes".to_owned(), likes)].into_iter().collect(),
    };
    let (kind, source) = (ChangeKind::OptOut, "page".to_owned());
    vec![
        ShardRecord::Preferred(Preferred { tenant, user, revision: 300, kind, source, preferences }),
        ShardRecord::Consented {
            tenant,
            consents: vec![consented(PUSH, true), consented(ChannelKind::Sms, false)],
        },
        ShardRecord::Replanned { tenant, user },
    ]
}

/// What leaves a row of each family, with everything in it.
pub fn history(node: &mut Node, name: u64) {
    agree(node, name, ChannelKind::Email, false);
    let limits = [(PUSH, capped(300, 5))].into_iter().collect();
    want(node, name, Preferences { limits, ..quiet_at("Europe/Vienna") });
}

pub fn capped(per_hour: u16, per_day: u16) -> Limit {
    Limit { caps: Caps { per_hour, per_day }, pace: Some(Pace { burst: 400, refill_seconds: 60 }) }
}

pub fn respect_row() -> impl Strategy<Value = RespectRow> {
    let consents = proptest::collection::btree_map(0u8..5, (any::<u32>(), consent()), 0..5);
    (any::<u32>(), preferences(), consents).prop_map(|(revision, preferences, consents)| {
        let consenting = |(channel, (revision, consent))| {
            let channel = ChannelKind::from_stored(channel).unwrap();
            Consenting { channel, revision, consent }
        };
        RespectRow { revision, preferences, consents: consents.into_iter().map(consenting).collect() }
    })
}

pub fn changed() -> impl Strategy<Value = Changed> {
    let of_preferences = (change_kind(), any::<String>(), preferences(), preferences())
        .prop_map(|(kind, source, before, after)| What::Preferences { kind, source, before, after });
    let of_consent = (channel(), option::of(consent()), consent())
        .prop_map(|(channel, before, after)| What::Consent { channel, before, after });
    (millis(), prop_oneof![of_preferences, of_consent]).prop_map(|(at, what)| Changed { at, what })
}

fn prefer(node: &mut Node, name: u64, instead_of: u32, preferences: Preferences) -> ShardAnswer {
    let prefer = Box::new(Prefer { instead_of, source: "test".into(), preferences });
    let answer = node.shard(ShardAsk::Prefer { tenant: TENANT, user: lookup(name), prefer });
    check_column(node, UserNo(name));
    answer
}

/// The newest said counts, whatever was said before.
pub fn want(node: &mut Node, name: u64, preferences: Preferences) {
    let revision = row(node, UserNo(name)).revision;
    assert!(matches!(prefer(node, name, revision, preferences), ShardAnswer::Respected { .. }));
}

fn agree(node: &mut Node, name: u64, channel: ChannelKind, is_granted: bool) -> ShardAnswer {
    let (version, source) = ("1".to_owned(), "test".to_owned());
    let consent = Consent { is_granted, given: node.now, version, source };
    let answer = node.shard(ShardAsk::Consent { tenant: TENANT, user: lookup(name), channel, consent });
    check_column(node, UserNo(name));
    answer
}

fn row(node: &Node, user: UserNo) -> RespectRow {
    node.read_shard(|state| respect::find(state.tables(), TENANT, user).unwrap())
}

/// What gates read is what the user said.
fn check_column(node: &Node, user: UserNo) {
    let (found, expected) = node.read_shard(|state| {
        let tables = state.tables();
        let zone = users::find(tables, TENANT, user).unwrap().map_or(ZoneNo::NONE, |row| row.zone);
        let expected = Respect::of(&respect::find(tables, TENANT, user).unwrap(), zone);
        let found = columns::find(tables, TENANT, user).unwrap().respect;
        (found, expected.with_waits(found.waits()))
    });
    assert_eq!(found, expected);
}

fn night(zone: &str) -> Quiet {
    let window = Window::new(Times { start_minute: 22 * 60, end_minute: 7 * 60 }, Days::ALL).unwrap();
    let zone = if zone.is_empty() { ZoneNo::NONE } else { ZoneNo::find(zone).unwrap() };
    Quiet { is_enabled: true, window, zone }
}

pub fn quiet_at(zone: &str) -> Preferences {
    Preferences { quiet: Some(night(zone)), ..Preferences::default() }
}

fn revision(revision: u32) -> ShardAnswer {
    ShardAnswer::Respected { revision }
}

// proves: PRF-06
#[test]
fn a_change_is_made_to_what_its_author_saw() {
    let mut node = Node::new();
    let user = node.user(0);
    let off = Preferences { everything: Switch::Off, ..Preferences::default() };
    assert_eq!(prefer(&mut node, 9, 0, off.clone()), ShardAnswer::UnknownUser);
    assert_eq!(prefer(&mut node, 0, 0, Preferences::default()), revision(0), "nothing was said");
    assert_eq!(prefer(&mut node, 0, 0, off.clone()), revision(1));
    assert_eq!(prefer(&mut node, 0, 0, quiet_at("")), ShardAnswer::Changed { revision: 1 });
    assert_eq!(prefer(&mut node, 0, 1, off.clone()), revision(1), "the same again is no change");
    assert_eq!(agree(&mut node, 0, PUSH, true), revision(2));
    assert_eq!(agree(&mut node, 0, PUSH, true), revision(2), "the same again is no change");
    assert_eq!(agree(&mut node, 0, PUSH, false), revision(3));
    assert_eq!(prefer(&mut node, 0, 3, Preferences::default()), revision(4));
    let history =
        node.read_shard(|state| respect::history(state.tables(), TENANT, user, u32::MAX, 9).unwrap());
    let kinds: Vec<(u32, Option<ChangeKind>)> = history
        .iter()
        .map(|(revision, changed)| match &changed.what {
            What::Preferences { kind, .. } => (*revision, Some(*kind)),
            What::Consent { .. } => (*revision, None),
        })
        .collect();
    assert_eq!(kinds, [(4, Some(ChangeKind::OptIn)), (3, None), (2, None), (1, Some(ChangeKind::OptOut))]);
    let older = node.read_shard(|state| respect::history(state.tables(), TENANT, user, 3, 1).unwrap());
    assert_eq!(older, history[2..3]);
}

#[test]
fn history_is_bounded_and_goes_with_the_user() {
    let mut node = Node::new();
    let user = node.user(0);
    for no in 0..RESPECT_HISTORY_MAX + 5 {
        agree(&mut node, 0, PUSH, no % 2 == 0);
    }
    let count = |node: &Node| {
        node.read_shard(|state| {
            respect::history(state.tables(), TENANT, user, u32::MAX, usize::MAX).unwrap().len()
        })
    };
    assert_eq!(count(&node), RESPECT_HISTORY_MAX as usize);
    node.shard(ShardAsk::DeleteUser { tenant: TENANT, lookup: lookup(0) });
    assert_eq!((count(&node), row(&node, user)), (0, RespectRow::default()));
    check_column(&node, user);
}

// proves: PRF-07, PRF-08, DEL-18, DEL-21
#[test]
fn nothing_is_pushed_without_a_grant_however_critical() {
    for (lane, class) in [(Priority::Normal, Class::Transactional), (Priority::Critical, Class::Critical)] {
        let mut node = Node::new();
        let user = user_with(&mut node, 0, 1);
        node.delivery = Some(push(lane, class));
        for (is_granted, expected) in
            [(false, (State::Suppressed, "no_consent")), (true, (State::Intent, ""))]
        {
            agree(&mut node, 0, PUSH, is_granted);
            node.send(&[user]);
            node.take_all();
            let work = work(&node);
            let (allowed, _) = intend(&mut node, work, 10);
            let allowed = allowed.unwrap();
            assert_eq!(allowed.sends.len(), usize::from(is_granted));
            assert_eq!(words(&node, allowed.parcel), [(expected.0, expected.1.to_owned())]);
        }
    }
}

// proves: PRF-01, PRF-03, PRF-04
#[test]
fn the_first_switch_that_is_off_is_the_reason() {
    let off = |kind| Switches::default().with(kind, Switch::Off);
    let likes = |switch, channels: Option<&[ChannelKind]>| {
        let channels = channels.map(|kinds| kinds.iter().copied().collect());
        [("likes".to_owned(), CategoryChoice { switch, channels, frequency: None })].into_iter().collect()
    };
    let nothing = Preferences::default;
    for (wanted, category, expected) in [
        (nothing(), "likes", ""),
        (Preferences { everything: Switch::Off, ..nothing() }, "likes", "global_off"),
        (Preferences { channels: off(PUSH), ..nothing() }, "likes", "channel_off"),
        (Preferences { channels: off(ChannelKind::Email), ..nothing() }, "likes", ""),
        (Preferences { categories: likes(Switch::Off, None), ..nothing() }, "likes", "category_off"),
        (Preferences { categories: likes(Switch::Off, None), ..nothing() }, "news", ""),
        (
            Preferences { categories: likes(Switch::On, Some(&[ChannelKind::Email])), ..nothing() },
            "likes",
            "category_channel_off",
        ),
        (
            Preferences { categories: likes(Switch::On, Some(&[PUSH])), channels: off(PUSH), ..nothing() },
            "likes",
            "",
        ),
    ] {
        let mut node = Node::new();
        let user = user_with(&mut node, 0, 1);
        want(&mut node, 0, wanted.clone());
        let mut delivery = by(&[PUSH]);
        delivery.terms = Terms { category: CategoryId::of(category), ..delivery.terms };
        for (lane, expected) in [(Priority::Normal, expected), (Priority::Critical, "")] {
            delivery.terms.lane = lane;
            node.delivery = Some(delivery);
            node.send(&[user]);
            node.take_all();
            let work = work(&node);
            let parcel = intend(&mut node, work, 10).0.unwrap().parcel;
            assert_eq!(words(&node, parcel)[0].1, expected, "{wanted:?} {category} {lane:?}");
        }
    }
}

// proves: QH-01, QH-02, QH-03, QH-04
#[test]
fn what_comes_at_night_waits_for_the_morning() {
    // It is 15:06:40 in UTC when the node begins.
    for (zone, wait_ms) in [
        ("Europe/Vienna", None),
        ("Asia/Tokyo", Some(6 * 3_600_000 + 53 * 60_000 + 20_000)),
        ("Pacific/Auckland", Some(3 * 3_600_000 + 53 * 60_000 + 20_000)),
    ] {
        let mut node = Node::new();
        let user = user_with(&mut node, 0, 1);
        want(&mut node, 0, quiet_at(zone));
        node.delivery = Some(by(&[PUSH]));
        node.send(&[user]);
        node.take_all();
        let of_node = work(&node);
        let parcel = intend(&mut node, of_node, 10).0.unwrap().parcel;
        let Some(wait_ms) = wait_ms else {
            assert_eq!(states(&node, parcel), [State::Intent], "{zone}");
            continue;
        };
        assert_eq!(words(&node, parcel), [(State::Deferred, "quiet_hours".to_owned())], "{zone}");
        node.delivery = Some(push(Priority::Critical, Class::Critical));
        node.send(&[user]);
        node.take_all();
        let of_node = work(&node);
        assert_eq!(intend(&mut node, of_node, 10).0.unwrap().sends.len(), 1, "critical passes");
        let timer = next_timer(&mut node).unwrap();
        assert_eq!(timer.due, START.plus(wait_ms), "{zone}");
        assert_eq!(wake(&mut node, timer, 10).0.unwrap().sends.len(), 1, "it is morning");
    }
}

// proves: TRK-06
// fixes: usability B7
#[test]
fn what_a_gate_put_off_is_told_after_it_was_sent() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    want(&mut node, 0, quiet_at("Asia/Tokyo"));
    node.delivery = Some(by(&[PUSH]));
    node.send(&[user]);
    node.take_all();
    let of_node = work(&node);
    let asked = node.now;
    let parcel = intend(&mut node, of_node, 10).0.unwrap().parcel;
    // Asked again in the night, because the user wants something else: the gate says the same.
    want(&mut node, 0, quiet_at("Asia/Seoul"));
    while replan(&mut node) > 0 {}
    while let Some(timer) = next_timer(&mut node) {
        wake(&mut node, timer, 10);
        if states(&node, parcel) == [State::Intent] {
            break;
        }
    }
    settle(&mut node, parcel, vec![told(0, Said::Accepted, "")]);
    let notes = node.read_shard(|state| track::find(state.tables(), parcel, 0).unwrap());
    let gates: Vec<_> = notes.iter().map(|note| (note.at, note.state, note.gate())).collect();
    let quiet = (asked, State::Deferred, Some(Reason::QuietHours));
    assert_eq!(gates, [quiet, (node.now, State::Accepted, None)]);
}

// proves: QH-05
#[test]
fn a_night_of_nobody_knows_which_clock_lasts_until_the_profile_changes() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    want(&mut node, 0, quiet_at(""));
    node.delivery = Some(by(&[PUSH]));
    node.send(&[user]);
    node.take_all();
    let of_node = work(&node);
    let parcel = intend(&mut node, of_node, 10).0.unwrap().parcel;
    for _ in 0..3 {
        assert_eq!(words(&node, parcel), [(State::Deferred, "quiet_hours_no_zone".to_owned())]);
        let timer = next_timer(&mut node).unwrap();
        assert!(wake(&mut node, timer, 10).0.unwrap().sends.is_empty());
    }
    want(&mut node, 0, Preferences::default());
    let timer = next_timer(&mut node).unwrap();
    assert_eq!(wake(&mut node, timer, 10).0.unwrap().sends.len(), 1, "there is no window any more");
}

// proves: QH-03
#[test]
fn the_time_to_live_may_end_before_the_night() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    want(&mut node, 0, quiet_at(""));
    let mut delivery = by(&[PUSH]);
    delivery.terms.expires_at = node.now.plus(60_000);
    node.delivery = Some(delivery);
    node.send(&[user]);
    node.take_all();
    let work = work(&node);
    let parcel = intend(&mut node, work, 10).0.unwrap().parcel;
    let timer = next_timer(&mut node).unwrap();
    assert_eq!(timer.due, delivery.terms.expires_at);
    assert!(wake(&mut node, timer, 10).0.unwrap().sends.is_empty());
    assert_eq!(states(&node, parcel), [State::Expired]);
}

// proves: PRF-08, DEL-21
#[test]
fn what_waits_is_asked_again() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    want(&mut node, 0, quiet_at(""));
    node.delivery = Some(by(&[PUSH]));
    node.send(&[user]);
    node.take_all();
    let work = work(&node);
    let parcel = intend(&mut node, work, 10).0.unwrap().parcel;
    agree(&mut node, 0, PUSH, false);
    let timer = next_timer(&mut node).unwrap();
    assert!(wake(&mut node, timer, 10).0.unwrap().sends.is_empty());
    assert_eq!(words(&node, parcel), [(State::Suppressed, "no_consent".to_owned())]);
    assert!(node.now.since(START) < DAY_MS);
}

/// What the node does about its to-do rows.
pub fn replan(node: &mut Node) -> usize {
    let todos = node.todos().into_iter().filter_map(|todo| match todo {
        Todo::Replan { tenant, user } => Some((tenant, user)),
        Todo::Report { .. }
        | Todo::Shred { .. }
        | Todo::Claim { .. }
        | Todo::Release(_)
        | Todo::Fold { .. }
        | Todo::Digest { .. }
        | Todo::Halt { .. }
        | Todo::Erase { .. } => None,
    });
    let todos: Vec<(TenantId, UserNo)> = todos.collect();
    for (tenant, user) in &todos {
        let mut from = None;
        loop {
            match node.shard(ShardAsk::Replan { tenant: *tenant, user: *user, from }) {
                ShardAnswer::Replanned { next: Some(next) } => from = Some(next),
                ShardAnswer::Replanned { next: None } => break,
                other => panic!("{other:?}"),
            }
        }
    }
    todos.len()
}

/// Who is due now.
fn due_now(node: &Node) -> usize {
    timers(node).into_iter().filter(|timer| timer.due <= node.now).count()
}

/// One event each for these users, of which all deliveries wait.
fn waits(node: &mut Node, users: &[UserNo], events: usize) -> Vec<ParcelId> {
    node.delivery = Some(by(&[PUSH]));
    let one = |_| {
        node.send(users);
        node.take_all();
        let work = work(node);
        intend(node, work, 1_000).0.unwrap().parcel
    };
    (0..events).map(one).collect()
}

fn replan_step(node: &mut Node, user: UserNo, from: Option<ReplanPlace>) -> Option<ReplanPlace> {
    match node.shard(ShardAsk::Replan { tenant: TENANT, user, from }) {
        ShardAnswer::Replanned { next } => next,
        other => panic!("{other:?}"),
    }
}

// fixes: correctness A10
#[test]
fn a_change_during_a_re_evaluation_begins_it_again() {
    let mut node = Node::new();
    let user = user_with(&mut node, 0, 1);
    want(&mut node, 0, quiet_at("Asia/Tokyo"));
    waits(&mut node, &[user], 70);
    agree(&mut node, 0, ChannelKind::Email, false);
    let first = replan_step(&mut node, user, None);
    assert!(first.is_some(), "more waits than one step looks at");
    // It is still night: all of the first step wait again.
    for timer in timers(&node).into_iter().filter(|timer| timer.due <= node.now).collect::<Vec<_>>() {
        wake(&mut node, timer, 10);
    }
    assert_eq!(due_now(&node), 0);
    want(&mut node, 0, Preferences::default());
    let mut from = first;
    while let Some(next) = replan_step(&mut node, user, from) {
        from = Some(next);
    }
    assert_eq!(due_now(&node), 70);
    assert_eq!(replan(&mut node), 0, "it is done");
    // Nothing is written twice by a leader that begins again.
    agree(&mut node, 0, ChannelKind::Email, true);
    replan_step(&mut node, user, None);
    assert_eq!(node.rows_touched, Vec::<usize>::new(), "all of it is due already");
}

/// A data directory of a build without the index: the column says that something may wait, and there are no rows.
fn forget_index(node: &mut Node, user: UserNo) {
    let (flags_at, waits) = ((user.0 as usize % 64) * 32 + 30, 2);
    let key = columns::key(TENANT, user.0 / 64);
    let (mut changes, mut page) = (Changes::new(), Vec::new());
    node.read_shard(|state| {
        for (user, row) in waiting::all(state.tables(), TENANT).unwrap() {
            changes.insert(waiting::key(TENANT, user, row), None);
        }
        page = state.tables().get(&key).unwrap().unwrap();
    });
    page[flags_at] |= waits;
    changes.insert(key, Some(page));
    put_rows(node, changes);
}

/// Rows that no record of this build has written.
fn put_rows(node: &mut Node, changes: Changes) {
    let partition = PartitionId::Shard(node.at);
    let journal = node.journal.get_mut(&partition).unwrap();
    journal.push(journal[0].clone());
    let through = Position(journal.len() as u64);
    let commit = Commit { through, changes, edits: Vec::new(), windows: Vec::new(), forgets: Vec::new() };
    node.store.commit(partition, commit).unwrap();
}

// fixes: correctness A10
#[test]
fn what_waited_before_there_was_an_index_is_found() {
    let mut node = Node::new();
    let users = [user_with(&mut node, 0, 2), user_with(&mut node, 1, 1)];
    want(&mut node, 0, quiet_at("Asia/Tokyo"));
    want(&mut node, 1, quiet_at("Asia/Tokyo"));
    let parcels = waits(&mut node, &users, 70);
    forget_index(&mut node, users[0]);
    want(&mut node, 0, Preferences::default());
    assert_eq!(replan(&mut node), 1);
    assert_eq!(due_now(&node), parcels.len());
    // A to-do row of such a build is empty.
    forget_index(&mut node, users[1]);
    want(&mut node, 1, Preferences::default());
    let row = Todo::Replan { tenant: TENANT, user: users[1] };
    put_rows(&mut node, Changes::from([(row.key(), Some(Vec::new()))]));
    assert_eq!(replan(&mut node), 1);
    let waits = |node: &Node| {
        let later = |standing: &Standing| standing.due > node.now;
        let all = parcels.iter().flat_map(|parcel| ledger_of(node, *parcel));
        all.filter(later).count()
    };
    assert_eq!(waits(&node), 0);
}

fn ledger_of(node: &Node, parcel: ParcelId) -> Vec<Standing> {
    let row = node.read_shard(|state| ledger::find(state.tables(), parcel)).unwrap().unwrap();
    row.standings.iter().cloned().collect()
}

// proves: QH-05, DEL-21
#[test]
fn what_waits_is_due_as_soon_as_its_user_wants_something_else() {
    let mut node = Node::new();
    let users = [user_with(&mut node, 0, 2), user_with(&mut node, 1, 1)];
    for name in [0, 1] {
        want(&mut node, name, quiet_at("Asia/Tokyo"));
    }
    assert_eq!(replan(&mut node), 0, "nothing waits");
    node.delivery = Some(by(&[PUSH]));
    // More ledgers than one plan looks at.
    let parcels: Vec<_> = (0..70)
        .map(|_| {
            node.send(&users);
            node.take_all();
            let work = work(&node);
            intend(&mut node, work, 10).0.unwrap().parcel
        })
        .collect();
    assert_eq!(due_now(&node), 0);
    agree(&mut node, 0, ChannelKind::Email, false);
    assert_eq!(replan(&mut node), 1, "any change counts");
    assert_eq!(due_now(&node), parcels.len());
    want(&mut node, 0, Preferences::default());
    let due: Vec<_> = timers(&node).into_iter().filter(|timer| timer.due <= node.now).collect();
    for timer in due {
        assert_eq!(wake(&mut node, timer, 10).0.unwrap().sends.len(), 2, "both devices of the first user");
    }
    for parcel in parcels {
        assert_eq!(states(&node, parcel), [State::Intent, State::Intent, State::Deferred]);
    }
    node.shard(ShardAsk::DeleteUser { tenant: TENANT, lookup: lookup(1) });
    assert_eq!(replan(&mut node), 1, "from the change before");
    assert_eq!(replan(&mut node), 0);
}
