//! The gates that measure: one of a kind, enough for this hour or day, and "tell me once a day".
//!
//! What is too much is dropped or collected, as the category's policy says. What the user wants in a digest goes there,
//! except to the inbox, which is read when the user likes. What is critical passes all, and is counted all the same when
//! the verdict is folded.

use super::{Ask, Choice, Fold, Frequency, Overflow, Person, Reason, Verdict};
use crate::caps::When;

#[must_use]
pub fn check(ask: &Ask, person: &Person, when: When) -> Option<Verdict> {
    if ask.is_critical() || !person.used.would_exceed(person.caps, ask.pace, when) {
        return None;
    }
    Some(match ask.policy.overflow {
        Overflow::Drop => Verdict::Suppress(Reason::FrequencyCapped),
        Overflow::Fold => Verdict::Fold(Fold::Capped),
    })
}

/// One of a kind, then none for a while. It is not told later or in a digest either.
#[must_use]
pub fn check_throttle(ask: &Ask, person: &Person) -> Option<Verdict> {
    let is_too_soon = person.is_throttled && !ask.is_critical();
    is_too_soon.then_some(Verdict::Suppress(Reason::Throttled))
}

#[must_use]
pub fn check_digest(ask: &Ask, choice: &Choice) -> Option<Verdict> {
    if ask.is_critical() || !ask.interrupts() {
        return None;
    }
    match choice.frequency {
        Frequency::Immediate => None,
        Frequency::Daily => Some(Verdict::Fold(Fold::Daily)),
        Frequency::Weekly => Some(Verdict::Fold(Fold::Weekly)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::{Caps, Pace, Used};
    use crate::channel_kind::ChannelKind;
    use crate::gates::Policy;
    use crate::ids::Millis;
    use crate::priority::Priority;

    const WHEN_MS: u64 = 1_780_963_200_000;

    // proves: PRF-02, DEL-18, RL-01, RL-03
    #[test]
    fn too_much_is_dropped_or_collected() {
        let when = When::new(Millis(WHEN_MS), None);
        let pace = Pace { burst: 1, refill_seconds: 60 };
        let used = Used::default().counted(Some(pace), when);
        let (capped, free) = (Caps { per_hour: 1, per_day: 0 }, Caps::default());
        let push = Ask::new(ChannelKind::Push);
        let paced = Ask { pace: Some(pace), ..push };
        let folding = Policy { overflow: Overflow::Fold, ..Policy::default() };
        let dropped = Some(Verdict::Suppress(Reason::FrequencyCapped));
        for (ask, caps, expected) in [
            (push, free, None),
            (push, capped, dropped),
            (paced, free, dropped),
            (Ask { policy: folding, ..push }, capped, Some(Verdict::Fold(Fold::Capped))),
            (Ask { policy: folding, ..paced }, free, Some(Verdict::Fold(Fold::Capped))),
            (Ask { lane: Priority::Critical, ..paced }, capped, None),
        ] {
            let person = Person { caps, used, ..Person::default() };
            assert_eq!(check(&ask, &person, when), expected, "{ask:?} {caps:?}");
        }
    }

    // proves: DEL-18
    #[test]
    fn one_of_a_kind_is_enough_unless_it_is_critical() {
        let person = |is_throttled| Person { is_throttled, ..Person::default() };
        let push = Ask::new(ChannelKind::Push);
        let critical = Ask { lane: Priority::Critical, ..push };
        for (ask, is_throttled, expected) in [
            (push, false, None),
            (push, true, Some(Verdict::Suppress(Reason::Throttled))),
            (critical, true, None),
        ] {
            assert_eq!(check_throttle(&ask, &person(is_throttled)), expected, "{ask:?}");
        }
    }

    // proves: PRF-01
    #[test]
    fn digests_are_for_what_rings() {
        let choice = |frequency| Choice { frequency, ..Choice::default() };
        let push = Ask::new(ChannelKind::Push);
        for (ask, frequency, expected) in [
            (push, Frequency::Immediate, None),
            (push, Frequency::Daily, Some(Verdict::Fold(Fold::Daily))),
            (push, Frequency::Weekly, Some(Verdict::Fold(Fold::Weekly))),
            (Ask { lane: Priority::Critical, ..push }, Frequency::Daily, None),
            (Ask::new(ChannelKind::InApp), Frequency::Daily, None),
        ] {
            assert_eq!(check_digest(&ask, &choice(frequency)), expected, "{ask:?} {frequency:?}");
        }
    }
}
