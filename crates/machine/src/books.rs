//! The books: every tally is recounted from the ledgers, so that accepted = ended + in flight, per event and per lane.
//!
//! Comes from: the tables of one shard, offline or some rows at a time beside a running leader. Decides: which tallies
//! differ from what the ledgers say. Goes to: `fantail check`, and an alarm. It changes nothing: a difference is a bug
//! or damage, and neither is healed by writing over it.
//!
//! ```text
//! ledgers ──► sum per (tenant, event, channel) ── = ──► tally of the event
//!    └──────► sum per (tenant, lane) + what was swept = tally of the lane     work rows per lane = its open work
//! ```
//! While a leader goes on, a sum over several steps is compared only if the tally was the same before and after it, and
//! lanes only if nothing at all moved since the beginning.

use crate::tables::ledger::{self, ParcelId};
use crate::tables::tally::{self, Tally};
use crate::tables::work::{self, WorkId};
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::attempt::State;
use fantail_rules::ids::{Position, TenantId};
use fantail_rules::priority::Priority;
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

/// A tally that is not what the ledgers say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Imbalance {
    pub tenant: TenantId,
    pub of: Of,
    pub what: What,
    /// What the tally says.
    pub kept: u64,
    /// What the ledgers say.
    pub counted: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Of {
    Event(WorkId),
    Lane(Priority),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum What {
    Deliveries(State),
    /// Work of which members are left to be looked at.
    OpenWork,
}

/// How much was recounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    pub ledgers: u64,
    pub deliveries: u64,
}

/// One walk over the books of a shard.
#[derive(Clone, Debug)]
pub struct Books {
    began: Position,
    walk: Walk,
    group: Option<Group>,
    lanes: BTreeMap<(TenantId, Priority), Tally>,
    /// The events of the ledgers that were read since they were taken out; `None` if nobody takes them out.
    events: Option<Vec<(TenantId, Ulid)>>,
    pub counted: Counted,
}

#[derive(Clone, Copy, Debug)]
enum Walk {
    Ledgers(Option<ParcelId>),
    /// Those of events without ledgers.
    Tallies(Option<WorkId>),
    Works(Option<WorkId>),
    Done,
}

/// The ledgers of one event and channel.
#[derive(Clone, Debug)]
struct Group {
    work: WorkId,
    /// As it was when the first of them was read.
    kept: Tally,
    counted: Tally,
}

impl Books {
    #[must_use]
    pub fn begin(position: Position) -> Self {
        let (walk, counted) = (Walk::Ledgers(None), Counted::default());
        Self { began: position, walk, group: None, lanes: BTreeMap::new(), events: None, counted }
    }

    /// Names the events too, for [`Books::take_events`].
    #[must_use]
    pub fn with_events(mut self) -> Self {
        self.events = Some(Vec::new());
        self
    }

