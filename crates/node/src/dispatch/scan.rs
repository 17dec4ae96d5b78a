//! What the dispatcher reads of a shard's tables: a page of each kind, in one consistent state.
//!
//! Comes from: `state`, which says from where on. Goes back to it: what fits goes into lanes, and what does not is read again.

use super::state::Look;
use crate::clock::Hold;
use crate::core::Core;
use fantail_machine::tables::ledger::{Timer, TimersFrom};
use fantail_machine::tables::work::{Terms, WorkId, WorkRow};
use fantail_machine::tables::{ledger, work};
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{Millis, PartitionId};
use fantail_rules::ulid::Ulid;
use std::collections::BTreeSet;

/// Brings what is due, and work that was not offered, out of the tables.
pub(super) fn look(core: &Core) {
    let (wall, page) = (core.ports.clock.wall(), core.knobs.dispatch_page);
    let hold = core.clock.hold();
    core.dispatch.look(wall, |shard, Look { work, timers, refill, late, .. }| {
        let found = core.read(PartitionId::Shard(shard), |view| {
            let tables = view.tables();
            let works = work.map(|behind| work::all(tables, behind, page)).transpose()?;
            let due = timers.map(|from| ledger::timers_due(tables, from, wall, page)).transpose()?;
            let refilled =
                refill.map(|refill| work::all_from(tables, Some(refill.from), page)).transpose()?;
            let late = late.map(|late| TimersFrom::Row(late.from));
            let late = late.map(|from| ledger::timers_due(tables, from, wall, page)).transpose()?;
            let later = ledger::timers(tables, wall, Millis(u64::MAX - 1), 1)?;
            let kept = match hold {
                Some(hold) => {
                    let works = works.iter().chain(&refilled).flatten();
                    kept(tables, hold, works, due.iter().chain(&late).flatten())?
                }
                None => Kept::default(),
            };
            Ok(TableScan { works, due, refilled, late, later: later.first().copied(), kept })
        });
        found.inspect_err(|_| core.meter.loop_failed("dispatch"))
    });
}

/// What waits while the clock at the start is not believed: see [`Hold`].
#[derive(Default)]
pub(super) struct Kept {
    pub works: BTreeSet<WorkId>,
    pub timers: BTreeSet<Timer>,
}

fn kept<'a>(
    tables: &dyn Tables,
    hold: Hold,
    works: impl Iterator<Item = &'a (WorkId, WorkRow)>,
    due: impl Iterator<Item = &'a Timer>,
) -> Result<Kept, TablesError> {
    let keeps = |event: Ulid, terms: &Terms| hold.keeps(event.millis(), terms.expires_at);
    let works = works.filter(|(_, row)| keeps(row.event, &row.terms));
    let mut kept = Kept { works: works.map(|(work, _)| *work).collect(), ..Kept::default() };
    for timer in due {
        if ledger::find(tables, timer.parcel)?.is_some_and(|row| keeps(row.event, &row.terms)) {
            kept.timers.insert(*timer);
        }
    }
    Ok(kept)
}

/// What the tables of a shard have of what was wanted, and its next timer.
pub(super) struct TableScan {
    pub works: Option<Vec<(WorkId, WorkRow)>>,
    pub due: Option<Vec<Timer>>,
    /// Work, and timers, of a place that has room again.
    pub refilled: Option<Vec<(WorkId, WorkRow)>>,
    pub late: Option<Vec<Timer>>,
    pub later: Option<Timer>,
    pub kept: Kept,
}
