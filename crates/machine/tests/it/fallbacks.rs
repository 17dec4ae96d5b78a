//! Fallback chains: a channel that waits for others is tried if they do not reach the user, once, and not otherwise.
//!
//! A small dispatcher does what shards offer and nothing else, so that whatever is forgotten stays undone.

use crate::deliveries::{PUSH, audit, by, later, next_timer, one, row, timers, told, words};
use crate::endpoints::{device, hear, register, registration};
use crate::harness::{Node, START, list};
use crate::policies::{self, tenant_node};
use crate::respect::want;
use fantail_machine::parcel::Member;
use fantail_machine::records::front::Delivery;
use fantail_machine::root::template::Expect;
use fantail_machine::shard::outcome::Said;
use fantail_machine::shard::redrive::Heard;
use fantail_machine::shard::serve::Job;
use fantail_machine::shard::{Offer, ShardAnswer, ShardAsk};
use fantail_machine::tables::ledger::{self, ParcelId, Timer};
use fantail_machine::tables::track;
use fantail_machine::tables::work::{Terms, WorkId};
use fantail_rules::attempt::{Class, State};
use fantail_rules::chain::Chain;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::News;
use fantail_rules::ids::{Arrival, DeviceNo, Millis, UserNo};
use fantail_rules::marks::Mark;
use fantail_rules::policy::{CategoryPolicy, Condition, Step};
use fantail_rules::preference::{Preferences, Quiet, Switch, Switches};
use fantail_rules::priority::Priority;
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::retry::Cause;
use fantail_rules::zone::ZoneNo;

const SMS: ChannelKind = ChannelKind::Sms;
const EMAIL: ChannelKind = ChannelKind::Email;
const IN_APP: ChannelKind = ChannelKind::InApp;
pub const SILENT: Step = Step { channel: SMS, when: Condition::NoReceipt, after_seconds: 30 };
const UNSEEN: Step = Step { channel: SMS, when: Condition::NotSeen, after_seconds: 600 };
const FAILED: Step = Step { channel: SMS, when: Condition::Failed, after_seconds: 0 };
const MAIL_AFTER: Step = Step { channel: EMAIL, when: Condition::NoReceipt, after_seconds: 60 };

/// What may be sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Sent {
    parcel: ParcelId,
    position: u16,
    member: Member,
}

struct Town {
    node: Node,
    sent: Vec<Sent>,
}

impl Town {
    fn new() -> Self {
        Self { node: Node::new(), sent: Vec::new() }
    }

    /// A user with endpoints of these channels, numbered from 1.
    fn user(&mut self, name: u64, kinds: &[ChannelKind]) -> UserNo {
        let user = self.node.user(name);
        for (no, kind) in (1..).zip(kinds) {
            let token = name * 4 + no;
            let mut one = registration(name, token, token);
            (one.kind, one.name_hash) = (*kind, device(token));
            register(&mut self.node, name, one);
            hear(&mut self.node, user, no as u16, no as u32, News::Granted { suppressed: false });
        }
        user
    }

    fn at(&mut self, seconds: u64) {
        self.node.now = START.plus(seconds * 1_000);
        self.dispatch();
        self.moment();
    }

    /// What is to be done at once is due in a moment.
    fn moment(&mut self) {
        self.node.now = self.node.now.plus(1);
        self.dispatch();
    }

    /// An event to these users.
    fn send(&mut self, users: &[UserNo], delivery: Delivery) {
        self.node.delivery = Some(delivery);
        self.node.send(users);
        self.node.take_all();
        self.dispatch();
    }

    fn post(&mut self, delivery: Delivery) {
        self.node.delivery = Some(delivery);
        self.node.post(list(0), false);
        self.node.take_all();
        self.dispatch();
    }

    /// Does what was offered, and what is due.
    fn dispatch(&mut self) {
        loop {
            let offered = std::mem::take(&mut self.node.offers);
            let works = offered.into_iter().filter_map(|offer| match offer {
                Offer::Work { work, .. } => Some(Job::Work(work)),
                _ => None,
            });
            let now = self.node.now;
            let due = timers(&self.node).into_iter().filter(|timer| timer.due <= now);
            let jobs: Vec<Job> =
                works.chain(due.map(|Timer { parcel, due, .. }| Job::Wake { parcel, due })).collect();
            if jobs.is_empty() {
                return;
            }
            jobs.into_iter().for_each(|job| self.serve(job));
        }
    }

