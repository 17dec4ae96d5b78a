//! Reading: from the cached tail if it reaches back far enough, otherwise from the segment files.
//!
//! What must never happen: a record that is not durable, or whose checksum does not match.

use super::cache::Taken;
use super::catalog::Spot;
use super::damage::Place;
use super::format::Kind;
use super::walk::{Step, Walk};
use super::{Shared, held};
use crate::disk::How;
use fantail_ports::journal::{JournalError, ReadLimit, Record};
use fantail_rules::ids::{PartitionId, Position};
use std::io;

#[derive(Clone, Copy)]
pub struct Ask {
    pub partition: PartitionId,
    pub from: Position,
    pub limit: ReadLimit,
}

/// The answer if memory has it: the end, the cached tail, or the knowledge that it was trimmed.
pub fn read_cached(shared: &Shared, ask: Ask) -> Option<Result<Vec<Record>, JournalError>> {
    let catalog = held(&shared.catalog);
    let bounds = catalog.bounds(ask.partition.code());
    // Position 0 is "before all" and no record.
    let from = ask.from.max(Position(1));
    if from < bounds.first {
        let (partition, first) = (ask.partition, bounds.first);
        return Some(Err(JournalError::Trimmed { partition, asked: ask.from, first }));
    }
    if from >= bounds.next {
        return Some(Ok(Vec::new()));
    }
    catalog.cache.read(ask.partition.code(), from.0, ask.limit).map(Ok)
}

/// Reads from files until the limit or the end of what is durable.
pub fn read(shared: &Shared, ask: Ask) -> Result<Vec<Record>, JournalError> {
    let mut taken = Taken::new(ask.limit);
    let mut next = ask.from.max(Position(1));
    let mut gone: Option<String> = None;
    while !taken.is_full() {
        if taken.records.is_empty()
            && let Some(answer) = read_cached(shared, ask)
        {
            return answer;
        }
        let Some(spot) = held(&shared.catalog).find(ask.partition.code(), next.0) else { break };
        let place = Place::new(&spot.path);
        match read_segment(shared, &spot, ask.partition.code(), &mut next, &mut taken) {
            Ok(true) => {}
            Ok(false) => break,
            // Trimmed meanwhile: the catalog already knows. Gone otherwise is damage.
            Err(Trouble::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                if gone.replace(place.file()) == Some(place.file()) {
                    return Err(place.damaged(0, "the segment file is gone"));
                }
            }
            Err(Trouble::Io(error)) => return Err(place.failed(&error)),
            Err(Trouble::Damaged { offset, reason }) => return Err(place.damaged(offset, reason)),
        }
    }
    Ok(taken.records)
}

enum Trouble {
    Io(io::Error),
    Damaged { offset: u64, reason: &'static str },
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Takes records of one partition from one segment; false if the limit ended it.
fn read_segment(
    shared: &Shared,
    spot: &Spot,
    partition: u16,
    next: &mut Position,
    taken: &mut Taken,
) -> Result<bool, Trouble> {
    let file = shared.disk.open(&spot.path, How::Read)?;
    let mut walk = Walk::from_middle(file, spot.salt, spot.offset, spot.end);
    while next.0 <= spot.last {
        let offset = walk.offset;
        let view = match walk.step()? {
            Step::Block(view) => view,
            Step::End => return Err(Trouble::Damaged { offset, reason: "a record of the index is gone" }),
            Step::Bad(reason) | Step::Foreign(reason) => return Err(Trouble::Damaged { offset, reason }),
        };
        for record in view.records() {
            let header = &record.header;
            if header.kind != Kind::Data || header.partition != partition || header.position < next.0 {
                continue;
            }
            if header.position != next.0 {
                return Err(Trouble::Damaged { offset, reason: "positions do not continue" });
            }
            if !taken.push(header.position, record.bytes) {
                return Ok(false);
            }
            *next = next.next();
        }
    }
    Ok(true)
}
