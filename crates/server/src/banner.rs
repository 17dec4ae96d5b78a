//! What a start prints: where to go, with which key. The last line is `ready`, for people and for scripts.

use crate::cli::say;
use std::net::SocketAddr;
use std::path::PathBuf;

pub struct Banner {
    pub address: SocketAddr,
    pub tls: bool,
    pub data: PathBuf,
    pub format: u32,
    pub default_key: Option<(PathBuf, String)>,
    /// `None`: given by the operator.
    pub admin_file: Option<PathBuf>,
    /// Where the sandbox's own API is, if there is one.
    pub sandbox: Option<(SocketAddr, PathBuf)>,
    /// What is less than was asked for, if something is.
    pub limits: Option<String>,
    /// Whether test doubles exist in this process.
    pub testing: bool,
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
        let scheme = if self.tls { "https" } else { "http" };
        let base = format!("{scheme}://{}", self.address);
        let mut text = format!("fantail {}\n", env!("CARGO_PKG_VERSION"));
        let mut line = |name: &str, value: &str| text.push_str(&format!("  {name:<9}{value}\n"));
        line("api", &format!("{base}/api/v1"));
        line("openapi", &format!("{base}/openapi.json"));
        line("health", &format!("{base}/readyz?verbose"));
        line("data", &format!("{} (format {})", self.data.display(), self.format));
        if let Some((file, key)) = &self.default_key {
            line("key", &format!("{key} (tenant default, kept in {})", file.display()));
        }
        match &self.admin_file {
            Some(file) => line("admin", &format!("key in {}", file.display())),
            None => line("admin", "key from the configuration"),
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

    // fixes: security L7
    #[test]
    fn the_banner_says_where_and_with_which_key() {
        let banner = Banner {
            address: "127.0.0.1:7070".parse().expect("an address"),
            tls: false,
            data: "./fantail-data".into(),
            format: 1,
            default_key: Some(("./fantail-data/default.key".into(), "ft_x".into())),
            admin_file: Some("./fantail-data/admin.key".into()),
            testing: false,
            clock_days_ahead: None,
            test_clock: None,
            sandbox: Some((
                "127.0.0.1:7071".parse().expect("an address"),
                "./fantail-data/sandbox.key".into(),
            )),
            limits: Some("64 connections at a time".to_owned()),
        };
        let text = banner.text();
        assert!(!text.contains("TESTS") && !text.contains("FANTAIL_TESTING"), "{text}");
        for part in [
            "http://127.0.0.1:7070/api/v1\n",
            "(format 1)",
            "ft_x (tenant default",
            "admin.key",
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
}
