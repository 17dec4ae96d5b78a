//! A stretch of keys in which all rows of a deleted tenant go. The same bytes in the records of every machine.
//!
//! ```text
//! 70 Wiped   tenant, from: key, to: key        from ≤ row < to
//! ```

use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::TenantId;

/// Keys of one family. What stands between them of other tenants stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WipedStretch {
    pub tenant: TenantId,
    pub from: Vec<u8>,
    pub to: Vec<u8>,
}

impl WipedStretch {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).bytes(&self.from).bytes(&self.to);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { tenant: r.tenant()?, from: r.bytes()?.to_vec(), to: r.bytes()?.to_vec() })
    }
}
