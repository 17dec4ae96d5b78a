//! Names the machine that a report was measured on.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;

pub fn describe(data: &Path) -> Value {
    let cpu_info = read("/proc/cpuinfo");
    let memory_kb = value_of(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
        .unwrap_or_default();
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "cpu": value_of(&cpu_info, "model name").unwrap_or_else(|| "unknown".into()),
        "memoryGiB": memory_kb / (1 << 20),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "fileSystem": file_system(&read("/proc/mounts"), data),
        "loadAverageAtStart": read("/proc/loadavg").split(' ').next().unwrap_or_default(),
    })
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn value_of(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Type and device of the mount that holds `data`. An fsync on tmpfs costs nothing and proves nothing.
fn file_system(mounts: &str, data: &Path) -> String {
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?, words.next()?))
        })
        .filter(|(_, point, _)| data.starts_with(point))
        .max_by_key(|(_, point, _)| point.len());
    match mount {
        Some((device, _, "tmpfs")) => format!("tmpfs on {device}: NOT A DISK, choose another with --data"),
        Some((device, _, kind)) => format!("{kind} on {device}"),
        None => "unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/x xfs rw 0 0\n";
        let check = |data: &str, expected: &str| {
            let found = file_system(mounts, Path::new(data));
            assert!(found.starts_with(expected), "{data}: {found}");
        };
        check("/home", "ext4 on /dev/a");
        check("/tmp/y", "tmpfs on tmpfs: NOT A DISK");
        check("/tmp/x/y", "xfs on /dev/b");
    }
}
