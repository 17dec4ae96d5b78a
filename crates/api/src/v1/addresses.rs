//! Users without a name: whoever was reached by an address alone, forgotten by that address.

use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::v1::suppressions::target_of;
use fantail_node::ask::Refusal;
use fantail_rules::ids::TenantId;
use fantail_rules::nameless;

/// As a user is deleted by its id. Whoever has the address and a name is somebody else and stays; so does what the list of
/// suppressed addresses says, which is a hash.
pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (kind, address) = target_of(&call)?;
    let gone = call.node.delete_user(tenant, &nameless::name(kind, &address.identity)).await;
    gone.map_err(|refusal| match refusal {
        Refusal::UnknownUser { .. } => Refusal::UnknownUser { user: nameless::masked(&address.identity) },
        other => other,
    })?;
    Ok(Reply::no_content())
}
