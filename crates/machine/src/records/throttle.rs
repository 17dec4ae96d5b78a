//! Facts about throttles.
//!
//! ```text
//! 33 Spaced  tenant, kind: 8, event: arrival, until, users: ascending          right before the Intend or Wake that allows it
//! 34 Lapsed  tenant, list of (hour: varint, kind: 8, page: varint)              they hold nobody back any more
//! ```

use crate::codec::{Malformed, Reader, Writer};
use crate::tables::throttle::PageId;
use fantail_rules::ids::{TenantId, UserNo};
use fantail_rules::throttle::Latest;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ThrottleRecord {
    Spaced(Spaced),
    Lapsed(Lapsed),
}

/// Something of a kind may be sent to these users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spaced {
    pub tenant: TenantId,
    pub kind: u64,
    pub latest: Latest,
    pub users: Vec<UserNo>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lapsed {
    pub tenant: TenantId,
    pub pages: Vec<PageId>,
}

impl ThrottleRecord {
    pub(super) fn tag(&self) -> u8 {
        match self {
            Self::Spaced(_) => 33,
            Self::Lapsed(_) => 34,
        }
    }

    pub(super) fn write(&self, w: &mut Writer) {
        match self {
            Self::Spaced(Spaced { tenant, kind, latest, users }) => {
                w.tenant(*tenant).fixed(&kind.to_le_bytes()).arrival(latest.event).millis(latest.until);
                w.ascending(users.iter().map(|user| user.0));
            }
            Self::Lapsed(Lapsed { tenant, pages }) => {
                w.tenant(*tenant).list(pages.iter(), |w, PageId { hour, kind, page }| {
                    w.varint(*hour).fixed(&kind.to_le_bytes()).varint(*page);
                });
            }
        }
    }

    pub(super) fn read(tag: u8, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let tenant = r.tenant()?;
        Ok(match tag {
            33 => {
                let kind = u64::from_le_bytes(r.array()?);
                let latest = Latest { event: r.arrival()?, until: r.millis()? };
                let users = r.ascending()?.into_iter().map(UserNo).collect();
                Self::Spaced(Spaced { tenant, kind, latest, users })
            }
            34 => {
                let page = |r: &mut Reader<'_>| {
                    let (hour, kind) = (r.varint()?, u64::from_le_bytes(r.array()?));
                    Ok(PageId { hour, kind, page: r.varint()? })
                };
                Self::Lapsed(Lapsed { tenant, pages: r.list(page)? })
            }
            _ => return Err(Malformed::Tag(tag)),
        })
    }
}
