//! `fantail check`: recounts all deliveries of a data directory whose server is stopped.
//!
//! It reads the tables as they are at their last sync point, where they are whole, and writes no row. What differs is
//! named; then the command fails, so that a script notices.

use crate::cli::{CheckArgs, say};
use crate::composition::tables_directory;
use anyhow::{Context, Result, ensure};
use fantail_local::store::{LocalStore, StoreOptions};
use fantail_node::books::{Named, NamedOf, Report, check};
use serde_json::{Value, json};

pub fn run(args: &CheckArgs) -> Result<()> {
    let directory = tables_directory(&args.data);
    ensure!(directory.is_dir(), "there are no tables in {}", args.data.display());
    let store = LocalStore::open(StoreOptions::new(directory));
    let store = store.context("cannot open the tables; a server that uses them must be stopped first")?;
    let report = check(&store).context("cannot read the tables")?;
    if args.json {
        say(serde_json::to_string_pretty(&document(&report)).context("cannot write the report")?)?;
    } else {
        say(shown(&report).trim_end())?;
    }
    ensure!(report.imbalances_in_all == 0, "the books do not balance");
    Ok(())
}

fn shown(report: &Report) -> String {
    let counted = report.counted;
    let mut text = format!(
        "{} deliveries in {} ledgers of {} events, {} shards\n",
        counted.deliveries, counted.ledgers, counted.events, report.shards
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
        "events": report.counted.events,
        "ledgers": report.counted.ledgers,
        "deliveries": report.counted.deliveries,
        "imbalanceCount": report.imbalances_in_all,
        "imbalances": report.imbalances.iter().map(one).collect::<Vec<_>>(),
    })
}
