//! Where the server listens, and what each listener serves.
//!
//! Invariant: administration is beyond this machine, or where a proxy leads, only if `admin.listen` says so; plain HTTP only if `http.plain_allowed` does.

use super::{ConfigError, Layers, Tls};
use fantail_api::listener_kinds::ListenerKinds;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where administration is if `listen` is beyond this machine.
const ADMIN_PORT: u16 = 7_071;
const PLACE: &str = "must be an address and a port, like 127.0.0.1:7070";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenerSettings {
    pub address: SocketAddr,
    pub kinds: ListenerKinds,
    pub is_tls: bool,
}

impl Layers {
    /// The first serves the API.
    pub(super) fn listeners(&self, tls: Option<&Tls>) -> Result<Vec<ListenerSettings>, ConfigError> {
        let api: SocketAddr = self.parse("listen", PLACE)?;
        let named = |key| match self.get(key).0 {
            "" => Ok(None),
            _ => self.parse(key, PLACE).map(Some),
        };
        let plain_allowed = self.flag("http.plain_allowed")?;
        let public = named("public.listen")?;
        // A proxy on this machine brings strangers to a loopback address.
        let has_proxies = !self.get("http.trusted_proxies").0.is_empty();
        let is_proxied = has_proxies || (plain_allowed && public.is_none());
        let wanted = places(api, is_proxied, public, named("admin.listen")?);
        let mut listeners = Vec::with_capacity(wanted.len());
        for (no, (address, kinds)) in wanted.into_iter().enumerate() {
            let is_loopback = address.ip().to_canonical().is_loopback();
            let is_tls = tls.is_some() && (no == 0 || !is_loopback);
            // With test doubles nothing beyond this machine is listened to at all.
            if !is_loopback && !is_tls && !plain_allowed && !self.testing {
                return Err(ConfigError::PlainBeyondThisMachine { address });
            }
            listeners.push(ListenerSettings { address, kinds, is_tls });
        }
        Ok(listeners)
    }

    pub(super) fn admin_hosts(&self) -> Result<Vec<String>, ConfigError> {
        let named = self.get("admin.hosts").0.split(',').map(str::trim).filter(|one| !one.is_empty());
        let names: Vec<String> = named.map(str::to_owned).collect();
        let is_name =
            |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
        let has_port = |name: &String| name.contains(':') && name.parse::<IpAddr>().is_err();
        if names.iter().all(|name| is_name(name) && !has_port(name)) {
            return Ok(names);
        }
        Err(self.invalid("admin.hosts", "must be names or addresses without a port, separated by commas"))
    }
}

