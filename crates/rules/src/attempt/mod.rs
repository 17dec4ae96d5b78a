//! What can happen to one delivery: one pure function, every step of every member goes through it.
//!
//! ```text
//! Planned, Deferred ─┬─ authorise ──────────────► Intent
//!                    ├─ defer ──────────────────► Deferred
//!                    └─ suppress, expire, cancel,
//!                       fold, supersede ────────► Suppressed, Expired, Cancelled, Folded, Superseded
//! Intent ─┬─ accepted ──────────────────────────► Accepted ── bounce ──► Failed
//!         ├─ rejected ──────────────────────────► Failed
//!         ├─ later, not sent ───────────────────► Deferred ── exhausted ──► Dead
//!         ├─ malformed (also before Intent) ────► Dead ─┬─ redrive ──► Deferred
//!         │                                             └─ drop ─────► Cancelled
//!         └─ unanswered, orphaned ──────────────► Unknown ─┬─ resolved ──► Accepted, Failed, Deferred (if not sent)
//!                                                          ├─ resend ────► Intent
//!                                                          └─ give up ───► Unconfirmed ─ resolved ─► Accepted, Failed
//! everything but Planned ── receipt delivered ──► Delivered
//! ```
//! Comes from: verdicts of the gates, answers of providers, receipts, timers, operators, and a new leader's first look.
//! Decides: the next state, or that the step is refused and nothing changes. Goes to: the ledger, through a record.
//!
//! What must never happen: a way back from `Intent` to anything that may be sent again, other than by proof that it was
//! not taken or by a counted resend; a `Delivered` that is taken back; a redrive of what a provider may have. Not here:
//! reasons, due times, attempt counts. They stand beside the state, in the ledger.

mod resolve;

#[cfg(test)]
mod explorer;

pub use resolve::{Ask, Class, Lookup, Resolution, evidence_wait_ms, resolve_unknown};

/// Where a delivery stands. Frozen numbers: the ledger stores them in four bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum State {
    /// Exists; nothing was decided.
    Planned = 0,
    /// May be sent, once, by the leader that wrote this: from here on it may have been.
    Intent = 1,
    /// The provider has it.
    Accepted = 2,
    /// The recipient has it.
    Delivered = 3,
    /// The provider refused it for good, or it bounced.
    Failed = 4,
    /// A gate said no.
    Suppressed = 5,
    /// Certainly not sent by the latest attempt; waits until a due time.
    Deferred = 6,
    /// Its time to live ended first.
    Expired = 7,
    /// Called off.
    Cancelled = 8,
    /// Told as part of a digest.
    Folded = 9,
    /// A newer event of the same collapse key took its place.
    Superseded = 10,
    /// May or may not have been sent; evidence is awaited.
    Unknown = 11,
    /// May or may not have been sent; no evidence came, and another copy would be worse.
    Unconfirmed = 12,
    /// In the dead-letter queue: retries were used up, or the payload is poison.
    Dead = 13,
}

impl State {
    /// In the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::Planned,
        Self::Intent,
        Self::Accepted,
        Self::Delivered,
        Self::Failed,
        Self::Suppressed,
        Self::Deferred,
        Self::Expired,
        Self::Cancelled,
        Self::Folded,
        Self::Superseded,
        Self::Unknown,
        Self::Unconfirmed,
        Self::Dead,
    ];

    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Nothing more will be tried. Evidence may still say better how it ended, and an operator may redrive the dead.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Planned | Self::Intent | Self::Deferred | Self::Unknown => false,
            Self::Accepted
            | Self::Delivered
            | Self::Failed
            | Self::Suppressed
            | Self::Expired
            | Self::Cancelled
            | Self::Folded
            | Self::Superseded
            | Self::Unconfirmed
            | Self::Dead => true,
        }
    }

    /// As the API says it.
    #[must_use]
    pub fn public_word(self) -> &'static str {
        match self {
            Self::Planned => "queued",
            Self::Intent => "sending",
            Self::Accepted => "sent",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Suppressed => "suppressed",
            Self::Deferred => "deferred",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Folded => "digested",
            Self::Superseded => "superseded",
            Self::Unknown => "unknown",
            Self::Unconfirmed => "unconfirmed",
            Self::Dead => "dead",
        }
    }
}

