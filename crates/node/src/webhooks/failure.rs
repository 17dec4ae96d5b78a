//! Why a receiver did not take a message, in a word for tenants and metrics and a sentence for people.

use fantail_ports::channel::{Answer, Proof, Refusal};

/// Why a receiver did not take a message.
pub struct AttemptFailure {
    pub reason: String,
    /// For people. Names nothing that the tenant did not write.
    pub detail: String,
    /// It never will.
    pub is_final: bool,
}

impl AttemptFailure {
    pub fn of_ours(reason: &str) -> Self {
        Self { reason: reason.to_owned(), detail: String::new(), is_final: false }
    }

    pub fn of(answer: &Answer) -> Option<Self> {
        let (reason, detail, is_final) = match answer {
            Answer::Accepted { .. } => return None,
            Answer::Rejected { refusal, code, message } => {
                (code.as_str(), message, *refusal == Refusal::DeadEndpoint)
            }
            Answer::Later { code, message, .. } | Answer::Unknown { code, message } => {
                (code.as_str(), message, false)
            }
            Answer::NotSent { proof, message } => (not_sent(*proof), message, false),
        };
        Some(Self { reason: reason.to_owned(), detail: detail.clone(), is_final })
    }
}

fn not_sent(proof: Proof) -> &'static str {
    match proof {
        Proof::NoConnection => "no_connection",
        Proof::Unprocessed => "unprocessed",
        Proof::Deadline => "deadline",
        Proof::Forbidden => "forbidden",
        Proof::Resting { .. } => "resting",
        Proof::NoRoom { .. } => "no_room",
    }
}
