//! `fantail list`: users, topics, suppressions, erasures and notifications of a tenant.
//!
//! Comes from: the command line. Does: follows the cursors of the public API. Goes to: a line each, or JSON as it was answered.

use crate::caller::{answered, client_of, in_path};
use crate::cli::{ServerArgs, say};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::Value;

/// Entries that one request asks for: all lists give as many.
const PAGE: usize = 100;

#[derive(Subcommand, Debug)]
pub enum ListCommand {
    /// Users, or the one who has an address
    Users {
        #[arg(long, value_name = "ADDRESS", conflicts_with = "phone")]
        email: Option<String>,
        #[arg(long, value_name = "NUMBER")]
        phone: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Topics with their numbers of subscribers
    Topics {
        /// Only those that this user subscribes to
        #[arg(long, value_name = "ID")]
        user: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Addresses that nothing is sent to
    Suppressions {
        /// Only those with this reason: deadEndpoint, hardBounce, complaint, stop, manual
        #[arg(long, value_name = "REASON")]
        reason: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Erasures, the newest first
    Erasures {
        /// Only the one that a repeated request for this user is answered with
        #[arg(long, value_name = "ID")]
        user: Option<String>,
        #[command(flatten)]
        span: SpanArgs,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Notifications and events, the newest first
    Notifications {
        /// Only what named this user, or has a delivery to this user
        #[arg(long, value_name = "ID")]
        user: Option<String>,
        #[arg(long, value_name = "NAME")]
        category: Option<String>,
        #[command(flatten)]
        span: SpanArgs,
        #[command(flatten)]
        page: PageArgs,
    },
}

#[derive(Args, Debug)]
pub struct SpanArgs {
    /// From this time on, like 2026-06-10T21:00:00Z
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Up to this time, which is not included
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
}

#[derive(Args, Debug)]
pub struct PageArgs {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = PAGE)]
    pub limit: usize,
    /// Print them as JSON, one on each line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// A list of the API and its filters.
struct Listing<'a> {
    /// Of the path, and of the field in the answer.
    name: &'static str,
    filters: Vec<(&'static str, &'a Option<String>)>,
    page: &'a PageArgs,
    line: fn(&Value) -> String,
}

pub fn run(command: &ListCommand) -> Result<()> {
    let (name, line, filters, page): (_, fn(&Value) -> String, _, _) = match command {
        ListCommand::Users { email, phone, page } => {
            ("users", user, vec![("email", email), ("phone", phone)], page)
        }
        ListCommand::Topics { user, page } => ("topics", topic, vec![("user", user)], page),
        ListCommand::Suppressions { reason, page } => {
            ("suppressions", suppression, vec![("reason", reason)], page)
        }
        ListCommand::Erasures { user, span, page } => {
            ("erasures", erasure, vec![("user", user), ("from", &span.from), ("to", &span.to)], page)
        }
        ListCommand::Notifications { user, category, span, page } => {
            let span = [("from", &span.from), ("to", &span.to)];
            let filters = [("user", user), ("category", category)].into_iter().chain(span).collect();
            ("notifications", notification, filters, page)
        }
    };
    print(&Listing { name, filters, page, line })
}

fn print(listing: &Listing<'_>) -> Result<()> {
    let mut client = client_of(&listing.page.server)?;
    let given = listing.filters.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let filters: String = given.map(|(name, value)| format!("&{name}={}", in_path(value))).collect();
    let (mut left, mut cursor) = (listing.page.limit, String::new());
    while left > 0 {
        let path = format!("/api/v1/{}?limit={}{filters}{cursor}", listing.name, left.min(PAGE));
        let page: Value = serde_json::from_slice(&answered(client.get(&path), 200)?.body)?;
        let entries = page[listing.name].as_array().context("the answer is no list")?;
        left = left.saturating_sub(entries.len());
        for entry in entries {
            if listing.page.json { say(entry)? } else { say((listing.line)(entry))? }
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={}", in_path(next)),
            None => break,
        }
    }
    Ok(())
}

/// Fields of an entry, those that it has.
fn fields(entry: &Value, names: &[&str]) -> String {
    let texts = names.iter().filter_map(|name| match &entry[*name] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    });
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("  ")
}

fn user(entry: &Value) -> String {
    let channels = entry["channels"].as_array().into_iter().flatten();
    let channels = channels.map(|one| format!("  {}: {}", text(&one["channel"]), text(&one["status"])));
    fields(entry, &["userId", "email", "phone"]) + &channels.collect::<String>()
}

fn topic(entry: &Value) -> String {
    fields(entry, &["topic", "subscriberCount"])
}

fn suppression(entry: &Value) -> String {
    fields(entry, &["addressHash", "reason", "since", "channel", "address", "userId"])
}

fn erasure(entry: &Value) -> String {
    fields(entry, &["erasureId", "state", "requestedAt", "completedAt"])
}

fn notification(entry: &Value) -> String {
    let mut line = fields(entry, &["eventId", "createdAt", "status", "type", "category", "notificationId"]);
    for channel in entry["channels"].as_array().into_iter().flatten() {
        let counts = channel["counts"].as_object().into_iter().flatten();
        let counts: String = counts.map(|(state, count)| format!(" {count} {state}")).collect();
        line.push_str(&format!("  {}:{counts}", text(&channel["channel"])));
    }
    line
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_are_told_in_a_line() {
        let ann = json!({"userId": "ann", "email": "ann@example.com", "phone": null, "attributes": {"a": 1},
            "channels": [{"channel": "email", "status": "active"}]});
        assert_eq!(user(&ann), "ann  ann@example.com  email: active");
        assert_eq!(topic(&json!({"topic": "news", "subscriberCount": 5})), "news  5");
        let unknown = json!({"addressHash": "5d41", "reason": "stop", "since": "2026-01-01T00:00:00.000Z"});
        assert_eq!(suppression(&unknown), "5d41  stop  2026-01-01T00:00:00.000Z");
        let sent = json!({"eventId": "01KG", "createdAt": "2026-01-01T00:00:00.000Z", "status": "done",
            "type": "notification", "category": "orders", "notificationId": "n1",
            "channels": [{"channel": "push", "counts": {"sent": 2, "failed": 1}}]});
        let line = "01KG  2026-01-01T00:00:00.000Z  done  notification  orders  n1  push: 1 failed 2 sent";
        assert_eq!(notification(&sent), line);
    }
}
