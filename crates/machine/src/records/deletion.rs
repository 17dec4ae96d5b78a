//! Deletions of tenants, in the root.
//!
//! ```text
//! 70 Wiped    see `wipe`
//! 71 Ending   tenant, slug: text, difference
//! 72 Counted  tenant, rows: varint
//! 73 Ended    tenant, slug: text, rows: varint
//! ```

use super::difference::Difference;
use super::wipe::WipedStretch;
use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::TenantId;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeletionRecord {
    Wiped(WipedStretch),
    /// The tenant is deleted for everybody from now on; what is kept of it is being removed.
    Ending {
        tenant: TenantId,
        slug: String,
        difference: Difference,
    },
    /// So many more rows of it were removed, in all partitions.
    Counted {
        tenant: TenantId,
        rows: u64,
    },
    /// Nothing is left of it, and its keys are destroyed. So many more rows were removed.
    Ended {
        tenant: TenantId,
        slug: String,
        rows: u64,
    },
}

impl DeletionRecord {
    pub(crate) fn tag(&self) -> u8 {
        match self {
            Self::Wiped(_) => 70,
            Self::Ending { .. } => 71,
            Self::Counted { .. } => 72,
            Self::Ended { .. } => 73,
        }
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        match self {
            Self::Wiped(stretch) => stretch.write(w),
            Self::Ending { tenant, slug, difference } => {
                w.tenant(*tenant).text(slug);
                difference.write(w);
            }
            Self::Counted { tenant, rows } => {
                w.tenant(*tenant).varint(*rows);
            }
            Self::Ended { tenant, slug, rows } => {
                w.tenant(*tenant).text(slug).varint(*rows);
            }
        }
    }

    pub(crate) fn read(tag: u8, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match tag {
            70 => Self::Wiped(WipedStretch::read(r)?),
            71 => Self::Ending { tenant: r.tenant()?, slug: r.text()?, difference: Difference::read(r)? },
            72 => Self::Counted { tenant: r.tenant()?, rows: r.varint()? },
            73 => Self::Ended { tenant: r.tenant()?, slug: r.text()?, rows: r.varint()? },
            _ => return Err(Malformed::Tag(tag)),
        })
    }
}
