//! `fantail bulk`: makes, lists, watches and steers bulk sends of the running server.
//!
//! Comes from: the command line. Does: speaks the public API, nothing else, so whatever it can do a program can do. Goes to: the
//! terminal as a bar that moves, a pipe as lines, or JSON as it was answered.

use crate::bulk_progress::{Screen, line_of};
use crate::caller::{answered, client_of, in_path};
use crate::cli::{ServerArgs, say};
use crate::client::{Client, Request};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use fantail_wire::bulk::{Bulk, BulkAccepted, BulkEstimate, BulkStatus, Bulks};
use serde_json::{Map, Value, json};
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

/// How often a bulk send is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const BODY_BYTES_MAX: u64 = 4 << 20;

#[derive(Subcommand, Debug)]
pub enum BulkCommand {
    /// Send to everybody whom a segment chooses, or say what that would come to (--estimate)
    Create(Box<CreateArgs>),
    /// List bulk sends, the newest first
    List(ListArgs),
    /// Follow one until it is done or called off
    Watch(BulkArgs),
    /// Pass nobody else until it is resumed
    Pause(BulkArgs),
    /// Go on
    Resume(BulkArgs),
    /// Call off what was not sent
    Cancel(BulkArgs),
    /// Give it another pace; without one, as fast as possible
    Rate(RateArgs),
}

#[derive(Args, Debug)]
pub struct CreateArgs {
    /// Who is meant
    #[arg(long, value_name = "NAME", required_unless_present = "file")]
    pub segment: Option<String>,
    /// Your name for it: the same one again sends nothing twice
    #[arg(long, value_name = "NAME")]
    pub id: Option<String>,
    /// How it leaves, may be given several times: inApp, push, email, sms, webhook
    #[arg(long = "channel", value_name = "CHANNEL")]
    pub channels: Vec<String>,
    #[arg(long, value_name = "NAME")]
    pub category: Option<String>,
    /// What is told
    #[arg(long, value_name = "TEXT", conflicts_with = "template")]
    pub title: Option<String>,
    #[arg(long, value_name = "TEXT", requires = "title")]
    pub body: Option<String>,
    /// Or the template that says it
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    #[command(flatten)]
    pub pace: PaceArgs,
    /// When it begins, like 2026-06-10T21:00:00Z
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// The whole request as JSON, as the API takes it; `-` reads it from standard input. Flags come before what it says
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Send nothing: say how many it would be for, and when it would be done
    #[arg(long, conflicts_with = "watch")]
    pub estimate: bool,
    /// Follow it once it is accepted
    #[arg(long)]
    pub watch: bool,
    /// Print answers as JSON, one on each line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Args, Clone, Copy, Debug)]
pub struct PaceArgs {
    /// So many recipients in a second, at most
    #[arg(long, value_name = "N", conflicts_with = "over_minutes")]
    pub per_second: Option<u32>,
    /// Evenly over so many minutes
    #[arg(long, value_name = "N")]
    pub over_minutes: Option<u32>,
}

#[derive(Args, Debug)]
pub struct ListArgs {
    /// Only those that are so
    #[arg(long, value_enum)]
    pub status: Option<Status>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Print them as JSON, one on each line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Args, Debug)]
