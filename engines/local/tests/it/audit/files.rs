//! What lies in the directory: the index that can be lost, exports, and the bytes of format 1.

use super::rig::{DIR, derive, entries, keys, open, run, small};
use fantail_conformance::audit::{NO_LIMIT, SHARD};
use fantail_conformance::block_on;
use fantail_local::audit::{Exported, LocalAudit, verify};
use fantail_local::disk::{Disk, FaultDisk, How};
use fantail_local::journal::Drive;
use fantail_ports::audit::{AuditError, AuditLog, ChainId, Sequence};
use fantail_rules::ids::TenantId;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn files_in(disk: &FaultDisk, dir: &str) -> Vec<PathBuf> {
    let dir = Path::new(dir);
    disk.paths().into_iter().filter(|path| path.parent() == Some(dir)).collect()
}

#[test]
fn a_lost_or_damaged_index_is_made_again() {
    let make = || {
        let disk = FaultDisk::new(1);
        let log = open(&disk).unwrap();
        run(&log).unwrap();
        let expected = (entries(&log), log.heads(), log.derived());
        log.close().unwrap();
        (disk, expected)
    };
    let check = |what: &str, spoil: &dyn Fn(&FaultDisk, &Path)| {
        let (disk, expected) = make();
        let pages = files_in(&disk, "/audit/index");
        assert!(!pages.is_empty(), "the script fills some pages");
        spoil(&disk, &pages[0]);
        let log = open(&disk).unwrap();
        let (report, found) = (log.report(), (entries(&log), log.heads(), log.derived()));
        assert!(report.index_rebuilt || what == "removed", "{what}: {report:?}");
        assert!(report.entries_read as usize == expected.0.len(), "{what}: {report:?}");
        assert_eq!(found, expected, "{what}");
        drop(log);
        let log = open(&disk).unwrap();
        assert!(!log.report().index_rebuilt && log.report().entries_read < 100, "{what}: {:?}", log.report());
        assert_eq!(entries(&log), expected.0, "{what}, by the new index");
    };
    check("removed", &|disk, page| disk.remove(page).unwrap());
    check("flipped", &|disk, page| disk.flip(page, 1_100, 0x10));
    check("cut", &|disk, page| disk.set_contents(page, disk.contents(page)[..900].to_vec()));
    check("of another log", &|disk, page| {
        let other = FaultDisk::new(2);
        let log = open(&other).unwrap();
        derive(&log, SHARD, 900).unwrap();
        log.close().unwrap();
        for path in files_in(disk, "/audit/index") {
            disk.remove(&path).unwrap();
        }
        let theirs = files_in(&other, "/audit/index");
        theirs.iter().for_each(|path| disk.set_contents(path, other.contents(path)));
        assert_eq!(&theirs[0], page);
    });
}

// proves: AUD-02
#[test]
fn an_export_verifies_opens_and_grows_by_new_files_only() {
    let disk = FaultDisk::new(1);
    let log = open(&disk).unwrap();
    let export = |log: &LocalAudit| block_on(log.export(PathBuf::from("/worm"))).unwrap();
    run(&log).unwrap();
    let first = export(&log);
    assert!(first.files >= 3 && first.skipped == 0 && first.bytes > 4_000, "{first:?}");
    let copied = |dir: &str| {
        let paths = files_in(&disk, dir).into_iter();
        paths.map(|path| (path.clone(), disk.contents(&path))).collect::<Vec<_>>()
    };
    let before = (copied("/worm/log"), copied("/worm/checkpoints"));
    let again = Exported { files: 0, bytes: 0, skipped: first.files };
    assert_eq!(export(&log), again, "nothing new");
    derive(&log, SHARD, 160).unwrap();
    super::rig::checkpoint(&log).unwrap();
    let second = export(&log);
    assert!(second.files >= 2 && second.skipped == first.files, "{second:?}");
    let after = (copied("/worm/log"), copied("/worm/checkpoints"));
    assert_eq!(after.0[..before.0.len()], before.0, "copies never change");
    assert_eq!(after.1[..before.1.len()], before.1);
    let verdict = verify(&disk, Path::new("/worm"), &keys(), &[]);
    assert!(verdict.is_clean() && verdict.report.uncovered == 0, "{verdict:?}");
    assert_eq!(verdict.report.entries as usize, entries(&log).len());

    let copy = LocalAudit::open(Arc::new(disk.clone()), Path::new("/worm"), &small(Drive::Manual)).unwrap();
    assert_eq!((entries(&copy), copy.heads()), (entries(&log), log.heads()));
    let (path, bytes) = &after.0[0];
    disk.set_contents(path, bytes[..bytes.len() - 512].to_vec());
    let refused = block_on(log.export(PathBuf::from("/worm")));
    assert!(
        matches!(&refused, Err(AuditError::Damaged { file, .. }) if Path::new(file) == path),
        "{refused:?}"
    );
}

#[test]
fn a_log_has_one_owner_and_refuses_after_close() {
    let disk = FaultDisk::new(1);
    let log = open(&disk).unwrap();
    assert!(matches!(open(&disk), Err(AuditError::Locked { .. })));
    run(&log).unwrap();
    log.close().unwrap();
    log.close().unwrap();
    assert!(derive(&log, SHARD, 170).is_err());
    let chain = ChainId { tenant: TenantId(1), partition: SHARD };
    assert!(!block_on(log.read_chain(chain, Sequence(1), NO_LIMIT)).unwrap().is_empty(), "reads go on");
    drop(log);
    let log = open(&disk).unwrap();
    assert!(log.report().clean && log.report().torn_tails.is_empty());
}

/// Written by the first build of format 1. Every later build must read it.
#[test]
fn the_fixture_of_format_1_is_read() {
    let disk = FaultDisk::new(1);
    for (name, bytes) in [
        ("log", &include_bytes!("fixtures/log-1.segment")[..]),
        ("checkpoints", include_bytes!("fixtures/checkpoints-1.segment")),
        ("index", include_bytes!("fixtures/index-1.segment")),
    ] {
        disk.set_contents(
            &Path::new(DIR).join(name).join("journal-0000000000000001.segment"),
            bytes.to_vec(),
        );
    }
    let verdict = verify(&disk, Path::new(DIR), &keys(), &[]);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!((verdict.report.entries, verdict.report.checkpoints), (49, 1));
    let log = open(&disk).unwrap();
    assert!(log.report().clean && !log.report().index_rebuilt, "{:?}", log.report());
    let fresh = open(&FaultDisk::new(2)).unwrap();
    derive(&fresh, SHARD, 33).unwrap();
    assert_eq!(
        (entries(&log), log.heads(), log.derived()),
        (entries(&fresh), fresh.heads(), fresh.derived())
    );
    derive(&log, SHARD, 40).unwrap();
    derive(&fresh, SHARD, 40).unwrap();
    assert_eq!(log.heads(), fresh.heads(), "and goes on where the old build stopped");
    assert!(disk.open(Path::new("/audit/log/journal-0000000000000002.segment"), How::Read).is_ok());
}
