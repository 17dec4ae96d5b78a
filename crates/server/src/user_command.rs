//! `fantail user`: erases a user of a tenant, and shows how far an erasure is.

use crate::caller::{TenantArgs, answer_of, in_path, show, tenant_client_of};
use anyhow::Result;
use clap::{Args, Subcommand};
use fantail_wire::erasure::{Erasure, ErasureState};
use serde_json::json;

#[derive(Subcommand, Debug)]
pub enum UserCommand {
    /// Erase a user: gone for everybody with the answer, and everywhere when the erasure is completed
    #[command(after_help = "Example: fantail user erase ann --tenant shop")]
    Erase(EraseArgs),
    /// Show an erasure: how far it is, and what was removed
    #[command(after_help = "Example: fantail user erasure 01KG3Z7Q9M5V8X2B4N6C1D0E3F --tenant shop")]
    Erasure(ErasureArgs),
}

#[derive(Args, Debug)]
pub struct EraseArgs {
    /// Your id of the user
    pub user: String,
    #[command(flatten)]
    pub common: TenantArgs,
}

#[derive(Args, Debug)]
pub struct ErasureArgs {
    /// As `erase` printed it
    pub erasure: String,
    #[command(flatten)]
    pub common: TenantArgs,
}

pub fn run(command: &UserCommand) -> Result<()> {
    match command {
        UserCommand::Erase(EraseArgs { user, common }) => {
            let response = tenant_client_of(common)?.post("/api/v1/erasures", &json!({"userId": user}));
            show(&answer_of::<Erasure>(response, 202)?, common.json, described)
        }
        UserCommand::Erasure(ErasureArgs { erasure, common }) => {
            let path = format!("/api/v1/erasures/{}", in_path(erasure));
            show(&answer_of::<Erasure>(tenant_client_of(common)?.get(&path), 200)?, common.json, described)
        }
    }
}

fn described(erasure: &Erasure) -> String {
    let Erasure { erasure_id, state, requested_at, completed_at, removed } = erasure;
    let mut text = match (state, completed_at) {
        (ErasureState::Completed, Some(at)) => format!("{erasure_id}: completed {at}"),
        (ErasureState::Completed, None) => format!("{erasure_id}: completed"),
        (ErasureState::Running, _) => format!("{erasure_id}: running since {requested_at}"),
    };
    for (store, count) in removed.iter().filter(|(_, count)| **count > 0) {
        text.push_str(&format!("\n{store}: {count} removed"));
    }
    text
}
