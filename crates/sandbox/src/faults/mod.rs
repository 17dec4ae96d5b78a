//! What an emulator does wrong on purpose: a profile per emulator, changeable while it runs.
//!
//! What must never happen: a draw that depends on anything but the seed and what was asked. Two runs with the same seed
//! and the same order of calls (or the same message ids) are treated alike.

pub mod dice;

pub mod profile;

pub use profile::{Profile, ProfileError};

use dice::Dice;
use profile::Latency;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Messages whose attempts are counted; beyond it counting begins anew.
const ATTEMPTS_MAX: usize = 1_000_000;
/// Keys that have a quota of their own (projects, senders).
const WINDOWS_MAX: usize = 10_000;

/// What becomes of one call.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Fate {
    pub delay_ms: u64,
    pub deed: Deed,
    pub slow_read_ms: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Deed {
    #[default]
    Answer,
    /// An error of this kind, in the provider's own shape; nothing arrives.
    Error(String),
    /// Nothing arrives, nothing is answered.
    BlackHole,
    /// It arrives; then the connection is closed without an answer.
    LoseConnection,
    /// It arrives, and no answer ever comes.
    LoseAnswer,
    /// It arrives; then a gateway gives up waiting and answers 504 with a page of its own.
    GatewayTimeout,
}

/// How a receipt (a callback, an event) is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    pub copies: u32,
    pub delay_ms: u64,
}

/// What a profile says about one call; the same for the same profile and key.
#[must_use]
pub fn fate(profile: &Profile, key: u64) -> Fate {
    let mut dice = Dice::new(profile.seed, key);
    let delay_ms = latency_ms(&profile.latency, &mut dice);
    let slow_read_ms = if dice.below_one() < profile.slow_read.share { profile.slow_read.ms } else { 0 };
    let mut left = dice.below_one();
    let mut hits = |share: f64| {
        let hit = left < share;
        left -= share;
        hit
    };
    let deed = if hits(profile.black_hole) {
        Deed::BlackHole
    } else if hits(profile.lose_connection) {
        Deed::LoseConnection
    } else if hits(profile.lose_answer) {
        Deed::LoseAnswer
    } else if hits(profile.gateway_timeout) {
        Deed::GatewayTimeout
    } else {
        let kind = profile.errors.iter().find(|(_, share)| hits(**share));
        kind.map_or(Deed::Answer, |(kind, _)| Deed::Error(kind.clone()))
    };
    Fate { delay_ms, deed, slow_read_ms }
}

#[must_use]
pub fn receipt(profile: &Profile, key: u64) -> Receipt {
    let mut dice = Dice::new(profile.seed, key ^ 0x5eed_0000_7ece_1975);
    let copies = if dice.below_one() < profile.receipts.duplicate_share { 2 } else { 1 };
    let delay_ms = if dice.below_one() < profile.receipts.late_share { profile.receipts.late_ms } else { 0 };
    Receipt { copies, delay_ms }
}

fn latency_ms(latency: &Latency, dice: &mut Dice) -> u64 {
    match latency {
        Latency::None => 0,
        Latency::Fixed { ms } => *ms,
        Latency::Uniform { ms_min, ms_max } => {
            let span = (ms_max - ms_min) as f64 + 1.0;
            ms_min + (dice.below_one() * span) as u64
        }
        Latency::LogNormal { ms_median, sigma, ms_max } => {
            let ms = (*ms_median as f64) * (sigma * dice.normal()).exp();
            (ms as u64).min(*ms_max)
        }
    }
}

/// The profiles of all emulators, and what was counted under them.
#[derive(Debug, Default)]
pub struct Faults {
    states: Mutex<BTreeMap<String, State>>,
}

#[derive(Debug, Default)]
struct State {
    profile: Arc<Profile>,
    calls: u64,
    attempts: HashMap<String, u64>,
    windows: HashMap<String, Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    began_ms: u64,
    taken: u64,
}

impl Faults {
    #[must_use]
    pub fn profile(&self, emulator: &str) -> Arc<Profile> {
        self.with(emulator, |state| Arc::clone(&state.profile)).unwrap_or_default()
    }

    /// Counting begins anew: a profile that is set twice does the same twice.
    pub fn set(&self, emulator: &str, profile: Profile) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.insert(emulator.to_owned(), State { profile: Arc::new(profile), ..State::default() });
    }

    /// The fate of the next call; of this message's next attempt if the profile goes by message.
    #[must_use]
    pub fn next(&self, emulator: &str, message: Option<&str>) -> Fate {
        self.with(emulator, |state| {
            if state.profile.is_quiet() {
                return Fate::default();
            }
            let key = state.key(message);
            fate(&state.profile, key)
        })
        .unwrap_or_default()
    }

    #[must_use]
    pub fn receipt(&self, emulator: &str, message: &str) -> Receipt {
        let profile = self.profile(emulator);
        receipt(&profile, dice::hash(message.as_bytes()))
    }

    /// How long `key` has to wait, if it used up its window. Windows begin with their first call, not with the minute.
    pub fn over_quota(&self, emulator: &str, key: &str, now_ms: u64) -> Option<u64> {
        self.with(emulator, |state| {
            let quota = state.profile.quota?;
            if state.windows.len() >= WINDOWS_MAX && !state.windows.contains_key(key) {
                state.windows.retain(|_, window| now_ms < window.began_ms + quota.window_ms);
            }
            let window = state.windows.entry(key.to_owned()).or_insert(Window { began_ms: now_ms, taken: 0 });
            if now_ms >= window.began_ms + quota.window_ms {
                *window = Window { began_ms: now_ms, taken: 0 };
            }
            if window.taken >= quota.count {
                return Some((window.began_ms + quota.window_ms).saturating_sub(now_ms).max(1));
            }
            window.taken += 1;
            None
        })
        .flatten()
    }

    fn with<T>(&self, emulator: &str, ask: impl FnOnce(&mut State) -> T) -> Option<T> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.get_mut(emulator).map(ask)
    }
}

