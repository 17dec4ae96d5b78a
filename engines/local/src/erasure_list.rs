//! The list of erasures as one file, which may lie on another disk than the data.
//!
//! ```text
//! head   "FANTERAS" format:4 id:16 chain:16                      big-endian
//! frame  length:1 entry, zeros up to 111 bytes in all, chain:16
//! chain  SHA-256 of the chain before it and of the rest of the frame (the head: of the rest of it), cut to 16 bytes
//! ```
//! Frames have one size, so a place is an offset. The chain shows every frame that was changed, moved, removed or put in between;
//! one at the end that does not fit was being written when the process died, was never acknowledged, and is saved aside and
//! cut off. What must never happen: an append after a sync that failed, since nobody knows what the disk holds then.

use crate::disk::{Disk, DiskFile, DiskLock, How, RealDisk, read_full_at, write_all_at};
use aws_lc_rs::digest::{SHA256, digest};
use fantail_ports::erasure_list::{ENTRY_BYTES_MAX, ErasureList, ErasureListError};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const MAGIC: &[u8; 8] = b"FANTERAS";
const FORMAT: u32 = 1;
const ID_BYTES: usize = 16;
const CHAIN_BYTES: usize = 16;
const HEAD_BYTES: usize = 8 + 4 + ID_BYTES + CHAIN_BYTES;
const FRAME_BYTES: usize = 1 + ENTRY_BYTES_MAX + CHAIN_BYTES;
/// Frames that are read at once.
const PAGE_FRAMES: usize = 1_024;

type Chain = [u8; CHAIN_BYTES];

/// Which list it is: one is never taken for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErasureListId(pub [u8; ID_BYTES]);

impl fmt::Display for ErasureListId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

pub struct LocalErasureList {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    id: ErasureListId,
    /// Bytes of a write that was cut off.
    torn_bytes: u64,
    end: Mutex<End>,
    /// `None` for a list that is only read.
    _lock: Option<DiskLock>,
}

struct End {
    count: u64,
    chain: Chain,
    /// Why nothing is appended any more.
    failed: Option<String>,
}

/// What a file holds.
struct Found {
    id: ErasureListId,
    count: u64,
    chain: Chain,
    torn: Vec<u8>,
}

impl LocalErasureList {
    /// Opens a list to append to it, or begins one. Reads all of it.
    pub fn open(path: &Path) -> Result<Self, ErasureListError> {
        Self::open_on(&RealDisk, path)
    }

    pub fn open_on(disk: &dyn Disk, path: &Path) -> Result<Self, ErasureListError> {
        let failed = |cause: io::Error| failed(path, &cause);
        let directory = directory_of(path);
        disk.create_private_dir(directory).map_err(failed)?;
        let lock = disk.lock(&beside(path, "lock")).map_err(failed)?;
        let lock = lock.ok_or_else(|| ErasureListError::InUse { file: name(path) })?;
        let file = match disk.open(path, How::Write) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => begin(disk, path).map_err(failed)?,
            Err(cause) => return Err(failed(cause)),
        };
        let found = verified(&*file, path)?;
        if !found.torn.is_empty() {
            let aside = disk.open(&beside(path, "torn"), How::CreatePrivate).map_err(failed)?;
            write_all_at(&*aside, 0, &found.torn).and_then(|()| aside.sync_data()).map_err(failed)?;
            file.set_len(offset_of(found.count)).and_then(|()| file.sync_data()).map_err(failed)?;
        }
        // Its name may have been given by a process that was killed before it synced it.
        disk.sync_dir(directory).map_err(failed)?;
        Ok(Self::of(file, path, found, Some(lock)))
    }

    /// Opens a list that is only read, and left as it is.
    pub fn open_to_read(path: &Path) -> Result<Self, ErasureListError> {
        let file = RealDisk.open(path, How::Read).map_err(|cause| failed(path, &cause))?;
        let found = verified(&*file, path)?;
        Ok(Self::of(file, path, found, None))
    }

    fn of(file: Arc<dyn DiskFile>, path: &Path, found: Found, lock: Option<DiskLock>) -> Self {
        let Found { id, count, chain, torn } = found;
        Self {
            file,
            path: path.to_owned(),
            id,
            torn_bytes: torn.len() as u64,
            end: Mutex::new(End { count, chain, failed: None }),
            _lock: lock,
        }
    }

    #[must_use]
    pub fn id(&self) -> ErasureListId {
        self.id
    }

    /// Bytes at the end that were no whole entry when it was opened.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ErasureList for LocalErasureList {
    fn append(&self, entry: &[u8]) -> Result<(), ErasureListError> {
        let io = |reason: String| ErasureListError::Io { file: name(&self.path), reason };
        let mut end = self.end();
        if let Some(reason) = &end.failed {
            return Err(io(format!("an earlier write failed: {reason}")));
        }
        let frame = frame(&end.chain, entry).ok_or(ErasureListError::TooLong { bytes: entry.len() })?;
        // Again at the same place, if it was not written whole.
        let at = offset_of(end.count);
        write_all_at(&*self.file, at, &frame).map_err(|cause| io(cause.to_string()))?;
        if let Err(cause) = self.file.sync_data() {
            end.failed = Some(cause.to_string());
            return Err(io(cause.to_string()));
        }
        end.chain.copy_from_slice(&frame[FRAME_BYTES - CHAIN_BYTES..]);
        end.count += 1;
        Ok(())
    }

    fn count(&self) -> u64 {
        self.end().count
    }

    fn read(&self, from: u64, limit: usize) -> Result<Vec<Vec<u8>>, ErasureListError> {
        let left = usize::try_from(self.count().saturating_sub(from)).unwrap_or(usize::MAX);
        let mut frames = vec![0; left.min(limit) * FRAME_BYTES];
        let read = read_full_at(&*self.file, offset_of(from), &mut frames);
        let read = read.map_err(|cause| failed(&self.path, &cause))?;
        if read < frames.len() {
            return Err(damaged(&self.path, "it was cut while it was used"));
        }
        let entries = frames.chunks_exact(FRAME_BYTES).map(|frame| entry_of(frame).map(<[u8]>::to_vec));
        entries.collect::<Option<_>>().ok_or_else(|| damaged(&self.path, "an entry has no length"))
    }
}

