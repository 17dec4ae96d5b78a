//! What comes of a wish: whether the message arrives, how long the answer takes, and what it is.
//!
//! What must never happen: two different answers to the same question. The share that fails is drawn from reference and
//! attempt, so that a run can be repeated and a retry may succeed.

use super::payload::Wish;
use super::settings::Faults;
use fantail_ports::channel::{Answer, Proof, Refusal, Scope};

/// What the stub does with one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reaction {
    /// Whether the provider has it, whatever it answers.
    pub arrives: bool,
    pub wait_ms: u64,
    pub answer: Answer,
}

/// `wish` is `None` for an endpoint that is none of the stub's.
#[must_use]
pub fn reaction(wish: Option<Wish>, faults: &Faults, reference: &str, attempt: u8) -> Reaction {
    let (arrives, wait_ms, answer) = if faults.down {
        (false, 0, later("503", None, Scope::Origin))
    } else if faults.fail_percent > 0 && draw(reference, attempt, 1) < u64::from(faults.fail_percent) {
        (false, 0, failed())
    } else if faults.malformed_percent > 0 && draw(reference, 0, 2) < u64::from(faults.malformed_percent) {
        (false, 0, malformed())
    } else {
        granted(wish, reference, attempt)
    };
    Reaction { arrives, wait_ms: wait_ms + faults.slow_ms, answer }
}

fn granted(wish: Option<Wish>, reference: &str, attempt: u8) -> (bool, u64, Answer) {
    let Some(wish) = wish else {
        return (false, 0, rejected(Refusal::Malformed, "endpoint", "no endpoint of the stub"));
    };
    match wish {
        Wish::Ok => (true, 0, accepted()),
        Wish::Slow { ms } => (true, ms, accepted()),
        Wish::Busy { after_s } => (false, 0, later("429", after_s, Scope::Origin)),
        Wish::Failed => (false, 0, failed()),
        Wish::Down => (false, 0, later("503", None, Scope::Origin)),
        Wish::Dead => (false, 0, rejected(Refusal::DeadEndpoint, "dead", "the endpoint is gone")),
        Wish::Malformed => (false, 0, malformed()),
        Wish::Unwanted => {
            (false, 0, rejected(Refusal::Unwanted, "unwanted", "the recipient wants nothing more"))
        }
        Wish::AnswerLost => (true, 0, unknown("timeout", "no answer in time")),
        Wish::Lost => (false, 0, unknown("lost", "the connection was lost")),
        Wish::Refused => {
            let message = "connection refused".into();
            (false, 0, Answer::NotSent { proof: Proof::NoConnection, message })
        }
        Wish::Fail { percent } => taken_unless(draw(reference, attempt, 0) < u64::from(percent)),
        Wish::FailFirst { attempts } => taken_unless(attempt <= attempts),
    }
}

fn taken_unless(fails: bool) -> (bool, u64, Answer) {
    if fails { (false, 0, failed()) } else { (true, 0, accepted()) }
}

/// Nothing to allocate.
fn accepted() -> Answer {
    Answer::Accepted { provider_id: None }
}

fn failed() -> Answer {
    later("500", None, Scope::Message)
}

fn malformed() -> Answer {
    rejected(Refusal::Malformed, "malformed", "the payload is malformed")
}

fn later(code: &str, after_s: Option<u64>, scope: Scope) -> Answer {
    let after_ms = after_s.map(|seconds| seconds * 1_000);
    Answer::Later { after_ms, scope, code: code.into(), message: "as the endpoint says".into() }
}

fn rejected(refusal: Refusal, code: &str, message: &str) -> Answer {
    Answer::Rejected { refusal, code: code.into(), message: message.into() }
}

fn unknown(code: &str, message: &str) -> Answer {
    Answer::Unknown { code: code.into(), message: message.into() }
}

