//! What every audit log does: it chains what it is told, remembers how far, and gives it back by chain and by time.
//!
//! The hashes themselves are compared with `fantail_audit::chain`, so that a log can move between engines.

use crate::{Chance, block_on};
use fantail_audit::chain::Chains;
use fantail_audit::entry;
use fantail_ports::audit::{
    AppendError, AuditLog, Batch, ChainId, Draft, Entry, Found, Head, Kind, Search, Sequence,
    StoredCheckpoint,
};
use fantail_ports::journal::ReadLimit;
use fantail_rules::ids::{FrontNo, Millis, PartitionId, Position, ShardNo, TenantId};
use fantail_rules::limits::AUDIT_BODY_BYTES_MAX;
use std::collections::BTreeMap;

/// One log under test, and the world around it.
pub trait Rig {
    fn log(&self) -> &dyn AuditLog;

    /// Stops cleanly and opens what is stored.
    fn reopen(&mut self);

    /// Dies without a clean stop, and opens what is stored.
    fn crash(&mut self);

    /// Leaves the disk no room for appends, or gives it back.
    fn set_full(&self, full: bool);

    /// A write fails: nothing more can be promised.
    fn break_disk(&self);
}

type Case = (&'static str, fn(&mut dyn Rig));

pub const CASES: &[Case] = &[
    ("a new log is empty", new_log_is_empty),
    ("drafts are chained by tenant and partition", drafts_are_chained),
    ("what does not continue is refused and changes nothing", refused_changes_nothing),
    ("a call is all or nothing", a_call_is_all_or_nothing),
    ("an empty batch moves its partition on", empty_batch_moves_on),
    ("stops and crashes keep what was answered", stops_and_crashes_keep_all),
    ("chains are read from a sequence up to a limit", chains_are_read),
    ("a tenant is searched by time", tenant_is_searched),
    ("searches and reads agree with a model", reads_agree_with_a_model),
    ("checkpoints are kept in their order", checkpoints_are_kept),
    ("a full disk refuses and recovers", full_disk_refuses_and_recovers),
    ("a broken disk fails for good", broken_disk_fails_for_good),
];

/// Runs every case; a failing one is named.
pub fn audit_suite<R: Rig>(mut fresh: impl FnMut() -> R) {
    for (name, case) in CASES {
        let mut rig = fresh();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut rig)));
        if let Err(cause) = outcome {
            let cause = cause.downcast_ref::<String>().map_or("see above", String::as_str);
            panic!("audit case failed: {name}: {cause}");
        }
    }
}

pub const SHARD: PartitionId = PartitionId::Shard(ShardNo(1));
pub const FRONT: PartitionId = PartitionId::Front(FrontNo(0));
pub const NO_LIMIT: ReadLimit = ReadLimit { records: usize::MAX, bytes: usize::MAX };

const ONE: TenantId = TenantId(1);
const TWO: TenantId = TenantId(2);

fn draft(tenant: TenantId, position: u64, body: &str) -> Draft {
    let (position, at) = (Position(position), Millis(1_000 + position));
    Draft { tenant, position, at, kind: Kind(2), body: body.as_bytes().to_vec() }
}

fn batch(partition: PartitionId, after: u64, through: u64, drafts: Vec<Draft>) -> Batch {
    Batch { partition, after: Position(after), through: Position(through), drafts }
}

fn append(rig: &dyn Rig, batches: Vec<Batch>) -> Result<(), AppendError> {
    block_on(rig.log().append(batches))
}

fn read_all(rig: &dyn Rig, chain: ChainId) -> Vec<Entry> {
    read(rig, chain, 0, NO_LIMIT)
}

fn read(rig: &dyn Rig, chain: ChainId, from: u64, limit: ReadLimit) -> Vec<Entry> {
    block_on(rig.log().read_chain(chain, Sequence(from), limit)).expect("a sound log can be read")
}

/// Everything that a search finds, page by page.
fn search_all(rig: &dyn Rig, tenant: TenantId, search: Search) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut after = search.after;
    loop {
        let page = block_on(rig.log().search(tenant, Search { after, ..search }));
        let Found { entries, next } = page.expect("a sound log can be searched");
        assert!(entries.len() <= search.limit.records.max(1), "more than asked for");
        all.extend(entries);
        if next.is_none() {
            return all;
        }
        assert!(next > after, "a search goes on");
        after = next;
    }
}

const ALWAYS: Search = Search { from: Millis(0), until: Millis(u64::MAX), after: None, limit: NO_LIMIT };

fn chain(tenant: TenantId, partition: PartitionId) -> ChainId {
    ChainId { tenant, partition }
}

fn bodies(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| String::from_utf8_lossy(&entry.body).into_owned()).collect()
}

