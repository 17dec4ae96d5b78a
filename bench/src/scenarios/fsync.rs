//! The speed of light: bytes appended to a preallocated file and made durable, one after the other. No accept can
//! be faster than one of these, and every durable rate is this rate times what shares a commit.
//!
//! A disk is not the same disk a minute later, least of all on a shared machine. So goals are not reckoned from this
//! scenario but from probes right before and right after the load they are held against.

use crate::Bench;
use crate::quantiles::{Samples, Summary};
use crate::report::Row;
use anyhow::Result;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// What the goals mean by fsync.
const BLOCK_BYTES: usize = 4_096;
/// What the journal writes for a single small event: cheaper, because the same page is written again.
const SECTOR_BYTES: usize = 512;
const FILE_BYTES: u64 = 256 << 20;

pub fn run(bench: &mut Bench) -> Result<()> {
    for (bytes, what) in [(BLOCK_BYTES, "4 KB append"), (SECTOR_BYTES, "512-byte append, as a small commit")]
    {
        let summary = append(&bench.work, bytes, bench.scale.fsync_loop)?.summarise();
        let what = format!("raw disk: {what} + fdatasync, preallocated file");
        let row = Row::new("fsync", what, "fsync each")
            .fact("rate", summary.count as f64 / bench.scale.fsync_loop.as_secs_f64(), "/s")
            .fact("p50", summary.p50_ms, " ms")
            .fact("p99", summary.p99_ms, " ms")
            .fact("max", summary.max_ms, " ms");
        bench.report.add(row);
    }
    Ok(())
}

/// The raw disk around one load.
pub struct Probe(Samples);

impl Probe {
    /// Call right before the load. Blocks this thread, which has nothing else to do then.
    pub fn before(bench: &Bench) -> Result<Self> {
        Ok(Self(append(&bench.work, BLOCK_BYTES, bench.scale.probe)?))
    }

    /// Call right after the load.
    pub fn after(mut self, bench: &Bench) -> Result<Summary> {
        self.0.merge(append(&bench.work, BLOCK_BYTES, bench.scale.probe)?);
        Ok(self.0.summarise())
    }
}

fn append(work: &Path, bytes: usize, limit: Duration) -> Result<Samples> {
    let path = work.join("fsync");
    let file = File::options().write(true).create(true).truncate(true).open(&path)?;
    // As the journal does it; a file system without reservations gets at least the length.
    if fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES).is_err() {
        file.set_len(FILE_BYTES)?;
    }
    file.sync_all()?;
    let block = vec![0x5a; bytes];
    let mut samples = Samples::default();
    let began = Instant::now();
    let mut offset = 0;
    while began.elapsed() < limit && offset < FILE_BYTES {
        let one = Instant::now();
        file.write_all_at(&block, offset)?;
        file.sync_data()?;
        samples.record(one.elapsed());
        offset += bytes as u64;
    }
    std::fs::remove_file(&path)?;
    Ok(samples)
}
