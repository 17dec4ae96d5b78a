//! Notifications and events of a tenant, the newest first; those of a category, or to one user.
//!
//! Which users an event was for is known in the shards: by name if the request named them, otherwise by the deliveries that are
//! kept. So a page about one user looks at fewer events than other pages do.

use super::{ids, most};
use crate::ask::{NotificationStatus, Priority, Refusal};
use crate::core::Core;
use crate::deliveries;
use crate::inbox::name_in;
use crate::node::Node;
use crate::people::locate;
use fantail_machine::tables::event::{self, EventRow};
use fantail_machine::tables::ledger::{self, ParcelId};
use fantail_machine::tables::look::{FoundRows, LookMax};
use fantail_machine::tables::{taken, work};
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{Millis, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::limits::LISTING_EVENTS_OF_USER_MAX;
use fantail_rules::ulid::Ulid;
use std::cmp::Reverse;
use std::ops::Range;

#[derive(Clone, Debug)]
pub struct NotificationQuery {
    /// When they were accepted, or are due; the end not included.
    pub span: Range<Millis>,
    pub category: Option<String>,
    pub user: Option<String>,
    pub before: Option<Ulid>,
    pub limit: usize,
}

#[derive(Clone, Debug)]
pub struct NotificationSummary {
    pub event: Ulid,
    /// What its producer calls it; events have no name.
    pub name: Option<String>,
    pub kind: String,
    pub category: String,
    pub priority: Priority,
    pub created_at: Millis,
    pub due: Option<Millis>,
    pub recipients: u64,
    pub is_retracted: bool,
    /// `None` once what was kept about its deliveries is gone.
    pub status: Option<NotificationStatus>,
}

#[derive(Clone, Debug)]
pub struct NotificationPage {
    pub notifications: Vec<NotificationSummary>,
    /// Those before it may be asked for next.
    pub next: Option<Ulid>,
}

impl Node {
    pub fn list_notifications(
        &self,
        tenant: TenantId,
        query: &NotificationQuery,
    ) -> Result<NotificationPage, Refusal> {
        page(&self.core, tenant, query)
    }
}

fn page(core: &Core, tenant: TenantId, query: &NotificationQuery) -> Result<NotificationPage, Refusal> {
    core.require_tenant(tenant)?;
    let user = query.user.as_deref().map(|user| locate(core, tenant, user)).transpose()?;
    let look = match user {
        Some(_) => LookMax { rows: LISTING_EVENTS_OF_USER_MAX, ..most(LISTING_EVENTS_OF_USER_MAX) },
        None => most(query.limit),
    };
    let (rows, through) = newest(core, tenant, query, look)?;
    let mut page = NotificationPage { notifications: Vec::new(), next: through };
    let mut last = None;
    for (event, row) in rows {
        if page.notifications.len() == query.limit {
            page.next = last;
            break;
        }
        last = Some(event);
        let is_meant = match user {
            Some(user) => is_for(core, tenant, event, &row, user)?,
            None => true,
        };
        if is_meant {
            page.notifications.push(summary(core, tenant, event, row)?);
        }
    }
    Ok(page)
}

type EventRows = Vec<(Ulid, EventRow)>;

/// The newest events of all fronts, and through where each front was looked at, if there are more.
fn newest(
    core: &Core,
    tenant: TenantId,
    query: &NotificationQuery,
    look: LookMax,
) -> Result<(EventRows, Option<Ulid>), Refusal> {
    let ids = ids(&query.span, query.before);
    let mut fronts = Vec::with_capacity(core.fronts.len());
    for front in core.fronts.keys() {
        fronts.push(core.read(PartitionId::Front(*front), |view| {
            event::newest(view.tables(), tenant, ids.clone(), query.category.as_deref(), look)
        })?);
    }
    Ok(joined(fronts))
}

/// Merges what the fronts have, as far as all of them were looked at.
fn joined<T>(fronts: Vec<FoundRows<Ulid, T>>) -> FoundRows<Ulid, T> {
    let through = fronts.iter().filter_map(|(_, cut_at)| *cut_at).max();
    let rows = fronts.into_iter().flat_map(|(rows, _)| rows);
    let mut rows: Vec<_> =
        rows.filter(|(event, _)| through.is_none_or(|through| *event >= through)).collect();
    rows.sort_unstable_by_key(|(event, _)| Reverse(*event));
    (rows, through)
}

/// Whether an event named a user, or a delivery of it to the user is kept.
fn is_for(
    core: &Core,
    tenant: TenantId,
    event: Ulid,
    row: &EventRow,
    (shard, user): (ShardNo, UserNo),
) -> Result<bool, Refusal> {
    core.read(PartitionId::Shard(shard), |view| is_for_in(view.tables(), tenant, event, row, user))
}

fn is_for_in(
    tables: &dyn Tables,
    tenant: TenantId,
    event: Ulid,
    row: &EventRow,
    user: UserNo,
) -> Result<bool, TablesError> {
    let Some((arrival, _)) = taken::arrival_of(tables, tenant, event)? else { return Ok(false) };
    if row.recipients > 0 && work::given(tables, tenant, arrival)?.binary_search(&user).is_ok() {
        return Ok(true);
    }
    for channel in row.delivery.map(|delivery| delivery.channels).unwrap_or_default().iter() {
        let parcel = ParcelId { tenant, arrival, channel, first: user };
        let held = ledger::holding(tables, parcel)?;
        if held.is_some_and(|(_, ledger)| !ledger.members.of_user(user).is_empty()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn summary(
    core: &Core,
    tenant: TenantId,
    event: Ulid,
    row: EventRow,
) -> Result<NotificationSummary, Refusal> {
    let status = match deliveries::status(core, tenant, event) {
        Ok(status) => Some(status),
        Err(Refusal::UnknownEvent { .. }) => None,
        Err(refusal) => return Err(refusal),
    };
    Ok(NotificationSummary {
        event,
        name: name_in(core, tenant, &row.options)?,
        priority: Priority::from_stored(row.priority),
        created_at: row.at,
        due: row.options.due,
        recipients: row.recipients,
        is_retracted: row.retracted,
        kind: row.kind,
        category: row.category,
        status,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events of each front with where it was cut; what is merged of them.
    #[track_caller]
    fn check(fronts: &[(&[u128], Option<u128>)], expected: &[u128], through: Option<u128>) {
        let front = |(events, cut_at): &(&[u128], Option<u128>)| {
            (events.iter().map(|event| (Ulid(*event), ())).collect(), cut_at.map(Ulid))
        };
        let (rows, found) = joined(fronts.iter().map(front).collect());
        let events: Vec<u128> = rows.into_iter().map(|(event, ())| event.0).collect();
        assert_eq!((events.as_slice(), found), (expected, through.map(Ulid)), "{fronts:?}");
    }

    #[test]
    fn fronts_are_merged_as_far_as_all_were_looked_at() {
        check(&[(&[9, 5, 2], None)], &[9, 5, 2], None);
        check(&[(&[9, 5], Some(5))], &[9, 5], Some(5));
        check(&[(&[9, 5], None), (&[8, 1], None)], &[9, 8, 5, 1], None);
        check(&[(&[9, 5], Some(5)), (&[8, 1], None)], &[9, 8, 5], Some(5));
        check(&[(&[9, 5], Some(4)), (&[8, 7], Some(6))], &[9, 8, 7], Some(6));
        check(&[(&[], Some(4)), (&[8, 1], None)], &[8], Some(4));
        check(&[(&[], None), (&[], None)], &[], None);
    }
}