fn new_log_is_empty(rig: &mut dyn Rig) {
    assert_eq!(append(rig, Vec::new()), Ok(()));
    assert_eq!(rig.log().derived(), BTreeMap::new());
    assert_eq!(rig.log().heads(), []);
    assert_eq!(read_all(rig, chain(ONE, SHARD)), []);
    assert_eq!(search_all(rig, ONE, ALWAYS), []);
    assert_eq!(block_on(rig.log().checkpoints(0, NO_LIMIT)), Ok(Vec::new()));
}

/// Two partitions in one call, then one of them again.
fn some_batches() -> [Vec<Batch>; 2] {
    [
        vec![
            batch(SHARD, 0, 4, vec![draft(ONE, 1, "a"), draft(TWO, 3, "b"), draft(ONE, 3, "c")]),
            batch(FRONT, 0, 2, vec![draft(ONE, 2, "d")]),
        ],
        vec![batch(SHARD, 4, 5, vec![draft(ONE, 5, "e")])],
    ]
}

// proves: AUD-02
fn drafts_are_chained(rig: &mut dyn Rig) {
    let mut reference = Chains::default();
    for batches in some_batches() {
        assert_eq!(append(rig, batches.clone()), Ok(()));
        let staged = reference.stage(batches).expect("the batches are in order");
        reference.fold(&staged);
        assert_eq!(rig.log().heads(), reference.heads(), "the same hashes wherever it is kept");
        assert_eq!(rig.log().derived(), *reference.derived());
    }
    let shard = read_all(rig, chain(ONE, SHARD));
    assert_eq!(bodies(&shard), ["a", "c", "e"]);
    assert_eq!(bodies(&read_all(rig, chain(TWO, SHARD))), ["b"]);
    assert_eq!(bodies(&read_all(rig, chain(ONE, FRONT))), ["d"]);
    let mut previous = Default::default();
    for (sequence, entry) in (1..).zip(&shard) {
        assert_eq!((entry.sequence, entry.previous), (Sequence(sequence), previous));
        previous = entry::hash(entry);
    }
    let head = Head { chain: chain(ONE, SHARD), sequence: Sequence(3), hash: previous };
    assert!(rig.log().heads().contains(&head));
    assert_eq!((shard[1].position, shard[1].at, shard[1].kind), (Position(3), Millis(1_003), Kind(2)));
}

fn refused_changes_nothing(rig: &mut dyn Rig) {
    let [first, second] = some_batches();
    assert_eq!(append(rig, first.clone()), Ok(()));
    let (heads, derived) = (rig.log().heads(), rig.log().derived());
    let refused = [
        first,
        vec![batch(SHARD, 5, 6, vec![draft(ONE, 6, "gap")])],
        vec![batch(SHARD, 4, 3, vec![])],
        vec![batch(SHARD, 4, 5, vec![draft(ONE, 4, "again")])],
        vec![batch(SHARD, 4, 5, vec![draft(ONE, 6, "early")])],
    ];
    for batches in refused {
        let outcome = append(rig, batches);
        assert!(matches!(outcome, Err(AppendError::OutOfOrder { .. })), "{outcome:?}");
    }
    let long = "x".repeat(AUDIT_BODY_BYTES_MAX + 1);
    let outcome = append(rig, vec![batch(SHARD, 4, 5, vec![draft(ONE, 5, &long)])]);
    assert!(matches!(outcome, Err(AppendError::TooLarge { .. })), "{outcome:?}");
    assert_eq!((rig.log().heads(), rig.log().derived()), (heads, derived));
    assert_eq!(append(rig, second), Ok(()), "it goes on");
    assert_eq!(bodies(&read_all(rig, chain(ONE, SHARD))), ["a", "c", "e"]);
}

fn a_call_is_all_or_nothing(rig: &mut dyn Rig) {
    let good = batch(SHARD, 0, 1, vec![draft(ONE, 1, "a")]);
    let bad = batch(FRONT, 7, 8, vec![draft(ONE, 8, "b")]);
    assert!(append(rig, vec![good, bad]).is_err());
    assert_eq!(rig.log().heads(), []);
    let halves =
        vec![batch(SHARD, 0, 1, vec![draft(ONE, 1, "a")]), batch(SHARD, 1, 2, vec![draft(ONE, 2, "b")])];
    assert_eq!(append(rig, halves), Ok(()), "a partition may come twice");
    assert_eq!(rig.log().derived(), BTreeMap::from([(SHARD, Position(2))]));
    rig.crash();
    assert_eq!(bodies(&read_all(rig, chain(ONE, SHARD))), ["a", "b"]);
}

fn empty_batch_moves_on(rig: &mut dyn Rig) {
    assert_eq!(append(rig, vec![batch(SHARD, 0, 9, vec![])]), Ok(()));
    rig.crash();
    assert_eq!(rig.log().derived(), BTreeMap::from([(SHARD, Position(9))]));
    assert_eq!(rig.log().heads(), []);
    assert_eq!(append(rig, vec![batch(SHARD, 9, 10, vec![draft(ONE, 10, "a")])]), Ok(()));
    assert_eq!(bodies(&read_all(rig, chain(ONE, SHARD))), ["a"]);
}

