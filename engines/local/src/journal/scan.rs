//! Reads a segment from its opening block on and folds every record: the full check of a segment.
//!
//! Comes from: recovery and verification. Decides: where the sound blocks end. Goes to: `recover` and `verify`,
//! which know whether an end there is allowed.

use super::damage::Place;
use super::format::SECTOR;
use super::index::{SegmentIndex, Spans};
use super::segment::Found;
use super::standing::Standings;
use super::walk::{BlockView, Expected, Step};
use crate::journal::format::Kind;
use fantail_ports::journal::JournalError;
use std::collections::BTreeMap;

/// What the sound blocks of a segment hold.
pub struct Scan {
    /// How partitions stood when the segment began.
    pub opening: Standings,
    pub standings: Standings,
    pub index: SegmentIndex,
    pub blocks: u64,
    /// Records by partition code.
    pub records: BTreeMap<u16, u64>,
    /// Where the last sound block starts, and where it ends.
    pub last_block_offset: u64,
    pub end: u64,
    /// Number and predecessor of the block that would come next.
    pub expected: Expected,
    /// Why the scan stopped before the end of the segment.
    pub stopped: Option<&'static str>,
}

/// Scans all blocks before the footer or the end of the file. Damage that no cut-off write can explain is an error.
pub fn scan(found: &Found) -> Result<Scan, JournalError> {
    let place = Place::new(&found.path);
    let mut walk = found.walk();
    let mut scan = Scan::start(found);
    loop {
        let offset = walk.offset;
        match walk.step().map_err(|error| place.failed(&error))? {
            Step::End => break,
            // The opening block was synced before the file got its name.
            Step::Bad(reason) if offset == SECTOR as u64 => return Err(place.damaged(offset, reason)),
            Step::Bad(reason) => {
                scan.stopped = Some(reason);
                break;
            }
            Step::Foreign(reason) => return Err(place.damaged(offset, reason)),
            // A seal that was cut off before its trailer: the block is sound, but closes nothing.
            Step::Block(view) if found.seal.is_none() && is_footer(&view) => {
                scan.stopped = Some("the segment was being sealed");
                break;
            }
            Step::Block(view) => scan.fold(&view).map_err(|reason| place.damaged(offset, reason))?,
        }
        scan.end = walk.offset;
        scan.expected = walk.expected().expect("a checked walk always expects a block").clone();
    }
    check_seal(found, &scan, &place)?;
    Ok(scan)
}

fn is_footer(view: &BlockView<'_>) -> bool {
    view.records().any(|record| record.header.kind == Kind::Footer)
}

/// A sealed segment must be whole, and what its footer says must be what its blocks say.
fn check_seal(found: &Found, scan: &Scan, place: &Place<'_>) -> Result<(), JournalError> {
    let Some(seal) = &found.seal else { return Ok(()) };
    if let Some(reason) = scan.stopped {
        return Err(place.damaged(scan.end, reason));
    }
    if seal.before != scan.expected {
        return Err(place.damaged(seal.offset, "hash chain is broken before the footer"));
    }
    if !seal.footer.index.covers_same(&scan.index) || !seal.footer.standings.agrees(&scan.standings) {
        return Err(place.damaged(seal.offset, "the footer does not describe the segment"));
    }
    Ok(())
}

impl Scan {
    fn start(found: &Found) -> Self {
        Self {
            opening: Standings::default(),
            standings: Standings::default(),
            index: SegmentIndex::default(),
            blocks: 0,
            records: BTreeMap::new(),
            last_block_offset: SECTOR as u64,
            end: SECTOR as u64,
            expected: Expected { number: found.header.first_block, previous: found.header.chain_before },
            stopped: None,
        }
    }

    fn fold(&mut self, view: &BlockView<'_>) -> Result<(), &'static str> {
        let mut spans = Spans::default();
        for record in view.records() {
            let header = &record.header;
            if (header.kind == Kind::State) != (self.blocks == 0) {
                return Err("state records belong into the opening block, and nothing else does");
            }
            self.standings.fold(header, record.bytes)?;
            if header.kind == Kind::Data {
                spans.add(header.partition, header.position, header.position);
                *self.records.entry(header.partition).or_default() += 1;
            }
        }
        if self.blocks == 0 {
            self.opening = self.standings.clone();
        }
        for span in spans.0 {
            self.index.add(span, view.offset);
        }
        self.blocks += 1;
        self.last_block_offset = view.offset;
        Ok(())
    }
}
