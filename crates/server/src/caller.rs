//! How commands reach the running server: its URL, a key, and answers that say no.
//!
//! Invariant: a key leaves this machine under TLS only, unless `--plain` says otherwise.

use crate::cli::{ServerArgs, say};
use crate::client::{Client, Response};
use crate::config::of_command;
use crate::problem_text::{NoAnswer, ServerRefusal};
use crate::provision::{admin_file, default_file, read_key};
use crate::server_url::ServerUrl;
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// For which tenant a command acts, where the running server is, and how answers are printed.
#[derive(Args, Clone, Debug)]
pub struct TenantArgs {
    /// Act for this tenant with the server's admin key; otherwise FANTAIL_KEY acts, or the key of the tenant `default`
    #[arg(long, value_name = "SLUG")]
    pub tenant: Option<String>,
    /// Print answers as JSON, one on each line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

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

/// A client that acts for a tenant: with the server's own key if the tenant is named, else with a key of a tenant.
pub fn tenant_client_of(args: &TenantArgs) -> Result<Client> {
    match &args.tenant {
        Some(slug) => Ok(admin_client_of(&args.server)?.with_header("fantail-tenant", slug)),
        None => client_of(&args.server),
    }
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
    let response = response.map_err(NoAnswer)?;
    if response.status != status {
        return Err(ServerRefusal::of(&response).into());
    }
    Ok(response)
}

/// What the answer says, if it is of this kind.
pub fn answer_of<T: DeserializeOwned>(response: std::io::Result<Response>, status: u16) -> Result<T> {
    Ok(serde_json::from_slice(&answered(response, status)?.body)?)
}

/// Prints an answer as JSON or as text.
pub fn show<T: Serialize>(answer: &T, json: bool, text: impl FnOnce(&T) -> String) -> Result<()> {
    if json { say(serde_json::to_string(answer)?) } else { say(text(answer)) }
}
