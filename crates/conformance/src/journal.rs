//! What every journal does, whatever it is made of.
//!
//! An engine provides a [`Rig`]; [`journal_suite`] runs every case on a fresh one.

use crate::block_on;
use fantail_ports::BoxFuture;
use fantail_ports::journal::{Append, AppendError, Bounds, Journal, JournalError, ReadLimit, Record};
use fantail_rules::ids::{Epoch, FrontNo, PartitionId, Position, ShardNo};
use fantail_rules::limits::{APPEND_BYTES_MAX, RECORD_BYTES_MAX};

/// One journal under test, and the world around it.
pub trait Rig {
    fn journal(&self) -> &dyn Journal;

    /// Makes everything that was called so far durable. Engines that do it by themselves need nothing.
    fn settle(&self) {}

    /// Stops cleanly and opens what is stored.
    fn reopen(&mut self);

    /// Dies without a clean stop, after everything was settled, and opens what is stored.
    fn crash(&mut self);

    /// Leaves the disk no room for appends, or gives it back.
    fn set_full(&self, full: bool);

    /// A write fails: nothing more can be promised.
    fn break_disk(&self);
}

type Case = (&'static str, fn(&mut dyn Rig));

pub const CASES: &[Case] = &[
    ("a new partition is empty", new_partition_is_empty),
    ("records are read in order at their positions", records_are_read_in_order),
    ("partitions do not see each other", partitions_are_apart),
    ("a fence raises the epoch and shuts the older one out", fence_shuts_out),
    ("positions must continue", positions_must_continue),
    ("pipelined appends keep the order of their calls", pipelined_appends_keep_order),
    ("a future that is dropped does not undo its append", dropped_future_still_appends),
    ("reads stop at their limit", reads_stop_at_their_limit),
    ("large records and batches", large_records_and_batches),
    ("what is too large is refused and changes nothing", too_large_is_refused),
    ("a clean stop keeps everything", reopen_keeps_everything),
    ("a crash keeps what was answered", crash_keeps_what_was_answered),
    ("epochs grow over restarts", epochs_grow_over_restarts),
    ("trim never touches what is needed", trim_keeps_what_is_needed),
    ("a full disk refuses appends in flight and recovers", full_disk_refuses_and_recovers),
    ("a broken disk fails everything in flight and later", broken_disk_fails_for_good),
];

/// Runs every case; a failing one is named.
pub fn journal_suite<R: Rig>(mut fresh: impl FnMut() -> R) {
    for (name, case) in CASES {
        let mut rig = fresh();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut rig)));
        if let Err(cause) = outcome {
            let cause = cause.downcast_ref::<String>().map_or("see above", String::as_str);
            panic!("journal case failed: {name}: {cause}");
        }
    }
}

pub const SHARD: PartitionId = PartitionId::Shard(ShardNo(1));
pub const FRONT: PartitionId = PartitionId::Front(FrontNo(0));
pub const NO_LIMIT: ReadLimit = ReadLimit { records: usize::MAX, bytes: usize::MAX };

type Appended = BoxFuture<'static, Result<Position, AppendError>>;

fn start(rig: &dyn Rig, partition: PartitionId, epoch: Epoch, first: u64, records: &[&str]) -> Appended {
    let records = records.iter().map(|record| record.as_bytes().to_vec()).collect();
    rig.journal().append(Append { partition, epoch, first: Position(first), records })
}

fn append(
    rig: &dyn Rig,
    partition: PartitionId,
    epoch: Epoch,
    first: u64,
    records: &[&str],
) -> Result<Position, AppendError> {
    let appended = start(rig, partition, epoch, first, records);
    rig.settle();
    block_on(appended)
}

fn fence(rig: &dyn Rig, partition: PartitionId) -> Epoch {
    let fenced = rig.journal().fence(partition);
    rig.settle();
    block_on(fenced).expect("a sound journal grants an epoch")
}

/// Everything from a position on, as text.
fn read(rig: &dyn Rig, partition: PartitionId, from: u64) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    let mut from = Position(from);
    loop {
        let records =
            block_on(rig.journal().read(partition, from, NO_LIMIT)).expect("kept records can be read");
        let Some(last) = records.last() else { return all };
        from = last.position.next();
        all.extend(records.into_iter().map(|Record { position, bytes }| {
            (position.0, String::from_utf8(bytes).expect("the suite appends text"))
        }));
    }
}

