//! After a kill -9: the store opens and answers; then what was committed behind its last sync point is committed
//! again, as the journal would bring it, and a sample of readers must have exactly what was posted.

use super::graph::{Plan, follows};
use super::job::answer;
use super::port::{ALL, Port, SHARDS, TENANT, Windows};
use anyhow::{Result, ensure};
use fantail_ports::inbox::Reader;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;

const SAMPLE: u64 = 200;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recover {
    pub directory: PathBuf,
    pub plan: Plan,
    /// The last event that may have been committed.
    pub through: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Recovered {
    pub opened_seconds: f64,
    /// From the beginning until a read answered.
    pub answered_seconds: f64,
    pub replayed_events: u64,
    pub replayed_seconds: f64,
    pub checked: u64,
}

impl Recover {
    pub fn work(&self) -> Result<()> {
        let users = self.plan.sample(1);
        let lists = self.plan.graph.lists_of(&users);
        let follows = follows(&lists[0]);
        let began = Instant::now();
        let mut port = Port::open(&self.directory, Windows::Served, SHARDS)?;
        let opened_seconds = began.elapsed().as_secs_f64();
        let page = port.ask(users[0], |inbox, user| {
            inbox.page(&Reader { tenant: TENANT, user, follows: &follows }, ALL, true, 20)
        })?;
        let answered_seconds = began.elapsed().as_secs_f64();
        ensure!(!page.is_empty(), "a reader's page is empty after the recovery");
        let (replay, from) = (Instant::now(), port.arrival);
        while port.arrival < self.through {
            port.post(&self.plan, self.through - port.arrival)?;
        }
        let replayed_seconds = replay.elapsed().as_secs_f64();
        let checked = port.check_counts(&self.plan, SAMPLE)?;
        port.drain()?;
        port.sync()?;
        port.check_counts(&self.plan, SAMPLE)?;
        let replayed_events = self.through - from;
        answer(&Recovered { opened_seconds, answered_seconds, replayed_events, replayed_seconds, checked });
        Ok(())
    }
}
