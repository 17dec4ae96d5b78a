//! What a start prints: where to go, with which key. The last line is `ready`, for people and for scripts.

use crate::cli::say;
use crate::listeners::{BoundListener, url_of};
use fantail_api::listener_kinds::ListenerKind;
use std::net::SocketAddr;
use std::path::PathBuf;

pub struct Banner {
    pub listeners: Vec<BoundListener>,
    pub data: PathBuf,
    pub format: u32,
    /// The first key, as long as it is good for anything.
    pub default_key: Option<(PathBuf, String)>,
    /// Whether it can be used from beyond this machine.
    pub is_exposed: bool,
    /// Whether somebody looks. What is kept (journald, container logs) does not get the key.
    pub is_terminal: bool,
    /// `None`: given by the operator.
    pub admin_file: Option<PathBuf>,
    /// Where the sandbox's own API is, if there is one.
    pub sandbox: Option<(SocketAddr, PathBuf)>,
    /// What is less than was asked for, if something is.
    pub limits: Option<String>,
    /// Whether test doubles exist in this process.
    pub testing: bool,
    /// What a copy of a data directory says that sends nothing.
    pub paused: Option<String>,
    /// How many days the clock is too far ahead to be believed.
    pub clock_days_ahead: Option<u64>,
    /// Where a test moves the clock, if one does.
    pub test_clock: Option<PathBuf>,
}

impl Banner {
    pub fn print(&self) -> anyhow::Result<()> {
        say(self.text().trim_end())
    }

    fn text(&self) -> String {
        let url = |kind| url_of(&self.listeners, kind);
        let (base, public, admin) =
            (url(ListenerKind::Api), url(ListenerKind::Public), url(ListenerKind::Admin));
        let mut text = format!("fantail {}\n", env!("CARGO_PKG_VERSION"));
        let mut line = |name: &str, value: &str| text.push_str(&format!("  {name:<9}{value}\n"));
        line("api", &format!("{base}/api/v1"));
        line("openapi", &format!("{base}/openapi.json"));
        if public != base {
            line("public", &format!("{public} (hosted pages, callbacks, tracked links)"));
        }
        line("health", &format!("{admin}/readyz?verbose"));
        line("data", &format!("{} (format {})", self.data.display(), self.format));
        if let Some((file, key)) = &self.default_key {
            match self.is_terminal {
                true => line("key", &format!("{key} (tenant default, kept in {})", file.display())),
                false => line("key", &format!("in {} (tenant default)", file.display())),
            }
        }
        let at = if admin == base { String::new() } else { format!("{admin}, ") };
        match &self.admin_file {
            Some(file) => line("admin", &format!("{at}key in {}", file.display())),
            None => line("admin", &format!("{at}key from the configuration")),
        }
        if self.is_exposed {
            line(
                "warning",
                "the first key works from beyond this machine: make keys of your own and revoke it",
            );
        }
        if let Some((control, file)) = &self.sandbox {
            let key = file.display();
            line(
                "sandbox",
                &format!(
                    "http://{control} (key in {key}; nothing leaves this machine until a provider is set up)"
                ),
            );
        }
        if let Some(limits) = &self.limits {
            line("limits", limits);
        }
        if self.testing {
            line(
                "testing",
                "FANTAIL_TESTING=1: stub providers and test settings are on; never use this in production",
            );
        }
        if let Some(paused) = &self.paused {
            line("paused", paused);
        }
        if let Some(days) = self.clock_days_ahead {
            line(
                "clock",
                &format!(
                    "{days} days ahead of everything known: nothing is released, expired or deleted until it is right or you \
                     run `fantail clock accept`"
                ),
            );
        }
        if let Some(socket) = &self.test_clock {
            text.push_str("\n  FOR TESTS ONLY: NOT THE REAL TIME\n");
            text.push_str(&format!("  the clock is moved by whoever writes to {}\n\n", socket.display()));
        }
        text.push_str("ready\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_api::listener_kinds::ListenerKinds;

    fn listener(address: &str, kinds: ListenerKinds) -> BoundListener {
        BoundListener { address: address.parse().expect("an address"), kinds, is_tls: false }
    }

    fn banner() -> Banner {
        Banner {
            listeners: vec![listener("127.0.0.1:7070", ListenerKinds::ALL)],
            data: "./fantail-data".into(),
            format: 1,
            default_key: Some(("./fantail-data/default.key".into(), "ft_x".into())),
            is_exposed: false,
            is_terminal: true,
            admin_file: Some("./fantail-data/admin.key".into()),
            testing: false,
            paused: None,
            clock_days_ahead: None,
            test_clock: None,
            sandbox: Some((
                "127.0.0.1:7071".parse().expect("an address"),
                "./fantail-data/sandbox.key".into(),
            )),
            limits: Some("64 connections at a time".to_owned()),
        }
    }

    // fixes: security L7
    #[test]
    fn the_banner_says_where_and_with_which_key() {
        let banner = banner();
        let text = banner.text();
        assert!(!text.contains("TESTS") && !text.contains("FANTAIL_TESTING"), "{text}");
        for part in [
            "http://127.0.0.1:7070/api/v1\n",
            "(format 1)",
            "ft_x (tenant default",
            "admin    key in ./fantail-data/admin.key",
            "nothing leaves",
            "http://127.0.0.1:7071 (key in ./fantail-data/sandbox.key;",
            "limits   64 connections",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.ends_with("\nready\n"));
        let banner = Banner { testing: true, ..banner };
        assert_eq!(banner.text().lines().filter(|line| line.contains("FANTAIL_TESTING=1")).count(), 1);
        let banner = Banner { clock_days_ahead: Some(1_826), ..banner };
        let text = banner.text();
        assert!(text.contains("1826 days ahead") && text.contains("fantail clock accept"), "{text}");
        let text = Banner { test_clock: Some("/tmp/clock".into()), ..banner }.text();
        assert!(text.contains("FOR TESTS ONLY") && text.contains("/tmp/clock"), "{text}");
    }

    // fixes: security M10
    #[test]
    fn the_key_is_shown_to_people_and_not_to_logs() {
        let text = Banner { is_terminal: false, ..banner() }.text();
        assert!(!text.contains("ft_x") && text.contains("key      in ./fantail-data/default.key"), "{text}");
        assert!(!text.contains("warning"), "{text}");
        let text = Banner { is_exposed: true, ..banner() }.text();
        assert!(text.contains("warning  the first key"), "{text}");
    }

    #[test]
    fn every_listener_is_named() {
        let listeners = vec![
            listener("192.0.2.1:7070", ListenerKinds::API),
            listener("192.0.2.1:80", ListenerKinds::PUBLIC),
            listener("127.0.0.1:7072", ListenerKinds::API_AND_ADMIN),
        ];
        let text = Banner { listeners, ..banner() }.text();
        for part in [
            "api      http://192.0.2.1:7070/api/v1\n",
            "public   http://192.0.2.1:80 (",
            "health   http://127.0.0.1:7072/readyz?verbose\n",
            "admin    http://127.0.0.1:7072, key in ./fantail-data/admin.key\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
