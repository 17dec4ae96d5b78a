//! A file that says what is wrong with the provider, so that a test can break and mend it while a server runs.
//!
//! Comes from: whoever writes the file, whole lines such as `push down`, `email fail=20` or `sms slow=50`; a channel
//! without a line, and a file that is not there, are well. Goes to: every shipment that starts afterwards.
//!
//! What must never happen: a line that nobody understands and that breaks nothing, for a test would prove nothing.

use super::settings::Faults;
use std::io;
use std::path::PathBuf;

/// Where one channel's faults are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Control {
    pub file: PathBuf,
    /// The word that its lines begin with.
    pub channel: &'static str,
}

/// A channel is slower by a minute at most.
const SLOW_MS_MAX: u64 = 60_000;
/// What is wrong if the file is: everything.
const DOWN: Faults = Faults { down: true, slow_ms: 0, fail_percent: 0, malformed_percent: 0 };

impl Control {
    /// Blocks for as long as reading a few bytes takes: for tests only.
    #[must_use]
    pub fn read(&self) -> Faults {
        match std::fs::read_to_string(&self.file) {
            Ok(text) => faults(&text, self.channel).unwrap_or(DOWN),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Faults::default(),
            Err(_) => DOWN,
        }
    }
}

/// `None` if a line of the channel says nothing that is known.
fn faults(text: &str, channel: &str) -> Option<Faults> {
    let mut faults = Faults::default();
    let lines = text.lines().filter_map(|line| line.strip_prefix(channel)?.strip_prefix(' '));
    for fault in lines {
        match fault.split_once('=') {
            None if fault == "down" => faults.down = true,
            Some(("fail", share)) => faults.fail_percent = percent(share)?,
            Some(("malformed", share)) => faults.malformed_percent = percent(share)?,
            Some(("slow", ms)) => faults.slow_ms = ms.parse().ok().filter(|ms| *ms <= SLOW_MS_MAX)?,
            None | Some(_) => return None,
        }
    }
    Some(faults)
}

fn percent(text: &str) -> Option<u8> {
    text.parse().ok().filter(|percent| *percent <= 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: Faults = Faults { down: false, ..DOWN };

    #[test]
    fn each_channel_has_its_own_lines() {
        for (text, expected) in [
            ("", Some(WELL)),
            ("push down\n", Some(DOWN)),
            ("email down\nsms slow=5\n", Some(WELL)),
            ("push fail=20\npush slow=50\n", Some(Faults { fail_percent: 20, slow_ms: 50, ..WELL })),
            ("push malformed=40\n", Some(Faults { malformed_percent: 40, ..WELL })),
            ("push\n", Some(WELL)),
            ("pushdown\n", Some(WELL)),
            ("push fail=101\n", None),
            ("push slow=60001\n", None),
            ("push tired\n", None),
            ("push down=1\n", None),
        ] {
            assert_eq!(faults(text, "push"), expected, "{text:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_breaks_nothing() {
        let file = std::env::temp_dir().join("fantail-no-such-control-file");
        assert_eq!(Control { file, channel: "push" }.read(), WELL);
        let file = std::env::temp_dir();
        assert_eq!(Control { file, channel: "push" }.read(), DOWN, "a directory cannot be read");
    }
}
