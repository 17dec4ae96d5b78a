//! Erasures: what was removed, for the receipt. A row stays for good; it names nobody. As long as an erasure runs, a second row has
//! the lookup of the user, for the list of erasures. A third one leads from the lookup to the erasure, until a user with that id is
//! deleted again.
//!
//! ```text
//! 86 tenant erasure: ulid -> lookup
//! 90 tenant lookup: 16 -> erasure: ulid
//! 87 tenant erasure: ulid -> user, key: varint, begun: millis, ended: option millis, list of (store: u8, count: varint)
//! ```

use super::{Family, Key, Row, collect, get};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::erasure::{ErasurePlace, Store, read_removed, write_removed};
use crate::tables::todo::Todo;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{KeyNo, Lookup, Millis, TenantId, UserNo};
use fantail_rules::ulid::Ulid;
use std::ops::Range;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErasureRow {
    pub user: UserNo,
    pub key: KeyNo,
    pub begun: Millis,
    /// `None` while something is still to be removed.
    pub ended: Option<Millis>,
    /// Ascending by store.
    pub removed: Vec<(Store, u64)>,
}

impl ErasureRow {
    pub(crate) fn add(&mut self, removed: &[(Store, u64)]) {
        for (store, count) in removed {
            match self.removed.binary_search_by_key(store, |(known, _)| *known) {
                Ok(place) => self.removed[place].1 += count,
                Err(place) => self.removed.insert(place, (*store, *count)),
            }
        }
    }
}

#[must_use]
pub fn key(tenant: TenantId, erasure: Ulid) -> Vec<u8> {
    Key::new(Family::Erasure, tenant).bytes(&erasure.bytes()).finish()
}

#[must_use]
pub(crate) fn lookup_key(tenant: TenantId, erasure: Ulid) -> Vec<u8> {
    Key::new(Family::ErasureLookup, tenant).bytes(&erasure.bytes()).finish()
}

/// Whom an erasure is about that is running. `None` if it was begun by a version without the list of erasures.
pub fn lookup(tables: &dyn Tables, tenant: TenantId, erasure: Ulid) -> Result<Option<Lookup>, TablesError> {
    get(tables, &lookup_key(tenant, erasure)).map(|row| row.map(|ErasureLookup(lookup)| lookup))
}

/// The value of the second row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErasureLookup(pub Lookup);

impl Row for ErasureLookup {
    const NAME: &'static str = "lookup of an erasure";

    fn write(&self, w: &mut Writer) {
        w.fixed(&self.0.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.lookup().map(Self)
    }
}

pub fn find(tables: &dyn Tables, tenant: TenantId, erasure: Ulid) -> Result<Option<ErasureRow>, TablesError> {
    get(tables, &key(tenant, erasure))
}

/// Some erasures from one id up to another, which is not included, the newest first.
pub fn newest(
    tables: &dyn Tables,
    tenant: TenantId,
    ids: Range<Ulid>,
    limit: usize,
) -> Result<Vec<(Ulid, ErasureRow)>, TablesError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let (from, to) = (key(tenant, ids.start), key(tenant, ids.end));
    collect(tables, KeyRange { from: &from, to: &to }, Order::Descending, limit, |key, row| {
        let tail = key.get(5..).and_then(|tail| tail.try_into().ok());
        let erasure = tail.map(Ulid::from_bytes).ok_or_else(|| Malformed::Short.in_row(ErasureRow::NAME))?;
        Ok((erasure, ErasureRow::decode(row)?))
    })
}

#[must_use]
pub fn of_lookup_key(tenant: TenantId, lookup: Lookup) -> Vec<u8> {
    Key::new(Family::ErasureOf, tenant).bytes(&lookup.0).finish()
}

/// The latest erasure of a user with this id.
pub struct ErasureRef(pub Ulid);

pub fn of_lookup(tables: &dyn Tables, tenant: TenantId, lookup: Lookup) -> Result<Option<Ulid>, TablesError> {
    Ok(get::<ErasureRef>(tables, &of_lookup_key(tenant, lookup))?.map(|found| found.0))
}

/// How far an erasure is, as its to-do row says. `None` if it has just begun, or is done.
pub fn place(
    tables: &dyn Tables,
    tenant: TenantId,
    erasure: Ulid,
) -> Result<Option<ErasurePlace>, TablesError> {
    let row = tables.get(&Todo::Erase { tenant, erasure }.key())?.filter(|row| !row.is_empty());
    row.map(|row| ErasurePlace::decode(&row)).transpose()
}

impl Row for ErasurePlace {
    const NAME: &'static str = "place of an erasure";

    fn write(&self, w: &mut Writer) {
        ErasurePlace::write(self, w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        ErasurePlace::read(r)
    }
}

impl Row for ErasureRef {
    const NAME: &'static str = "erasure of an id";

    fn write(&self, w: &mut Writer) {
        w.ulid(self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.ulid().map(Self)
    }
}

impl Row for ErasureRow {
    const NAME: &'static str = "erasure";

    fn write(&self, w: &mut Writer) {
        w.user(self.user).varint(self.key.0).millis(self.begun).option(self.ended, |w, ended| {
            w.millis(ended);
        });
        write_removed(w, &self.removed);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            user: r.user()?,
            key: KeyNo(r.varint()?),
            begun: r.millis()?,
            ended: r.option(Reader::millis)?,
            removed: read_removed(r)?,
        })
    }
}
