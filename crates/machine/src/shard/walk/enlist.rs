//! Users are put on uploaded lists, and lists that nobody needs go.
//!
//! Comes from: an upload, in portions; and the leader's housekeeping. Decides: who of these exists here; which pages one
//! record can drop. Goes to: `Enlisted` and `Delisted`. Users who leave stay on it as a number that is never given again.

use super::{Answer, Plan, planned};
use crate::records::segment::UploadId;
use crate::records::walk::{Delisted, Enlisted, WalkRecord};
use crate::tables::segment;
use crate::tables::{put, user};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Lookup, Millis, TenantId, UserNo};
use fantail_rules::limits::ENLISTED_PER_RECORD_MAX;

pub(super) fn plan(
    view: &View<'_>,
    tenant: TenantId,
    list: UploadId,
    lookups: &[Lookup],
) -> Result<Plan, TablesError> {
    let mut users: Vec<UserNo> = Vec::with_capacity(lookups.len());
    let mut known = Vec::with_capacity(lookups.len());
    for lookup in lookups {
        let found = user::number(view, tenant, *lookup)?;
        known.push(found.is_some());
        users.extend(found);
    }
    users.sort_unstable();
    users.dedup();
    let records = users.chunks(ENLISTED_PER_RECORD_MAX).map(|users| {
        let users = users.to_vec();
        WalkRecord::Enlisted(Enlisted { tenant, list, users })
    });
    Ok(planned(records, Answer::Enlisted { known }))
}

/// Some pages at a time, a row each; says whether there are more.
pub(super) fn plan_drop(
    view: &View<'_>,
    tenant: TenantId,
    list: UploadId,
    pages_max: usize,
) -> Result<Plan, TablesError> {
    let pages = segment::pages(view, tenant, list, pages_max)?;
    let is_last = pages.len() < pages_max;
    let record = WalkRecord::Delisted(Delisted { tenant, list, pages, is_last });
    Ok(planned([record].into_iter(), Answer::Delisted { more: !is_last }))
}

pub(super) fn apply(view: &mut View<'_>, enlisted: &Enlisted, at: Millis) -> Result<(), TablesError> {
    let Enlisted { tenant, list, users } = enlisted;
    let mut row = segment::upload(view, *tenant, *list)?;
    row.members += segment::add(view, *tenant, *list, users)?;
    row.touched = at;
    put(view, segment::upload_key(*tenant, *list), &row);
    Ok(())
}

pub(super) fn apply_drop(view: &mut View<'_>, delisted: &Delisted) {
    let Delisted { tenant, list, pages, is_last } = delisted;
    pages.iter().for_each(|page| view.delete(segment::page_key(*tenant, *list, *page)));
    if *is_last {
        view.delete(segment::upload_key(*tenant, *list));
    }
}
