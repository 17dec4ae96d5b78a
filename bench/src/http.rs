//! HTTP/1.1 with keep-alive over a bare socket: one request, one answer. As cheap as it can be, because the
//! generator shares the machine with the server it measures. Only what our server sends is understood: answers with
//! `Content-Length`, or none for 204.

use anyhow::{Context, Result, bail, ensure};
use std::io::ErrorKind;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// Larger answers are not ours.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Most answers fit at once.
const BUFFER_BYTES: usize = 16 << 10;

pub struct Connection {
    stream: TcpStream,
    /// Grows to the largest answer; only the first `filled` bytes belong to the current one.
    buffer: Vec<u8>,
    filled: usize,
}

pub struct Answer<'a> {
    pub status: u16,
    pub body: &'a [u8],
}

/// Where requests go and with which key.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: SocketAddr,
    pub key: String,
}

impl Target {
    pub fn get(&self, path: &str) -> Vec<u8> {
        self.head("GET", path).into_bytes_with_end()
    }

    pub fn send(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let mut head = self.head(method, path);
        head.0.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        let mut bytes = head.into_bytes_with_end();
        bytes.extend_from_slice(body);
        bytes
    }

    fn head(&self, method: &str, path: &str) -> Head {
        let Self { address, key } = self;
        Head(format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n"))
    }

    /// Opens a connection, asks once, and returns the body if the answer is what is expected.
    pub async fn ask(&self, request: &[u8], expected: u16) -> Result<Vec<u8>> {
        let mut connection = Connection::open(self.address).await?;
        let answer = connection.exchange(request).await?;
        answer.expect(expected)?;
        Ok(answer.body.to_vec())
    }
}

struct Head(String);

impl Head {
    fn into_bytes_with_end(self) -> Vec<u8> {
        (self.0 + "\r\n").into_bytes()
    }
}

impl Answer<'_> {
    pub fn expect(&self, status: u16) -> Result<()> {
        if self.status == status {
            return Ok(());
        }
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(400)]);
        bail!("answer {} instead of {status}: {body}", self.status)
    }
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; BUFFER_BYTES], filled: 0 })
    }

    pub async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.write(request).await?;
        self.filled = 0;
        let head = loop {
            self.fill().await?;
            if let Some(head) = read_head(&self.buffer[..self.filled])? {
                break head;
            }
        };
        let end = head.bytes + head.body_bytes;
        while self.filled < end {
            self.fill().await?;
        }
        ensure!(self.filled == end, "more came than was asked for");
        Ok(Answer { status: head.status, body: &self.buffer[head.bytes..end] })
    }

    async fn write(&mut self, mut rest: &[u8]) -> Result<()> {
        while !rest.is_empty() {
            match self.stream.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(error) => return Err(error).context("cannot write a request"),
            }
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<()> {
        if self.filled == self.buffer.len() {
            ensure!(self.filled < ANSWER_BYTES_MAX, "an answer is too large");
            self.buffer.resize(self.filled * 2, 0);
        }
        loop {
            self.stream.readable().await?;
            match self.stream.try_read(&mut self.buffer[self.filled..]) {
                Ok(0) => bail!("the server closed the connection"),
                Ok(read) => {
                    self.filled += read;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("cannot read an answer"),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct AnswerHead {
    status: u16,
    bytes: usize,
    body_bytes: usize,
}

/// `None`: not all of it is there yet.
fn read_head(buffer: &[u8]) -> Result<Option<AnswerHead>> {
    let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&buffer[..end]).context("an answer's head is not text")?;
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.get(9..12).and_then(|digits| digits.parse().ok());
    let status = status.with_context(|| format!("not a status line: {status_line}"))?;
    let mut body_bytes = 0;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            body_bytes = value.trim().parse().context("a wrong Content-Length")?;
        }
        ensure!(!name.eq_ignore_ascii_case("transfer-encoding"), "chunked answers are not understood");
    }
    Ok(Some(AnswerHead { status, bytes: end + 4, body_bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_when_complete() {
        let check = |text: &str, expected: Option<(u16, usize, usize)>| {
            let head = read_head(text.as_bytes()).expect("a head");
            assert_eq!(head.map(|head| (head.status, head.bytes, head.body_bytes)), expected, "{text}");
        };
        check("HTTP/1.1 202 Accepted\r\ncontent-length: 17\r\n\r\nabc", Some((202, 45, 17)));
        check("HTTP/1.1 204 No Content\r\n\r\n", Some((204, 27, 0)));
        check("HTTP/1.1 202 Accepted\r\ncontent-le", None);
        assert!(read_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
        assert!(read_head(b"nonsense\r\n\r\n").is_err());
    }
}
