//! Chains against what they promise.

use super::*;
use ChannelKind::{Email, InApp, Push, Sms, Webhook};

const NO_RECEIPT: Step = Step { channel: Sms, when: Condition::NoReceipt, after_seconds: 30 };
const NOT_SEEN: Step = Step { channel: Email, when: Condition::NotSeen, after_seconds: 600 };
const FAILED: Step = Step { channel: Sms, when: Condition::Failed, after_seconds: 0 };

fn set(kinds: &[ChannelKind]) -> ChannelSet {
    kinds.iter().copied().collect()
}

// proves: DEL-17
#[test]
fn an_event_has_the_steps_that_it_goes_by() {
    let said = [NO_RECEIPT, NOT_SEEN];
    // (channels, at once, steps)
    for (channels, at_once, steps) in [
        (&[Push, InApp, Sms, Email][..], &[Push][..], &[Sms, Email][..]),
        (&[Push, Webhook, Email][..], &[Push, Webhook][..], &[Email][..]),
        (&[Sms][..], &[][..], &[Sms][..]),
        (&[Push, InApp][..], &[][..], &[][..]),
        (&[][..], &[][..], &[][..]),
    ] {
        let chain = Chain::of(&said, set(channels));
        assert_eq!(chain.at_once(), set(at_once), "{channels:?}");
        assert_eq!(chain.steps().map(|step| step.channel).collect::<Vec<_>>(), steps, "{channels:?}");
        assert_eq!(chain.is_none(), steps.is_empty());
        let stored: Vec<Step> = chain.steps().collect();
        assert_eq!(Chain::from_stored(chain.at_once(), &stored), Some(chain));
    }
    assert_eq!(Chain::of(&[], ChannelSet::ALL), Chain::NONE);
    assert_eq!(Chain::from_stored(set(&[Sms]), &[NO_RECEIPT]), None, "a step is not sent at once");
}

// proves: DEL-17
#[test]
fn a_channel_knows_its_place() {
    let chain = Chain::of(&[NO_RECEIPT, NOT_SEEN], set(&[InApp, Push, Webhook, Sms, Email]));
    // (channel, is a step, all before, previous, behind)
    for (channel, is_step, before, previous, behind) in [
        (Push, false, None, None, &[Sms, Email][..]),
        (Webhook, false, None, None, &[Sms, Email][..]),
        (Sms, true, Some(&[Push, Webhook][..]), Some(&[Push, Webhook][..]), &[Email][..]),
        (Email, true, Some(&[Push, Webhook, Sms][..]), Some(&[Sms][..]), &[][..]),
        (InApp, false, None, None, &[][..]),
    ] {
        assert_eq!(chain.step(channel).is_some(), is_step, "{channel:?}");
        assert_eq!(chain.behind(channel).collect::<Vec<_>>(), behind, "{channel:?}");
        if let (Some(before), Some(previous)) = (before, previous) {
            assert_eq!((chain.before(channel), chain.previous(channel)), (set(before), set(previous)));
        }
    }
    assert_eq!(Chain::NONE.behind(Push).count(), 0);
}

/// What devices of one user say, by a channel that is the only one before.
fn told(states: &[State]) -> Before {
    let told = states.iter().fold(Told::default(), |told, state| told.and(*state, "", false));
    Before { all: told, previous: told }
}

// proves: DEL-17, DEL-18
#[test]
fn what_the_channel_before_says_decides() {
    use State::*;
    let (arrived, elsewhere) = (Turn::Spared(Spared::Arrived), Turn::Spared(Spared::Elsewhere));
    let failed = Turn::Now(Cause::Failed);
    let receipt = Turn::After { ms: 30_000, cause: Cause::NoReceipt };
    let seen = Turn::After { ms: 600_000, cause: Cause::NotSeen };
    // (devices, no receipt, not seen, failed)
    for (states, no_receipt, not_seen, fails) in [
        // Nobody is there.
        (&[][..], failed, seen, failed),
        (&[Planned][..], Turn::Waits, Turn::Waits, Turn::Waits),
        (&[Intent][..], Turn::Waits, Turn::Waits, Turn::Waits),
        (&[Deferred][..], Turn::Waits, Turn::Waits, Turn::Waits),
        (&[Accepted][..], receipt, seen, Turn::Waits),
        (&[Delivered][..], arrived, seen, arrived),
        (&[Failed][..], failed, seen, failed),
        (&[Suppressed][..], failed, seen, failed),
        (&[Expired][..], failed, seen, failed),
        (&[Cancelled][..], failed, seen, failed),
        (&[Dead][..], failed, seen, failed),
        // Silence is no failure until the wait for evidence is over.
        (&[Unknown][..], receipt, seen, Turn::Waits),
        (&[Unconfirmed][..], failed, seen, failed),
        (&[Folded][..], elsewhere, elsewhere, elsewhere),
        (&[Superseded][..], elsewhere, elsewhere, elsewhere),
        // Any device is the user; all of them have to fail.
        (&[Failed, Accepted][..], receipt, seen, Turn::Waits),
        (&[Failed, Deferred][..], Turn::Waits, Turn::Waits, Turn::Waits),
        (&[Failed, Delivered, Unknown][..], arrived, seen, arrived),
        (&[Accepted, Deferred][..], receipt, seen, Turn::Waits),
        (&[Failed, Suppressed, Dead][..], failed, seen, failed),
    ] {
        let before = told(states);
        assert_eq!(judge(NO_RECEIPT, &before), no_receipt, "no receipt, {states:?}");
        assert_eq!(judge(NOT_SEEN, &before), not_seen, "not seen, {states:?}");
        assert_eq!(judge(FAILED, &before), fails, "failed, {states:?}");
    }
}

