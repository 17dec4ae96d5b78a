//! One very large list at the port: imported, streamed, changed one member at a time; and one post to it, forced to
//! become an entry of every member.

use super::graph::{Graph, Plan, Posting, Sizes, list_id, since_ever};
use super::job::answer;
use super::port::{ALL, Meter, Port, Spent, TENANT, Windows, partition};
use crate::event::spread;
use crate::quantiles::{Samples, Summary};
use anyhow::{Context, Result, ensure};
use fantail_ports::inbox::{Followed, Reader};
use fantail_ports::lists::{ListEdit, ListKey};
use fantail_ports::store::Store;
use fantail_rules::ids::{Arrival, UserNo};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SETTLE: Duration = Duration::from_secs(20);
const MEMBERS_PER_PAGE: usize = 10_000;
const SINGLES: u64 = 2_000;
const SAMPLE: u64 = 200;
const LIST: u64 = 0;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Large {
    pub directory: PathBuf,
    pub members: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Measured {
    pub imported: Spent,
    pub bytes_per_member: f64,
    pub streamed: Spent,
    /// From the commit on until a member's page had it.
    pub visible_seconds: f64,
    pub materialised: Spent,
    pub bytes_per_entry: f64,
    pub follow: Summary,
    pub unfollow: Summary,
    /// Both of them, with the sync point behind them.
    pub changed: Spent,
    pub changes: f64,
}

impl Large {
    pub fn work(&self) -> Result<()> {
        let mut port = Port::open(&self.directory, Windows::One, 1)?;
        let meter = Meter::begin()?;
        port.import((0..self.members).map(|at| (LIST, member(at))))?;
        port.drain()?;
        let imported = meter.spent()?;
        port.settle(SETTLE);
        let bytes_before = port.disk_bytes();
        let streamed = self.stream(&port)?;
        let meter = Meter::begin()?;
        let visible_seconds = self.post(&mut port)?;
        port.drain()?;
        port.sync()?;
        let materialised = meter.spent()?;
        let entries = port.store.gauges().entries_written;
        ensure!(entries == self.members, "{entries} entries for {} members", self.members);
        port.settle(SETTLE);
        let entry_bytes = port.disk_bytes().saturating_sub(bytes_before) as f64;
        self.check(&port)?;
        let meter = Meter::begin()?;
        let (follow, unfollow) = self.change(&mut port)?;
        port.sync()?;
        port.drain()?;
        answer(&Measured {
            imported,
            bytes_per_member: bytes_before as f64 / self.members as f64,
            streamed,
            visible_seconds,
            materialised,
            bytes_per_entry: entry_bytes / self.members as f64,
            follow,
            unfollow,
            changed: meter.spent()?,
            changes: 2.0 * SINGLES as f64,
        });
        Ok(())
    }

    /// Page by page, as whoever lists followers does.
    fn stream(&self, port: &Port) -> Result<Spent> {
        let key = ListKey { tenant: TENANT, list: list_id(LIST) };
        let (meter, mut after, mut count) = (Meter::begin()?, None, 0);
        loop {
            let mut page = None;
            port.store.read(partition(0), &mut |view| {
                page = Some(view.lists().members(key, after, MEMBERS_PER_PAGE));
            })?;
            let page = page.context("the store did not read")??;
            count += page.len() as u64;
            let Some(last) = page.last() else { break };
            after = Some(last.user);
        }
        ensure!(count == self.members, "{count} members instead of {}", self.members);
        meter.spent()
    }

    /// One event to the list. Returns how long it took until a member saw it.
    fn post(&self, port: &mut Port) -> Result<f64> {
        let graph = Graph { users: 1, lists: 1, sizes: Sizes::Equal(1), readers: 0, side_lists: 0 };
        let plan = Plan { graph, posting: Posting::Lists { any: None } };
        let began = Instant::now();
        port.post(&plan, 1)?;
        ensure!(count(port, member(self.members / 2), true)? == 1, "a member does not see the post");
        Ok(began.elapsed().as_secs_f64())
    }

    /// Members have the post, their neighbours do not.
    fn check(&self, port: &Port) -> Result<()> {
        for at in 0..SAMPLE {
            let user = member(spread(at) % self.members);
            ensure!(count(port, user, true)? == 1, "user {user} does not have the post");
            ensure!(count(port, user + 1, false)? == 0, "user {} has a post of others", user + 1);
        }
        Ok(())
    }

    /// Random users join, and random members leave, one commit each.
    fn change(&self, port: &mut Port) -> Result<(Summary, Summary)> {
        let (mut follow, mut unfollow) = (Samples::default(), Samples::default());
        let key = ListKey { tenant: TENANT, list: list_id(LIST) };
        let at = Arrival(port.arrival);
        for single in 0..SINGLES {
            let (mut joined, mut left) = (since_ever(), since_ever());
            joined.close(Arrival::START);
            joined.open(at);
            left.close(at);
            let user = UserNo(member(spread(single) % self.members) + 1);
            let join = vec![ListEdit { key, user, intervals: joined, at, floor: Arrival(u64::MAX) }];
            let user = UserNo(member(spread(!single) % self.members));
            let leave = vec![ListEdit { key, user, intervals: left, at, floor: Arrival(u64::MAX) }];
            for (edits, samples) in [(join, &mut follow), (leave, &mut unfollow)] {
                let began = Instant::now();
                port.edit(0, edits)?;
                samples.record(began.elapsed());
            }
        }
        Ok((follow.summarise(), unfollow.summarise()))
    }
}

/// Members are two numbers apart, give or take one in four.
fn member(at: u64) -> u64 {
    2 * at + at / 4 * 2
}

/// Entries of a user who follows the list, or nobody.
fn count(port: &Port, user: u64, is_member: bool) -> Result<u64> {
    let followed = Followed { list: list_id(LIST), intervals: since_ever() };
    let follows = if is_member { std::slice::from_ref(&followed) } else { &[] };
    port.ask(user, |inbox, user| inbox.count(&Reader { tenant: TENANT, user, follows }, ALL))
}
