//! The same fan-out in other stores: equal events and followers, one row per entry, one commit with fsync per event
//! where the store has such a thing. Ours and all peers take turns (ABAB), and medians are shown with their spread.
//!
//! What must never happen: a ratio without the durability of both sides. A peer that is missing, or does not run
//! here, is a row that says so, never a failure of ours.

pub mod embedded;
pub mod raw;

mod postgres;
pub mod redis;
mod scripts;

mod ours;

mod turns;

use crate::index::{Found, Graph, ListSizes, Sizes, Spent};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// A row as most inboxes have it: two ids, a time, flags, and what is shown.
pub const FAT_ROW_BYTES: usize = 152;

/// What every peer is given to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Work {
    pub graph: Graph,
    pub events: u64,
    /// A turn ends then, and counts what it has.
    pub limit_ms: u64,
}

impl Work {
    pub fn lists(&self) -> Vec<Vec<u64>> {
        (0..self.graph.lists).map(|list| self.graph.members(list)).collect()
    }

    fn limit(&self) -> Duration {
        Duration::from_millis(self.limit_ms)
    }
}

/// One turn of one peer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Turn {
    pub rows: f64,
    pub seconds: f64,
    /// Of the store, not of who feeds it, where these are two processes.
    pub cpu_seconds: f64,
    /// On disk, or in memory for a store that lives there.
    pub bytes: Option<f64>,
}

impl Turn {
    fn new(rows: u64, spent: &Spent) -> Self {
        Self { rows: rows as f64, seconds: spent.seconds, cpu_seconds: spent.cpu_seconds, bytes: None }
    }
}

/// A store that takes turns.
pub enum Peer {
    Ready(Ready),
    /// How to install it.
    Missing {
        name: String,
        advice: String,
    },
}

/// Does the work once, in a directory of its own, which is removed behind it.
type TakeTurn = Box<dyn FnMut(&Path) -> Result<Turn>>;

pub struct Ready {
    pub name: String,
    pub durability: &'static str,
    /// How many times faster ours is meant to be.
    pub goal: Option<f64>,
    pub turn: TakeTurn,
}

pub fn run(directory: &Path, sizes: &Sizes, only: &[String], found: &mut Found) -> Result<()> {
    let events = (sizes.peer_rows / sizes.list_size).max(1);
    let graph = Graph {
        users: sizes.users,
        lists: (events / 4).max(1),
        sizes: ListSizes::Equal(sizes.list_size),
        readers: 0,
        side_lists: 0,
    };
    let limit_ms = u64::try_from(sizes.peer_limit.as_millis()).unwrap_or(u64::MAX);
    let work = Work { graph, events, limit_ms };
    let mut peers = ours::with_files(&work);
    peers.extend(redis::peers(&work));
    peers.extend(scripts::peers(&work, directory)?);
    peers.extend(postgres::peers(&work, directory));
    turns::take(peers, directory, sizes.peer_rounds, only, found)
}
