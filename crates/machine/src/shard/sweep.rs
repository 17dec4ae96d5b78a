//! The end of the guard: what is kept about deliveries goes some days after their event (30, if nobody says otherwise), a bounded number of rows at a time.
//!
//! Comes from: the leader's housekeeping. Decides: which events are past the guard and have nothing in flight, and which of
//! their ledgers one record can drop; and which throttles are over. Goes to: `Swept`, which names them, and `Lapsed`. What was swept stays counted: sums of lanes never
//! go down, and the books still balance.
//!
//! What must never happen: a ledger that goes while something of its event could still be sent, and a row that stays
//! behind it.

use super::{Plan, ShardAnswer, throttle};
use crate::Planned;
use crate::records::delivery::Swept;
use crate::records::shard::ShardRecord;
use crate::tables::ledger::{self, LedgerRow, ParcelId};
use crate::tables::tally::Tally;
use crate::tables::{digest, guard, put, taken, tally, track, walk, work};
use crate::view::View;
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Millis, TenantId};
use fantail_rules::knobs::StepSizes;
use fantail_rules::priority::Priority;
use std::collections::{BTreeMap, BTreeSet};

/// A deleted row costs one, a ledger that is read some more.
const LEDGER_COST: usize = 8;

/// Where a sweep goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SweepNext {
    /// In this round, if there may be more.
    pub behind: Option<Arrival>,
    /// In the next round: everything up to here is gone.
    pub gone_through: Arrival,
}

/// What is past the guard, of events above an arrival.
pub(super) fn plan(
    view: &View<'_>,
    (tenant, behind): (TenantId, Arrival),
    oldest_kept: Millis,
    now: Millis,
    steps: &StepSizes,
) -> Result<Plan, TablesError> {
    let (swept, next) = select(view, tenant, behind, oldest_kept, steps)?;
    let mut records: Vec<ShardRecord> =
        throttle::plan_lapsed(view, tenant, now, steps.lapsed_pages)?.into_iter().collect();
    if !swept.parcels.is_empty() || !swept.arrivals.is_empty() {
        records.push(ShardRecord::Swept(swept));
    }
    Ok(Planned { records, answer: ShardAnswer::Swept(next) })
}

fn select(
    view: &View<'_>,
    tenant: TenantId,
    behind: Arrival,
    oldest_kept: Millis,
    steps: &StepSizes,
) -> Result<(Swept, SweepNext), TablesError> {
    let mut swept = Swept { tenant, parcels: Vec::new(), arrivals: Vec::new() };
    let (mut at, mut cost, mut is_over, mut gone_through) = (behind, 0, false, None);
    let arrivals = guard::guarded(view, tenant, behind, steps.sweep_rows)?;
    let Some(last) = arrivals.last().copied() else {
        return Ok((swept, SweepNext { behind: None, gone_through: behind }));
    };
    let range = ArrivalRange { after: behind, before: last.next() };
    // One scan of each family for all of them.
    let open = guard::open_in(view, tenant, range)?;
    let ledgers = ledger::of_events(view, tenant, range, steps.sweep_ledgers)?;
    let unread =
        ledgers.last().filter(|_| ledgers.len() == steps.sweep_ledgers).map(|(parcel, _)| parcel.arrival);
    for arrival in arrivals {
        if unread.is_some_and(|unread| arrival > unread) {
            break;
        }
        let first = ledgers.partition_point(|(parcel, _)| parcel.arrival < arrival);
        let own = &ledgers[first..ledgers.partition_point(|(parcel, _)| parcel.arrival <= arrival)];
        // Arrivals ascend with time: what follows is younger.
        if time_of(view, (tenant, arrival), own.first())? >= oldest_kept {
            is_over = true;
            break;
        }
        if open.contains(&arrival) {
            gone_through.get_or_insert(at);
        } else {
            let fitting = own.iter().take_while(|(_, row)| {
                let is_first = cost == 0;
                cost += cost_of(row);
                is_first || cost <= steps.sweep_cost
            });
            let fitting: Vec<ParcelId> = fitting.map(|(parcel, _)| *parcel).collect();
            let is_whole = fitting.len() == own.len() && unread != Some(arrival);
            swept.parcels.extend(fitting);
            if !is_whole {
                break;
            }
            cost += 1;
            swept.arrivals.push(arrival);
        }
        at = arrival;
    }
    let next = (!is_over).then_some(at);
    Ok((swept, SweepNext { behind: next, gone_through: gone_through.unwrap_or(at) }))
}