/// Everything that can happen to a delivery.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    // Decisions, before anything is sent: what the gates said when the parcel was planned.
    Authorise,
    Suppress,
    Defer,
    Expire,
    Cancel,
    Fold,
    Supersede,

    // The answer to the attempt in flight, written by the leader that sent it.
    Accepted,
    /// Refused for good.
    Rejected,
    /// Refused for now.
    Later,
    /// Proof that the provider cannot have it.
    NotSent,
    /// Ended without an answer.
    Unanswered,
    /// The payload can never be sent: found by the provider, or by us before sending.
    Malformed,
    /// A new leader found the Intent of an older one without an outcome.
    Orphaned,

    // Evidence about an attempt that ended without an answer: a late answer, or a lookup.
    /// The provider has it, by whichever attempt.
    ResolvedAccepted,
    /// The attempt *that is unknown now* was refused for good; what became of an earlier one says nothing about it.
    ResolvedFailed,
    /// Proof that the attempt *that is unknown now* was not taken. A lookup that finds nothing is no proof: the message
    /// may still be under way.
    ResolvedNotSent,
    // And what is done when evidence did not come in time.
    /// Authorises another copy.
    Resend,
    GiveUp,

    // Receipts: any time, in any order, more than once.
    ReceiptDelivered,
    /// A bounce.
    ReceiptFailed,

    /// The retries are used up.
    Exhausted,
    // Operators, about the dead-letter queue.
    Redrive,
    Drop,
}

/// The step cannot happen in this state; nothing changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    pub state: State,
    pub step: Step,
}

/// The state after a step. The same state means that the step said nothing new, as repeats and late news do.
pub fn next(state: State, step: Step) -> Result<State, Refused> {
    let after = match step {
        Step::Authorise => decided(state, State::Intent),
        Step::Suppress => decided(state, State::Suppressed),
        Step::Defer => decided(state, State::Deferred),
        Step::Expire => decided(state, State::Expired),
        Step::Cancel => decided(state, State::Cancelled),
        Step::Fold => decided(state, State::Folded),
        Step::Supersede => decided(state, State::Superseded),
        Step::Accepted => answered(state, State::Accepted),
        Step::Rejected => answered(state, State::Failed),
        Step::Later | Step::NotSent => answered(state, State::Deferred),
        Step::Unanswered => answered(state, State::Unknown),
        Step::Malformed => decided(state, State::Dead).or_else(|| answered(state, State::Dead)),
        Step::Orphaned => only(state, State::Intent, State::Unknown),
        Step::ResolvedAccepted => found_accepted(state),
        Step::ResolvedFailed => found_otherwise(state, State::Failed, State::Failed),
        // What was given up is not opened again: its time is over.
        Step::ResolvedNotSent => found_otherwise(state, State::Deferred, State::Unconfirmed),
        Step::Resend => only(state, State::Unknown, State::Intent),
        Step::GiveUp => only(state, State::Unknown, State::Unconfirmed),
        // Somebody has it: nothing that was decided since makes that untrue. Without an Intent there was no message,
        // so a receipt for it is not one of ours.
        Step::ReceiptDelivered => (state != State::Planned).then_some(State::Delivered),
        Step::ReceiptFailed => bounced(state),
        Step::Exhausted => only(state, State::Deferred, State::Dead),
        Step::Redrive => only(state, State::Dead, State::Deferred),
        Step::Drop => only(state, State::Dead, State::Cancelled),
    };
    after.ok_or(Refused { state, step })
}

fn only(state: State, from: State, to: State) -> Option<State> {
    (state == from).then_some(to)
}

/// Decisions are for what certainly is not under way: not planned yet, or waiting for another attempt.
fn decided(state: State, to: State) -> Option<State> {
    match state {
        State::Planned | State::Deferred => Some(to),
        State::Intent
        | State::Accepted
        | State::Delivered
        | State::Failed
        | State::Suppressed
        | State::Expired
        | State::Cancelled
        | State::Folded
        | State::Superseded
        | State::Unknown
        | State::Unconfirmed
        | State::Dead => None,
    }
}

