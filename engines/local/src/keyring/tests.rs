//! The keyring on a disk that loses, cuts and fails.

use super::*;
use crate::disk::{FaultDisk, Survival};
use std::sync::atomic::{AtomicUsize, Ordering};

mod rotations;

const TENANT: TenantId = TenantId(3);
const OTHER: TenantId = TenantId(4);
const DIR: &str = "/keys";

fn open(disk: &FaultDisk) -> Result<LocalKeyring, KeyringError> {
    let options = KeyringOptions { server_key: Some([7; 32]), ..KeyringOptions::new(DIR) };
    LocalKeyring::open_on(Arc::new(disk.clone()), options)
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// Two tenants; the first has three batches of keys, of which one key was handed out in the last.
fn made() -> (FaultDisk, LocalKeyring, Vec<KeyNo>) {
    let disk = FaultDisk::new(1);
    let keyring = open(&disk).expect("a healthy disk");
    for tenant in [TENANT, OTHER] {
        keyring.create_tenant(tenant).expect("a healthy disk");
    }
    let keys = (0..2 * BATCH_KEYS + 1).map(|_| keyring.mint(TENANT).expect("a healthy disk")).collect();
    (disk, keyring, keys)
}

fn secrets(keyring: &LocalKeyring, keys: &[KeyNo]) -> Vec<Option<[u8; 32]>> {
    keyring.secrets(TENANT, keys).expect("keys that can be read")
}

fn is_refused_and_named(disk: &FaultDisk, name: &str, what: &str) {
    let error = open(disk).err().unwrap_or_else(|| panic!("{what} was not seen"));
    let is_named = matches!(&error, KeyringError::Damaged { file, .. } if Path::new(file) == path(name));
    assert!(is_named, "{what}: {error}");
}

fn copy_of(disk: &FaultDisk) -> FaultDisk {
    let copy = FaultDisk::new(2);
    disk.paths().iter().for_each(|path| copy.set_contents(path, disk.contents(path)));
    copy
}

// fixes: torture 2
#[test]
fn a_file_of_keys_that_was_cut_flipped_or_deleted_refuses_the_start_and_is_named() {
    let (disk, keyring, keys) = made();
    let before = secrets(&keyring, &keys);
    drop(keyring);
    let whole = disk.contents(&path("tenant-3.keys"));
    for cut in (0..whole.len()).step_by(3_001).chain([whole.len() - 1]) {
        let disk = copy_of(&disk);
        disk.set_contents(&path("tenant-3.keys"), whole[..cut].to_vec());
        is_refused_and_named(&disk, "tenant-3.keys", &format!("cut at {cut}"));
        assert_eq!(disk.contents(&path("tenant-3.keys")).len(), cut, "nothing was changed");
    }
    for at in (0..whole.len()).step_by(1_777) {
        let disk = copy_of(&disk);
        disk.flip(&path("tenant-3.keys"), at, 1 << (at % 8));
        if !matches!(open(&disk), Err(KeyringError::NewerFormat { .. })) {
            is_refused_and_named(&disk, "tenant-3.keys", &format!("flip at {at}"));
        }
    }
    for name in ["tenant-3.keys", "tenant-4.keys", "manifest", "server.check"] {
        let disk = copy_of(&disk);
        disk.remove(&path(name)).expect("it is there");
        is_refused_and_named(&disk, name, &format!("{name} deleted"));
        assert!(!disk.paths().contains(&path(name)), "it is not made anew");
    }
    let keyring = open(&disk).expect("it is whole");
    assert_eq!(secrets(&keyring, &keys), before);
}

#[test]
fn a_directory_from_before_the_manifest_gets_one_and_loses_no_key() {
    let (disk, keyring, keys) = made();
    let before = secrets(&keyring, &keys);
    drop(keyring);
    disk.remove(&path("manifest")).expect("it is there");
    let mut cipher = Vec::new();
    let nonce = SealKey::new(&[7; 32]).seal(WITHOUT_MANIFEST, &mut cipher);
    disk.set_contents(&path(CHECK), [&nonce[..], &cipher].concat());
    let whole = disk.contents(&path("tenant-3.keys"));
    for cut in [0, 1, 28] {
        // Without a manifest nobody knows whether the last batch was handed out; its keys stay.
        let disk = copy_of(&disk);
        disk.set_contents(&path("tenant-3.keys"), whole[..whole.len() - cut].to_vec());
        let keyring = open(&disk).expect("an older directory");
        assert_eq!(secrets(&keyring, &keys), before, "cut by {cut}");
        let next = keyring.mint(TENANT).expect("room");
        assert_eq!(next, KeyNo(3 * BATCH_KEYS as u64 + 1));
        drop(keyring);
        let keyring = open(&disk).expect("it has a manifest now");
        assert_eq!(secrets(&keyring, &keys), before);
        drop(keyring);
        disk.remove(&path("manifest")).expect("it was written");
        is_refused_and_named(&disk, "manifest", "the manifest deleted later");
    }
}

// fixes: correctness B3
#[test]
fn after_a_failed_sync_nothing_more_is_written_and_no_key_is_lost() {
    for seed in 0..40 {
        for passed in 0..2 {
            let (disk, keyring, keys) = made();
            let before = secrets(&keyring, &keys);
            drop(keyring);
            let (disk, told) = (disk_with_seed(&disk, seed), Arc::new(AtomicUsize::new(0)));
            let counted = Arc::clone(&told);
            let on_failure: FailureCallback = Arc::new(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            let options = KeyringOptions {
                server_key: Some([7; 32]),
                on_failure: Some(on_failure),
                ..KeyringOptions::new(DIR)
            };
            let keyring = LocalKeyring::open_on(Arc::new(disk.clone()), options).expect("it is whole");
            disk.fail_syncs_after(passed, 1);
            let failed = keyring.destroy(TENANT, keys[0]);
            assert!(matches!(failed, Err(KeyringError::Io { .. })), "{failed:?}");
            // Of another block: its redo would take the place of the first one's.
            for late in [keyring.destroy(TENANT, keys[100]), keyring.create_tenant(TenantId(9))] {
                assert!(matches!(late, Err(KeyringError::Io { .. })), "seed {seed}: {late:?}");
            }
            assert_eq!(told.load(Ordering::Relaxed), 1, "once");
            drop(keyring);
            disk.power_cut(Survival::Chance);
            let keyring = open(&disk).unwrap_or_else(|error| panic!("seed {seed}, {passed}: {error}"));
            let after = secrets(&keyring, &keys);
            assert!(after[0].is_none() || after[0] == before[0], "there or gone");
            assert_eq!(after[1..], before[1..], "seed {seed}, {passed}: another key is gone");
        }
    }
}

fn disk_with_seed(disk: &FaultDisk, seed: u64) -> FaultDisk {
    let copy = FaultDisk::new(seed);
    disk.paths().iter().for_each(|path| copy.set_contents(path, disk.contents(path)));
    copy
}

/// What was answered before the power went.
#[derive(Default)]
struct Answered {
    keys: Vec<(KeyNo, [u8; 32])>,
    destroyed: Vec<KeyNo>,
    /// Asked, and not answered.
    doubtful: Option<KeyNo>,
}

fn live(disk: &FaultDisk, answered: &mut Answered) -> Result<(), KeyringError> {
    let keyring = open(disk)?;
    keyring.create_tenant(TENANT)?;
    for step in 0..BATCH_KEYS + 40 {
        let key = keyring.mint(TENANT)?;
        let [Some(secret)] = keyring.secrets(TENANT, &[key])?[..] else { panic!("{key} is not there") };
        answered.keys.push((key, secret));
        if step % 200 == 7 {
            answered.doubtful = Some(key);
            keyring.destroy(TENANT, key)?;
            answered.doubtful = None;
            answered.destroyed.push(key);
        }
    }
    Ok(())
}

// proves: NFR-03
#[test]
fn no_power_cut_takes_a_key_that_was_handed_out_or_brings_one_back() {
    let mut cut = 0;
    loop {
        let mut done = true;
        for (survival, seed) in [(Survival::Nothing, 0), (Survival::Everything, 0)]
            .into_iter()
            .chain((0..4).map(|seed| (Survival::Chance, seed)))
        {
            let (disk, mut answered) = (FaultDisk::new(seed), Answered::default());
            disk.cut_after(cut);
            done &= live(&disk, &mut answered).is_ok();
            disk.power_cut(survival);
            let context = format!("{survival:?}, seed {seed}, cut after {cut}");
            let keyring = open(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
            keyring.create_tenant(TENANT).unwrap_or_else(|error| panic!("{context}: {error}"));
            for (key, secret) in &answered.keys {
                let found = secrets(&keyring, &[*key])[0];
                let gone = answered.destroyed.contains(key);
                let fine = if gone { found.is_none() } else { found == Some(*secret) };
                assert!(fine || answered.doubtful == Some(*key), "{context}: key {key}, destroyed: {gone}");
            }
            let next = keyring.mint(TENANT).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(answered.keys.iter().all(|(key, _)| *key != next), "{context}: {next} twice");
        }
        if done {
            break;
        }
        cut += 1;
    }
    assert!(cut > 30, "the script has many steps: {cut}");
}

/// The manifest found no room, or no descriptor, so the next batch is written over the first try at it, whose end opens.
#[test]
fn a_batch_that_was_never_named_and_is_torn_is_cut_and_saved() {
    // The file of keys is opened, then what the manifest needs.
    type Shortage = fn(&FaultDisk);
    let shortages: [(&str, Shortage); 3] = [
        ("room", |disk| disk.set_capacity(disk.used_bytes() + super::file::BATCH_BYTES as u64)),
        ("one descriptor", |disk| disk.set_descriptors(Some(1))),
        ("two descriptors", |disk| disk.set_descriptors(Some(2))),
    ];
    for (what, run_short) in shortages {
        assert!(
            (0..20).filter(|seed| tears_a_batch(what, run_short, *seed)).count() > 0,
            "{what}: no seed tore it"
        );
    }
}

/// Whether a torn batch was there, and cut.
fn tears_a_batch(what: &str, run_short: fn(&FaultDisk), seed: u64) -> bool {
    let (disk, keyring, mut keys) = made();
    keys.extend((1..BATCH_KEYS).map(|_| keyring.mint(TENANT).expect("a healthy disk")));
    let before = secrets(&keyring, &keys);
    drop(keyring);
    let disk = disk_with_seed(&disk, seed);
    let keyring = open(&disk).expect("it is whole");
    assert_eq!(secrets(&keyring, &keys), before, "the tenant is open");
    run_short(&disk);
    assert!(
        matches!(keyring.mint(TENANT), Err(KeyringError::Io { .. })),
        "{what}: the manifest is not written"
    );
    disk.set_capacity(1 << 40);
    disk.set_descriptors(None);
    disk.cut_after(0);
    assert!(keyring.mint(TENANT).is_err(), "the power is gone");
    drop(keyring);
    disk.power_cut(Survival::Chance);
    let keyring = open(&disk).unwrap_or_else(|error| panic!("{what}, seed {seed}: {error}"));
    assert_eq!(secrets(&keyring, &keys), before, "{what}, seed {seed}");
    let next = keyring.mint(TENANT).expect("room");
    assert!(secrets(&keyring, &[next])[0].is_some(), "{what}, seed {seed}");
    let is_cut = disk.paths().contains(&path("tenant-3.cut"));
    if is_cut {
        assert_eq!(next, KeyNo(3 * BATCH_KEYS as u64 + 1), "{what}, seed {seed}");
        assert_eq!(
            disk.contents(&path("tenant-3.cut")).len(),
            super::file::BATCH_BYTES,
            "{what}, seed {seed}"
        );
    }
    is_cut
}

/// A process was killed between naming the manifest and syncing that name.
#[test]
fn a_manifest_that_counts_is_durable() {
    let (disk, keyring, _) = made();
    let late = TenantId(9);
    KeyFile::new(Path::new(DIR), late).create(&keyring.vault).expect("a healthy disk");
    let mut batches = keyring.vault.manifest.tenants();
    batches.insert(late, 0);
    drop(keyring);
    let beside = path("manifest.new");
    let file = disk.open(&beside, crate::disk::How::Create).expect("a healthy disk");
    crate::disk::write_all_at(&*file, 0, &manifest::encode(&batches)).expect("room");
    file.sync_data().expect("a healthy disk");
    disk.rename(&beside, &path(MANIFEST)).expect("it is there");
    disk.kill_process();
    let keyring = open(&disk).expect("it is whole");
    let sealed = keyring.lookup_user(late, "ann").expect("it is a tenant");
    drop(keyring);
    disk.power_cut(Survival::Nothing);
    let keyring = open(&disk).expect("it is whole");
    assert!(
        keyring.lookup_user(late, "ann").is_ok_and(|again| again == sealed),
        "what its keys made is used"
    );
}

// fixes: correctness B2
#[test]
fn a_copy_made_while_keys_are_written_opens_and_has_all_that_were_there() {
    let (disk, keyring, keys) = made();
    let before = secrets(&keyring, &keys);
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| {
            for key in keys.iter().skip(1).step_by(64) {
                keyring.destroy(TENANT, *key).expect("a healthy disk");
                keyring.mint(TENANT).expect("a healthy disk");
            }
        });
        while !writes.is_finished() {
            keyring.copy_to(Path::new("/copy")).expect("a healthy disk");
            let options = KeyringOptions { server_key: Some([7; 32]), ..KeyringOptions::new("/copy") };
            let copy = LocalKeyring::open_on(Arc::new(disk.clone()), options).expect("a copy is whole");
            let copied = copy.secrets(TENANT, &keys).expect("keys that can be read");
            for (at, (copied, before)) in copied.iter().zip(&before).enumerate() {
                assert!(copied == before || (copied.is_none() && at % 64 == 1), "key {at}");
            }
        }
    });
}

