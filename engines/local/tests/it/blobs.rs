//! Blobs in a directory pass the suite and stay in it.

use crate::scratch::Scratch;
use fantail_conformance::blobs::{Rig, blobs_suite};
use fantail_local::blobs::LocalBlobs;
use fantail_local::disk::{FaultDisk, Survival};
use fantail_ports::blobs::Blobs;
use std::io::Read;
use std::sync::Arc;

struct LocalRig {
    blobs: LocalBlobs,
    directory: Scratch,
}

impl Rig for LocalRig {
    fn blobs(&self) -> &dyn Blobs {
        &self.blobs
    }

    fn crash(&mut self) {
        self.blobs = LocalBlobs::open(self.directory.path()).unwrap();
    }
}

// proves: NFR-03
#[test]
fn local_blobs_pass_the_suite() {
    blobs_suite(|| {
        let directory = Scratch::new();
        LocalRig { blobs: LocalBlobs::open(directory.path()).unwrap(), directory }
    });
}

/// On a disk that loses power between any two steps: a name shows all of a content, an older one, or nothing.
// proves: NFR-03
#[test]
fn no_power_cut_leaves_part_of_a_blob() {
    for seed in 0..200u64 {
        let disk = FaultDisk::new(seed);
        disk.cut_after(seed % 23);
        let put = |blobs: &LocalBlobs, byte: u8| blobs.put("a/b", &mut &vec![byte; 3_000][..]).is_ok();
        let mut answered = None;
        if let Ok(blobs) = LocalBlobs::open_on(Arc::new(disk.clone()), "/blobs") {
            answered = (1..5u8).take_while(|byte| put(&blobs, *byte)).last();
        }
        disk.power_cut(Survival::Chance);
        let blobs = LocalBlobs::open_on(Arc::new(disk.clone()), "/blobs").unwrap();
        let mut content = Vec::new();
        match blobs.get("a/b") {
            Ok(mut reader) => {
                reader.read_to_end(&mut content).unwrap();
                assert!(
                    content.len() == 3_000 && content.iter().all(|byte| *byte == content[0]),
                    "seed {seed}"
                );
                assert!(Some(content[0]) >= answered, "seed {seed}: an answered put is gone");
            }
            Err(_) => assert_eq!(answered, None, "seed {seed}"),
        }
        assert!(disk.paths().iter().all(|path| !path.display().to_string().contains('~')), "seed {seed}");
    }
}

#[test]
fn what_a_crashed_put_left_is_removed_and_never_listed() {
    let directory = Scratch::new();
    let blobs = LocalBlobs::open(directory.path()).unwrap();
    blobs.put("a/b", &mut &b"whole"[..]).unwrap();
    std::fs::write(directory.path().join("a+c~7"), b"part").unwrap();
    assert_eq!(blobs.list("").unwrap(), ["a/b"]);
    LocalBlobs::open(directory.path()).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["a+b"]);
}
