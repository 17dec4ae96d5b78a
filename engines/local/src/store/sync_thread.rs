//! Sync points are written by one thread of their own: they wait for the disk, which no runtime thread may.

use super::{Shared, sync_point};
use fantail_ports::store::{StoreError, Synced};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Who waits for a sync point. A failure is told as text, because several may wait for one.
type Waiter = oneshot::Sender<Result<Synced, String>>;

pub struct SyncThread {
    waiters: Option<Sender<Waiter>>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    pub fn start(shared: Arc<Shared>) -> Result<Self, StoreError> {
        let (waiters, waiting) = channel();
        let thread = std::thread::Builder::new().name("store-sync".into());
        let thread = thread.spawn(move || run(&shared, &waiting));
        let thread = thread.map_err(|cause| StoreError::Io { reason: cause.to_string() })?;
        Ok(Self { waiters: Some(waiters), thread: Some(thread) })
    }

    /// Asks for a sync point that holds everything committed before this call.
    pub fn ask(&self) -> oneshot::Receiver<Result<Synced, String>> {
        let (waiter, answer) = oneshot::channel();
        if let Some(waiters) = &self.waiters {
            // A thread that is gone drops the waiter, which tells the one who waits.
            let _gone = waiters.send(waiter);
        }
        answer
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        drop(self.waiters.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was told to its waiters; there is nobody left to tell here.
            let _told = thread.join();
        }
    }
}

fn run(shared: &Shared, waiting: &Receiver<Waiter>) {
    while let Ok(first) = waiting.recv() {
        // Everyone who asked before the freeze is served by it.
        let waiters: Vec<Waiter> = std::iter::once(first).chain(waiting.try_iter()).collect();
        let result = sync_point::take(shared).map_err(|error| error.to_string());
        for waiter in waiters {
            // Whoever stopped waiting does not want to know.
            let _unwanted = waiter.send(result.clone());
        }
    }
}
