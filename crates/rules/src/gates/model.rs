//! The cascade once more, written naively and apart: users as their settings say it, in names and lists; time by walking
//! minute after minute through the calendar of `jiff`; what somebody got as the list of when. It shares no rule with the
//! gates, and a property test compares what the two say about random users at random times.
//!
//! The months are ones in which none of the zones changes its clock: what happens then is judged in `tests/quiet_hours`.

mod random;

use super::*;
use crate::ids::Millis;
use crate::quiet::{Days, Times, Window};
use crate::schedule::SendAtLocal;
use crate::zone::ZoneNo;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};
use proptest::prelude::*;
use random::{a_message, a_time, somebody};

const CHANNELS: [&str; 5] = ["inApp", "push", "email", "sms", "webhook"];
const ZONES: [&str; 6] =
    ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "America/Sao_Paulo"];
/// 2026-06-01 00:00 UTC and 80 days, in seconds.
const FROM: i64 = 1_780_272_000;
const SECONDS: i64 = 80 * 86_400;

/// Somebody, as a settings page would show it.
#[derive(Clone, Debug)]
struct Somebody {
    enabled: bool,
    switched_off: Vec<&'static str>,
    granted: Vec<&'static str>,
    withdrawn: Vec<&'static str>,
    quiet: Option<Night>,
    zone: Option<&'static str>,
    category: Option<Category>,
    max_per_hour: Option<usize>,
    max_per_day: Option<usize>,
    /// Seconds at which something was sent on the channel that is asked about.
    sent: Vec<i64>,
}

#[derive(Clone, Debug)]
struct Night {
    start: (i8, i8),
    end: (i8, i8),
    /// Monday is 1.
    days: Vec<i8>,
}

#[derive(Clone, Debug)]
struct Category {
    enabled: bool,
    channels: Option<Vec<&'static str>>,
    frequency: &'static str,
}

#[derive(Clone, Debug)]
struct Message {
    channel: &'static str,
    critical: bool,
    marketing: bool,
    mandatory: Vec<&'static str>,
    blocked: Vec<&'static str>,
    collects_overflow: bool,
    usual: Category,
    /// (burst, seconds)
    pace: Option<(i64, i64)>,
    /// When it was accepted, so many seconds ago, and for which time of its recipients.
    accepted_ago: i64,
    wish: Option<TimeWish>,
    /// One of its kind came a moment ago.
    repeats: bool,
}

#[derive(Clone, Debug)]
enum TimeWish {
    /// Minutes after it was accepted, on a clock that shows UTC, there and then.
    On(i64),
    Next((i8, i8)),
    OffPeak(Night),
}

/// What is right: a word, and the second until which it waits.
fn judge(message: &Message, person: &Somebody, now: i64) -> (String, Option<i64>) {
    let said = |list: &[&str]| list.contains(&message.channel);
    let plain = |word: &str| (word.to_owned(), None);
    let needs_yes = message.channel == "push" || (message.channel == "sms" && message.marketing);
    let can_say_no = ["push", "email", "sms"].contains(&message.channel);
    if (needs_yes && !said(&person.granted)) || (can_say_no && said(&person.withdrawn)) {
        return plain("suppress no_consent");
    }
    if said(&message.blocked) {
        return plain("suppress channel_blocked");
    }
    let category = person.category.as_ref().unwrap_or(&message.usual);
    if !message.critical && !said(&message.mandatory) {
        if !person.enabled {
            return plain("suppress global_off");
        }
        if !category.enabled {
            return plain("suppress category_off");
        }
        if category.channels.as_ref().is_some_and(|channels| !said(channels)) {
            return plain("suppress category_channel_off");
        }
        if category.channels.is_none() && said(&person.switched_off) {
            return plain("suppress channel_off");
        }
    }
    if let Some((word, until)) = is_early(message, person.zone, now) {
        return (word.to_owned(), Some(until));
    }
    if message.critical {
        return plain("allow");
    }
    if let (Some(night), true) = (&person.quiet, message.channel != "inApp") {
        let Some(zone) = person.zone else { return plain("defer quiet_hours_no_zone") };
        if let Some(until) = wakes(night, zone, now) {
            return ("defer quiet_hours".to_owned(), Some(until));
        }
    }
    if message.repeats {
        return plain("suppress throttled");
    }
    if too_much(message, person, now) {
        let word =
            if message.collects_overflow { "fold frequency_capped" } else { "suppress frequency_capped" };
        return plain(word);
    }
    match category.frequency {
        "immediate" => plain("allow"),
        _ if message.channel == "inApp" => plain("allow"),
        frequency => plain(&format!("fold {frequency}")),
    }
}