pub struct BulkArgs {
    /// Its id, ours or yours
    pub bulk: String,
    /// Print answers as JSON, one on each line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Args, Debug)]
pub struct RateArgs {
    #[command(flatten)]
    pub pace: PaceArgs,
    #[command(flatten)]
    pub bulk: BulkArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Status {
    Scheduled,
    Running,
    Paused,
    Sending,
    Done,
    Cancelled,
}

pub fn run(command: &BulkCommand) -> Result<()> {
    match command {
        BulkCommand::Create(args) => create(args),
        BulkCommand::List(args) => list(args),
        BulkCommand::Watch(args) => watch(&mut client_of(&args.server)?, &args.bulk, args.json),
        BulkCommand::Pause(args) => steer(args, "pause"),
        BulkCommand::Resume(args) => steer(args, "resume"),
        BulkCommand::Cancel(args) => steer(args, "cancel"),
        BulkCommand::Rate(args) => {
            let mut body = Map::new();
            paced(&mut body, args.pace);
            let path = path_of(&args.bulk.bulk, "");
            let response = client_of(&args.bulk.server)?.json("PATCH", &path, &Value::Object(body));
            show(&serde_json::from_slice(&answered(response, 200)?.body)?, args.bulk.json)
        }
    }
}

fn path_of(bulk: &str, word: &str) -> String {
    let end = if word.is_empty() { String::new() } else { format!("/{word}") };
    format!("/api/v1/notifications/bulk/{}{end}", in_path(bulk))
}

fn create(args: &CreateArgs) -> Result<()> {
    let body = Value::Object(request(args)?);
    let mut client = client_of(&args.server)?;
    if args.estimate {
        let response = answered(client.post("/api/v1/notifications/bulk/estimate", &body), 200)?;
        let estimate: BulkEstimate = serde_json::from_slice(&response.body)?;
        return if args.json { say(serde_json::to_string(&estimate)?) } else { say(estimated(&estimate)) };
    }
    let response = answered(client.post("/api/v1/notifications/bulk", &body), 202)?;
    let is_repeat = response.header("idempotent-replayed").is_some();
    let accepted: BulkAccepted = serde_json::from_slice(&response.body)?;
    if args.json {
        say(serde_json::to_string(&accepted)?)?;
    } else {
        let how = if is_repeat { "was accepted before" } else { "is accepted" };
        say(format_args!("{} {how}: {}", accepted.notification_id, accepted.event_id))?;
    }
    if args.watch { watch(&mut client, &accepted.event_id, args.json) } else { Ok(()) }
}

/// What the file says, with what the flags say in its place.
fn request(args: &CreateArgs) -> Result<Map<String, Value>> {
    let mut body = match &args.file {
        None => Map::new(),
        Some(file) => {
            let text = read(file).with_context(|| format!("cannot read {}", file.display()))?;
            match serde_json::from_str(&text).with_context(|| format!("{} is no JSON", file.display()))? {
                Value::Object(body) => body,
                _ => bail!("{} is no JSON object", file.display()),
            }
        }
    };
    if let Some(segment) = &args.segment {
        let query = body.entry("recipientQuery").or_insert_with(|| json!({}));
        query
            .as_object_mut()
            .context("recipientQuery is no object")?
            .insert("segment".into(), json!(segment));
    }
    for (field, value) in
        [("notificationId", &args.id), ("category", &args.category), ("templateId", &args.template)]
    {
        if let Some(value) = value {
            body.insert(field.to_owned(), json!(value));
        }
    }
    if !args.channels.is_empty() {
        body.insert("channels".to_owned(), json!(args.channels));
    }
    if let Some(title) = &args.title {
        let mut content = json!({"title": title});
        if let Some(text) = &args.body {
            content["body"] = json!(text);
        }
        body.insert("content".to_owned(), content);
    }
    if let Some(at) = &args.at {
        let options = body.entry("options").or_insert_with(|| json!({}));
        options.as_object_mut().context("options are no object")?.insert("scheduledAt".into(), json!(at));
    }
    paced(&mut body, args.pace);
    Ok(body)
}

fn paced(body: &mut Map<String, Value>, pace: PaceArgs) {
    let PaceArgs { per_second, over_minutes } = pace;
    for (field, other, value) in [
        ("ratePerSecond", "spreadOverMinutes", per_second),
        ("spreadOverMinutes", "ratePerSecond", over_minutes),
    ] {
        if let Some(value) = value {
            body.remove(other);
            body.insert(field.to_owned(), json!(value));
        }
    }
}

fn read(file: &PathBuf) -> Result<String> {
    let mut text = String::new();
    let count = if file.as_os_str() == "-" {
        std::io::stdin().take(BODY_BYTES_MAX + 1).read_to_string(&mut text)?
    } else {
        std::fs::File::open(file)?.take(BODY_BYTES_MAX + 1).read_to_string(&mut text)?
    };
    ensure!(count as u64 <= BODY_BYTES_MAX, "it has more than {BODY_BYTES_MAX} bytes");
    Ok(text)
}

fn estimated(estimate: &BulkEstimate) -> String {
    let about = if estimate.exact { "" } else { "about " };
    let mut text = format!("{about}{} of {} users are chosen", estimate.audience, estimate.users);
    for (channel, by) in &estimate.channels {
        text.push_str(&format!("\n{channel}: {about}{} would be told", by.recipients));
        for (reason, count) in &by.suppressed {
            text.push_str(&format!(", {count} {reason}"));
        }
    }
    text.push_str(&format!("\ndone by {}", estimate.finishes_at));
    text
}

fn list(args: &ListArgs) -> Result<()> {
    let mut client = client_of(&args.server)?;
    let status = args.status.map(|status| format!("&status={}", word(status))).unwrap_or_default();
    let (mut left, mut cursor) = (args.limit, String::new());
    while left > 0 {
        let path = format!("/api/v1/notifications/bulk?limit={}{status}{cursor}", left.min(100));
        let page: Bulks = serde_json::from_slice(&answered(client.get(&path), 200)?.body)?;
        left = left.saturating_sub(page.bulks.len());
        for bulk in &page.bulks {
            show(bulk, args.json)?;
        }
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={}", in_path(&next)),
            None => break,
        }
    }
    Ok(())
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Scheduled => "scheduled",
        Status::Running => "running",
        Status::Paused => "paused",
        Status::Sending => "sending",
        Status::Done => "done",
        Status::Cancelled => "cancelled",
    }
}

