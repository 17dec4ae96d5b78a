//! The four machines as a leader sees them: decide an ask, fold a record.
//!
//! Comes from: `lead` (asks) and `recover` (records). Does: bridges typed asks and bytes.
//! Goes to: `fantail_machine`, which has all the logic.

use crate::batch::{Batch, Undecided};
use crate::control::ControlPlane;
use fantail_machine::Planned;
use fantail_machine::codec::Malformed;
use fantail_machine::directory::{self, DirectoryAnswer, DirectoryAsk};
use fantail_machine::front::fact::FrontFact;
use fantail_machine::front::{self, FrontAnswer, FrontAsk, Moment};
use fantail_machine::records::Stamped;
use fantail_machine::records::directory::DirectoryRecord;
use fantail_machine::records::front::FrontRecord;
use fantail_machine::records::root::RootRecord;
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::root::{self, RootAnswer, RootAsk};
use fantail_machine::shard::{self, Derived, ShardAnswer, ShardAsk};
use fantail_machine::tables::idempotency;
use fantail_machine::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::admit::Bucket;
use fantail_rules::ids::{DirectoryNo, FrontNo, Millis, PartitionId, Position, ShardNo, TenantId};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// One machine of one partition.
pub trait Machine: Send + Sync + 'static {
    type Ask: Send + 'static;
    type Answer: Send + 'static;

    fn partition(&self) -> PartitionId;

    /// Plans an ask and applies its records at once, so that the next ask sees them. An ask whose records do not fit
    /// changes nothing.
    fn decide(
        &self,
        view: &mut View<'_>,
        ask: Self::Ask,
        moment: Moment<'_>,
        batch: &mut Batch,
    ) -> Result<Self::Answer, Undecided>;

    /// Folds a record from the journal.
    fn replay(
        &self,
        view: &mut View<'_>,
        record: &[u8],
        facts: &[FrontFact],
        derived: &mut Derived,
    ) -> Result<(), ReplayError>;

    /// The stretch of a front's facts that a record refers to.
    fn refers_to(&self, record: &[u8]) -> Result<Option<Reference>, Malformed>;
}

#[derive(Clone, Copy, Debug)]
pub struct Reference {
    pub front: FrontNo,
    pub from: Position,
    pub to: Position,
}

