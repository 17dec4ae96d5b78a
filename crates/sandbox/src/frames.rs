//! A layer under the HTTP/2 server that writes frames of its own between the server's: a SETTINGS that raises the number of
//! streams while the connection lives, and a GOAWAY with a reason inside. The server library can do neither.
//!
//! ```text
//!  h2 ──► [first SETTINGS patched] ─► frames … │ ours │ frames … ─► socket     ours only between two frames
//!  h2 ◄── frames without the acknowledgements of ours ◄──────────── socket
//! ```
//! What must never happen: a frame of ours inside another one, or an acknowledgement that the server did not ask for.

use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const HEAD: usize = 9;
const PREFACE: usize = 24;
const READ_BYTES: usize = 16 << 10;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const MAX_CONCURRENT_STREAMS: u16 = 3;

/// A frame of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Injection {
    Streams(u32),
    GoAway { last_stream: u32, reason: Bytes },
}

/// What is to be written at the next gap, and what was seen.
#[derive(Debug, Default)]
pub struct Frames {
    waiting: Mutex<VecDeque<Injection>>,
    /// The highest stream that the client opened before it knew our settings.
    early: AtomicU32,
}

impl Frames {
    /// Leaves with the next write or flush of the server.
    pub fn inject(&self, injection: Injection) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(injection);
    }

    /// Whether a client could not know yet, when it opened the stream, how many it may have.
    #[must_use]
    pub fn is_early(&self, stream: u32) -> bool {
        stream <= self.early.load(Ordering::SeqCst)
    }

    fn next(&self) -> Option<Injection> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn any(&self) -> bool {
        !self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// The layer itself.
pub struct Layer<S> {
    inner: S,
    frames: Arc<Frames>,
    out: Scanner,
    /// Bytes of ours that are on their way out.
    pending: BytesMut,
    /// The server's first frame, until it is whole; `None` once it left.
    first: Option<BytesMut>,
    /// What the first SETTINGS says about streams, if the server should not say it.
    streams_first: Option<u32>,
    incoming: Scanner,
    preface_left: usize,
    /// Whose SETTINGS wait for their acknowledgement, oldest first: `true` for ours.
    unacknowledged: VecDeque<bool>,
    /// The client knows the first settings.
    is_acknowledged: bool,
    /// Read, but not looked at: at last a part of a frame's head, kept until it is whole.
    held: BytesMut,
    /// For the server to read.
    passed: BytesMut,
    space: Box<[u8]>,
}

impl<S> Layer<S> {
    pub fn new(inner: S, frames: Arc<Frames>, streams_first: Option<u32>) -> Self {
        Self {
            inner,
            frames,
            out: Scanner::default(),
            pending: BytesMut::new(),
            first: Some(BytesMut::new()),
            streams_first,
            incoming: Scanner::default(),
            preface_left: PREFACE,
            unacknowledged: VecDeque::new(),
            is_acknowledged: false,
            held: BytesMut::new(),
            passed: BytesMut::new(),
            space: vec![0; READ_BYTES].into_boxed_slice(),
        }
    }
}

/// What a frame begins with.
struct Head {
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Head {
    fn is_acknowledgement(&self) -> bool {
        self.kind == SETTINGS && self.flags & ACK != 0
    }
}

/// Where one is in a sequence of frames.
#[derive(Default)]
struct Scanner {
    head: [u8; HEAD],
    have: usize,
    left: usize,
}

impl Scanner {
    fn is_between(&self) -> bool {
        self.have == 0 && self.left == 0
    }

    /// Passes the bytes, and tells of every frame whose head became whole.
    fn pass(&mut self, mut bytes: &[u8], mut seen: impl FnMut(&Head)) {
        while !bytes.is_empty() {
            let taken = self.step(bytes, &mut seen);
            bytes = &bytes[taken..];
        }
    }

    /// Takes up to the end of the head or of the frame.
    fn step(&mut self, bytes: &[u8], seen: &mut impl FnMut(&Head)) -> usize {
        if self.left > 0 {
            let taken = self.left.min(bytes.len());
            self.left -= taken;
            return taken;
        }
        let taken = (HEAD - self.have).min(bytes.len());
        self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
        self.have += taken;
        if self.have == HEAD {
            self.have = 0;
            self.left = length(&self.head);
            let [.., kind, flags, a, b, c, d] = self.head;
            seen(&Head { kind, flags, stream: u32::from_be_bytes([a, b, c, d]) });
        }
        taken
    }

    /// How many of these bytes may pass before the next gap at the latest.
    fn to_gap(&self, bytes: &[u8]) -> usize {
        let whole = if self.left > 0 { self.left } else { HEAD - self.have };
        whole.min(bytes.len())
    }
}

fn length(head: &[u8]) -> usize {
    usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(payload);
    bytes
}

fn streams_entry(streams: u32) -> Vec<u8> {
    [&MAX_CONCURRENT_STREAMS.to_be_bytes()[..], &streams.to_be_bytes()].concat()
}

fn encode(injection: &Injection) -> Vec<u8> {
    match injection {
        Injection::Streams(streams) => frame(SETTINGS, &streams_entry(*streams)),
        Injection::GoAway { last_stream, reason } => {
            let payload = [&last_stream.to_be_bytes()[..], &0_u32.to_be_bytes(), reason].concat();
            frame(GOAWAY, &payload)
        }
    }
}

impl<S: AsyncWrite + Unpin> Layer<S> {
    /// Writes what is ours, as far as it may be written now.
    fn poll_ours(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while !self.pending.is_empty() {
                let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.pending))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.pending.advance(written);
            }
            if self.first.is_some() || !self.out.is_between() {
                return Poll::Ready(Ok(()));
            }
            let Some(injection) = self.frames.next() else { return Poll::Ready(Ok(())) };
            if matches!(injection, Injection::Streams(_)) {
                self.unacknowledged.push_back(true);
            }
            self.pending.extend_from_slice(&encode(&injection));
        }
    }

    /// Collects the first frame, which is SETTINGS, and adds the number of streams to it.
    fn take_first(&mut self, bytes: &[u8]) -> usize {
        let Some(first) = &mut self.first else { return 0 };
        let wanted = if first.len() < HEAD { HEAD } else { HEAD + length(first) };
        let taken = (wanted - first.len()).min(bytes.len());
        first.extend_from_slice(&bytes[..taken]);
        if first.len() >= HEAD && first.len() == HEAD + length(first) {
            let mut payload = first.split_off(HEAD).to_vec();
            if let Some(streams) = self.streams_first {
                payload.extend(streams_entry(streams));
            }
            self.pending.extend_from_slice(&frame(SETTINGS, &payload));
            self.unacknowledged.push_back(false);
            self.first = None;
        }
        taken
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Layer<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.first.is_some() {
            return Poll::Ready(Ok(this.take_first(bytes)));
        }
        ready!(this.poll_ours(cx))?;
        let allowed = if this.frames.any() { this.out.to_gap(bytes) } else { bytes.len() };
        let written = ready!(Pin::new(&mut this.inner).poll_write(cx, &bytes[..allowed]))?;
        let unacknowledged = &mut this.unacknowledged;
        this.out.pass(&bytes[..written], |head| {
            if head.kind == SETTINGS && !head.is_acknowledgement() {
                unacknowledged.push_back(false);
            }
        });
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_ours(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Layer<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.passed.is_empty() {
            let mut space = ReadBuf::new(&mut this.space);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut space))?;
            let length = space.filled().len();
            if length == 0 {
                return Poll::Ready(Ok(()));
            }
            this.held.extend_from_slice(&this.space[..length]);
            this.filter();
        }
        let taken = this.passed.len().min(buf.remaining());
        buf.put_slice(&this.passed[..taken]);
        this.passed.advance(taken);
        Poll::Ready(Ok(()))
    }
}

