//! Timers at their tables: how much room ten million of them take, whether a start reads them, how fast they are found.
//!
//! Rows as shards write them, spread over a week, four shards. They are what a pending timer costs beside its ledger, which is
//! there anyway. Then the store is closed and opened as a start does, asked for what is due as the dispatcher asks, and what is due
//! is walked and deleted page by page as `Wake` records do.

use crate::Bench;
use crate::report::Row;
use anyhow::{Context, Result, ensure};
use fantail_local::store::{LocalStore, StoreOptions};
use fantail_machine::tables::RowsFrom;
use fantail_machine::tables::ledger::{ParcelId, Timer, TimersFrom, timers_due};
use fantail_ports::store::{Commit, Store, Tended};
use fantail_ports::tables::Changes;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Millis, PartitionId, Position, ShardNo, TenantId, UserNo};
use fantail_rules::priority::Priority;
use std::time::Instant;

const SHARDS: u16 = 4;
/// 2026-06-09 21:00, UTC, and a week.
const NOW: u64 = 1_781_038_800_000;
const WEEK_MS: u64 = 7 * 86_400_000;
/// Rows in one commit, and commits between sync points.
const AT_ONCE: u64 = 10_000;
const SYNC_EVERY: u64 = 50;
/// What the dispatcher reads at once.
const PAGE: usize = 1_024;
const GOAL_BYTES: f64 = 200e6;
/// A start that read ten million rows would take seconds.
const GOAL_OPEN_MS: f64 = 1_000.0;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let count = bench.scale.timers;
    let directory = bench.work.join("timers");
    let wrote = Instant::now();
    let store = LocalStore::open(StoreOptions::new(directory.clone()))?;
    // Its own log is allocated ahead, whatever is in it.
    let empty = store.gauges().disk_bytes;
    for (batch, first) in (0..count).step_by(AT_ONCE as usize).enumerate() {
        let changes = (first..(first + AT_ONCE).min(count)).map(row).collect();
        commit(&store, shard_of(batch as u64), batch as u64 + 1, changes)?;
        if (batch as u64).is_multiple_of(SYNC_EVERY) {
            store.sync().await?;
        }
    }
    store.sync().await?;
    let wrote = wrote.elapsed();
    while store.tend()? == Tended::MoreWaiting {}
    let bytes = store.gauges().disk_bytes.saturating_sub(empty);
    drop(store);
    let row = Row::new("timers", format!("{count} pending, on disk"), "sync points")
        .fact("bytes", bytes as f64, " B")
        .fact("beside an empty store's", empty as f64, " B")
        .fact("each", bytes as f64 / count as f64, " B")
        .fact("written", count as f64 / wrote.as_secs_f64(), "/s");
    // The goal is for ten million.
    let goal = GOAL_BYTES * count as f64 / 10e6;
    bench.report.add(row.at_most(goal, bytes as f64, " B"));
    walk(bench, StoreOptions::new(directory), count)
}

/// Opens the store again, and finds what is due.
fn walk(bench: &mut Bench, options: StoreOptions, count: u64) -> Result<()> {
    let opening = Instant::now();
    let store = LocalStore::open(options)?;
    let first = due(&store, ShardNo(0), TimersFrom::Due(Millis(0)), PAGE)?;
    let opened_ms = opening.elapsed().as_secs_f64() * 1e3;
    ensure!(!first.is_empty(), "nothing is due");
    let (mut found, mut position, walking) = (0, count, Instant::now());
    for shard in (0..SHARDS).map(ShardNo) {
        let mut from = TimersFrom::Due(Millis(0));
        loop {
            let page = due(&store, shard, from, PAGE)?;
            let Some(last) = page.last() else { break };
            from = TimersFrom::Row(RowsFrom::Behind(*last));
            found += page.len() as u64;
            position += 1;
            let gone = page.iter().map(|timer| (timer.key(), None)).collect();
            commit(&store, shard, position, gone)?;
        }
    }
    let rate = found as f64 / walking.elapsed().as_secs_f64();
    ensure!(found == count, "{found} of {count} timers were found");
    let row = Row::new("timers", "store opened and the first page of due timers read", "none needed")
        .fact("time", opened_ms, " ms");
    bench.report.add(row.at_most(GOAL_OPEN_MS, opened_ms, " ms"));
    let row = Row::new("timers", "found and deleted in pages of 1,024, one core", "none needed");
    bench.report.add(row.fact("rate", rate, "/s"));
    Ok(())
}

fn row(no: u64) -> (Vec<u8>, Option<Vec<u8>>) {
    // Spread over the week, in seconds, in no order.
    let due = NOW - NOW % 1_000 + no.wrapping_mul(0x9E37_79B9_7F4A_7C15) % WEEK_MS / 1_000 * 1_000;
    let parcel = ParcelId {
        tenant: TenantId(1),
        arrival: Arrival(no + 1),
        channel: ChannelKind::Push,
        first: UserNo(no % 1_000),
    };
    let timer = Timer { due: Millis(due), parcel, lane: Priority::Normal };
    (timer.key(), Some(Vec::new()))
}

fn shard_of(batch: u64) -> ShardNo {
    ShardNo((batch % u64::from(SHARDS)) as u16)
}

fn commit(store: &LocalStore, shard: ShardNo, through: u64, changes: Changes) -> Result<()> {
    let commit = Commit { through: Position(through), changes, ..Commit::default() };
    store.commit(PartitionId::Shard(shard), commit).context("cannot commit")
}

fn due(store: &LocalStore, shard: ShardNo, from: TimersFrom, limit: usize) -> Result<Vec<Timer>> {
    let mut found = None;
    store.read(PartitionId::Shard(shard), &mut |view| {
        found = Some(timers_due(view.tables(), from, Millis(u64::MAX - 1), limit));
    })?;
    Ok(found.context("the store gave no state")??)
}
