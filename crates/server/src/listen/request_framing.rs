//! Finds requests with two lengths: `Content-Length` and `Transfer-Encoding` in one head.
//!
//! Who takes the one and who takes the other sees different requests in the same bytes, which is how a request is smuggled
//! past a proxy. The HTTP library drops the first and tells nobody, so the bytes are looked at here, as they are read.
//!
//! Input: what a peer sent. Output: the request of the connection from which on none may be handled. The service answers it with 400
//! and closes the connection.
//! Invariant: only heads are looked at; bodies are skipped by their length or their chunks. Where these cannot be followed, every
//! request behind them is refused, so that a difference to the library refuses a request and never lets one through. HTTP/2 is not
//! looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Enough for the names that matter with a length behind them; the rest of a line is not kept, and neither is what a length may
/// begin with in any number: blanks and zeros.
const LINE_BYTES_MAX: usize = 64;

/// The first request of a connection that is ambiguous, counted from 1; 0 while there is none.
#[derive(Clone, Debug, Default)]
pub struct AmbiguousRequest(Arc<AtomicU64>);

impl AmbiguousRequest {
    /// Whether the request, or one before it, is ambiguous.
    pub fn is_at_or_before(&self, request: u64) -> bool {
        let first = self.0.load(Relaxed);
        first != 0 && first <= request
    }
}

#[derive(Debug, Default)]
pub struct RequestFraming {
    part: Part,
    /// The beginning of the line at hand.
    line: Vec<u8>,
    /// The last byte of the line at hand.
    last: u8,
    /// Heads that began.
    requests: u64,
    /// `Some(None)`: one that cannot be read.
    length: Option<Option<u64>>,
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
        // Nearly every line of a head comes in one piece.
        if let (Some(end), true, Part::Start | Part::Head) = (end, self.line.is_empty(), self.part) {
            self.part = self.after(line.strip_suffix(b"\r").unwrap_or(line));
            self.last = 0;
            return &bytes[end + 1..];
        }
        self.keep(line);
        self.last = line.last().copied().unwrap_or(self.last);
        let Some(end) = end else { return &[] };
        let line = std::mem::take(&mut self.line);
        let is_bare = self.last != b'\r';
        self.part = match self.part {
            // The library takes a bare line feed for a part of the line here.
            Part::ChunkSize | Part::Trailers if is_bare => self.lost(),
            _ => self.after(line.strip_suffix(b"\r").unwrap_or(&line)),
        };
        (self.line, self.last) = (line, 0);
        self.line.clear();
        &bytes[end + 1..]
    }

    /// Keeps the beginning of a line.
    fn keep(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            if self.line.len() == LINE_BYTES_MAX {
                return;
            }
            let is_padding = match self.part {
                Part::Head => self.line.last() == Some(&b':') && matches!(byte, b' ' | b'\t' | b'0'),
                Part::ChunkSize => self.line.is_empty() && *byte == b'0',
                Part::Start | Part::Trailers | Part::Body(_) | Part::Chunk(_) | Part::Over => false,
            };
            if !is_padding {
                self.line.push(*byte);
            }
            bytes = rest;
        }
    }

    /// What cannot be followed: the request behind it is none that anybody may rely on.
    fn lost(&mut self) -> Part {
        self.found.0.store(self.requests + 1, Relaxed);
        Part::Over
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
            Part::ChunkSize => chunk(line).unwrap_or_else(|| self.lost()),
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
            self.length = Some(length(value));
        }
        if self.is_chunked && self.length.is_some() {
            self.found.0.store(self.requests, Relaxed);
            return Part::Over;
        }
        Part::Head
    }

    fn body(&mut self) -> Part {
        match self.length {
            _ if self.is_chunked => Part::ChunkSize,
            None | Some(Some(0)) => Part::Start,
            Some(Some(length)) => Part::Body(length),
            Some(None) => self.lost(),
        }
    }
}

/// `None`: it is none, which the library refuses, unless chunks make it ignore it. Leading zeros are gone.
fn length(value: &[u8]) -> Option<u64> {
    match std::str::from_utf8(value).ok()?.trim() {
        "" => Some(0),
        digits => digits.parse().ok(),
    }
}