#[test]
fn what_was_opened_was_seen() {
    let told = Told::default().and(State::Delivered, "opened", true);
    let before = Before { all: told, previous: Told::default() };
    for step in [NO_RECEIPT, NOT_SEEN, FAILED] {
        assert_eq!(judge(step, &before), Turn::Spared(Spared::Seen), "{step:?}");
    }
    let not_ours = Told::default().and(State::Failed, "opened", true);
    assert!(!not_ours.is_seen, "what failed was opened by nobody");
}

#[test]
fn why_a_step_was_spared_is_true_for_those_behind_it() {
    let (seen, arrived) = (Turn::Spared(Spared::Seen), Turn::Spared(Spared::Arrived));
    let elsewhere = Turn::Spared(Spared::Elsewhere);
    // What arrived may still not have been looked at.
    let looks = Turn::After { ms: 600_000, cause: Cause::NotSeen };
    for (spared, no_receipt, not_seen) in [
        (Spared::Seen, seen, seen),
        (Spared::Arrived, arrived, looks),
        (Spared::Sent, arrived, looks),
        (Spared::Elsewhere, elsewhere, elsewhere),
    ] {
        let told = Told::default().and(State::Suppressed, spared.word(), false);
        let before = Before { all: told, previous: told };
        for (step, expected) in [(NO_RECEIPT, no_receipt), (FAILED, no_receipt), (NOT_SEEN, not_seen)] {
            assert_eq!(judge(step, &before), expected, "{step:?} after {spared:?}");
        }
    }
    // One that may not be used spares nobody.
    let told = Told::default().and(State::Suppressed, "no_consent", false);
    assert_eq!(judge(FAILED, &Before { all: told, previous: told }), Turn::Now(Cause::Failed));
}

#[test]
fn an_earlier_channel_counts_though_the_previous_one_failed() {
    let arrived = Told::default().and(State::Delivered, "", false);
    let failed = Told::default().and(State::Failed, "", false);
    let before = Before { all: arrived.join(failed), previous: failed };
    assert_eq!(judge(FAILED, &before), Turn::Spared(Spared::Arrived));
    assert_eq!(judge(NO_RECEIPT, &before), Turn::Spared(Spared::Arrived));
}

#[test]
fn at_the_end_what_was_sent_needed_no_step() {
    use State::*;
    for (states, expected) in [
        (&[][..], None),
        (&[Deferred][..], None),
        (&[Unknown][..], None),
        (&[Failed, Accepted][..], Some(Spared::Sent)),
        (&[Delivered][..], Some(Spared::Arrived)),
    ] {
        assert_eq!(judge_at_end(&told(states)), expected, "{states:?}");
    }
}

#[test]
fn words_are_frozen() {
    assert_eq!(WAITING, "fallback_waiting");
    for (cause, word) in
        Cause::ALL.into_iter().zip(["fallback_no_receipt", "fallback_not_seen", "fallback_failed"])
    {
        assert_eq!((cause.word(), Cause::parse(word)), (word, Some(cause)));
    }
    let spared = ["fallback_arrived", "fallback_seen", "fallback_sent", "fallback_elsewhere"];
    for (spared, word) in Spared::ALL.into_iter().zip(spared) {
        assert_eq!((spared.word(), Spared::parse(word)), (word, Some(spared)));
    }
    assert_eq!((Cause::parse(WAITING), Spared::parse(WAITING)), (None, None));
}