// proves: AUD-02
fn stops_and_crashes_keep_all(rig: &mut dyn Rig) {
    for round in 0..6u64 {
        let drafts = vec![draft(ONE, round + 1, "x"), draft(TWO, round + 1, "y")];
        assert_eq!(append(rig, vec![batch(SHARD, round, round + 1, drafts)]), Ok(()));
        let text = format!("checkpoint {round}");
        let put = rig.log().put_checkpoint(StoredCheckpoint { number: round + 1, text });
        assert_eq!(block_on(put), Ok(()));
        let before = (rig.log().heads(), rig.log().derived());
        if round % 2 == 0 {
            rig.reopen()
        } else {
            rig.crash()
        }
        assert_eq!((rig.log().heads(), rig.log().derived()), before);
        assert_eq!(read_all(rig, chain(TWO, SHARD)).len() as u64, round + 1);
        let checkpoints = block_on(rig.log().checkpoints(0, NO_LIMIT)).expect("a sound log can be read");
        assert_eq!(checkpoints.len() as u64, round + 1);
    }
}

fn chains_are_read(rig: &mut dyn Rig) {
    let drafts = (1..=20).map(|no| draft(ONE, no, &format!("{no:0100}"))).collect();
    assert_eq!(append(rig, vec![batch(SHARD, 0, 20, drafts)]), Ok(()));
    let sequences = |from, limit| -> Vec<u64> {
        read(rig, chain(ONE, SHARD), from, limit).iter().map(|entry| entry.sequence.0).collect()
    };
    assert_eq!(sequences(18, NO_LIMIT), [18, 19, 20]);
    assert_eq!(sequences(5, ReadLimit { records: 2, bytes: usize::MAX }), [5, 6]);
    assert_eq!(sequences(5, ReadLimit { records: 0, bytes: 0 }), [5], "at least one");
    assert_eq!(sequences(21, NO_LIMIT), []);
    let few = sequences(1, ReadLimit { records: 100, bytes: 1_000 });
    assert!((1..20).contains(&few.len()), "{few:?}");
    assert_eq!(read_all(rig, chain(TWO, SHARD)), []);
    assert_eq!(read_all(rig, chain(ONE, FRONT)), []);
}

// proves: TEN-01
fn tenant_is_searched(rig: &mut dyn Rig) {
    for batches in some_batches() {
        assert_eq!(append(rig, batches), Ok(()));
    }
    let found = |tenant, from, until| {
        let search = Search { from: Millis(from), until: Millis(until), ..ALWAYS };
        bodies(&search_all(rig, tenant, search))
    };
    assert_eq!(found(ONE, 0, u64::MAX), ["a", "c", "d", "e"], "in the order of appending");
    assert_eq!(found(ONE, 1_002, 1_004), ["c", "d"]);
    assert_eq!(found(ONE, 1_003, 1_003), [""; 0]);
    assert_eq!(found(TWO, 0, u64::MAX), ["b"]);
    assert_eq!(found(TenantId(3), 0, u64::MAX), [""; 0]);
    let one_by_one = Search { limit: ReadLimit { records: 1, bytes: usize::MAX }, ..ALWAYS };
    assert_eq!(bodies(&search_all(rig, ONE, one_by_one)), ["a", "c", "d", "e"]);
}

/// Many tenants, uneven, with times that do not ascend between partitions: every read against plain lists.
fn reads_agree_with_a_model(rig: &mut dyn Rig) {
    let mut chance = Chance::new(7);
    let mut model: Vec<Entry> = Vec::new();
    let mut reference = Chains::default();
    for round in 0..40u64 {
        let partition = [SHARD, FRONT][chance.below(2) as usize];
        let after = reference.derived().get(&partition).map_or(0, |position| position.0);
        let through = after + 1 + chance.below(60);
        let mut drafts: Vec<Draft> = Vec::new();
        for position in after + 1..=through {
            let tenant = TenantId(if chance.once_in(3) { 1 + chance.below(50) as u32 } else { 1 });
            let body = "b".repeat(chance.below(400) as usize);
            let at = Millis(round * 100 + chance.below(300));
            drafts.push(Draft { at, ..draft(tenant, position, &body) });
        }
        let batches = vec![batch(partition, after, through, drafts)];
        let staged = reference.stage(batches.clone()).expect("the batches are in order");
        reference.fold(&staged);
        model.extend(staged.entries.into_iter().map(|linked| linked.entry));
        assert_eq!(append(rig, batches), Ok(()));
        if chance.once_in(10) {
            rig.crash();
        }
    }
    for head in reference.heads() {
        let of_chain: Vec<Entry> = model.iter().filter(|entry| entry.chain == head.chain).cloned().collect();
        assert_eq!(read_all(rig, head.chain), of_chain);
        let from = 1 + chance.below(head.sequence.0);
        let limit = ReadLimit { records: 3, bytes: usize::MAX };
        let rest: Vec<Entry> = of_chain.iter().skip(from as usize - 1).take(3).cloned().collect();
        assert_eq!(read(rig, head.chain, from, limit), rest);
    }
    for _ in 0..60 {
        let (tenant, from) = (TenantId(1 + chance.below(4) as u32), chance.below(4_000));
        let (from, until) = (Millis(from), Millis(from + chance.below(1_500)));
        let limit = ReadLimit { records: 1 + chance.below(40) as usize, bytes: 1 << 20 };
        let wanted = |entry: &&Entry| entry.chain.tenant == tenant && (from..until).contains(&entry.at);
        let expected: Vec<Entry> = model.iter().filter(wanted).cloned().collect();
        assert_eq!(search_all(rig, tenant, Search { from, until, after: None, limit }), expected);
    }
}

