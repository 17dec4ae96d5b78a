//! Cancelled and retracted events: what of them waits ends at once.
//!
//! Comes from: `take`, which writes down that an event is halted and leaves a to-do row; the effect loop asks until it is
//! done. Decides: work that was not planned is planned with nothing to send, and every member that waits, for whatever, is
//! cancelled. Goes to: `Intend`, `Closed` and `Wake` records, and `Ended`, which deletes the row.
//!
//! What must never happen: a send. What is under way keeps its answer, and what is unknown its evidence.

use super::fallback::{Changed, followed};
use super::serve::Known;
use super::{Derived, Plan, ShardAnswer, intend, ledgers, take};
use crate::Planned;
use crate::parcel::{Collector, Words};
use crate::records::delivery::{Consents, Counted, Wake};
use crate::records::halt::{CalledOff, HaltRecord};
use crate::records::shard::ShardRecord;
use crate::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use crate::tables::progress;
use crate::tables::put;
use crate::tables::taken::{Page, Reach, TakenEvent};
use crate::tables::todo::Todo;
use crate::tables::work::{self, GivenMembers, Halt, Terms, WorkId};
use crate::view::View;
use fantail_ports::tables::{Changes, TablesError};
use fantail_rules::attempt::{State, Step, next};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, DeviceNo, Millis, TenantId, UserNo};
use fantail_rules::limits::PARCEL_MEMBERS_MAX;

/// Ends what waits of an event, of ledgers behind one.
pub(super) fn plan(
    view: &View<'_>,
    (tenant, arrival): (TenantId, Arrival),
    behind: Option<ParcelId>,
    known: Known<'_>,
) -> Result<Plan, TablesError> {
    let Some(halt) = work::halted(view, tenant, arrival)? else {
        return Ok(ended(tenant, arrival, Vec::new()));
    };
    if behind.is_none() {
        let (records, is_over) = plan_work(view, (tenant, arrival), known)?;
        if !is_over {
            let answer = ShardAnswer::HaltGoesOn { behind: None };
            return Ok(Planned { records, answer });
        }
        if !records.is_empty() {
            // Their ledgers are looked at next.
            return Ok(Planned { records, answer: ShardAnswer::HaltGoesOn { behind: None } });
        }
    }
    let start = ParcelId { tenant, arrival, channel: ChannelKind::InApp, first: UserNo(0) };
    let from = behind.map_or(start, |behind| ParcelId { first: UserNo(behind.first.0 + 1), ..behind });
    let found = ledger::of_event(view, from, known.steps.halt_ledgers)?;
    let (mut records, mut changed) = (Vec::new(), Vec::new());
    for (parcel, row) in &found {
        if let Some(wake) = cancelled(*parcel, row, halt, known.now) {
            changed.push(Changed::at(*parcel, row, &wake.positions));
            records.push(ShardRecord::Wake(wake));
        }
    }
    let mut records = followed(view, records, &changed, known.now)?;
    match found.last().filter(|_| found.len() == known.steps.halt_ledgers) {
        Some((last, _)) => Ok(Planned { records, answer: ShardAnswer::HaltGoesOn { behind: Some(*last) } }),
        None => Ok(ended(tenant, arrival, std::mem::take(&mut records))),
    }
}

fn ended(tenant: TenantId, arrival: Arrival, mut records: Vec<ShardRecord>) -> Plan {
    records.push(ShardRecord::Halt(HaltRecord::Ended { tenant, arrival }));
    Planned { records, answer: ShardAnswer::HaltEnded }
}

/// Plans what was not planned yet, with nothing to send; says whether all of it was. Channels go in the order of their
/// fallback chain, since a step does not overtake what comes before it.
fn plan_work(
    view: &View<'_>,
    (tenant, arrival): (TenantId, Arrival),
    known: Known<'_>,
) -> Result<(Vec<ShardRecord>, bool), TablesError> {
    let mut changes = Changes::new();
    let mut seen = view.under(&mut changes);
    let (mut records, mut looked_at) = (Vec::new(), 0);
    for work in works(view, tenant, arrival)? {
        while work::find(&seen, work)?.is_some() {
            if looked_at >= known.steps.parcel_users_scanned {
                return Ok((records, false));
            }
            let decided = intend::plan(&seen, work, PARCEL_MEMBERS_MAX, known)?;
            if decided.records.is_empty() {
                // It waits for something else, which offers it again.
                break;
            }
            looked_at += decided.looked_at.max(1);
            for record in decided.records {
                super::apply(&mut seen, &record, known.now, &[], &mut Derived::default())?;
                records.push(record);
            }
        }
    }
    Ok((records, true))
}

