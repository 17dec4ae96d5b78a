//! `fantail resume`: a server on a restored data directory sends again.

use crate::caller::{admin_client_of, answered};
use crate::cli::{ServerArgs, say};
use crate::client::Request;
use anyhow::{Result, ensure};
use fantail_wire::health::ServerStatus;

pub fn run(server: &ServerArgs) -> Result<()> {
    let mut client = admin_client_of(server)?;
    let request = Request { method: "POST", path: "/api/v1/server/resume", headers: &[], body: &[] };
    let response = answered(client.send(&request), 200)?;
    let status: ServerStatus = serde_json::from_slice(&response.body)?;
    ensure!(status.paused.is_none(), "the server is still paused");
    say("the server sends")
}