fn expect(rig: &dyn Rig, partition: PartitionId, records: &[&str]) {
    let expected: Vec<_> = (1..).zip(records.iter().map(|record| (*record).to_owned())).collect();
    assert_eq!(read(rig, partition, 1), expected);
    let bounds = Bounds { first: Position(1), next: Position(records.len() as u64 + 1) };
    assert_eq!(rig.journal().bounds(partition), Ok(bounds));
}

fn new_partition_is_empty(rig: &mut dyn Rig) {
    expect(rig, SHARD, &[]);
    expect(rig, PartitionId::Root, &[]);
    assert_eq!(block_on(rig.journal().read(SHARD, Position(7), NO_LIMIT)), Ok(Vec::new()));
    assert_eq!(block_on(rig.journal().trim(SHARD, Position(7))), Ok(()));
    expect(rig, SHARD, &[]);
}

fn records_are_read_in_order(rig: &mut dyn Rig) {
    let epoch = fence(rig, SHARD);
    assert_eq!(append(rig, SHARD, epoch, 1, &["a"]), Ok(Position(1)));
    assert_eq!(append(rig, SHARD, epoch, 2, &["b", "", "c"]), Ok(Position(4)));
    assert_eq!(append(rig, SHARD, epoch, 5, &["d"]), Ok(Position(5)));
    expect(rig, SHARD, &["a", "b", "", "c", "d"]);
    assert_eq!(read(rig, SHARD, 4), [(4, "c".to_owned()), (5, "d".to_owned())]);
    assert_eq!(read(rig, SHARD, 0).len(), 5, "position 0 is before all");
    assert_eq!(read(rig, SHARD, 6), []);
}

fn partitions_are_apart(rig: &mut dyn Rig) {
    let (shard, front) = (fence(rig, SHARD), fence(rig, FRONT));
    assert_eq!(append(rig, SHARD, shard, 1, &["s1", "s2"]), Ok(Position(2)));
    assert_eq!(append(rig, FRONT, front, 1, &["f1"]), Ok(Position(1)));
    assert_eq!(append(rig, SHARD, shard, 3, &["s3"]), Ok(Position(3)));
    expect(rig, SHARD, &["s1", "s2", "s3"]);
    expect(rig, FRONT, &["f1"]);
    expect(rig, PartitionId::Root, &[]);
}

fn fence_shuts_out(rig: &mut dyn Rig) {
    let older = fence(rig, SHARD);
    assert_eq!(append(rig, SHARD, older, 1, &["a"]), Ok(Position(1)));
    let in_flight = start(rig, SHARD, older, 2, &["b"]);
    let newer = fence(rig, SHARD);
    assert!(newer > older);
    assert_eq!(block_on(in_flight), Ok(Position(2)), "it was called before the fence");
    let refused = AppendError::Fenced { ours: older, current: newer };
    assert_eq!(append(rig, SHARD, older, 3, &["no"]), Err(refused));
    assert_eq!(append(rig, SHARD, newer, 3, &["c"]), Ok(Position(3)));
    assert_eq!(append(rig, FRONT, fence(rig, FRONT), 1, &["f"]), Ok(Position(1)), "others have their own");
    expect(rig, SHARD, &["a", "b", "c"]);
}

fn positions_must_continue(rig: &mut dyn Rig) {
    let epoch = fence(rig, SHARD);
    assert_eq!(append(rig, SHARD, epoch, 1, &["a", "b"]), Ok(Position(2)));
    for first in [0, 1, 2, 4] {
        let refused =
            AppendError::OutOfOrder { partition: SHARD, first: Position(first), expected: Position(3) };
        assert_eq!(append(rig, SHARD, epoch, first, &["no"]), Err(refused));
    }
    assert_eq!(append(rig, SHARD, epoch, 3, &["c"]), Ok(Position(3)));
    expect(rig, SHARD, &["a", "b", "c"]);
}

fn pipelined_appends_keep_order(rig: &mut dyn Rig) {
    let epoch = fence(rig, SHARD);
    let names: Vec<String> = (1..=300).map(|number| format!("record {number}")).collect();
    let flights: Vec<Appended> =
        (1..).zip(&names).map(|(first, name)| start(rig, SHARD, epoch, first, &[name])).collect();
    rig.settle();
    // The last one first: what is polled when does not matter.
    for (index, flight) in flights.into_iter().enumerate().rev() {
        assert_eq!(block_on(flight), Ok(Position(index as u64 + 1)));
    }
    expect(rig, SHARD, &names.iter().map(String::as_str).collect::<Vec<_>>());
}

