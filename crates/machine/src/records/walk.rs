//! Facts of a shard about those who are chosen, not named: uploaded lists.
//!
//! ```text
//! 51 Enlisted  tenant, list: 16, users: ascending
//! 52 Delisted  tenant, list: 16, pages: ascending, isLast: flag
//! ```

use super::segment::UploadId;
use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::{TenantId, UserNo};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WalkRecord {
    Enlisted(Enlisted),
    Delisted(Delisted),
}

/// These users are on a list from now on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enlisted {
    pub tenant: TenantId,
    pub list: UploadId,
    /// Ascending.
    pub users: Vec<UserNo>,
}

/// Pages of a list that nobody needs any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delisted {
    pub tenant: TenantId,
    pub list: UploadId,
    pub pages: Vec<u64>,
    /// With them, the list is gone.
    pub is_last: bool,
}

impl WalkRecord {
    pub(super) fn tag(&self) -> u8 {
        match self {
            Self::Enlisted(_) => 51,
            Self::Delisted(_) => 52,
        }
    }

    pub(super) fn write(&self, w: &mut Writer) {
        match self {
            Self::Enlisted(enlisted) => enlisted.write(w),
            Self::Delisted(delisted) => delisted.write(w),
        }
    }

    pub(super) fn read(tag: u8, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        match tag {
            51 => Enlisted::read(r).map(Self::Enlisted),
            52 => Delisted::read(r).map(Self::Delisted),
            _ => Err(Malformed::Tag(tag)),
        }
    }
}

impl Enlisted {
    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).fixed(&self.list.0).ascending(self.users.iter().map(|user| user.0));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, list) = (r.tenant()?, UploadId(r.array()?));
        Ok(Self { tenant, list, users: r.ascending()?.into_iter().map(UserNo).collect() })
    }
}

impl Delisted {
    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).fixed(&self.list.0).ascending(self.pages.iter().copied()).flag(self.is_last);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, list) = (r.tenant()?, UploadId(r.array()?));
        Ok(Self { tenant, list, pages: r.ascending()?, is_last: r.flag()? })
    }
}
