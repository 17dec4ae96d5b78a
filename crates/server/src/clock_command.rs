//! `fantail clock accept`: an operator says that the machine's clock is right.

use crate::cli::{ClockCommand, say};
use crate::client::{Client, Request};
use crate::config::process_environment;
use crate::provision::{admin_file, read_key};
use anyhow::{Context, Result, ensure};
use fantail_wire::health::ClockAccepted;

pub fn run(command: &ClockCommand) -> Result<()> {
    let ClockCommand::Accept(server) = command;
    let file = admin_file(&server.data);
    let key = match process_environment("FANTAIL_ADMIN_KEY") {
        Some(key) => key,
        None => read_key(&file)?.with_context(|| {
            format!("no admin key in {}: give --data or FANTAIL_ADMIN_KEY", file.display())
        })?,
    };
    let mut client = Client::to(&server.server).with_key(&key);
    let request = Request { method: "POST", path: "/api/v1/clock/accept", headers: &[], body: &[] };
    let response = client.send(&request).context("cannot reach the server")?;
    ensure!(response.status == 200, "the server answered {}: {}", response.status, response.text());
    let accepted: ClockAccepted = serde_json::from_slice(&response.body)?;
    say(format_args!("the server goes by {} now, {} s from before", accepted.now, accepted.offset_seconds))
}
