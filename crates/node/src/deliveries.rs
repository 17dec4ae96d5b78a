//! What became of a notification: the sums, one recipient.
//!
//! Comes from: the status and explain APIs. Does: reads ledgers, tallies and tracks of the shards, and opens names for
//! those who may read them. Deliveries one by one are in `recipients`, dead letters in `dead_letters`.

use crate::addressed;
use crate::ask::{
    ChannelStatus, DeliveryNote, DeliveryView, Explanation, NotificationStatus, Phase, Refusal, Who,
};
use crate::core::{Core, locked};
use crate::devices::address_hash;
use crate::digests::report;
use crate::editions;
use crate::inbox;
use crate::people::{locate, name_of};
use fantail_machine::shard::collect::COLLECTED;
use fantail_machine::tables::digest::is_digest;
use fantail_machine::tables::event::{self, EventRow};
use fantail_machine::tables::ledger::{self, ParcelId};
use fantail_machine::tables::tally::{self, Tally};
use fantail_machine::tables::{taken, track, walk, window, work};
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, DeviceNo, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::nameless;
use fantail_rules::priority::Priority;
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

const DAY_MS: u64 = 86_400_000;

/// Ledgers that are read at once.
pub const LEDGERS_MAX: usize = 16;

/// The sums over all shards.
pub fn status(core: &Core, tenant: TenantId, event: Ulid) -> Result<NotificationStatus, Refusal> {
    if is_digest(event) {
        return report::status(core, tenant, event);
    }
    let row = row_of(core, tenant, event)?;
    let asked = row.delivery.map(|delivery| delivery.channels).unwrap_or_default();
    let mut channels: BTreeMap<ChannelKind, (Tally, bool)> =
        asked.iter().map(|kind| (kind, Default::default())).collect();
    let (mut named, mut is_everywhere, mut is_anywhere) = (0, true, false);
    for shard in core.shards.keys() {
        let found = core.read(PartitionId::Shard(*shard), |view| {
            let tables = view.tables();
            let Some((arrival, _)) = taken::arrival_of(tables, tenant, event)? else { return Ok(None) };
            let one = |kind: ChannelKind| {
                let open = work::find(tables, work::WorkId { tenant, arrival, channel: kind })?.is_some()
                    // Inboxes have no work: as long as a walk goes on, they are written.
                    || walk::find(tables, tenant, arrival)?.is_some_and(|walk| !walk.is_over());
                Ok((kind, tally::find(tables, &tally::key(tenant, arrival, kind))?, open))
            };
            let here = work::given(tables, tenant, arrival)?.len() as u64;
            Ok(Some((here, asked.iter().map(one).collect::<Result<Vec<_>, TablesError>>()?)))
        })?;
        is_everywhere &= found.is_some();
        is_anywhere |= found.is_some();
        let (here, found) = found.unwrap_or_default();
        named += here;
        for (kind, tally, is_open) in found {
            let (sum, open) = channels.entry(kind).or_default();
            sum.join(&tally);
            *open |= is_open;
        }
    }
    let is_open = channels.values().any(|(tally, is_open)| *is_open || tally.in_flight() > 0);
    if !is_open && row.delivery.is_some() && is_forgotten(core, tenant, event, is_anywhere) {
        return Err(Refusal::UnknownEvent { event });
    }
    // An event for a list is taken by every shard, one for named users where they live.
    let is_taken = if row.recipients == 0 { is_everywhere } else { named == row.recipients };
    let is_stillborn = row.is_stillborn();
    let channel = |(kind, (tally, is_open)): (ChannelKind, (Tally, bool))| ChannelStatus {
        channel: kind,
        counts: State::ALL.into_iter().map(|state| (state, tally.of(state))).collect(),
        unreached: tally.unreached,
        is_done: is_stillborn || (is_taken && !is_open && tally.in_flight() == 0),
    };
    let channels: Vec<ChannelStatus> = channels.into_iter().map(channel).collect();
    let phase = match row.held_until() {
        Some(_) => Phase::Scheduled,
        None if channels.iter().all(|channel| channel.is_done) => Phase::Done,
        None => Phase::Sending,
    };
    let mut status = NotificationStatus {
        event,
        name: inbox::name_in(core, tenant, &row.options)?,
        created_at: row.at,
        category: row.category,
        is_cancelled: row.cancelled,
        is_retracted: row.retracted,
        recipients: row.recipients,
        phase,
        never_released: is_stillborn,
        due: row.options.due,
        channels,
    };
    // What was entirely sent before is not called off, whatever was asked.
    status.is_cancelled &= status.has_stopped();
    Ok(status)
}

