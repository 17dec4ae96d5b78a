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

/// The most memory a process has had since it began, or since [`forget_peak`].
pub fn peak_resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kb| kb << 10)
}

/// Starts this program's peak again, so that it does not tell of the preparations. Where the kernel refuses, it
/// does.
pub fn forget_peak() {
    let _refused = fs::write("/proc/self/clear_refs", "5");
}

/// CPU time of a process, of the children it waited for, and of those it has now: a server with one process per
/// client.
pub fn family_cpu(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process is gone")?;
    let mut ticks = ticks_of(&stat, 4).context("no CPU time")?;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if parent_of(&stat) == Some(pid) {
            ticks += cpu_ticks(&stat).unwrap_or_default();
        }
    }
    Ok(TICK * ticks)
}

/// CPU time of a process and of the children that it waited for.
pub fn family_cpu_of_ended(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process is gone")?;
    Ok(TICK * ticks_of(&stat, 4).context("no CPU time")?)
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

/// User and system time.
fn cpu_ticks(stat: &str) -> Option<u32> {
    ticks_of(stat, 2)
}

/// So many fields from the 14th on, added up; they are counted after the name, which may hold anything. Behind user
/// and system time come those of the children that were waited for.
fn ticks_of(stat: &str, fields: usize) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').skip(11).take(fields).map(|ticks| ticks.parse::<u32>().ok()).sum()
}

fn parent_of(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(1)?.parse().ok()
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
        assert_eq!(ticks_of(stat, 4), Some(42));
        assert_eq!(parent_of(stat), Some(1));
        assert_eq!(field("rchar: 1\nwrite_bytes: 8192\n", "write_bytes:"), Some(8_192));
    }

    #[test]
    fn this_process_is_visible() {
        assert!(usage(std::process::id()).expect("usage").resident_bytes > 0);
    }
}
