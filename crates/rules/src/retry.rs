//! When to try again what was certainly not taken.
//!
//! Comes from: the outcome of an attempt that left a member deferred. Decides: the time of the next attempt, or that
//! there is none. Goes to: the `Outcome` record, as a due time, a dead letter or an expiry.
//!
//! What must never happen: an attempt at or after the expiry; an attempt before the provider wants it (up to
//! `RETRY_AFTER_MS_MAX`); a retry burnt by what is not the message's fault. What burns none ([`Cause::burns`]) is bounded
//! all the same: by the expiry, and by the pause or breaker of its scope, which lets nothing through meanwhile.

use crate::attempt::State;
use crate::ids::Millis;
use crate::limits::RETRY_AFTER_MS_MAX;
use crate::priority::Priority;

/// How long to wait after each failure; the last step repeats.
const LADDER_MS: [u64; 6] = [2_000, 8_000, 32_000, 128_000, 300_000, 300_000];

/// Whose doing it was that a message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The provider refused this message for now.
    Message,
    /// The endpoint could not be reached: no name, no connection, no TLS.
    Unreachable,
    /// The provider asked for a rest of everything in some scope, or gave the request back unprocessed.
    Scope,
    /// We did not begin in time: the deadline passed, or what it goes to is left alone.
    Ours,
    /// There was no room at a limit of ours, which says when the message comes back.
    NoRoom,
}

impl Cause {
    /// Whether the attempt counts. An unreachable endpoint counts although it may be the network's fault, because else
    /// a webhook whose host is gone would never become a dead letter; in an outage the breaker opens long before the
    /// retries of many messages are used up.
    #[must_use]
    pub fn burns(self) -> bool {
        match self {
            Self::Message | Self::Unreachable => true,
            Self::Scope | Self::Ours | Self::NoRoom => false,
        }
    }
}

/// An attempt after which the member is deferred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    pub lane: Priority,
    pub cause: Cause,
    /// Retries that were burnt before this attempt: earlier attempts that counted, resends not included.
    pub retries: u8,
    /// What the provider asked for.
    pub retry_after_ms: Option<u64>,
    /// Any number, evenly distributed.
    pub chance: u32,
    pub now: Millis,
    pub expires_at: Millis,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    At(Millis),
    /// The retries are used up.
    Dead,
    /// The next attempt would come too late.
    Expired,
}

/// How long to rest after so many failures in a row, one at least.
#[must_use]
pub fn rest_ms(failures: u32) -> u64 {
    let step = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
    LADDER_MS[step.min(LADDER_MS.len() - 1)]
}

/// Retries after the first attempt.
#[must_use]
pub fn retries_max(lane: Priority) -> u8 {
    match lane {
        Priority::Critical => 6,
        Priority::High => 4,
        Priority::Normal => 3,
        Priority::Low => 2,
    }
}

/// What a ledger keeps of the attempts of one delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tries {
    /// Those that counted: each has asked for a retry.
    pub failures: u8,
    /// Copies beyond the first.
    pub resends: u8,
    /// What waits was put off by us, before anything was sent.
    pub was_put_off: bool,
}

/// How often something was tried. A failure is counted when it is known, so what waits, or was given up after one, has
/// been tried as often as it failed; in every other state one more attempt has led there.
#[must_use]
pub fn attempts(state: State, tries: Tries, lane: Priority) -> u8 {
    let Tries { failures, resends, was_put_off } = tries;
    let failed = failures.saturating_add(resends);
    match state {
        State::Intent
        | State::Accepted
        | State::Delivered
        | State::Failed
        | State::Unknown
        | State::Unconfirmed => failed.saturating_add(1),
        State::Deferred if was_put_off => failed,
        // A provider that wants a rest was asked, although that counts for nothing.
        State::Deferred => failed.max(1),
        // What is malformed was refused by one more attempt; what was retried too often, by the last failure.
        State::Dead if failures <= retries_max(lane) => failed.saturating_add(1),
        State::Dead
        | State::Planned
        | State::Suppressed
        | State::Expired
        | State::Cancelled
        | State::Folded
        | State::Superseded => failed,
    }
}

