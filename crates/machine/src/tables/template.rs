//! Templates: what is in force, what is known of each version, and the definitions apart from it, as they are large
//! and lists do not show them. Keys of versions tell where the id ends, so that no id lies inside another one's range.
//!
//! ```text
//! 4 tenant id: text                            -> version, newest, active: flag, created, updated
//! 5 tenant length: u16, id: text, version: u32 -> author, category, name, note, hash: 32, at
//! 6 tenant length: u16, id: text, version: u32 -> definition: bytes
//! 7 tenant                                     -> floor
//! ```

use super::{Family, Key, Row, collect, get};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::template::{About, DefinitionBytes};
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{Millis, TenantId};

#[must_use]
pub fn key(tenant: TenantId, id: &str) -> Vec<u8> {
    Key::new(Family::Template, tenant).bytes(id.as_bytes()).finish()
}

#[must_use]
pub fn version_key(tenant: TenantId, id: &str, version: u32) -> Vec<u8> {
    versions_of(Family::TemplateVersion, tenant, id).bytes(&version.to_be_bytes()).finish()
}

#[must_use]
pub fn definition_key(tenant: TenantId, id: &str, version: u32) -> Vec<u8> {
    versions_of(Family::TemplateDefinition, tenant, id).bytes(&version.to_be_bytes()).finish()
}

#[must_use]
pub fn floor_key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::TemplateFloor, tenant).finish()
}

fn versions_of(family: Family, tenant: TenantId, id: &str) -> Key {
    let length = u16::try_from(id.len()).expect("names are bounded");
    Key::new(family, tenant).bytes(&length.to_be_bytes()).bytes(id.as_bytes())
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TemplateRow {
    /// The version in force.
    pub version: u32,
    pub newest: u32,
    /// Whether it may be used.
    pub active: bool,
    pub created: Millis,
    pub updated: Millis,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionRow {
    pub about: About,
    pub at: Millis,
}

/// The highest version of all templates of a tenant that were deleted. New ones begin above it, so that a version
/// which a notification names is never another text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Floor(pub u32);

pub fn find(tables: &dyn Tables, tenant: TenantId, id: &str) -> Result<Option<TemplateRow>, TablesError> {
    get(tables, &key(tenant, id))
}

pub fn version(
    tables: &dyn Tables,
    tenant: TenantId,
    id: &str,
    version: u32,
) -> Result<Option<VersionRow>, TablesError> {
    get(tables, &version_key(tenant, id, version))
}

pub fn definition(
    tables: &dyn Tables,
    tenant: TenantId,
    id: &str,
    version: u32,
) -> Result<Option<DefinitionBytes>, TablesError> {
    get(tables, &definition_key(tenant, id, version))
}

pub fn floor(tables: &dyn Tables, tenant: TenantId) -> Result<Floor, TablesError> {
    Ok(get(tables, &floor_key(tenant))?.unwrap_or_default())
}

/// Templates of a tenant by id, after this one.
pub fn page(
    tables: &dyn Tables,
    tenant: TenantId,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<(String, TemplateRow)>, TablesError> {
    let prefix = Key::new(Family::Template, tenant);
    let head = prefix.clone().finish().len();
    let from = match after {
        // The next key in byte order.
        Some(id) => prefix.clone().bytes(id.as_bytes()).bytes(&[0]).finish(),
        None => prefix.clone().finish(),
    };
    let to = prefix.end();
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, value| {
        let id = key.get(head..).and_then(|id| std::str::from_utf8(id).ok());
        let id = id.ok_or_else(|| Malformed::Value("template id").in_row(TemplateRow::NAME))?;
        Ok((id.to_owned(), TemplateRow::decode(value)?))
    })
}

/// The versions that are kept, oldest first: as many as the records before let in.
pub fn versions(
    tables: &dyn Tables,
    tenant: TenantId,
    id: &str,
) -> Result<Vec<(u32, VersionRow)>, TablesError> {
    let prefix = versions_of(Family::TemplateVersion, tenant, id);
    let (from, to) = (prefix.clone().finish(), prefix.end());
    let range = KeyRange { from: &from, to: &to };
    collect(tables, range, Order::Ascending, usize::MAX, |key, value| {
        let number = key.get(from.len()..).and_then(|tail| tail.try_into().ok());
        let number = number.ok_or_else(|| Malformed::Short.in_row(VersionRow::NAME))?;
        Ok((u32::from_be_bytes(number), VersionRow::decode(value)?))
    })
}

impl Row for TemplateRow {
    const NAME: &'static str = "template";

    fn write(&self, w: &mut Writer) {
        w.varint(self.version.into()).varint(self.newest.into()).flag(self.active);
        w.millis(self.created).millis(self.updated);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            version: r.u32()?,
            newest: r.u32()?,
            active: r.flag()?,
            created: r.millis()?,
            updated: r.millis()?,
        })
    }
}

impl Row for VersionRow {
    const NAME: &'static str = "template version";

    fn write(&self, w: &mut Writer) {
        self.about.write(w);
        w.millis(self.at);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { about: About::read(r)?, at: r.millis()? })
    }
}

impl Row for DefinitionBytes {
    const NAME: &'static str = "template definition";

    fn write(&self, w: &mut Writer) {
        w.bytes(&self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self(r.bytes()?.to_vec()))
    }
}

impl Row for Floor {
    const NAME: &'static str = "template floor";

    fn write(&self, w: &mut Writer) {
        w.varint(self.0.into());
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.u32().map(Self)
    }
}