    fn serve(&mut self, job: Job) {
        let mut more = true;
        while more {
            let ShardAnswer::Served(served) = self.node.shard(one(job, 1_000)) else { panic!("not served") };
            audit(&self.node);
            more = served[0].more;
            for allowed in served.into_iter().filter_map(|served| served.allowed) {
                let of = |send: &fantail_machine::shard::intend::Send| Sent {
                    parcel: allowed.parcel,
                    position: send.position,
                    member: send.member,
                };
                self.sent.extend(allowed.sends.iter().map(of));
            }
        }
    }

    /// Providers say this about everything that is under way.
    fn answer(&mut self, said: Said) {
        for Sent { parcel, position, .. } in std::mem::take(&mut self.sent) {
            self.node.shard(ShardAsk::Outcome { parcel, told: vec![told(position, said, "said")].into() });
        }
        audit(&self.node);
        self.dispatch();
    }

    fn receipt(&mut self, user: UserNo, device: u16, delivered: bool, code: &str) {
        let parcel = ParcelId::of(self.work(PUSH), user);
        let (code, message) = (code.to_owned(), String::new());
        let heard = Heard { user, device: DeviceNo(device), delivered, at: None, code, message };
        assert_eq!(self.node.shard(ShardAsk::Receipt { parcel, heard }), ShardAnswer::Noted);
        audit(&self.node);
        self.dispatch();
    }

    fn work(&self, channel: ChannelKind) -> WorkId {
        WorkId { tenant: self.node.tenant, arrival: self.node.progress().last, channel }
    }

    /// Which channels may be sent by now, and to whom.
    fn sent(&self) -> Vec<(ChannelKind, UserNo)> {
        let mut sent: Vec<_> = self.sent.iter().map(|sent| (sent.parcel.channel, sent.member.user)).collect();
        sent.dedup();
        sent
    }

    fn stands(&self, channel: ChannelKind, user: UserNo) -> Option<(State, String, Millis)> {
        let parcel = ParcelId::of(self.work(channel), user);
        self.node.read_shard(|state| {
            let (_, row) = ledger::holding(state.tables(), parcel).unwrap()?;
            let (at, _) = *row.members.of_user(user).first()?;
            let standing = row.standings.of(at).unwrap();
            Some((standing.state, standing.code.clone(), standing.due))
        })
    }

    fn check(&self, channel: ChannelKind, user: UserNo, state: State, code: &str) {
        let (found, why, _) = self.stands(channel, user).expect("there is a delivery");
        assert_eq!((found, why.as_str()), (state, code), "{channel:?} to {user}");
    }
}

pub fn chained(channels: &[ChannelKind], steps: &[Step]) -> Delivery {
    let delivery = by(channels);
    let chain = Chain::of(steps, delivery.channels);
    Delivery { terms: Terms { chain, ..delivery.terms }, ..delivery }
}

/// Push and SMS to one user, with this step; push is under way.
fn pushed(step: Step) -> (Town, UserNo) {
    let mut town = Town::new();
    let user = town.user(0, &[PUSH, SMS]);
    town.send(&[user], chained(&[PUSH, SMS], &[step]));
    assert_eq!(town.sent(), [(PUSH, user)], "push at once, and nothing else");
    (town, user)
}

// proves: DEL-17
#[test]
fn without_a_receipt_the_next_channel_is_tried_once() {
    let (mut town, user) = pushed(SILENT);
    town.at(2);
    town.answer(Said::Accepted);
    town.check(SMS, user, State::Deferred, "fallback_waiting");
    assert_eq!(town.stands(SMS, user).unwrap().2, START.plus(33_000), "from when it was taken");
    town.at(32);
    assert_eq!(town.sent(), []);
    town.at(33);
    assert_eq!(town.sent(), [(SMS, user)]);
    town.check(SMS, user, State::Intent, "fallback_no_receipt");
    town.answer(Said::Accepted);
    // A receipt after that changes nothing about it.
    town.receipt(user, 1, true, "");
    town.at(9_000);
    assert_eq!(town.sent(), []);
    town.check(SMS, user, State::Accepted, "said");
    let parcel = ParcelId::of(town.work(SMS), UserNo(0));
    let told = town.node.read_shard(|state| track::find(state.tables(), parcel, 0).unwrap());
    let told: Vec<_> = told.iter().map(|note| (note.at, note.state, note.code.as_str())).collect();
    assert_eq!(
        told,
        [
            (START.plus(33_000), State::Intent, "fallback_no_receipt"),
            (START.plus(33_001), State::Accepted, "said")
        ]
    );
}

