//! Trimming: remembers what nobody needs any more, and removes whole segments from the oldest on.
//!
//! What must never happen: a gap between segments. They are removed in order, and each removal is durable before
//! the next one; a removal that a crash undoes only brings the oldest segment back. On a disk without room for the mark
//! nothing is removed.

use super::damage::Place;
use super::{Shared, held};
use fantail_ports::journal::JournalError;
use fantail_rules::ids::{PartitionId, Position};

pub fn trim(shared: &Shared, partition: PartitionId, before: Position) -> Result<(), JournalError> {
    // One at a time, so that the order of removals is the order of segments.
    let _in_order = held(&shared.trimming);
    {
        let mut catalog = held(&shared.catalog);
        let Some(standing) = catalog.standings.0.get_mut(&partition.code()) else { return Ok(()) };
        standing.trimmed = standing.trimmed.max(before.0.min(standing.next));
    }
    loop {
        let mut catalog = held(&shared.catalog);
        if catalog.oldest_unneeded().is_none() {
            return Ok(());
        }
        let oldest = catalog.segments.pop_front().expect("the oldest segment was just looked at");
        drop(catalog);
        let place = Place::new(&oldest.path);
        // The mark first: it must not name a segment that is gone.
        let marked = shared.move_mark(|mark| mark.first = mark.first.max(oldest.number + 1));
        let removed = marked.and_then(|()| shared.disk.sync_dir(&shared.dir));
        let removed = removed.and_then(|()| shared.disk.remove(&oldest.path));
        if let Err(error) = removed {
            let failed = place.failed(&error);
            held(&shared.catalog).segments.push_front(oldest);
            return Err(failed);
        }
    }
}
