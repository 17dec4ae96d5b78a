//! `fantail dead-letter`: looks at what could not be delivered, tries it again or gives up on it.
//!
//! Invariant: a command that names nothing changes nothing; everything of a tenant needs `--all`.

use crate::caller::{TenantArgs, answer_of, in_path, show, tenant_client_of};
use crate::cli::say;
use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use fantail_wire::notification::{DeadLetter, DeadLetters, DeadLettersChanged};
use serde_json::{Map, Value, json};

/// Dead letters that the server is asked for at a time.
const PAGE: usize = 100;

#[derive(Subcommand, Debug)]
pub enum DeadLetterCommand {
    /// List dead letters
    #[command(after_help = "Example: fantail dead-letter list --limit 50")]
    List(ListArgs),
    /// Show all dead letters of one notification or event
    #[command(after_help = "Example: fantail dead-letter show order-42")]
    Show(ShowArgs),
    /// Try dead letters again
    #[command(after_help = "Example: fantail dead-letter redrive --notification order-42 --dry-run")]
    Redrive(ChangeArgs),
    /// Give up on dead letters
    #[command(after_help = "Example: fantail dead-letter drop --channel sms --code unreachable")]
    Drop(ChangeArgs),
}

#[derive(Args, Debug)]
pub struct ListArgs {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    #[command(flatten)]
    pub common: TenantArgs,
}

#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Its id, ours or yours
    pub notification: String,
    #[command(flatten)]
    pub common: TenantArgs,
}

#[derive(Args, Debug)]
pub struct ChangeArgs {
    /// Those of one notification or event, by its id, ours or yours
    #[arg(long, value_name = "ID")]
    pub notification: Option<String>,
    /// Those of one channel: push, email, sms, webhook
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Option<String>,
    /// Those that failed with this code
    #[arg(long, value_name = "CODE")]
    pub code: Option<String>,
    /// Those of this user, may be given several times
    #[arg(long = "user", value_name = "ID")]
    pub users: Vec<String>,
    /// All of the tenant
    #[arg(long, conflicts_with_all = ["notification", "channel", "code", "users"])]
    pub all: bool,
    /// Change nothing: say how many it would be
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub common: TenantArgs,
}

pub fn run(command: &DeadLetterCommand) -> Result<()> {
    match command {
        DeadLetterCommand::List(args) => print(args.limit, &args.common, |_| true).map(drop),
        DeadLetterCommand::Show(args) => {
            let name = args.notification.as_str();
            let is_of = |letter: &DeadLetter| {
                letter.event_id == name || letter.notification_id.as_deref() == Some(name)
            };
            let count = print(usize::MAX, &args.common, is_of)?;
            ensure!(count > 0, "no dead letter is of {name}");
            Ok(())
        }
        DeadLetterCommand::Redrive(args) => change(args, "redrive", "tried again"),
        DeadLetterCommand::Drop(args) => change(args, "drop", "dropped"),
    }
}

/// Reads page by page and prints what fits; how many that is.
fn print(limit: usize, args: &TenantArgs, fits: impl Fn(&DeadLetter) -> bool) -> Result<usize> {
    let mut client = tenant_client_of(args)?;
    let (mut count, mut cursor) = (0, String::new());
    while count < limit {
        let page = (limit - count).min(PAGE);
        let found: DeadLetters =
            answer_of(client.get(&format!("/api/v1/deadletters?limit={page}{cursor}")), 200)?;
        for letter in found.dead_letters.iter().filter(|letter| fits(letter)) {
            show(letter, args.json, line_of)?;
            count += 1;
        }
        match found.next_cursor {
            Some(next) => cursor = format!("&cursor={}", in_path(&next)),
            None => break,
        }
    }
    Ok(count)
}

fn line_of(letter: &DeadLetter) -> String {
    let DeadLetter { event_id, notification_id, channel, code, attempts, begun_at, .. } = letter;
    let name = notification_id.as_deref().unwrap_or("-");
    let user = match (letter.user_id.as_str(), &letter.address) {
        ("", Some(address)) => address,
        ("", None) => "a user who is gone",
        (user, _) => user,
    };
    let channel = channel.text();
    format!("{event_id} {name} for {user} by {channel}: {code} after {attempts} attempts, begun {begun_at}")
}

fn change(args: &ChangeArgs, word: &str, done: &str) -> Result<()> {
    let choice = choice_of(args)?;
    let response = tenant_client_of(&args.common)?.post(&format!("/api/v1/deadletters/{word}"), &choice);
    let changed: DeadLettersChanged = answer_of(response, 200)?;
    if args.common.json {
        return say(serde_json::to_string(&changed)?);
    }
    let count = changed.count;
    if changed.dry_run {
        say(format_args!("{count} dead letters would be {done}"))
    } else {
        say(format_args!("{count} dead letters are {done}"))
    }
}

fn choice_of(args: &ChangeArgs) -> Result<Value> {
    let ChangeArgs { notification, channel, code, users, .. } = args;
    let mut choice = Map::new();
    for (field, value) in [("notificationId", notification), ("channel", channel), ("code", code)] {
        if let Some(value) = value {
            choice.insert(field.to_owned(), json!(value));
        }
    }
    if !users.is_empty() {
        choice.insert("users".to_owned(), json!(users));
    }
    ensure!(
        args.all || !choice.is_empty(),
        "say which dead letters: --notification, --channel, --code or --user, or --all of the tenant"
    );
    choice.insert("dryRun".to_owned(), json!(args.dry_run));
    Ok(Value::Object(choice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        command: DeadLetterCommand,
    }

    fn choice(args: &[&str]) -> Option<Value> {
        let all = ["dead-letter", "drop"].iter().chain(args);
        match Cli::try_parse_from(all).ok()?.command {
            DeadLetterCommand::Drop(args) => choice_of(&args).ok(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_names_nothing_changes_nothing() {
        for (args, expected) in [
            (&[][..], None),
            (&["--dry-run"], None),
            (&["--all", "--code", "x"], None),
            (&["--all"], Some(json!({"dryRun": false}))),
            (&["--all", "--dry-run"], Some(json!({"dryRun": true}))),
            (
                &["--notification", "n", "--channel", "sms", "--code", "c", "--user", "a", "--user", "b"],
                Some(
                    json!({"notificationId": "n", "channel": "sms", "code": "c", "users": ["a", "b"], "dryRun": false}),
                ),
            ),
        ] {
            assert_eq!(choice(args), expected, "{args:?}");
        }
    }
}
