//! `fantail key`: creates, lists and revokes keys of a tenant of the running server, with the server's admin key.

use crate::caller::{admin_client_of, answer_of, answered, in_path, show};
use crate::cli::{ServerArgs, say};
use crate::client::Request;
use anyhow::Result;
use clap::{Args, Subcommand};
use fantail_wire::tenant::{Key, KeyCreated, Keys};
use serde_json::json;

#[derive(Subcommand, Debug)]
pub enum KeyCommand {
    /// Create a key; the secret is printed this once
    #[command(
        after_help = "Example: fantail key create --tenant shop --scope notifications:write --scope users:write"
    )]
    Create(CreateArgs),
    /// List the keys of a tenant, without their secrets
    #[command(after_help = "Example: fantail key list --tenant shop")]
    List(KeysArgs),
    /// Revoke a key, from the next request on
    #[command(after_help = "Example: fantail key revoke HuaR0EShwJWS --tenant shop")]
    Revoke(RevokeArgs),
}

#[derive(Args, Debug)]
pub struct CreateArgs {
    /// What the key may do, may be given several times; docs/tenants.md lists all scopes
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    pub scopes: Vec<String>,
    /// When it ends, like 2027-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    pub expires: Option<String>,
    #[command(flatten)]
    pub common: KeysArgs,
}

#[derive(Args, Debug)]
pub struct RevokeArgs {
    /// Its id, as the list shows it
    pub key: String,
    #[command(flatten)]
    pub common: KeysArgs,
}

#[derive(Args, Debug)]
pub struct KeysArgs {
    /// Whose keys
    #[arg(long, value_name = "SLUG", default_value = "default")]
    pub tenant: String,
    /// Print answers as JSON, one on each line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

pub fn run(command: &KeyCommand) -> Result<()> {
    match command {
        KeyCommand::Create(args) => create(args),
        KeyCommand::List(args) => {
            let response = admin_client_of(&args.server)?.get(&path_of(args));
            let found: Keys = answer_of(response, 200)?;
            found.keys.iter().try_for_each(|key| show(key, args.json, line_of))
        }
        KeyCommand::Revoke(args) => {
            let path = format!("{}/{}", path_of(&args.common), in_path(&args.key));
            let request = Request { method: "DELETE", path: &path, headers: &[], body: &[] };
            answered(admin_client_of(&args.common.server)?.send(&request), 204)?;
            say(format_args!("{} is revoked", args.key))
        }
    }
}

fn path_of(args: &KeysArgs) -> String {
    format!("/api/v1/tenants/{}/keys", in_path(&args.tenant))
}

fn create(args: &CreateArgs) -> Result<()> {
    let mut body = json!({"scopes": args.scopes});
    if let Some(expires) = &args.expires {
        body["expiresAt"] = json!(expires);
    }
    let response = admin_client_of(&args.common.server)?.post(&path_of(&args.common), &body);
    let text = |created: &KeyCreated| {
        let KeyCreated { key_id, key, scopes, .. } = created;
        format!("{key}\nid {key_id}, scopes {}; the line above is not shown again", scopes.join(", "))
    };
    show(&answer_of::<KeyCreated>(response, 201)?, args.common.json, text)
}

fn line_of(key: &Key) -> String {
    let Key { key_id, scopes, created_at, expires_at, revoked_at, .. } = key;
    let mut line = format!("{key_id} created {created_at}");
    if let Some(at) = expires_at {
        line.push_str(&format!(", expires {at}"));
    }
    if let Some(at) = revoked_at {
        line.push_str(&format!(", revoked {at}"));
    }
    line.push_str(&format!(": {}", scopes.join(", ")));
    line
}
