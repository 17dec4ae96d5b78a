//! What follows and subscriptions share: one edge, many edges, pages of names.

use crate::call::Call;
use crate::cursor::{self, Owner};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::v1::batch;
use fantail_node::ask::{EdgeAsk, EdgeChange, Names};
use fantail_rules::ids::TenantId;
use fantail_wire::list::EdgesChanged;

/// Makes one edge so. Again: nothing changes, and that is no error.
pub async fn change_one(
    tenant: TenantId,
    call: &Call,
    change: EdgeChange,
    edge: EdgeAsk,
) -> Result<Reply, Problem> {
    charge(call, tenant, change, 1)?;
    let results = call.node.edit_lists(tenant, change, vec![edge]).await;
    results.into_iter().next().expect("one result per edge")?;
    Ok(Reply::no_content())
}

pub async fn change_many(
    tenant: TenantId,
    call: &Call,
    change: EdgeChange,
    edges: Vec<EdgeAsk>,
) -> Result<Reply, Problem> {
    charge(call, tenant, change, edges.len())?;
    let results = call.node.edit_lists(tenant, change, edges).await;
    if let Some(problem) = batch::refused_as_one(&results) {
        return Err(problem);
    }
    let mut answer = EdgesChanged { changed: 0, unchanged: 0, errors: Vec::new() };
    for (index, result) in results.into_iter().enumerate() {
        match result {
            Ok(true) => answer.changed += 1,
            Ok(false) => answer.unchanged += 1,
            Err(refusal) => answer.errors.push(batch::item_error(index, refusal)),
        }
    }
    Ok(Reply::json(200, &answer))
}

/// Commands that make room are free.
fn charge(call: &Call, tenant: TenantId, change: EdgeChange, edges: usize) -> Result<(), Problem> {
    match change {
        EdgeChange::Join => Ok(call.spend_import(tenant, edges)?),
        EdgeChange::Leave => Ok(()),
    }
}

/// The node's own cursor inside the caller's.
pub fn place_of(call: &Call, owner: Owner<'_>) -> Result<Option<String>, Problem> {
    let Some(text) = call.query.get("cursor") else { return Ok(None) };
    match cursor::to_names(owner, text) {
        Some(place) => Ok(Some(place)),
        None => Err(Problem::field("/cursor", "not a cursor of this list")),
    }
}

pub fn next_cursor(owner: Owner<'_>, names: &Names) -> Option<String> {
    names.next.as_deref().map(|place| cursor::of_names(owner, place))
}
