//! Follows as a tenant imports them: users and lists in no order, commits of 10,000.

use super::graph::list_id;
use super::job::answer;
use super::port::{Meter, Port, Spent, TENANT, Windows, partition};
use crate::event::spread;
use anyhow::{Context, Result, ensure};
use fantail_ports::lists::ListKey;
use fantail_ports::store::Store;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

const SETTLE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Follows {
    pub directory: PathBuf,
    pub follows: u64,
    pub lists: u64,
    pub users: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Imported {
    pub spent: Spent,
    pub bytes_per_follow: f64,
}

impl Follows {
    pub fn work(&self) -> Result<()> {
        let mut port = Port::open(&self.directory, Windows::Served, 1)?;
        let meter = Meter::begin()?;
        port.import((0..self.follows).map(|at| self.follow(at)))?;
        port.drain()?;
        port.sync()?;
        let spent = meter.spent()?;
        port.settle(SETTLE);
        self.check(&port)?;
        let bytes_per_follow = port.disk_bytes() as f64 / self.follows as f64;
        answer(&Imported { spent, bytes_per_follow });
        Ok(())
    }

    fn follow(&self, at: u64) -> (u64, u64) {
        (spread(at) % self.lists, spread(!at) % self.users)
    }

    /// One list must have exactly its members.
    fn check(&self, port: &Port) -> Result<()> {
        let all = (0..self.follows).map(|at| self.follow(at));
        let expected: BTreeSet<u64> = all.filter(|(list, _)| *list == 0).map(|(_, user)| user).collect();
        let key = ListKey { tenant: TENANT, list: list_id(0) };
        let mut found = None;
        port.store.read(partition(0), &mut |view| {
            found = Some(view.lists().members(key, None, expected.len() + 1));
        })?;
        let found = found.context("the store did not read")??;
        let is_equal = found.iter().map(|member| member.user.0).eq(expected.iter().copied());
        ensure!(is_equal, "a list has {} members instead of {}", found.len(), expected.len());
        Ok(())
    }
}
