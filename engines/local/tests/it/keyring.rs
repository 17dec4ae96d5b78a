//! The local keyring passes the suite, survives torn writes, and opens under its own server key only.

use crate::scratch::Scratch;
use fantail_conformance::keyring::{Rig, keyring_suite};
use fantail_local::keyring::{KeyringOptions, LocalKeyring};
use fantail_ports::keyring::{Context, Keyring, KeyringError};
use fantail_rules::ids::{KeyNo, TenantId};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

struct LocalRig {
    keyring: LocalKeyring,
    directory: Scratch,
}

fn open(directory: &Path) -> Result<LocalKeyring, KeyringError> {
    LocalKeyring::open(KeyringOptions::new(directory))
}

impl Rig for LocalRig {
    fn keyring(&self) -> &dyn Keyring {
        &self.keyring
    }

    fn crash(&mut self) {
        self.keyring = open(self.directory.path()).unwrap();
    }
}

// proves: NFR-03, TEN-06
#[test]
fn local_keyring_passes_the_suite() {
    keyring_suite(|| {
        let directory = Scratch::new();
        LocalRig { keyring: open(directory.path()).unwrap(), directory }
    });
}

const TENANT: TenantId = TenantId(3);
const USER: Context = Context::UserId;

fn key_file(directory: &Scratch) -> PathBuf {
    directory.path().join("tenant-3.keys")
}

/// A keyring with one tenant and one key that is in use.
fn with_one_key() -> (Scratch, LocalKeyring, KeyNo) {
    let directory = Scratch::new();
    let keyring = open(directory.path()).unwrap();
    keyring.create_tenant(TENANT).unwrap();
    let key = keyring.mint(TENANT).unwrap();
    (directory, keyring, key)
}

#[test]
fn a_batch_that_was_cut_off_was_never_handed_out() {
    let (directory, keyring, key) = with_one_key();
    let sealed = keyring.seal(TENANT, key, USER, b"kept").unwrap();
    let first = fs::read(key_file(&directory)).unwrap();
    let manifest = directory.path().join("manifest");
    let of_first = fs::read(&manifest).unwrap();
    for _ in 0..1_024 {
        keyring.mint(TENANT).unwrap();
    }
    let both = fs::read(key_file(&directory)).unwrap();
    assert_eq!((both.len() - 108) % (first.len() - 108), 0, "batches have one size");
    for length in (first.len()..both.len()).step_by(977).chain([both.len() - 1]) {
        fs::write(key_file(&directory), &both[..length]).unwrap();
        // Once the manifest names the batch its keys may have been handed out.
        let refused = open(directory.path()).map(drop);
        assert!(matches!(refused, Err(KeyringError::Damaged { .. })), "cut at {length}: {refused:?}");
        fs::write(&manifest, &of_first).unwrap();
        let reopened = open(directory.path()).unwrap();
        assert_eq!(reopened.open(TENANT, USER, &sealed).as_deref(), Ok(&b"kept"[..]), "cut at {length}");
        let next = reopened.mint(TENANT).unwrap();
        assert_eq!(next, KeyNo(1_025), "cut at {length}");
        let again = reopened.seal(TENANT, next, USER, b"new").unwrap();
        assert_eq!(open(directory.path()).unwrap().open(TENANT, USER, &again).as_deref(), Ok(&b"new"[..]));
    }
    // The length was there before the content, as a power cut may leave it.
    let mut zeros = first.clone();
    zeros.resize(both.len(), 0);
    fs::write(key_file(&directory), zeros).unwrap();
    fs::write(&manifest, &of_first).unwrap();
    assert_eq!(open(directory.path()).unwrap().mint(TENANT), Ok(KeyNo(1_025)));
}

#[test]
fn damage_to_keys_that_were_handed_out_is_told() {
    let (directory, keyring, key) = with_one_key();
    let sealed = keyring.seal(TENANT, key, USER, b"kept").unwrap();
    let own = keyring.seal(TENANT, KeyNo::TENANT, USER, b"own").unwrap();
    let whole = fs::read(key_file(&directory)).unwrap();
    for at in [0, 8, 16, 30, 107, 108, 200, 2_100] {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        fs::write(key_file(&directory), flipped).unwrap();
        let opened = open(directory.path()).and_then(|reopened| {
            reopened.open(TENANT, USER, &own).and_then(|_| reopened.open(TENANT, USER, &sealed))
        });
        let is_told = matches!(opened, Err(KeyringError::Damaged { .. } | KeyringError::NewerFormat { .. }));
        assert!(is_told, "flip at {at}: {opened:?}");
    }
}

