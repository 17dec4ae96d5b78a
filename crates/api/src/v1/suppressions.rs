//! The suppression list: addresses that nothing is sent to, whoever has them.

use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use fantail_node::ask::SuppressionAsk;
use fantail_rules::address::{self, Address};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::TenantId;
use fantail_rules::suppression::Reason;
use fantail_wire::device::{Suppression, SuppressionPut, SuppressionReason};

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    show(tenant, &call, target_of(&call)?).await
}

pub async fn put(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (kind, address) = target_of(&call)?;
    let put: SuppressionPut = call.json_or_default()?;
    let ask = SuppressionAsk { kind, identity: address.identity.clone() };
    call.node.suppress(tenant, &ask, stored(put.reason)).await?;
    show(tenant, &call, (kind, address)).await
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (kind, address) = target_of(&call)?;
    call.node.unsuppress(tenant, &SuppressionAsk { kind, identity: address.identity }).await?;
    Ok(Reply::no_content())
}

async fn show(
    tenant: TenantId,
    call: &Call,
    (kind, address): (ChannelKind, Address),
) -> Result<Reply, Problem> {
    let ask = SuppressionAsk { kind, identity: address.identity };
    let found = call.node.suppression(tenant, &ask).await?;
    let answer = Suppression {
        channel: kind.name().to_owned(),
        address: address.text,
        reason: shown(found.reason),
        since: time::text(found.since),
    };
    Ok(Reply::json(200, &answer))
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

fn shown(reason: Reason) -> SuppressionReason {
    match reason {
        Reason::DeadEndpoint => SuppressionReason::DeadEndpoint,
        Reason::HardBounce => SuppressionReason::HardBounce,
        Reason::Complaint => SuppressionReason::Complaint,
        Reason::Stop => SuppressionReason::Stop,
        Reason::Manual => SuppressionReason::Manual,
    }
}
