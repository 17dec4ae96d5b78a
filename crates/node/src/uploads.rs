//! Uploaded lists that belong to nothing any more go: replaced, of a segment that is gone, or of an upload that never ended.
//!
//! Comes from: housekeeping. Decides: what is needed: by a segment, or by a bulk send that is not over here, whatever became of its
//! segment since it was asked for. Goes to: `machine::shard::walk`.
//!
//! What must never happen: a list that goes while a walk will go by it, however far ahead it is scheduled.

use crate::ask::Refusal;
use crate::core::{Core, answer, answer_when_there_is_room, internal};
use crate::take::HOUSE;
use fantail_machine::front::{FrontAnswer, FrontAsk};
use fantail_machine::records::segment::UploadId;
use fantail_machine::shard::{ShardAnswer, ShardAsk, walk};
use fantail_machine::tables::event::{self, EventRow};
use fantail_machine::tables::walk as rows;
use fantail_machine::tables::{segment, taken};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Millis, PartitionId, ShardNo, TenantId};
use fantail_rules::limits::SEGMENTS_PER_TENANT_MAX;
use fantail_rules::ulid::Ulid;
use std::sync::PoisonError;
use tracing::info;

/// An upload that was not finished by then never will be.
const UPLOAD_MS_MAX: u64 = 24 * 3_600_000;

/// Drops what one shard has of the lists that nothing needs.
pub async fn tidy(core: &Core, tenant: TenantId, shard: ShardNo) -> Result<(), Refusal> {
    let now = core.ports.clock.wall();
    let uploads = core.read(PartitionId::Shard(shard), |view| segment::uploads(view.tables(), tenant))?;
    let old = uploads.into_iter().filter(|(_, row)| now.since(row.touched) >= UPLOAD_MS_MAX);
    let mut old: Vec<UploadId> = old.map(|(list, _)| list).collect();
    if old.is_empty() {
        return Ok(());
    }
    let kept = core.read(PartitionId::Root, |view| {
        segment::of_tenant(view.tables(), tenant, None, SEGMENTS_PER_TENANT_MAX)
    })?;
    old.retain(|list| !kept.iter().any(|row| row.list.is_some_and(|kept| kept.id == *list)));
    if old.is_empty() {
        return Ok(());
    }
    settle(core, tenant).await?;
    for list in old {
        if !is_walked(core, tenant, shard, list)? {
            drop_list(core, tenant, shard, list).await?;
        }
    }
    Ok(())
}

/// On return, whatever was asked for while its segment had another list can be read from its front: nobody is between reading
/// the segment and asking, and what was asked before is answered.
async fn settle(core: &Core, tenant: TenantId) -> Result<(), Refusal> {
    drop(core.naming.write().unwrap_or_else(PoisonError::into_inner));
    for front in core.fronts.values() {
        // Nothing was accepted under this key; a tenant's asks are answered in their order.
        let ask = FrontAsk::Recall { tenant, key: [0; 16], body: [0; 16] };
        match answer(front.queue.push(tenant, &Actor::System, vec![ask], 64)).await? {
            FrontAnswer::Unheard => {}
            _ => return Err(internal("the front answered something else")),
        }
    }
    Ok(())
}

/// Whether some bulk send goes by it here, or will.
fn is_walked(core: &Core, tenant: TenantId, shard: ShardNo, list: UploadId) -> Result<bool, Refusal> {
    let now = core.ports.clock.wall();
    for front in core.fronts.keys() {
        let events = core.read(PartitionId::Front(*front), |view| {
            let mut open = Vec::new();
            for event in rows::by_list(view.tables(), tenant, list)? {
                let row = event::find(view.tables(), tenant, event)?;
                open.extend(row.filter(|row| may_be_sent(row, now)).map(|_| event));
            }
            Ok(open)
        })?;
        for event in events {
            if !is_over(core, tenant, shard, event)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn may_be_sent(row: &EventRow, now: Millis) -> bool {
    let is_in_time = row.delivery.is_some_and(|delivery| now < delivery.terms.expires_at);
    is_in_time && !row.cancelled && !row.retracted
}

/// Whether its walk has ended here. One that has not begun has not.
fn is_over(core: &Core, tenant: TenantId, shard: ShardNo, event: Ulid) -> Result<bool, Refusal> {
    let row = core.read(PartitionId::Shard(shard), |view| {
        let Some((arrival, _)) = taken::arrival_of(view.tables(), tenant, event)? else { return Ok(None) };
        rows::find(view.tables(), tenant, arrival)
    })?;
    Ok(row.is_some_and(|row| row.is_over()))
}

async fn drop_list(core: &Core, tenant: TenantId, shard: ShardNo, list: UploadId) -> Result<(), Refusal> {
    let queue = &core.shard(shard).queue;
    loop {
        let ask = || ShardAsk::Walk(walk::Ask::Delist { tenant, list });
        let push = || queue.push(HOUSE, &Actor::System, vec![ask()], 4_096);
        match answer_when_there_is_room(&core.ports, push).await? {
            ShardAnswer::Walk(walk::Answer::Delisted { more: true }) => {}
            ShardAnswer::Walk(_) => break,
            _ => return Err(internal("the shard answered something else")),
        }
    }
    info!(%shard, "an uploaded list that nothing needs was dropped");
    Ok(())
}
