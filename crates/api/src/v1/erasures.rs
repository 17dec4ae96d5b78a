//! Erasing users: asked for, and its receipt.

use crate::call::Call;
use crate::check::name_fault;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use fantail_node::erasures::{ErasureBegun, ErasureRow, Store};
use fantail_rules::ids::TenantId;
use fantail_rules::ulid::Ulid;
use fantail_wire::code::Code;
use fantail_wire::erasure::{Erasure, ErasureAsk, ErasureState};

pub async fn create(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let ErasureAsk { user_id } = call.json()?;
    if let Some(fault) = name_fault(&user_id) {
        return Err(Problem::field("/userId", fault));
    }
    let ErasureBegun { erasure, is_repeat } = call.node.erase(tenant, &user_id).await?;
    let row = call.node.erasure(tenant, erasure)?.ok_or_else(unknown)?;
    Ok(Reply::json(if is_repeat { 200 } else { 202 }, &shown(erasure, row)))
}

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let erasure = call.ulid("erasure").ok_or_else(unknown)?;
    let row = call.node.erasure(tenant, erasure)?.ok_or_else(unknown)?;
    Ok(Reply::json(200, &shown(erasure, row)))
}

fn unknown() -> Problem {
    Problem::new(Code::ErasureNotFound, "no such erasure")
}

/// Every store is named, also where there was nothing.
pub fn shown(erasure: Ulid, row: ErasureRow) -> Erasure {
    let count =
        |store: Store| row.removed.iter().find(|(known, _)| *known == store).map_or(0, |(_, count)| *count);
    Erasure {
        erasure_id: erasure.to_string(),
        state: if row.ended.is_some() { ErasureState::Completed } else { ErasureState::Running },
        requested_at: time::text(row.begun),
        completed_at: row.ended.map(time::text),
        removed: Store::ALL.into_iter().map(|store| (store.name().to_owned(), count(store))).collect(),
    }
}
