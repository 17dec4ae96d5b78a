//! An event for explicit users of a shard; for its bytes see `shard`.

use super::front::Delivery;
use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::{FrontNo, Position, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    pub front: FrontNo,
    pub position: Position,
    pub tenant: TenantId,
    pub event: Ulid,
    /// It was held back: see `tables::taken`.
    pub is_late: bool,
    pub delivery: Option<Delivery>,
    pub members: Vec<UserNo>,
}

impl Given {
    pub(super) fn write(&self, w: &mut Writer) {
        w.varint(self.front.0.into()).position(self.position);
        w.tenant(self.tenant).ulid(self.event).flag(self.is_late);
        w.option(self.delivery.as_ref(), |w, delivery| delivery.write(w));
        w.ascending(self.members.iter().map(|member| member.0));
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            front: FrontNo(r.u16()?),
            position: r.position()?,
            tenant: r.tenant()?,
            event: r.ulid()?,
            is_late: r.flag()?,
            delivery: r.option(Delivery::read)?,
            members: r.ascending()?.into_iter().map(UserNo).collect(),
        })
    }
}
