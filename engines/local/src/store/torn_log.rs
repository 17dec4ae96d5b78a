//! Makes the end of the database's logs certain before fjall reads them: what is torn is cut, what is whole is written again.
//!
//! A sync point is one batch in the newest log; older ones are sealed, and kept until their rows are in tables. A power cut
//! before its fsync may leave any sectors of the batch: the end, and not what is before it. fjall cuts a batch that ends early,
//! but refuses to open if a batch has its end and a wrong checksum or number of items. A last batch that is not whole was never
//! synced: it is cut here, and the journal brings back what was in it.
//!
//! Invariant: each batch is synced before the next one is written (`rows`). So one with a whole batch behind it, in its log or
//! in a newer one, was synced: it is damage, which is refused. fjall would cut it, and all that were synced after it. Nothing in a
//! batch protects its number; fjall counts upwards under the lock of its log and goes on behind all that its logs and tables have,
//! so a number that is not above the one before is damage too.
//!
//! What must never happen: going on behind a batch that only the page cache holds. A process whose sync failed leaves one, which
//! looks whole until the power goes. So the last whole batch is written again and synced before anything follows it.
//!
//! ```text
//! batch  start item* end        integers little-endian, as fjall 3 writes them
//! start  1 items:4 number:8
//! item   2 kind:1 packing:1 keyspace:8 key:2 value:4 stored:4 key value        or  4 keyspace:8
//! end    3 checksum:8 "FJL" 3   xxh3 of the items
//! ```

use crate::disk::{Disk, How, read_full_at, write_all_at};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const CHUNK_BYTES: usize = 1 << 20;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const START_BYTES: usize = 13;
/// Without key and value.
const ITEM_BYTES: usize = 21;
const CLEAR_BYTES: usize = 9;
const END_BYTES: usize = 13;
const END_MARK: &[u8] = b"FJL\x03";

/// A batch that was cut off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornLog {
    pub file: PathBuf,
    pub offset: u64,
}

/// Why a log cannot be opened.
#[derive(Debug)]
pub enum LogError {
    Io(io::Error),
    Damaged { file: PathBuf, offset: usize },
}

impl From<io::Error> for LogError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// Makes the logs of a database what fjall may go on behind. Nothing is changed unless all that is not whole lies at their end.
pub fn settle_logs(disk: &dyn Disk, database: &Path) -> Result<Option<TornLog>, LogError> {
    let mut torn: Vec<(PathBuf, usize)> = Vec::new();
    let (mut last, mut number_before) = (None, None);
    for file in logs(disk, database)? {
        let log = written(disk, &file)?;
        if let Some((older, offset)) = torn.first()
            && has_whole_batch(&log, 0)
        {
            return Err(LogError::Damaged { file: older.clone(), offset: *offset });
        }
        let (whole, number) = match whole_batches(&log, number_before) {
            Ok(found) => found,
            Err(offset) => return Err(LogError::Damaged { file, offset }),
        };
        let offset = whole.end;
        if !whole.is_empty() {
            last = Some((file.clone(), whole.start as u64, log[whole].to_vec()));
        }
        number_before = number;
        // Any bytes count as a batch: a power cut may leave it without its start.
        if log[offset..].iter().any(|byte| *byte != 0) {
            if has_whole_batch(&log, offset) {
                return Err(LogError::Damaged { file, offset });
            }
            torn.push((file, offset));
        }
    }
    if let Some((file, offset, batch)) = last {
        let opened = disk.open(&file, How::Write)?;
        write_all_at(&*opened, offset, &batch)?;
        opened.sync_data()?;
    }
    // From the last on: whatever is cut, what stays is the logs up to some place.
    for (file, offset) in torn.iter().rev() {
        let opened = disk.open(file, How::Write)?;
        opened.set_len(*offset as u64)?;
        opened.sync_data()?;
    }
    // Whoever began a log may have been killed before its name was durable.
    disk.sync_dir(database)?;
    Ok(torn.into_iter().next().map(|(file, offset)| TornLog { file, offset: offset as u64 }))
}

/// Oldest first.
fn logs(disk: &dyn Disk, database: &Path) -> io::Result<Vec<PathBuf>> {
    let mut logs = BTreeMap::new();
    for name in disk.list(database)? {
        if let Some(number) = name.strip_suffix(".jnl").and_then(|number| number.parse::<u64>().ok()) {
            logs.insert(number, database.join(name));
        }
    }
    Ok(logs.into_values().collect())
}

