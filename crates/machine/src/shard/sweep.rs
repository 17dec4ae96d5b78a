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
use crate::tables::{digest, guard, put, taken, tally, track, walk, work};
use crate::view::View;
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::tables::TablesError;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};

/// Events that one ask looks at, and ledgers of one of them.
const EVENTS_MAX: usize = 64;
const LEDGERS_MAX: usize = 64;
/// What one record may cost: a deleted row counts one, a ledger that is read counts some more.
const COST_MAX: usize = 1_000;
const LEDGER_COST: usize = 8;

/// What is past the guard, of events above an arrival.
pub(super) fn plan(
    view: &View<'_>,
    tenant: TenantId,
    behind: Arrival,
    oldest_kept: Millis,
    now: Millis,
) -> Result<Plan, TablesError> {
    let mut swept = Swept { tenant, parcels: Vec::new(), arrivals: Vec::new() };
    let (mut at, mut cost, mut is_over) = (behind, 0, false);
    let arrivals = guard::guarded(view, tenant, behind, EVENTS_MAX)?;
    let is_last = arrivals.is_empty();
    for arrival in arrivals {
        // Arrivals ascend with time: what follows is younger.
        if time_of(view, tenant, arrival)? >= oldest_kept {
            is_over = true;
            break;
        }
        if !guard::is_open(view, tenant, ArrivalRange { after: before(arrival), before: arrival.next() })? {
            let from = ParcelId { tenant, arrival, channel: ChannelKind::InApp, first: UserNo(0) };
            let found = ledger::of_event(view, from, LEDGERS_MAX)?;
            let fitting = found.iter().take_while(|(_, row)| {
                let is_first = cost == 0;
                cost += cost_of(row);
                is_first || cost <= COST_MAX
            });
            let fitting: Vec<ParcelId> = fitting.map(|(parcel, _)| *parcel).collect();
            let is_whole = fitting.len() == found.len() && found.len() < LEDGERS_MAX;
            swept.parcels.extend(fitting);
            if !is_whole {
                break;
            }
            cost += 1;
            swept.arrivals.push(arrival);
        }
        at = arrival;
    }
    let next = (!is_last && !is_over).then_some(at);
    let answer = ShardAnswer::Swept { next };
    let mut records: Vec<ShardRecord> = throttle::plan_lapsed(view, tenant, now)?.into_iter().collect();
    if !swept.parcels.is_empty() || !swept.arrivals.is_empty() {
        records.push(ShardRecord::Swept(swept));
    }
    Ok(Planned { records, answer })
}

fn before(arrival: Arrival) -> Arrival {
    Arrival(arrival.0.saturating_sub(1))
}

fn cost_of(row: &LedgerRow) -> usize {
    LEDGER_COST + if row.is_tracked { track::blocks(row.members.count()) } else { 0 }
}

/// When an event was accepted, or was due. One that left no ledger and whose page is gone guards nothing.
fn time_of(view: &View<'_>, tenant: TenantId, arrival: Arrival) -> Result<Millis, TablesError> {
    let from = ParcelId { tenant, arrival, channel: ChannelKind::InApp, first: UserNo(0) };
    if let Some((_, row)) = ledger::of_event(view, from, 1)?.first() {
        return Ok(row.event.millis());
    }
    let page = taken::page_of(view, tenant, arrival)?;
    let page = page.filter(|(first, page)| arrival.0 < first.0 + page.events.len() as u64);
    Ok(page.map_or(Millis(0), |(_, page)| page.at))
}

pub(super) fn apply(view: &mut View<'_>, swept: &Swept) -> Result<(), TablesError> {
    for parcel in &swept.parcels {
        let Some(row) = ledger::find(view, *parcel)? else { continue };
        close(view, *parcel, &row)?;
        if row.is_tracked {
            track::keys(*parcel, row.members.count()).for_each(|key| view.delete(key));
        }
        if digest::is_digest(row.event) {
            view.delete(digest::key(parcel.tenant, row.event));
        }
        view.delete(parcel.dead_key());
        view.delete(parcel.key());
    }
    for arrival in &swept.arrivals {
        for channel in ChannelKind::ALL {
            view.delete(tally::key(swept.tenant, *arrival, channel));
        }
        view.delete(work::halt_key(swept.tenant, *arrival));
        view.delete(work::given_key(swept.tenant, *arrival));
        view.delete(walk::key(swept.tenant, *arrival));
    }
    Ok(())
}

/// The deliveries of a ledger leave the tally of their event for what was swept of their lane.
fn close(view: &mut View<'_>, parcel: ParcelId, row: &LedgerRow) -> Result<(), TablesError> {
    let of_event = tally::key(parcel.tenant, parcel.arrival, parcel.channel);
    let of_lane = tally::swept_key(parcel.tenant, row.terms.lane);
    let (mut left, mut closed) = (tally::find(view, &of_event)?, tally::find(view, &of_lane)?);
    for standing in row.standings.iter() {
        left.leave(standing.state, 1);
        closed.enter(standing.state, 1);
    }
    put(view, of_event, &left);
    put(view, of_lane, &closed);
    Ok(())
}
