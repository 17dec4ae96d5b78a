//! Facts about templates: a part of the control plane, in a file of its own.
//!
//! ```text
//! 5 TemplatePut       tenant, id: text, version: varint, author: text, category: text, name: option text,
//!                     note: option text, hash: 32, dropped: ascending versions, definition: bytes, difference
//! 6 TemplateActivated tenant, id: text, version: varint, active: flag, difference
//! 7 TemplateGone      tenant, id: text, difference
//! ```
//! A definition is JSON that was checked before it came here; nothing here looks into it. It is no personal data, but
//! it is the tenant's: it shows in no log.

use super::difference::Difference;
use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::TenantId;
use std::fmt;

/// A new version, which is the one in force from here on. Whether the template may be used stays as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TemplatePut {
    pub tenant: TenantId,
    pub id: String,
    /// Never used for this id before, even if a template of that id was deleted.
    pub version: u32,
    pub about: About,
    /// Versions that make room, oldest first.
    pub dropped: Vec<u32>,
    pub definition: DefinitionBytes,
    pub difference: Difference,
}

/// What is known of a version without reading its definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    /// The id of the key that wrote it.
    pub author: String,
    /// As in the definition, for lists.
    pub category: String,
    pub name: Option<String>,
    pub note: Option<String>,
    /// SHA-256 of the definition.
    pub hash: [u8; 32],
}

/// Which version is in force, and whether the template may be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TemplateActivated {
    pub tenant: TenantId,
    pub id: String,
    pub version: u32,
    pub active: bool,
    pub difference: Difference,
}

#[derive(Clone, PartialEq, Eq)]
pub struct DefinitionBytes(pub Vec<u8>);

impl fmt::Debug for DefinitionBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl About {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.text(&self.author).text(&self.category);
        for text in [&self.name, &self.note] {
            w.option(text.as_deref(), |w, text| {
                w.text(text);
            });
        }
        w.fixed(&self.hash);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            author: r.text()?,
            category: r.text()?,
            name: r.option(Reader::text)?,
            note: r.option(Reader::text)?,
            hash: r.array()?,
        })
    }
}

impl TemplatePut {
    pub(super) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.id).varint(self.version.into());
        self.about.write(w);
        w.ascending(self.dropped.iter().copied().map(u64::from)).bytes(&self.definition.0);
        self.difference.write(w);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, id, version, about) = (r.tenant()?, r.text()?, r.u32()?, About::read(r)?);
        let dropped = r.ascending()?.into_iter().map(u32::try_from).collect::<Result<_, _>>();
        let dropped = dropped.map_err(|_| Malformed::Value("version"))?;
        let (definition, difference) = (DefinitionBytes(r.bytes()?.to_vec()), Difference::read(r)?);
        Ok(Self { tenant, id, version, about, dropped, definition, difference })
    }
}

impl TemplateActivated {
    pub(super) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.id).varint(self.version.into()).flag(self.active);
        self.difference.write(w);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            id: r.text()?,
            version: r.u32()?,
            active: r.flag()?,
            difference: Difference::read(r)?,
        })
    }
}
