//! One post by an account with a million followers: it must cost as much as any other post, and a follower must
//! see it about as soon as it is durable.

use super::fsync::Probe;
use super::{ensure_pointers, wait_until_shown};
use crate::Bench;
use crate::event::{event_json, spread};
use crate::http::Connection;
use crate::people::{self, Follow, Imported};
use crate::quantiles::{Samples, Summary};
use crate::report::{FSYNC_BEFORE_200, FSYNC_BEFORE_202, Row};
use crate::scrape::Reading;
use crate::server::Server;
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

const CELEBRITY: u64 = 0;
/// Rest between posts, so that each is measured alone.
const REST: Duration = Duration::from_millis(20);
/// A post to a million may cost at most this many times a post to one user: its bytes do not grow with the list.
const BYTES_RATIO_MAX: f64 = 2.0;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let server = bench.serve("celebrity").await?;
    let followers = bench.scale.celebrity_followers;
    let users = people::import_users(&server.target, followers).await?;
    add_import(bench, "users", users);
    let follows = (0..followers).map(|user| Follow { user, actor: CELEBRITY }).collect();
    let follows = people::import_follows(&server.target, follows).await?;
    add_import(bench, "follows of one actor", follows);
    server.settle().await?;
    let everyone = format!(r#"{{"followersOf":"{}"}}"#, people::actor(CELEBRITY));
    let before = server.metrics().await?;
    let posts = post_many(bench, &server, "celebrity", |_| everyone.clone()).await?;
    ensure_pointers(&before, &server.metrics().await?)?;
    let direct = |user: &str| format!(r#"{{"users":["{user}"]}}"#);
    let single = post_many(bench, &server, "single", direct).await?;
    add_bytes(bench, &posts, &single);
    add_visible(bench, &format!("post to {followers} followers"), posts);
    add_visible(bench, "post to 1 user, for comparison", single);
    server.stop().await
}

fn add_import(bench: &mut Bench, what: &str, imported: Imported) {
    let row = Row::new("celebrity", format!("import of {what}, batches of 10,000"), FSYNC_BEFORE_200)
        .fact("rate", imported.per_second(), "/s")
        .fact("count", imported.count as f64, "")
        .fact("in", imported.elapsed.as_secs_f64(), " s");
    bench.report.add(row);
}

#[derive(Default)]
struct Posts {
    accepted: Samples,
    visible: Samples,
    /// The raw disk around these posts.
    fsync: Summary,
    journal_bytes_each: Option<f64>,
    /// Everything the process wrote, sync points included.
    written_bytes_each: Option<f64>,
}

/// Posts one event after the other, each read by another follower. `audience` is asked with that follower's name.
async fn post_many(
    bench: &Bench,
    server: &Server,
    name: &str,
    audience: impl Fn(&str) -> String,
) -> Result<Posts> {
    let count = bench.scale.celebrity_posts;
    let (metrics, usage) = (server.metrics().await?, server.usage()?);
    let probe = Probe::before(bench)?;
    let mut writer = Connection::open(server.address).await?;
    let mut reader = Connection::open(server.address).await?;
    let mut posts = Posts::default();
    for number in 0..count {
        let user = people::user(spread(number) % bench.scale.celebrity_followers);
        let title = format!("{name} {number:06}");
        let body = event_json(&format!("/bench/{name}"), &number.to_string(), &audience(&user), &title);
        let request = server.target.send("POST", "/api/v1/events", body.as_bytes());
        let began = Instant::now();
        let seen = wait_until_shown(&mut reader, &server.target, &user, &title);
        let (accepted, seen) = tokio::join!(accept(&mut writer, &request), seen);
        posts.accepted.record(accepted? - began);
        posts.visible.record(seen? - began);
        tokio::time::sleep(REST).await;
    }
    posts.fsync = probe.after(bench)?;
    server.settle().await?;
    let (metrics_after, usage_after) = (server.metrics().await?, server.usage()?);
    let each = |total: f64| total / count as f64;
    posts.journal_bytes_each = metrics_after.since(&metrics, Reading::JournalBytes).map(each);
    let written = usage_after.written_bytes.zip(usage.written_bytes);
    posts.written_bytes_each = written.map(|(after, before)| each((after - before) as f64));
    Ok(posts)
}

async fn accept(writer: &mut Connection, request: &[u8]) -> Result<Instant> {
    writer.exchange(request).await?.expect(202).context("a post was not accepted")?;
    Ok(Instant::now())
}

fn add_bytes(bench: &mut Bench, posts: &Posts, single: &Posts) {
    let ratio = posts.journal_bytes_each.zip(single.journal_bytes_each).map(|(many, one)| many / one);
    let mut row = Row::new("celebrity", "bytes written for one post", FSYNC_BEFORE_202)
        .fact("journal", posts.journal_bytes_each, " B")
        .fact("journal, post to 1 user", single.journal_bytes_each, " B")
        .fact("all files", posts.written_bytes_each, " B")
        .fact("all files, post to 1 user", single.written_bytes_each, " B")
        .note("no inbox entry");
    if let Some(ratio) = ratio {
        row = row.at_most(BYTES_RATIO_MAX, ratio, "× of a post to 1 user");
    }
    bench.report.add(row);
}

fn add_visible(bench: &mut Bench, what: &str, posts: Posts) {
    let (accepted, visible) = (posts.accepted.summarise(), posts.visible.summarise());
    let goal = 6.0 * posts.fsync.p99_ms + 10.0;
    let row = Row::new("celebrity", format!("{what}: until a follower's GET shows it"), FSYNC_BEFORE_202)
        .fact("p50", visible.p50_ms, " ms")
        .fact("p99", visible.p99_ms, " ms")
        .fact("max", visible.max_ms, " ms")
        .fact("202 p50", accepted.p50_ms, " ms")
        .fact("202 p99", accepted.p99_ms, " ms")
        .fact("raw fsync p50", posts.fsync.p50_ms, " ms")
        .fact("raw fsync p99", posts.fsync.p99_ms, " ms")
        .fact("posts", visible.count as f64, "")
        .at_most(goal, visible.p99_ms, " ms p99 (6 × fsync p99 + 10)");
    bench.report.add(row);
}
