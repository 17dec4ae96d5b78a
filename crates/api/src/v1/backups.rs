//! Backups while serving: the server writes a verified copy inside its data directory; the command line moves it.
//! The caller does not choose the directory, so that a key never writes anywhere else on the machine.

use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use fantail_node::audit::notes::HOUSE;
use fantail_wire::code::Code;
use tracing::error;

/// The word for a backup without keys.
pub const NO_KEYS: &str = "none";

pub async fn create(call: Call) -> Result<Reply, Problem> {
    let has_keys = match call.query.get("keys") {
        None => true,
        Some(NO_KEYS) => false,
        Some(_) => return Err(Problem::field("/keys", format!("must be {NO_KEYS}, or left out"))),
    };
    let host = call.app.host().ok_or_else(|| Problem::new(Code::NotReady, "the server is starting"))?;
    // Before the copy: it holds its own trace.
    call.node.note(HOUSE, "backup.create", "").await?;
    match host.backup(has_keys).await {
        Ok(backup) => Ok(Reply::json(201, &backup)),
        Err(reason) => {
            error!(reason, request_id = call.request_id, "backup failed");
            Err(Problem::new(Code::Internal, "the backup failed, see the server's log"))
        }
    }
}
