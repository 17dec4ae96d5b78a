//! The writer: takes what waits as one group, writes it as one block, syncs, and only then answers.
//!
//! There is no timer. While one sync runs, the next group collects in the queue; so a lone append is as fast as the
//! disk, and a flood shares its syncs.
//!
//! What must never happen: an answer before the sync; a second try after a failed one. After a failed write or sync
//! nobody knows what the disk holds, so the journal refuses everything and the process has to stop and recover.

use super::block::{BlockBuilder, push_fence};
use super::catalog::{Catalog, SegmentEntry};
use super::damage::Place;
use super::footer::footer_bytes;
use super::format::{BLOCK_HEADER_BYTES, Kind, RECORD_HEADER_BYTES, RecordHeader, SECTOR, padded};
use super::index::Spans;
use super::mark::Mark;
use super::queue::{End, Pending, PendingAppend};
use super::recover::Recovered;
use super::room::Room;
use super::segment::{Active, Begin, NEW_SUFFIX, segment_name};
use super::standing::Standings;
use super::stats::Commit;
use super::walk::Expected;
use super::{Shared, held};
use crate::disk::is_out_of_descriptors;
use fantail_ports::journal::{AppendError, JournalError};
use fantail_rules::ids::{Epoch, Position};
use std::io;
use std::sync::Arc;
use std::time::Instant;

pub struct Writer {
    shared: Arc<Shared>,
    /// `None` before the first write and behind a seal; the next write begins a segment.
    active: Option<Active>,
    next_segment: u64,
    expected: Expected,
    /// How partitions stand with everything that was put into a block.
    standings: Standings,
    block: BlockBuilder,
    room: Room,
}

impl Writer {
    #[must_use]
    pub fn new(shared: Arc<Shared>, recovered: Recovered) -> Self {
        let room = Room::new(shared.options.room);
        Self {
            shared,
            active: recovered.active,
            next_segment: recovered.next_segment,
            expected: recovered.expected,
            standings: recovered.standings,
            block: BlockBuilder::default(),
            room,
        }
    }

    /// The life of the writer's thread.
    pub fn run(mut self) -> Result<(), JournalError> {
        loop {
            match self.shared.queue.wait() {
                Ok(group) => self.commit(group),
                Err(End::Seal) => return self.seal(),
                Err(End::Stop) => return Ok(()),
            }
        }
    }

    /// Makes a group durable and answers it.
    pub fn commit(&mut self, group: Vec<Pending>) {
        let block_bytes = padded(BLOCK_HEADER_BYTES + group.iter().map(Pending::bytes).sum::<usize>());
        let group = match self.room.claim(&*self.shared.disk, &self.shared.dir, block_bytes as u64) {
            Ok(()) => group,
            Err(AppendError::Failed { reason }) => return self.poison(group, &reason),
            Err(refusal) => self.refuse(group, &refusal),
        };
        if group.is_empty() {
            return;
        }
        match self.make_ready(block_bytes as u64) {
            Ok(()) => self.write(group),
            Err(Unready::Full) => self.refuse_all(group),
            Err(Unready::Failed(error)) => self.poison(group, &error.to_string()),
        }
    }

    fn write(&mut self, group: Vec<Pending>) {
        let spans = self.encode(&group);
        let active = self.active.as_mut().expect("make_ready leaves an active segment");
        let offset = active.offset;
        let started = Instant::now();
        match active.write(&mut self.block) {
            Ok(bytes) => {
                let took = started.elapsed();
                self.count(&group, bytes, took);
                self.publish(group, &spans, offset);
            }
            Err(error) => self.poison(group, &error.to_string()),
        }
    }

    /// Puts the records of a group into the block.
    fn encode(&mut self, group: &[Pending]) -> Spans {
        let mut spans = Spans::default();
        self.block.start();
        for pending in group {
            match pending {
                Pending::Append(PendingAppend { append, .. }) => {
                    let partition = append.partition.code();
                    let standing = self.standings.0.entry(partition).or_default();
                    assert_eq!(standing.next, append.first.0, "the queue keeps positions dense");
                    assert_eq!(standing.epoch, append.epoch.0, "the queue keeps old epochs out");
                    let (epoch, first) = (append.epoch.0, append.first.0);
                    for (position, bytes) in (first..).zip(&append.records) {
                        self.block
                            .push(&RecordHeader { kind: Kind::Data, partition, epoch, position }, bytes);
                    }
                    standing.next += append.records.len() as u64;
                    spans.add(partition, first, standing.next - 1);
                }
                Pending::Fence(fence) => {
                    let standing = self.standings.0.entry(fence.partition.code()).or_default();
                    standing.epoch = fence.epoch;
                    push_fence(&mut self.block, fence.partition.code(), fence.epoch, standing.next - 1);
                }
            }
        }
        spans
    }

