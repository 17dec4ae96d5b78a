//! A small blocking HTTP/1.1 client for the command line and the tests: one connection, kept alive, any stream.
//! It speaks to our own server only, so it knows what that sends: bodies with a length or in chunks, no redirects.

mod dial;

use crate::server_url::ServerUrl;
use anyhow::Result;
use dial::{Dial, Tls, Way};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

const HEAD_BYTES_MAX: u64 = 64 << 10;
const BODY_BYTES_MAX: u64 = 64 << 20;

/// TCP, or TLS over it.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

pub struct Client {
    /// As requests name the server.
    host: String,
    /// Where paths begin, without a slash at its end.
    prefix: String,
    dial: Dial,
    stream: Option<BufReader<Box<dyn Stream>>>,
    /// Sent with every request.
    headers: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON; `null` if it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or(serde_json::Value::Null)
    }

    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

impl Client {
    /// Connects when the first request is sent, and again when the server has closed an idle connection.
    #[must_use]
    pub fn to(host: &str) -> Self {
        let dial = Dial { address: host.to_owned(), way: Way::Plain };
        Self { host: host.to_owned(), prefix: String::new(), dial, stream: None, headers: Vec::new() }
    }

    /// A client of a server somewhere: over TLS, or over plain HTTP if the server is on this machine or `is_plain_allowed`.
    pub fn at(url: &ServerUrl, ca: Option<&Path>, is_plain_allowed: bool) -> Result<Self> {
        let way = match (url.is_tls, is_plain_allowed) {
            (true, _) => Way::Tls(Tls::new(&url.name, ca)?),
            (false, true) => Way::Plain,
            (false, false) => Way::PlainHere,
        };
        let dial = Dial { address: url.address.clone(), way };
        let (host, prefix) = (url.host.clone(), url.prefix.clone());
        Ok(Self { host, prefix, dial, stream: None, headers: Vec::new() })
    }

    /// Speaks over a stream that is already there; there is no second one.
    #[must_use]
    pub fn over(host: &str, stream: Box<dyn Stream>) -> Self {
        Self { stream: Some(BufReader::new(stream)), ..Self::to(host) }
    }

    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn with_key(self, key: &str) -> Self {
        self.with_header("authorization", &format!("Bearer {key}"))
    }

    pub fn get(&mut self, path: &str) -> io::Result<Response> {
        self.send(&Request { method: "GET", path, headers: &[], body: &[] })
    }

    pub fn post(&mut self, path: &str, body: &serde_json::Value) -> io::Result<Response> {
        self.json("POST", path, body)
    }

    pub fn json(&mut self, method: &str, path: &str, body: &serde_json::Value) -> io::Result<Response> {
        let headers = [("content-type", "application/json")];
        self.send(&Request { method, path, headers: &headers, body: body.to_string().as_bytes() })
    }

    /// Sends one request and reads its answer. A kept connection that turns out to be closed is replaced once, which
    /// is safe for what we send: everything can be repeated.
    pub fn send(&mut self, request: &Request<'_>) -> io::Result<Response> {
        let reused = self.stream.is_some();
        match self.try_send(request) {
            Err(error) if reused && is_closed(&error) => {
                self.stream = None;
                self.try_send(request)
            }
            result => result,
        }
    }

    fn try_send(&mut self, request: &Request<'_>) -> io::Result<Response> {
        let head = self.head_of(request);
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(BufReader::new(self.dial.connect()?)),
        };
        let result = exchange(stream, request, &head);
        let close = match &result {
            Ok(response) => response.header("connection") == Some("close"),
            Err(_) => true,
        };
        if close {
            self.stream = None;
        }
        result
    }

    fn head_of(&self, request: &Request<'_>) -> String {
        let Self { host, prefix, .. } = self;
        let mut head = format!("{} {prefix}{} HTTP/1.1\r\nhost: {host}\r\n", request.method, request.path);
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(request.headers.iter().copied()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", request.body.len()));
        head
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

fn exchange(
    stream: &mut BufReader<Box<dyn Stream>>,
    request: &Request<'_>,
    head: &str,
) -> io::Result<Response> {
    let mut message = head.as_bytes().to_vec();
    message.extend_from_slice(request.body);
    stream.get_mut().write_all(&message)?;
    stream.get_mut().flush()?;
    let (status, headers) = read_head(stream)?;
    let mut response = Response { status, headers, body: Vec::new() };
    if response.header("transfer-encoding") == Some("chunked") {
        response.body = read_chunks(stream)?;
        return Ok(response);
    }
    let length = response.header("content-length").map_or(Ok(0), str::parse::<u64>);
    let length = length.map_err(|_| invalid("content-length is not a number"))?;
    if length > BODY_BYTES_MAX {
        return Err(invalid("the answer is too large"));
    }
    if request.method != "HEAD" {
        stream.by_ref().take(length).read_to_end(&mut response.body)?;
        if (response.body.len() as u64) < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(response)
}

/// A body whose length its sender did not know. One that breaks off is an error.
fn read_chunks(stream: &mut BufReader<Box<dyn Stream>>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.by_ref().take(HEAD_BYTES_MAX).read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim_end(), 16).map_err(|_| invalid("not a chunk"))?;
        if body.len() as u64 + length > BODY_BYTES_MAX {
            return Err(invalid("the answer is too large"));
        }
        let mut chunk = vec![0; usize::try_from(length).map_err(|_| invalid("not a chunk"))? + 2];
        stream.read_exact(&mut chunk)?;
        if length == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&chunk[..chunk.len() - 2]);
    }
}

type Head = (u16, Vec<(String, String)>);

fn read_head(stream: &mut BufReader<Box<dyn Stream>>) -> io::Result<Head> {
    let mut lines = stream.by_ref().take(HEAD_BYTES_MAX);
    let mut line = String::new();
    if lines.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| invalid("not an HTTP answer"))?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end() {
            "" => return Ok((status, headers)),
            line => {
                let (name, value) = line.split_once(':').ok_or_else(|| invalid("not an HTTP header"))?;
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
    }
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
