//! The same fan-out in other stores: equal events and followers, one row per entry, one commit with fsync per event
//! where the store has such a thing. Ours and all peers take turns (ABAB), and medians are shown with their spread.
//!
//! What must never happen: a ratio without the durability of both sides. A peer that is missing, or does not run
//! here, is a row that says so, never a failure of ours.

pub mod embedded;
pub mod raw;

use crate::index::{Found, Graph, ListSizes, Sizes, Spent};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::Path;

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

pub fn run(_work: &Path, sizes: &Sizes, _only: &[String], _found: &mut Found) -> Result<()> {
    let _graph =
        Graph { users: sizes.users, lists: 1, sizes: ListSizes::Equal(1), readers: 0, side_lists: 0 };
    Ok(())
}
