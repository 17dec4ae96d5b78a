//! The size of one shard's part of a list; for its bytes see `front` and `shard`.

use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::{ListId, TenantId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    pub tenant: TenantId,
    pub list: ListId,
    pub members: u64,
}

impl Size {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).list_id(self.list).varint(self.members);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { tenant: r.tenant()?, list: r.list_id()?, members: r.varint()? })
    }
}
