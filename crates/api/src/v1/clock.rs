//! An operator confirms a clock that the server does not believe: see docs/runbooks/clock.md.

use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use fantail_wire::health::ClockAccepted;

pub async fn accept(call: Call) -> Result<Reply, Problem> {
    let accepted = call.node.accept_clock();
    let offset_seconds = accepted.map_or(0, |jump| jump.offset_ms() / 1_000);
    Ok(Reply::json(200, &ClockAccepted { now: time::text(call.node.wall()), offset_seconds }))
}
