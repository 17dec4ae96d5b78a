//! Users of a shard. The external id is sealed; it is found through its keyed hash.
//!
//! ```text
//! 34 tenant lookup: 16 -> user
//! 35 tenant user: u64  -> lookup: 16, created, updated, id: sealed, attributes: sealed, locale: text,
//!                           zone: varint, before: option (changed: millis, locale: text)
//! ```

use super::look::{FoundRows, LookMax, look};
use super::{Family, Key, Row, collect, get, progress, tail_u64};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::respect::read_zone;
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Lookup, Millis, TenantId, UserNo};
use fantail_rules::zone::ZoneNo;

#[must_use]
pub fn lookup_key(tenant: TenantId, lookup: Lookup) -> Vec<u8> {
    Key::new(Family::UserByLookup, tenant).bytes(&lookup.0).finish()
}

#[must_use]
pub fn key(tenant: TenantId, user: UserNo) -> Vec<u8> {
    Key::new(Family::User, tenant).u64(user.0).finish()
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserRow {
    pub lookup: Lookup,
    pub created: Millis,
    pub updated: Millis,
    /// Sealed under the user's own key, like everything about the user.
    pub id: Sealed,
    pub attributes: Sealed,
    pub locale: String,
    pub zone: ZoneNo,
    /// What `locale` was until it was changed the last time, and when that was: what the user was told before stays in
    /// the language it was told in, when it is tried again or read.
    pub locale_before: Option<(Millis, String)>,
}

impl UserRow {
    /// The locale that the user had then, as far as it is known.
    #[must_use]
    pub fn locale_at(&self, at: Millis) -> &str {
        match &self.locale_before {
            Some((changed, before)) if at < *changed => before,
            Some(_) | None => &self.locale,
        }
    }

    /// What is to be kept of the locale when another row takes the place of this one.
    #[must_use]
    pub fn locale_left(&self, next: &str, at: Millis) -> Option<(Millis, String)> {
        if self.locale == next { self.locale_before.clone() } else { Some((at, self.locale.clone())) }
    }
}

/// What a lookup points at.
pub struct UserRef(pub UserNo);

pub fn number(tables: &dyn Tables, tenant: TenantId, lookup: Lookup) -> Result<Option<UserNo>, TablesError> {
    Ok(get::<UserRef>(tables, &lookup_key(tenant, lookup))?.map(|found| found.0))
}

pub fn find(tables: &dyn Tables, tenant: TenantId, user: UserNo) -> Result<Option<UserRow>, TablesError> {
    get(tables, &key(tenant, user))
}

/// Users at or above one number and below another, ascending.
pub fn between(
    tables: &dyn Tables,
    tenant: TenantId,
    users: std::ops::Range<u64>,
) -> Result<Vec<(UserNo, UserRow)>, TablesError> {
    let (from, to) = (key(tenant, UserNo(users.start)), key(tenant, UserNo(users.end)));
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, usize::MAX, |key, row| {
        Ok((UserNo(tail_u64(key, UserRow::NAME)?), UserRow::decode(row)?))
    })
}

/// Some users from a number on, ascending, and the number to go on from if there are more. Numbers of users who are gone count
/// as rows.
pub fn page(
    tables: &dyn Tables,
    tenant: TenantId,
    first: UserNo,
    most: LookMax,
) -> Result<FoundRows<UserNo, UserRow>, TablesError> {
    let end = progress::find(tables, tenant)?.users;
    let bound = end.min(first.0.saturating_add(most.rows.max(1) as u64));
    let (from, to) = (key(tenant, first), key(tenant, UserNo(bound)));
    let range = KeyRange { from: &from, to: &to };
    let looked = look(tables, range, Order::Ascending, most, |key, row| {
        Ok(Some((UserNo(tail_u64(key, UserRow::NAME)?), UserRow::decode(row)?)))
    })?;
    let next = match looked.cut_at {
        Some(last) => tail_u64(&last, UserRow::NAME)? + 1,
        None => bound,
    };
    Ok((looked.found, Some(UserNo(next)).filter(|next| next.0 < end)))
}

impl Row for UserRef {
    const NAME: &'static str = "user by lookup";

    fn write(&self, w: &mut Writer) {
        w.user(self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.user().map(Self)
    }
}

impl Row for UserRow {
    const NAME: &'static str = "user";

    fn write(&self, w: &mut Writer) {
        w.fixed(&self.lookup.0).millis(self.created).millis(self.updated);
        w.sealed(&self.id).sealed(&self.attributes).text(&self.locale).varint(self.zone.number().into());
        w.option(self.locale_before.as_ref(), |w, (changed, before)| {
            w.millis(*changed).text(before);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            lookup: r.lookup()?,
            created: r.millis()?,
            updated: r.millis()?,
            id: r.sealed()?,
            attributes: r.sealed()?,
            locale: r.text()?,
            zone: read_zone(r)?,
            locale_before: r.option(|r| Ok((r.millis()?, r.text()?)))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::KeyNo;

    fn row(locale: &str, locale_before: Option<(Millis, String)>) -> UserRow {
        let nothing = Sealed { key: KeyNo::TENANT, nonce: [0; 12], bytes: Vec::new() };
        UserRow {
            lookup: Lookup([0; 16]),
            created: Millis(1),
            updated: Millis(1),
            id: nothing.clone(),
            attributes: nothing,
            locale: locale.to_owned(),
            zone: ZoneNo::NONE,
            locale_before,
        }
    }

    // proves: TPL-04
    #[test]
    fn what_was_told_before_a_change_keeps_its_language() {
        let first = row("de", None);
        let same = row("de", first.locale_left("de", Millis(5)));
        assert_eq!((same.locale_at(Millis(4)), same.locale_before.is_some()), ("de", false));
        let changed = row("fr", same.locale_left("fr", Millis(10)));
        let again = row("fr", changed.locale_left("fr", Millis(20)));
        for row in [&changed, &again] {
            assert_eq!([9, 10, 30].map(|at| row.locale_at(Millis(at))), ["de", "fr", "fr"]);
        }
        let third = row("it", again.locale_left("it", Millis(30)));
        assert_eq!([29, 30].map(|at| third.locale_at(Millis(at))), ["fr", "it"]);
    }
}
