//! The speed of light: 4 KB appended to a preallocated file and made durable, one after the other. No accept can
//! be faster than one of these, and every durable rate is this rate times what shares a commit.

use crate::Bench;
use crate::quantiles::Samples;
use crate::report::Row;
use anyhow::Result;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

const BLOCK_BYTES: usize = 4_096;
const FILE_BYTES: u64 = 256 << 20;

pub fn run(bench: &mut Bench) -> Result<()> {
    let path = bench.work.join("fsync");
    let file = File::options().write(true).create(true).truncate(true).open(&path)?;
    // As the journal does it; a file system without reservations gets at least the length.
    if fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES).is_err() {
        file.set_len(FILE_BYTES)?;
    }
    file.sync_all()?;
    let block = [0x5a; BLOCK_BYTES];
    let mut samples = Samples::default();
    let began = Instant::now();
    let mut offset = 0;
    while began.elapsed() < bench.scale.fsync_loop && offset < FILE_BYTES {
        let one = Instant::now();
        file.write_all_at(&block, offset)?;
        file.sync_data()?;
        samples.record(one.elapsed());
        offset += BLOCK_BYTES as u64;
    }
    let elapsed = began.elapsed();
    std::fs::remove_file(&path)?;
    bench.fsync = samples.summarise();
    let row = Row::new("fsync", "raw disk: 4 KB append + fdatasync, preallocated file", "fsync each")
        .fact("rate", bench.fsync.count as f64 / elapsed.as_secs_f64(), "/s")
        .fact("p50", bench.fsync.p50_ms, " ms")
        .fact("p99", bench.fsync.p99_ms, " ms")
        .fact("max", bench.fsync.max_ms, " ms");
    bench.report.add(row);
    Ok(())
}