fn checkpoints_are_kept(rig: &mut dyn Rig) {
    let text = |number: u64| match number {
        2 => "a line of a large checkpoint\n".repeat(40_000),
        _ => format!("checkpoint {number}\n"),
    };
    let put = |rig: &dyn Rig, number| {
        block_on(rig.log().put_checkpoint(StoredCheckpoint { number, text: text(number) }))
    };
    for number in 1..=4 {
        assert_eq!(put(rig, number), Ok(()));
    }
    for number in [0, 1, 4, 6] {
        let refused = put(rig, number);
        assert!(matches!(refused, Err(AppendError::OutOfOrder { .. })), "{number}: {refused:?}");
    }
    rig.crash();
    assert_eq!(put(rig, 5), Ok(()));
    let get = |from, limit| {
        let kept = block_on(rig.log().checkpoints(from, limit)).expect("a sound log can be read");
        assert!(kept.iter().all(|kept| kept.text == text(kept.number)));
        kept.iter().map(|kept| kept.number).collect::<Vec<_>>()
    };
    assert_eq!(get(0, NO_LIMIT), [1, 2, 3, 4, 5]);
    assert_eq!(get(4, NO_LIMIT), [4, 5]);
    assert_eq!(get(6, NO_LIMIT), [0; 0]);
    assert_eq!(get(1, ReadLimit { records: 2, bytes: usize::MAX }), [1, 2]);
    assert_eq!(get(2, ReadLimit { records: 9, bytes: 10 }), [2], "at least one, and whole");
    assert_eq!(rig.log().heads(), []);
}

fn full_disk_refuses_and_recovers(rig: &mut dyn Rig) {
    assert_eq!(append(rig, vec![batch(SHARD, 0, 1, vec![draft(ONE, 1, "a")])]), Ok(()));
    rig.set_full(true);
    let more = || vec![batch(SHARD, 1, 2, vec![draft(ONE, 2, "b")])];
    let refused = append(rig, more());
    assert!(matches!(refused, Err(AppendError::NoRoom { .. })), "{refused:?}");
    assert_eq!(rig.log().derived(), BTreeMap::from([(SHARD, Position(1))]));
    assert_eq!(bodies(&read_all(rig, chain(ONE, SHARD))), ["a"]);
    let refused = block_on(rig.log().put_checkpoint(StoredCheckpoint { number: 1, text: "c".into() }));
    assert!(matches!(refused, Err(AppendError::NoRoom { .. })), "{refused:?}");
    rig.set_full(false);
    assert_eq!(append(rig, more()), Ok(()));
    assert_eq!(bodies(&read_all(rig, chain(ONE, SHARD))), ["a", "b"]);
}

fn broken_disk_fails_for_good(rig: &mut dyn Rig) {
    assert_eq!(append(rig, vec![batch(SHARD, 0, 1, vec![draft(ONE, 1, "a")])]), Ok(()));
    rig.break_disk();
    for _ in 0..2 {
        let failed = append(rig, vec![batch(SHARD, 1, 2, vec![draft(ONE, 2, "b")])]);
        assert!(matches!(failed, Err(AppendError::Failed { .. })), "{failed:?}");
    }
    assert_eq!(bodies(&read_all(rig, chain(ONE, SHARD))), ["a"], "readers go on");
    rig.crash();
    let through = rig.log().derived()[&SHARD].0;
    assert!(through == 1 || through == 2, "nobody can know what became of it");
    assert_eq!(read_all(rig, chain(ONE, SHARD)).len() as u64, through);
    let next = vec![batch(SHARD, through, through + 1, vec![draft(ONE, through + 1, "c")])];
    assert_eq!(append(rig, next), Ok(()));
}
