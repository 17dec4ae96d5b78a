//! The gates at their function: how many decisions one core makes in a second, on profiles as columns hold them.
//!
//! People as they are, roughly: two in five have quiet hours, one in ten has not agreed to push or has chosen something
//! about the category, one in five has caps; eight zones. They are asked in parcels of a thousand, each a little later
//! than the one before: on an ordinary evening, and in the night in which Europe puts its clocks back, when ends of windows
//! have to be looked up.

use super::planned;
use crate::Bench;
use crate::report::Row;
use anyhow::{Context, Result};
use fantail_rules::caps::{Caps, Pace, Used, When};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::gates::{Ask, Choice, Consent, Person, Profile, Verdict, decide};
use fantail_rules::ids::Millis;
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::wall::Clocks;
use fantail_rules::zone::ZoneNo;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// 2026-06-09 21:00 and 2026-10-24 21:00, UTC.
pub const EVENING: Millis = Millis(1_781_038_800_000);
const NIGHT_OF_CHANGE: Millis = Millis(1_792_875_600_000);
pub const PEOPLE: u64 = 100_000;
const PARCEL: usize = 1_000;
const GOAL_PER_SECOND: f64 = 5e6;
pub const ZONES: [&str; 8] = [
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Sao_Paulo",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Africa/Lagos",
    "Australia/Sydney",
];

pub fn run(bench: &mut Bench) -> Result<()> {
    let limit = bench.scale.fsync_loop;
    let crowd = Crowd::new()?;
    for (what, now) in [("an ordinary evening", EVENING), ("the night of a change", NIGHT_OF_CHANGE)] {
        let (decided, spent, allowed) = measure(&crowd, now, limit);
        let rate = decided as f64 / spent.as_secs_f64();
        let row =
            Row::new("gates", format!("decisions of the whole cascade, one core, {what}"), "none needed")
                .fact("rate", rate, "/s")
                .fact("each", spent.as_secs_f64() * 1e9 / decided.max(1) as f64, " ns")
                .fact("allowed", 100.0 * allowed as f64 / decided.max(1) as f64, " %")
                .at_least(GOAL_PER_SECOND, rate, "/s");
        bench.report.add(row);
    }
    planned::run(bench)
}

fn measure(crowd: &Crowd, now: Millis, limit: Duration) -> (u64, Duration, u64) {
    let (mut decided, mut allowed, began) = (0, 0, Instant::now());
    let mut clocks = Clocks::at(now);
    while began.elapsed() < limit {
        allowed += crowd.decide_once(&mut clocks);
        decided += PEOPLE;
    }
    (decided, began.elapsed(), allowed)
}

/// What stands in the columns about one user.
struct Columns {
    profile: u64,
    choice: Option<Choice>,
    caps: Caps,
    used: [u8; 12],
}

pub struct Crowd {
    people: Vec<Columns>,
    ask: Ask,
}

impl Crowd {
    pub fn new() -> Result<Self> {
        let zones = ZONES.map(ZoneNo::find);
        let mut chance = Chance(1);
        let people = (0..PEOPLE).map(|_| somebody(&zones, &mut chance)).collect::<Result<_>>()?;
        let pace = Some(Pace { burst: 10, refill_seconds: 60 });
        Ok(Self { people, ask: Ask { pace, ..Ask::new(ChannelKind::Push) } })
    }

    /// Everybody, in parcels; how many may be sent to.
    pub fn decide_once(&self, clocks: &mut Clocks) -> u64 {
        let mut allowed = 0;
        for parcel in self.people.chunks(PARCEL) {
            clocks.set_now(clocks.now().plus(1));
            for columns in parcel {
                let person = Person {
                    profile: Profile::from_stored(columns.profile),
                    choice: columns.choice,
                    caps: columns.caps,
                    used: Used::from_stored(columns.used),
                    from: Millis(0),
                    is_throttled: false,
                };
                let verdict = black_box(decide(black_box(&self.ask), &person, clocks));
                allowed += u64::from(verdict == Verdict::Allow);
            }
        }
        allowed
    }
}

/// The evening that [`Crowd::decide_once`] is counted on.
pub fn evening() -> Clocks {
    Clocks::at(EVENING)
}

fn somebody(zones: &[Option<ZoneNo>], chance: &mut Chance) -> Result<Columns> {
    let zone = zones[chance.below(zones.len() as u64) as usize].context("a zone is not listed")?;
    let times = Times {
        start_minute: 21 * 60 + chance.below(180) as u16,
        end_minute: 6 * 60 + chance.below(180) as u16,
    };
    let quiet = Window::new(times, Days::ALL).filter(|_| chance.below(10) < 4);
    let mut profile = Profile { quiet, zone, global_off: chance.below(50) == 0, ..Profile::default() };
    if chance.below(10) > 0 {
        profile.consents = profile.consents.with(ChannelKind::Push, Consent::Granted);
    }
    if chance.below(20) == 0 {
        profile.channels_off = profile.channels_off.with(ChannelKind::Push);
    }
    let choice = Choice { is_off: chance.below(2) == 0, ..Choice::default() };
    let has_caps = chance.below(5) == 0;
    let lately = When::new(EVENING, None);
    let used = (0..chance.below(6)).fold(Used::default(), |used, _| used.counted(None, lately));
    Ok(Columns {
        profile: profile.to_word(),
        choice: (chance.below(10) == 0).then_some(choice),
        caps: if has_caps { Caps { per_hour: 5, per_day: 20 } } else { Caps::default() },
        used: used.to_bytes(),
    })
}

/// The same people in every run.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}