/// A log without the zeros at its end: fjall makes it 64 MiB long at once.
fn written(disk: &dyn Disk, file: &Path) -> io::Result<Vec<u8>> {
    let (file, mut log, mut chunk) = (disk.open(file, How::Read)?, Vec::new(), vec![0; CHUNK_BYTES]);
    let mut at = 0;
    loop {
        let count = read_full_at(&*file, at as u64, &mut chunk)?;
        if count == 0 {
            return Ok(log);
        }
        if let Some(last) = chunk[..count].iter().rposition(|byte| *byte != 0) {
            log.resize(at, 0);
            log.extend_from_slice(&chunk[..=last]);
        }
        at += count;
    }
}

/// Walks the whole batches from the beginning of a log on, behind one with this number. Returns where the last of them lies, and
/// its number; `Err`: where one begins whose number does not follow.
fn whole_batches(log: &[u8], mut number: Option<u64>) -> Result<(Range<usize>, Option<u64>), usize> {
    let mut last = 0..0;
    while let Some(batch) = whole_batch(log, last.end) {
        if number.is_some_and(|before| batch.number <= before) {
            return Err(last.end);
        }
        number = Some(batch.number);
        last = last.end..batch.end;
    }
    Ok((last, number))
}

/// Whether a whole batch begins here or anywhere behind. Nothing before it is trusted to say where.
fn has_whole_batch(log: &[u8], from: usize) -> bool {
    (from..log.len()).any(|at| whole_batch(log, at).is_some())
}

struct WholeBatch {
    number: u64,
    end: usize,
}

/// The batch at this place; `None` if it is not whole.
fn whole_batch(log: &[u8], begin: usize) -> Option<WholeBatch> {
    if log.get(begin) != Some(&START) {
        return None;
    }
    let (expected, number) = (number_at::<4>(log, begin + 1)?, number_at::<8>(log, begin + 5)?);
    let first = begin + START_BYTES;
    let (mut at, mut count) = (first, 0);
    while count < expected
        && let Some(end) = item_end(log, at)
    {
        (at, count) = (end, count + 1);
    }
    let end = log.get(at..at + END_BYTES).filter(|end| end[0] == END && end.ends_with(END_MARK))?;
    let is_whole = count == expected && xxh3_64(&log[first..at]) == number_at::<8>(end, 1)?;
    is_whole.then_some(WholeBatch { number, end: at + END_BYTES })
}

/// Where the item at this place ends; `None` if there is none.
fn item_end(log: &[u8], at: usize) -> Option<usize> {
    let bytes = match *log.get(at)? {
        ITEM => {
            let (key, stored) = (number_at::<2>(log, at + 11)?, number_at::<4>(log, at + 17)?);
            ITEM_BYTES + usize::try_from(key + stored).ok()?
        }
        CLEAR => CLEAR_BYTES,
        _ => return None,
    };
    at.checked_add(bytes).filter(|end| *end <= log.len())
}

