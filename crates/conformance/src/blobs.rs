//! What every blob store does: whole contents by name, and no name that leads elsewhere.

use fantail_ports::blobs::{BLOB_NAME_BYTES_MAX, BlobError, Blobs};
use std::io::{self, Read};

/// One blob store under test.
pub trait Rig {
    fn blobs(&self) -> &dyn Blobs;

    /// Dies and opens what is stored.
    fn crash(&mut self);
}

type Case = (&'static str, fn(&mut dyn Rig));

pub const CASES: &[Case] = &[
    ("what was put is read, also after a crash", what_was_put_is_read),
    ("putting again replaces", putting_again_replaces),
    ("a content that fails to be read leaves the old one", failing_content_leaves_the_old_one),
    ("names are listed in order by prefix", names_are_listed),
    ("deleting is final and may be repeated", deleting_is_final),
    ("names that are none are refused", bad_names_are_refused),
    ("a reader keeps its content while it is replaced", reader_keeps_its_content),
];

pub fn blobs_suite<R: Rig>(mut fresh: impl FnMut() -> R) {
    for (name, case) in CASES {
        let mut rig = fresh();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut rig)));
        if let Err(cause) = outcome {
            let cause = cause.downcast_ref::<String>().map_or("see above", String::as_str);
            panic!("blobs case failed: {name}: {cause}");
        }
    }
}

fn put(rig: &dyn Rig, name: &str, content: &[u8]) {
    let size = rig.blobs().put(name, &mut &content[..]).expect("a healthy store takes blobs");
    assert_eq!(size, content.len() as u64);
}

fn get(rig: &dyn Rig, name: &str) -> Result<Vec<u8>, BlobError> {
    let mut content = Vec::new();
    rig.blobs().get(name)?.read_to_end(&mut content).expect("a stored blob reads");
    Ok(content)
}

fn list(rig: &dyn Rig, prefix: &str) -> Vec<String> {
    rig.blobs().list(prefix).expect("a healthy store lists")
}

fn what_was_put_is_read(rig: &mut dyn Rig) {
    let large: Vec<u8> = (0..300_000u32).flat_map(u32::to_be_bytes).collect();
    put(rig, "empty", b"");
    put(rig, "snapshots/2026-08-01/shard-1.snap", &large);
    put(rig, "snapshots", b"may be named like the folder of another");
    for _ in 0..2 {
        assert_eq!(get(rig, "empty").as_deref(), Ok(&b""[..]));
        assert_eq!(get(rig, "snapshots/2026-08-01/shard-1.snap").as_ref(), Ok(&large));
        assert_eq!(get(rig, "snapshots").as_deref(), Ok(&b"may be named like the folder of another"[..]));
        assert_eq!(get(rig, "missing"), Err(BlobError::Missing { name: "missing".into() }));
        rig.crash();
    }
}

fn putting_again_replaces(rig: &mut dyn Rig) {
    put(rig, "a", b"a longer content");
    put(rig, "a", b"short");
    rig.crash();
    assert_eq!(get(rig, "a").as_deref(), Ok(&b"short"[..]));
    assert_eq!(list(rig, ""), ["a"]);
}

/// Gives some bytes, then fails.
struct Failing(usize);

impl Read for Failing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("the source is gone"));
        }
        self.0 -= 1;
        into.fill(7);
        Ok(into.len())
    }
}

fn failing_content_leaves_the_old_one(rig: &mut dyn Rig) {
    put(rig, "a", b"old");
    assert!(matches!(rig.blobs().put("a", &mut Failing(3)), Err(BlobError::Io { .. })));
    assert!(matches!(rig.blobs().put("b", &mut Failing(1)), Err(BlobError::Io { .. })));
    for _ in 0..2 {
        assert_eq!(get(rig, "a").as_deref(), Ok(&b"old"[..]));
        assert_eq!(list(rig, ""), ["a"]);
        rig.crash();
    }
}

fn names_are_listed(rig: &mut dyn Rig) {
    assert_eq!(list(rig, ""), Vec::<String>::new());
    for name in ["b/2", "a", "b/1", "b", "b0", "c_d-e.f"] {
        put(rig, name, name.as_bytes());
    }
    assert_eq!(list(rig, ""), ["a", "b", "b/1", "b/2", "b0", "c_d-e.f"]);
    assert_eq!(list(rig, "b/"), ["b/1", "b/2"]);
    assert_eq!(list(rig, "x"), Vec::<String>::new());
}

fn deleting_is_final(rig: &mut dyn Rig) {
    put(rig, "a", b"1");
    put(rig, "b", b"2");
    for _ in 0..2 {
        assert_eq!(rig.blobs().delete("a"), Ok(()));
        assert_eq!(get(rig, "a"), Err(BlobError::Missing { name: "a".into() }));
        rig.crash();
    }
    assert_eq!(list(rig, ""), ["b"]);
}

fn bad_names_are_refused(rig: &mut dyn Rig) {
    let long = "a".repeat(BLOB_NAME_BYTES_MAX + 1);
    let bad = [
        "", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", "a..b", ".", "./a", "a/.", "A", "a b", "a\0",
        "ä",
    ];
    for name in bad.into_iter().chain([long.as_str()]) {
        let refused = Err(BlobError::BadName { name: name.to_owned() });
        assert_eq!(rig.blobs().put(name, &mut &b"x"[..]).map(|_| ()), refused, "{name}");
        assert_eq!(rig.blobs().get(name).map(|_| ()), refused, "{name}");
        assert_eq!(rig.blobs().delete(name), refused, "{name}");
    }
    assert_eq!(list(rig, ""), Vec::<String>::new());
    put(rig, &"a".repeat(BLOB_NAME_BYTES_MAX), b"the longest name");
}

fn reader_keeps_its_content(rig: &mut dyn Rig) {
    put(rig, "a", b"old");
    let mut reader = rig.blobs().get("a").expect("the blob is there");
    put(rig, "a", b"new");
    rig.blobs().delete("a").expect("a blob is deleted");
    let mut content = Vec::new();
    reader.read_to_end(&mut content).expect("a stored blob reads");
    assert_eq!(content, b"old");
}