/// `None` if it is not quiet; else the first minute at which it is not, or the end of the seventh whole day.
fn wakes(night: &Night, zone: &str, now: i64) -> Option<i64> {
    let zone = rules(zone);
    if !is_quiet(night, &local(&zone, now)) {
        return None;
    }
    let minute = now - now.rem_euclid(60);
    let first_awake =
        (1..8 * 1_440).map(|step| minute + step * 60).find(|minute| !is_quiet(night, &local(&zone, *minute)));
    first_awake.or_else(|| {
        let ends = (1..=8 * 1_440).map(|step| minute + step * 60).filter(|minute| {
            let shown = local(&zone, *minute);
            (shown.hour(), shown.minute()) == night.end
        });
        ends.take(7).last()
    })
}

/// The minute that was wished for, if it lies ahead.
fn is_early(message: &Message, zone: Option<&str>, now: i64) -> Option<(&'static str, i64)> {
    let zone = rules(zone.unwrap_or("UTC"));
    let accepted = now - message.accepted_ago;
    let minutes = |from: i64| (from.div_euclid(60) + 1..).map(|minute| minute * 60);
    let (word, until) = match message.wish.as_ref()? {
        TimeWish::On(after) => {
            let named = local(&TimeZone::UTC, wished(accepted, *after)).datetime();
            let a_day_before = minutes(wished(accepted, *after) - 86_400);
            let comes = a_day_before.take(3 * 1_440).find(|minute| local(&zone, *minute).datetime() >= named);
            ("defer local_time", comes?)
        }
        TimeWish::Next(time) => {
            let is_it = |minute: &i64| {
                let shown = local(&zone, *minute);
                (shown.hour(), shown.minute()) == *time
            };
            ("defer local_time", minutes(accepted).take(2 * 1_440).find(is_it)?)
        }
        TimeWish::OffPeak(night) if is_quiet(night, &local(&zone, now)) => return None,
        TimeWish::OffPeak(night) => {
            let is_it = |minute: &i64| is_quiet(night, &local(&zone, *minute));
            ("defer off_peak", minutes(now).take(8 * 1_440).find(is_it)?)
        }
    };
    (until > now).then_some((word, until))
}

/// A whole minute so long after something was accepted.
fn wished(accepted: i64, after: i64) -> i64 {
    (accepted.div_euclid(60) + after) * 60
}

fn is_quiet(night: &Night, shown: &Zoned) -> bool {
    let time = (shown.hour(), shown.minute());
    let today = shown.weekday().to_monday_one_offset();
    let yesterday = if today == 1 { 7 } else { today - 1 };
    match night.start < night.end {
        true => night.days.contains(&today) && night.start <= time && time < night.end,
        false => {
            (night.days.contains(&today) && time >= night.start)
                || (night.days.contains(&yesterday) && time < night.end)
        }
    }
}

fn too_much(message: &Message, person: &Somebody, now: i64) -> bool {
    let zone = rules(person.zone.unwrap_or("UTC"));
    let this_hour = person.sent.iter().filter(|sent| *sent / 3_600 == now / 3_600).count();
    let today = local(&zone, now).date();
    let this_day = person.sent.iter().filter(|sent| local(&zone, **sent).date() == today).count();
    let is_empty = message.pace.is_some_and(|(burst, refill)| {
        let (mut level, mut at) = (burst * refill, FROM);
        for sent in &person.sent {
            level = (burst * refill).min(level + sent - at);
            level = (level - refill).max(0);
            at = *sent;
        }
        level + now - at < refill
    });
    is_empty
        || person.max_per_hour.is_some_and(|max| this_hour >= max)
        || person.max_per_day.is_some_and(|max| this_day >= max)
}

