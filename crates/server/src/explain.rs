//! `fantail explain`: the story of one delivery, from the running server.

use crate::caller::{answered, client_of, in_path};
use crate::cli::{ExplainArgs, say};
use anyhow::Result;

pub fn run(args: &ExplainArgs) -> Result<()> {
    let (notification, user) = (in_path(&args.notification), in_path(&args.user));
    let path = format!("/api/v1/notifications/{notification}/explain?user={user}");
    let response = answered(client_of(&args.server)?.get(&path), 200)?;
    let told: fantail_wire::notification::Explanation = serde_json::from_slice(&response.body)?;
    say(told.text)
}
