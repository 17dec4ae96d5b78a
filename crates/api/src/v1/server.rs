//! The server itself: how it is, and the end of a pause, see docs/backup.md.

use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use fantail_node::audit::notes::HOUSE;
use fantail_wire::code::Code;
use fantail_wire::health::ServerStatus;
use tracing::error;

pub async fn get(call: Call) -> Result<Reply, Problem> {
    status(&call)
}

/// What waited goes on. Again: nothing changes.
pub async fn resume(call: Call) -> Result<Reply, Problem> {
    let host = call.app.host().ok_or_else(starting)?;
    if host.paused().is_some() {
        // Before anything leaves: a resume cannot be without its trace.
        call.node.note(HOUSE, "server.resume", "").await?;
        if let Err(reason) = host.resume().await {
            error!(reason, request_id = call.request_id, "not resumed");
            return Err(Problem::new(Code::Internal, "the server is still paused, see its log"));
        }
    }
    status(&call)
}

fn status(call: &Call) -> Result<Reply, Problem> {
    let host = call.app.host().ok_or_else(starting)?;
    let version = call.app.settings.version.to_owned();
    Ok(Reply::json(200, &ServerStatus { version, paused: host.paused() }))
}

fn starting() -> Problem {
    Problem::new(Code::NotReady, "the server is starting")
}
