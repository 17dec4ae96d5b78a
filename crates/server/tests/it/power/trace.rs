//! The trace of `record.c`, read: every change of files below a directory, in the order in which they took effect.

use std::path::{Path, PathBuf};
use std::process::Command;

const HEAD_BYTES: usize = 25;

/// One change, or the begin or end of a sync. Paths are relative to the recorded directory; `""` is itself.
#[derive(Debug)]
pub enum Change<'a> {
    Create {
        inode: u64,
        path: &'a str,
    },
    MakeDirectory {
        path: &'a str,
    },
    Rename {
        from: &'a str,
        to: &'a str,
    },
    Remove {
        path: &'a str,
    },
    Write {
        inode: u64,
        offset: u64,
        bytes: &'a [u8],
    },
    SetLength {
        inode: u64,
        length: u64,
    },
    /// The file is at least so long.
    Grow {
        inode: u64,
        length: u64,
    },
    SyncFile {
        sync: u64,
        inode: u64,
    },
    SyncDirectory {
        sync: u64,
        path: &'a str,
    },
    /// What was there when this sync began is durable.
    Synced {
        sync: u64,
    },
}

/// All changes, each with the position in the trace behind it.
pub fn changes(trace: &[u8]) -> impl Iterator<Item = (u64, Change<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let head = trace.get(at..at + HEAD_BYTES)?;
        let number = |no: usize| {
            let bytes = &head[1 + 8 * no..9 + 8 * no];
            u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
        };
        let (inode, second) = (number(0), number(1));
        let length = usize::try_from(number(2)).expect("a length of this machine");
        let content = trace.get(at + HEAD_BYTES..at + HEAD_BYTES + length)?;
        at += HEAD_BYTES + length;
        let path = || std::str::from_utf8(content).expect("our files have plain names");
        let change = match head[0] {
            b'C' => Change::Create { inode, path: path() },
            b'M' => Change::MakeDirectory { path: path() },
            b'R' => {
                let (from, to) = path().split_once('\0').expect("two names");
                Change::Rename { from, to }
            }
            b'U' => Change::Remove { path: path() },
            b'W' => Change::Write { inode, offset: second, bytes: content },
            b'T' => Change::SetLength { inode, length: second },
            b'G' => Change::Grow { inode, length: second },
            b'S' => Change::SyncFile { sync: inode, inode: second },
            b'D' => Change::SyncDirectory { sync: inode, path: path() },
            b'E' => Change::Synced { sync: inode },
            other => panic!("no kind of record: {other}"),
        };
        Some((at as u64, change))
    })
}

/// `record.c`, compiled.
pub struct Library(PathBuf);

impl Library {
    pub fn build(directory: &Path) -> Self {
        let library = directory.join("record.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/power/record.c");
        let built =
            Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
        assert!(built.expect("the compiler that links Rust is there").success());
        Self(library)
    }
}

/// Records what servers do to the files below a directory.
pub struct Recorder<'a> {
    library: &'a Library,
    below: PathBuf,
    pub trace: PathBuf,
}

impl<'a> Recorder<'a> {
    /// `below` must exist; `beside` is where the trace is kept.
    pub fn new(library: &'a Library, below: &Path, beside: &Path) -> Self {
        let below = below.canonicalize().expect("a directory");
        Self { library, below, trace: beside.join("trace") }
    }

    /// What a server is to be started with.
    pub fn environment(&self) -> [(&str, &str); 3] {
        let [library, below, trace] =
            [&self.library.0, &self.below, &self.trace].map(|path| path.to_str().expect("a path"));
        [("LD_PRELOAD", library), ("RECORD_BELOW", below), ("RECORD_TRACE", trace)]
    }

    /// How far the trace is at this moment.
    pub fn position(&self) -> u64 {
        std::fs::metadata(&self.trace).map_or(0, |found| found.len())
    }
}
