//! How commands reach the running server: its address, a tenant's key, and answers that say no.

use crate::cli::ServerArgs;
use crate::client::{Client, Response};
use crate::config::process_environment;
use crate::provision::{default_file, read_key};
use anyhow::{Context, Result, ensure};

/// A client with the key that `FANTAIL_KEY` says, or that of the tenant `default`.
pub fn client_of(server: &ServerArgs) -> Result<Client> {
    let file = default_file(&server.data);
    let key = match process_environment("FANTAIL_KEY") {
        Some(key) => key,
        None => read_key(&file)?
            .with_context(|| format!("no key in {}: give --data or FANTAIL_KEY", file.display()))?,
    };
    Ok(Client::to(&server.server).with_key(&key))
}

/// A name as it stands in a path.
#[must_use]
pub fn in_path(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The answer, if it is of this kind; else what the server says about it.
pub fn answered(response: std::io::Result<Response>, status: u16) -> Result<Response> {
    let response = response.context("cannot reach the server")?;
    ensure!(response.status == status, "the server answered {}: {}", response.status, response.text());
    Ok(response)
}
