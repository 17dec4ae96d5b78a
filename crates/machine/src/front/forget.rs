//! Forgetting: idempotency keys outside the window and events past retention, a bounded number at a time. What
//! could still be sent stays until its time to live is over, however short the retention is.
//!
//! Comes from: the leader's housekeeping. Decides: which rows are past their time now.
//! Goes to: a `Forgotten` record that names them, so that apply needs no clock.

use super::{FrontAnswer, Plan};
use crate::Planned;
use crate::records::front::FrontRecord;
use crate::tables::usage::{self, Balance};
use crate::tables::{event, idempotency, scheduled, walk};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::admit::Bucket;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::knobs::StepSizes;
use fantail_rules::ulid::Ulid;

const DAY_MS: u64 = 86_400_000;
/// Shards expire their entries first; events stay a little longer than anything that points at them.
const GRACE_DAYS: u64 = 2;

pub(super) fn plan(
    view: &View<'_>,
    (tenant, retention_days): (TenantId, u32),
    now: Millis,
    steps: &StepSizes,
) -> Result<Plan, TablesError> {
    let outdated = idempotency::outdated(view, tenant, Bucket::oldest_kept(now), steps.forgotten_rows)?;
    let (bucket, keys) = outdated.unwrap_or((Bucket(0), Vec::new()));
    let age_ms = (u64::from(retention_days) + GRACE_DAYS) * DAY_MS;
    let ago = |ms: u64| Millis(now.0.saturating_sub(ms));
    // Events that live longer than the retention are looked at again and again until they have ended.
    let limit = event::Limit { rows: steps.forgotten_looked_at, events: steps.forgotten_rows };
    let outdated = event::outdated(view, tenant, ago(age_ms), ago(GRACE_DAYS * DAY_MS), limit)?;
    let events = bounded(outdated, steps.forgotten_rows);
    if keys.is_empty() && events.is_empty() {
        return Ok(Planned::nothing(FrontAnswer::Forgot { more: false }));
    }
    // A record holds keys of one bucket: another one may be due, and only asking again tells.
    let record = FrontRecord::Forgotten { tenant, bucket, keys, events };
    Ok(Planned::one(record, FrontAnswer::Forgot { more: true }))
}

/// The first events whose rows, with the content of single recipients, one record can delete.
fn bounded(outdated: Vec<(Ulid, u64)>, rows_max: usize) -> Vec<Ulid> {
    let mut rows = 0;
    let mut fits = |personal: u64| {
        let is_first = rows == 0;
        rows += 1 + personal;
        is_first || rows <= 2 * rows_max as u64
    };
    outdated.into_iter().take_while(|(_, personal)| fits(*personal)).map(|(event, _)| event).collect()
}

pub(super) fn apply(
    view: &mut View<'_>,
    tenant: TenantId,
    bucket: Bucket,
    keys: &[[u8; 16]],
    events: &[Ulid],
) -> Result<(), TablesError> {
    keys.iter().for_each(|key| view.delete(idempotency::key(tenant, bucket, key)));
    let mut balance = Balance::default();
    for event in events {
        let Some(row) = event::find(view, tenant, *event)? else { continue };
        balance.remove(None, usage::weight_of_event(&row));
        if row.personal > 0 {
            for (key, weight) in event::personal_rows(view, tenant, *event)? {
                balance.remove(None, weight);
                view.delete(key);
            }
        }
        if let Some(cancellation) = &row.options.cancellation {
            view.delete(scheduled::cancellation_key(tenant, cancellation, *event));
        }
        walk::drop_bulk(view, tenant, *event)?;
        view.delete(event::key(tenant, *event));
    }
    balance.write(view, tenant)
}