/// A new list, durable but for its name.
fn begin(disk: &dyn Disk, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    let mut id = [0; ID_BYTES];
    aws_lc_rs::rand::fill(&mut id).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    let mut head = [&MAGIC[..], &FORMAT.to_be_bytes(), &id].concat();
    head.extend_from_slice(&chain_of(&[], &head));
    // Under another name until it is whole: a head that was cut off is no list.
    let draft = beside(path, "new");
    let file = disk.open(&draft, How::CreatePrivate)?;
    write_all_at(&*file, 0, &head)?;
    file.sync_data()?;
    disk.rename(&draft, path)?;
    disk.sync_dir(directory_of(path))?;
    disk.open(path, How::Write)
}

/// Reads all of a file.
fn verified(file: &dyn DiskFile, path: &Path) -> Result<Found, ErasureListError> {
    let failed = |cause: io::Error| failed(path, &cause);
    let mut head = [0; HEAD_BYTES];
    let read = read_full_at(file, 0, &mut head).map_err(failed)?;
    let (id, mut chain) = head_of(&head[..read], path)?;
    let mut count = 0;
    let mut page = vec![0; PAGE_FRAMES * FRAME_BYTES];
    loop {
        let read = read_full_at(file, offset_of(count), &mut page).map_err(failed)?;
        for frame in page[..read].chunks(FRAME_BYTES) {
            match next_chain(&chain, frame) {
                Some(next) => (chain, count) = (next, count + 1),
                None => {
                    let is_last = offset_of(count) + frame.len() as u64 == file.len().map_err(failed)?;
                    let at = offset_of(count);
                    return match is_last {
                        true => Ok(Found { id, count, chain, torn: frame.to_vec() }),
                        false => Err(damaged(
                            path,
                            &format!("entry {count} at byte {at} was changed, moved or removed"),
                        )),
                    };
                }
            }
        }
        if read < page.len() {
            return Ok(Found { id, count, chain, torn: Vec::new() });
        }
    }
}

fn head_of(head: &[u8], path: &Path) -> Result<(ErasureListId, Chain), ErasureListError> {
    let part = |from: usize, to: usize| head.get(from..to).ok_or_else(|| damaged(path, "it ends early"));
    if part(0, 8)? != MAGIC {
        return Err(damaged(path, "it is no list of erasures"));
    }
    let format = part(8, 12)?.iter().fold(0, |format, byte| format << 8 | u32::from(*byte));
    if format > FORMAT {
        return Err(ErasureListError::NewerFormat { file: name(path), found: format, known: FORMAT });
    }
    let (id, chain) = (part(12, 28)?, part(28, HEAD_BYTES)?);
    if chain_of(&[], part(0, 28)?) != chain {
        return Err(damaged(path, "its head was changed"));
    }
    let (mut id_bytes, mut chain_bytes) = ([0; ID_BYTES], [0; CHAIN_BYTES]);
    id_bytes.copy_from_slice(id);
    chain_bytes.copy_from_slice(chain);
    Ok((ErasureListId(id_bytes), chain_bytes))
}

fn frame(before: &Chain, entry: &[u8]) -> Option<Vec<u8>> {
    if entry.len() > ENTRY_BYTES_MAX {
        return None;
    }
    let mut frame = Vec::with_capacity(FRAME_BYTES);
    frame.push(u8::try_from(entry.len()).ok()?);
    frame.extend_from_slice(entry);
    frame.resize(1 + ENTRY_BYTES_MAX, 0);
    frame.extend_from_slice(&chain_of(before, &frame));
    Some(frame)
}

fn entry_of(frame: &[u8]) -> Option<&[u8]> {
    let length = usize::from(*frame.first()?);
    frame.get(1..1 + length).filter(|_| length <= ENTRY_BYTES_MAX)
}