    /// The events of what was read since the last call. One event has ledgers in many shards, and several in each.
    pub fn take_events(&mut self) -> Vec<(TenantId, Ulid)> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.walk, Walk::Done)
    }

    /// Reads some more rows, and says what differs among what was read to its end.
    pub fn step(
        &mut self,
        tables: &dyn Tables,
        position: Position,
        rows_max: usize,
    ) -> Result<Vec<Imbalance>, TablesError> {
        let mut found = Vec::new();
        match self.walk {
            Walk::Ledgers(after) => self.ledgers(tables, after, rows_max, &mut found)?,
            Walk::Tallies(after) => self.tallies(tables, after, rows_max, &mut found)?,
            Walk::Works(after) => {
                self.works(tables, after, rows_max)?;
                if self.is_done() && position == self.began {
                    self.compare_lanes(tables, &mut found)?;
                }
            }
            Walk::Done => {}
        }
        Ok(found)
    }

    fn ledgers(
        &mut self,
        tables: &dyn Tables,
        after: Option<ParcelId>,
        rows_max: usize,
        found: &mut Vec<Imbalance>,
    ) -> Result<(), TablesError> {
        let rows = ledger::all(tables, after, rows_max)?;
        for (parcel, row) in &rows {
            if self.group.as_ref().is_none_or(|group| group.work != parcel.work()) {
                self.close_group(tables, found)?;
                let work = parcel.work();
                let kept = tally::find(tables, &tally::key(work.tenant, work.arrival, work.channel))?;
                self.group = Some(Group { work, kept, counted: Tally::default() });
                self.events.iter_mut().for_each(|events| events.push((work.tenant, row.event)));
            }
            let group = self.group.as_mut().expect("a group was begun");
            let lane = self.lanes.entry((parcel.tenant, row.terms.lane)).or_default();
            for standing in row.standings.iter() {
                group.counted.enter(standing.state, 1);
                lane.enter(standing.state, 1);
            }
            self.counted.ledgers += 1;
            self.counted.deliveries += row.standings.codes.len() as u64;
        }
        self.walk = match rows.last().filter(|_| rows.len() == rows_max) {
            Some((last, _)) => Walk::Ledgers(Some(*last)),
            None => {
                self.close_group(tables, found)?;
                Walk::Tallies(None)
            }
        };
        Ok(())
    }

    fn close_group(&mut self, tables: &dyn Tables, found: &mut Vec<Imbalance>) -> Result<(), TablesError> {
        let Some(Group { work, kept, counted }) = self.group.take() else { return Ok(()) };
        let now = tally::find(tables, &tally::key(work.tenant, work.arrival, work.channel))?;
        if now == kept {
            found.extend(differences(work.tenant, Of::Event(work), &kept, &counted));
        }
        Ok(())
    }

    fn tallies(
        &mut self,
        tables: &dyn Tables,
        after: Option<WorkId>,
        rows_max: usize,
        found: &mut Vec<Imbalance>,
    ) -> Result<(), TablesError> {
        let rows = tally::all(tables, after, rows_max)?;
        for (work, kept) in &rows {
            if !ledger::exist(tables, *work)? {
                found.extend(differences(work.tenant, Of::Event(*work), kept, &Tally::default()));
            }
        }
        let last = rows.last().filter(|_| rows.len() == rows_max);
        self.walk = last.map_or(Walk::Works(None), |(last, _)| Walk::Tallies(Some(*last)));
        Ok(())
    }

    fn works(
        &mut self,
        tables: &dyn Tables,
        after: Option<WorkId>,
        rows_max: usize,
    ) -> Result<(), TablesError> {
        let rows = work::all(tables, after, rows_max)?;
        for (work, row) in &rows {
            self.lanes.entry((work.tenant, row.terms.lane)).or_default().open += 1;
        }
        let last = rows.last().filter(|_| rows.len() == rows_max);
        self.walk = last.map_or(Walk::Done, |(last, _)| Walk::Works(Some(*last)));
        Ok(())
    }

    fn compare_lanes(&mut self, tables: &dyn Tables, found: &mut Vec<Imbalance>) -> Result<(), TablesError> {
        let mut counted = std::mem::take(&mut self.lanes);
        for (tenant, lane, kept) in tally::by_lane(tables)? {
            let mut sum = counted.remove(&(tenant, lane)).unwrap_or_default();
            sum.join(&tally::find(tables, &tally::swept_key(tenant, lane))?);
            found.extend(differences(tenant, Of::Lane(lane), &kept, &sum));
        }
        for ((tenant, lane), sum) in counted {
            found.extend(differences(tenant, Of::Lane(lane), &Tally::default(), &sum));
        }
        Ok(())
    }
}

fn differences(tenant: TenantId, of: Of, kept: &Tally, counted: &Tally) -> Vec<Imbalance> {
    let one = |what, kept, counted| Imbalance { tenant, of, what, kept, counted };
    let states =
        State::ALL.into_iter().map(|state| one(What::Deliveries(state), kept.of(state), counted.of(state)));
    let open = one(What::OpenWork, kept.open, counted.open);
    states.chain([open]).filter(|one| one.kept != one.counted).collect()
}
