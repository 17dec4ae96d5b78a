//! A full copy of a sync point as one stream, written to blobs and read back before it counts.
//!
//! ```text
//! stream   magic:8 format:4 chunk* 0:4 rows:8 sha256:32     the hash covers everything before it
//! chunk    length:4 crc32:4 row*                             numbers big-endian
//! row      kind key-length value-length key value            lengths packed
//! kind     0 a row of the database   1 a piece of a run of the inbox index   2 a manifest of it
//! ```
//! Rows lie in the order of kind and key, so that they can be ingested; the pieces of a file follow each other. The
//! marks are in the sync point's row. The runs are those right after the sync point: they may be ahead of it, as
//! after a crash, never behind. What must never happen: a store filled with part of a snapshot, or with one that does not add up.

use super::keys;
use super::pack::{Cut, put_number};
use super::rows::{Rows, taken};
use super::sync_point::{self, FORMAT, Marks, State};
use crate::inbox::InboxIndex;
use crate::inbox::copy::Piece;
use aws_lc_rs::digest::{Context, SHA256};
use fantail_ports::blobs::{BlobError, Blobs};
use fantail_ports::store::StoreError;
use fjall::Readable;
use std::io::{self, Read};

const MAGIC: &[u8; 8] = b"FANTSNAP";
/// A chunk is closed when it has grown to this.
const CHUNK_BYTES: usize = 256 << 10;
/// No row is nearly as large; a length above it is damage and must not be allocated.
const CHUNK_BYTES_MAX: u32 = 64 << 20;

/// Writes the newest sync point under `name`, reads it back whole, and returns its marks.
pub fn write(rows: &Rows, index: &InboxIndex, blobs: &dyn Blobs, name: &str) -> Result<Marks, StoreError> {
    let snapshot = rows.snapshot();
    let main = snapshot.iter(&rows.main).map(|row| {
        let (key, value) = taken(row).map_err(io::Error::other)?;
        Ok(SnapshotRow { kind: MAIN, key: key.to_vec(), value: value.to_vec() })
    });
    let copy = index.copy();
    let pieces = copy.pieces().map(|piece| piece.map(|Piece { file, bytes }| row(PIECE, file, bytes)));
    let manifests = copy.manifests().map(|Piece { file, bytes }| Ok(row(MANIFEST, file, bytes)));
    let mut stream = Stream::new(main.chain(pieces).chain(manifests));
    blobs.put(name, &mut stream)?;
    verify(blobs, name)
}

fn row(kind: u8, file: String, value: Vec<u8>) -> SnapshotRow {
    SnapshotRow { kind, key: file.into_bytes(), value }
}

/// Fills an empty store. The snapshot is read twice: once to be sure of it, once to take it in.
pub fn restore(rows: &Rows, index: &InboxIndex, blobs: &dyn Blobs, name: &str) -> Result<(), StoreError> {
    let marks = verify(blobs, name)?;
    if rows.main.first_key_value().is_some() {
        return Err(StoreError::NotEmpty);
    }
    // An index without rows is what lost its rows: it is derived, and the snapshot has one that fits.
    index.clear()?;
    write_state(rows, State::Restoring, &Marks::new())?;
    let mut failed = None;
    let mut source =
        Source::open(blobs, name)?.map_while(|row| row.map_err(|error| failed = Some(error)).ok()).peekable();
    let main = std::iter::from_fn(|| source.next_if(|row| row.kind == MAIN));
    let main = main.filter(|row| row.key != keys::SYNC_POINT);
    rows.write_durable(usize::MAX, main.map(|row| (row.key.into(), Some(row.value.into()))))?;
    let pieces =
        source.map(|row| Piece { file: String::from_utf8_lossy(&row.key).into_owned(), bytes: row.value });
    index.fill(pieces)?;
    match failed {
        None => write_state(rows, State::Whole, &marks),
        Some(error) => Err(error),
    }
}

fn write_state(rows: &Rows, state: State, marks: &Marks) -> Result<(), StoreError> {
    let row = (keys::SYNC_POINT.into(), Some(sync_point::encode(state, marks).into()));
    rows.write_durable(1, std::iter::once(row))
}

/// Reads a snapshot whole; it is good if this returns its marks.
fn verify(blobs: &dyn Blobs, name: &str) -> Result<Marks, StoreError> {
    let mut marks = Marks::new();
    for row in Source::open(blobs, name)? {
        let row = row?;
        if row.kind == MAIN && row.key == keys::SYNC_POINT {
            let decoded = sync_point::decode(&row.value)?;
            let (_, found) = decoded.ok_or_else(|| damaged(name, "its sync point does not decode"))?;
            marks = found;
        }
    }
    Ok(marks)
}

const MAIN: u8 = 0;
const PIECE: u8 = 1;
const MANIFEST: u8 = 2;

/// The stream as it is read by the blobs that store it.
struct Stream<I> {
    rows: I,
    hash: Context,
    count: u64,
    ready: Vec<u8>,
    given: usize,
    is_ended: bool,
}

