//! `fantail clock accept`: an operator says that the machine's clock is right.

use crate::caller::{admin_client_of, answered};
use crate::cli::{ClockCommand, say};
use crate::client::Request;
use anyhow::Result;
use fantail_wire::health::ClockAccepted;

pub fn run(command: &ClockCommand) -> Result<()> {
    let ClockCommand::Accept(server) = command;
    let mut client = admin_client_of(server)?;
    let request = Request { method: "POST", path: "/api/v1/clock/accept", headers: &[], body: &[] };
    let response = answered(client.send(&request), 200)?;
    let accepted: ClockAccepted = serde_json::from_slice(&response.body)?;
    say(format_args!("the server goes by {} now, {} s from before", accepted.now, accepted.offset_seconds))
}
