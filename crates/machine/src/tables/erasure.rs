//! Erasures: what was removed, for the receipt. A row stays for good; it names nobody. As long as an erasure runs, a second row has
//! the lookup of the user, for the list of erasures.
//!
//! ```text
//! 86 tenant erasure: ulid -> lookup
//! 87 tenant erasure: ulid -> user, key: varint, begun: millis, ended: option millis, list of (store: u8, count: varint)
//! ```

use super::{Family, Key, Row, get};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::erasure::{ErasurePlace, Store, read_removed, write_removed};
use crate::tables::todo::Todo;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{KeyNo, Lookup, Millis, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

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