fn rules(zone: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(zone).expect("a zone")
}

fn local(zone: &TimeZone, second: i64) -> Zoned {
    Timestamp::from_second(second).expect("a time of these years").to_zoned(zone.clone())
}

/// What the gates say, in the same words.
fn answer(message: &Message, person: &Somebody, now: i64) -> (String, Option<i64>) {
    let ask = ask(message, now);
    let mut clocks = Clocks::at(millis(now));
    let second = |until: Millis| i64::try_from(until.0 / 1_000).expect("a time of these years");
    let mut person = gated(person, &ask);
    let zone = person.profile.map_or(ZoneNo::NONE, |profile| profile.zone);
    let accepted = millis(now - message.accepted_ago);
    let slot = ask.appointment.map(|wish| wish.slot(zone, accepted, Millis(u64::MAX), millis(now)));
    (person.from, person.is_throttled) = (slot.map_or(Millis(0), |slot| slot.from), message.repeats);
    match decide(&ask, &person, &mut clocks) {
        Verdict::Allow => ("allow".to_owned(), None),
        Verdict::Suppress(reason) => (format!("suppress {}", reason.word()), None),
        Verdict::Defer { until, reason } => (format!("defer {}", reason.word()), until.map(second)),
        Verdict::Fold(fold) => (format!("fold {}", fold.word()), None),
    }
}

fn ask(message: &Message, now: i64) -> Ask {
    let clock = |(hour, minute): (i8, i8)| format!("{hour:02}:{minute:02}");
    let appointment = message.wish.as_ref().map(|wish| match wish {
        TimeWish::On(after) => {
            let named = local(&TimeZone::UTC, wished(now - message.accepted_ago, *after));
            SendAtLocal::parse(&named.strftime("%Y-%m-%dT%H:%M").to_string()).map(Appointment::At)
        }
        TimeWish::Next(time) => SendAtLocal::parse(&clock(*time)).map(Appointment::At),
        TimeWish::OffPeak(night) => window(night).map(Appointment::OffPeak),
    });
    Ask {
        channel: ChannelKind::parse(message.channel).expect("a channel"),
        lane: if message.critical { Priority::Critical } else { Priority::Low },
        is_marketing: message.marketing,
        policy: Policy {
            mandatory: channels(&message.mandatory),
            blocked: channels(&message.blocked),
            overflow: if message.collects_overflow { Overflow::Fold } else { Overflow::Drop },
            usual: choice(&message.usual),
        },
        pace: message.pace.map(|(burst, seconds)| Pace {
            burst: u16::try_from(burst).expect("small"),
            refill_seconds: u32::try_from(seconds).expect("small"),
        }),
        appointment: appointment.map(|wish| wish.expect("an appointment")),
    }
}

fn gated(person: &Somebody, ask: &Ask) -> Person {
    let mut profile = Profile {
        global_off: !person.enabled,
        channels_off: channels(&person.switched_off),
        zone: person.zone.map_or(ZoneNo::NONE, |zone| ZoneNo::find(zone).expect("a zone")),
        quiet: person.quiet.as_ref().and_then(window),
        has_choices: person.category.is_some(),
        ..Profile::default()
    };
    for channel in channels(&person.granted).iter() {
        profile.consents = profile.consents.with(channel, Consent::Granted);
    }
    for channel in channels(&person.withdrawn).iter() {
        profile.consents = profile.consents.with(channel, Consent::Withdrawn);
    }
    let cap = |max: Option<usize>| u16::try_from(max.unwrap_or(0)).expect("small");
    let used = person.sent.iter().fold(Used::default(), |used, sent| {
        let mut clocks = Clocks::at(millis(*sent));
        used.counted(ask.pace, When::new(millis(*sent), clocks.local(profile.zone)))
    });
    Person {
        profile: Profile::from_stored(profile.to_word()),
        choice: person.category.as_ref().map(choice),
        caps: Caps { per_hour: cap(person.max_per_hour), per_day: cap(person.max_per_day) },
        used,
        from: Millis(0),
        is_throttled: false,
    }
}

