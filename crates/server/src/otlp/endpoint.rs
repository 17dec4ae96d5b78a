//! Where the collector listens: beside the server by plain HTTP, or farther away by TLS.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const PORT: u16 = 4_318;
const TLS_PORT: u16 = 443;
const PATH: &str = "/v1/traces";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub is_tls: bool,
    pub host: String,
    port: u16,
    path: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("must be like http://127.0.0.1:4318/v1/traces or https://collector.example.com/v1/traces")]
pub struct EndpointError;

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (is_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(EndpointError),
        };
        let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // An address of version 6 stands in brackets.
        let (host, port) = match place.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| EndpointError)?),
            None => (place, if is_tls { TLS_PORT } else { PORT }),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#\"".contains(&byte));
        if host.is_empty() || !is_plain(host) || !is_plain(path) {
            return Err(EndpointError);
        }
        let path = if matches!(path, "" | "/") { PATH } else { path };
        Ok(Self { is_tls, host: host.to_owned(), port, path: path.to_owned() })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{open}{host}{close}:{}{}", self.port, self.path)
    }
}

impl Endpoint {
    /// The start of a request, but for the headers that are the collector's own.
    #[must_use]
    pub fn head(&self, body_bytes: usize) -> String {
        format!(
            "POST {} HTTP/1.1\r\nhost: {}:{}\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {body_bytes}\r\n",
            self.path, self.host, self.port,
        )
    }

    pub fn connect(&self) -> io::Result<TcpStream> {
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
            ("https://collector", Some("https://collector:443/v1/traces")),
            ("https://collector:4318/otlp", Some("https://collector:4318/otlp")),
            ("https://", None),
            ("ftp://collector", None),
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