impl<S> Layer<S> {
    /// Passes on what the server may see of the held bytes. A head that is not whole stays held.
    fn filter(&mut self) {
        let preface = self.preface_left.min(self.held.len());
        self.preface_left -= preface;
        self.passed.extend_from_slice(&self.held.split_to(preface));
        while self.incoming.left > 0 && !self.held.is_empty() || self.held.len() >= HEAD {
            let (mut is_acknowledgement, mut opened) = (false, None);
            let taken = self.incoming.step(&self.held, &mut |head| {
                is_acknowledgement = head.is_acknowledgement();
                opened = (head.kind == HEADERS).then_some(head.stream);
            });
            if let Some(stream) = opened.filter(|_| !self.is_acknowledged) {
                self.frames.early.store(stream, Ordering::SeqCst);
            }
            self.is_acknowledged |= is_acknowledgement;
            let part = self.held.split_to(taken);
            if !(is_acknowledgement && self.unacknowledged.pop_front() == Some(true)) {
                self.passed.extend_from_slice(&part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    fn data(byte: u8, length: usize) -> Vec<u8> {
        frame(0, &vec![byte; length])
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime")
    }

    #[test]
    fn ours_stand_between_frames_however_the_server_writes() {
        for chunk in 1..40 {
            runtime().block_on(async {
                let frames = Arc::new(Frames::default());
                let (client, server) = duplex(1 << 16);
                let mut layer = Layer::new(server, Arc::clone(&frames), Some(1));
                let written = [frame(SETTINGS, &[]), data(1, 20), data(2, 0), data(3, 5)].concat();
                let mut position = 0;
                for part in written.chunks(chunk) {
                    layer.write_all(part).await.expect("written");
                    position += part.len();
                    if position >= 15 && position - part.len() < 15 {
                        frames.inject(Injection::Streams(1_000));
                    }
                }
                frames.inject(Injection::GoAway { last_stream: 7, reason: Bytes::from_static(b"{}") });
                layer.flush().await.expect("flushed");
                drop(layer);
                let mut read = Vec::new();
                let mut client = client;
                client.read_to_end(&mut read).await.expect("read");
                let mut kinds = Vec::new();
                let mut scanner = Scanner::default();
                scanner.pass(&read, |head| kinds.push(head.kind));
                assert!(scanner.is_between(), "chunks of {chunk}: whole frames only");
                assert_eq!(kinds.iter().filter(|kind| **kind == 0).count(), 3);
                assert_eq!(kinds.iter().filter(|kind| **kind == SETTINGS).count(), 2);
                assert_eq!((kinds[0], kinds[kinds.len() - 1]), (SETTINGS, GOAWAY));
                assert_eq!(&read[..HEAD + 6], &frame(SETTINGS, &streams_entry(1))[..]);
                assert!(read.ends_with(b"\0\0\0\x07\0\0\0\0{}"));
            });
        }
    }

    #[test]
    fn acknowledgements_of_ours_are_swallowed_however_they_come() {
        let acknowledgement = [0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0];
        for chunk in 1..60 {
            runtime().block_on(async {
                let frames = Arc::new(Frames::default());
                let (mut client, server) = duplex(1 << 16);
                let mut layer = Layer::new(server, Arc::clone(&frames), None);
                layer.write_all(&frame(SETTINGS, &[])).await.expect("written");
                frames.inject(Injection::Streams(5));
                layer.flush().await.expect("flushed");
                let opened = |stream: u8| [0, 0, 0, HEADERS, 4, 0, 0, 0, stream];
                let before = [&[b'P'; PREFACE][..], &opened(3), &acknowledgement, &data(1, 3)].concat();
                let after = [&data(2, 4)[..], &opened(5)].concat();
                let sent = [&before[..], &acknowledgement, &after].concat();
                let expected = [before, after].concat();
                let send = async {
                    for part in sent.chunks(chunk) {
                        client.write_all(part).await.expect("sent");
                        tokio::task::yield_now().await;
                    }
                    client.shutdown().await.expect("closed");
                };
                let mut seen = Vec::new();
                let (read, ()) = tokio::join!(layer.read_to_end(&mut seen), send);
                read.expect("read");
                assert_eq!(seen, expected, "chunks of {chunk}");
                assert!(frames.is_early(3) && !frames.is_early(5), "chunks of {chunk}");
            });
        }
    }
}
