//! `fantail tenant`: creates, lists, shows and deletes tenants of the running server, with its admin key.

use crate::caller::{admin_client_of, answer_of, in_path, show};
use crate::cli::ServerArgs;
use crate::client::Request;
use anyhow::Result;
use clap::{Args, Subcommand};
use fantail_wire::tenant::{Tenant, TenantDeletion, Tenants};
use serde_json::json;

#[derive(Subcommand, Debug)]
pub enum TenantCommand {
    /// Create a tenant
    #[command(after_help = "Example: fantail tenant create shop --name 'The Shop'")]
    Create(CreateArgs),
    /// List all tenants with what they have
    #[command(after_help = "Example: fantail tenant list")]
    List(TenantsArgs),
    /// Show a tenant with its limits and what it has
    #[command(after_help = "Example: fantail tenant show shop")]
    Show(OneTenantArgs),
    /// Delete a tenant with everything that is its own. There is no way back
    #[command(after_help = "Example: fantail tenant delete shop --confirm shop")]
    Delete(DeleteArgs),
}

#[derive(Args, Debug)]
pub struct CreateArgs {
    /// Its name in paths and headers: lower-case letters, digits and inner hyphens, at most 63
    pub slug: String,
    /// As it is shown; the slug if left out
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    #[command(flatten)]
    pub common: TenantsArgs,
}

#[derive(Args, Debug)]
pub struct OneTenantArgs {
    /// Its name in paths and headers
    pub slug: String,
    #[command(flatten)]
    pub common: TenantsArgs,
}

#[derive(Args, Debug)]
pub struct DeleteArgs {
    #[command(flatten)]
    pub tenant: OneTenantArgs,
    /// The slug once more, so that nothing is deleted by mistake
    #[arg(long, value_name = "SLUG")]
    pub confirm: String,
}

#[derive(Args, Debug)]
pub struct TenantsArgs {
    /// Print answers as JSON, one on each line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

pub fn run(command: &TenantCommand) -> Result<()> {
    match command {
        TenantCommand::Create(args) => create(args),
        TenantCommand::List(args) => list(args),
        TenantCommand::Show(args) => {
            let OneTenantArgs { slug, common } = args;
            let response = admin_client_of(&common.server)?.get(&path_of(slug));
            show(&answer_of::<Tenant>(response, 200)?, common.json, described)
        }
        TenantCommand::Delete(DeleteArgs { tenant: OneTenantArgs { slug, common }, confirm }) => {
            let path = format!("{}?confirm={}", path_of(slug), in_path(confirm));
            let request = Request { method: "DELETE", path: &path, headers: &[], body: &[] };
            let response = admin_client_of(&common.server)?.send(&request);
            show(&answer_of::<Tenant>(response, 202)?, common.json, line_of)
        }
    }
}

fn path_of(slug: &str) -> String {
    format!("/api/v1/tenants/{}", in_path(slug))
}

fn create(args: &CreateArgs) -> Result<()> {
    let mut body = json!({"slug": args.slug});
    if let Some(name) = &args.name {
        body["name"] = json!(name);
    }
    let response = admin_client_of(&args.common.server)?.post("/api/v1/tenants", &body);
    show(&answer_of::<Tenant>(response, 201)?, args.common.json, line_of)
}

fn list(args: &TenantsArgs) -> Result<()> {
    let response = admin_client_of(&args.server)?.get("/api/v1/tenants");
    let found: Tenants = answer_of(response, 200)?;
    found.tenants.iter().try_for_each(|tenant| show(tenant, args.json, line_of))
}

fn line_of(tenant: &Tenant) -> String {
    let Tenant { slug, name, usage, created_at, .. } = tenant;
    if let Some(TenantDeletion { requested_at, removed_rows }) = &tenant.deletion {
        return format!(
            "{slug} \"{name}\" is being deleted since {requested_at}: {removed_rows} rows are removed"
        );
    }
    let (users, devices, bytes) = (usage.users, usage.devices, usage.stored_bytes);
    format!("{slug} \"{name}\" created {created_at}: {users} users, {devices} devices, {bytes} bytes")
}

fn described(tenant: &Tenant) -> String {
    let Tenant { retention_days, celebrity_threshold, rate_limit, quota, usage, .. } = tenant;
    let rate = match rate_limit {
        None => "as the server's settings say".to_owned(),
        Some(rate) if rate.per_second == 0 => "no limit".to_owned(),
        Some(rate) => {
            let burst = rate.burst.unwrap_or(rate.per_second);
            format!("{} in a second, {burst} at once", rate.per_second)
        }
    };
    let mut text = line_of(tenant);
    text.push_str(&format!("\nretention: {retention_days} days"));
    text.push_str(&format!("\ncelebrity threshold: {celebrity_threshold} followers"));
    text.push_str(&format!("\nrate: {rate}"));
    for (name, used, limit) in [
        ("users", usage.users, quota.users),
        ("devices", usage.devices, quota.devices),
        ("schedules", usage.schedules, quota.schedules),
        ("waiting", usage.waiting, quota.waiting),
        ("stored bytes", usage.stored_bytes, quota.stored_bytes),
    ] {
        let limit = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("at most {limit}"));
        text.push_str(&format!("\n{name}: {used}, {limit}"));
    }
    text
}
