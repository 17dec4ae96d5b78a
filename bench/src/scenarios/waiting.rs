//! A preference change beside a million waiting deliveries of other users of the same shard: records, and the time of
//! its leader.
//!
//! People as in `planned`, all of them in their quiet hours, are sent ten events, so everything waits for the morning. Then
//! other users, who have one waiting delivery each, change what they prefer; the change and the re-evaluation after it are
//! planned, folded and committed, without a journal.

use super::gates::EVENING;
use super::planned::{Home, REVISION, TENANT, hash};
use crate::Bench;
use crate::report::Row;
use anyhow::{Context, Result, bail, ensure};
use fantail_machine::shard::respect::Prefer;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_rules::ids::{ListId, Lookup, UserNo};
use fantail_rules::preference::{Preferences, Quiet};
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::zone::ZoneNo;
use std::time::{Duration, Instant};

const THEIR_LIST: ListId = ListId([7; 16]);
const OWN_LIST: ListId = ListId([9; 16]);
const EVENTS: u64 = 10;
/// Users who change what they prefer.
const CHANGES: u64 = 1_000;
const GOAL_RECORDS: f64 = 10.0;
const GOAL_MS: f64 = 5.0;

pub fn run(bench: &mut Bench) -> Result<()> {
    let others = bench.scale.waiting / EVENTS;
    let mut home = Home::open(bench, "waiting")?;
    let asleep = asleep()?;
    home.people(0..others, THEIR_LIST, &mut || Ok((true, asleep.clone())))?;
    home.people(others..others + CHANGES, OWN_LIST, &mut || Ok((true, asleep.clone())))?;
    for event in 1..=EVENTS {
        ensure!(home.event(event, THEIR_LIST)? == 0, "everything of others waits");
    }
    ensure!(home.event(EVENTS + 1, OWN_LIST)? == 0, "everything waits");
    let (mut records, mut times) = (0, Vec::with_capacity(CHANGES as usize));
    for user in (others..others + CHANGES).map(UserNo) {
        let began = Instant::now();
        records = records.max(change(&mut home, user)?);
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (median, worst) = (ms(times[times.len() / 2]), ms(times[times.len() - 1]));
    let what = format!("a preference change beside {} waiting deliveries of other users", others * EVENTS);
    let row = Row::new("waiting", format!("{what}, records"), "none").fact("records", records as f64, "");
    bench.report.add(row.at_most(GOAL_RECORDS, records as f64, ""));
    let row = Row::new("waiting", format!("{what}, leader time"), "none")
        .fact("median", median, " ms")
        .fact("worst", worst, " ms");
    bench.report.add(row.at_most(GOAL_MS, worst, " ms"));
    Ok(())
}

/// Changes what a user prefers, and re-evaluates what waits for it. Returns how many records that took.
fn change(home: &mut Home, user: UserNo) -> Result<usize> {
    let now = EVENING.plus(1_000);
    let prefer = Prefer { instead_of: REVISION, source: "bench".into(), preferences: Preferences::default() };
    let ask = ShardAsk::Prefer { tenant: TENANT, user: Lookup(hash(user)), prefer: Box::new(prefer) };
    let (_, mut records) = home.ask(&ask, now)?;
    let mut from = None;
    loop {
        let (answer, more) = home.ask(&ShardAsk::Replan { tenant: TENANT, user, from }, now)?;
        records += more;
        match answer {
            ShardAnswer::Replanned { next: None } => break,
            ShardAnswer::Replanned { next } => from = next,
            other => bail!("the shard answered {other:?}"),
        }
    }
    ensure!(records > 2, "the change, what waits, and that it is done: {records} records");
    Ok(records)
}

/// Quiet hours that have begun.
fn asleep() -> Result<Preferences> {
    let times = Times { start_minute: 20 * 60, end_minute: 8 * 60 };
    let window = Window::new(times, Days::ALL).context("a window")?;
    let zone = ZoneNo::find("Europe/Berlin").context("a zone is not listed")?;
    Ok(Preferences { quiet: Some(Quiet { is_enabled: true, window, zone }), ..Preferences::default() })
}
