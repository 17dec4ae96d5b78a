//! The rows of the index parts, with the goals they are held against.

use super::fill::Filled;
use super::follows::{Follows, Imported};
use super::graph::Graph;
use super::large;
use super::reads::{self, Loop};
use super::recover::Recovered;
use crate::report::Row;

const RUNS: &str = "entries in fsynced runs";
const LISTS: &str = "sync point at the end";
const MEMORY: &str = "read";

/// Goals of the largest list.
const LARGE_MEMBERS: u64 = 100_000_000;

pub fn uniform(graph: &Graph, filled: &Filled) -> Row {
    let what = format!(
        "fan-out at the port, uniform: {} users, {} lists in turn, {:.0} followers per event",
        graph.users,
        graph.lists,
        filled.entries / filled.events.max(1) as f64
    );
    fan_out(what, filled)
        .at_least(10_000_000.0, filled.rate(), " entries/s")
        .at_most(4.0, filled.bytes_per_entry(), " B/entry")
        .at_most(3.0, filled.write_amplification().unwrap_or(f64::INFINITY), " write amplification")
}

pub fn power_law(graph: &Graph, filled: &Filled) -> Row {
    let what = format!(
        "fan-out at the port, power law: {} users, {} distinct lists, {:.0} followers per event",
        graph.users,
        graph.lists,
        filled.entries / filled.events.max(1) as f64
    );
    fan_out(what, filled).at_least(2_000_000.0, filled.rate(), " entries/s")
}

pub fn explicit(users: u64, filled: &Filled) -> Row {
    fan_out(format!("fan-out at the port, events for {users} explicit users each"), filled)
}

fn fan_out(what: String, filled: &Filled) -> Row {
    let mut row = Row::new("index", what, RUNS)
        .fact("materialised", filled.rate(), " entries/s")
        .fact("CPU", filled.spent.cpu_us_per(filled.entries), " µs/entry")
        .fact("on disk", filled.bytes_per_entry(), " B/entry")
        .fact("write amplification", filled.write_amplification(), "")
        .fact("peak memory", filled.spent.peak_mb(), " MB")
        .fact("entries", filled.entries, "")
        .fact("in", filled.spent.seconds, " s")
        .note(format!("counts of {} readers exact", filled.checked));
    if filled.follows > 0.0 {
        row = row.fact("lists imported", filled.imported.per_second(filled.follows), " follows/s");
    }
    if filled.is_cut {
        row = row.note("stopped at its time limit");
    }
    row
}

pub fn recovery(filled: &Filled, recovered: &Recovered) -> Row {
    Row::new("index", "kill -9 during fan-out, then open until a read answers; page cache kept", RUNS)
        .fact("answered after", recovered.answered_seconds, " s")
        .fact("opened after", recovered.opened_seconds, " s")
        .fact("entries before", filled.entries, "")
        .fact("events committed again", recovered.replayed_events as f64, "")
        .fact("in", recovered.replayed_seconds, " s")
        .note(format!("counts of {} readers exact", recovered.checked))
        .at_most(5.0, recovered.answered_seconds, " s")
}