fn cost_of(row: &LedgerRow) -> usize {
    LEDGER_COST + if row.is_tracked { track::blocks(row.members.count()) } else { 0 }
}

/// When an event was accepted, or was due, or was called off before. One that left no ledger and whose page is gone guards
/// nothing.
fn time_of(
    view: &View<'_>,
    (tenant, arrival): (TenantId, Arrival),
    first: Option<&(ParcelId, LedgerRow)>,
) -> Result<Millis, TablesError> {
    if let Some((_, row)) = first {
        return Ok(row.event.millis().min(row.begun));
    }
    let page = taken::page_of(view, tenant, arrival)?;
    let page = page.filter(|(first, page)| arrival.0 < first.0 + page.events.len() as u64);
    Ok(page.map_or(Millis(0), |(_, page)| page.at))
}

pub(super) fn apply(view: &mut View<'_>, swept: &Swept) -> Result<(), TablesError> {
    let mut closed = Closed::default();
    for parcel in &swept.parcels {
        let Some(row) = ledger::find(view, *parcel)? else { continue };
        closed.add(*parcel, &row);
        if row.is_tracked {
            track::keys(*parcel, row.members.count()).for_each(|key| view.delete(key));
        }
        if digest::is_digest(row.event) {
            view.delete(digest::key(parcel.tenant, row.event));
        }
        if row.standings.words.iter().any(|word| word.state == State::Dead) {
            view.delete(parcel.dead_key());
        }
        view.delete(parcel.key());
    }
    closed.write(view, swept)?;
    for arrival in &swept.arrivals {
        for channel in ChannelKind::ALL {
            delete_existing(view, tally::key(swept.tenant, *arrival, channel))?;
        }
        delete_existing(view, work::given_key(swept.tenant, *arrival))?;
        delete_existing(view, work::halt_key(swept.tenant, *arrival))?;
        delete_existing(view, walk::key(swept.tenant, *arrival))?;
    }
    Ok(())
}

/// A deletion of nothing would be a row of the store too, until it is compacted.
fn delete_existing(view: &mut View<'_>, key: Vec<u8>) -> Result<(), TablesError> {
    let mut exists = false;
    view.read(&key, &mut |row| exists = row.is_some())?;
    if exists {
        view.delete(key);
    }
    Ok(())
}

/// The deliveries of swept ledgers: they leave the tallies of their events for what was swept of their lanes.
#[derive(Default)]
struct Closed {
    by_event: BTreeMap<(Arrival, ChannelKind), Tally>,
    by_lane: BTreeMap<Priority, Tally>,
}

impl Closed {
    fn add(&mut self, parcel: ParcelId, row: &LedgerRow) {
        let of_event = self.by_event.entry((parcel.arrival, parcel.channel)).or_default();
        let of_lane = self.by_lane.entry(row.terms.lane).or_default();
        for standing in row.standings.iter() {
            of_event.enter(standing.state, 1);
            of_lane.enter(standing.state, 1);
        }
    }

    fn write(self, view: &mut View<'_>, swept: &Swept) -> Result<(), TablesError> {
        let whole: BTreeSet<Arrival> = swept.arrivals.iter().copied().collect();
        for ((arrival, channel), closed) in self.by_event {
            // The tally of an event that goes as a whole goes with it.
            if !whole.contains(&arrival) {
                let key = tally::key(swept.tenant, arrival, channel);
                let mut left = tally::find(view, &key)?;
                State::ALL.into_iter().for_each(|state| left.leave(state, closed.of(state)));
                put(view, key, &left);
            }
        }
        for (lane, closed) in self.by_lane {
            let key = tally::swept_key(swept.tenant, lane);
            let mut all = tally::find(view, &key)?;
            all.join(&closed);
            put(view, key, &all);
        }
        Ok(())
    }
}