#[must_use]
pub fn decide(ask: &Ask) -> Retry {
    // What is over is not worth an operator's look.
    if ask.now >= ask.expires_at {
        return Retry::Expired;
    }
    if ask.cause.burns() && ask.retries >= retries_max(ask.lane) {
        return Retry::Dead;
    }
    let at = ask.now.plus(delay_ms(ask));
    if at >= ask.expires_at { Retry::Expired } else { Retry::At(at) }
}

/// Half of the ladder's step, or what the provider asked for if that is longer, and on top up to the other half by
/// chance. So no delay is below half its step (drawn from the whole step, some would hit the provider again at once),
/// none of our own is above it, and thousands of messages with the same Retry-After do not come back together. A message
/// that found no room comes back exactly when it was told to.
fn delay_ms(ask: &Ask) -> u64 {
    let asked = ask.retry_after_ms.unwrap_or(0).min(RETRY_AFTER_MS_MAX);
    let step = match ask.cause {
        // Slots are spread already, one after the other.
        Cause::NoRoom => return asked,
        Cause::Message | Cause::Unreachable | Cause::Scope => {
            LADDER_MS[usize::from(ask.retries).min(LADDER_MS.len() - 1)]
        }
        Cause::Ours => LADDER_MS[0],
    };
    let half = step / 2;
    let spread = half * u64::from(ask.chance) / u64::from(u32::MAX);
    half.max(asked) + spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Millis = Millis(1_000_000);
    const FAILED: Ask = Ask {
        lane: Priority::Normal,
        cause: Cause::Message,
        retries: 0,
        retry_after_ms: None,
        chance: u32::MAX,
        now: NOW,
        expires_at: Millis(NOW.0 + 86_400_000),
    };

    fn check(ask: Ask, expected: Retry) {
        assert_eq!(decide(&ask), expected, "{ask:?}");
    }

    fn after(ms: u64) -> Retry {
        Retry::At(NOW.plus(ms))
    }

    // proves: TRK-06, DEL-05
    #[test]
    fn attempts_are_those_that_were_made() {
        for (state, failures, resends, expected) in [
            (State::Planned, 0, 0, 0),
            (State::Suppressed, 0, 0, 0),
            (State::Expired, 0, 0, 0),
            (State::Intent, 0, 0, 1),
            (State::Deferred, 0, 0, 1),
            (State::Deferred, 1, 0, 1),
            (State::Deferred, 2, 0, 2),
            (State::Accepted, 0, 0, 1),
            (State::Accepted, 1, 0, 2),
            (State::Delivered, 2, 1, 4),
            (State::Unconfirmed, 0, 1, 2),
            (State::Expired, 2, 0, 2),
            (State::Cancelled, 1, 0, 1),
            (State::Dead, 0, 0, 1),
            (State::Dead, 1, 0, 2),
            (State::Dead, 4, 0, 4),
        ] {
            let tries = Tries { failures, resends, was_put_off: false };
            let made = attempts(state, tries, Priority::Normal);
            assert_eq!(made, expected, "{state:?} after {failures} failures and {resends} resends");
        }
    }

    // fixes: usability §3.17
    #[test]
    fn what_we_put_off_was_not_tried() {
        for (state, failures, expected) in
            [(State::Deferred, 0, 0), (State::Deferred, 2, 2), (State::Accepted, 0, 1)]
        {
            let tries = Tries { failures, resends: 0, was_put_off: true };
            assert_eq!(attempts(state, tries, Priority::Normal), expected, "{state:?}");
        }
    }

    // proves: DEL-05
    #[test]
    fn failures_climb_the_ladder_and_end_as_dead_letters() {
        for (lane, ladder) in [
            (Priority::Critical, &[2_000, 8_000, 32_000, 128_000, 300_000, 300_000][..]),
            (Priority::High, &[2_000, 8_000, 32_000, 128_000]),
            (Priority::Normal, &[2_000, 8_000, 32_000]),
            (Priority::Low, &[2_000, 8_000]),
        ] {
            for cause in [Cause::Message, Cause::Unreachable] {
                let ask = |retries| Ask { lane, cause, retries, ..FAILED };
                for (retries, step) in (0u8..).zip(ladder) {
                    check(ask(retries), after(*step));
                    check(Ask { chance: 0, ..ask(retries) }, after(step / 2));
                }
                assert_eq!(usize::from(retries_max(lane)), ladder.len());
                check(ask(retries_max(lane)), Retry::Dead);
                check(ask(u8::MAX), Retry::Dead);
            }
        }
    }

    // proves: DED-05
    #[test]
    fn what_is_not_the_messages_fault_burns_nothing() {
        for (cause, burns) in [
            (Cause::Message, true),
            (Cause::Unreachable, true),
            (Cause::Scope, false),
            (Cause::Ours, false),
            (Cause::NoRoom, false),
        ] {
            assert_eq!(cause.burns(), burns, "{cause:?}");
        }
        check(Ask { cause: Cause::Scope, retries: 3, ..FAILED }, after(128_000));
        check(Ask { cause: Cause::Scope, retries: u8::MAX, ..FAILED }, after(300_000));
        check(Ask { cause: Cause::Ours, retries: 3, ..FAILED }, after(2_000));
    }

    // fixes: interop F1, torture 8
    #[test]
    fn what_waits_for_us_does_not_climb_the_ladder() {
        let waits =
            |cause, retry_after_ms| Ask { cause, retries: 4, retry_after_ms: Some(retry_after_ms), ..FAILED };
        check(waits(Cause::NoRoom, 0), after(0));
        check(waits(Cause::NoRoom, 17_123), after(17_123));
        check(waits(Cause::Ours, 30_000), after(31_000));
        check(waits(Cause::Ours, 0), after(2_000));
    }

    #[test]
    fn providers_are_obeyed_up_to_an_hour() {
        let asked = |retry_after_ms, chance| Ask { retry_after_ms: Some(retry_after_ms), chance, ..FAILED };
        check(asked(0, 0), after(1_000));
        check(asked(700, 0), after(1_000));
        check(asked(1_500, 0), after(1_500));
        check(asked(60_000, 0), after(60_000));
        check(asked(60_000, u32::MAX), after(61_000));
        check(asked(u64::MAX, 0), after(3_600_000));
    }

    // proves: DEL-19
    #[test]
    fn nothing_is_tried_at_or_after_its_expiry() {
        let expiring = |in_ms| Ask { expires_at: NOW.plus(in_ms), ..FAILED };
        check(expiring(2_001), after(2_000));
        check(expiring(2_000), Retry::Expired);
        check(expiring(1), Retry::Expired);
        check(expiring(0), Retry::Expired);
        check(Ask { retries: 9, ..expiring(2_000) }, Retry::Dead);
        check(Ask { retries: 9, ..expiring(0) }, Retry::Expired);
        check(Ask { cause: Cause::Ours, retries: 9, ..expiring(2_000) }, Retry::Expired);
        check(Ask { retry_after_ms: Some(5_000), ..expiring(5_000) }, Retry::Expired);
    }

    proptest! {
        #[test]
        fn every_retry_is_in_its_bounds(
            lane in 0u8..4, cause in 0usize..4, retries in 0u8..10, asked in proptest::option::of(0u64..10_000_000),
            chance: u32, lifetime in 0u64..100_000_000,
        ) {
            let cause = [Cause::Message, Cause::Unreachable, Cause::Scope, Cause::Ours][cause];
            let expires_at = NOW.plus(lifetime);
            let ask = Ask {
                lane: Priority::from_stored(lane), cause, retries, retry_after_ms: asked, chance, now: NOW, expires_at,
            };
            if let Retry::At(at) = decide(&ask) {
                let asked = asked.unwrap_or(0).min(RETRY_AFTER_MS_MAX);
                prop_assert!(at < expires_at);
                prop_assert!(at.since(NOW) >= asked.max(LADDER_MS[0] / 2));
                prop_assert!(at.since(NOW) <= asked + LADDER_MS[5]);
                prop_assert!(!cause.burns() || retries < retries_max(ask.lane));
            }
        }
    }
}
