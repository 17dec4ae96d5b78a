//! Segments: made, changed, given a list, deleted.
//!
//! Comes from: the segment API, with a filter that was understood, or with an upload that all shards have. Decides: whether
//! there is such a segment, and room for another one. Goes to: bulk sends and events, which read it when they are accepted.

use crate::Planned;
use crate::records::difference::Difference;
use crate::records::root::{RootRecord, Tenant};
use crate::records::segment::{SegmentListed, SegmentPut, UploadId};
use crate::tables::segment::{self, SegmentList, SegmentRow};
use crate::tables::{get, put, root};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::SEGMENTS_PER_TENANT_MAX;

#[derive(Clone, Debug)]
pub enum Ask {
    Put(SegmentPut),
    /// A list that all shards have takes the place of the one before.
    List {
        tenant: TenantId,
        name: String,
        list: UploadId,
        members: u64,
    },
    Delete {
        tenant: TenantId,
        name: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Segment { row: SegmentRow, is_new: bool },
    Gone,
    UnknownTenant,
    Unknown,
    TooMany,
}

pub(super) fn plan(
    view: &View<'_>,
    ask: Ask,
    now: Millis,
) -> Result<Planned<RootRecord, Answer>, TablesError> {
    match ask {
        Ask::Put(put) => plan_put(view, put, now),
        Ask::List { tenant, name, list, members } => {
            let Some(known) = segment::find(view, tenant, &name)? else {
                return Ok(Planned::nothing(Answer::Unknown));
            };
            let uploaded = SegmentList { id: list, members, uploaded: now };
            let row = SegmentRow { list: Some(uploaded), updated: now, ..known.clone() };
            let difference = Difference::of(Some(&known), Some(&row));
            let listed = SegmentListed { tenant, name, list, members, difference };
            Ok(Planned::one(RootRecord::SegmentListed(listed), Answer::Segment { row, is_new: false }))
        }
        Ask::Delete { tenant, name } => Ok(match segment::find(view, tenant, &name)? {
            None => Planned::nothing(Answer::Unknown),
            Some(known) => {
                let difference = Difference::of(Some(&known), None);
                Planned::one(RootRecord::SegmentGone { tenant, id: name, difference }, Answer::Gone)
            }
        }),
    }
}

fn plan_put(
    view: &View<'_>,
    put: SegmentPut,
    now: Millis,
) -> Result<Planned<RootRecord, Answer>, TablesError> {
    if get::<Tenant>(view, &root::tenant_key(put.tenant))?.is_none() {
        return Ok(Planned::nothing(Answer::UnknownTenant));
    }
    let known = segment::find(view, put.tenant, &put.name)?;
    if known.is_none() {
        let others = segment::of_tenant(view, put.tenant, None, SEGMENTS_PER_TENANT_MAX)?;
        if others.len() >= SEGMENTS_PER_TENANT_MAX {
            return Ok(Planned::nothing(Answer::TooMany));
        }
    }
    let row = changed(known.as_ref(), put.clone(), now);
    if known.as_ref().is_some_and(|known| known.put == put) {
        return Ok(Planned::nothing(Answer::Segment { row, is_new: false }));
    }
    let difference = Difference::of(known.as_ref(), Some(&row));
    let answer = Answer::Segment { row, is_new: known.is_none() };
    Ok(Planned::one(RootRecord::SegmentPut(put, difference), answer))
}

/// The list stays when the filter changes.
fn changed(known: Option<&SegmentRow>, put: SegmentPut, at: Millis) -> SegmentRow {
    let (created, list) = known.map_or((at, None), |known| (known.created, known.list));
    SegmentRow { put, created, updated: at, list }
}

pub(super) fn apply_put(view: &mut View<'_>, record: &SegmentPut, at: Millis) -> Result<(), TablesError> {
    let known = segment::find(view, record.tenant, &record.name)?;
    let row = changed(known.as_ref(), record.clone(), at);
    put(view, segment::key(record.tenant, &record.name), &row);
    Ok(())
}

pub(super) fn apply_listed(
    view: &mut View<'_>,
    record: &SegmentListed,
    at: Millis,
) -> Result<(), TablesError> {
    let SegmentListed { tenant, name, list, members, .. } = record;
    if let Some(known) = segment::find(view, *tenant, name)? {
        let list = Some(SegmentList { id: *list, members: *members, uploaded: at });
        put(view, segment::key(*tenant, name), &SegmentRow { list, updated: at, ..known });
    }
    Ok(())
}

pub(super) fn apply_gone(view: &mut View<'_>, tenant: TenantId, name: &str) {
    view.delete(segment::key(tenant, name));
}
