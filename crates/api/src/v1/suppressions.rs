//! The suppression list: addresses that nothing is sent to, whoever has them.

use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use fantail_node::ask::{Refusal, SuppressionAsk, SuppressionView};
use fantail_rules::address::{self, Address};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{AddressHash, TenantId};
use fantail_rules::suppression::Reason;
use fantail_wire::device::{Suppression, SuppressionPut, SuppressionReason};

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (kind, address) = target_of(&call)?;
    let found = find(tenant, &call, kind, &address).await?;
    Ok(reply(kind, address, found))
}

pub async fn put(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (kind, address) = target_of(&call)?;
    let put: SuppressionPut = call.json_or_default()?;
    let ask = SuppressionAsk { kind, identity: address.identity.clone() };
    let reason = stored(put.reason);
    let is_told = call.node.suppress(tenant, &ask, reason).await?;
    let found = match find(tenant, &call, kind, &address).await {
        // Deleted right after it was put: shown as it was put.
        Err(Refusal::NotSuppressed) => SuppressionView {
            hash: call.node.suppression_hash(tenant, &ask)?,
            reason,
            since: call.node.wall(),
        },
        found => found?,
    };
    let reply = reply(kind, address, found);
    Ok(if is_told { reply } else { reply.accepted() })
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (kind, address) = target_of(&call)?;
    call.node.unsuppress(tenant, &SuppressionAsk { kind, identity: address.identity }).await?;
    Ok(Reply::no_content())
}

async fn find(
    tenant: TenantId,
    call: &Call,
    kind: ChannelKind,
    address: &Address,
) -> Result<SuppressionView, Refusal> {
    call.node.suppression(tenant, &SuppressionAsk { kind, identity: address.identity.clone() }).await
}

fn reply(kind: ChannelKind, address: Address, found: SuppressionView) -> Reply {
    let answer = Suppression {
        address_hash: hash_text(found.hash),
        channel: kind.name().to_owned(),
        address: address.text,
        reason: shown(found.reason),
        since: time::text(found.since),
    };
    Reply::json(200, &answer)
}

/// The address that a path names.
pub fn target_of(call: &Call) -> Result<(ChannelKind, Address), Problem> {
    let kind = ChannelKind::parse(call.param("channel")).filter(|kind| *kind != ChannelKind::InApp);
    let Some(kind) = kind else {
        return Err(Problem::field("/channel", "must be push, email, sms or webhook"));
    };
    let address = address::read(kind, call.param("address"));
    Ok((kind, address.map_err(|fault| Problem::field("/address", fault))?))
}

fn stored(reason: SuppressionReason) -> Reason {
    match reason {
        SuppressionReason::DeadEndpoint => Reason::DeadEndpoint,
        SuppressionReason::HardBounce => Reason::HardBounce,
        SuppressionReason::Complaint => Reason::Complaint,
        SuppressionReason::Stop => Reason::Stop,
        SuppressionReason::Manual => Reason::Manual,
    }
}

/// The keyed hash of an address, as entries of the list show it.
pub fn hash_text(hash: AddressHash) -> String {
    format!("{hash:?}")
}

pub fn shown(reason: Reason) -> SuppressionReason {
    match reason {
        Reason::DeadEndpoint => SuppressionReason::DeadEndpoint,
        Reason::HardBounce => SuppressionReason::HardBounce,
        Reason::Complaint => SuppressionReason::Complaint,
        Reason::Stop => SuppressionReason::Stop,
        Reason::Manual => SuppressionReason::Manual,
    }
}