fn window(night: &Night) -> Option<Window> {
    let minute =
        |(hour, minute): (i8, i8)| u16::from(hour.unsigned_abs()) * 60 + u16::from(minute.unsigned_abs());
    let days = night.days.iter().fold(0, |bits, day| bits | 1 << (day - 1));
    Window::new(
        Times { start_minute: minute(night.start), end_minute: minute(night.end) },
        Days::from_bits(days)?,
    )
}

fn choice(category: &Category) -> Choice {
    Choice {
        is_off: !category.enabled,
        channels: category.channels.as_deref().map(channels),
        frequency: Frequency::parse(category.frequency).expect("a frequency"),
    }
}

fn channels(names: &[&str]) -> ChannelSet {
    names.iter().map(|name| ChannelKind::parse(name).expect("a channel")).collect()
}

fn millis(second: i64) -> Millis {
    Millis(u64::try_from(second).expect("after 1970") * 1_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    // proves: PRF-01..04, PRF-07, QH-01..05, DEL-18, DEL-21, SCH-01, SCH-02
    #[test]
    fn the_cascade_agrees_with_the_model(
        message in a_message(),
        mut person in somebody(),
        now in a_time(),
    ) {
        person.sent.iter_mut().for_each(|ago| *ago = now - *ago);
        person.sent.sort_unstable();
        prop_assert_eq!(answer(&message, &person, now), judge(&message, &person, now));
    }

    // proves: PRF-07, DEL-18
    #[test]
    fn nothing_passes_a_withdrawal(message in a_message(), mut person in somebody(), now in 0..SECONDS) {
        person.sent.clear();
        person.granted.retain(|channel| *channel != message.channel);
        person.withdrawn.push(message.channel);
        let needs_none = ["inApp", "webhook"].contains(&message.channel);
        let (word, _) = answer(&message, &person, FROM + now);
        prop_assert!(needs_none || word == "suppress no_consent", "{}", word);
    }
}

/// A test that never meets a rule does not prove it: all of these come up.
#[test]
fn every_answer_comes_up() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut words = std::collections::BTreeSet::new();
    for _ in 0..4_000 {
        let case = (a_message(), somebody(), a_time()).new_tree(&mut runner).expect("a case");
        let (message, mut person, now) = proptest::strategy::ValueTree::current(&case);
        person.sent.iter_mut().for_each(|ago| *ago = now - *ago);
        person.sent.sort_unstable();
        words.insert(judge(&message, &person, now).0);
    }
    let expected = [
        "allow",
        "defer local_time",
        "defer off_peak",
        "defer quiet_hours",
        "defer quiet_hours_no_zone",
        "fold daily_digest",
        "fold frequency_capped",
        "fold weekly_digest",
        "suppress category_channel_off",
        "suppress category_off",
        "suppress channel_blocked",
        "suppress channel_off",
        "suppress frequency_capped",
        "suppress global_off",
        "suppress no_consent",
        "suppress throttled",
    ];
    assert!(words.iter().eq(expected.iter()), "{words:?}");
}

// proves: PRF-09
#[test]
fn nothing_is_sent_for_a_profile_that_cannot_be_read() {
    let person = Person { profile: None, ..Person::default() };
    for channel in ChannelKind::ALL {
        for lane in Priority::ALL {
            let verdict = decide(&Ask { lane, ..Ask::new(channel) }, &person, &mut Clocks::at(Millis(0)));
            assert_eq!(verdict, Verdict::Defer { until: None, reason: Reason::ProfileUnresolved });
        }
    }
}
