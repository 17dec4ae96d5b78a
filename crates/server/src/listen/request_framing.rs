//! Finds requests with two lengths: `Content-Length` and `Transfer-Encoding` in one head.
//!
//! Who takes the one and who takes the other sees different requests in the same bytes, which is how a request is smuggled
//! past a proxy. The HTTP library drops the first and tells nobody, so the bytes are looked at here, as they are read.
//!
//! Input: what a peer sent. Output: which request of the connection it is, for the service that answers it with 400.
//! Invariant: only heads are looked at; bodies are skipped by their length or their chunks. What is no HTTP/1, or is broken,
//! is left to the library, and nothing behind it is looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Enough for the names that matter with a length behind them; the rest of a line is not kept.
const LINE_BYTES_MAX: usize = 64;

/// Which request of a connection has two lengths, counted from 1; 0 while there is none.
#[derive(Clone, Debug, Default)]
pub struct AmbiguousRequest(Arc<AtomicU64>);

impl AmbiguousRequest {
    pub fn is(&self, request: u64) -> bool {
        self.0.load(Relaxed) == request
    }
}

#[derive(Debug, Default)]
pub struct RequestFraming {
    part: Part,
    /// The beginning of the line at hand.
    line: Vec<u8>,
    /// Heads that began.
    requests: u64,
    length: Option<u64>,
    is_chunked: bool,
    found: AmbiguousRequest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Part {
    /// Before the first line of a request; empty lines may come first.
    #[default]
    Start,
    Head,
    /// So many bytes are left.
    Body(u64),
    ChunkSize,
    /// So many bytes are left, with the line end behind them.
    Chunk(u64),
    Trailers,
    /// Nothing is looked at any more.
    Over,
}

impl RequestFraming {
    pub fn new(found: AmbiguousRequest) -> Self {
        Self { found, ..Self::default() }
    }

    pub fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match self.part {
                Part::Over => return,
                Part::Body(left) => self.skip(bytes, left, Part::Body, Part::Start),
                Part::Chunk(left) => self.skip(bytes, left, Part::Chunk, Part::ChunkSize),
                Part::Start | Part::Head | Part::ChunkSize | Part::Trailers => self.read_line(bytes),
            };
        }
    }

    fn skip<'b>(&mut self, bytes: &'b [u8], left: u64, more: fn(u64) -> Part, then: Part) -> &'b [u8] {
        let skipped = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let left = left - skipped as u64;
        self.part = if left == 0 { then } else { more(left) };
        &bytes[skipped..]
    }

    fn read_line<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let line = &bytes[..end.unwrap_or(bytes.len())];
        let room = LINE_BYTES_MAX - self.line.len();
        self.line.extend_from_slice(&line[..line.len().min(room)]);
        let Some(end) = end else { return &[] };
        let line = std::mem::take(&mut self.line);
        self.part = self.after(line.strip_suffix(b"\r").unwrap_or(&line));
        self.line = line;
        self.line.clear();
        &bytes[end + 1..]
    }

    /// What comes behind a line.
    fn after(&mut self, line: &[u8]) -> Part {
        match self.part {
            Part::Start if line.is_empty() => Part::Start,
            // The first line of HTTP/2.
            Part::Start if line.starts_with(b"PRI * HTTP/2") => Part::Over,
            Part::Start => {
                self.requests += 1;
                (self.length, self.is_chunked) = (None, false);
                Part::Head
            }
            Part::Head if line.is_empty() => self.body(),
            Part::Head => self.header(line),
            Part::ChunkSize => chunk(line),
            Part::Trailers if line.is_empty() => Part::Start,
            Part::Trailers => Part::Trailers,
            part @ (Part::Body(_) | Part::Chunk(_) | Part::Over) => part,
        }
    }

    fn header(&mut self, line: &[u8]) -> Part {
        // Names that end at the colon: anything else is broken, and refused by the library.
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Part::Head };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let text = std::str::from_utf8(value).unwrap_or_default().trim();
            // A length that is none is refused by the library, unless chunks make it ignore it.
            self.length = Some(text.parse().unwrap_or(u64::MAX));
        }
        if self.is_chunked && self.length.is_some() {
            self.found.0.store(self.requests, Relaxed);
            return Part::Over;
        }
        Part::Head
    }

    fn body(&self) -> Part {
        match self.length {
            _ if self.is_chunked => Part::ChunkSize,
            None | Some(0) => Part::Start,
            Some(length) => Part::Body(length),
        }
    }
}

fn chunk(line: &[u8]) -> Part {
    let digits = line.split(|byte| matches!(byte, b';' | b' ' | b'\t')).next().unwrap_or_default();
    let size = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match size {
        None => Part::Over,
        Some(0) => Part::Trailers,
        Some(size) => Part::Chunk(size.saturating_add(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const LONG: &str =
        "POST / HTTP/1.1\r\nContent-Length: 43\r\n\r\nTransfer-Encoding: x\r\nContent-Length: 1\r\n\r\n";
    const CHUNKED: &str = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1a;x=y\r\nContent-Length: 5\r\nGET /\r\n\r\n0\r\nContent-Length: 7\r\n\r\n";
    const BOTH: &str = "POST / HTTP/1.1\r\nContent-Length: 5\r\nTRANSFER-ENCODING:chunked\r\n\r\n";
    const TURNED: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX: y\r\nContent-Length: x\r\n\r\n";

    // fixes: usability C6
    #[test]
    fn the_request_with_two_lengths_is_found_however_it_arrives() {
        let large = format!("GET /{} HTTP/1.1\r\nCookie: {}\r\n\r\n", "x".repeat(999), "y".repeat(999));
        for (requests, expected) in [
            (vec![PLAIN, LONG, CHUNKED], 0),
            (vec![BOTH], 1),
            (vec![TURNED], 1),
            (vec![PLAIN, "\r\n", BOTH], 2),
            (vec![LONG, CHUNKED, &large, PLAIN, TURNED], 5),
            (vec![BOTH, PLAIN, TURNED], 1),
            (vec!["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", BOTH], 0),
            (vec!["POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", BOTH], 0),
            (vec!["GET / HTTP/1.1\nHost: a\n\n", BOTH], 2),
        ] {
            let sent = requests.concat();
            for portion in [1, 2, 3, 7, 64, 65, sent.len()] {
                let found = AmbiguousRequest::default();
                let mut framing = RequestFraming::new(found.clone());
                sent.as_bytes().chunks(portion).for_each(|bytes| framing.read(bytes));
                assert_eq!(found.0.load(Relaxed), expected, "{sent:?} by {portion}");
                assert!(framing.line.capacity() <= 2 * LINE_BYTES_MAX);
            }
        }
    }
}