/// The chain behind a frame; `None` for one that does not fit.
fn next_chain(before: &Chain, frame: &[u8]) -> Option<Chain> {
    let (content, chain) = frame.split_at_checked(1 + ENTRY_BYTES_MAX)?;
    entry_of(content)?;
    Some(chain_of(before, content)).filter(|expected| expected == chain)
}

fn chain_of(before: &[u8], content: &[u8]) -> Chain {
    let hash = digest(&SHA256, &[before, content].concat());
    *hash.as_ref().first_chunk().expect("a SHA-256 hash has more than sixteen bytes")
}

fn offset_of(place: u64) -> u64 {
    HEAD_BYTES as u64 + place * FRAME_BYTES as u64
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file beside the list: `erasures.list` has `erasures.list.lock`.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn damaged(path: &Path, reason: &str) -> ErasureListError {
    ErasureListError::Damaged { file: name(path), reason: reason.to_owned() }
}

fn failed(path: &Path, cause: &io::Error) -> ErasureListError {
    ErasureListError::Io { file: name(path), reason: cause.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FaultDisk;

    const PATH: &str = "/elsewhere/erasures.list";

    fn open(disk: &FaultDisk) -> Result<LocalErasureList, ErasureListError> {
        LocalErasureList::open_on(disk, Path::new(PATH))
    }

    fn made(entries: u8) -> (FaultDisk, Vec<u8>) {
        let disk = FaultDisk::new(1);
        let list = open(&disk).expect("a new list");
        (0..entries).for_each(|no| list.append(&[no; 70]).expect("room"));
        drop(list);
        let bytes = disk.contents(Path::new(PATH));
        (disk, bytes)
    }

    #[test]
    fn the_head_and_frames_have_the_released_bytes() {
        let (_, bytes) = made(1);
        assert_eq!(bytes.len(), 44 + 128);
        assert_eq!(bytes[..12], *b"FANTERAS\0\0\0\x01");
        assert_eq!(bytes[28..44], chain_of(&[], &bytes[..28]));
        assert_eq!((bytes[44], &bytes[45..115], &bytes[115..156]), (70, &[0; 70][..], &[0; 41][..]));
        assert_eq!(bytes[156..], chain_of(&bytes[28..44], &bytes[44..156]));
    }

    #[test]
    fn every_flip_and_cut_before_the_last_entry_is_named() {
        let (_, bytes) = made(4);
        let last = bytes.len() - FRAME_BYTES;
        let is_named = |changed: Vec<u8>, what: &str| {
            let disk = FaultDisk::new(1);
            drop(open(&disk).expect("a new list"));
            disk.set_contents(Path::new(PATH), changed);
            let error = open(&disk).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(PATH), "{what}: {error}");
        };
        for at in 0..last {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            is_named(changed, &format!("flip at {at}"));
        }
        for cut in 0..HEAD_BYTES {
            is_named(bytes[..cut].to_vec(), &format!("cut at {cut}"));
        }
        // A frame that is taken out, or changes its place.
        let frame = |no: usize| &bytes[HEAD_BYTES + no * FRAME_BYTES..][..FRAME_BYTES];
        is_named([&bytes[..HEAD_BYTES], frame(1), frame(2), frame(3)].concat(), "without the first");
        is_named([&bytes[..HEAD_BYTES], frame(0), frame(2), frame(1), frame(3)].concat(), "moved");
    }

    #[test]
    fn what_was_being_written_is_saved_aside_and_written_again() {
        let (_, bytes) = made(3);
        for cut in 1..=FRAME_BYTES {
            let (disk, _) = made(0);
            // The last frame is there in part, or whole and wrong.
            let mut torn = bytes.clone();
            torn.truncate(bytes.len() - cut % FRAME_BYTES);
            *torn.last_mut().expect("bytes") ^= 1;
            disk.set_contents(Path::new(PATH), torn);
            let list = open(&disk).expect("it goes on");
            assert_eq!(list.count(), 2, "cut by {cut}");
            assert_eq!(list.torn_bytes(), (FRAME_BYTES - cut % FRAME_BYTES) as u64);
            assert!(disk.paths().contains(&beside(Path::new(PATH), "torn")));
            list.append(&[9]).expect("room");
            drop(list);
            let list = open(&disk).expect("it is whole");
            assert_eq!(list.read(1, 9).expect("entries"), [vec![1; 70], vec![9]]);
            assert_eq!((list.count(), list.torn_bytes()), (3, 0));
        }
    }

    #[test]
    fn a_list_has_one_writer_and_stops_after_a_failed_sync() {
        let (disk, _) = made(1);
        let list = open(&disk).expect("a list");
        assert!(matches!(open(&disk), Err(ErasureListError::InUse { .. })));
        disk.fail_syncs(1);
        assert!(list.append(&[1]).is_err());
        let error = list.append(&[1]).expect_err("nobody knows what is there").to_string();
        assert!(error.contains("an earlier write failed"), "{error}");
        assert_eq!(list.count(), 1);
        assert!(list.append(&[0; ENTRY_BYTES_MAX + 1]).is_err());
    }
}
