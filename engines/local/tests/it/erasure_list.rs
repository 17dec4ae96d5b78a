//! The list of erasures in a file passes the suite, and loses nothing that was acknowledged.

use crate::scratch::Scratch;
use fantail_conformance::erasure_list::{Rig, erasure_list_suite};
use fantail_local::disk::{FaultDisk, Survival};
use fantail_local::erasure_list::LocalErasureList;
use fantail_ports::erasure_list::ErasureList;
use std::path::Path;

struct LocalRig {
    /// `None` only while it is opened again.
    list: Option<LocalErasureList>,
    directory: Scratch,
}

impl LocalRig {
    fn new() -> Self {
        let mut rig = Self { list: None, directory: Scratch::new() };
        rig.crash();
        rig
    }
}

impl Rig for LocalRig {
    fn list(&self) -> &dyn ErasureList {
        self.list.as_ref().unwrap()
    }

    fn crash(&mut self) {
        self.list = None;
        self.list =
            Some(LocalErasureList::open(&self.directory.path().join("elsewhere/erasures.list")).unwrap());
    }
}

#[test]
fn the_list_in_a_file_passes_the_suite() {
    erasure_list_suite(LocalRig::new);
}

/// On a disk that loses power at any step: what was acknowledged is there, and nothing else but the entry that was being
/// written.
#[test]
fn no_power_cut_takes_an_entry_that_was_acknowledged() {
    let path = Path::new("/elsewhere/erasures.list");
    for seed in 0..300u64 {
        let disk = FaultDisk::new(seed);
        let mut acknowledged = 0u8;
        for life in 0..4 {
            disk.cut_after(1 + (seed + 5 * life) % 13);
            if let Ok(list) = LocalErasureList::open_on(&disk, path) {
                while list.append(&[acknowledged; 70]).is_ok() {
                    acknowledged += 1;
                }
            }
            disk.power_cut(Survival::Chance);
            let list = LocalErasureList::open_on(&disk, path).unwrap();
            let found = list.read(0, 1_000).unwrap();
            let expected: Vec<Vec<u8>> = (0..acknowledged).map(|no| vec![no; 70]).collect();
            let more = &found[expected.len().min(found.len())..];
            assert_eq!(found[..expected.len().min(found.len())], expected, "seed {seed}");
            assert!(more.is_empty() || *more == [vec![acknowledged; 70]], "seed {seed}: {more:?}");
            acknowledged += more.len() as u8;
        }
    }
}
