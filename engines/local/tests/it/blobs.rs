//! Blobs in a directory pass the suite and stay in it.

use crate::scratch::Scratch;
use fantail_conformance::blobs::{Rig, blobs_suite};
use fantail_local::blobs::LocalBlobs;
use fantail_ports::blobs::Blobs;

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
