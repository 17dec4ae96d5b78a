//! Facts about events that were called off: of a front (9), and of a shard.
//!
//! ```text
//!  9 CalledOff   tenant, event: ulid, delivery: option (channels: u8, terms), list of (shard: varint, members: ascending),
//!                why: u8
//! 28 HaltEnded   tenant, arrival                              nothing of the event waits any more
//! 29 CalledOff   front: varint, position, tenant, event: ulid, delivery: option (channels: u8, terms), members: ascending,
//!                why: u8                                      it was called off before its time: nobody hears of it
//! ```

use super::front::Delivery;
use crate::codec::{Malformed, Reader, Writer};
use crate::tables::Row;
use crate::tables::ledger::Standing;
use crate::tables::work::Halt;
use fantail_rules::attempt::State;
use fantail_rules::ids::{Arrival, FrontNo, Millis, Position, ShardNo, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HaltRecord {
    Ended { tenant: TenantId, arrival: Arrival },
    CalledOff(CalledOff),
}

/// A scheduled event for explicit users of this shard that was called off before it was due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CalledOff {
    pub front: FrontNo,
    pub position: Position,
    pub tenant: TenantId,
    pub event: Ulid,
    pub delivery: Option<Delivery>,
    pub members: Vec<UserNo>,
    pub why: Halt,
}

/// A scheduled event for named users that was called off before it was due: its shards hear of it, and nobody sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CalledOffSchedule {
    pub tenant: TenantId,
    pub event: Ulid,
    pub delivery: Option<Delivery>,
    /// Members by shard, both ascending.
    pub members: Vec<(ShardNo, Vec<UserNo>)>,
    pub why: Halt,
}

impl CalledOff {
    /// Of each of its deliveries.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing {
            state: State::Cancelled,
            retries: 0,
            resends: 0,
            due: Millis(0),
            code: self.why.word().to_owned(),
            was_authorised: false,
        }
    }
}

impl CalledOffSchedule {
    pub(super) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).ulid(self.event);
        w.option(self.delivery.as_ref(), |w, delivery| delivery.write(w));
        w.list(self.members.iter(), |w, (shard, members)| {
            w.varint(shard.0.into()).ascending(members.iter().map(|member| member.0));
        });
        self.why.write(w);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            event: r.ulid()?,
            delivery: r.option(Delivery::read)?,
            members: r.list(|r| Ok((r.shard()?, r.ascending()?.into_iter().map(UserNo).collect())))?,
            why: Halt::read(r)?,
        })
    }
}

impl HaltRecord {
    pub(super) fn tag(&self) -> u8 {
        match self {
            Self::Ended { .. } => 28,
            Self::CalledOff(_) => 29,
        }
    }

    pub(super) fn write(&self, w: &mut Writer) {
        match self {
            Self::Ended { tenant, arrival } => drop(w.tenant(*tenant).arrival(*arrival)),
            Self::CalledOff(called) => {
                w.varint(called.front.0.into()).position(called.position);
                w.tenant(called.tenant).ulid(called.event);
                w.option(called.delivery.as_ref(), |w, delivery| delivery.write(w));
                w.ascending(called.members.iter().map(|member| member.0));
                called.why.write(w);
            }
        }
    }

    pub(super) fn read(tag: u8, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match tag {
            28 => Self::Ended { tenant: r.tenant()?, arrival: r.arrival()? },
            29 => Self::CalledOff(CalledOff {
                front: FrontNo(r.u16()?),
                position: r.position()?,
                tenant: r.tenant()?,
                event: r.ulid()?,
                delivery: r.option(Delivery::read)?,
                members: r.ascending()?.into_iter().map(UserNo).collect(),
                why: Halt::read(r)?,
            }),
            _ => return Err(Malformed::Tag(tag)),
        })
    }
}