// proves: DEL-17
#[test]
fn a_receipt_of_any_device_or_a_look_cancels_it() {
    type Act = fn(&mut Town, UserNo);
    let cases: [(&str, Step, Act, &str); 8] = [
        ("arrived on one of two", SILENT, |town, user| town.receipt(user, 2, true, ""), "fallback_arrived"),
        ("opened", UNSEEN, |town, user| town.receipt(user, 1, true, "opened"), "fallback_seen"),
        ("clicked", SILENT, |town, user| town.receipt(user, 2, true, "clicked"), "fallback_seen"),
        ("read", UNSEEN, |town, user| drop(town.node.mark(user, Mark::Read, &[1])), "fallback_seen"),
        ("seen", UNSEEN, |town, user| drop(town.node.mark(user, Mark::Seen, &[1])), "fallback_seen"),
        ("all seen", UNSEEN, |town, user| drop(town.node.mark_all(user, Mark::Seen, 9)), "fallback_seen"),
        ("archived", SILENT, |town, user| drop(town.node.mark(user, Mark::Archive, &[1])), "fallback_seen"),
        ("arrived", FAILED, |town, user| town.receipt(user, 1, true, ""), "fallback_arrived"),
    ];
    for (what, step, act, code) in cases {
        let mut town = Town::new();
        let user = town.user(0, &[PUSH, PUSH, SMS]);
        town.send(&[user], chained(&[PUSH, SMS], &[step]));
        assert_eq!(town.sent.len(), 2);
        town.answer(Said::Accepted);
        town.at(29);
        act(&mut town, user);
        town.at(3_600);
        assert_eq!(town.sent(), [], "{what}");
        town.check(SMS, user, State::Suppressed, code);
    }
}

/// Whoever looks at the status then does not see a message that will never go.
// fixes: usability P7
#[test]
fn a_look_at_an_entry_ends_its_step_at_once() {
    for (mark, expected) in [
        (Mark::Read, (State::Suppressed, "fallback_seen")),
        (Mark::Seen, (State::Suppressed, "fallback_seen")),
        (Mark::Delete, (State::Suppressed, "fallback_seen")),
        (Mark::Unarchive, (State::Deferred, "fallback_waiting")),
    ] {
        let mut town = Town { node: tenant_node(), sent: Vec::new() };
        let policy = CategoryPolicy { fallback: vec![UNSEEN], ..CategoryPolicy::default() };
        policies::put(&mut town.node, "alarm", Expect::Unsaid, policy);
        let user = town.user(0, &[PUSH, SMS]);
        let other = town.user(1, &[PUSH, SMS]);
        town.send(&[user, other], chained(&[PUSH, SMS], &[UNSEEN]));
        town.answer(Said::Accepted);
        town.at(29);
        town.node.mark(user, mark, &[1]);
        audit(&town.node);
        town.check(SMS, user, expected.0, expected.1);
        town.check(SMS, other, State::Deferred, "fallback_waiting");
    }
}

// proves: DEL-17
#[test]
fn arriving_is_not_being_seen() {
    let (mut town, user) = pushed(UNSEEN);
    town.answer(Said::Accepted);
    town.receipt(user, 1, true, "");
    town.at(600);
    assert_eq!(town.sent(), [(SMS, user)]);
    town.check(SMS, user, State::Intent, "fallback_not_seen");
}