/// Whether what was kept about the deliveries of an event that has ended is gone: by the guard, or with its arrival.
fn is_forgotten(core: &Core, tenant: TenantId, event: Ulid, is_anywhere: bool) -> bool {
    let age_ms = core.ports.clock.wall().since(event.millis());
    let days = core.control.now().tenants.get(&tenant).map_or(0, |tenant| tenant.retention_days);
    age_ms >= core.guard_ms || (!is_anywhere && age_ms > u64::from(days) * DAY_MS)
}

pub fn row_of(core: &Core, tenant: TenantId, event: Ulid) -> Result<EventRow, Refusal> {
    core.require_tenant(tenant)?;
    let unknown = Refusal::UnknownEvent { event };
    if core.front(event.front()).is_none() {
        return Err(unknown);
    }
    let found =
        core.read(PartitionId::Front(event.front()), |view| event::find(view.tables(), tenant, event))?;
    found.ok_or(unknown)
}

/// Whether there is an event or a digest with this id.
pub fn is_known(core: &Core, tenant: TenantId, event: Ulid) -> Result<bool, Refusal> {
    if is_digest(event) {
        return Ok(true);
    }
    match row_of(core, tenant, event) {
        Ok(_) => Ok(true),
        Err(Refusal::UnknownEvent { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}

/// All deliveries of all tenants by lane and state. What cannot be read now is told next time; metrics alone ask.
pub fn totals(core: &Core) -> Vec<(Priority, State, u64)> {
    let lanes = [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];
    let mut sums: [Tally; 4] = Default::default();
    for shard in core.shards.keys() {
        let found = core.read(PartitionId::Shard(*shard), |view| tally::by_lane(view.tables()));
        for (_, lane, tally) in found.unwrap_or_default() {
            sums[lane as usize].join(&tally);
        }
    }
    let of = |(lane, sum): (Priority, Tally)| {
        State::ALL
            .into_iter()
            .map(move |state| (lane, state, sum.of(state)))
            .filter(|(_, _, count)| *count > 0)
    };
    lanes.into_iter().zip(sums).flat_map(of).collect()
}

/// Dead letters that wait for an operator. As [`totals`], for metrics.
pub fn dead_letters(core: &Core) -> u64 {
    let of = |lanes: Vec<(TenantId, Priority, Tally)>| -> u64 {
        lanes.iter().map(|(_, _, tally)| tally.of(State::Dead)).sum()
    };
    let in_shard = |shard: &ShardNo| {
        let found = core.read(PartitionId::Shard(*shard), |view| {
            Ok((of(tally::by_lane(view.tables())?), of(tally::swept_by_lane(view.tables())?)))
        });
        found.map_or(0, |(ever, swept)| ever.saturating_sub(swept))
    };
    core.shards.keys().map(in_shard).sum()
}

/// The name of a user, or what may be shown of the address of one without.
pub fn shown(
    core: &Core,
    tenant: TenantId,
    shard: ShardNo,
    user: UserNo,
) -> Result<(String, Option<String>), Refusal> {
    let name = name_of(core, tenant, shard, user)?;
    Ok(match nameless::shown(&name) {
        None => (name, None),
        Some(address) => (String::new(), Some(address)),
    })
}

/// Everything that is known about one recipient of an event.
pub fn explain(core: &Core, tenant: TenantId, event: Ulid, who: &Who) -> Result<Explanation, Refusal> {
    if is_digest(event) {
        return report::explain(core, tenant, event, found_user(core, tenant, who)?);
    }
    let row = row_of(core, tenant, event)?;
    let (shard, number) = found_user(core, tenant, who)?;
    let name = name_of(core, tenant, shard, number)?;
    let channels = row.delivery.map(|delivery| delivery.channels).unwrap_or_default();
    let chain = row.delivery.map(|delivery| delivery.terms.chain).unwrap_or_default();
    let (arrival, halted, found) = core.read(PartitionId::Shard(shard), |view| {
        let tables = view.tables();
        let Some((arrival, _)) = taken::arrival_of(tables, tenant, event)? else {
            return Ok((None, None, Vec::new()));
        };
        let mut found = Vec::new();
        // What waits for others is told after them.
        let steps = chain.steps().map(|step| step.channel);
        let at_once = channels.iter().filter(|channel| chain.step(*channel).is_none());
        for channel in at_once.chain(steps) {
            let mut deliveries = deliveries_of(tables, tenant, arrival, channel, number)?;
            add_window_ends(tables, (tenant, arrival), (number, channel), &mut deliveries)?;
            found.push((channel, deliveries));
        }
        Ok((Some(arrival), work::halted(tables, tenant, arrival)?, found))
    })?;
    let inbox = match nameless::shown(&name) {
        Some(_) => None,
        None => inbox::entry(core, tenant, &name, event).ok(),
    };
    let view = inbox::event(core, tenant, event)?;
    let rendered = editions::rendered(core, (tenant, event), &view, (shard, number))?;
    let phase = status(core, tenant, event)?.phase;
    Ok(Explanation {
        event,
        name: view.name.clone(),
        user: nameless::shown(&name).unwrap_or(name),
        accepted_at: row.at,
        category: row.category,
        priority: Priority::from_stored(row.priority),
        channels,
        chain,
        expires_at: row.delivery.map(|delivery| delivery.terms.expires_at),
        class: row.delivery.map(|delivery| delivery.terms.class),
        arrival,
        is_in_inbox: inbox.is_some(),
        digest_of: None,
        due: row.options.due,
        appointment: row.delivery.and_then(|delivery| delivery.terms.appointment),
        phase,
        collapse_key: view.collapse_key.clone(),
        is_sensitive: view.is_sensitive,
        rendered,
        halted,
        deliveries: found,
    })
}

fn found_user(core: &Core, tenant: TenantId, who: &Who) -> Result<(ShardNo, UserNo), Refusal> {
    match who {
        Who::User(name) => locate(core, tenant, name),
        Who::Address { kind, identity, .. } => {
            let address = address_hash(core, tenant, *kind, identity).map_err(locked)?;
            let unknown = || Refusal::UnknownUser { user: nameless::masked(identity) };
            addressed::owner(core, tenant, address)?.ok_or_else(unknown)
        }
    }
}

/// Says of what waits in a window until when.
fn add_window_ends(
    tables: &dyn Tables,
    (tenant, arrival): (TenantId, Arrival),
    (user, channel): (UserNo, ChannelKind),
    deliveries: &mut [DeliveryView],
) -> Result<(), TablesError> {
    let waits = |one: &&mut DeliveryView| one.state == State::Deferred && one.code == COLLECTED;
    for one in deliveries.iter_mut().filter(waits) {
        let window = window::holding(tables, tenant, (user, channel), arrival)?;
        one.due = window.map_or(one.due, |window| window.window.closes_at);
    }
    Ok(())
}

/// What became of deliveries of an event to one user by a channel.
pub(crate) fn deliveries_of(
    tables: &dyn Tables,
    tenant: TenantId,
    arrival: Arrival,
    channel: ChannelKind,
    user: UserNo,
) -> Result<Vec<DeliveryView>, TablesError> {
    let parcel = ParcelId { tenant, arrival, channel, first: user };
    let Some((parcel, row)) = ledger::holding(tables, parcel)? else { return Ok(Vec::new()) };
    let one = |(at, device): (usize, DeviceNo)| {
        let standing = row.standings.of(at).expect("every member has a standing");
        let position = u16::try_from(at).unwrap_or(u16::MAX);
        let notes = track::find(tables, parcel, position)?;
        Ok(DeliveryView {
            device: device.0,
            state: standing.state,
            code: standing.code.clone(),
            retries: standing.retries,
            resends: standing.resends,
            due: standing.due,
            parcel_first: parcel.first,
            position,
            round: row.round,
            begun_at: row.begun,
            notes: notes.into_iter().map(DeliveryNote::of).collect(),
        })
    };
    row.members.of_user(user).into_iter().map(one).collect()
}
