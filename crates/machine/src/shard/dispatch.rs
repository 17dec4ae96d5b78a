//! Deliveries begin and are called off.
//!
//! Comes from: `take`, with an event that is to leave by some channels. Does: writes one row of work per channel, which
//! the dispatcher will walk parcel by parcel; explicit recipients get their in-app delivery at once, because being taken
//! is being visible to whoever wants to see it. Goes to: tables, and to the dispatcher as an offer.

use super::walk::pass;
use super::{Derived, Offer, fallback, ledgers};
use crate::parcel::{Collector, Words};
use crate::records::front::Delivery;
use crate::records::shard::Given;
use crate::tables::ledger::{LedgerRow, ParcelId};
use crate::tables::todo::Todo;
use crate::tables::work::{self, GivenMembers, Halt, To, WorkId, WorkRow};
use crate::tables::{put, taken, tally, walk};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, DeviceNo, ListId, Millis, TenantId, UserNo};
use fantail_rules::limits::PARCEL_MEMBERS_MAX;
use fantail_rules::ulid::Ulid;

/// An event that is to leave.
pub(super) struct Begun {
    pub tenant: TenantId,
    pub arrival: Arrival,
    pub event: Ulid,
    pub delivery: Delivery,
}

impl Begun {
    /// Being in the inbox of a list's member is no delivery.
    fn work(&self, view: &mut View<'_>, to: To, derived: &mut Derived) -> Result<(), TablesError> {
        for channel in self.delivery.channels.without(ChannelKind::InApp).iter() {
            let work = WorkId { tenant: self.tenant, arrival: self.arrival, channel };
            let terms = self.delivery.terms;
            put(view, work.key(), &WorkRow { event: self.event, terms, next: UserNo(0), to });
            tally::open_work(view, self.tenant, terms.lane)?;
            // What comes after others is offered when they have gone on.
            if terms.chain.step(channel).is_none() || terms.chain.before(channel).is_empty() {
                derived.offers.push(Offer::Work { work, lane: terms.lane });
            }
        }
        Ok(())
    }
}

pub(super) fn begin_listed(
    view: &mut View<'_>,
    begun: &Begun,
    list: ListId,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    begun.work(view, To::List(list), derived)
}

pub(super) fn begin_walked(
    view: &mut View<'_>,
    begun: &Begun,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    begun.work(view, To::Walked, derived)
}

pub(super) fn begin_given(
    view: &mut View<'_>,
    begun: &Begun,
    given: &Given,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    put(view, work::given_key(begun.tenant, begun.arrival), &GivenMembers(given.members.clone()));
    begun.work(view, To::Given, derived)?;
    if !begun.delivery.channels.contains(ChannelKind::InApp) {
        return Ok(());
    }
    for users in given.members.chunks(PARCEL_MEMBERS_MAX as usize) {
        let mut collector = Collector::default();
        users.iter().for_each(|user| {
            collector.add(*user, &[DeviceNo(0)], PARCEL_MEMBERS_MAX as usize);
        });
        let mut standings = Words::empty();
        users.iter().for_each(|user| standings.push(given.in_app(*user)));
        let ledger = LedgerRow {
            event: begun.event,
            terms: begun.delivery.terms,
            is_tracked: true,
            round: 1,
            begun: at,
            members: collector.finish(),
            standings,
        };
        let work = WorkId { tenant: begun.tenant, arrival: begun.arrival, channel: ChannelKind::InApp };
        ledgers::open(view, ParcelId::of(work, users[0]), ledger, derived)?;
    }
    Ok(())
}

/// Nothing more of an event is sent from here on. The first reason stays.
pub(super) fn halt(
    view: &mut View<'_>,
    tenant: TenantId,
    event: Ulid,
    why: Halt,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let Some((arrival, _)) = taken::arrival_of(view, tenant, event)? else { return Ok(()) };
    if work::leaves(view, tenant, arrival)? && work::halted(view, tenant, arrival)?.is_none() {
        put(view, work::halt_key(tenant, arrival), &why);
        view.put(Todo::Halt { tenant, arrival }.key(), Vec::new());
        pass::stop(view, tenant, arrival, derived)?;
    }
    Ok(())
}

/// Nobody else is looked at.
pub(super) fn close(view: &mut View<'_>, work: WorkId, derived: &mut Derived) -> Result<(), TablesError> {
    let Some(row) = work::find(view, work)? else { return Ok(()) };
    view.delete(work.key());
    fallback::offer(work, row.terms, derived);
    if row.to == To::Walked {
        walk::let_go(view, work.tenant, work.arrival)?;
    }
    tally::close_work(view, work.tenant, row.terms.lane)
}