// proves: DEL-17, DEL-18
#[test]
fn what_cannot_reach_the_user_is_not_waited_for() {
    for step in [SILENT, FAILED] {
        let (mut town, user) = pushed(step);
        town.answer(Said::Rejected);
        town.moment();
        assert_eq!(town.sent(), [(SMS, user)], "{step:?}");
        town.check(SMS, user, State::Intent, "fallback_failed");
    }
    // No device, no consent, not wanted there: the next channel is used at once, also for what is critical.
    let unwanted =
        || Preferences { channels: Switches::default().with(PUSH, Switch::Off), ..Preferences::default() };
    for (kinds, agrees, preferences, lane) in [
        (&[SMS][..], true, Preferences::default(), Priority::Normal),
        (&[PUSH, SMS][..], false, Preferences::default(), Priority::Critical),
        (&[PUSH, SMS][..], true, unwanted(), Priority::Normal),
    ] {
        let mut town = Town::new();
        let user = town.user(0, kinds);
        want(&mut town.node, 0, preferences);
        if !agrees {
            withdraw(&mut town, PUSH);
        }
        let mut delivery = chained(&[PUSH, SMS], &[FAILED]);
        (delivery.terms.lane, delivery.terms.class) = (lane, Class::of(lane, ""));
        town.send(&[user], delivery);
        assert_eq!(town.sent(), [(SMS, user)], "{kinds:?} {agrees} {lane:?}");
        town.check(SMS, user, State::Intent, "fallback_failed");
    }
}

fn withdraw(town: &mut Town, channel: ChannelKind) {
    let consent = fantail_machine::records::respect::Consent {
        is_granted: false,
        given: town.node.now,
        version: "1".into(),
        source: "test".into(),
    };
    let (tenant, user) = (town.node.tenant, crate::harness::lookup(0));
    town.node.shard(ShardAsk::Consent { tenant, user, channel, consent });
}

// proves: DEL-17
#[test]
fn failed_means_every_device_and_never_silence() {
    let mut town = Town::new();
    let user = town.user(0, &[PUSH, PUSH, SMS]);
    town.send(&[user], chained(&[PUSH, SMS], &[FAILED]));
    let [first, second] = town.sent[..] else { panic!("two devices") };
    town.sent = vec![first];
    town.answer(Said::Dead);
    town.at(5);
    assert_eq!(town.sent(), [], "the other device may still get it");
    town.sent = vec![second];
    town.answer(Said::Unanswered);
    town.at(6);
    assert_eq!(town.sent(), [], "silence is no failure while evidence may come");
    // Transactional push is sent once more; of the copy nobody hears either.
    town.at(11);
    assert_eq!(town.sent(), [(PUSH, user)]);
    town.answer(Said::Unanswered);
    town.at(15);
    assert_eq!(town.sent(), []);
    town.at(30);
    assert_eq!(town.sent(), [(SMS, user)], "given up without knowing");
}

// proves: DEL-17
#[test]
fn a_late_bounce_is_a_failure_and_an_end_without_one_is_not() {
    let (mut town, user) = pushed(FAILED);
    town.answer(Said::Accepted);
    town.at(3_600);
    town.check(SMS, user, State::Deferred, "fallback_waiting");
    town.receipt(user, 1, false, "bounced");
    town.at(3_601);
    assert_eq!(town.sent(), [(SMS, user)]);

    let (mut town, user) = pushed(FAILED);
    town.answer(Said::Accepted);
    town.at(86_400);
    assert_eq!(town.sent(), []);
    town.check(SMS, user, State::Suppressed, "fallback_sent");

    // Of what was never sent nothing is told as if it was.
    let (mut town, user) = pushed(FAILED);
    town.answer(later(Cause::Scope));
    town.node.now = START.plus(86_400_000);
    town.dispatch();
    town.check(PUSH, user, State::Expired, "ttl_expired");
    town.check(SMS, user, State::Expired, "ttl_expired");
}

fn quiet_until_seven() -> Preferences {
    let times = Times { start_minute: 0, end_minute: 1_439 };
    let window = Window::new(times, Days::ALL).unwrap();
    let quiet = Some(Quiet { is_enabled: true, window, zone: ZoneNo::find("UTC").unwrap() });
    Preferences { quiet, ..Preferences::default() }
}