impl<I: Iterator<Item = io::Result<SnapshotRow>>> Stream<I> {
    fn new(rows: I) -> Self {
        let ready = [&MAGIC[..], &FORMAT.to_be_bytes()].concat();
        let mut hash = Context::new(&SHA256);
        hash.update(&ready);
        Self { rows, hash, count: 0, ready, given: 0, is_ended: false }
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        let mut payload = Vec::with_capacity(CHUNK_BYTES + (8 << 10));
        while payload.len() < CHUNK_BYTES {
            let Some(row) = self.rows.next() else { break };
            let SnapshotRow { kind, key, value } = row?;
            payload.push(kind);
            put_number(&mut payload, key.len() as u64);
            put_number(&mut payload, value.len() as u64);
            payload.extend_from_slice(&key);
            payload.extend_from_slice(&value);
            self.count += 1;
        }
        (self.ready, self.given) = (Vec::new(), 0);
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
        self.ready.extend_from_slice(&length.to_be_bytes());
        if length > 0 {
            self.ready.extend_from_slice(&crc32fast::hash(&payload).to_be_bytes());
            self.ready.extend_from_slice(&payload);
            self.hash.update(&self.ready);
        } else {
            self.ready.extend_from_slice(&self.count.to_be_bytes());
            self.hash.update(&self.ready);
            self.ready.extend_from_slice(self.hash.clone().finish().as_ref());
            self.is_ended = true;
        }
        Ok(())
    }
}

impl<I: Iterator<Item = io::Result<SnapshotRow>>> Read for Stream<I> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ready.len() && !self.is_ended {
            self.next_chunk()?;
        }
        let left = &self.ready[self.given..];
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.given += count;
        Ok(count)
    }
}

struct SnapshotRow {
    kind: u8,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The rows of a stored snapshot; the last item is an error if the stream does not end as it must.
struct Source {
    name: String,
    from: Box<dyn Read + Send>,
    hash: Context,
    count: u64,
    /// Rows of the current chunk, last one first.
    rows: Vec<SnapshotRow>,
    is_ended: bool,
}

impl Source {
    fn open(blobs: &dyn Blobs, name: &str) -> Result<Self, StoreError> {
        let from = blobs.get(name)?;
        let hash = Context::new(&SHA256);
        let mut source =
            Self { name: name.to_owned(), from, hash, count: 0, rows: Vec::new(), is_ended: false };
        if source.bytes::<8>()? != *MAGIC {
            return Err(damaged(name, "is not a snapshot"));
        }
        let found = u32::from_be_bytes(source.bytes()?);
        if found > FORMAT {
            return Err(StoreError::NewerFormat { what: name.to_owned(), found, known: FORMAT });
        }
        Ok(source)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        self.hash.update(&bytes);
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), StoreError> {
        self.from.read_exact(bytes).map_err(|cause| match cause.kind() {
            io::ErrorKind::UnexpectedEof => damaged(&self.name, "ends early"),
            _ => BlobError::Io { name: self.name.clone(), reason: cause.to_string() }.into(),
        })
    }

    fn next_chunk(&mut self) -> Result<(), StoreError> {
        let length = u32::from_be_bytes(self.bytes()?);
        if length == 0 {
            return self.end();
        }
        if length > CHUNK_BYTES_MAX {
            return Err(damaged(&self.name, "has a chunk that is too large"));
        }
        let crc = u32::from_be_bytes(self.bytes()?);
        let mut payload = vec![0; length as usize];
        self.fill(&mut payload)?;
        self.hash.update(&payload);
        if crc32fast::hash(&payload) != crc {
            return Err(damaged(&self.name, "has a chunk that does not match its checksum"));
        }
        self.rows =
            rows_of(&payload).ok_or_else(|| damaged(&self.name, "has a chunk that does not decode"))?;
        self.count += self.rows.len() as u64;
        Ok(())
    }

    fn end(&mut self) -> Result<(), StoreError> {
        let count = u64::from_be_bytes(self.bytes()?);
        let expected = self.hash.clone().finish();
        let mut hash = [0; 32];
        self.fill(&mut hash)?;
        self.is_ended = true;
        if hash != *expected.as_ref() || count != self.count {
            return Err(damaged(&self.name, "does not match its hash"));
        }
        Ok(())
    }
}

fn rows_of(payload: &[u8]) -> Option<Vec<SnapshotRow>> {
    let (mut cut, mut rows) = (Cut(payload), Vec::new());
    while !cut.is_empty() {
        let [kind] = cut.array()?;
        let (key, value) = (usize::try_from(cut.number()?).ok()?, usize::try_from(cut.number()?).ok()?);
        rows.push(SnapshotRow { kind, key: cut.bytes(key)?.to_vec(), value: cut.bytes(value)?.to_vec() });
    }
    rows.reverse();
    Some(rows)
}

impl Iterator for Source {
    type Item = Result<SnapshotRow, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.rows.is_empty() && !self.is_ended {
            if let Err(error) = self.next_chunk() {
                self.is_ended = true;
                return Some(Err(error));
            }
        }
        self.rows.pop().map(Ok)
    }
}

fn damaged(name: &str, reason: &str) -> StoreError {
    StoreError::Damaged { what: format!("snapshot {name}"), reason: reason.to_owned() }
}
