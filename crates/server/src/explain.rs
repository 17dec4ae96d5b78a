//! `fantail explain`: the story of one delivery, from the running server.

use crate::cli::{ExplainArgs, say};
use crate::client::{Client, Request};
use crate::config::process_environment;
use crate::provision::{default_file, read_key};
use anyhow::{Context, Result, ensure};

pub fn run(args: &ExplainArgs) -> Result<()> {
    let file = default_file(&args.server.data);
    let key = match process_environment("FANTAIL_KEY") {
        Some(key) => key,
        None => read_key(&file)?
            .with_context(|| format!("no key in {}: give --data or FANTAIL_KEY", file.display()))?,
    };
    let mut client = Client::to(&args.server.server).with_key(&key);
    let encode = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let path =
        format!("/api/v1/notifications/{}/explain?user={}", encode(&args.notification), encode(&args.user));
    let request = Request { method: "GET", path: &path, headers: &[], body: &[] };
    let response = client.send(&request).context("cannot reach the server")?;
    ensure!(response.status == 200, "the server answered {}: {}", response.status, response.text());
    let told: fantail_wire::notification::Explanation = serde_json::from_slice(&response.body)?;
    say(told.text)
}
