//! Webhooks to the producer: made, failing and well again, switched off and on, deleted.
//!
//! Comes from: the webhook API, and the loop that sends, when a receiver begins to fail, takes messages again, or fails
//! for too long.
//! Decides: whether there is such a webhook, and room for another one. Goes to: `control`, which everybody reads.

use crate::Planned;
use crate::records::difference::Difference;
use crate::records::root::{RootRecord, Tenant};
use crate::records::webhook::{WebhookPut, WebhookSwitched};
use crate::tables::webhook::{self, Since, WebhookRow};
use crate::tables::{get, put, root};
use crate::view::View;
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::WEBHOOKS_PER_TENANT_MAX;

#[derive(Clone, Debug)]
pub enum Ask {
    Put(WebhookPut),
    /// Another target, if it still is the one that the caller has seen.
    Retarget {
        tenant: TenantId,
        id: String,
        from: Sealed,
        to: Sealed,
    },
    /// `off`: why, or `None` to switch it on.
    Switch {
        tenant: TenantId,
        id: String,
        off: Option<String>,
    },
    /// Its receiver takes nothing from now on, or does again.
    Fail {
        tenant: TenantId,
        id: String,
        is_failing: bool,
    },
    Delete {
        tenant: TenantId,
        id: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Webhook(WebhookRow),
    Gone,
    UnknownTenant,
    Unknown,
    TooMany,
    /// Its target is not the one that the caller has seen.
    Changed,
}

pub(super) fn plan(
    view: &View<'_>,
    ask: Ask,
    now: Millis,
) -> Result<Planned<RootRecord, Answer>, TablesError> {
    match ask {
        Ask::Put(put) => plan_put(view, put, now),
        Ask::Retarget { tenant, id, from, to } => {
            match get::<WebhookRow>(view, &webhook::key(tenant, &id))?.map(|row| row.put) {
                None => Ok(Planned::nothing(Answer::Unknown)),
                Some(put) if put.target != from => Ok(Planned::nothing(Answer::Changed)),
                Some(put) => plan_put(view, WebhookPut { target: to, ..put }, now),
            }
        }
        Ask::Switch { tenant, id, off } => {
            let Some(known) = get::<WebhookRow>(view, &webhook::key(tenant, &id))? else {
                return Ok(Planned::nothing(Answer::Unknown));
            };
            if known.off.is_some() == off.is_some() {
                return Ok(Planned::nothing(Answer::Webhook(known)));
            }
            let row = WebhookRow { off: off.clone().map(|why| (why, now)), ..known.clone() };
            let difference = Difference::of(Some(&known), Some(&row));
            let record = RootRecord::WebhookSwitched(WebhookSwitched { tenant, id, off, difference });
            Ok(Planned::one(record, Answer::Webhook(row)))
        }
        Ask::Fail { tenant, id, is_failing } => {
            let Some(row) = get::<WebhookRow>(view, &webhook::key(tenant, &id))? else {
                return Ok(Planned::nothing(Answer::Unknown));
            };
            if webhook::failing_since(view, tenant, &id)?.is_some() == is_failing {
                return Ok(Planned::nothing(Answer::Webhook(row)));
            }
            let record = RootRecord::WebhookFailing { tenant, id, is_failing };
            Ok(Planned::one(record, Answer::Webhook(row)))
        }
        Ask::Delete { tenant, id } => {
            let found = get::<WebhookRow>(view, &webhook::key(tenant, &id))?;
            Ok(match found {
                None => Planned::nothing(Answer::Unknown),
                Some(known) => {
                    let difference = Difference::of(Some(&known), None);
                    Planned::one(RootRecord::WebhookGone { tenant, id, difference }, Answer::Gone)
                }
            })
        }
    }
}

fn plan_put(
    view: &View<'_>,
    put: WebhookPut,
    now: Millis,
) -> Result<Planned<RootRecord, Answer>, TablesError> {
    if get::<Tenant>(view, &root::tenant_key(put.tenant))?.is_none() {
        return Ok(Planned::nothing(Answer::UnknownTenant));
    }
    let known = get::<WebhookRow>(view, &webhook::key(put.tenant, &put.id))?;
    let count = webhook::of_tenant(view, put.tenant)?.len();
    if known.is_none() && count >= WEBHOOKS_PER_TENANT_MAX {
        return Ok(Planned::nothing(Answer::TooMany));
    }
    let row = row_after(known.as_ref(), &put, now);
    let difference = Difference::of(known.as_ref(), Some(&row));
    Ok(Planned::one(RootRecord::WebhookPut(put, difference), Answer::Webhook(row)))
}

/// One whose secret was replaced is as old as before, and off if it was.
fn row_after(known: Option<&WebhookRow>, put: &WebhookPut, at: Millis) -> WebhookRow {
    WebhookRow {
        put: put.clone(),
        created: known.map_or(at, |row| row.created),
        off: known.and_then(|row| row.off.clone()),
    }
}

pub(super) fn apply_put(view: &mut View<'_>, record: &WebhookPut, at: Millis) -> Result<(), TablesError> {
    let key = webhook::key(record.tenant, &record.id);
    let known = get::<WebhookRow>(view, &key)?;
    put(view, key, &row_after(known.as_ref(), record, at));
    Ok(())
}

pub(super) fn apply_switched(
    view: &mut View<'_>,
    record: &WebhookSwitched,
    at: Millis,
) -> Result<(), TablesError> {
    let key = webhook::key(record.tenant, &record.id);
    if let Some(mut row) = get::<WebhookRow>(view, &key)? {
        row.off = record.off.clone().map(|why| (why, at));
        put(view, key, &row);
    }
    // Whoever is switched on begins anew.
    apply_failing(view, (record.tenant, &record.id), false, at);
    Ok(())
}

pub(super) fn apply_failing(view: &mut View<'_>, webhook: (TenantId, &str), is_failing: bool, at: Millis) {
    let key = webhook::failing_key(webhook.0, webhook.1);
    if is_failing {
        put(view, key, &Since(at));
    } else {
        view.delete(key);
    }
}

pub(super) fn apply_gone(view: &mut View<'_>, tenant: TenantId, id: &str) {
    view.delete(webhook::key(tenant, id));
    view.delete(webhook::failing_key(tenant, id));
}
