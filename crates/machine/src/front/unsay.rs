//! What one recipient alone was told is taken back, because the recipient is erased.
//!
//! Comes from: the errands of the user's shard. Decides: which rows behind an event are the user's, some rows at a time.
//! Goes to: an `Unsaid` record that names their events. The key under which they are sealed goes too; this makes room.

use super::{FrontAnswer, Plan};
use crate::Planned;
use crate::records::front::FrontRecord;
use crate::tables::event::{self, PersonalPlace};
use crate::tables::usage::{self, Balance};
use crate::view::View;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{ShardNo, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

/// Looks at so many rows of all recipients.
pub(super) fn plan(
    view: &View<'_>,
    tenant: TenantId,
    of: (ShardNo, UserNo),
    behind: Option<PersonalPlace>,
    rows_max: usize,
) -> Result<Plan, TablesError> {
    let rows = event::personal_behind(view, tenant, behind, rows_max)?;
    let next = rows.last().copied().filter(|_| rows.len() == rows_max);
    let own = rows.iter().filter(|place| (place.shard, place.user) == of);
    let events: Vec<Ulid> = own.map(|place| place.event).collect();
    let answer = FrontAnswer::Unsaid { removed: events.len() as u64, next };
    if events.is_empty() {
        return Ok(Planned::nothing(answer));
    }
    let (shard, user) = of;
    Ok(Planned::one(FrontRecord::Unsaid { tenant, shard, user, events }, answer))
}

pub(super) fn apply(
    view: &mut View<'_>,
    tenant: TenantId,
    of: (ShardNo, UserNo),
    events: &[Ulid],
) -> Result<(), TablesError> {
    let mut balance = Balance::default();
    for event in events {
        let key = event::personal_key(tenant, *event, of.0, of.1);
        let row = view.get(&key)?;
        row.iter().for_each(|row| balance.remove(None, usage::weight_of_row(row)));
        view.delete(key);
    }
    balance.write(view, tenant)
}
