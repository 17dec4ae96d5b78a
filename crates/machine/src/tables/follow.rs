//! The lists a user is or was on, with the arrivals in between. The reverse direction is the `lists` port.
//!
//! ```text
//! 36 tenant user: u64 list: 16 -> intervals
//! 37 tenant user: u64          -> actors: varint, topics: varint (lists the user is on now)
//! ```

use super::{Family, Key, Row, collect, get, tail_u64};
use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::inbox::Followed;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{ListId, TenantId, UserNo};
use fantail_rules::interval::Intervals;

#[must_use]
pub fn key(tenant: TenantId, user: UserNo, list: ListId) -> Vec<u8> {
    prefix(tenant, user).bytes(&list.0).finish()
}

#[must_use]
pub fn count_key(tenant: TenantId, user: UserNo) -> Vec<u8> {
    Key::new(Family::FollowCount, tenant).u64(user.0).finish()
}

fn prefix(tenant: TenantId, user: UserNo) -> Key {
    Key::new(Family::Follow, tenant).u64(user.0)
}

/// How many lists a user is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Open {
    pub actors: u64,
    pub topics: u64,
}

impl Open {
    #[must_use]
    pub fn total(self) -> u64 {
        self.actors + self.topics
    }

    pub(crate) fn of_kind(&mut self, list: ListId) -> &mut u64 {
        if list.is_topic() { &mut self.topics } else { &mut self.actors }
    }
}

pub fn find(
    tables: &dyn Tables,
    tenant: TenantId,
    user: UserNo,
    list: ListId,
) -> Result<Intervals, TablesError> {
    Ok(get(tables, &key(tenant, user, list))?.unwrap_or_default())
}

pub fn count(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<Open, TablesError> {
    Ok(get(tables, &count_key(tenant, user))?.unwrap_or_default())
}

/// Lists of a user behind `after`, ascending; also those the user has left but whose events still show.
pub fn of_user(
    tables: &dyn Tables,
    tenant: TenantId,
    user: UserNo,
    after: Option<ListId>,
    limit: usize,
) -> Result<Vec<Followed>, TablesError> {
    let prefix = prefix(tenant, user);
    let from = match after {
        Some(list) => prefix.clone().bytes(&list.0).bytes(&[0]).finish(),
        None => prefix.clone().finish(),
    };
    let to = prefix.end();
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, value| {
        let short = || Malformed::Short.in_row(Intervals::NAME);
        let list = key.get(13..).and_then(|tail| tail.try_into().ok()).ok_or_else(short)?;
        Ok(Followed { list: ListId(list), intervals: Intervals::decode(value)? })
    })
}

/// Stays of all users of a tenant behind a place, for the sweep of those past retention.
pub fn behind(
    tables: &dyn Tables,
    tenant: TenantId,
    behind: Option<(UserNo, ListId)>,
    limit: usize,
) -> Result<Vec<(UserNo, Followed)>, TablesError> {
    let all = Key::new(Family::Follow, tenant);
    let from = match behind {
        Some((user, list)) => prefix(tenant, user).bytes(&list.0).bytes(&[0]).finish(),
        None => all.clone().finish(),
    };
    let to = all.end();
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, value| {
        let (user, list) = read_key(key)?;
        Ok((user, Followed { list, intervals: Intervals::decode(value)? }))
    })
}

/// Who stays on which list, by the key of the row.
pub(crate) fn read_key(key: &[u8]) -> Result<(UserNo, ListId), TablesError> {
    let short = || Malformed::Short.in_row(Intervals::NAME);
    let user = tail_u64(key.get(..13).ok_or_else(short)?, Intervals::NAME)?;
    let list = key.get(13..).and_then(|tail| tail.try_into().ok()).ok_or_else(short)?;
    Ok((UserNo(user), ListId(list)))
}

impl Row for Intervals {
    const NAME: &'static str = "follow";

    fn write(&self, w: &mut Writer) {
        w.intervals(self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.intervals()
    }
}

impl Row for Open {
    const NAME: &'static str = "follow count";

    fn write(&self, w: &mut Writer) {
        w.varint(self.actors).varint(self.topics);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { actors: r.varint()?, topics: r.varint()? })
    }
}