    /// Shows readers what is durable now, then answers.
    fn publish(&mut self, group: Vec<Pending>, spans: &Spans, offset: u64) {
        let active = self.active.as_ref().expect("a block was just written to it");
        let mut answers = Vec::with_capacity(group.len());
        let mut guard = held(&self.shared.catalog);
        let Catalog { segments, standings, cache, holds: _ } = &mut *guard;
        let entry = segments.back_mut().expect("the active segment is in the catalog");
        entry.end = active.offset;
        for span in &spans.0 {
            entry.index.add(*span, offset);
        }
        for pending in group {
            match pending {
                Pending::Append(PendingAppend { append, answer, .. }) => {
                    let partition = append.partition.code();
                    let last = append.first.0 + append.records.len() as u64 - 1;
                    standings.0.entry(partition).or_default().next = last + 1;
                    cache.push(partition, append.first.0, append.records);
                    answers.push(Answered::Append(answer, Position(last)));
                }
                Pending::Fence(fence) => {
                    standings.0.entry(fence.partition.code()).or_default().epoch = fence.epoch;
                    answers.push(Answered::Fence(fence.answer, Epoch(fence.epoch)));
                }
            }
        }
        drop(guard);
        answers.into_iter().for_each(Answered::send);
    }

    fn count(&self, group: &[Pending], bytes: u64, took: std::time::Duration) {
        let appends = group.iter().filter_map(|pending| match pending {
            Pending::Append(append) => Some(append.append.records.len() as u64),
            Pending::Fence(_) => None,
        });
        let (mut commit, mut records) = (Commit { appends: 0, records: 0, bytes, took }, 0);
        for count in appends {
            commit.appends += 1;
            records += count;
        }
        commit.records = records;
        self.shared.counters.committed(&commit);
    }

    /// Sees to it that the active segment can take a block of this length, and still its footer.
    fn make_ready(&mut self, block_bytes: u64) -> Result<(), Unready> {
        if let Some(active) = &self.active {
            let catalog = held(&self.shared.catalog);
            let entry = catalog.segments.back().expect("the active segment is in the catalog");
            let footer = footer_bytes(self.standings.0.len(), &entry.index) + RECORD_HEADER_BYTES;
            let reserve = padded(BLOCK_HEADER_BYTES + footer) + SECTOR;
            let full = active.offset + block_bytes + reserve as u64 > self.shared.options.segment_bytes;
            if !full || entry.index.partitions.is_empty() {
                return Ok(());
            }
        }
        self.seal_active().map_err(Unready::Failed)?;
        self.begin()
    }