#[derive(Debug, Error)]
pub enum ReplayError {
    #[error("record does not decode: {0}")]
    Record(#[from] Malformed),
    #[error(transparent)]
    Tables(#[from] TablesError),
}

pub struct Root;

impl Machine for Root {
    type Ask = RootAsk;
    type Answer = RootAnswer;

    fn partition(&self) -> PartitionId {
        PartitionId::Root
    }

    fn decide(
        &self,
        view: &mut View<'_>,
        ask: RootAsk,
        moment: Moment<'_>,
        batch: &mut Batch,
    ) -> Result<RootAnswer, Undecided> {
        let Planned { records, answer } = root::plan(view, ask, moment.now)?;
        let (_, records) = batch.add(moment.now, records)?;
        for record in records {
            root::apply(view, &record, moment.now)?;
        }
        Ok(answer)
    }

    fn replay(
        &self,
        view: &mut View<'_>,
        record: &[u8],
        _: &[FrontFact],
        _: &mut Derived,
    ) -> Result<(), ReplayError> {
        let Stamped { at, record, .. } = Stamped::<RootRecord>::decode(record)?;
        Ok(root::apply(view, &record, at)?)
    }

    fn refers_to(&self, _: &[u8]) -> Result<Option<Reference>, Malformed> {
        Ok(None)
    }
}

pub struct Front {
    pub no: FrontNo,
    /// Buckets of the past in which a tenant accepted nothing: no need to look for repeats there.
    quiet: Mutex<BTreeSet<(TenantId, Bucket)>>,
}

impl Front {
    pub fn new(no: FrontNo) -> Self {
        Self { no, quiet: Mutex::default() }
    }

    /// Asks the tables once per tenant and bucket.
    fn is_quiet_before(&self, view: &View<'_>, tenant: TenantId, now: Millis) -> Result<bool, TablesError> {
        let [_, before] = Bucket::searched(now);
        let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        if quiet.contains(&(tenant, before)) {
            return Ok(true);
        }
        let empty = idempotency::is_empty(view, tenant, before)?;
        if empty {
            quiet.retain(|(_, bucket)| *bucket >= before);
            quiet.insert((tenant, before));
        }
        Ok(empty)
    }
}

impl Machine for Front {
    type Ask = FrontAsk;
    type Answer = FrontAnswer;

    fn partition(&self) -> PartitionId {
        PartitionId::Front(self.no)
    }

    fn decide(
        &self,
        view: &mut View<'_>,
        ask: FrontAsk,
        moment: Moment<'_>,
        batch: &mut Batch,
    ) -> Result<FrontAnswer, Undecided> {
        let quiet_before = match &ask {
            FrontAsk::Admit(ask) => self.is_quiet_before(view, ask.tenant, moment.now)?,
            FrontAsk::Recall { .. }
            | FrontAsk::Retract { .. }
            | FrontAsk::Cancel { .. }
            | FrontAsk::Steer { .. }
            | FrontAsk::Counted { .. }
            | FrontAsk::Release { .. }
            | FrontAsk::Unsay { .. }
            | FrontAsk::Wipe { .. }
            | FrontAsk::Forget { .. } => false,
        };
        let moment = Moment { quiet_before, ..moment };
        let Planned { records, answer } = front::plan(view, ask, self.no, moment)?;
        let (mut position, records) = batch.add(moment.now, records)?;
        for record in records {
            front::apply(view, &record, moment.now)?;
            batch.facts.push(FrontFact::of(position, &record));
            position = position.next();
        }
        Ok(answer)
    }

    fn replay(
        &self,
        view: &mut View<'_>,
        record: &[u8],
        _: &[FrontFact],
        _: &mut Derived,
    ) -> Result<(), ReplayError> {
        let Stamped { at, record, .. } = Stamped::<FrontRecord>::decode(record)?;
        Ok(front::apply(view, &record, at)?)
    }

    fn refers_to(&self, _: &[u8]) -> Result<Option<Reference>, Malformed> {
        Ok(None)
    }
}

pub struct Directory(pub DirectoryNo);

impl Machine for Directory {
    type Ask = DirectoryAsk;
    type Answer = DirectoryAnswer;

    fn partition(&self) -> PartitionId {
        PartitionId::Directory(self.0)
    }

    fn decide(
        &self,
        view: &mut View<'_>,
        ask: DirectoryAsk,
        moment: Moment<'_>,
        batch: &mut Batch,
    ) -> Result<DirectoryAnswer, Undecided> {
        let Planned { records, answer } = directory::plan(view, ask)?;
        let (_, records) = batch.add(moment.now, records)?;
        for record in records {
            directory::apply(view, &record, moment.now)?;
        }
        Ok(answer)
    }

    fn replay(
        &self,
        view: &mut View<'_>,
        record: &[u8],
        _: &[FrontFact],
        _: &mut Derived,
    ) -> Result<(), ReplayError> {
        let Stamped { at, record, .. } = Stamped::<DirectoryRecord>::decode(record)?;
        Ok(directory::apply(view, &record, at)?)
    }

    fn refers_to(&self, _: &[u8]) -> Result<Option<Reference>, Malformed> {
        Ok(None)
    }
}

pub struct Shard {
    pub no: ShardNo,
    /// Asked when something is planned, so that what a tenant was told is in force is.
    pub control: Arc<ControlPlane>,
}

impl Machine for Shard {
    type Ask = ShardAsk;
    type Answer = ShardAnswer;

    fn partition(&self) -> PartitionId {
        PartitionId::Shard(self.no)
    }

    fn decide(
        &self,
        view: &mut View<'_>,
        ask: ShardAsk,
        moment: Moment<'_>,
        batch: &mut Batch,
    ) -> Result<ShardAnswer, Undecided> {
        let facts = match &ask {
            ShardAsk::Take { facts, .. } => facts.clone(),
            ShardAsk::PutUsers { .. }
            | ShardAsk::DeleteUser { .. }
            | ShardAsk::Erase { .. }
            | ShardAsk::Purge { .. }
            | ShardAsk::Reached { .. }
            | ShardAsk::Removed { .. }
            | ShardAsk::Edit { .. }
            | ShardAsk::Mark { .. }
            | ShardAsk::EndHalted { .. }
            | ShardAsk::Reported { .. }
            | ShardAsk::Shredded { .. }
            | ShardAsk::Walk(_)
            | ShardAsk::Told { .. }
            | ShardAsk::Untell { .. }
            | ShardAsk::Expire { .. }
            | ShardAsk::Sweep { .. }
            | ShardAsk::Serve { .. }
            | ShardAsk::Outcome { .. }
            | ShardAsk::Orphans { .. }
            | ShardAsk::Redrive { .. }
            | ShardAsk::Receipt { .. }
            | ShardAsk::Wipe { .. }
            | ShardAsk::Register { .. }
            | ShardAsk::Unregister { .. }
            | ShardAsk::Hear { .. }
            | ShardAsk::Prefer { .. }
            | ShardAsk::Consent { .. }
            | ShardAsk::Replan { .. }
            | ShardAsk::CloseWindows { .. }
            | ShardAsk::Fold { .. }
            | ShardAsk::Digested { .. }
            | ShardAsk::Age { .. } => Arc::default(),
        };
        let policies = self.control.now().policies.clone();
        let Planned { records, answer } = shard::plan(view, ask, self.no, moment, &policies)?;
        let (_, records) = batch.add(moment.now, records)?;
        for record in records {
            shard::apply(view, &record, moment.now, &facts, &mut batch.derived)?;
            batch.endpoints.count(&record);
            batch.deliveries.count(&record);
        }
        Ok(answer)
    }

    fn replay(
        &self,
        view: &mut View<'_>,
        record: &[u8],
        facts: &[FrontFact],
        derived: &mut Derived,
    ) -> Result<(), ReplayError> {
        let Stamped { at, record, .. } = Stamped::<ShardRecord>::decode(record)?;
        Ok(shard::apply(view, &record, at, facts, derived)?)
    }

    fn refers_to(&self, record: &[u8]) -> Result<Option<Reference>, Malformed> {
        Ok(match Stamped::<ShardRecord>::decode(record)?.record {
            ShardRecord::Take { front, from, to } => Some(Reference { front, from, to }),
            ShardRecord::UserPut { .. }
            | ShardRecord::UserGone { .. }
            | ShardRecord::Preferred(_)
            | ShardRecord::Consented { .. }
            | ShardRecord::Replanned { .. }
            | ShardRecord::Erasure(_)
            | ShardRecord::Wiped(_)
            | ShardRecord::Edges { .. }
            | ShardRecord::Given(_)
            | ShardRecord::Marked { .. }
            | ShardRecord::Moved { .. }
            | ShardRecord::Cleared { .. }
            | ShardRecord::Unlisted { .. }
            | ShardRecord::Reported { .. }
            | ShardRecord::Shredded { .. }
            | ShardRecord::Expired { .. }
            | ShardRecord::Intend(_)
            | ShardRecord::Wake(_)
            | ShardRecord::Outcome(_)
            | ShardRecord::Receipt(_)
            | ShardRecord::Redrive(_)
            | ShardRecord::Closed { .. }
            | ShardRecord::Halt(_)
            | ShardRecord::Swept(_)
            | ShardRecord::Digest(_)
            | ShardRecord::Walk(_)
            | ShardRecord::Told(_)
            | ShardRecord::Throttle(_)
            | ShardRecord::Untold { .. }
            | ShardRecord::EndpointPut { .. }
            | ShardRecord::EndpointState { .. }
            | ShardRecord::EndpointGone { .. } => None,
        })
    }
}