// proves: DEL-17, QH-01
#[test]
fn a_channel_that_waits_is_waited_for_and_the_step_has_quiet_hours_of_its_own() {
    let mut town = Town::new();
    let user = town.user(0, &[PUSH, SMS]);
    want(&mut town.node, 0, quiet_until_seven());
    town.send(&[user], chained(&[PUSH, SMS], &[SILENT]));
    town.check(PUSH, user, State::Deferred, "quiet_hours");
    town.check(SMS, user, State::Deferred, "fallback_waiting");
    let opens = town.stands(PUSH, user).unwrap().2;
    town.node.now = Millis(opens.0 - 1);
    town.dispatch();
    assert_eq!(town.sent(), []);
    town.node.now = opens;
    town.dispatch();
    assert_eq!(town.sent(), [(PUSH, user)]);
    town.answer(Said::Accepted);
    town.node.now = opens.plus(61_000);
    town.dispatch();
    // A minute later it is quiet again: the step meets the gate itself, and is asked once more whether it is needed.
    assert_eq!(town.sent(), []);
    town.check(SMS, user, State::Deferred, "quiet_hours");
    town.receipt(user, 1, true, "");
    next_timer(&mut town.node).expect("it is asked again");
    town.dispatch();
    assert_eq!(town.sent(), []);
    town.check(SMS, user, State::Suppressed, "fallback_arrived");
}

// proves: DEL-17
#[test]
fn steps_come_one_after_the_other() {
    let all = &[PUSH, SMS, EMAIL][..];
    let chain = &[SILENT, MAIL_AFTER][..];
    let mut town = Town::new();
    let user = town.user(0, all);
    town.send(&[user], chained(all, chain));
    town.answer(Said::Accepted);
    town.at(30);
    assert_eq!(town.sent(), [(SMS, user)]);
    town.check(EMAIL, user, State::Deferred, "fallback_waiting");
    town.answer(Said::Accepted);
    town.at(90);
    assert_eq!(town.sent(), []);
    town.at(91);
    assert_eq!(town.sent(), [(EMAIL, user)]);

    // What reaches the user by the first spares all.
    let mut town = Town::new();
    let user = town.user(0, all);
    town.send(&[user], chained(all, chain));
    town.answer(Said::Accepted);
    town.receipt(user, 1, true, "");
    for channel in [SMS, EMAIL] {
        town.check(channel, user, State::Suppressed, "fallback_arrived");
    }

    // Who has no number is not mailed before the time of the message has come.
    for is_named in [true, false] {
        let mut town = Town::new();
        let user = town.user(0, &[PUSH, EMAIL]);
        town.node.join(0, list(0));
        let delivery = chained(all, chain);
        if is_named {
            town.send(&[user], delivery)
        } else {
            town.post(delivery)
        }
        town.answer(Said::Accepted);
        town.at(29);
        assert_eq!(town.sent(), []);
        town.check(SMS, user, State::Deferred, "fallback_waiting");
        town.at(31);
        assert_eq!(town.sent(), [(EMAIL, user)]);
        town.check(SMS, user, State::Suppressed, "no_endpoint");
        town.check(EMAIL, user, State::Intent, "fallback_failed");
    }
}

// proves: DEL-17
#[test]
fn a_chain_has_the_channels_of_its_event() {
    // Nothing is before the step: it is sent at once.
    let mut town = Town::new();
    let user = town.user(0, &[PUSH, SMS]);
    town.send(&[user], chained(&[SMS], &[SILENT]));
    assert_eq!(town.sent(), [(SMS, user)]);
    // The inbox is waited for by those who want to know whether it was looked at.
    let mut town = Town::new();
    let user = town.user(0, &[PUSH, SMS]);
    town.send(&[user], chained(&[IN_APP, SMS], &[UNSEEN]));
    town.at(599);
    assert_eq!(town.sent(), []);
    town.at(600);
    assert_eq!(town.sent(), [(SMS, user)]);
}

// proves: DEL-17
#[test]
fn what_is_called_off_is_not_tried() {
    let (mut town, user) = pushed(SILENT);
    town.answer(Said::Accepted);
    let event = row(&town.node, ParcelId::of(town.work(PUSH), UserNo(0))).event;
    town.node.retract(event);
    town.node.take_all();
    town.at(30);
    assert_eq!(town.sent(), []);
    town.check(SMS, user, State::Cancelled, "retracted");
}