#[test]
fn a_torn_rewrite_is_repaired_and_the_key_stays_destroyed() {
    let (directory, keyring, key) = with_one_key();
    let second = keyring.mint(TENANT).unwrap();
    let (lost, safe) = (
        keyring.seal(TENANT, key, USER, b"lost").unwrap(),
        keyring.seal(TENANT, second, USER, b"safe").unwrap(),
    );
    let before = fs::read(key_file(&directory)).unwrap();
    keyring.destroy(TENANT, key).unwrap();
    let after = fs::read(key_file(&directory)).unwrap();
    let changed = before.iter().zip(&after).position(|(old, new)| old != new).unwrap();
    assert!((108..108 + 2_076).contains(&changed), "the first block begins behind the head");
    // As if the power had gone at some point of the write in place, with the redo durable before it.
    for torn in [108, 500, 1_500, 108 + 2_076] {
        let redo = [&108u64.to_be_bytes()[..], &after[108..108 + 2_076]].concat();
        let redo = [&redo[..], &crc32fast::hash(&redo).to_be_bytes()].concat();
        fs::write(directory.path().join("tenant-3.redo"), redo).unwrap();
        fs::write(key_file(&directory), [&after[..torn], &before[torn..]].concat()).unwrap();
        let reopened = open(directory.path()).unwrap();
        let gone = Err(KeyringError::NoKey { tenant: TENANT, key });
        assert_eq!(reopened.open(TENANT, USER, &lost), gone, "torn at {torn}");
        assert_eq!(reopened.open(TENANT, USER, &safe).as_deref(), Ok(&b"safe"[..]), "torn at {torn}");
        assert!(!directory.path().join("tenant-3.redo").exists());
    }
}

#[test]
fn another_server_key_is_refused() {
    let (directory, keyring, _) = with_one_key();
    drop(keyring);
    let given = KeyringOptions { server_key: Some([7; 32]), ..KeyringOptions::new(directory.path()) };
    assert!(matches!(LocalKeyring::open(given.clone()), Err(KeyringError::Damaged { .. })));
    // The path may hold the digit; a key would show as a run of numbers.
    assert!(!format!("{given:?}").contains("7, 7"), "a key is not shown");
    fs::remove_file(directory.path().join("server.key")).unwrap();
    assert!(
        matches!(open(directory.path()), Err(KeyringError::Damaged { .. })),
        "no new key over old tenants"
    );
    let empty = Scratch::new();
    let given = KeyringOptions { server_key: Some([7; 32]), ..KeyringOptions::new(empty.path()) };
    LocalKeyring::open(given.clone()).unwrap().create_tenant(TENANT).unwrap();
    assert!(!empty.path().join("server.key").exists(), "a key that is given is not stored");
    LocalKeyring::open(given).unwrap().mint(TENANT).unwrap();
}

#[test]
fn files_are_for_their_owner_alone() {
    let (directory, _, _) = with_one_key();
    for entry in fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?}", entry.file_name());
    }
}

// proves: TEN-06
#[test]
fn a_destroyed_key_does_not_come_back_from_whoever_read_meanwhile() {
    let directory = Scratch::new();
    // Room for one block on each shelf: blocks are read again and again.
    let keyring =
        LocalKeyring::open(KeyringOptions { cache_bytes: 1, ..KeyringOptions::new(directory.path()) })
            .unwrap();
    keyring.create_tenant(TENANT).unwrap();
    let keys: Vec<KeyNo> = (0..2_048).map(|_| keyring.mint(TENANT).unwrap()).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    keyring.secrets(TENANT, &keys).unwrap();
                }
            });
        }
        for key in keys.iter().step_by(64) {
            keyring.destroy(TENANT, *key).unwrap();
            assert_eq!(keyring.secrets(TENANT, &[*key]).unwrap(), [None]);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let left = keyring.secrets(TENANT, &keys).unwrap();
    let expected = (0..2_048).map(|at| at % 64 != 0);
    assert!(left.iter().map(Option::is_some).eq(expected));
}