/// 0 to 99, even over references and attempts. FNV-1a, finished so that near references fall far apart.
fn draw(reference: &str, attempt: u8, salt: u8) -> u64 {
    let hash = reference
        .bytes()
        .chain([attempt, salt])
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) % 100
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::payload::wish;

    const WELL: Faults = Faults { down: false, slow_ms: 0, fail_percent: 0, malformed_percent: 0 };

    /// `arrives wait answer`, as a line.
    fn told(reaction: &Reaction) -> String {
        let answer = match &reaction.answer {
            Answer::Accepted { .. } => "accepted".to_owned(),
            Answer::Rejected { refusal, .. } => format!("rejected {refusal:?}"),
            Answer::Later { after_ms, scope, code, .. } => format!("later {code} {after_ms:?} {scope:?}"),
            Answer::NotSent { proof, .. } => format!("not sent {proof:?}"),
            Answer::Unknown { code, .. } => format!("unknown {code}"),
        };
        format!("{} {} {answer}", reaction.arrives, reaction.wait_ms)
    }

    fn check(endpoint: &str, faults: &Faults, attempt: u8, expected: &str) {
        let reaction = reaction(wish(endpoint.as_bytes()), faults, "r", attempt);
        assert_eq!(told(&reaction), expected, "{endpoint}, attempt {attempt}");
    }

    #[test]
    fn wishes_are_granted() {
        for (endpoint, expected) in [
            ("stub:ok", "true 0 accepted"),
            ("stub:slow=50", "true 50 accepted"),
            ("stub:429", "false 0 later 429 None Origin"),
            ("stub:429=2", "false 0 later 429 Some(2000) Origin"),
            ("stub:500", "false 0 later 500 None Message"),
            ("stub:503", "false 0 later 503 None Origin"),
            ("stub:dead", "false 0 rejected DeadEndpoint"),
            ("stub:malformed", "false 0 rejected Malformed"),
            ("stub:unwanted", "false 0 rejected Unwanted"),
            ("stub:timeout", "true 0 unknown timeout"),
            ("stub:lost", "false 0 unknown lost"),
            ("stub:refused", "false 0 not sent NoConnection"),
            ("stub:fail=0", "true 0 accepted"),
            ("stub:fail=100", "false 0 later 500 None Message"),
            ("something else", "false 0 rejected Malformed"),
        ] {
            check(endpoint, &WELL, 1, expected);
        }
    }

    #[test]
    fn first_attempts_fail_then_one_is_taken() {
        check("stub:fail-first=2", &WELL, 1, "false 0 later 500 None Message");
        check("stub:fail-first=2", &WELL, 2, "false 0 later 500 None Message");
        check("stub:fail-first=2", &WELL, 3, "true 0 accepted");
    }

    #[test]
    fn faults_cover_every_endpoint() {
        for endpoint in ["stub:ok", "stub:timeout", "stub:slow=5", "else"] {
            check(endpoint, &Faults { down: true, ..WELL }, 1, "false 0 later 503 None Origin");
            check(endpoint, &Faults { fail_percent: 100, ..WELL }, 1, "false 0 later 500 None Message");
        }
        for attempt in 1..4 {
            let faults = Faults { malformed_percent: 100, ..WELL };
            check("stub:ok", &faults, attempt, "false 0 rejected Malformed");
        }
        check("stub:slow=5", &Faults { slow_ms: 7, ..WELL }, 1, "true 12 accepted");
    }

    #[test]
    fn the_share_that_fails_is_as_asked_and_a_retry_draws_anew() {
        for salt in 0..2 {
            let draws = |attempt| (0..10_000).map(move |n| draw(&format!("ref-{n}"), attempt, salt));
            let failing = draws(1).filter(|draw| *draw < 20).count();
            assert!((1_800..2_200).contains(&failing), "{failing} of 10,000 at 20 %");
            let twice = draws(1).zip(draws(2)).filter(|(first, second)| *first < 20 && *second < 20).count();
            assert!((300..500).contains(&twice), "{twice} of 10,000 fail twice");
        }
    }
}