// proves: DEL-17
#[test]
fn followers_fall_back_each_by_what_reached_them() {
    let mut town = Town::new();
    let mut users = Vec::new();
    for name in 0..8 {
        let kinds = match name % 4 {
            // Push and a number, the number alone, push alone, neither.
            0 => &[PUSH, SMS][..],
            1 => &[SMS][..],
            2 => &[PUSH][..],
            _ => &[][..],
        };
        users.push(town.user(name, kinds));
        town.node.join(name, list(0));
    }
    town.post(chained(&[PUSH, SMS], &[SILENT]));
    let numbers = [(SMS, users[1]), (SMS, users[5])];
    let mut sent = town.sent();
    sent.sort_unstable();
    let pushes = [0, 2, 4, 6].map(|at: usize| (PUSH, users[at]));
    assert_eq!(sent, pushes.into_iter().chain(numbers).collect::<Vec<_>>());
    town.answer(Said::Accepted);
    town.receipt(users[4], 1, true, "");
    town.at(31);
    assert_eq!(town.sent(), [(SMS, users[0])]);
    town.check(SMS, users[4], State::Suppressed, "fallback_arrived");
    assert_eq!(town.stands(SMS, users[2]), None, "who has no number is not in it");
}

// proves: DEL-17
#[test]
fn a_long_list_is_walked_behind_the_channel_before_it() {
    let mut town = Town::new();
    let users: Vec<UserNo> = (0..20).map(|name| town.user(name, &[PUSH, SMS])).collect();
    (0..20).for_each(|name| town.node.join(name, list(0)));
    town.node.delivery = Some(chained(&[PUSH, SMS], &[SILENT]));
    town.node.post(list(0), false);
    town.node.take_all();
    // The step alone goes nowhere.
    town.serve(Job::Work(town.work(SMS)));
    assert_eq!(town.stands(SMS, users[0]), None);
    // Some permits at a time.
    for round in 1..=4u64 {
        let work = town.work(PUSH);
        town.node.shard(one(Job::Work(work), 5));
        audit(&town.node);
        town.serve(Job::Work(town.work(SMS)));
        let last = users[round as usize * 5 - 1];
        assert!(town.stands(SMS, last).is_some(), "as far as the channel before it");
        assert_eq!(users.get(round as usize * 5).and_then(|user| town.stands(SMS, *user)), None);
    }
    town.dispatch();
    let open = town
        .node
        .read_shard(|state| fantail_machine::tables::work::all(state.tables(), None, 9).unwrap().len());
    assert_eq!(open, 0, "everybody was looked at");
    let parcels: Vec<u64> = words_of(&town, SMS);
    assert_eq!(parcels.iter().sum::<u64>(), 20);
}

fn words_of(town: &Town, channel: ChannelKind) -> Vec<u64> {
    let from = ParcelId::of(WorkId { arrival: Arrival(1), ..town.work(channel) }, UserNo(0));
    let found = town.node.read_shard(|state| ledger::of_event(state.tables(), from, 100).unwrap());
    let of = found.iter().filter(|(parcel, _)| parcel.channel == channel);
    of.map(|(parcel, _)| words(&town.node, *parcel).len() as u64).collect()
}

// proves: DEL-17
#[test]
fn whoever_is_chosen_by_a_walk_falls_back_too() {
    let mut town = Town::new();
    let users: Vec<UserNo> = (0..10).map(|name| town.user(name, &[PUSH, SMS])).collect();
    town.node.delivery = Some(chained(&[PUSH, SMS], &[SILENT]));
    let walk = crate::walks::plain();
    let audience = fantail_machine::front::admit::AskAudience::Walk(Box::new(walk));
    town.node.admit(crate::harness::Post { key: 1_000, audience, tier_up: u32::MAX });
    town.node.take_all();
    for step in 1..=5 {
        town.dispatch();
        let work = town.work(PUSH);
        let is_end = crate::walks::passed(&crate::walks::pass(&mut town.node, work, 2));
        assert_eq!(is_end, Some(step == 5));
    }
    town.dispatch();
    assert_eq!(town.sent(), users.iter().map(|user| (PUSH, *user)).collect::<Vec<_>>());
    town.answer(Said::Accepted);
    town.receipt(users[3], 1, true, "");
    town.at(31);
    let told = users.iter().filter(|user| **user != users[3]).map(|user| (SMS, *user));
    assert_eq!(town.sent(), told.collect::<Vec<_>>());
}

