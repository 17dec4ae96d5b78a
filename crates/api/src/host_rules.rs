//! By which names a listener may be called where it tells operators something without a key: metrics and verbose health.
//!
//! A page that is open in a browser on this machine can have its own name lead to 127.0.0.1 (DNS rebinding) and then read what the browser
//! takes for its own site. Such requests carry that name in `Host`. Invariant: on a listener on this machine they are refused, unless the
//! operator has configured the name. Beyond this machine `Host` protects nothing: others can ask there themselves.

use crate::problem::Problem;
use axum::http::header;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use fantail_wire::code::Code;
use std::net::IpAddr;

#[derive(Clone, Debug, Default)]
pub struct HostRules {
    is_loopback: bool,
    names: Vec<String>,
}

impl HostRules {
    /// Of a listener that is on this machine, or not. `names` are the operator's.
    #[must_use]
    pub fn new(is_loopback: bool, names: &[String]) -> Self {
        Self { is_loopback, names: names.to_vec() }
    }

    /// Refuses a request for another host. No browser leaves `Host` out.
    pub fn require(&self, parts: &Parts) -> Result<(), Problem> {
        if !self.is_loopback {
            return Ok(());
        }
        let named = parts.headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or("?"));
        let target = parts.uri.authority().map(Authority::as_str);
        if named.chain(target).all(|host| self.is_known(host)) {
            return Ok(());
        }
        Err(Problem::new(
            Code::UnknownHost,
            "ask by localhost, an address of this machine, or a name in admin.hosts",
        ))
    }

    fn is_known(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host().trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        let is_local_address = || name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
        let is_same = |known: &str| known.eq_ignore_ascii_case(name);
        is_same("localhost") || is_local_address() || self.names.iter().any(|known| is_same(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{Request, Version};

    fn is_answered(is_loopback: bool, target: &str, hosts: &[&str]) -> bool {
        let rules = HostRules::new(is_loopback, &["Ops.example.com".to_owned(), "10.1.2.3".to_owned()]);
        let mut request = Request::builder().version(Version::HTTP_11).uri(target);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        rules.require(&parts).is_ok()
    }

    #[test]
    fn on_this_machine_only_known_hosts_are_answered() {
        for host in [
            "localhost",
            "LOCALHOST:7070",
            "localhost.",
            "127.0.0.1",
            "127.9.9.9:80",
            "[::1]",
            "[::1]:7070",
            "[::ffff:127.0.0.1]:7070",
            "ops.example.com:7071",
            "10.1.2.3:7071",
        ] {
            assert!(is_answered(true, "/metrics", &[host]), "{host}");
        }
        for host in [
            "",
            "?",
            "evil.example",
            "evil.example:7070",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "0.0.0.0:7070",
            "192.0.2.1",
            "10.1.2.4",
            "localhost@evil.example",
            "a b",
        ] {
            assert!(!is_answered(true, "/metrics", &[host]), "{host}");
            assert!(is_answered(false, "/metrics", &[host]), "{host} beyond this machine");
        }
    }

    #[test]
    fn the_host_of_the_target_counts_as_well() {
        assert!(is_answered(true, "http://127.0.0.1:7070/metrics", &[]), "HTTP/2 has it there");
        assert!(!is_answered(true, "http://evil.example/metrics", &[]));
        assert!(!is_answered(true, "http://evil.example/metrics", &["localhost"]));
        assert!(!is_answered(true, "http://localhost/metrics", &["evil.example"]));
        assert!(is_answered(true, "/metrics", &[]), "HTTP/1.0 names none, and no browser speaks it");
    }
}
