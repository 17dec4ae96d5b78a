//! Looks at the disk once a second, and tells the node when it becomes short, so that tenants share what is left.
//!
//! The reserve (`storage.free_*`) is where the journal refuses everybody. Below twice the reserve the disk is short.

use crate::config::Room;
use fantail_local::disk::{Disk, RealDisk, Space};
use fantail_node::Node;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use tracing::warn;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Bytes that stay free: below it nothing new is stored.
#[must_use]
pub fn reserve_bytes(space: Space, room: Room) -> u64 {
    room.free_bytes_min.max(space.total_bytes / 100 * room.free_percent_min)
}

/// What is free above the reserve, if the disk is short.
fn free_bytes_to_share(space: Space, room: Room) -> Option<u64> {
    let reserve = reserve_bytes(space, room);
    let is_short = space.free_bytes < reserve.saturating_mul(2);
    is_short.then(|| space.free_bytes.saturating_sub(reserve))
}

/// Until it is stopped.
pub fn run(node: &Node, data: &Path, room: Room, stopped: &Receiver<()>) {
    while matches!(stopped.recv_timeout(LOOK_EVERY), Err(RecvTimeoutError::Timeout)) {
        match RealDisk.space(data) {
            Ok(space) => node.set_disk_room(free_bytes_to_share(space, room)),
            // The journal asks before it writes, and refuses.
            Err(error) => warn!(%error, "cannot look at the disk"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // fixes: security M8
    #[test]
    fn a_disk_is_short_below_twice_its_reserve() {
        let room = Room { free_bytes_min: 1_000, free_percent_min: 5 };
        for (free_bytes, total_bytes, shared) in [
            (2_000, 10_000, None),
            (1_999, 10_000, Some(999)),
            (1_000, 10_000, Some(0)),
            (10, 10_000, Some(0)),
            (10_000, 100_000, None),
            (9_000, 100_000, Some(4_000)),
        ] {
            let space = Space { free_bytes, total_bytes };
            assert_eq!(free_bytes_to_share(space, room), shared, "{space:?}");
        }
    }
}
