//! What shards need of a front's records, and nothing else.
//!
//! Comes from: the front's journal, in order. Decides: nothing; it is a projection.
//! Goes to: `shard::take`, by reference for lists, by `Given` for explicit users.

use crate::codec::Malformed;
use crate::records::Stamped;
use crate::records::front::{Audience, Delivery, FrontRecord, Steer};
use crate::records::walk::Walk;
use crate::tables::taken::About;
use crate::tables::work::Halt;
use fantail_rules::ids::{ListId, Millis, Position, ShardNo, TenantId, UserNo};
use fantail_rules::tier::Tier;
use fantail_rules::ulid::Ulid;
use std::sync::Arc;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrontFact {
    pub position: Position,
    pub said: Said,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    Listed {
        tenant: TenantId,
        event: Ulid,
        list: ListId,
        tier: Tier,
        about: About,
        delivery: Option<Delivery>,
        /// It was held back: its id is that of the time it was due at, and does not ascend with those around it.
        is_late: bool,
    },
    Addressed {
        tenant: TenantId,
        event: Ulid,
        members: Members,
        about: About,
        delivery: Option<Delivery>,
        is_late: bool,
    },
    /// For whoever a segment chooses.
    Walked {
        tenant: TenantId,
        event: Ulid,
        walk: Arc<Walk>,
        delivery: Option<Delivery>,
        is_late: bool,
    },
    Steered {
        tenant: TenantId,
        event: Ulid,
        steer: Steer,
    },
    Retracted {
        tenant: TenantId,
        event: Ulid,
    },
    Cancelled {
        tenant: TenantId,
        event: Ulid,
    },
    /// Called off before it was due.
    CalledOff {
        tenant: TenantId,
        event: Ulid,
        delivery: Option<Delivery>,
        members: Members,
        why: Halt,
    },
    /// Held back until this time: of no concern to shards yet.
    Scheduled {
        due: Millis,
    },
    /// Of no concern to shards.
    Other,
}

impl Said {
    fn of(
        (tenant, event, about): (TenantId, Ulid, About),
        delivery: Option<Delivery>,
        audience: &Audience,
        is_late: bool,
    ) -> Self {
        match audience {
            Audience::Listed { list, tier, .. } => {
                Self::Listed { tenant, event, list: *list, tier: *tier, about, delivery, is_late }
            }
            Audience::Addressed(shards) => {
                let members = Members(Arc::new(shards.clone()));
                Self::Addressed { tenant, event, members, about, delivery, is_late }
            }
            Audience::Walked(walk) => {
                let walk = Arc::new((**walk).clone());
                Self::Walked { tenant, event, walk, delivery, is_late }
            }
        }
    }
}

/// Members by shard, shared by the shards that look for theirs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members(Arc<Vec<(ShardNo, Vec<UserNo>)>>);

impl Members {
    /// What they hold in memory.
    fn bytes(&self) -> usize {
        self.0
            .iter()
            .map(|(_, users)| size_of_val(users.as_slice()) + size_of::<(ShardNo, Vec<UserNo>)>())
            .sum()
    }

    /// The members in one shard, if any.
    #[must_use]
    pub fn of(&self, shard: ShardNo) -> Option<&[UserNo]> {
        let found = self.0.binary_search_by_key(&shard, |(shard, _)| *shard).ok()?;
        Some(&self.0[found].1)
    }
}

impl FrontFact {
    #[must_use]
    pub fn of(position: Position, record: &FrontRecord) -> Self {
        let said = match record {
            FrontRecord::Admitted(admitted) => match admitted.options.due {
                None => {
                    let about = About::of(&admitted.category, admitted.priority);
                    let event = (admitted.tenant, admitted.event, about);
                    Said::of(event, admitted.delivery, &admitted.audience, false)
                }
                Some(due) => Said::Scheduled { due },
            },
            FrontRecord::Released(released) => {
                let event = (released.tenant, released.event, released.about);
                Said::of(event, released.delivery, &released.audience, true)
            }
            FrontRecord::Steered { tenant, event, steer } => {
                Said::Steered { tenant: *tenant, event: *event, steer: *steer }
            }
            FrontRecord::Retracted { tenant, event } => Said::Retracted { tenant: *tenant, event: *event },
            FrontRecord::Cancelled { tenant, event } => Said::Cancelled { tenant: *tenant, event: *event },
            FrontRecord::CalledOff(called) => Said::CalledOff {
                tenant: called.tenant,
                event: called.event,
                delivery: called.delivery,
                members: Members(Arc::new(called.members.clone())),
                why: called.why,
            },
            FrontRecord::Counted { .. }
            | FrontRecord::Forgotten { .. }
            | FrontRecord::Unsaid { .. }
            | FrontRecord::Wiped(_)
            | FrontRecord::Part { .. } => Said::Other,
        };
        Self { position, said }
    }

    /// What it holds in memory, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let shared = match &self.said {
            Said::Addressed { members, .. } | Said::CalledOff { members, .. } => members.bytes(),
            Said::Walked { walk, .. } => {
                size_of::<Walk>() + walk.segment.len() + walk.filter.as_ref().map_or(0, String::len)
            }
            Said::Listed { .. }
            | Said::Steered { .. }
            | Said::Retracted { .. }
            | Said::Cancelled { .. }
            | Said::Scheduled { .. }
            | Said::Other => 0,
        };
        size_of::<Self>() + shared
    }

    pub fn decode(position: Position, bytes: &[u8]) -> Result<Self, Malformed> {
        Ok(Self::of(position, &Stamped::<FrontRecord>::decode(bytes)?.record))
    }
}