fn steer(args: &BulkArgs, word: &str) -> Result<()> {
    let path = path_of(&args.bulk, word);
    let request = Request { method: "POST", path: &path, headers: &[], body: &[] };
    let response = client_of(&args.server)?.send(&request);
    show(&serde_json::from_slice(&answered(response, 200)?.body)?, args.json)
}

fn show(bulk: &Bulk, json: bool) -> Result<()> {
    if json { say(serde_json::to_string(bulk)?) } else { say(line_of(bulk)) }
}

/// Looks until nothing more happens on its own. What is piped gets a line when something has changed.
fn watch(client: &mut Client, bulk: &str, json: bool) -> Result<()> {
    let mut screen = (!json && std::io::stdout().is_terminal()).then(Screen::default);
    let mut last = String::new();
    loop {
        let response = answered(client.get(&path_of(bulk, "")), 200)?;
        let found: Bulk = serde_json::from_slice(&response.body)?;
        let is_over = is_over(&found);
        match &mut screen {
            Some(screen) => screen.draw(&found, is_over)?,
            None => {
                let line = if json { serde_json::to_string(&found)? } else { line_of(&found) };
                if line != last {
                    say(&line)?;
                    last = line;
                }
            }
        }
        if is_over {
            return Ok(());
        }
        // A command has one thread, and nothing to be woken for before.
        std::thread::park_timeout(LOOK_EVERY);
    }
}

fn is_over(bulk: &Bulk) -> bool {
    match bulk.status {
        BulkStatus::Done => true,
        BulkStatus::Cancelled => bulk.channels.iter().all(|channel| channel.done),
        BulkStatus::Scheduled | BulkStatus::Running | BulkStatus::Paused | BulkStatus::Sending => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        command: BulkCommand,
    }

    fn body(args: &[&str]) -> Value {
        let all = ["bulk", "create"].iter().chain(args);
        match Cli::try_parse_from(all).expect("a command").command {
            BulkCommand::Create(args) => Value::Object(request(&args).expect("a request")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_become_the_request() {
        assert_eq!(
            body(&["--segment", "vips", "--channel", "push", "--title", "Sale", "--per-second", "5"]),
            json!({"recipientQuery": {"segment": "vips"}, "channels": ["push"], "content": {"title": "Sale"},
                "ratePerSecond": 5})
        );
        assert_eq!(
            body(&["--segment", "vips", "--template", "sale", "--at", "2026-06-10T21:00:00Z", "--id", "x"]),
            json!({"recipientQuery": {"segment": "vips"}, "templateId": "sale", "notificationId": "x",
                "options": {"scheduledAt": "2026-06-10T21:00:00Z"}})
        );
        for wrong in [
            vec!["bulk", "create", "--channel", "push"],
            vec!["bulk", "create", "--segment", "a", "--per-second", "1", "--over-minutes", "1"],
            vec!["bulk", "create", "--segment", "a", "--body", "text without a title"],
        ] {
            assert!(Cli::try_parse_from(&wrong).is_err(), "{wrong:?}");
        }
    }
}
