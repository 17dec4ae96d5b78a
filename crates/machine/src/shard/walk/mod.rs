//! Those who are chosen, not named: uploaded lists (`enlist`).

mod enlist;

use super::{Plan, ShardAnswer};
use crate::Planned;
use crate::records::segment::UploadId;
use crate::records::shard::ShardRecord;
use crate::records::walk::WalkRecord;
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Lookup, Millis, TenantId};

#[derive(Clone, Debug)]
pub enum Ask {
    /// An upload brings users onto a list.
    Enlist { tenant: TenantId, list: UploadId, users: Vec<Lookup> },
    /// Nobody needs an uploaded list any more.
    Delist { tenant: TenantId, list: UploadId },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Who of them exists here, in their order.
    Enlisted {
        known: Vec<bool>,
    },
    Delisted {
        more: bool,
    },
}

pub(super) fn plan(view: &View<'_>, ask: Ask) -> Result<Plan, TablesError> {
    match ask {
        Ask::Enlist { tenant, list, users } => enlist::plan(view, tenant, list, &users),
        Ask::Delist { tenant, list } => enlist::plan_drop(view, tenant, list),
    }
}

pub(super) fn apply(view: &mut View<'_>, record: &WalkRecord, at: Millis) -> Result<(), TablesError> {
    match record {
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