/// An answer settles its Intent. Evidence can be faster (a receipt overtakes the outcome); then the answer is old news.
fn answered(state: State, to: State) -> Option<State> {
    match state {
        State::Intent => Some(to),
        State::Accepted | State::Delivered | State::Failed => Some(state),
        State::Planned
        | State::Suppressed
        | State::Deferred
        | State::Expired
        | State::Cancelled
        | State::Folded
        | State::Superseded
        | State::Unknown
        | State::Unconfirmed
        | State::Dead => None,
    }
}

/// The provider has it. That counts wherever another copy could still be sent (a resend in flight cannot be called
/// back, but its failure will not lead to a third), and where it is better than not knowing.
fn found_accepted(state: State) -> Option<State> {
    match state {
        State::Planned => None,
        State::Intent | State::Deferred | State::Unknown | State::Unconfirmed | State::Dead => {
            Some(State::Accepted)
        }
        State::Accepted
        | State::Delivered
        | State::Failed
        | State::Suppressed
        | State::Expired
        | State::Cancelled
        | State::Folded
        | State::Superseded => Some(state),
    }
}

/// It was refused for good, or not taken at all. That counts only where nothing better is known: a resend in flight has
/// its own answer coming.
fn found_otherwise(state: State, unknown: State, unconfirmed: State) -> Option<State> {
    match state {
        State::Planned => None,
        State::Unknown => Some(unknown),
        State::Unconfirmed => Some(unconfirmed),
        State::Intent
        | State::Accepted
        | State::Delivered
        | State::Failed
        | State::Suppressed
        | State::Deferred
        | State::Expired
        | State::Cancelled
        | State::Folded
        | State::Superseded
        | State::Dead => Some(state),
    }
}

