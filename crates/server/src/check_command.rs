//! `fantail check`: recounts all deliveries of a data directory whose server is stopped.
//!
//! It reads the tables as they are at their last sync point, where they are whole, and writes no row. A sync point that a power
//! cut tore is cut off first, as by a start, and named on the standard error. A restored backup
//! that was never started has no tables yet: its newest snapshot is read into tables beside them, which are removed again.
//! What differs is named; then the command fails, so that a script notices.

use crate::cli::{CheckArgs, remark, say};
use crate::composition::{blobs_directory, tables_directory};
use crate::snapshots::Snapshots;
use anyhow::{Context, Result, ensure};
use fantail_local::blobs::LocalBlobs;
use fantail_local::store::{LocalStore, StoreOptions, TornLog};
use fantail_node::books::{Named, NamedOf, Report, check};
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn run(args: &CheckArgs) -> Result<()> {
    let directory = tables_directory(&args.data);
    let report = if directory.is_dir() {
        let store = LocalStore::open(StoreOptions::new(directory));
        let store = store.context("cannot open the tables; a server that uses them must be stopped first")?;
        if let Some(TornLog { file, offset }) = store.torn_log() {
            remark(format_args!("a sync point that was cut off was removed: {} at {offset}", file.display()));
        }
        check(&store).context("cannot read the tables")?
    } else {
        check_snapshot(&args.data)?
    };
    if args.json {
        say(serde_json::to_string_pretty(&document(&report)).context("cannot write the report")?)?;
    } else {
        say(shown(&report).trim_end())?;
    }
    ensure!(report.imbalances_in_all == 0, "the books do not balance");
    Ok(())
}

/// Where a snapshot is read into. A check that was killed leaves it; the next check or start removes it.
#[must_use]
pub fn scratch_directory(data: &Path) -> PathBuf {
    data.join("check.part")
}

/// Removes what a check that was killed has left.
pub fn remove_scratch(data: &Path) -> Result<()> {
    let scratch = scratch_directory(data);
    match fs::remove_dir_all(&scratch) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", scratch.display()))
        }
        Err(_) | Ok(()) => Ok(()),
    }
}

/// Recounts the newest snapshot of a data directory without tables.
fn check_snapshot(data: &Path) -> Result<Report> {
    let (blobs, nothing) = (blobs_directory(data), "there are neither tables nor a snapshot in");
    ensure!(blobs.is_dir(), "{nothing} {}", data.display());
    remove_scratch(data)?;
    let snapshots = Snapshots::open(Arc::new(LocalBlobs::open(blobs)?))?;
    let store = LocalStore::open(StoreOptions::new(scratch_directory(data)));
    let store = store.context("cannot make tables beside the snapshot")?;
    let checked = snapshots.fill(&store).and_then(|name| {
        ensure!(name.is_some(), "{nothing} {}", data.display());
        check(&store).context("cannot read the snapshot")
    });
    drop(store);
    remove_scratch(data)?;
    checked
}

fn shown(report: &Report) -> String {
    let counted = report.counted;
    let mut text = format!(
        "{} deliveries in {} ledgers of {} events, {} shards\n",
        counted.deliveries, counted.ledgers, report.events, report.shards
    );
    for one in &report.imbalances {
        let Named { tenant, shard, what, kept, counted, .. } = one;
        let of = match one.of {
            NamedOf::Event { event, arrival, channel } => {
                let name = event.map_or_else(|| format!("arrival {arrival}"), |event| event.to_string());
                format!("event {name}, {}", channel.name())
            }
            NamedOf::Lane(lane) => format!("lane {}", lane.name()),
        };
        text.push_str(&format!(
            "tenant {tenant}, {of}, {shard}: {what}: the tally says {kept}, the ledgers {counted}\n"
        ));
    }
    let untold = report.imbalances_in_all - report.imbalances.len() as u64;
    if untold > 0 {
        text.push_str(&format!("and {untold} more\n"));
    }
    text.push_str(if report.imbalances_in_all == 0 { "balanced\n" } else { "NOT BALANCED\n" });
    text
}

fn document(report: &Report) -> Value {
    let one = |named: &Named| {
        let mut value = json!({
            "tenant": named.tenant, "shard": named.shard.0, "what": named.what,
            "kept": named.kept, "counted": named.counted,
        });
        match named.of {
            NamedOf::Event { event, arrival, channel } => {
                value["eventId"] = event.map_or(Value::Null, |event| event.to_string().into());
                value["arrival"] = arrival.0.into();
                value["channel"] = channel.name().into();
            }
            NamedOf::Lane(lane) => value["lane"] = lane.name().into(),
        }
        value
    };
    json!({
        "balanced": report.imbalances_in_all == 0,
        "shards": report.shards,
        "events": report.events,
        "ledgers": report.counted.ledgers,
        "deliveries": report.counted.deliveries,
        "imbalanceCount": report.imbalances_in_all,
        "imbalances": report.imbalances.iter().map(one).collect::<Vec<_>>(),
    })
}
