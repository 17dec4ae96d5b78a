//! The deadlines of one connection, judged by what changed between two looks at it.

use crate::config::Http;
use crate::listen::in_flight::{InFlight, Progress};
use std::time::Duration;

/// Why a connection is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// No request came in time.
    Silent,
    /// All requests were answered, and no other came.
    Idle,
    /// The peer does not read its responses.
    NotReading,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeadlineVerdict {
    Stay,
    /// Tell the peer, and let what is under way finish.
    Leave(EndReason),
    End(EndReason),
}

#[derive(Debug)]
pub struct Deadlines {
    step: Duration,
    write_timeout: Duration,
    idle_timeout: Duration,
    header_timeout: Duration,
    seen: Progress,
    silent_for: Duration,
    idle_for: Duration,
    blocked_for: Duration,
    is_leaving: bool,
}

impl Deadlines {
    pub fn new(http: &Http) -> Self {
        Self {
            step: (http.write_timeout / 2).min(http.idle_timeout).min(http.header_timeout),
            write_timeout: http.write_timeout,
            idle_timeout: http.idle_timeout,
            header_timeout: http.header_timeout,
            seen: Progress::default(),
            silent_for: Duration::ZERO,
            idle_for: Duration::ZERO,
            blocked_for: Duration::ZERO,
            is_leaving: false,
        }
    }

    /// The time between two looks.
    pub fn step(&self) -> Duration {
        self.step
    }

    /// Looks at the connection.
    pub fn look(&mut self, in_flight: &InFlight) -> DeadlineVerdict {
        let now = in_flight.progress();
        let before = std::mem::replace(&mut self.seen, now);
        if now.begun == 0 {
            self.silent_for += self.step;
            let is_silent = self.silent_for >= self.header_timeout;
            return if is_silent { DeadlineVerdict::End(EndReason::Silent) } else { DeadlineVerdict::Stay };
        }
        let is_blocked = in_flight.is_write_blocked() && now.bytes_written == before.bytes_written;
        self.blocked_for = if is_blocked { self.blocked_for + self.step } else { Duration::ZERO };
        // The response that stands still longest decides: one that is read would hide all others.
        let steps = u32::try_from(in_flight.longest_wait()).unwrap_or(u32::MAX);
        let not_reading_for = self.step.saturating_mul(steps).max(self.blocked_for);
        // When memory is short, one step must do: others wait for these bytes.
        let is_short = in_flight.budget().is_exhausted();
        let patience = if is_short { self.step } else { self.write_timeout };
        if not_reading_for >= patience {
            return DeadlineVerdict::End(EndReason::NotReading);
        }
        let is_idle = in_flight.is_idle() && now.begun == before.begun;
        self.idle_for = if is_idle { self.idle_for + self.step } else { Duration::ZERO };
        match self.idle_for.checked_sub(self.idle_timeout) {
            None => DeadlineVerdict::Stay,
            Some(_) if !self.is_leaving => {
                self.is_leaving = true;
                DeadlineVerdict::Leave(EndReason::Idle)
            }
            // It was told, and does not go.
            Some(since) if since >= self.header_timeout => DeadlineVerdict::End(EndReason::Idle),
            Some(_) => DeadlineVerdict::Stay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::in_flight::ResponseBudget;
    use crate::listen::sliced_body::SlicedBody;
    use axum::body::{Body, Bytes, HttpBody};
    use axum::http::Method;
    use axum::response::Response;
    use fantail_rules::limits::RESPONSE_SLICE_BYTES;
    use std::convert::Infallible;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    const SLICES: usize = 20;

    fn http() -> Http {
        let seconds = Duration::from_secs;
        Http {
            connections_max: 1,
            connections_per_address: None,
            header_timeout: seconds(10),
            idle_timeout: seconds(60),
            write_timeout: seconds(30),
            body_timeout: seconds(30),
            drain: seconds(10),
            slow: seconds(1),
        }
    }

    fn respond(in_flight: &Arc<InFlight>, bytes: usize) -> SlicedBody {
        respond_with(in_flight, Body::from(vec![b'x'; bytes]))
    }

    /// A response of one frame that does not say how long it is.
    fn stream(in_flight: &Arc<InFlight>, bytes: usize) -> SlicedBody {
        let frame = Ok::<_, Infallible>(Bytes::from(vec![b'x'; bytes]));
        respond_with(in_flight, Body::from_stream(futures_util::stream::iter([frame])))
    }

    fn respond_with(in_flight: &Arc<InFlight>, body: Body) -> SlicedBody {
        let admitted = pin!(in_flight.admit(&Method::POST));
        match admitted.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(running) => running.expect("it is open").respond(Response::new(body)).into_body(),
            Poll::Pending => panic!("there is room"),
        }
    }

    /// What the transport takes next; it holds it until it drops it.
    fn slice(body: &mut SlicedBody) -> Option<Bytes> {
        match Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(frame) => Some(frame?.expect("bytes").into_data().expect("bytes")),
            Poll::Pending => panic!("all of it is there"),
        }
    }