    fn begin(&mut self) -> Result<(), Unready> {
        let shared = &self.shared;
        let standings = held(&shared.catalog).standings.clone();
        let begin = Begin {
            disk: &*shared.disk,
            dir: &shared.dir,
            segment: self.next_segment,
            first_block: self.expected.number,
            chain: self.expected.previous,
            segment_bytes: shared.options.segment_bytes,
            standings: &standings,
        };
        match begin.create(&mut self.block) {
            Ok(active) => {
                self.mark(&active)?;
                held(&shared.catalog).segments.push_back(SegmentEntry::begun(&active));
                shared.counters.segment_begun();
                self.next_segment += 1;
                self.active = Some(active);
                Ok(())
            }
            // Nothing was promised in the new file yet, so it can be given up and begun again later.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                let name = format!("{}{NEW_SUFFIX}", segment_name(self.next_segment));
                let removed = shared.disk.remove(&shared.dir.join(name));
                let removed = removed.and_then(|()| shared.disk.sync_dir(&shared.dir));
                removed.map_or_else(|error| Err(Unready::Failed(error)), |()| Err(Unready::Full))
            }
            // The same, and it is made again from its first byte, whatever name it has by now.
            Err(error) if is_out_of_descriptors(&error) => Err(Unready::Full),
            Err(error) => Err(Unready::Failed(error)),
        }
    }

    /// Says durably that a segment was begun, before anything in it is promised.
    fn mark(&self, active: &Active) -> Result<(), Unready> {
        let bytes = active.file.len().map_err(Unready::Failed)?;
        let marked = self.shared.set_mark(|mark| {
            let first = if mark.first == 0 { active.segment } else { mark.first };
            *mark = Mark { first, segment: active.segment, bytes, next_block: active.next_block };
        });
        match marked {
            // The mark before says less and is as true.
            Err(error) if is_out_of_descriptors(&error) => Ok(()),
            other => other.map_err(Unready::Failed),
        }
    }

    fn seal_active(&mut self) -> io::Result<()> {
        let Some(mut active) = self.active.take() else { return Ok(()) };
        let (standings, index) = {
            let catalog = held(&self.shared.catalog);
            let entry = catalog.segments.back().expect("the active segment is in the catalog");
            (catalog.standings.clone(), entry.index.clone())
        };
        active.seal(&standings, &index, &mut self.block)?;
        self.expected = Expected { number: active.next_block, previous: active.chain };
        let mut catalog = held(&self.shared.catalog);
        catalog.segments.back_mut().expect("the active segment is in the catalog").sealed = true;
        Ok(())
    }

    /// The end of a clean stop.
    pub fn seal(&mut self) -> Result<(), JournalError> {
        let sealed = match self.shared.queue.failure() {
            Some(reason) => Err(io::Error::other(reason)),
            None => self.seal_active().and_then(|()| self.mark_sealed()),
        };
        sealed.map_err(|error| Place::new(&self.shared.dir).failed(&error))
    }

    /// Says durably which blocks the newest segment has for good.
    fn mark_sealed(&self) -> io::Result<()> {
        // The block before the next one is the footer.
        let next_block = self.expected.number - 1;
        self.shared.set_mark(|mark| {
            if mark.segment + 1 == self.next_segment && mark.next_block <= next_block {
                (mark.bytes, mark.next_block) = (0, next_block);
            }
        })
    }

    /// Seals the active segment unless it is empty. A seal that fails leaves a file that nobody may go on with.
    pub fn roll(&mut self) -> Result<(), JournalError> {
        let holds_records = self.active.is_some()
            && held(&self.shared.catalog)
                .segments
                .back()
                .is_some_and(|last| !last.index.partitions.is_empty());
        if !holds_records {
            return Ok(());
        }
        let sealed = self.seal();
        if let Err(error) = &sealed {
            self.poison(Vec::new(), &error.to_string());
        }
        sealed
    }

    /// Refuses the appends of a group and those behind them. Fences are tiny and may use the reserve: without them
    /// a full disk could not even be read by a new leader.
    fn refuse(&self, group: Vec<Pending>, refusal: &AppendError) -> Vec<Pending> {
        let mut refused = Vec::new();
        let mut fences = Vec::new();
        for pending in group {
            match pending {
                Pending::Append(append) => refused.push(append),
                Pending::Fence(_) => fences.push(pending),
            }
        }
        refused.extend(self.shared.queue.refuse_appends(&self.standings));
        self.shared.counters.refused(refused.len() as u64);
        for append in refused {
            Answered::Refusal(append.answer, refusal.clone()).send();
        }
        fences
    }

    /// No segment could be begun: even fences fail, and may be tried again.
    fn refuse_all(&self, group: Vec<Pending>) {
        let needed_bytes = self.shared.options.segment_bytes;
        let free_bytes = self.shared.disk.space(&self.shared.dir).map_or(0, |space| space.free_bytes);
        let refusal = AppendError::NoRoom { free_bytes, needed_bytes };
        for pending in self.refuse(group, &refusal) {
            answer_failed(pending, &refusal.to_string(), &self.shared);
        }
    }

    /// The journal is done for: everything that waits fails, and everything later.
    fn poison(&self, group: Vec<Pending>, reason: &str) {
        let first = self.shared.queue.failure().is_none();
        let waiting = self.shared.queue.fail(reason);
        if let (true, Some(on_failure)) = (first, &self.shared.options.on_failure) {
            on_failure(reason);
        }
        for pending in group.into_iter().chain(waiting) {
            answer_failed(pending, reason, &self.shared);
        }
    }
}

impl Drop for Writer {
    /// A writer that panics must not leave callers waiting for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.poison(Vec::new(), "the journal's writer panicked");
        }
    }
}

enum Unready {
    Full,
    Failed(io::Error),
}

type Sender<T> = tokio::sync::oneshot::Sender<T>;

/// An answer that is due.
enum Answered {
    Append(Sender<Result<Position, AppendError>>, Position),
    Refusal(Sender<Result<Position, AppendError>>, AppendError),
    Fence(Sender<Result<Epoch, JournalError>>, Epoch),
    NoFence(Sender<Result<Epoch, JournalError>>, JournalError),
}

impl Answered {
    fn send(self) {
        match self {
            Self::Append(sender, position) => unheard_is_fine(sender.send(Ok(position))),
            Self::Refusal(sender, error) => unheard_is_fine(sender.send(Err(error))),
            Self::Fence(sender, epoch) => unheard_is_fine(sender.send(Ok(epoch))),
            Self::NoFence(sender, error) => unheard_is_fine(sender.send(Err(error))),
        }
    }
}

/// The caller may have dropped its future; the record is as durable as with it.
fn unheard_is_fine<T>(sent: Result<(), T>) {
    drop(sent);
}

fn answer_failed(pending: Pending, reason: &str, shared: &Shared) {
    match pending {
        Pending::Append(append) => {
            Answered::Refusal(append.answer, AppendError::Failed { reason: reason.to_owned() }).send();
        }
        Pending::Fence(fence) => {
            let file = Place::new(&shared.dir).file();
            Answered::NoFence(fence.answer, JournalError::Io { file, reason: reason.to_owned() }).send();
        }
    }
}
