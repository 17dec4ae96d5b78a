//! Those who are chosen, not named: walks over the shard's users (`pass`), and uploaded lists (`enlist`).

mod enlist;
pub mod pass;

use super::serve::Known;
use super::{Derived, Plan, ShardAnswer};
use crate::Planned;
use crate::records::segment::UploadId;
use crate::records::shard::ShardRecord;
use crate::records::walk::WalkRecord;
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, Lookup, Millis, TenantId, UserNo};
pub use pass::Held;

#[derive(Clone, Debug)]
pub enum Ask {
    /// The next users of a walk.
    Pass(Pass),
    /// An upload brings users onto a list.
    Enlist { tenant: TenantId, list: UploadId, users: Vec<Lookup> },
    /// Nobody needs an uploaded list any more.
    Delist { tenant: TenantId, list: UploadId },
}

/// What a segment says about the users from one to another.
#[derive(Clone, Debug)]
pub struct Pass {
    pub tenant: TenantId,
    pub arrival: Arrival,
    /// Where the walk was.
    pub from: UserNo,
    /// The first who was not looked at.
    pub next: UserNo,
    /// Who is chosen, ascending.
    pub members: Vec<UserNo>,
    /// How many shards share the rate: those whose walk is not over.
    pub shards: u16,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Passed {
        is_end: bool,
        /// Who was taken along, and who was chosen and was not.
        members: u64,
        skipped: u64,
    },
    Held(Held),
    /// Who of them exists here, in their order.
    Enlisted {
        known: Vec<bool>,
    },
    Delisted {
        more: bool,
    },
}

pub(super) fn plan(view: &View<'_>, ask: Ask, known: Known<'_>) -> Result<Plan, TablesError> {
    match ask {
        Ask::Pass(pass) => pass::plan(view, &pass, known),
        Ask::Enlist { tenant, list, users } => enlist::plan(view, tenant, list, &users),
        Ask::Delist { tenant, list } => enlist::plan_drop(view, tenant, list, known.steps.delisted_pages),
    }
}

pub(super) fn apply(
    view: &mut View<'_>,
    record: &WalkRecord,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    match record {
        WalkRecord::Begun(begun) => pass::apply_begun(view, begun, at, derived),
        WalkRecord::Passed(passed) => pass::apply(view, passed, at, derived),
        WalkRecord::Enlisted(enlisted) => enlist::apply(view, enlisted, at),
        WalkRecord::Delisted(delisted) => {
            enlist::apply_drop(view, delisted);
            Ok(())
        }
    }
}

fn planned(records: impl Iterator<Item = WalkRecord>, answer: Answer) -> Plan {
    Planned { records: records.map(ShardRecord::Walk).collect(), answer: ShardAnswer::Walk(answer) }
}
