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

/// A request that is under way.
pub enum Begun {
    Two(Result<http2::Streams, (End, Failure)>),
    /// Sent with the waiting for its answer: one at a time needs no haste.
    One(Box<Request<Bytes>>),
}

impl Lease {
    pub fn new(shared: &Arc<Shared>, way: Way) -> Self {
        Self { shared: Arc::clone(shared), way: Some(way) }
    }

    /// The first bytes are the connection's now.
    pub fn begin(&mut self, request: Request<Bytes>) -> Begun {
        match &mut self.way {
            Some(Way::Two { sender, .. }) => Begun::Two(http2::begin_request(&self.shared, sender, request)),
            Some(Way::One(_)) => Begun::One(Box::new(request)),
            None => unreachable!("a lease is used once"),
        }
    }

    pub async fn answer(mut self, begun: Begun, answer_within_ms: u64) -> Result<Reply, Failure> {
        let until = self.shared.now().plus(answer_within_ms);
        let (end, outcome) = match (&mut self.way, begun) {
            (_, Begun::Two(Ok(streams))) => http2::answer(&self.shared, streams, until).await,
            (_, Begun::Two(Err((end, failure)))) => (end, Err(failure)),
            (Some(Way::One(one)), Begun::One(request)) => {
                // Boxed, because it is large, and thousands of others wait on HTTP/2 in its place.
                Box::pin(http1::exchange(&self.shared, one, *request, until)).await
            }
            (Some(Way::Two { .. }) | None, Begun::One(_)) => unreachable!("begun on this connection"),
        };
        self.finish(end);
        outcome
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
