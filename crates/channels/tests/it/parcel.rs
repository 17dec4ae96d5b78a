//! Shipments, and their answers in the order of the messages.

use super::time::BEGAN;
use fantail_ports::channel::{Answer, Channel, Message, Shipment};
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::priority::Priority;
use std::sync::{Arc, Mutex};

pub const CONTENT: &[u8] = br#"{"title":"hello"}"#;
/// How long after the beginning the first byte may leave.
pub const DEADLINE_MS: u64 = 60_000;

pub fn shipment(messages: Vec<Message>) -> Shipment {
    Shipment {
        tenant: TenantId(1),
        content: Arc::from(CONTENT),
        lane: Priority::Normal,
        expires_at: Millis(u64::MAX),
        collapse_key: None,
        deadline: BEGAN.plus(DEADLINE_MS),
        callbacks: None,
        messages,
    }
}

pub fn message(reference: &str, endpoint: &[u8]) -> Message {
    Message {
        reference: reference.into(),
        endpoint: endpoint.into(),
        content: None,
        attempt: 1,
        recipient: 1,
        unsubscribe: None,
    }
}

pub async fn send(channel: &dyn Channel, shipment: &Shipment) -> Vec<Answer> {
    let answers = Mutex::new(vec![None; shipment.messages.len()]);
    let report = |index: usize, answer| {
        let before = answers.lock().expect("no report panics")[index].replace(answer);
        assert_eq!(before, None, "one report for message {index}");
    };
    channel.send(shipment, &report).await;
    let answers = answers.into_inner().expect("no report panics");
    answers.into_iter().map(|answer| answer.expect("a report for every message")).collect()
}

/// An answer as a word or two.
pub fn told(answer: &Answer) -> String {
    match answer {
        Answer::Accepted { .. } => "accepted".into(),
        Answer::Rejected { refusal, code, .. } => format!("rejected {refusal:?} {code}"),
        Answer::Later { after_ms, scope, code, .. } => format!("later {after_ms:?} {scope:?} {code}"),
        Answer::NotSent { proof, .. } => format!("not sent {proof:?}"),
        Answer::Unknown { code, .. } => format!("unknown {code}"),
    }
}