type Change = fn(&LocalKeyring, KeyNo) -> Result<(), KeyringError>;

#[test]
fn without_a_descriptor_nothing_that_counts_is_written_and_it_is_tried_again() {
    // How often each opens a file or a directory.
    let changes: [(&str, u32, Change); 3] = [
        ("mint", 3, |keyring, _| keyring.mint(TENANT).map(drop)),
        ("create", 5, |keyring, _| keyring.create_tenant(TenantId(5))),
        ("destroy", 3, |keyring, key| keyring.destroy(TENANT, key)),
    ];
    for (what, needed, change) in changes {
        for opens in 0..needed {
            let (disk, keyring, keys) = made();
            drop(keyring);
            let told = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&told);
            let on_failure: FailureCallback = Arc::new(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            let options = KeyringOptions {
                server_key: Some([7; 32]),
                on_failure: Some(on_failure),
                ..KeyringOptions::new(DIR)
            };
            let keyring = LocalKeyring::open_on(Arc::new(disk.clone()), options).expect("a healthy disk");
            let before = secrets(&keyring, &keys);
            disk.set_descriptors(Some(opens));
            change(&keyring, keys[0]).expect_err("there is no descriptor");
            assert_eq!(secrets(&keyring, &keys[1..]), before[1..], "{what}, {opens}");
            disk.set_descriptors(None);
            assert_eq!(told.load(Ordering::Relaxed), 0, "{what}, {opens}: the process need not stop");
            for (_, _, change) in changes {
                change(&keyring, keys[0]).expect("descriptors");
            }
            let last = keyring.mint(TENANT).expect("descriptors");
            let after = (secrets(&keyring, &keys[1..]), secrets(&keyring, &[keys[0], last]));
            assert_eq!((&after.0[..], after.1[0]), (&before[1..], None), "{what}, {opens}");
            drop(keyring);
            let keyring = open(&disk).expect("it is whole");
            let found = (secrets(&keyring, &keys[1..]), secrets(&keyring, &[keys[0], last]));
            assert_eq!(found, after, "{what}, {opens}");
        }
    }
}