pub fn reads(filled: &Filled, measured: &reads::Measured) -> Vec<Row> {
    let on = format!(
        "{:.0}M entries, {} readers of 400 lists, window of {} events",
        filled.entries / 1e6,
        measured.readers,
        measured.window_events
    );
    let newest = |how: &str| format!("newest 20 with 50 pointers at the port, ids only, {how}: {on}");
    let unread = |how: &str| format!("unread after a random watermark, {how}");
    let mut rows = Vec::new();
    match &measured.cold {
        Some(cold) => rows.push(loop_row(newest("cold, each reader once"), cold)),
        None => rows.push(
            Row::new("index", newest("cold"), MEMORY).note("skipped: only root may drop the page cache"),
        ),
    }
    let held = |of: &Loop| if rate(of) >= 20_000.0 { of.latency.p99_ms } else { f64::INFINITY };
    rows.push(
        loop_row(newest("warm, the same readers again"), &measured.warm)
            .note(format!("pages of {} readers exact", measured.checked))
            .at_most(1.0, held(&measured.warm), " ms p99 at ≥ 20,000 reads/s"),
    );
    rows.push(loop_row(newest("warm, another user each time"), &measured.anyone).at_most(
        1.0,
        held(&measured.anyone),
        " ms p99 at ≥ 20,000 reads/s",
    ));
    let loops = [&measured.busy, &measured.busy_anyone, &measured.busy_unread];
    let beside = measured.busy_entries / loops.map(|one| one.spent.seconds).iter().sum::<f64>();
    for (who, busy) in
        [("the same readers again", &measured.busy), ("another user each time", &measured.busy_anyone)]
    {
        rows.push(
            loop_row(newest(&format!("warm, fan-out at half rate, {who}")), busy)
                .fact("beside", beside, " entries/s")
                .at_most(3.0, busy.latency.p99_ms, " ms p99"),
        );
    }
    rows.push(loop_row(unread("idle"), &measured.unread));
    rows.push(loop_row(unread("fan-out at half rate"), &measured.busy_unread));
    rows
}

fn rate(of: &Loop) -> f64 {
    of.spent.per_second(of.latency.count as f64)
}

/// One thread reads: its rate is that of one core. CPU is the whole process's.
fn loop_row(what: String, of: &Loop) -> Row {
    Row::new("index", what, MEMORY)
        .fact("rate", rate(of), " reads/s on one core")
        .fact("p50", of.latency.p50_ms * 1e3, " µs")
        .fact("p99", of.latency.p99_ms * 1e3, " µs")
        .fact("max", of.latency.max_ms, " ms")
        .fact("process CPU", of.spent.cpu_us_per(of.latency.count as f64), " µs/read")
}

pub fn follows(job: &Follows, imported: &Imported) -> Row {
    let rate = imported.spent.per_second(job.follows as f64);
    let what =
        format!("import of follows in no order, commits of 10,000: {} on {} lists", job.follows, job.lists);
    Row::new("index", what, LISTS)
        .fact("rate", rate, " follows/s")
        .fact("CPU", imported.spent.cpu_us_per(job.follows as f64), " µs/follow")
        .fact("on disk", imported.bytes_per_follow, " B/follow")
        .fact("peak memory", imported.spent.peak_mb(), " MB")
        .at_least(300_000.0, rate, " follows/s")
}

pub fn large(members: u64, of: &large::Measured) -> Vec<Row> {
    let count = members as f64;
    let streamed = of.streamed.per_second(count);
    let list = Row::new("index", format!("a list of {members} members"), LISTS)
        .fact("imported", of.imported.per_second(count), " members/s")
        .fact("on disk", of.bytes_per_member, " B/member")
        .fact("streamed in pages", streamed, " members/s")
        .fact("follow p50", of.follow.p50_ms * 1e3, " µs")
        .fact("p99", of.follow.p99_ms * 1e3, " µs")
        .fact("unfollow p50", of.unfollow.p50_ms * 1e3, " µs")
        .fact("unfollow p99", of.unfollow.p99_ms * 1e3, " µs")
        .fact("CPU with its sync point", of.changed.cpu_us_per(of.changes), " µs/change")
        .fact("peak memory of the import", of.imported.peak_mb(), " MB")
        .at_most(4.0, of.bytes_per_member, " B/member")
        .at_least(50_000_000.0, streamed, " members/s streamed");
    let seconds = of.materialised.seconds;
    let mut post = Row::new("index", format!("a post to {members} members, forced to materialise"), RUNS)
        .fact("visible after", of.visible_seconds * 1e3, " ms")
        .fact("materialised after", seconds, " s")
        .fact("rate", of.materialised.per_second(count), " entries/s")
        .fact("CPU", of.materialised.cpu_us_per(count), " µs/entry")
        .fact("on disk", of.bytes_per_entry, " B/entry")
        .fact("peak memory", of.materialised.peak_mb(), " MB");
    if members == LARGE_MEMBERS {
        post = post.at_most(20.0, seconds, " s");
    }
    vec![list, post]
}
