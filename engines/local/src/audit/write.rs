//! Appending: chain, write, sync, and only then show.
//!
//! Comes from: the node, which derives drafts from journal records. Decides: nothing; `fantail_audit::chain` says whether
//! they follow. Goes to: the log, with the marks in the same block, then to the state that readers see.
//!
//! What must never happen: a state that is ahead of the disk, or entries whose mark is in another block.

use super::layout::{Logged, encode_mark};
use super::{Shared, State, held};
use fantail_audit::chain::{Linked, Staged};
use fantail_audit::entry::Peek;
use fantail_ports::audit::{AppendError, Batch, Digest};

/// Pages that go into the index with one sync: each is one record at most, and an append takes sixteen megabytes.
const PAGES_PER_APPEND_MAX: usize = 32;

impl Shared {
    pub(super) fn append(&self, batches: Vec<Batch>) -> Result<(), AppendError> {
        let _one_at_a_time = held(&self.writing);
        let mut staged = held(&self.state).chains.stage(batches)?;
        if staged.derived.is_empty() {
            return Ok(());
        }
        let sizes: Vec<usize> = staged.entries.iter().map(|linked| linked.bytes.len()).collect();
        let entries = staged.entries.iter_mut().map(|linked| std::mem::take(&mut linked.bytes));
        let marks = staged.derived.iter().map(|(partition, through)| encode_mark(*partition, *through));
        self.log.append(entries.chain(marks).collect())?;
        held(&self.state).fold(&staged, &sizes);
        self.save_pages();
        Ok(())
    }

    /// Brings closed pages into the index. An index that lags behind costs time at the next opening and nothing
    /// else, so a failure here fails no append: pages wait for room, or are made again from the log.
    pub(super) fn save_pages(&self) {
        let pages = held(&self.state).pages.take_unsaved();
        if pages.is_empty() || self.index.has_failed() {
            return;
        }
        for (chunk, some) in pages.chunks(PAGES_PER_APPEND_MAX).enumerate() {
            if self.index.append(some.to_vec()).is_err() {
                let unsaved = pages[chunk * PAGES_PER_APPEND_MAX..].to_vec();
                return held(&self.state).pages.put_back(unsaved);
            }
        }
    }
}

impl State {
    /// Takes over what became durable, in the order of the log: entries, then marks.
    fn fold(&mut self, staged: &Staged, sizes: &[usize]) {
        for (Linked { entry, hash, .. }, bytes) in staged.entries.iter().zip(sizes) {
            let peek = Peek { chain: entry.chain, sequence: entry.sequence, at: entry.at };
            self.pages.add(&Logged::Entry(peek), *bytes, *hash);
            self.pages.close_if_full(self.chains.derived());
        }
        self.chains.fold(staged);
        for (partition, through) in &staged.derived {
            let mark = Logged::Mark { partition: *partition, through: *through };
            self.pages.add(&mark, 0, Digest::default());
            self.pages.close_if_full(self.chains.derived());
        }
    }
}
