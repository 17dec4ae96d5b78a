//! The sandbox as a program of its own, for interoperability tests: `sandbox SHARED_PORT DIRECTORY`.
//!
//! Writes one line of JSON that says where everything listens, and runs until its input ends, so that it never outlives
//! whoever started it.

use anyhow::Context;
use fantail_sandbox::{Options, Sandbox};
use serde_json::{Map, json};
use std::io::Write;
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let shared_port = arguments.next().context("which port?")?.parse().context("the port is no number")?;
    let directory = arguments.next().context("which directory?")?;
    let options = Options { shared_port, directory: Some(directory.into()), ..Options::default() };
    let running = Sandbox::start(options).await?;
    let places = running.places();
    let own: Map<_, _> =
        places.own.iter().map(|(name, address)| ((*name).to_owned(), address.to_string().into())).collect();
    let line =
        json!({"shared": places.shared.to_string(), "control": places.control.to_string(), "own": own});
    writeln!(std::io::stdout(), "{line}")?;
    let mut input = Vec::new();
    tokio::io::stdin().read_to_end(&mut input).await?;
    running.stop().await;
    Ok(())
}