/// Every address with what it serves, the API's first. What has the same address is one listener.
fn places(
    api: SocketAddr,
    is_proxied: bool,
    public: Option<SocketAddr>,
    admin: Option<SocketAddr>,
) -> Vec<(SocketAddr, ListenerKinds)> {
    let is_loopback = api.ip().to_canonical().is_loopback();
    let own_admin = || {
        let port = if api.port() == 0 { 0 } else { ADMIN_PORT };
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    };
    let admin = admin.or_else(|| (!is_loopback || is_proxied).then(own_admin));
    let mut places = vec![(api, ListenerKinds::API)];
    // Whoever administers may also do what keys of tenants do.
    for (own, kinds) in [(public, ListenerKinds::PUBLIC), (admin, ListenerKinds::API_AND_ADMIN)] {
        let address = own.unwrap_or(api);
        // Port 0 is another port each time that it is named.
        let is_same = |known: &(SocketAddr, _)| known.0 == address && (own.is_none() || address.port() != 0);
        match places.iter().position(is_same) {
            Some(at) => places[at].1 = places[at].1.union(kinds),
            None => places.push((address, kinds)),
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;
    use std::collections::BTreeMap;

    /// As `address kinds [tls]`.
    fn read(settings: &[(&str, &str)]) -> Result<Vec<String>, ConfigError> {
        let environment: BTreeMap<&str, &str> = settings.iter().copied().collect();
        let find = |name: &str| environment.get(name).map(|value| (*value).to_owned());
        let config = Layers::read(&Flags::default(), &find)?.config()?;
        let shown = |one: &ListenerSettings| {
            let tls = if one.is_tls { " tls" } else { "" };
            format!("{} {}{tls}", one.address, one.kinds.names())
        };
        Ok(config.listeners.iter().map(shown).collect())
    }

    const PLAIN: (&str, &str) = ("FANTAIL_HTTP_PLAIN_ALLOWED", "true");
    const TLS: [(&str, &str); 2] = [("FANTAIL_TLS_CERT", "c.pem"), ("FANTAIL_TLS_KEY", "k.pem")];

    fn listen(address: &'static str) -> (&'static str, &'static str) {
        ("FANTAIL_LISTEN", address)
    }

    // fixes: security M5, usability B8
    #[test]
    fn administration_leaves_this_machine_only_if_it_is_said() {
        let check = |settings: &[(&str, &str)], expected: &[&str]| {
            assert_eq!(read(settings).expect("valid"), expected, "{settings:?}");
        };
        check(&[], &["127.0.0.1:7070 public, api, admin"]);
        check(&[listen("127.0.0.1:0")], &["127.0.0.1:0 public, api, admin"]);
        let proxy = ("FANTAIL_HTTP_TRUSTED_PROXIES", "127.0.0.1");
        check(&[proxy], &["127.0.0.1:7070 public, api", "127.0.0.1:7071 api, admin"]);
        check(&[PLAIN], &["127.0.0.1:7070 public, api", "127.0.0.1:7071 api, admin"]);
        let own = "127.0.0.1:7071 api, admin";
        check(&[listen("0.0.0.0:7070"), PLAIN], &["0.0.0.0:7070 public, api", own]);
        check(&[listen("0.0.0.0:0"), PLAIN], &["0.0.0.0:0 public, api", "127.0.0.1:0 api, admin"]);
        check(&[listen("[::]:7070"), TLS[0], TLS[1]], &["[::]:7070 public, api tls", own]);
        let public = ("FANTAIL_PUBLIC_LISTEN", "0.0.0.0:8080");
        check(&[public, PLAIN], &["127.0.0.1:7070 api, admin", "0.0.0.0:8080 public"]);
        check(&[public, TLS[0], TLS[1]], &["127.0.0.1:7070 api, admin tls", "0.0.0.0:8080 public tls"]);
        let admin = ("FANTAIL_ADMIN_LISTEN", "10.0.0.1:7071");
        check(
            &[listen("10.0.0.1:7070"), public, admin, PLAIN],
            &["10.0.0.1:7070 api", "0.0.0.0:8080 public", "10.0.0.1:7071 api, admin"],
        );
        let everywhere = ("FANTAIL_ADMIN_LISTEN", "0.0.0.0:7070");
        check(&[listen("0.0.0.0:7070"), everywhere, PLAIN], &["0.0.0.0:7070 public, api, admin"]);
        let free = ("FANTAIL_ADMIN_LISTEN", "127.0.0.1:0");
        check(&[listen("127.0.0.1:0"), free], &["127.0.0.1:0 public, api", "127.0.0.1:0 api, admin"]);
    }

    // fixes: security L2
    #[test]
    fn plain_http_beyond_this_machine_is_refused_by_the_name_of_its_setting() {
        let public = ("FANTAIL_PUBLIC_LISTEN", "192.0.2.1:80");
        let admin = ("FANTAIL_ADMIN_LISTEN", "192.0.2.1:81");
        for setting in
            [listen("0.0.0.0:7070"), listen("[::]:7070"), listen("[::ffff:192.0.2.1]:80"), public, admin]
        {
            let refused = read(&[setting]).expect_err("plain").to_string();
            assert!(refused.contains("http.plain_allowed") && refused.contains("tls.cert"), "{refused}");
            assert!(read(&[setting, PLAIN]).is_ok(), "{setting:?}");
            assert!(read(&[setting, TLS[0], TLS[1]]).is_ok(), "{setting:?}");
        }
        assert!(read(&[listen("[::ffff:127.0.0.1]:7070")]).is_ok());
    }
}
