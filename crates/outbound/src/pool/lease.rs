//! A place on a connection, held from the moment it is given until the answer has been read, the caller goes away, or the
//! connection ends; then it is the next caller's.

use super::state::{State, Way};
use super::streams::End;
use super::{Failure, Reply, Shared};
use super::{http1, http2};
use bytes::Bytes;
use fantail_rules::ids::Millis;
use hyper::Request;
use std::sync::Arc;

pub struct Lease {
    shared: Arc<Shared>,
    /// `None` once it has been given back.
    way: Option<Way>,
}

impl Lease {
    pub fn new(shared: &Arc<Shared>, way: Way) -> Self {
        Self { shared: Arc::clone(shared), way: Some(way) }
    }

    pub async fn exchange(
        mut self,
        request: Request<Bytes>,
        answer_within_ms: u64,
    ) -> Result<Reply, Failure> {
        let until = self.shared.now().plus(answer_within_ms);
        match &mut self.way {
            Some(Way::Two { sender, .. }) => {
                let (end, outcome) = http2::exchange(&self.shared, sender, request, until).await;
                self.finish(end);
                outcome
            }
            Some(Way::One(one)) => {
                let (end, outcome) = http1::exchange(&self.shared, one, request, until).await;
                self.finish(end);
                outcome
            }
            None => unreachable!("a lease is used once"),
        }
    }

    /// Unused, by whoever holds the books.
    pub fn give_back(mut self, state: &mut State, now: Millis) {
        match self.way.take() {
            Some(Way::Two { id, .. }) => state.ended(id, End::CalledOff, now),
            Some(Way::One(one)) => state.put_back(one, now),
            None => {}
        }
    }

    fn finish(&mut self, end: End) {
        let Some(way) = self.way.take() else { return };
        let now = self.shared.now();
        let mut state = self.shared.lock();
        match (way, end) {
            (Way::Two { id, .. }, end) => state.ended(id, end, now),
            (Way::One(one), End::Answered) => state.put_back(one, now),
            (Way::One(_), _) => state.http1_ended(),
        }
        self.shared.serve(&mut state, now);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.finish(End::CalledOff);
    }
}
