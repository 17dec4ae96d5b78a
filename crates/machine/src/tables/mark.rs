//! What users did with their entries; see `rules::marks` for what it means.
//!
//! ```text
//! 45 tenant user: u64 arrival: u64 -> flags: u8
//! 46 tenant user: u64              -> watermarks, adjustments, unread flags, snoozed: list of (arrival, until),
//!                                     list of (arrival, nothing: flag, off: flag, list of (category: u64, unwanted: u8, 0: none))
//! ```

use super::{Family, Key, Row, collect, get, put, tail_u64};
use crate::codec::{Malformed, Reader, Writer};
use crate::view::View;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::category::CategoryId;
use fantail_rules::ids::{Arrival, TenantId, UserNo};
use fantail_rules::marks::{Flags, Marks};
use fantail_rules::visibility::{InboxWish, Turns, Unwanted};

#[must_use]
pub fn key(tenant: TenantId, user: UserNo) -> Vec<u8> {
    Key::new(Family::Marks, tenant).u64(user.0).finish()
}

fn flags_key(tenant: TenantId, user: UserNo, arrival: Arrival) -> Vec<u8> {
    Key::new(Family::Flags, tenant).u64(user.0).u64(arrival.0).finish()
}

pub fn find(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<Marks, TablesError> {
    Ok(get(tables, &key(tenant, user))?.unwrap_or_default())
}

pub fn flags(
    tables: &dyn Tables,
    tenant: TenantId,
    user: UserNo,
    arrival: Arrival,
) -> Result<Flags, TablesError> {
    Ok(get(tables, &flags_key(tenant, user, arrival))?.unwrap_or_default())
}

pub(crate) fn set_flags(view: &mut View<'_>, tenant: TenantId, user: UserNo, arrival: Arrival, flags: Flags) {
    let key = flags_key(tenant, user, arrival);
    if flags.is_empty() {
        view.delete(key);
    } else {
        put(view, key, &flags);
    }
}

/// Flag rows of a user above `after`, up to and including `through`, at most `limit`.
pub fn flagged(
    tables: &dyn Tables,
    tenant: TenantId,
    user: UserNo,
    after: Arrival,
    through: Arrival,
    order: Order,
    limit: usize,
) -> Result<Vec<(Arrival, Flags)>, TablesError> {
    if through <= after {
        return Ok(Vec::new());
    }
    let from = flags_key(tenant, user, after.next());
    let to = Key(flags_key(tenant, user, through)).bytes(&[0]).finish();
    collect(tables, KeyRange { from: &from, to: &to }, order, limit, |key, value| {
        Ok((Arrival(tail_u64(key, Flags::NAME)?), Flags::decode(value)?))
    })
}

/// Flag rows of all users of a tenant behind a place, for the sweep of expired ones.
pub fn flagged_behind(
    tables: &dyn Tables,
    tenant: TenantId,
    behind: Option<(UserNo, Arrival)>,
    limit: usize,
) -> Result<Vec<(UserNo, Arrival)>, TablesError> {
    let prefix = Key::new(Family::Flags, tenant);
    let from = match behind {
        Some((user, arrival)) => Key(flags_key(tenant, user, arrival)).bytes(&[0]).finish(),
        None => prefix.clone().finish(),
    };
    let to = prefix.end();
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, _| {
        let user = key.get(..13).ok_or_else(|| Malformed::Short.in_row(Flags::NAME))?;
        Ok((UserNo(tail_u64(user, Flags::NAME)?), Arrival(tail_u64(key, Flags::NAME)?)))
    })
}

impl Row for Flags {
    const NAME: &'static str = "flags";

    fn write(&self, w: &mut Writer) {
        w.u8(self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.u8().map(Self)
    }
}

impl Row for Marks {
    const NAME: &'static str = "marks";

    fn write(&self, w: &mut Writer) {
        w.arrival(self.read_through).arrival(self.seen_through).arrival(self.archived_through);
        w.signed(self.unread_adjustment).signed(self.unseen_adjustment).varint(self.unread_flags);
        w.list(self.snoozed.iter(), |w, (arrival, until)| {
            w.arrival(*arrival).millis(*until);
        });
        w.list(self.turns.turns.iter(), |w, (arrival, wish)| write_turn(w, *arrival, wish));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            read_through: r.arrival()?,
            seen_through: r.arrival()?,
            archived_through: r.arrival()?,
            unread_adjustment: r.signed()?,
            unseen_adjustment: r.signed()?,
            unread_flags: r.varint()?,
            snoozed: r.list(|r| Ok((r.arrival()?, r.millis()?)))?,
            turns: Turns { turns: r.list(read_turn)? },
        })
    }
}

fn write_turn(w: &mut Writer, arrival: Arrival, wish: &InboxWish) {
    w.arrival(arrival).flag(wish.nothing).flag(wish.inbox_off);
    w.list(wish.categories.iter(), |w, (category, unwanted)| {
        w.fixed(&category.0.to_le_bytes()).u8(unwanted.map_or(0, |unwanted| unwanted as u8));
    });
}

fn read_turn(r: &mut Reader<'_>) -> Result<(Arrival, InboxWish), Malformed> {
    let (arrival, nothing, inbox_off) = (r.arrival()?, r.flag()?, r.flag()?);
    let categories = r.list(|r| {
        let category = CategoryId(u64::from_le_bytes(r.array()?));
        let unwanted = match r.u8()? {
            0 => None,
            other => Some(Unwanted::from_stored(other).ok_or(Malformed::Value("unwanted"))?),
        };
        Ok((category, unwanted))
    })?;
    Ok((arrival, InboxWish { nothing, inbox_off, categories }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What a user did stands together, in the order of the inbox; nothing of another user or tenant lies between.
        // proves: INB-03
        #[test]
        fn keys_ascend_by_tenant_user_and_arrival(
            one in (0u32..4, 0u64..4, 0u64..4),
            other in (any::<u32>(), any::<u64>(), any::<u64>()),
            third in (0u32..4, 0u64..4, 0u64..4),
        ) {
            let key = |(tenant, user, arrival)| flags_key(TenantId(tenant), UserNo(user), Arrival(arrival));
            for (a, b) in [(one, other), (one, third), (other, third)] {
                prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
            }
            let of_user = Key::new(Family::Flags, TenantId(one.0)).u64(one.1).finish();
            prop_assert!(key(one).starts_with(&of_user));
        }
    }
}
