//! A front orders what authors say: repeats are found, ids minted, tiers decided, in one order per front.
//!
//! `admit` takes events in, `retract` takes them back, `count` keeps the sizes of large lists, `forget` drops
//! what is past its time, `release` lets go of what was scheduled, `unsay` drops what an erased recipient was told. Shards read the result as [`fact::FrontFact`]s.

pub mod admit;
pub mod fact;
pub mod forget;
pub mod release;
mod unsay;

use crate::Planned;
use crate::records::front::{FrontRecord, Size, Steer};
use crate::tables::event::{self, EventRow, PersonalPlace};
use crate::tables::scheduled::HeldId;
use crate::tables::work::Halt;
use crate::tables::{get, put, size, walk};
use crate::view::View;
use crate::wipe::{self, Wiped};
use fantail_ports::tables::TablesError;
use fantail_rules::admit::Bucket;
use fantail_rules::ids::{FrontNo, Millis, ShardNo, TenantId, UserNo};
use fantail_rules::knobs::Knobs;
use fantail_rules::ulid::Ulid;

#[derive(Clone, Debug)]
pub enum FrontAsk {
    Admit(Box<admit::Ask>),
    /// Was this request accepted before? For requests that could not be admitted any more.
    Recall {
        tenant: TenantId,
        key: [u8; 16],
        body: [u8; 16],
    },
    Retract {
        tenant: TenantId,
        event: Ulid,
    },
    /// What of an event has not been sent stays where it is.
    Cancel {
        tenant: TenantId,
        event: Ulid,
    },
    /// A walk is to pause, to go on, or to have another pace.
    Steer {
        tenant: TenantId,
        event: Ulid,
        steer: Steer,
    },
    Counted {
        shard: ShardNo,
        sizes: Vec<Size>,
    },
    /// Let go of what is due: `StepSizes::released_events` of them at most.
    Release {
        due: Vec<HeldId>,
    },
    /// Drop idempotency keys and events past their time, some at a time.
    Forget {
        tenant: TenantId,
        retention_days: u32,
    },
    /// Drop what this recipient alone was told, some rows behind this one.
    Unsay {
        tenant: TenantId,
        shard: ShardNo,
        user: UserNo,
        behind: Option<PersonalPlace>,
    },
    /// Remove rows of a deleted tenant, some from this key on.
    Wipe {
        tenant: TenantId,
        from: Option<Vec<u8>>,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrontAnswer {
    Admitted(Ulid),
    Repeat(Ulid),
    OtherBody,
    /// As many as there can be wait for their time already.
    TooManyScheduled {
        limit: u64,
    },
    /// Nothing was accepted under this key.
    Unheard,
    Retracted,
    Cancelled,
    Steered,
    /// It was called off or taken back.
    TooLate,
    UnknownEvent,
    Counted,
    Released {
        count: usize,
    },
    Forgot {
        more: bool,
    },
    /// Where to go on, if there may be more.
    Unsaid {
        removed: u64,
        next: Option<PersonalPlace>,
    },
    Wiped(Wiped),
}

/// What planning may use of the world.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    pub now: Millis,
    /// Fresh for every ask.
    pub random: u128,
    /// How much is looked at and changed, and how large a record may be.
    pub knobs: &'a Knobs,
    /// It is known that the tenant accepted nothing in the bucket before this one.
    pub quiet_before: bool,
}

impl Moment<'_> {
    /// The buckets in which a repeat may be.
    fn searched(&self) -> Vec<Bucket> {
        let [current, before] = Bucket::searched(self.now);
        if self.quiet_before { vec![current] } else { vec![current, before] }
    }
}

pub type Plan = Planned<FrontRecord, FrontAnswer>;