fn dropped_future_still_appends(rig: &mut dyn Rig) {
    let epoch = fence(rig, SHARD);
    drop(start(rig, SHARD, epoch, 1, &["a"]));
    assert_eq!(append(rig, SHARD, epoch, 2, &["b"]), Ok(Position(2)));
    expect(rig, SHARD, &["a", "b"]);
}

fn reads_stop_at_their_limit(rig: &mut dyn Rig) {
    let epoch = fence(rig, SHARD);
    assert_eq!(append(rig, SHARD, epoch, 1, &["0123456789"; 20]), Ok(Position(20)));
    for reopened in [false, true] {
        if reopened {
            rig.reopen();
        }
        let cases = [
            (1, 3, 1000, 3),
            (1, 100, 40, 4),
            (1, 100, 45, 4),
            (19, 100, 1000, 2),
            (5, 0, 0, 1),
            (5, 9, 3, 1),
        ];
        for (from, records, bytes, expected) in cases {
            let limit = ReadLimit { records, bytes };
            let found = block_on(rig.journal().read(SHARD, Position(from), limit)).expect("it is all kept");
            let positions: Vec<u64> = found.iter().map(|record| record.position.0).collect();
            assert!(positions.len() <= expected && !positions.is_empty(), "{limit:?}: {positions:?}");
            assert_eq!(positions, (from..).take(positions.len()).collect::<Vec<_>>());
        }
    }
}

fn large_records_and_batches(rig: &mut dyn Rig) {
    let epoch = fence(rig, SHARD);
    let largest = "x".repeat(fantail_rules::limits::RECORD_BYTES_MAX);
    let batch: Vec<&str> = vec![&largest; fantail_rules::limits::BATCH_BYTES_MAX / largest.len()];
    assert_eq!(append(rig, SHARD, epoch, 1, &batch), Ok(Position(batch.len() as u64)));
    let many = vec!["y"; fantail_rules::limits::BATCH_RECORDS_MAX];
    let next = batch.len() as u64 + 1;
    assert_eq!(append(rig, SHARD, epoch, next, &many), Ok(Position(next + many.len() as u64 - 1)));
    let all: Vec<&str> = batch.iter().chain(&many).copied().collect();
    expect(rig, SHARD, &all);
    rig.crash();
    expect(rig, SHARD, &all);
}

// fixes: correctness A3
fn too_large_is_refused(rig: &mut dyn Rig) {
    let epoch = fence(rig, SHARD);
    assert_eq!(append(rig, SHARD, epoch, 1, &["a"]), Ok(Position(1)));
    let (large, many) = ("x".repeat(RECORD_BYTES_MAX + 1), "x".repeat(RECORD_BYTES_MAX));
    for (what, records) in [
        ("record", vec!["b", large.as_str()]),
        ("append", vec![many.as_str(); APPEND_BYTES_MAX / RECORD_BYTES_MAX]),
    ] {
        let refused = append(rig, SHARD, epoch, 2, &records).map_err(|refused| match refused {
            AppendError::TooLarge { what, bytes, max } if bytes > max => what,
            _ => "another error",
        });
        assert_eq!(refused, Err(what));
    }
    assert_eq!(append(rig, SHARD, epoch, 2, &["b"]), Ok(Position(2)), "the journal goes on");
    expect(rig, SHARD, &["a", "b"]);
}

fn reopen_keeps_everything(rig: &mut dyn Rig) {
    restart_keeps_everything(rig, |rig| rig.reopen());
}

fn crash_keeps_what_was_answered(rig: &mut dyn Rig) {
    restart_keeps_everything(rig, |rig| rig.crash());
}

