//! One bad template must not delete the user base. Some answers say that an endpoint is dead and can also mean that the
//! message, or the account, is wrong. A few of them are believed; when many come together they are held back: the message
//! has failed, the endpoint stays, and somebody is called.
//!
//! Comes from: a client whose provider doubts an endpoint. Decides: when a shipment is over, whether those doubts are
//! believed. Goes to: the report of each message. Not here: what a provider says for certain (410, UNREGISTERED).
//!
//! What must never happen: a shipment of doubts that retires its endpoints, or a message that is never reported.

use fantail_ports::channel::{Answer, Refusal, Report};
use std::sync::{Mutex, PoisonError};
use tracing::error;

/// So many of a hundred answers may be doubts before they are not believed. A starting value.
pub const DOUBTS_PERCENT_MAX: u64 = 5;
/// Fewer answers show nothing.
pub const ANSWERS_MIN: u64 = 20;
/// What many small shipments said is remembered up to so many answers; then both counts are halved.
const REMEMBERED_MAX: u64 = 2_000;
/// Fewer doubts over several shipments are devices that came and went.
const DOUBTS_REMEMBERED_MIN: u64 = 5;

/// Whether so many doubts are too many to be believed.
#[must_use]
pub fn too_many(answers: u64, doubts: u64) -> bool {
    answers >= ANSWERS_MIN && doubts * 100 > answers * DOUBTS_PERCENT_MAX
}

/// Whether the provider said something about the message, of which doubts are a share.
#[must_use]
pub fn is_said_by_provider(answer: &Answer) -> bool {
    match answer {
        Answer::Accepted { .. } | Answer::Rejected { .. } | Answer::Later { .. } => true,
        Answer::NotSent { .. } | Answer::Unknown { .. } => false,
    }
}

/// What shipments of one account have said lately.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    answers: u64,
    doubts: u64,
}

impl Memory {
    /// A shipment is over. Whether its doubts are believed, by itself and by those before it: a wrong account that is used
    /// for one message at a time must not retire one endpoint at a time.
    pub fn believes(&mut self, answers: u64, doubts: u64) -> bool {
        self.answers += answers;
        self.doubts += doubts.min(answers);
        let adds_up = self.doubts >= DOUBTS_REMEMBERED_MIN && too_many(self.answers, self.doubts);
        let believed = !too_many(answers, doubts) && !adds_up;
        while self.answers > REMEMBERED_MAX {
            self.answers /= 2;
            self.doubts /= 2;
        }
        believed
    }
}

/// One per account, for as long as it is open.
#[derive(Debug, Default)]
pub struct DeadGuard {
    memory: Mutex<Memory>,
}

/// The doubts of one shipment, until it is over.
#[derive(Debug, Default)]
pub struct Doubts {
    held: Mutex<Vec<(usize, Answer)>>,
}

impl Doubts {
    /// An answer that retires its endpoint, if it is believed.
    pub fn hold(&self, index: usize, answer: Answer) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push((index, answer));
    }
}

impl DeadGuard {
    /// All other messages of the shipment have been reported, `answers` of them by the provider; reports the rest.
    pub fn settle(&self, provider: &'static str, answers: u64, doubts: Doubts, report: &Report<'_>) {
        let held = doubts.held.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (count, answers) = (held.len() as u64, answers + held.len() as u64);
        let believed = self.memory.lock().unwrap_or_else(PoisonError::into_inner).believes(answers, count);
        if believed {
            held.into_iter().for_each(|(index, answer)| report(index, answer));
            return;
        }
        if count > 0 {
            error!(provider, doubts = count, answers, "too many endpoints are called dead: none is retired");
        }
        held.into_iter().for_each(|(index, answer)| report(index, held_back(answer)));
    }
}

/// The message has failed and keeps the provider's word for it; its endpoint stays.
fn held_back(answer: Answer) -> Answer {
    match answer {
        Answer::Rejected { refusal: Refusal::DeadEndpoint, code, message } => {
            Answer::Rejected { refusal: Refusal::Message, code, message }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_five_in_a_hundred_are_too_many() {
        for (answers, doubts, expected) in [
            (0, 0, false),
            (1, 1, false),
            (19, 19, false),
            (20, 1, false),
            (20, 2, true),
            (100, 5, false),
            (100, 6, true),
            (1_000, 50, false),
            (1_000, 51, true),
            (1_000, 1_000, true),
        ] {
            assert_eq!(too_many(answers, doubts), expected, "{doubts} of {answers}");
        }
    }

    #[test]
    fn small_shipments_add_up() {
        let mut memory = Memory::default();
        assert!((0..19).all(|_| memory.believes(1, 1)), "fewer than twenty show nothing");
        assert!((0..300).all(|_| !memory.believes(1, 1)));
        let mut good = Memory::default();
        assert!(good.believes(1_000, 0));
        assert!((0..40).all(|_| good.believes(10, 1)), "a dead token now and then");
        let recovered = (0..100).position(|_| memory.believes(1_000, 0));
        assert!(
            recovered.is_some_and(|shipments| shipments < 20),
            "a good time is believed again: {recovered:?}"
        );
    }

    fn settled(answers: u64, held: usize) -> Vec<Answer> {
        let doubts = Doubts::default();
        for index in 0..held {
            let (refusal, code) = (Refusal::DeadEndpoint, "INVALID_ARGUMENT".to_owned());
            doubts.hold(index, Answer::Rejected { refusal, code, message: String::new() });
        }
        let reported = Mutex::new(Vec::new());
        let report = |index, answer| reported.lock().expect("no panic").push((index, answer));
        DeadGuard::default().settle("test", answers, doubts, &report);
        let reported = reported.into_inner().expect("no panic");
        assert!(reported.iter().map(|(index, _)| *index).eq(0..held), "each once");
        reported.into_iter().map(|(_, answer)| answer).collect()
    }

    // proves: DEL-13
    #[test]
    fn too_many_doubts_fail_their_messages_and_retire_nothing() {
        for (answers, held, expected) in
            [(0, 3, Refusal::DeadEndpoint), (99, 1, Refusal::DeadEndpoint), (90, 10, Refusal::Message)]
        {
            let told = settled(answers, held);
            let fits = |answer: &Answer| matches!(answer, Answer::Rejected { refusal, code, .. } if *refusal == expected && code == "INVALID_ARGUMENT");
            assert!(told.iter().all(fits), "{held} beside {answers}: {told:?}");
        }
    }
}
