//! Ours, and what runs in this program as well: the raw file and the embedded stores.

use super::embedded::{Embedded, Store};
use super::raw::Raw;
use super::{FAT_ROW_BYTES, Peer, Ready, Turn, Work};
use crate::index::job::{Job, run};
use crate::index::{Fill, Filled, Plan, Posting, Windows};
use std::path::Path;
use std::time::Duration;

/// A turn with its preparations and checks.
const TURN_MAX: Duration = Duration::from_secs(600);
/// Events of ours that may wait.
const AHEAD_EVENTS_MAX: u64 = 4_096;

/// Ours is the first.
pub fn with_files(work: &Work) -> Vec<Peer> {
    let mut peers = vec![ours(*work), raw(*work)];
    for (store, name, durability, goal) in [
        (Store::FjallRows, "fjall, small rows", "fsync per event", Some(25.0)),
        (Store::FjallIngest, "fjall, small rows, sorted ingestion", "fsync per run of 2M rows", Some(4.0)),
        (Store::Redb, "redb, small rows", "fsync per event", None),
    ] {
        let work = *work;
        let turn = move |directory: &Path| {
            let job = Embedded { directory: directory.to_owned(), store, work };
            run::<Turn>(&Job::Embedded(job), TURN_MAX)
        };
        peers.push(Peer::Ready(Ready { name: name.to_owned(), durability, goal, turn: Box::new(turn) }));
    }
    peers
}

fn ours(work: Work) -> Peer {
    let turn = move |directory: &Path| {
        let job = Fill {
            directory: directory.to_owned(),
            plan: Plan { graph: work.graph, posting: Posting::Lists { any: None } },
            windows: Windows::Small,
            events: work.events,
            ahead_events_max: AHEAD_EVENTS_MAX,
            limit_seconds: TURN_MAX.as_secs() / 2,
            until_killed: false,
        };
        let filled: Filled = run(&Job::Fill(job), TURN_MAX)?;
        Ok(Turn {
            rows: filled.entries,
            seconds: filled.spent.seconds,
            cpu_seconds: filled.spent.cpu_seconds,
            bytes: Some(filled.index_bytes),
        })
    };
    Peer::Ready(Ready {
        name: "fantail, the inbox index".to_owned(),
        durability: "entries in fsynced runs at the end",
        goal: None,
        turn: Box::new(turn),
    })
}

fn raw(work: Work) -> Peer {
    let turn = move |directory: &Path| {
        let rows_per_batch = work.graph.members(0).len() as u64;
        let job = Raw {
            directory: directory.to_owned(),
            rows: work.events * rows_per_batch,
            rows_per_batch,
            row_bytes: FAT_ROW_BYTES,
            limit_ms: work.limit_ms,
        };
        run::<Turn>(&Job::Raw(job), TURN_MAX)
    };
    Peer::Ready(Ready {
        name: format!("raw file, fat rows of {FAT_ROW_BYTES} bytes appended"),
        durability: "fsync per event",
        goal: None,
        turn: Box::new(turn),
    })
}
