//! File descriptors: how many this process may have, and how many of them connections may take.
//!
//! What must never happen: connections that leave no descriptor for a file. Tables that cannot open their next file stop the
//! process, and whoever opens connections needs no key.

use crate::config::Http;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Kept for files, connections to providers and probes: three of four descriptors, and at most so many. The tables alone keep up
/// to 900 files open.
const KEPT_MAX: u64 = 4_096;

/// Raises the limit of this process as far as it may, and lowers what connections may take to what is left then. Returns what an
/// operator should know if that is less than was asked for.
pub fn fit(http: &mut Http) -> Option<String> {
    let descriptors = raise_limit()?;
    let wanted = http.connections_max;
    http.connections_max = connections_max(wanted, descriptors);
    if http.connections_max == wanted {
        return None;
    }
    warn!(
        connections_max = http.connections_max,
        wanted, descriptors, "too few file descriptors for all connections"
    );
    let max = http.connections_max;
    Some(format!(
        "{max} connections at a time, not {wanted}: this process may open {descriptors} files (ulimit -n)"
    ))
}

/// Raises the soft limit to the hard one. Returns what is in force; `None`: there is no limit.
fn raise_limit() -> Option<u64> {
    let found = getrlimit(Resource::Nofile);
    if found.current == found.maximum {
        return found.current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: found.maximum, maximum: found.maximum }) {
        Ok(()) => found.maximum,
        Err(error) => {
            warn!(%error, limit = found.current, "cannot raise the limit of file descriptors");
            found.current
        }
    }
}

fn connections_max(wanted: usize, descriptors: u64) -> usize {
    let kept = (descriptors / 4 * 3).min(KEPT_MAX);
    usize::try_from(descriptors - kept).map_or(wanted, |left| left.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_files() {
        for (wanted, descriptors, expected) in [
            (10_000, 1_048_576, 10_000),
            (10_000, 14_096, 10_000),
            (10_000, 14_095, 9_999),
            (10_000, 4_096, 1_024),
            (10_000, 1_024, 256),
            (10_000, 256, 64),
            (100, 1_024, 100),
            (10_000, 10, 4),
            (10_000, 0, 0),
        ] {
            assert_eq!(connections_max(wanted, descriptors), expected, "{wanted} of {descriptors}");
        }
    }

    #[test]
    fn the_soft_limit_is_as_high_as_it_may_be() {
        assert_eq!(raise_limit(), getrlimit(Resource::Nofile).maximum);
    }
}
