//! How commands reach the running server: its URL, a key, and answers that say no.
//!
//! Invariant: a key leaves this machine under TLS only, unless `--plain` says otherwise.

use crate::cli::ServerArgs;
use crate::client::{Client, Response};
use crate::config::of_command;
use crate::provision::{admin_file, default_file, read_key};
use crate::server_url::ServerUrl;
use anyhow::{Context, Result, ensure};

/// A client with the key that `FANTAIL_KEY` says, or the file of `FANTAIL_KEY_FILE`, or that of the tenant `default`.
pub fn client_of(server: &ServerArgs) -> Result<Client> {
    let file = default_file(&server.data);
    let key = match of_command("FANTAIL_KEY")? {
        Some(key) => key,
        None => read_key(&file)?
            .with_context(|| format!("no key in {}: give --data or FANTAIL_KEY", file.display()))?,
    };
    Ok(connect(server)?.with_key(&key))
}

/// A client with the server's own key: what `FANTAIL_ADMIN_KEY` says, or the file of `FANTAIL_ADMIN_KEY_FILE`, or the one in the data directory.
pub fn admin_client_of(server: &ServerArgs) -> Result<Client> {
    let file = admin_file(&server.data);
    let key = match of_command("FANTAIL_ADMIN_KEY")? {
        Some(key) => key,
        None => read_key(&file)?.with_context(|| {
            format!("no admin key in {}: give --data or FANTAIL_ADMIN_KEY", file.display())
        })?,
    };
    Ok(connect(server)?.with_key(&key))
}

fn connect(server: &ServerArgs) -> Result<Client> {
    let url: ServerUrl = server.server.parse()?;
    Client::at(&url, server.ca.as_deref(), server.plain)
}

/// A name as it stands in a path.
#[must_use]
pub fn in_path(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The answer, if it is of this kind; else what the server says about it.
pub fn answered(response: std::io::Result<Response>, status: u16) -> Result<Response> {
    let response = response.context("no answer from the server")?;
    ensure!(response.status == status, "the server answered {}: {}", response.status, response.text());
    Ok(response)
}