    fn opened(budget: ResponseBudget) -> (Arc<InFlight>, Deadlines) {
        (InFlight::new(Arc::new(budget)), Deadlines::new(&http()))
    }

    /// The look at which the connection was ended.
    fn ended(looks: usize, mut look: impl FnMut() -> DeadlineVerdict) -> Option<usize> {
        (1..=looks).find(|_| match look() {
            DeadlineVerdict::Stay => false,
            DeadlineVerdict::End(EndReason::NotReading) => true,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_response_that_is_read_does_not_hide_one_that_is_not() {
        let (in_flight, mut deadlines) = opened(ResponseBudget::default());
        let _stalled = respond(&in_flight, 100);
        let mut moving = respond(&in_flight, SLICES * RESPONSE_SLICE_BYTES);
        let looked = ended(SLICES, || {
            drop(slice(&mut moving));
            let small = slice(&mut respond(&in_flight, 5));
            drop(small);
            deadlines.look(&in_flight)
        });
        // Ten seconds are between two looks, and what came between them is not counted.
        assert_eq!(looked, Some(4));
    }

    #[test]
    fn responses_that_are_all_read_slowly_may_go_on() {
        let (in_flight, mut deadlines) = opened(ResponseBudget::default());
        let mut bodies: Vec<_> = (0..3).map(|_| respond(&in_flight, SLICES * RESPONSE_SLICE_BYTES)).collect();
        let mut turn = 0;
        let looked = ended(3 * SLICES - 3, || {
            turn += 1;
            drop(slice(&mut bodies[turn % 3]));
            deadlines.look(&in_flight)
        });
        assert_eq!(looked, None);
        drop(bodies);
        assert_eq!(in_flight.budget().taken(), 0);
    }

    #[test]
    fn a_slice_in_the_transport_waits_as_the_rest_does() {
        let (in_flight, mut deadlines) = opened(ResponseBudget::default());
        let mut body = respond(&in_flight, 2 * RESPONSE_SLICE_BYTES);
        let held = (slice(&mut body), slice(&mut body));
        drop(body);
        assert_eq!(ended(9, || deadlines.look(&in_flight)), Some(4));
        drop(held);
        assert_eq!(in_flight.budget().taken(), 0);
    }

    // fixes: security M8
    #[test]
    fn a_frame_of_a_stream_is_counted_whole_when_it_comes() {
        let (in_flight, mut deadlines) = opened(ResponseBudget::default());
        let mut body = stream(&in_flight, 3 * RESPONSE_SLICE_BYTES);
        assert_eq!(in_flight.budget().taken(), 0, "nothing was announced");
        let first = slice(&mut body).expect("a slice");
        assert_eq!(in_flight.budget().taken(), 3 * RESPONSE_SLICE_BYTES as u64);
        drop(first);
        assert_eq!(in_flight.budget().taken(), 2 * RESPONSE_SLICE_BYTES as u64);
        assert_eq!(ended(9, || deadlines.look(&in_flight)), Some(4), "the rest of the frame waits");
        while slice(&mut body).is_some() {}
        assert_eq!(in_flight.budget().taken(), 0);
    }

    #[test]
    fn when_memory_is_short_one_whole_step_must_do() {
        let (in_flight, mut deadlines) = opened(ResponseBudget::new(50, 1 << 20));
        let _stalled = respond(&in_flight, 100);
        assert_eq!(ended(9, || deadlines.look(&in_flight)), Some(2));
    }
}
