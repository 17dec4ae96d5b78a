//! Stands between the HTTP client and the stream, and knows whether a byte of the message may have left.
//!
//! What must never happen: a first byte after the deadline, or after we have said that none was written. The HTTP client
//! writes in a task of its own; so writing the first byte and giving up are two ends of one atomic exchange, and exactly
//! one of them wins.
//!
//! ```text
//! arm ──► Armed ──write──► Touched        give up: it may have been sent
//!           ├──write, too late──► Late    give up: proof that it was not
//!           └──give up──► Shut            every later write fails
//! ```

use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};

const SHUT: u8 = 0;
const ARMED: u8 = 1;
const TOUCHED: u8 = 2;
const LATE: u8 = 3;

pub struct Gate {
    clock: Arc<dyn Clock>,
    deadline: AtomicU64,
    state: AtomicU8,
}

/// What is known of a message when its attempt ends without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trace {
    /// Not one byte was written, and none will be.
    Untouched,
    /// The same, because the deadline had passed.
    TooLate,
    /// Some may have been.
    Touched,
}

impl Gate {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, deadline: AtomicU64::new(0), state: AtomicU8::new(SHUT) }
    }

    /// Before a message is handed to the HTTP client; the one before it is over.
    pub fn arm(&self, deadline: Millis) {
        self.deadline.store(deadline.0, Ordering::Relaxed);
        self.state.store(ARMED, Ordering::Release);
    }

    pub fn give_up(&self) -> Trace {
        match self.state.compare_exchange(ARMED, SHUT, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(SHUT) => Trace::Untouched,
            Err(LATE) => Trace::TooLate,
            Err(_) => Trace::Touched,
        }
    }

    /// Asked before every write.
    fn pass(&self) -> io::Result<()> {
        let closed = || io::Error::new(io::ErrorKind::NotConnected, "this connection is given up");
        match self.state.load(Ordering::Acquire) {
            TOUCHED => Ok(()),
            ARMED => {
                let is_late = self.clock.monotonic().0 > self.deadline.load(Ordering::Relaxed);
                let next = if is_late { LATE } else { TOUCHED };
                let won = self.state.compare_exchange(ARMED, next, Ordering::AcqRel, Ordering::Acquire);
                if won.is_ok() && !is_late { Ok(()) } else { Err(closed()) }
            }
            _ => Err(closed()),
        }
    }
}

/// A stream behind its gate.
pub struct Gated<S> {
    stream: S,
    gate: Arc<Gate>,
}

impl<S> Gated<S> {
    pub fn new(stream: S, gate: Arc<Gate>) -> Self {
        Self { stream, gate }
    }
}

impl<S: Read + Unpin> Read for Gated<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Gated<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.gate.pass()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.gate.pass()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_memory::clock::ManualClock;

    fn gate() -> (Gate, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Millis(0)));
        (Gate::new(clock.clone()), clock)
    }

    #[test]
    fn giving_up_first_shuts_the_gate() {
        let (gate, _) = gate();
        gate.arm(Millis(10));
        assert_eq!(gate.give_up(), Trace::Untouched);
        assert!(gate.pass().is_err(), "no byte after the proof");
        assert_eq!(gate.give_up(), Trace::Untouched);
    }

    #[test]
    fn a_write_first_leaves_no_proof() {
        let (gate, clock) = gate();
        gate.arm(Millis(10));
        clock.advance(10);
        assert!(gate.pass().is_ok(), "the deadline itself is in time");
        clock.advance(100);
        assert!(gate.pass().is_ok(), "what has begun may end");
        assert_eq!(gate.give_up(), Trace::Touched);
    }

    #[test]
    fn no_first_byte_after_the_deadline() {
        let (gate, clock) = gate();
        gate.arm(Millis(10));
        clock.advance(11);
        assert!(gate.pass().is_err());
        assert_eq!(gate.give_up(), Trace::TooLate);
        gate.arm(Millis(20));
        assert!(gate.pass().is_ok(), "the next message has its own deadline");
    }

    #[test]
    fn nothing_is_written_before_a_message_is_there() {
        assert!(gate().0.pass().is_err());
    }
}