fn number_at<const BYTES: usize>(log: &[u8], at: usize) -> Option<u64> {
    let mut number = [0; 8];
    number[..BYTES].copy_from_slice(log.get(at..at + BYTES)?);
    Some(u64::from_le_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{FaultDisk, RealDisk, Survival};
    use fjall::{Database, KeyspaceCreateOptions, PersistMode};
    use std::fs;

    /// A log of two batches as fjall writes it, and where the second begins.
    fn two_batches(directory: &Path) -> (Vec<u8>, usize) {
        let database = Database::builder(directory).open().expect("an empty directory");
        let main = database.keyspace("main", KeyspaceCreateOptions::default).expect("a keyspace");
        let mut begins = 0;
        for batch_no in 0..2_u8 {
            let mut batch = database.batch();
            (0..100_u8).for_each(|no| batch.insert(&main, [no], vec![batch_no + 1; usize::from(no)]));
            batch.remove(&main, [200]);
            batch.commit().expect("room");
            database.persist(PersistMode::SyncAll).expect("a healthy disk");
            let log = fs::read(directory.join("0.jnl")).expect("a log");
            let end = log.iter().rposition(|byte| *byte != 0).expect("it was written") + 1;
            if batch_no == 0 {
                begins = end;
            }
        }
        drop((main, database));
        (fs::read(directory.join("0.jnl")).expect("a log"), begins)
    }

    fn open(directory: &Path, log: &[u8]) -> fjall::Result<Vec<u8>> {
        fs::write(directory.join("0.jnl"), log)?;
        let database = Database::builder(directory).open()?;
        let main = database.keyspace("main", KeyspaceCreateOptions::default)?;
        Ok(main.get([99])?.expect("it was put").to_vec())
    }

    const LOG: &str = "/rows/0.jnl";

    fn settle(disk: &FaultDisk) -> Result<Option<TornLog>, LogError> {
        settle_logs(disk, Path::new("/rows"))
    }

    /// Where a database's only log is cut.
    fn cut_at(log: &[u8]) -> Option<usize> {
        let disk = FaultDisk::new(1);
        disk.set_contents(Path::new(LOG), log.to_vec());
        settle(&disk).expect("a healthy disk").map(|torn| torn.offset as usize)
    }

    /// A batch of one row.
    fn batch(number: u64, value: &[u8]) -> Vec<u8> {
        let bytes = (value.len() as u32).to_le_bytes();
        let item =
            [&[ITEM, 0, 0][..], &1_u64.to_le_bytes(), &1_u16.to_le_bytes(), &bytes, &bytes, b"k", value];
        let item = item.concat();
        let (start, sum) = ([&[START, 1, 0, 0, 0][..], &number.to_le_bytes()].concat(), xxh3_64(&item));
        [start, item, [&[END][..], &sum.to_le_bytes(), END_MARK].concat()].concat()
    }

    /// The process whose sync failed is gone, the machine runs on: the batch looks whole, and the disk has a part of it.
    #[test]
    fn a_batch_whose_sync_failed_is_on_the_disk_before_the_next_one() {
        let batches: Vec<Vec<u8>> = (1..4).map(|number| batch(number, &[number as u8; 3_000])).collect();
        for seed in 0..40 {
            let disk = FaultDisk::new(seed);
            disk.set_contents(Path::new(LOG), batches[0].clone());
            let append = |batch: &[u8]| {
                let file = disk.open(Path::new(LOG), How::Write).expect("it is there");
                write_all_at(&*file, file.len().expect("it is there"), batch).expect("room");
                file.sync_data()
            };
            disk.fail_syncs(1);
            append(&batches[1]).expect_err("the sync fails");
            disk.kill_process();
            assert_eq!(settle(&disk).expect("a healthy disk"), None, "seed {seed}: it looks whole");
            append(&batches[2]).expect("a healthy disk");
            disk.power_cut(Survival::Nothing);
            let settled = settle(&disk);
            assert!(matches!(settled, Ok(None)), "seed {seed}: {settled:?}");
            assert_eq!(disk.contents(Path::new(LOG)), batches.concat(), "seed {seed}");
        }
    }

    #[test]
    fn a_batch_whose_number_does_not_follow_is_refused() {
        let log =
            |numbers: &[u64]| -> Vec<u8> { numbers.iter().flat_map(|no| batch(*no, b"value")).collect() };
        let length = batch(1, b"value").len();
        let check = |older: &[u64], newer: &[u64], expected: Option<(&str, usize)>| {
            let disk = FaultDisk::new(1);
            disk.set_contents(Path::new("/rows/9.jnl"), log(older));
            disk.set_contents(Path::new("/rows/10.jnl"), log(newer));
            match (settle(&disk), expected) {
                (Ok(None), None) => {}
                (Err(LogError::Damaged { file, offset }), Some((name, batches))) => {
                    assert_eq!((file, offset), (Path::new("/rows").join(name), batches * length));
                }
                (other, _) => panic!("{older:?}, {newer:?}: {other:?}"),
            }
        };
        check(&[3, 4, 9], &[10, 12], None);
        check(&[3, 4, 9], &[], None);
        check(&[3, 1, 9], &[10], Some(("9.jnl", 1)));
        check(&[3, 1 << 40, 9], &[10], Some(("9.jnl", 2)));
        check(&[3, 4, 9], &[9, 12], Some(("10.jnl", 0)));
        check(&[3, 4, 9], &[10, 2], Some(("10.jnl", 1)));
    }

    /// What the check of numbers relies on: fjall counts on behind everything there was, whatever became of it.
    #[test]
    fn numbers_ascend_across_reopening_ingestion_merges_and_cuts() {
        let directory = std::env::temp_dir().join(format!("fantail-log-numbers-{}", std::process::id()));
        for round in 0..6_u8 {
            let database = Database::builder(&directory).open().expect("a sound directory");
            let main = database.keyspace("main", KeyspaceCreateOptions::default).expect("a keyspace");
            let put = |no: u8| {
                let mut batch = database.batch();
                batch.insert(&main, [no], [round; 100]);
                batch.remove(&main, [no + 100]);
                batch.commit().expect("room");
                database.persist(PersistMode::SyncAll).expect("a healthy disk");
            };
            (0..10).for_each(put);
            if round % 2 == 1 {
                let mut ingestion = main.start_ingestion().expect("room");
                (0..50_u8).for_each(|no| ingestion.write([no], [round; 10]).expect("room"));
                ingestion.finish().expect("room");
                main.remove([7]).expect("room");
            }
            if round % 3 == 2 {
                // Only deletions: merged into nothing, they leave no number in a table.
                (0..200_u8).for_each(|no| main.remove([no]).expect("room"));
                main.rotate_memtable_and_wait().expect("room");
                main.major_compact().expect("room");
            }
            (20..30).for_each(put);
            drop((main, database));
            let settled = settle_logs(&RealDisk, &directory);
            assert!(matches!(settled, Ok(None)), "round {round}: {settled:?}");
            // A sync point that a power cut tore: its number comes again.
            let log = fs::read(directory.join("0.jnl")).expect("a log");
            let end = log.iter().rposition(|byte| *byte != 0).expect("it was written") + 1;
            fs::write(directory.join("0.jnl"), &log[..end - 3]).expect("room");
            assert!(settle_logs(&RealDisk, &directory).expect("a healthy disk").is_some(), "round {round}");
        }
        fs::remove_dir_all(directory).expect("it is there");
    }

    #[test]
    fn a_torn_batch_at_the_end_is_cut_and_damage_before_it_is_refused() {
        let directory = std::env::temp_dir().join(format!("fantail-torn-log-{}", std::process::id()));
        let (log, second) = two_batches(&directory);
        assert_eq!(cut_at(&log), None);
        let with = |places: &[usize]| {
            let mut log = log.clone();
            places.iter().for_each(|place| log[*place] ^= 1);
            log
        };
        // In the number of items, and in the value of one: these fjall refuses.
        for place in [second + 1, second + 5_000] {
            let torn = with(&[place]);
            assert!(open(&directory, &torn).is_err(), "at {place}");
            fs::write(directory.join("0.jnl"), torn).expect("room");
            let cut = settle_logs(&RealDisk, &directory).expect("a healthy disk");
            let expected = TornLog { file: directory.join("0.jnl"), offset: second as u64 };
            assert_eq!(cut, Some(expected), "at {place}");
            assert!(settle_logs(&RealDisk, &directory).expect("a healthy disk").is_none(), "once");
            assert_eq!(open(&directory, &log[..second]).expect("it is whole"), [1; 99], "what was before it");
        }
        let early = [&log[..second + 700], &[0; 4_096]].concat();
        assert_eq!(cut_at(&early), Some(second), "it has no end");
        assert_eq!(cut_at(&with(&[second])), Some(second), "it has no start");
        let both = with(&[5_000, second + 5_000]);
        assert_eq!(cut_at(&both), Some(0), "neither is whole");
        // In the first one: its value, its structure, its start and its end.
        for place in [5_000, 13, 0, second - 1] {
            fs::write(directory.join("0.jnl"), with(&[place])).expect("room");
            let refused = settle_logs(&RealDisk, &directory);
            assert!(matches!(refused, Err(LogError::Damaged { offset: 0, .. })), "at {place}: {refused:?}");
            assert_eq!(fs::read(directory.join("0.jnl")).expect("a log"), with(&[place]), "nothing is cut");
        }
        fs::remove_dir_all(directory).expect("it is there");
    }

    #[test]
    fn a_sealed_log_is_cut_only_if_nothing_whole_is_behind_it() {
        let directory = std::env::temp_dir().join(format!("fantail-sealed-log-{}", std::process::id()));
        let (log, second) = two_batches(&directory);
        let (sealed, newest) = (&log[..second], &log[second..]);
        let check = |place: usize, newest: &[u8]| {
            let mut damaged = sealed.to_vec();
            damaged[place] ^= 1;
            // Of what comes after 9 in order of numbers, not of names.
            fs::write(directory.join("9.jnl"), damaged).expect("room");
            fs::write(directory.join("10.jnl"), newest).expect("room");
            settle_logs(&RealDisk, &directory)
        };
        fs::remove_file(directory.join("0.jnl")).expect("it is there");
        for place in [0, 13, 5_000, second - 1] {
            let refused = check(place, newest);
            let Err(LogError::Damaged { file, offset: 0 }) = refused else { panic!("{place}: {refused:?}") };
            assert_eq!(file, directory.join("9.jnl"), "at {place}");
            // A write that failed, and a new log that was begun before anything else could be written.
            for empty in [&[][..], &[0; 4_096], &newest[..700]] {
                let cut = check(place, empty).expect("a healthy disk");
                assert_eq!(cut, Some(TornLog { file: directory.join("9.jnl"), offset: 0 }), "at {place}");
                assert!(settle_logs(&RealDisk, &directory).expect("a healthy disk").is_none(), "once");
            }
        }
        fs::remove_dir_all(directory).expect("it is there");
    }
}