fn works(view: &View<'_>, tenant: TenantId, arrival: Arrival) -> Result<Vec<WorkId>, TablesError> {
    let (mut at_once, mut steps) = (Vec::new(), Vec::new());
    for channel in ChannelKind::ALL {
        let work = WorkId { tenant, arrival, channel };
        let Some(row) = work::find(view, work)? else { continue };
        match row.terms.chain.steps().position(|step| step.channel == channel) {
            None => at_once.push(work),
            Some(place) => steps.push((place, work)),
        }
    }
    steps.sort_unstable();
    Ok(at_once.into_iter().chain(steps.into_iter().map(|(_, work)| work)).collect())
}

/// The members of a ledger that wait.
fn cancelled(parcel: ParcelId, row: &LedgerRow, halt: Halt, now: Millis) -> Option<Wake> {
    let (mut positions, mut verdicts) = (Vec::new(), Words::empty());
    for (standing, position) in row.standings.iter().zip(0u16..) {
        if standing.state == State::Deferred {
            positions.push(position);
            verdicts.push(called_off(standing, halt));
        }
    }
    let round = row.round.saturating_add(1);
    let (counted, consents) = (Counted::nothing(), Consents::nothing());
    (!positions.is_empty()).then_some(Wake {
        parcel,
        round,
        due: now,
        positions,
        verdicts,
        counted,
        consents,
    })
}

fn called_off(standing: &Standing, halt: Halt) -> Standing {
    let state = next(standing.state, Step::Cancel).unwrap_or(standing.state);
    Standing { state, due: Millis(0), code: halt.word().to_owned(), ..standing.clone() }
}

pub(super) fn apply(
    view: &mut View<'_>,
    record: &HaltRecord,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    match record {
        HaltRecord::Ended { tenant, arrival } => {
            view.delete(Todo::Halt { tenant: *tenant, arrival: *arrival }.key());
            Ok(())
        }
        HaltRecord::CalledOff(called) => apply_called_off(view, called, at, derived),
    }
}

/// It has an arrival, so that it can be asked about, but is in no inbox; all of its deliveries are cancelled.
fn apply_called_off(
    view: &mut View<'_>,
    called: &CalledOff,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let CalledOff { front, position, tenant, event, delivery, members, why } = called;
    let mut state = progress::find(view, *tenant)?;
    let arrival = state.last.next();
    state.last = arrival;
    put(view, progress::key(*tenant), &state);
    let events = vec![TakenEvent { event: *event, reach: Reach::Given }];
    take::write_page(view, *tenant, arrival, Page { at, events }, true);
    if let Some(delivery) = delivery {
        put(view, work::given_key(*tenant, arrival), &GivenMembers(members.clone()));
        put(view, work::halt_key(*tenant, arrival), why);
        for channel in delivery.channels.iter() {
            let work = WorkId { tenant: *tenant, arrival, channel };
            for users in members.chunks(PARCEL_MEMBERS_MAX as usize) {
                let row = ledger_of(called, delivery.terms, users, at);
                ledgers::open(view, ParcelId::of(work, users[0]), row, derived)?;
            }
        }
    }
    progress::set_taken(view, *front, *position);
    Ok(())
}

fn ledger_of(called: &CalledOff, terms: Terms, users: &[UserNo], at: Millis) -> LedgerRow {
    let mut collector = Collector::default();
    users.iter().for_each(|user| {
        collector.add(*user, &[DeviceNo(0)], PARCEL_MEMBERS_MAX as usize);
    });
    LedgerRow {
        event: called.event,
        terms,
        is_tracked: true,
        round: 1,
        begun: at,
        members: collector.finish(),
        standings: Words::all(called.standing(), users.len()),
    }
}
