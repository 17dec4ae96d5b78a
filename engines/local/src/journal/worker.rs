//! One thread for reads and removals that wait for the disk, so that a runtime's threads never do.
//!
//! What must never happen: an unbounded backlog. When the worker is that far behind, the caller does its own work.

use super::{Answer, held};
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

const JOBS_WAITING_MAX: usize = 256;

pub struct Worker {
    running: Mutex<Option<Running>>,
}

struct Running {
    jobs: SyncSender<Job>,
    thread: JoinHandle<()>,
}

impl Worker {
    pub fn start(name: &str) -> io::Result<Self> {
        let (jobs, waiting) = sync_channel(JOBS_WAITING_MAX);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&waiting))?;
        Ok(Self { running: Mutex::new(Some(Running { jobs, thread })) })
    }

    /// Every job is done by its caller.
    #[must_use]
    pub fn inline() -> Self {
        Self { running: Mutex::new(None) }
    }

    /// Does the job, on the thread if there is one. `None` only if the job panicked.
    pub async fn perform<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        self.submit(job).await.ok()
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
        let (answer, answered) = oneshot::channel();
        // The caller may have gone; then nobody misses the answer.
        let job: Job = Box::new(move || drop(answer.send(job())));
        let refused = match &*held(&self.running) {
            None => Some(job),
            Some(running) => match running.jobs.try_send(job) {
                Ok(()) => None,
                Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => Some(job),
            },
        };
        if let Some(job) = refused {
            job();
        }
        answered
    }
}

fn work(waiting: &Receiver<Job>) {
    while let Ok(job) = waiting.recv() {
        job();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(Running { jobs, thread }) = held(&self.running).take() {
            drop(jobs);
            // It ends when the last job is done; a panic in a job was seen by its caller.
            drop(thread.join());
        }
    }
}
