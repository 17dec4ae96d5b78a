//! Where the inboxes of those whom a walk passed show its event: each step has an arrival of its own, since members come when
//! they are passed, and whoever has read everything before has not read this.
//!
//! ```text
//! 85 tenant home: u64 first: user -> arrival      from this user on, up to the next row of the walk
//! ```
//! `home` is the arrival of the walk itself. The row goes when its arrival is past retention; the retraction of a walk stays until
//! the last of them is gone.

use super::taken::First;
use super::{Family, Key, Row, collect, put, retracted};
use crate::view::View;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Arrival, TenantId, UserNo};

fn prefix(tenant: TenantId, home: Arrival) -> Key {
    Key::new(Family::WalkEntry, tenant).u64(home.0)
}

/// A step of a walk is shown from here on.
pub(crate) fn add(view: &mut View<'_>, tenant: TenantId, home: Arrival, first: UserNo, at: Arrival) {
    put(view, prefix(tenant, home).u64(first.0).finish(), &First(at));
}

pub(crate) fn remove(view: &mut View<'_>, tenant: TenantId, home: Arrival, first: UserNo) {
    view.delete(prefix(tenant, home).u64(first.0).finish());
}

/// The only arrival at which a user's inbox can show the event of a walk.
pub fn arrival_for(
    tables: &dyn Tables,
    tenant: TenantId,
    home: Arrival,
    user: UserNo,
) -> Result<Option<Arrival>, TablesError> {
    let all = prefix(tenant, home);
    let to = all.clone().u64(user.0).bytes(&[0]).finish();
    let range = KeyRange { from: &all.finish(), to: &to };
    let found = collect(tables, range, Order::Descending, 1, |_, row| First::decode(row))?;
    Ok(found.first().map(|first| first.0))
}

/// Drops the retraction of a walk if nothing of it is left.
pub(crate) fn forget_retraction(
    view: &mut View<'_>,
    tenant: TenantId,
    home: Arrival,
) -> Result<bool, TablesError> {
    let all = prefix(tenant, home);
    let range = KeyRange { from: &all.clone().finish(), to: &all.end() };
    let is_left = !collect(view, range, Order::Ascending, 1, |_, _| Ok(()))?.is_empty();
    if is_left || !retracted::is(view, tenant, home)? {
        return Ok(false);
    }
    retracted::forget(view, tenant, retracted::WALKED, home);
    Ok(true)
}
