//! What every list of erasures does: entries stay, in their order and at their places.

use fantail_ports::erasure_list::{ENTRY_BYTES_MAX, ErasureList, ErasureListError};

/// One list under test.
pub trait Rig {
    fn list(&self) -> &dyn ErasureList;

    /// Dies and opens what is stored.
    fn crash(&mut self);
}

type Case = (&'static str, fn(&mut dyn Rig));

pub const CASES: &[Case] = &[
    ("a new list is empty", a_new_list_is_empty),
    ("entries are read in their order, also after a crash", entries_stay_in_order),
    ("an entry may be there twice, and be empty or as long as there is room", entries_of_every_length),
    ("an entry that is too long is refused and changes nothing", too_long_is_refused),
];

pub fn erasure_list_suite<R: Rig>(mut fresh: impl FnMut() -> R) {
    for (name, case) in CASES {
        let mut rig = fresh();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut rig)));
        if let Err(cause) = outcome {
            let cause = cause.downcast_ref::<String>().map_or("see above", String::as_str);
            panic!("case of the list of erasures failed: {name}: {cause}");
        }
    }
}

fn append(rig: &dyn Rig, entry: &[u8]) {
    rig.list().append(entry).expect("a healthy list takes entries");
}

fn read(rig: &dyn Rig, from: u64, limit: usize) -> Vec<Vec<u8>> {
    rig.list().read(from, limit).expect("a healthy list is read")
}

fn a_new_list_is_empty(rig: &mut dyn Rig) {
    assert_eq!((rig.list().count(), read(rig, 0, 10)), (0, Vec::new()));
    rig.crash();
    assert_eq!((rig.list().count(), read(rig, 0, 10)), (0, Vec::new()));
}

fn entries_stay_in_order(rig: &mut dyn Rig) {
    let entries: Vec<Vec<u8>> = (0..9).map(|no| vec![no; 70]).collect();
    for (no, entry) in entries.iter().enumerate() {
        append(rig, entry);
        assert_eq!(rig.list().count(), no as u64 + 1);
        if no % 4 == 0 {
            rig.crash();
        }
    }
    rig.crash();
    assert_eq!(read(rig, 0, 100), entries);
    assert_eq!(read(rig, 3, 2), entries[3..5]);
    assert_eq!(read(rig, 8, 2), entries[8..]);
    assert_eq!(read(rig, 9, 2), Vec::<Vec<u8>>::new());
    assert_eq!(read(rig, u64::MAX / 256, 2), Vec::<Vec<u8>>::new());
}

fn entries_of_every_length(rig: &mut dyn Rig) {
    let entries = [vec![7; ENTRY_BYTES_MAX], Vec::new(), vec![0, 1], vec![0, 1]];
    entries.iter().for_each(|entry| append(rig, entry));
    rig.crash();
    assert_eq!(read(rig, 0, 100), entries);
}

fn too_long_is_refused(rig: &mut dyn Rig) {
    append(rig, &[1]);
    let bytes = ENTRY_BYTES_MAX + 1;
    assert_eq!(rig.list().append(&vec![2; bytes]), Err(ErasureListError::TooLong { bytes }));
    append(rig, &[3]);
    rig.crash();
    assert_eq!(read(rig, 0, 100), [vec![1], vec![3]]);
}
