//! Where the collector listens, and one request to it. Plain HTTP: a collector stands beside the server or in its network,
//! and speaks TLS to whatever is farther away.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(5);
const PORT: u16 = 4_318;
const PATH: &str = "/v1/traces";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    host: String,
    port: u16,
    path: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("must be like http://127.0.0.1:4318/v1/traces, without TLS")]
pub struct EndpointError;

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let rest = text.strip_prefix("http://").ok_or(EndpointError)?;
        let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // An address of version 6 stands in brackets.
        let (host, port) = match place.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| EndpointError)?),
            None => (place, PORT),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#\"".contains(&byte));
        if host.is_empty() || !is_plain(host) || !is_plain(path) {
            return Err(EndpointError);
        }
        let path = if matches!(path, "" | "/") { PATH } else { path };
        Ok(Self { host: host.to_owned(), port, path: path.to_owned() })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "http://{open}{host}{close}:{}{}", self.port, self.path)
    }
}

impl Endpoint {
    /// Taken, or why not. A connection for each request: there are two a second at most.
    pub fn post(&self, body: &[u8]) -> io::Result<()> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {}:{}\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n",
            self.path,
            self.host,
            self.port,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat())?;
        let mut line = Vec::new();
        BufReader::new(io::Read::take(stream, 1_024)).read_until(b'\n', &mut line)?;
        let line = String::from_utf8_lossy(&line);
        match line.split(' ').nth(1) {
            Some(status) if status.len() == 3 && status.starts_with('2') => Ok(()),
            Some(status) => Err(io::Error::other(format!("it answered {}", status.escape_debug()))),
            None => Err(io::Error::other("it did not answer in HTTP")),
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::other("its name has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_plain_addresses() {
        for (text, expected) in [
            ("http://127.0.0.1:4318/v1/traces", Some("http://127.0.0.1:4318/v1/traces")),
            ("http://collector", Some("http://collector:4318/v1/traces")),
            ("http://collector:80/", Some("http://collector:80/v1/traces")),
            ("http://collector/otlp", Some("http://collector:4318/otlp")),
            ("http://[::1]:4318", Some("http://[::1]:4318/v1/traces")),
            ("http://[::1]/x", Some("http://[::1]:4318/x")),
            ("https://collector", None),
            ("collector:4318", None),
            ("http://", None),
            ("http://:4318", None),
            ("http://user@collector", None),
            ("http://collector:port", None),
            ("http://collector/a b", None),
            ("http://collector/a\r\nx: y", None),
        ] {
            let found = text.parse::<Endpoint>().ok().map(|endpoint| endpoint.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }
}
