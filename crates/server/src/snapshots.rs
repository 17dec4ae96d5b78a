//! Snapshots in the data directory: a verified copy of the store, and beside it what it covers.
//!
//! ```text
//! snapshots/<milliseconds>.store    the copy
//! snapshots/<milliseconds>.marks    a line per partition: code position, and of a front through where all shards had taken it
//! ```
//! What must never happen: a journal trimmed behind a copy that does not verify. A copy counts once its marks are
//! written, and the marks are written after the copy was read back. A copy without marks is removed.

use anyhow::{Context, Result, anyhow, bail};
use fantail_node::Node;
use fantail_node::housekeeping::{Taken, is_old_enough};
use fantail_ports::blobs::Blobs;
use fantail_ports::store::Store;
use fantail_rules::ids::{Millis, PartitionId, Position};
use std::collections::BTreeMap;
use std::io::Read;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::{self, Thread};
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

    /// Deletes copies without marks: whoever wrote or deleted them was killed, or failed, and each is as large as the tables.
    pub fn remove_unfinished(&self) -> Result<()> {
        let _none_is_taken = self.all();
        remove_unmarked(&*self.blobs)
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
        remove_unmarked(&*self.blobs)?;
        let stem = format!("{PREFIX}{:014}", node.wall().0);
        // In this order: the sync point holds what was taken before it, and the snapshot holds the sync point.
        let taken_by_all = node.taken_by_all().map_err(|refusal| anyhow!(refusal))?;
        wait(node.sync()).map_err(|refusal| anyhow!(refusal))?;
        let taken = node.snapshot(&format!("{stem}.store")).map_err(|refusal| anyhow!(refusal))?;
        let taken = Taken { name: stem, taken: taken_by_all, ..taken };
        self.blobs.put(&format!("{}.marks", taken.name), &mut lines(&taken).as_bytes())?;
        all.push(taken.clone());
        while let Some(at) = surplus(&all, node.wall()) {
            let gone = all.remove(at);
            self.blobs.delete(&format!("{}.marks", gone.name))?;
            self.blobs.delete(&format!("{}.store", gone.name))?;
        }
        node.trim_behind(&all);
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

fn remove_unmarked(blobs: &dyn Blobs) -> Result<()> {
    let names = blobs.list(PREFIX)?;
    let is_marked = |stem: &str| names.binary_search(&format!("{stem}.marks")).is_ok();
    for stem in names.iter().filter_map(|name| name.strip_suffix(".store")) {
        if !is_marked(stem) {
            blobs.delete(&format!("{stem}.store"))?;
        }
    }
    Ok(())
}

/// Which snapshot goes, if there are too many. The journal is kept for all that stay, and trimmed once the oldest is a day
/// old. So the oldest goes when the next one is old enough to take its place; until then a younger one goes, and however
/// often backups are made, there is one that grows old.
fn surplus(all: &[Taken], now: Millis) -> Option<usize> {
    if all.len() <= KEPT {
        return None;
    }
    let [oldest, second, ..] = all else { return None };
    match (is_old_enough(oldest, now), is_old_enough(second, now)) {
        (_, true) => Some(0),
        (false, false) => Some(1),
        (true, false) => Some(2),
    }
}

fn lines(taken: &Taken) -> String {
    let line = |(partition, mark): (&PartitionId, &Position)| match taken.taken.get(partition) {
        Some(through) => format!("{} {mark} {through}\n", partition.code()),
        None => format!("{} {mark}\n", partition.code()),
    };
    taken.marks.iter().map(line).collect()
}

/// Waits on a thread that may.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let (waker, mut future) = (Waker::from(Arc::new(Unpark(thread::current()))), pin!(future));
    loop {
        match future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
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
    let at = stem.strip_prefix(PREFIX).and_then(|digits| digits.parse().ok());
    let found = at.zip(parse(&text));
    let (at, (marks, taken)) = found.with_context(about)?;
    Ok(Taken { name: stem.to_owned(), at: Millis(at), marks, taken })
}

type Marks = BTreeMap<PartitionId, Position>;

/// The marks, and through where all shards had taken the fronts.
fn parse(text: &str) -> Option<(Marks, Marks)> {
    let (mut marks, mut taken) = (Marks::new(), Marks::new());
    for line in text.lines() {
        let mut words = line.split(' ');
        let partition = PartitionId::from_code(words.next()?.parse().ok()?)?;
        marks.insert(partition, Position(words.next()?.parse().ok()?));
        if let Some(through) = words.next() {
            taken.insert(partition, Position(through.parse().ok()?));
        }
        if words.next().is_some() {
            return None;
        }
    }
    // An empty file is one that was cut: a snapshot covers the root at least.
    (text.ends_with('\n') && !marks.is_empty()).then_some((marks, taken))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_local::blobs::LocalBlobs;
    use fantail_rules::ids::FrontNo;

    // fixes: correctness B4
    #[test]
    fn snapshots_are_kept_so_that_one_grows_old_enough_to_trim_behind() {
        const HOUR_MS: u64 = 3_600_000;
        let taken = |at: u64| Taken {
            name: String::new(),
            at: Millis(at),
            marks: BTreeMap::new(),
            taken: BTreeMap::new(),
        };
        for every in [1, 7, 24] {
            let (mut all, mut trimmed_at) = (Vec::new(), Vec::new());
            for hour in (every..240).step_by(every as usize) {
                let now = Millis(hour * HOUR_MS);
                all.push(taken(now.0));
                while let Some(at) = surplus(&all, now) {
                    assert_ne!(at + 1, all.len(), "the newest stays");
                    all.remove(at);
                }
                assert!(all.len() <= KEPT);
                if is_old_enough(&all[0], now) {
                    trimmed_at.push(now.since(all[0].at) / HOUR_MS);
                }
            }
            let worst = trimmed_at.iter().max().expect("the journal is trimmed");
            assert!(*worst <= 72, "every {every} h: {trimmed_at:?}");
            assert!(trimmed_at.len() > 3, "every {every} h: again and again: {trimmed_at:?}");
        }
    }

    #[test]
    fn marks_round_trip_and_older_ones_are_read() {
        let marks =
            Marks::from([(PartitionId::Root, Position(5)), (PartitionId::Front(FrontNo(0)), Position(9))]);
        let taken = Marks::from([(PartitionId::Front(FrontNo(0)), Position(7))]);
        let whole = Taken { name: String::new(), at: Millis(1), marks: marks.clone(), taken: taken.clone() };
        let text = lines(&whole);
        assert_eq!(parse(&text), Some((marks, taken)));
        for cut in 0..text.len() {
            assert!(parse(&text[..cut]).is_none_or(|(marks, _)| marks.len() < 2), "cut at {cut}");
        }
        let older = Marks::from([(PartitionId::Root, Position(5))]);
        assert_eq!(parse("0 5\n"), Some((older, Marks::new())));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_copy_whose_marks_were_never_written_is_removed() {
        let directory = std::env::temp_dir().join(format!("fantail-unmarked-{}", std::process::id()));
        let blobs = Arc::new(LocalBlobs::open(&directory).expect("a directory"));
        let put = |name: &str, text: &str| blobs.put(name, &mut text.as_bytes()).expect("written");
        for (name, text) in [
            ("snapshots/00000000000001.store", "killed while it was read back"),
            ("snapshots/00000000000002.marks", "0 5\n"),
            ("snapshots/00000000000002.store", "whole"),
            ("snapshots/00000000000003.store", "killed between its deletions"),
            ("other/4.store", "not a snapshot"),
        ] {
            put(name, text);
        }
        let snapshots = Snapshots::open(blobs.clone()).expect("marks");
        snapshots.remove_unfinished().expect("a healthy disk");
        let kept = ["other/4.store", "snapshots/00000000000002.marks", "snapshots/00000000000002.store"];
        assert_eq!(blobs.list("").expect("names"), kept);
        assert_eq!(snapshots.newest_at(), Some(Millis(2)));
        std::fs::remove_dir_all(&directory).expect("the directory is there");
    }

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
