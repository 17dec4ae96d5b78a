//! Facts about segments: a part of the control plane. Who is on an uploaded list is in the shards: see `walk`.
//!
//! ```text
//! 20 SegmentPut    tenant, name: text, filter: option text, note: text, difference
//! 21 SegmentListed tenant, name: text, list: 16, members: varint, difference      
//! 22 SegmentGone   tenant, name: text, difference                                 
//! ```
//! An uploaded list has a number of its own, made by chance for each upload: half an upload is nobody's list.

use super::difference::Difference;
use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::TenantId;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentPut {
    pub tenant: TenantId,
    pub name: String,
    /// A condition of `rules::segment`, as it was written.
    pub filter: Option<String>,
    pub note: String,
}

/// A new list takes the place of the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentListed {
    pub tenant: TenantId,
    pub name: String,
    pub list: UploadId,
    pub members: u64,
    pub difference: Difference,
}

/// Names one upload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct UploadId(pub [u8; 16]);

impl SegmentPut {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.name).option(self.filter.as_deref(), |w, filter| {
            w.text(filter);
        });
        w.text(&self.note);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { tenant: r.tenant()?, name: r.text()?, filter: r.option(Reader::text)?, note: r.text()? })
    }
}

impl SegmentListed {
    pub(super) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.name).fixed(&self.list.0).varint(self.members);
        self.difference.write(w);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, name, list) = (r.tenant()?, r.text()?, UploadId(r.array()?));
        Ok(Self { tenant, name, list, members: r.varint()?, difference: Difference::read(r)? })
    }
}
