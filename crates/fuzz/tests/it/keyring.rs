//! Files of the keyring: whatever happened to them, opening one answers, and a key that is read is the one that was made.

use fantail_fuzz::{Corpus, Dice, Reading, seeds};
use fantail_local::keyring::{KeyringOptions, LocalKeyring};
use fantail_ports::keyring::{Context, Keyring};
use fantail_rules::ids::{KeyNo, TenantId};
use std::path::{Path, PathBuf};

const TENANT: TenantId = TenantId(1);
const SECRET: &[u8] = b"what only the key opens";
/// Each opens a directory: a hundredth of the rounds of the others.
const ROUNDS_PER_OPENING: u64 = 100;

/// Removed when the test ends.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let removed = std::fs::remove_dir_all(&self.0);
        assert!(removed.is_ok() || std::thread::panicking(), "{} stays", self.0.display());
    }
}

fn options(path: &Path) -> KeyringOptions {
    KeyringOptions { server_key: Some([7; 32]), cache_bytes: 1 << 20, ..KeyringOptions::new(path) }
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(path).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn damaged_files_of_the_keyring_open_no_other_key() {
    let directory = Directory(std::env::temp_dir().join(format!("fantail-fuzz-{}", std::process::id())));
    let good = directory.0.join("good");
    std::fs::create_dir_all(&good).expect("a directory");
    let keyring = LocalKeyring::open(options(&good)).expect("a keyring");
    keyring.create_tenant(TENANT).expect("a tenant");
    let sealed = keyring.seal(TENANT, KeyNo::TENANT, Context::Content, SECRET).expect("sealed");
    drop(keyring);
    let written: Vec<(PathBuf, Vec<u8>)> =
        files(&good).into_iter().map(|path| (path.clone(), std::fs::read(&path).expect("a file"))).collect();
    let corpus = Corpus::new(written.iter().map(|(_, bytes)| bytes.clone()).collect(), &["\0", "\u{ff}"]);
    for seed in seeds(ROUNDS_PER_OPENING) {
        let damaged = directory.0.join(format!("seed-{seed}"));
        std::fs::create_dir_all(&damaged).expect("a directory");
        let mut dice = Dice::new(seed);
        let (chosen, input) = (dice.below(written.len()), corpus.mutated(&mut dice));
        let _printed = Reading { reader: "file of the keyring", seed, input: &input };
        for (place, (path, bytes)) in written.iter().enumerate() {
            let bytes = if place == chosen { &input } else { bytes };
            std::fs::write(damaged.join(path.file_name().expect("a name")), bytes).expect("written");
        }
        if let Ok(keyring) = LocalKeyring::open(options(&damaged))
            && let Ok(opened) = keyring.open(TENANT, Context::Content, &sealed)
        {
            assert_eq!(opened, SECRET, "another key opens nothing");
        }
        std::fs::remove_dir_all(&damaged).expect("removed");
    }
}