fn restart_keeps_everything(rig: &mut dyn Rig, restart: impl Fn(&mut dyn Rig)) {
    let mut names: Vec<String> = Vec::new();
    for round in 0..4 {
        let epoch = fence(rig, SHARD);
        for number in 0..5 {
            let name = format!("round {round} record {number}");
            let position = names.len() as u64 + 1;
            assert_eq!(append(rig, SHARD, epoch, position, &[&name]), Ok(Position(position)));
            names.push(name);
        }
        restart(rig);
        expect(rig, SHARD, &names.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

fn epochs_grow_over_restarts(rig: &mut dyn Rig) {
    let mut last = Epoch(0);
    for round in 0..6 {
        let epoch = fence(rig, SHARD);
        assert!(epoch > last, "{epoch} after {last}");
        if round % 2 == 0 {
            rig.reopen()
        } else {
            rig.crash()
        }
        if last != Epoch(0) {
            let refused = AppendError::Fenced { ours: last, current: epoch };
            assert_eq!(append(rig, SHARD, last, 1, &["no"]), Err(refused));
        }
        last = epoch;
    }
    assert_eq!(append(rig, SHARD, last, 1, &["a"]), Ok(Position(1)), "the latest epoch outlives a restart");
}

fn trim_keeps_what_is_needed(rig: &mut dyn Rig) {
    let (shard, front) = (fence(rig, SHARD), fence(rig, FRONT));
    let text = "0123456789".repeat(50);
    for position in 1..=60 {
        assert_eq!(append(rig, SHARD, shard, position, &[&text]), Ok(Position(position)));
        assert_eq!(append(rig, FRONT, front, position, &[&text]), Ok(Position(position)));
    }
    let trim = |rig: &dyn Rig, partition, before| {
        assert_eq!(block_on(rig.journal().trim(partition, Position(before))), Ok(()));
    };
    trim(rig, SHARD, 41);
    trim(rig, SHARD, 11);
    trim(rig, FRONT, 31);
    for restart in [|_: &mut dyn Rig| {}, |rig: &mut dyn Rig| rig.reopen(), |rig: &mut dyn Rig| rig.crash()] {
        restart(rig);
        for (partition, needed) in [(SHARD, 41), (FRONT, 31)] {
            let bounds = rig.journal().bounds(partition).expect("bounds of a sound journal");
            assert!(bounds.first <= Position(needed), "{bounds:?}");
            assert_eq!(bounds.next, Position(61));
            let kept = read(rig, partition, bounds.first.0);
            assert_eq!(kept.len() as u64, 61 - bounds.first.0);
            if bounds.first > Position(1) {
                let below = block_on(rig.journal().read(partition, Position(1), NO_LIMIT));
                let trimmed = JournalError::Trimmed { partition, asked: Position(1), first: bounds.first };
                assert_eq!(below, Err(trimmed));
            }
        }
    }
    trim(rig, SHARD, 1_000);
    assert_eq!(
        append(rig, SHARD, shard, 61, &["next"]),
        Ok(Position(61)),
        "trimming beyond the end is no gap"
    );
    assert_eq!(read(rig, SHARD, 61), [(61, "next".to_owned())]);
}

fn full_disk_refuses_and_recovers(rig: &mut dyn Rig) {
    let epoch = fence(rig, SHARD);
    assert_eq!(append(rig, SHARD, epoch, 1, &["a"]), Ok(Position(1)));
    rig.set_full(true);
    let flights: Vec<Appended> = (2..6).map(|first| start(rig, SHARD, epoch, first, &["no"])).collect();
    rig.settle();
    let mut answers = flights.into_iter().map(block_on);
    assert!(matches!(answers.next(), Some(Err(AppendError::NoRoom { .. }))));
    assert!(answers.all(|answer| answer.is_err()), "an append fails if one before it failed");
    expect(rig, SHARD, &["a"]);
    rig.set_full(false);
    assert_eq!(append(rig, SHARD, epoch, 2, &["b"]), Ok(Position(2)));
    expect(rig, SHARD, &["a", "b"]);
    rig.crash();
    expect(rig, SHARD, &["a", "b"]);
}

fn broken_disk_fails_for_good(rig: &mut dyn Rig) {
    let epoch = fence(rig, SHARD);
    assert_eq!(append(rig, SHARD, epoch, 1, &["a"]), Ok(Position(1)));
    rig.break_disk();
    let flights: Vec<Appended> = (2..6).map(|first| start(rig, SHARD, epoch, first, &["lost"])).collect();
    rig.settle();
    for flight in flights {
        assert!(block_on(flight).is_err(), "nothing may be promised any more");
    }
    let later = append(rig, SHARD, epoch, 2, &["late"]);
    assert!(matches!(later, Err(AppendError::Failed { .. })), "{later:?}");
    let fenced = rig.journal().fence(SHARD);
    rig.settle();
    assert!(matches!(block_on(fenced), Err(JournalError::Io { .. })));
    expect(rig, SHARD, &["a"]);
}