/// `None`: it is no chunk. Leading zeros are gone.
fn chunk(line: &[u8]) -> Option<Part> {
    let digits = line.split(|byte| matches!(byte, b';' | b' ' | b'\t')).next().unwrap_or_default();
    if digits.is_empty() {
        return Some(Part::Trailers);
    }
    let size = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some(Part::Chunk(size.saturating_add(2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_fuzz::{Corpus, fuzz};

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
        let (blanks, zeros) = (" \t".repeat(99), "0".repeat(99));
        let padded =
            format!("POST / HTTP/1.1\r\nContent-Length:{blanks}{zeros}13{blanks}\r\n\r\nGET / x\r\n\r\n\r\n");
        let chunks = format!(
            "POST / HTTP/1.1\r\nTransfer-Encoding:{blanks}chunked\r\n\r\n{zeros}B;x\r\nGET / x\r\n\r\n\r\n{zeros}\r\na: b\r\n\r\n"
        );
        for (requests, expected) in [
            (vec![PLAIN, LONG, CHUNKED], 0),
            (vec![BOTH], 1),
            (vec![TURNED], 1),
            (vec![PLAIN, "\r\n", BOTH], 2),
            (vec![LONG, CHUNKED, &large, PLAIN, TURNED], 5),
            (vec![BOTH, PLAIN, TURNED], 1),
            (vec!["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", BOTH], 0),
            // What cannot be followed refuses all that is behind it.
            (vec!["POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", BOTH], 2),
            (vec!["POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: b\n\n", PLAIN, BOTH], 2),
            (vec![PLAIN, "POST / HTTP/1.1\r\nContent-Length: 5x\r\n\r\nhello", BOTH], 3),
            (vec!["POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", BOTH], 2),
            // Blanks and zeros before a length, more than are kept of a line.
            (vec![&padded, &chunks, PLAIN, BOTH], 4),
            (vec![&format!("GET / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", "0".repeat(99)), BOTH], 2),
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

    const MIXED: [&str; 4] = [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /x HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nt: v\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "\r\nGET / HTTP/1.0\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nTRANSFER-encoding : x\r\ncontent-LENGTH:\t00\r\n\r\n",
    ];
    const WORDS: &[&str] = &[
        "\r\n",
        "\n",
        "\r\n\r\n",
        ":",
        " ",
        "0",
        "5",
        "0\r\n\r\n",
        "Content-Length: 5\r\n",
        "content-length:0\r\n",
        "Transfer-Encoding: chunked\r\n",
        "transfer-encoding:x\r\n",
        "GET / HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n",
        "ffffffffffffffff",
    ];

    /// The first request with two lengths, by a reader that wants everything at once and gives up at whatever is not plain.
    fn first_by_the_book(mut text: &str) -> Option<u64> {
        for request in 1.. {
            let (head, rest) = text.split_once("\r\n\r\n")?;
            let mut lines = head.split("\r\n");
            let is_plain = |line: &str| !line.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t');
            lines
                .next()
                .filter(|line| line.ends_with(" HTTP/1.1") && !line.starts_with("PRI ") && is_plain(line))?;
            let mut lengths = (None, false);
            for line in lines {
                let (name, value) = line.split_once(':').filter(|_| is_plain(line))?;
                match name.to_ascii_lowercase().as_str() {
                    "content-length" if lengths.0.is_none() => {
                        lengths.0 = Some(value.trim().parse::<usize>().ok()?)
                    }
                    "content-length" => return None,
                    "transfer-encoding" => lengths.1 = true,
                    name if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {}
                    _ => return None,
                }
            }
            text = match lengths {
                (Some(_), true) => return Some(request),
                (Some(length), false) => rest.get(length..)?,
                (None, false) => rest,
                (None, true) => return None,
            };
        }
        None
    }

    /// Portions change nothing, and no request with two lengths is missed.
    #[test]
    fn heads_and_bodies_are_followed_or_given_up() {
        let corpus = Corpus::new(MIXED.iter().map(|text| text.as_bytes().to_vec()).collect(), WORDS);
        fuzz("framing of requests", &corpus, |input| {
            let found = |portion: usize| {
                let found = AmbiguousRequest::default();
                let mut framing = RequestFraming::new(found.clone());
                input.chunks(portion).for_each(|bytes| framing.read(bytes));
                assert!(framing.line.capacity() <= 2 * LINE_BYTES_MAX);
                found.0.load(Relaxed)
            };
            let whole = found(input.len().max(1));
            for portion in [1, 3, 64] {
                assert_eq!(found(portion), whole, "by {portion}");
            }
            if let Some(first) = std::str::from_utf8(input).ok().and_then(first_by_the_book) {
                assert!(whole != 0 && whole <= first, "request {first} has two lengths, {whole} was found");
            }
        });
    }
}
