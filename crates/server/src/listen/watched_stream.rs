//! A stream that reports whether its peer takes what is written, and that closes without destroying the last response.

use crate::listen::in_flight::InFlight;
use crate::listen::request_framing::RequestFraming;
use fantail_rules::limits::LINGER_BYTES_MAX;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

const DISCARD_BYTES: usize = 8 << 10;

pub struct WatchedStream<S> {
    stream: S,
    in_flight: Arc<InFlight>,
    linger: Linger,
    framing: RequestFraming,
}

/// The end of a connection. If a socket is closed while input is unread, the kernel resets the connection, and the peer
/// may lose the response that it has not read yet. So that input is read and dropped, within limits.
struct Linger {
    time_max: Duration,
    is_shut_down: bool,
    discarded: usize,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WatchedStream<S> {
    pub fn new(stream: S, in_flight: Arc<InFlight>, linger_max: Duration, framing: RequestFraming) -> Self {
        let linger = Linger { time_max: linger_max, is_shut_down: false, discarded: 0, deadline: None };
        Self { stream, in_flight, linger, framing }
    }

    fn count<T>(&self, polled: &Poll<io::Result<T>>, bytes: impl FnOnce(&T) -> usize) {
        match polled {
            Poll::Ready(Ok(written)) => self.in_flight.wrote(bytes(written)),
            Poll::Pending => self.in_flight.write_blocked(),
            Poll::Ready(Err(_)) => {}
        }
    }

    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut bytes = [0; DISCARD_BYTES];
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                // The response is out; what the peer does afterwards is no error.
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => {
                    self.linger.discarded += buffer.filled().len();
                    if self.linger.discarded >= LINGER_BYTES_MAX {
                        return Poll::Ready(Ok(()));
                    }
                }
                Poll::Pending if self.linger.discarded == 0 => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    let time_max = self.linger.time_max;
                    let deadline =
                        self.linger.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(time_max)));
                    ready!(deadline.as_mut().poll(context));
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.framing.read(&buffer.filled()[before..]);
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(&polled, |written| *written);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count(&polled, |written| *written);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.count(&polled, |()| 0);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.linger.is_shut_down {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            self.linger.is_shut_down = true;
        }
        self.poll_discard(context)
    }
}
