//! The calls of a journal with [`Drive::Manual`](super::Drive::Manual) that return when they are done.
//!
//! Comes from: the strands of the audit log, on threads that may wait for the disk. Invariant: no future is polled here.
//! A future of tokio may be pending although its value is there, once a task has used up its budget of 128 polls; who
//! polls it once and takes "pending" for a bug panics on every large log.

use super::{Answer, Drive};
use super::{LocalJournal, STOPPED, damage::Place, read};
use fantail_ports::journal::{Append, AppendError, JournalError, ReadLimit, Record};
use fantail_rules::ids::{Epoch, PartitionId, Position};

impl LocalJournal {
    /// A new epoch, durable on return.
    pub fn fence_now(&self, partition: PartitionId) -> Result<Epoch, JournalError> {
        let failed = |reason: String| JournalError::Io { file: Place::new(&self.shared.dir).file(), reason };
        let taken = self.shared.queue.fence(partition).map_err(|error| failed(error.to_string()))?;
        self.committed(taken).unwrap_or_else(|| Err(failed(STOPPED.to_owned())))
    }

    /// Appends records, durable on return.
    pub fn append_now(&self, append: Append) -> Result<Position, AppendError> {
        let taken = self.shared.queue.append(append)?;
        let stopped = || Err(AppendError::Failed { reason: STOPPED.to_owned() });
        self.committed(taken).unwrap_or_else(stopped)
    }

    /// Reads records in the caller's thread, with any [`Drive`].
    pub fn read_now(
        &self,
        partition: PartitionId,
        from: Position,
        limit: ReadLimit,
    ) -> Result<Vec<Record>, JournalError> {
        let ask = read::Ask { partition, from, limit };
        read::read_cached(&self.shared, ask).unwrap_or_else(|| read::read(&self.shared, ask))
    }

    /// Commits what waits and takes the answer, which is there then.
    fn committed<T>(&self, mut answer: Answer<T>) -> Option<T> {
        assert_eq!(self.shared.options.drive, Drive::Manual, "the writer's thread answers in its own time");
        while self.commit_next() {}
        answer.try_recv().ok()
    }
}