/// A bounce ends what is open, and says better how an acceptance ended. It never takes a delivery back, and it adds
/// nothing to what was closed without one; a redrive of the dead meets it again as a suppression.
fn bounced(state: State) -> Option<State> {
    match state {
        State::Planned => None,
        State::Intent
        | State::Accepted
        | State::Failed
        | State::Deferred
        | State::Unknown
        | State::Unconfirmed => Some(State::Failed),
        State::Delivered
        | State::Suppressed
        | State::Expired
        | State::Cancelled
        | State::Folded
        | State::Superseded
        | State::Dead => Some(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{
        Accepted, Cancelled, Dead, Deferred, Delivered, Expired, Failed, Folded, Intent, Planned, Superseded,
        Suppressed, Unconfirmed, Unknown,
    };

    /// Every step, with the states in which it leads somewhere (`from → to`), and those in which it changes nothing.
    /// It is refused in all others.
    type Row = (Step, &'static [(State, State)], &'static [State]);

    /// Evidence came first, or the receipt of an earlier copy did.
    const SETTLED: &[State] = &[Accepted, Delivered, Failed];

    const TABLE: &[Row] = &[
        (Step::Authorise, &[(Planned, Intent), (Deferred, Intent)], &[]),
        (Step::Suppress, &[(Planned, Suppressed), (Deferred, Suppressed)], &[]),
        (Step::Defer, &[(Planned, Deferred)], &[Deferred]),
        (Step::Expire, &[(Planned, Expired), (Deferred, Expired)], &[]),
        (Step::Cancel, &[(Planned, Cancelled), (Deferred, Cancelled)], &[]),
        (Step::Fold, &[(Planned, Folded), (Deferred, Folded)], &[]),
        (Step::Supersede, &[(Planned, Superseded), (Deferred, Superseded)], &[]),
        (Step::Accepted, &[(Intent, Accepted)], SETTLED),
        (Step::Rejected, &[(Intent, Failed)], SETTLED),
        (Step::Later, &[(Intent, Deferred)], SETTLED),
        (Step::NotSent, &[(Intent, Deferred)], SETTLED),
        (Step::Unanswered, &[(Intent, Unknown)], SETTLED),
        (Step::Malformed, &[(Planned, Dead), (Deferred, Dead), (Intent, Dead)], SETTLED),
        (Step::Orphaned, &[(Intent, Unknown)], &[]),
        (
            Step::ResolvedAccepted,
            &[
                (Unknown, Accepted),
                (Unconfirmed, Accepted),
                (Intent, Accepted),
                (Deferred, Accepted),
                (Dead, Accepted),
            ],
            &[Accepted, Delivered, Failed, Suppressed, Expired, Cancelled, Folded, Superseded],
        ),
        (
            Step::ResolvedFailed,
            &[(Unknown, Failed), (Unconfirmed, Failed)],
            &[
                Intent, Accepted, Delivered, Failed, Suppressed, Deferred, Expired, Cancelled, Folded,
                Superseded, Dead,
            ],
        ),
        (
            Step::ResolvedNotSent,
            &[(Unknown, Deferred)],
            &[
                Intent,
                Accepted,
                Delivered,
                Failed,
                Suppressed,
                Deferred,
                Expired,
                Cancelled,
                Folded,
                Superseded,
                Unconfirmed,
                Dead,
            ],
        ),
        (Step::Resend, &[(Unknown, Intent)], &[]),
        (Step::GiveUp, &[(Unknown, Unconfirmed)], &[]),
        (
            Step::ReceiptDelivered,
            &[
                (Intent, Delivered),
                (Accepted, Delivered),
                (Failed, Delivered),
                (Suppressed, Delivered),
                (Deferred, Delivered),
                (Expired, Delivered),
                (Cancelled, Delivered),
                (Folded, Delivered),
                (Superseded, Delivered),
                (Unknown, Delivered),
                (Unconfirmed, Delivered),
                (Dead, Delivered),
            ],
            &[Delivered],
        ),
        (
            Step::ReceiptFailed,
            &[
                (Intent, Failed),
                (Accepted, Failed),
                (Deferred, Failed),
                (Unknown, Failed),
                (Unconfirmed, Failed),
            ],
            &[Delivered, Failed, Suppressed, Expired, Cancelled, Folded, Superseded, Dead],
        ),
        (Step::Exhausted, &[(Deferred, Dead)], &[]),
        (Step::Redrive, &[(Dead, Deferred)], &[]),
        (Step::Drop, &[(Dead, Cancelled)], &[]),
    ];

    // proves: DEL-07
    #[test]
    fn every_step_in_every_state() {
        for (step, moves, unchanged) in TABLE {
            for state in State::ALL {
                let moved = moves.iter().find(|(from, _)| *from == state).map(|(_, to)| *to);
                let expected = moved.or_else(|| unchanged.contains(&state).then_some(state));
                let expected = expected.ok_or(Refused { state, step: *step });
                assert_eq!(next(state, *step), expected, "{step:?} in {state:?}");
            }
        }
    }

    #[test]
    fn the_table_has_every_step_once() {
        let steps: Vec<Step> = TABLE.iter().map(|(step, ..)| *step).collect();
        assert!(steps.is_sorted_by(|a, b| a < b), "in the order of the enum");
        assert_eq!(steps.len(), Step::Drop as usize + 1);
    }

    #[test]
    fn numbers_and_words_are_frozen() {
        for (number, word) in [
            "queued",
            "sending",
            "sent",
            "delivered",
            "failed",
            "suppressed",
            "deferred",
            "expired",
            "cancelled",
            "digested",
            "superseded",
            "unknown",
            "unconfirmed",
            "dead",
        ]
        .into_iter()
        .enumerate()
        {
            let number = u8::try_from(number).expect("four bits");
            let state = State::from_stored(number).expect("every number has its state");
            assert_eq!((state as u8, state.public_word()), (number, word));
        }
        assert_eq!(State::from_stored(14), None);
        assert!(State::ALL.len() <= 16, "four bits");
    }

    #[test]
    fn only_steps_that_authorise_lead_to_intent() {
        for (step, moves, _) in TABLE {
            let leads = moves.iter().any(|(_, to)| *to == Intent);
            assert_eq!(leads, matches!(step, Step::Authorise | Step::Resend), "{step:?}");
        }
    }

    #[test]
    fn a_delivered_notification_stays_delivered() {
        for (step, ..) in TABLE {
            assert_eq!(next(Delivered, *step).unwrap_or(Delivered), Delivered, "{step:?}");
        }
    }

    #[test]
    fn what_has_ended_is_opened_again_by_an_operator_only() {
        for (step, ..) in TABLE {
            for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
                let opened = next(state, *step).is_ok_and(|after| !after.is_terminal());
                assert_eq!(opened, *step == Step::Redrive && state == Dead, "{step:?} in {state:?}");
            }
        }
    }
}
