//! A channel that does not hear every answer.

use crate::provider::Way;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Report, Scope, Shipment};
use std::sync::atomic::{AtomicU64, Ordering};

/// Every so many acceptances, one is told as a refusal.
const ACCEPTED_BETWEEN: u64 = 5;

pub struct Deaf {
    way: Way,
    accepted: AtomicU64,
}

impl Deaf {
    pub fn new(way: Way) -> Self {
        Self { way, accepted: AtomicU64::new(0) }
    }

    fn hear(&self, answer: Answer) -> Answer {
        let is_accepted = matches!(answer, Answer::Accepted { .. });
        if is_accepted && self.accepted.fetch_add(1, Ordering::SeqCst) % ACCEPTED_BETWEEN == 2 {
            let (code, message) = ("busy".to_owned(), String::new());
            return Answer::Later { after_ms: None, scope: Scope::Message, code, message };
        }
        answer
    }
}

impl Channel for Deaf {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let heard = |index: usize, answer: Answer| report(index, self.hear(answer));
            self.way.send(shipment, &heard).await;
        })
    }
}