// proves: DEL-17
#[test]
fn a_user_who_goes_is_not_told_by_the_next_channel() {
    let (mut town, user) = pushed(SILENT);
    town.answer(Said::Accepted);
    town.node.delete_user(0);
    town.at(30);
    assert_eq!(town.sent(), []);
    town.check(SMS, user, State::Suppressed, "erased");
}

// fixes: torture 7
/// After a crash the push is unknown, and sent once more when no evidence came: the text waits from when that copy was taken.
#[test]
fn another_copy_begins_the_time_of_the_step_again() {
    for is_step_first in [false, true] {
        // As long as evidence is awaited: both are due in the same moment.
        let (mut town, user) = pushed(Step { after_seconds: 5, ..SILENT });
        let parcel = ParcelId::of(town.work(PUSH), user);
        town.node.now = START.plus(1_000);
        town.sent.clear();
        town.node.shard(ShardAsk::Orphans { parcel });
        audit(&town.node);
        let (_, _, due) = town.stands(SMS, user).unwrap();
        assert_eq!(due, START.plus(6_000));
        town.node.now = due;
        let mut jobs: Vec<Job> = timers(&town.node)
            .into_iter()
            .map(|Timer { parcel, due, .. }| Job::Wake { parcel, due })
            .collect();
        assert_eq!(jobs.len(), 2);
        if is_step_first {
            jobs.reverse();
        }
        jobs.into_iter().for_each(|job| town.serve(job));
        assert_eq!(town.sent(), [(PUSH, user)], "the copy, and nothing else");
        town.at(7);
        town.answer(Said::Accepted);
        town.at(11);
        assert_eq!(town.sent(), []);
        town.at(13);
        assert_eq!(town.sent(), [(SMS, user)]);
        town.check(SMS, user, State::Intent, "fallback_no_receipt");
    }
}

// fixes: torture 7
/// A copy that has no turn does not hold the step up.
#[test]
fn a_copy_that_cannot_be_sent_is_waited_for_a_moment() {
    let (mut town, user) = pushed(Step { after_seconds: 5, ..SILENT });
    let parcel = ParcelId::of(town.work(PUSH), user);
    town.sent.clear();
    town.node.shard(ShardAsk::Orphans { parcel });
    for seconds in [5, 7] {
        town.node.now = START.plus(seconds * 1_000);
        let work = town.work(SMS);
        let step = timers(&town.node).into_iter().find(|timer| timer.parcel.work() == work).unwrap();
        assert_eq!(step.due, town.node.now);
        town.serve(Job::Wake { parcel: step.parcel, due: step.due });
        assert_eq!(town.sent().len(), usize::from(seconds == 7));
    }
}

// fixes: correctness C3
#[test]
fn a_receipt_stops_a_step_that_waits_for_its_retry() {
    let (mut town, user) = pushed(SILENT);
    town.answer(Said::Accepted);
    town.at(31);
    assert_eq!(town.sent(), [(SMS, user)]);
    town.answer(later(Cause::Message));
    town.check(SMS, user, State::Deferred, "said");
    town.receipt(user, 1, true, "");
    town.at(3_600);
    assert_eq!(town.sent(), [], "the user has it");
    town.check(SMS, user, State::Suppressed, "fallback_arrived");
}

// fixes: correctness C3
#[test]
fn a_step_is_tried_again_as_long_as_the_user_was_not_reached() {
    let (mut town, user) = pushed(SILENT);
    town.answer(Said::Accepted);
    town.at(31);
    town.answer(later(Cause::Message));
    town.at(3_600);
    assert_eq!(town.sent(), [(SMS, user)]);
    // Of a copy that nobody answered another one is not sent once the user has seen it.
    town.answer(Said::Unanswered);
    town.receipt(user, 1, true, "clicked");
    town.at(7_200);
    assert_eq!(town.sent(), []);
    town.check(SMS, user, State::Unconfirmed, "unconfirmed");
}
