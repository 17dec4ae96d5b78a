//! How far a webhook to the producer has told of this shard's records.
//!
//! Comes from: the loop that sends, once everything through a record was taken by the receiver; and a replay, which goes
//! back; and a webhook that is gone. Decides: whether the place is still where the loop began, so that it does not undo a
//! replay or the end. Goes to: `Told`, which the loop goes on from after a crash, and `Untold`.

use super::{Plan, ShardAnswer};
use crate::Planned;
use crate::records::shard::ShardRecord;
use crate::records::webhook::Told;
use crate::tables::put;
use crate::tables::webhook::{self, Through};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Position, TenantId};

/// `from`: where the webhook must be for this; `None`: wherever it is.
pub(super) fn plan(view: &View<'_>, told: Told, from: Option<Position>) -> Result<Plan, TablesError> {
    let now = webhook::told(view, told.tenant, &told.webhook)?;
    if now == Some(told.through) || (from.is_some() && now != from) {
        return Ok(Planned::nothing(ShardAnswer::Noted));
    }
    Ok(Planned::one(ShardRecord::Told(told), ShardAnswer::Noted))
}

pub(super) fn plan_untell(view: &View<'_>, tenant: TenantId, webhook: String) -> Result<Plan, TablesError> {
    Ok(match webhook::told(view, tenant, &webhook)? {
        Some(_) => Planned::one(ShardRecord::Untold { tenant, webhook }, ShardAnswer::Noted),
        None => Planned::nothing(ShardAnswer::Noted),
    })
}

pub(super) fn apply_untold(view: &mut View<'_>, tenant: TenantId, webhook: &str) {
    view.delete(webhook::told_key(tenant, webhook));
}

pub(super) fn apply(view: &mut View<'_>, told: &Told) {
    put(view, webhook::told_key(told.tenant, &told.webhook), &Through(told.through));
}
