//! What the kernel knows of a process: CPU time, memory, bytes written; and what a directory takes on disk.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// `/proc` counts CPU time in these; fixed on Linux.
const TICK: Duration = Duration::from_millis(10);
const PAGE_BYTES: u64 = 4_096;

#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time of all threads.
    pub cpu: Duration,
    pub resident_bytes: u64,
    /// Bytes sent towards the disk. `None` where the kernel does not tell.
    pub written_bytes: Option<u64>,
}

pub fn usage(pid: u32) -> Result<Usage> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
    let stat = read("stat").context("the process is gone")?;
    let statm = read("statm").context("the process is gone")?;
    let written = read("io").ok().and_then(|io| field(&io, "write_bytes:"));
    let pages: u64 =
        statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).context("no resident size")?;
    let ticks = cpu_ticks(&stat).context("no CPU time")?;
    Ok(Usage { cpu: TICK * ticks, resident_bytes: pages * PAGE_BYTES, written_bytes: written })
}

/// CPU time of this program: near one core means that it, not the server, is the limit.
pub fn own_cpu() -> Result<Duration> {
    Ok(usage(std::process::id())?.cpu)
}

/// Bytes that a directory takes on disk; what vanishes while it is looked at counts nothing.
pub fn disk_bytes(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return metadata.blocks() * 512;
    }
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    entries.flatten().map(|entry| disk_bytes(&entry.path())).sum()
}

/// Fields 14 and 15, counted after the name, which may hold anything.
fn cpu_ticks(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ').skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(field("rchar: 1\nwrite_bytes: 8192\n", "write_bytes:"), Some(8_192));
    }

    #[test]
    fn this_process_is_visible() {
        assert!(usage(std::process::id()).expect("usage").resident_bytes > 0);
    }
}
