//! How fast the audit log is, on this machine: `cargo run --release -p fantail-local --example audit_rates [DIR]`.
//!
//! Leaves of parcels with their salts and roots, appends in batches (each with its sync), verification of all that, and
//! reads through the index. Data goes to a directory below DIR (here if left out), and is removed at the end.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use fantail_audit::checkpoint::Series;
use fantail_audit::fact::{Accepted, Fact, Parcel};
use fantail_audit::key::{Keys, Signer};
use fantail_audit::member::{Commitment, ConsentVersion, Member, Pseudonym, Reason, Salt, SaltUse};
use fantail_conformance::block_on;
use fantail_local::audit::{AuditOptions, LocalAudit, verify};
use fantail_local::disk::RealDisk;
use fantail_local::journal::RoomOptions;
use fantail_ports::audit::{AuditLog, Batch, ChainId, Draft, Kind, Sequence, StoredCheckpoint};
use fantail_ports::journal::ReadLimit;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{DeviceNo, Millis, PartitionId, Position, ShardNo, TenantId, UserNo};
use fantail_rules::ulid::Ulid;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const PARCELS: u64 = 3_000;
const MEMBERS: u64 = 1_000;
const ENTRIES: u64 = 1_000_000;
const TENANTS: u64 = 100;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let parent = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let dir = parent.join(format!("audit-rates-{}", std::process::id()));
    leaves();
    for batch in [100, 1_000, 10_000] {
        let dir = dir.join(batch.to_string());
        append_and_verify(&dir, batch)?;
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Prints a rate, and returns what was done.
fn timed<T>(what: &str, count: u64, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    let seconds = began.elapsed().as_secs_f64();
    println!("{what}: {count} in {seconds:.2} s, {:.0}/s", count as f64 / seconds);
    done
}

fn member(no: u64) -> Member {
    let usage = SaltUse { kind: Kind(4), position: Position(7), index: no as u32 };
    Member {
        salt: Salt::derive(&[no as u8; 32], usage),
        pseudonym: Pseudonym(u128::from(no).to_be_bytes()),
        verdict: if no.is_multiple_of(10) { State::Suppressed } else { State::Intent },
        device: DeviceNo(1),
        reason: Reason::default(),
        consent: ConsentVersion(no),
    }
}

fn leaves() {
    let members: Vec<Member> = (0..MEMBERS).map(member).collect();
    timed("leaves and roots, salts given", PARCELS * MEMBERS, || {
        for _ in 0..PARCELS {
            black_box(Commitment::to(black_box(&members)));
        }
    });
    timed("leaves and roots, salts derived", PARCELS * MEMBERS, || {
        for _ in 0..PARCELS {
            let members: Vec<Member> = (0..MEMBERS).map(member).collect();
            black_box(Commitment::to(&members));
        }
    });
}

/// Every fourth entry is a parcel, the others are accepted requests.
fn draft(no: u64, bodies: &[(Kind, Vec<u8>); 2]) -> Draft {
    let (kind, body) = &bodies[usize::from(no.is_multiple_of(4))];
    let tenant = TenantId(u32::try_from(no % TENANTS).unwrap_or_default());
    Draft { tenant, position: Position(no), at: Millis(no), kind: *kind, body: body.clone() }
}

fn append_and_verify(dir: &Path, batch_entries: u64) -> Outcome<()> {
    let accepted =
        Fact::Accepted(Accepted { event: Ulid(7), key: [1; 16], body: [2; 16], actor: "k1".into() });
    let members: Vec<Member> = (0..MEMBERS).map(member).collect();
    let parcel = Fact::Parcel(Parcel::of(Ulid(7), ChannelKind::Push, 1, UserNo(1), &members));
    let bodies = [(accepted.kind(), accepted.encode()?), (parcel.kind(), parcel.encode()?)];
    let room = RoomOptions { free_bytes_min: 0, free_percent_min: 0, ..RoomOptions::default() };
    let options = AuditOptions { room, ..AuditOptions::default() };
    let log = LocalAudit::open(Arc::new(RealDisk), dir, &options)?;
    let partition = PartitionId::Shard(ShardNo(0));
    let entries = ENTRIES.min(batch_entries * 500);
    let append = |first: u64| {
        let drafts = (first..first + batch_entries).map(|no| draft(no, &bodies)).collect();
        let (after, through) = (Position(first - 1), Position(first + batch_entries - 1));
        block_on(log.append(vec![Batch { partition, after, through, drafts }]))
    };
    let mut starts = (0..entries / batch_entries).map(|no| 1 + no * batch_entries);
    timed(&format!("append, {batch_entries} per sync"), entries, || starts.try_for_each(append))?;
    let signer = Signer::from_seed(&[1; 32]);
    let checkpoint = Series::new().sign(&log.heads(), Millis(1), &signer)?;
    block_on(log.put_checkpoint(StoredCheckpoint { number: 1, text: checkpoint.text() }))?;
    read(&log, partition, entries)?;
    log.close()?;
    drop(log);
    let keys: Keys = [signer.public()].into_iter().collect();
    let verdict = timed("verify", entries, || verify(&RealDisk, dir, &keys, &[]));
    assert!(verdict.is_clean() && verdict.report.entries == entries, "{verdict:?}");
    let opened = timed("open", entries, || LocalAudit::open(Arc::new(RealDisk), dir, &options))?;
    println!(
        "  {:.1} bytes per entry in files, {:?}",
        verdict.log.bytes as f64 / entries as f64,
        opened.report()
    );
    Ok(())
}

fn read(log: &LocalAudit, partition: PartitionId, entries: u64) -> Outcome<()> {
    let chain = ChainId { tenant: TenantId(3), partition };
    let one = ReadLimit { records: 1, bytes: 0 };
    let last = entries / TENANTS;
    timed("read one entry by sequence", 200, || {
        (0..200)
            .try_for_each(|no| block_on(log.read_chain(chain, Sequence(1 + no * last / 200), one)).map(drop))
    })?;
    Ok(())
}