impl State {
    fn key(&mut self, message: Option<&str>) -> u64 {
        self.calls += 1;
        let Some(message) = message.filter(|_| self.profile.by_message) else { return self.calls };
        if self.attempts.len() >= ATTEMPTS_MAX {
            self.attempts.clear();
        }
        let attempts = self.attempts.entry(message.to_owned()).or_default();
        *attempts += 1;
        // An attempt has its own luck: otherwise what failed once would fail for ever.
        dice::hash(message.as_bytes()).wrapping_add(*attempts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn profile() -> Profile {
        let text = json!({
            "seed": 7,
            "latency": {"kind": "logNormal", "msMedian": 20, "sigma": 0.5, "msMax": 400},
            "errors": {"ServiceUnavailable": 0.05, "TooManyRequests": 0.1},
            "loseConnection": 0.01, "loseAnswer": 0.02, "blackHole": 0.03,
            "slowRead": {"share": 0.1, "ms": 50},
            "receipts": {"duplicateShare": 0.5, "lateShare": 0.25, "lateMs": 900},
        });
        Profile::read(&text).expect("a profile")
    }

    #[test]
    fn the_same_seed_gives_the_same_fates() {
        let (one, other) = (Faults::default(), Faults::default());
        one.set("apns", profile());
        other.set("apns", profile());
        let draw = |faults: &Faults| -> Vec<Fate> { (0..2_000).map(|_| faults.next("apns", None)).collect() };
        let first = draw(&one);
        assert_eq!(first, draw(&other));
        assert_ne!(first, draw(&one), "later calls have fates of their own");
        one.set("apns", profile());
        assert_eq!(first, draw(&one), "a profile that is set again begins again");
        let elsewhere = Profile { seed: 8, ..profile() };
        assert_ne!(fate(&profile(), 1).delay_ms, fate(&elsewhere, 1).delay_ms);
    }

    #[test]
    fn fates_by_message_do_not_depend_on_the_order() {
        let by_message = Profile { by_message: true, ..profile() };
        let (one, other) = (Faults::default(), Faults::default());
        one.set("fcm", by_message.clone());
        other.set("fcm", by_message);
        let ids: Vec<String> = (0..500).map(|no| format!("m{no}")).collect();
        let forward: Vec<Fate> = ids.iter().map(|id| one.next("fcm", Some(id))).collect();
        let mut backward: Vec<Fate> = ids.iter().rev().map(|id| other.next("fcm", Some(id))).collect();
        backward.reverse();
        assert_eq!(forward, backward);
        assert_ne!(forward, ids.iter().map(|id| one.next("fcm", Some(id))).collect::<Vec<_>>());
    }

    #[test]
    fn shares_are_kept() {
        let profile = profile();
        let count = |wanted: &dyn Fn(&Fate) -> bool| {
            (0..100_000_u64).filter(|key| wanted(&fate(&profile, *key))).count()
        };
        for (share, wanted) in [
            (3_000, &(|fate: &Fate| fate.deed == Deed::BlackHole) as &dyn Fn(&Fate) -> bool),
            (1_000, &|fate| fate.deed == Deed::LoseConnection),
            (2_000, &|fate| fate.deed == Deed::LoseAnswer),
            (5_000, &|fate| fate.deed == Deed::Error("ServiceUnavailable".to_owned())),
            (10_000, &|fate| fate.deed == Deed::Error("TooManyRequests".to_owned())),
            (10_000, &|fate| fate.slow_read_ms == 50),
            (50_000, &|fate| fate.delay_ms < 20),
        ] {
            let found = count(wanted);
            assert!(found.abs_diff(share) < 500 + share / 20, "{found} instead of {share}");
        }
        assert!((0..100_000).all(|key| fate(&profile, key).delay_ms <= 400));
    }

    #[test]
    fn receipts_are_doubled_and_late_in_their_shares() {
        let told: Vec<Receipt> = (0..10_000).map(|key| receipt(&profile(), key)).collect();
        let doubled = told.iter().filter(|receipt| receipt.copies == 2).count();
        let late = told.iter().filter(|receipt| receipt.delay_ms == 900).count();
        assert!(doubled.abs_diff(5_000) < 300 && late.abs_diff(2_500) < 300, "{doubled} {late}");
    }

    #[test]
    fn windows_begin_with_their_first_call() {
        let faults = Faults::default();
        assert_eq!(faults.over_quota("fcm", "p", 5), None, "no profile, no quota");
        let quota = json!({"quota": {"count": 2, "windowMs": 60_000}});
        faults.set("fcm", Profile::read(&quota).expect("a profile"));
        for (at, key, expected) in [
            (50_000, "p", None),
            (50_001, "p", None),
            (60_000, "p", Some(50_000)),
            (60_000, "q", None),
            (109_999, "p", Some(1)),
            (110_000, "p", None),
        ] {
            assert_eq!(faults.over_quota("fcm", key, at), expected, "{key} at {at}");
        }
    }
}
