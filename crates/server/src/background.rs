//! Threads that may block: the store's background work, the look at the disk, daily snapshots with the trimming behind them, and the end
//! of old backups.

use crate::backups::{self, BackupSettings};
use crate::config::Config;
use crate::disk_watch;
use crate::snapshots::Snapshots;
use anyhow::Result;
use fantail_node::Node;
use fantail_ports::store::Tended;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tracing::{error, warn};

/// How long the store's work rests when there is none.
const TEND_REST: Duration = Duration::from_millis(50);
const SNAPSHOT_LOOK: Duration = Duration::from_secs(60);
const SNAPSHOT_EVERY_MS: u64 = 24 * 3_600_000;

/// What a thread does until the sender of its channel is dropped.
type Work = Box<dyn FnOnce(&Receiver<()>) + Send>;

pub struct Background {
    /// Dropped to stop the threads.
    stops: Vec<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    pub fn start(node: Node, snapshots: Arc<Snapshots>, data: PathBuf, config: &Config) -> Result<Self> {
        let (room, backup) = (config.room, config.backup);
        let copies = data.clone();
        let (mut stops, mut threads) = (Vec::new(), Vec::new());
        let (tended, disk_of, kept) = (node.clone(), node.clone(), node.clone());
        let mut start = |name: &'static str, run: Work| -> Result<()> {
            let (stop, stopped) = channel();
            stops.push(stop);
            let run = node.supervised_thread(name, move || run(&stopped));
            threads.push(Builder::new().name(name.to_owned()).spawn(run)?);
            Ok(())
        };
        start("store-tend", Box::new(move |stopped| tend(&tended, stopped)))?;
        start("disk-watch", Box::new(move |stopped| disk_watch::run(&disk_of, &data, room, stopped)))?;
        start(
            "snapshots",
            Box::new(move |stopped| {
                let look = || remove_old_backups(&kept, &copies, backup);
                snapshot(&kept, &snapshots, look, stopped);
            }),
        )?;
        Ok(Self { stops, threads })
    }

    /// Waits until what is under way is done.
    pub fn stop(self) {
        drop(self.stops);
        for thread in self.threads {
            if thread.join().is_err() {
                error!("a background thread panicked");
            }
        }
    }
}

fn goes_on(stopped: &Receiver<()>, rest: Duration) -> bool {
    matches!(stopped.recv_timeout(rest), Err(RecvTimeoutError::Timeout))
}

fn tend(node: &Node, stopped: &Receiver<()>) {
    let mut rest = TEND_REST;
    while goes_on(stopped, rest) {
        rest = match node.tend() {
            Ok(Tended::MoreWaiting) => Duration::ZERO,
            Ok(Tended::Idle) => TEND_REST,
            Err(failed) => {
                error!(%failed, "background work of the store failed");
                node.give_up(&failed.to_string());
                return;
            }
        };
    }
}

fn remove_old_backups(node: &Node, data: &Path, settings: BackupSettings) {
    if node.keeps_back_what_is_due() {
        // On the word of a clock that may be wrong, nothing is deleted.
        return;
    }
    if let Err(failed) = backups::remove_old(data, settings, node.wall()) {
        warn!(%failed, "old backups were not removed");
    }
}

fn snapshot(node: &Node, snapshots: &Snapshots, look_at_backups: impl Fn(), stopped: &Receiver<()>) {
    let began = node.wall();
    while goes_on(stopped, SNAPSHOT_LOOK) {
        look_at_backups();
        let newest = snapshots.newest_at().unwrap_or(began);
        if node.wall().since(newest) < SNAPSHOT_EVERY_MS {
            continue;
        }
        if let Err(failed) = snapshots.take(node) {
            warn!(%failed, "daily snapshot failed, the journal is kept whole");
        }
    }
}
