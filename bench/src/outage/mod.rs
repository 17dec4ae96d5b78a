//! One provider that says nothing for a minute, through the real server: what the others get meanwhile, how it gets its own
//! afterwards, and whether anything is lost. The providers are the sandbox's; what is counted was seen on its sockets.
//!
//! Three streams of notifications come at a steady rate all the time: pushes to iPhones, pushes to Android, mails. Then Apple
//! falls silent: it takes connections, and neither reads what comes nor answers.

mod providers;
mod streams;

use crate::Bench;
use crate::report::{FSYNC_BEFORE_202, Row};
use crate::server::Server;
use anyhow::{Result, ensure};
use fantail_sandbox::faults::Profile;
use providers::{Providers, Seen};
use std::time::{Duration, Instant};
use streams::Stream;

const SILENT: &str = "apns";
/// Of each stream, per second.
const RATE: u64 = 300;
/// Of the rate before, that the others must keep; and of the pushes' rate, that may come when they are made up for.
const KEPT: f64 = 0.95;
const PEAK_TIMES: f64 = 20.0;
/// Until everything is with its provider, once the load has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(180);

/// When what happens, counted from the start of the load.
struct Plan {
    silent_from: Duration,
    silent_until: Duration,
    end: Duration,
}

pub async fn run(bench: &mut Bench) -> Result<()> {
    let silence = Duration::from_secs(if bench.scale.quick { 10 } else { 60 });
    let calm = silence / 3;
    let plan = Plan { silent_from: calm, silent_until: calm + silence, end: calm + silence + silence / 2 };
    let providers = Providers::start()?;
    // The accounts of this scenario are with a sandbox of its own, on ports that it chose.
    let allow = [("FANTAIL_OUTBOUND_ALLOW", "127.0.0.1:*")];
    let server = Server::start_with(&bench.binary, &bench.work.join("outage"), &allow).await?;
    providers.open_accounts(&server.target).await?;
    streams::prepare(&server).await?;
    server.settle().await?;
    let began_ms = providers.now_ms();
    let accepted = drive(&server, &providers, &plan).await?;
    let ended = Instant::now();
    let mut seen = providers.seen();
    while Stream::ALL.iter().any(|stream| seen.messages(stream.emulator()) < accepted) {
        if ended.elapsed() >= DRAIN_LIMIT {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        seen = providers.seen();
    }
    report(bench, &plan, &seen, began_ms, accepted);
    server.stop().await
}

/// The load, with a silent provider in the middle of it. Says how many of each stream were accepted.
async fn drive(server: &Server, providers: &Providers, plan: &Plan) -> Result<u64> {
    let start = Instant::now();
    let load = streams::run(server, RATE, plan.end);
    let faults = async {
        tokio::time::sleep_until((start + plan.silent_from).into()).await;
        providers.set_faults(SILENT, Profile { black_hole: 1.0, ..Profile::default() });
        tokio::time::sleep_until((start + plan.silent_until).into()).await;
        providers.set_faults(SILENT, Profile::default());
    };
    let (accepted, ()) = tokio::join!(load, faults);
    let accepted = accepted?;
    ensure!(
        accepted >= RATE * plan.end.as_secs() * 9 / 10,
        "the server did not keep up: {accepted} accepted"
    );
    Ok(accepted)
}

fn report(bench: &mut Bench, plan: &Plan, seen: &Seen, began_ms: u64, accepted: u64) {
    let at = |after: Duration| began_ms + u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    // The first second of the load is its start.
    let (calm_from, hole_from, hole_until) =
        (at(Duration::from_secs(1)), at(plan.silent_from), at(plan.silent_until));
    let seconds = plan.silent_until.saturating_sub(plan.silent_from).as_secs();
    for stream in Stream::ALL {
        let emulator = stream.emulator();
        let before = seen.rate(emulator, calm_from, hole_from);
        let during = seen.rate(emulator, hole_from, hole_until);
        let row = Row::new(
            "outage",
            format!("{} while Apple is silent for {seconds} s", stream.name()),
            FSYNC_BEFORE_202,
        )
        .fact("arrived before", before, "/s")
        .fact("arrived meanwhile", during, "/s");
        let row = if emulator == SILENT {
            row.fact("arrived then, at most", seen.peak(emulator, hole_until), " in a second")
                .fact("all there after", seen.last_after(emulator, hole_until), " s")
                .at_most(RATE as f64 * PEAK_TIMES, seen.peak(emulator, hole_until), " in a second")
        } else {
            row.at_least(before * KEPT, during, "/s meanwhile")
        };
        let (messages, arrivals) = (seen.messages(emulator), seen.arrivals(emulator));
        let lost = accepted.saturating_sub(messages) as f64;
        bench.report.add(
            row.fact("lost", lost, "")
                .fact("repeated", arrivals.saturating_sub(messages) as f64, "")
                .at_most(0.0, lost, " lost"),
        );
    }
}