pub fn plan(view: &View<'_>, ask: FrontAsk, front: FrontNo, moment: Moment<'_>) -> Result<Plan, TablesError> {
    match ask {
        FrontAsk::Admit(ask) => admit::plan(view, *ask, front, moment),
        FrontAsk::Recall { tenant, key, body } => {
            let known = admit::recall(view, tenant, &key, body, &moment)?;
            Ok(Planned::nothing(known.unwrap_or(FrontAnswer::Unheard)))
        }
        FrontAsk::Retract { tenant, event } => Ok(match event::find(view, tenant, event)? {
            None => Planned::nothing(FrontAnswer::UnknownEvent),
            Some(row) if row.retracted => Planned::nothing(FrontAnswer::Retracted),
            Some(row) => {
                let mut records = vec![FrontRecord::Retracted { tenant, event }];
                records.extend(release::called_off(view, (tenant, event), &row, Halt::Retracted)?);
                Planned { records, answer: FrontAnswer::Retracted }
            }
        }),
        FrontAsk::Cancel { tenant, event } => Ok(match event::find(view, tenant, event)? {
            None => Planned::nothing(FrontAnswer::UnknownEvent),
            Some(row) if row.cancelled => Planned::nothing(FrontAnswer::Cancelled),
            Some(row) => {
                let mut records = vec![FrontRecord::Cancelled { tenant, event }];
                records.extend(release::called_off(view, (tenant, event), &row, Halt::Cancelled)?);
                Planned { records, answer: FrontAnswer::Cancelled }
            }
        }),
        FrontAsk::Steer { tenant, event, steer } => plan_steer(view, tenant, event, steer),
        FrontAsk::Counted { shard, sizes } => {
            Ok(Planned::one(FrontRecord::Counted { shard, sizes }, FrontAnswer::Counted))
        }
        FrontAsk::Release { due } => {
            release::plan(view, &due, moment.now, moment.knobs.steps.released_events)
        }
        FrontAsk::Forget { tenant, retention_days } => {
            forget::plan(view, (tenant, retention_days), moment.now, &moment.knobs.steps)
        }
        FrontAsk::Unsay { tenant, shard, user, behind } => {
            unsay::plan(view, tenant, (shard, user), behind, moment.knobs.steps.unsaid_rows)
        }
        FrontAsk::Wipe { tenant, from } => {
            let (stretch, wiped) = wipe::plan(view, tenant, from.as_deref(), moment.knobs.steps.wiped_rows)?;
            let records = stretch.into_iter().map(FrontRecord::Wiped).collect();
            Ok(Planned { records, answer: FrontAnswer::Wiped(wiped) })
        }
    }
}

fn plan_steer(view: &View<'_>, tenant: TenantId, event: Ulid, steer: Steer) -> Result<Plan, TablesError> {
    let (row, bulk) = (event::find(view, tenant, event)?, walk::bulk(view, tenant, event)?);
    let (Some(row), Some(bulk)) = (row, bulk) else {
        return Ok(Planned::nothing(FrontAnswer::UnknownEvent));
    };
    if row.cancelled || row.retracted {
        return Ok(Planned::nothing(FrontAnswer::TooLate));
    }
    let is_so = match steer {
        Steer::Pause => bulk.walk.is_paused,
        Steer::Resume => !bulk.walk.is_paused,
        Steer::Pace(pace) => bulk.walk.pace == pace,
    };
    if is_so {
        return Ok(Planned::nothing(FrontAnswer::Steered));
    }
    Ok(Planned::one(FrontRecord::Steered { tenant, event, steer }, FrontAnswer::Steered))
}

fn apply_steered(
    view: &mut View<'_>,
    tenant: TenantId,
    event: Ulid,
    steer: Steer,
) -> Result<(), TablesError> {
    if let Some(mut bulk) = walk::bulk(view, tenant, event)? {
        match steer {
            Steer::Pause => bulk.walk.is_paused = true,
            Steer::Resume => bulk.walk.is_paused = false,
            Steer::Pace(pace) => bulk.walk.pace = pace,
        }
        put(view, walk::bulk_key(tenant, event), &bulk);
    }
    Ok(())
}

pub fn apply(view: &mut View<'_>, record: &FrontRecord, at: Millis) -> Result<(), TablesError> {
    match record {
        FrontRecord::Admitted(admitted) => admit::apply(view, admitted, at),
        FrontRecord::Part { tenant, event, contents } => admit::apply_part(view, *tenant, *event, contents),
        FrontRecord::Retracted { tenant, event } => {
            let key = event::key(*tenant, *event);
            if let Some(mut row) = get::<EventRow>(view, &key)? {
                row.retracted = true;
                release::drop_held(view, *tenant, *event, row.options.due)?;
                put(view, key, &row);
            }
            Ok(())
        }
        FrontRecord::Cancelled { tenant, event } => {
            let key = event::key(*tenant, *event);
            if let Some(mut row) = get::<EventRow>(view, &key)? {
                row.cancelled = true;
                release::drop_held(view, *tenant, *event, row.options.due)?;
                put(view, key, &row);
            }
            Ok(())
        }
        FrontRecord::Released(released) => release::apply(view, released),
        // Only the shards of its recipients do something about it.
        FrontRecord::CalledOff(_) => Ok(()),
        FrontRecord::Steered { tenant, event, steer } => apply_steered(view, *tenant, *event, *steer),
        FrontRecord::Counted { shard, sizes } => {
            for reported in sizes {
                let mut row = size::find(view, reported.tenant, reported.list)?;
                row.set(*shard, reported.members);
                put(view, size::key(reported.tenant, reported.list), &row);
            }
            Ok(())
        }
        FrontRecord::Forgotten { tenant, bucket, keys, events } => {
            forget::apply(view, *tenant, *bucket, keys, events)
        }
        FrontRecord::Unsaid { tenant, shard, user, events } => {
            unsay::apply(view, *tenant, (*shard, *user), events)
        }
        FrontRecord::Wiped(stretch) => wipe::apply(view, stretch, |_, _, _| Ok(())),
    }
}
