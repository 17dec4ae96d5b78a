//! Snapshots in the data directory: a verified copy of the store, and beside it what it covers.
//!
//! ```text
//! snapshots/<milliseconds>.store    the copy
//! snapshots/<milliseconds>.marks    a line per partition: code position
//! ```
//! What must never happen: a journal trimmed behind a copy that does not verify. A copy counts once its marks are
//! written, and the marks are written after the copy was read back.

use anyhow::{Context, Result, anyhow, bail};
use fantail_node::Node;
use fantail_node::housekeeping::Taken;
use fantail_ports::blobs::Blobs;
use fantail_ports::store::Store;
use fantail_rules::ids::{Millis, PartitionId, Position};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::warn;

const PREFIX: &str = "snapshots/";
/// Older ones are deleted.
const KEPT: usize = 3;
const MARKS_BYTES_MAX: u64 = 1 << 20;

pub struct Snapshots {
    blobs: Arc<dyn Blobs>,
    /// Oldest first, by what they cover: their times are a clock's, which may have been stepped back in between.
    /// Locked while one is taken, so that there is one at a time.
    taken: Mutex<Vec<Taken>>,
}

impl Snapshots {
    pub fn open(blobs: Arc<dyn Blobs>) -> Result<Self> {
        let mut taken = Vec::new();
        for name in blobs.list(PREFIX)? {
            if let Some(stem) = name.strip_suffix(".marks") {
                taken.push(read_marks(&*blobs, stem)?);
            }
        }
        taken.sort_by_key(covered);
        Ok(Self { blobs, taken: Mutex::new(taken) })
    }

    #[must_use]
    pub fn newest_at(&self) -> Option<Millis> {
        self.all().last().map(|taken| taken.at)
    }

    /// Fills an empty store from the newest copy that verifies. A store without any copy is rebuilt from the
    /// journal alone.
    pub fn fill(&self, store: &dyn Store) -> Result<Option<String>> {
        let all = self.all();
        for taken in all.iter().rev() {
            match store.restore(&*self.blobs, &format!("{}.store", taken.name)) {
                Ok(()) => return Ok(Some(taken.name.clone())),
                Err(failed) => warn!(name = taken.name, %failed, "snapshot does not verify"),
            }
        }
        if all.is_empty() { Ok(None) } else { bail!("none of {} snapshots verifies", all.len()) }
    }

    /// Takes a snapshot, drops old ones and trims the journal behind them. Blocks while it copies.
    pub fn take(&self, node: &Node) -> Result<Taken> {
        let mut all = self.all();
        let stem = format!("{PREFIX}{:014}", node.wall().0);
        let taken = node.snapshot(&format!("{stem}.store")).map_err(|refusal| anyhow!(refusal))?;
        let taken = Taken { name: stem, ..taken };
        let lines: String =
            taken.marks.iter().map(|(partition, mark)| format!("{} {mark}\n", partition.code())).collect();
        self.blobs.put(&format!("{}.marks", taken.name), &mut lines.as_bytes())?;
        all.push(taken.clone());
        node.trim_behind(&all);
        while all.len() > KEPT {
            let oldest = all.remove(0);
            self.blobs.delete(&format!("{}.marks", oldest.name))?;
            self.blobs.delete(&format!("{}.store", oldest.name))?;
        }
        Ok(taken)
    }

    /// Copies a snapshot to other blobs: a backup has its own.
    pub fn copy(&self, taken: &Taken, to: &dyn Blobs) -> Result<u64> {
        let mut bytes = 0;
        for suffix in ["store", "marks"] {
            let name = format!("{}.{suffix}", taken.name);
            bytes += to.put(&name, &mut *self.blobs.get(&name)?)?;
        }
        Ok(bytes)
    }

    fn all(&self) -> MutexGuard<'_, Vec<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much of the journal a snapshot covers. A later one covers at least as much of every partition.
fn covered(taken: &Taken) -> u64 {
    taken.marks.values().map(|mark| mark.0).sum()
}

fn read_marks(blobs: &dyn Blobs, stem: &str) -> Result<Taken> {
    let about = || format!("snapshot marks {stem}.marks are damaged");
    let mut text = String::new();
    blobs
        .get(&format!("{stem}.marks"))?
        .take(MARKS_BYTES_MAX)
        .read_to_string(&mut text)
        .with_context(about)?;
    let parse = |line: &str| -> Option<(PartitionId, Position)> {
        let (code, mark) = line.split_once(' ')?;
        Some((PartitionId::from_code(code.parse().ok()?)?, Position(mark.parse().ok()?)))
    };
    let marks: Option<BTreeMap<_, _>> = text.lines().map(parse).collect();
    let at = stem.strip_prefix(PREFIX).and_then(|digits| digits.parse().ok());
    let (Some(marks), Some(at)) = (marks, at) else { bail!(about()) };
    Ok(Taken { name: stem.to_owned(), at: Millis(at), marks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_local::blobs::LocalBlobs;

    #[test]
    fn the_newest_snapshot_is_the_one_that_covers_most_whatever_the_clock_said() {
        let directory = std::env::temp_dir().join(format!("fantail-snapshots-{}", std::process::id()));
        let blobs = Arc::new(LocalBlobs::open(&directory).expect("a directory"));
        // The clock was two hours ahead for the first one, and was set right.
        for (at, marks) in [(7_200_900, "0 5\n16384 40\n"), (1_000, "0 5\n16384 50\n")] {
            blobs.put(&format!("{PREFIX}{at:014}.marks"), &mut marks.as_bytes()).expect("written");
        }
        let snapshots = Snapshots::open(blobs).expect("marks");
        assert_eq!(snapshots.newest_at(), Some(Millis(1_000)));
        std::fs::remove_dir_all(&directory).expect("the directory is there");
    }
}
