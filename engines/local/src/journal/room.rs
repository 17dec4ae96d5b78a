//! Whether the disk still has room. Asked before every write, answered from memory most of the time.
//!
//! What must never happen: a disk that fills up to the last byte, because the tables beside the journal do not
//! survive that. Appends stop while there is still room to work; reads and fences go on.

use super::options::RoomOptions;
use crate::disk::{Disk, Space};
use fantail_ports::journal::AppendError;
use std::path::Path;
use std::time::Instant;

pub struct Room {
    options: RoomOptions,
    /// When there was room, and how much was written since. `None` while there is none.
    last_good: Option<(Instant, u64)>,
}

impl Room {
    #[must_use]
    pub fn new(options: RoomOptions) -> Self {
        Self { options, last_good: None }
    }

    /// Allows a write of so many bytes, or says how it stands.
    pub fn claim(&mut self, disk: &dyn Disk, dir: &Path, needed_bytes: u64) -> Result<(), AppendError> {
        if let Some((asked, written)) = &mut self.last_good {
            *written += needed_bytes;
            if *written <= self.options.check_every_bytes && asked.elapsed() < self.options.check_every {
                return Ok(());
            }
        }
        self.last_good = None;
        let space = disk.space(dir).map_err(|error| AppendError::Failed { reason: error.to_string() })?;
        if !has_room(space, &self.options, needed_bytes) {
            return Err(AppendError::NoRoom { free_bytes: space.free_bytes, needed_bytes });
        }
        self.last_good = Some((Instant::now(), needed_bytes));
        Ok(())
    }
}

fn has_room(space: Space, options: &RoomOptions, needed_bytes: u64) -> bool {
    let percent = space.total_bytes / 100 * options.free_percent_min;
    space.free_bytes >= options.free_bytes_min.max(percent).saturating_add(needed_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_reserve_counts() {
        let options = RoomOptions { free_bytes_min: 1_000, free_percent_min: 5, ..RoomOptions::default() };
        let cases = [
            (1_100, 10_000, 100, true),
            (1_099, 10_000, 100, false),
            (5_100, 100_000, 100, true),
            (5_099, 100_000, 100, false),
            (0, 0, 0, false),
        ];
        for (free_bytes, total_bytes, needed, fine) in cases {
            let space = Space { free_bytes, total_bytes };
            assert_eq!(has_room(space, &options, needed), fine, "{space:?}");
        }
    }
}
