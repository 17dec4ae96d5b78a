//! What became of a notification: the sums, one recipient, the dead letters.
//!
//! Comes from: the status, explain and dead-letter APIs. Does: reads ledgers, tallies and tracks of the shards, and opens
//! names for those who may read them. Goes to: `machine::shard::redrive` for what an operator wants.

use crate::ask::{
    ChannelStatus, DeadLetter, DeliveryNote, DeliveryView, Explanation, NotificationStatus, RecipientPage,
    RecipientStatus, Refusal,
};
use crate::core::{Core, answer};
use crate::inbox;
use crate::people::{locate, name_of};
use fantail_machine::parcel::Member;
use fantail_machine::shard::redrive::Wish;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::event::{self, EventRow};
use fantail_machine::tables::ledger::{self, LedgerRow, ParcelId};
use fantail_machine::tables::tally::{self, Tally};
use fantail_machine::tables::{taken, track, work};
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::priority::Priority;
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

/// Ledgers that are read at once.
const LEDGERS_MAX: usize = 16;

/// The sums over all shards.
pub fn status(core: &Core, tenant: TenantId, event: Ulid) -> Result<NotificationStatus, Refusal> {
    let row = row_of(core, tenant, event)?;
    let asked = row.delivery.map(|delivery| delivery.channels).unwrap_or_default();
    let mut channels: BTreeMap<ChannelKind, (Tally, bool)> =
        asked.iter().map(|kind| (kind, Default::default())).collect();
    let (mut named, mut is_everywhere) = (0, true);
    for shard in core.shards.keys() {
        let found = core.read(PartitionId::Shard(*shard), |view| {
            let tables = view.tables();
            let Some((arrival, _)) = taken::arrival_of(tables, tenant, event)? else { return Ok(None) };
            let one = |kind: ChannelKind| {
                let open = work::find(tables, work::WorkId { tenant, arrival, channel: kind })?.is_some();
                Ok((kind, tally::find(tables, &tally::key(tenant, arrival, kind))?, open))
            };
            let here = work::given(tables, tenant, arrival)?.len() as u64;
            Ok(Some((here, asked.iter().map(one).collect::<Result<Vec<_>, TablesError>>()?)))
        })?;
        is_everywhere &= found.is_some();
        let (here, found) = found.unwrap_or_default();
        named += here;
        for (kind, tally, is_open) in found {
            let (sum, open) = channels.entry(kind).or_default();
            sum.join(&tally);
            *open |= is_open;
        }
    }
    // An event for a list is taken by every shard, one for named users where they live.
    let is_taken = if row.recipients == 0 { is_everywhere } else { named == row.recipients };
    let channel = |(kind, (tally, is_open)): (ChannelKind, (Tally, bool))| ChannelStatus {
        channel: kind,
        counts: State::ALL.into_iter().map(|state| (state, tally.of(state))).collect(),
        unreached: tally.unreached,
        is_done: is_taken && !is_open && tally.in_flight() == 0,
    };
    Ok(NotificationStatus {
        event,
        created_at: row.at,
        category: row.category,
        is_cancelled: row.cancelled,
        is_retracted: row.retracted,
        recipients: row.recipients,
        channels: channels.into_iter().map(channel).collect(),
    })
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

/// All deliveries of all tenants by lane and state. What cannot be read now is told next time; metrics alone ask.
pub fn totals(core: &Core) -> Vec<(Priority, State, u64)> {
    let lanes = [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];
    let mut sums: [Tally; 4] = Default::default();
    for shard in core.shards.keys() {
        let found = core.read(PartitionId::Shard(*shard), |view| tally::lanes(view.tables()));
        for (lane, tally) in found.unwrap_or_default() {
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

/// Where a page of recipients begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub shard: ShardNo,
    pub channel: ChannelKind,
    pub user: UserNo,
}

/// Deliveries one by one, in the order of shard, channel and user.
pub fn recipients(
    core: &Core,
    tenant: TenantId,
    event: Ulid,
    from: Option<Place>,
    limit: usize,
) -> Result<RecipientPage, Refusal> {
    row_of(core, tenant, event)?;
    let start = from.unwrap_or(Place { shard: ShardNo(0), channel: ChannelKind::InApp, user: UserNo(0) });
    let mut page = RecipientPage { recipients: Vec::new(), next: None };
    for shard in core.shards.keys().filter(|shard| **shard >= start.shard) {
        let mut place = Place { shard: *shard, channel: ChannelKind::InApp, user: UserNo(0) };
        if *shard == start.shard {
            place = start;
        }
        loop {
            let found = core
                .read(PartitionId::Shard(*shard), |view| ledgers_from(view.tables(), tenant, event, place))?;
            let is_last = found.len() < LEDGERS_MAX;
            for (parcel, row) in found {
                for (member, standing) in row.members.iter().zip(row.standings.iter()) {
                    let here = Place { shard: *shard, channel: parcel.channel, user: member.user };
                    if (here.channel, here.user) < (place.channel, place.user) {
                        continue;
                    }
                    if page.recipients.len() >= limit
                        && page.recipients.last().map(|last| last.place) != Some(here)
                    {
                        page.next = Some(here);
                        return Ok(page);
                    }
                    page.recipients.push(RecipientStatus {
                        place: here,
                        user: name_of(core, tenant, *shard, member.user)?,
                        device: member.device.0,
                        state: standing.state,
                        code: standing.code.clone(),
                        attempts: 1 + standing.retries + standing.resends,
                        begun_at: row.begun,
                    });
                }
                place = Place { shard: *shard, channel: parcel.channel, user: UserNo(last_of(&row).0 + 1) };
            }
            if is_last {
                break;
            }
        }
    }
    Ok(page)
}

fn last_of(row: &LedgerRow) -> UserNo {
    row.members.users().last().copied().unwrap_or_default()
}

fn ledgers_from(
    tables: &dyn Tables,
    tenant: TenantId,
    event: Ulid,
    place: Place,
) -> Result<Vec<(ParcelId, LedgerRow)>, TablesError> {
    let Some((arrival, _)) = taken::arrival_of(tables, tenant, event)? else { return Ok(Vec::new()) };
    let from = ParcelId { tenant, arrival, channel: place.channel, first: place.user };
    // The parcel that holds the user may begin below.
    let mut found: Vec<(ParcelId, LedgerRow)> =
        ledger::holding(tables, from)?.into_iter().filter(|(parcel, _)| parcel.first < place.user).collect();
    found.extend(ledger::of_event(tables, from, LEDGERS_MAX - found.len())?);
    Ok(found)
}

/// Everything that is known about one recipient of an event.
pub fn explain(core: &Core, tenant: TenantId, event: Ulid, user: &str) -> Result<Explanation, Refusal> {
    let row = row_of(core, tenant, event)?;
    let (shard, number) = locate(core, tenant, user)?;
    let channels = row.delivery.map(|delivery| delivery.channels).unwrap_or_default();
    let (arrival, halted, found) = core.read(PartitionId::Shard(shard), |view| {
        let tables = view.tables();
        let Some((arrival, _)) = taken::arrival_of(tables, tenant, event)? else {
            return Ok((None, None, Vec::new()));
        };
        let mut found = Vec::new();
        for channel in channels.iter() {
            found.push((channel, deliveries_of(tables, tenant, arrival, channel, number)?));
        }
        Ok((Some(arrival), work::halted(tables, tenant, arrival)?, found))
    })?;
    let inbox = inbox::entry(core, tenant, user, event).ok();
    Ok(Explanation {
        event,
        user: user.to_owned(),
        accepted_at: row.at,
        category: row.category,
        priority: Priority::from_stored(row.priority),
        channels,
        expires_at: row.delivery.map(|delivery| delivery.terms.expires_at),
        class: row.delivery.map(|delivery| delivery.terms.class),
        arrival,
        is_in_inbox: inbox.is_some(),
        halted,
        deliveries: found,
    })
}

fn deliveries_of(
    tables: &dyn Tables,
    tenant: TenantId,
    arrival: Arrival,
    channel: ChannelKind,
    user: UserNo,
) -> Result<Vec<DeliveryView>, TablesError> {
    let parcel = ParcelId { tenant, arrival, channel, first: user };
    let Some((parcel, row)) = ledger::holding(tables, parcel)? else { return Ok(Vec::new()) };
    let one = |(at, device)| {
        let standing = row.standings.of(at).expect("every member has a standing");
        let track = track::find(tables, parcel, Member { user, device })?;
        Ok(DeliveryView {
            device: device.0,
            state: standing.state,
            code: standing.code.clone(),
            retries: standing.retries,
            resends: standing.resends,
            due: standing.due,
            parcel_first: parcel.first,
            position: u16::try_from(at).unwrap_or(u16::MAX),
            round: row.round,
            begun_at: row.begun,
            notes: track.notes.into_iter().map(DeliveryNote::of).collect(),
        })
    };
    row.members.of_user(user).into_iter().map(one).collect()
}

/// Behind which parcel a page of dead letters begins.
pub type DeadPlace = (ShardNo, ParcelId);

/// Dead letters of a tenant, shard by shard.
pub fn dead_letters(
    core: &Core,
    tenant: TenantId,
    after: Option<DeadPlace>,
    limit: usize,
) -> Result<(Vec<DeadLetter>, Option<DeadPlace>), Refusal> {
    core.require_tenant(tenant)?;
    let mut letters = Vec::new();
    for shard in core.shards.keys().filter(|shard| after.is_none_or(|(first, _)| **shard >= first)) {
        let after = after.filter(|(first, _)| first == shard).map(|(_, parcel)| parcel);
        let found = core.read(PartitionId::Shard(*shard), |view| {
            let tables = view.tables();
            let parcels = ledger::dead(tables, tenant, after, LEDGERS_MAX)?;
            let rows = parcels.into_iter().map(|parcel| Ok((parcel, ledger::find(tables, parcel)?)));
            rows.collect::<Result<Vec<_>, TablesError>>()
        })?;
        for (parcel, row) in found {
            let Some(row) = row else { continue };
            for (member, standing) in row.members.iter().zip(row.standings.iter()) {
                if standing.state == State::Dead {
                    letters.push(DeadLetter {
                        event: row.event,
                        channel: parcel.channel,
                        lane: row.terms.lane,
                        user: name_of(core, tenant, *shard, member.user)?,
                        device: member.device.0,
                        code: standing.code.clone(),
                        attempts: 1 + standing.retries + standing.resends,
                        begun_at: row.begun,
                    });
                }
            }
            if letters.len() >= limit {
                return Ok((letters, Some((*shard, parcel))));
            }
        }
    }
    Ok((letters, None))
}

/// Which dead letters an operator means.
#[derive(Clone, Debug, Default)]
pub struct Which {
    pub event: Option<Ulid>,
    pub channel: Option<ChannelKind>,
    pub code: Option<String>,
    pub users: Option<Vec<String>>,
    pub is_dry_run: bool,
}

/// Redrives or drops; returns how many.
pub async fn redrive(core: &Core, tenant: TenantId, which: &Which, wish: Wish) -> Result<u64, Refusal> {
    core.require_tenant(tenant)?;
    let mut count = 0;
    let named: Option<Vec<(ShardNo, UserNo)>> = which
        .users
        .as_ref()
        .map(|users| users.iter().map(|user| locate(core, tenant, user)).collect())
        .transpose()?;
    for shard in core.shards.keys() {
        let users: Option<Vec<UserNo>> = named
            .as_ref()
            .map(|named| named.iter().filter(|(home, _)| home == shard).map(|(_, user)| *user).collect());
        let mut after = None;
        loop {
            let found = core.read(PartitionId::Shard(*shard), |view| {
                let parcels = ledger::dead(view.tables(), tenant, after, LEDGERS_MAX)?;
                let rows =
                    parcels.into_iter().map(|parcel| Ok((parcel, ledger::find(view.tables(), parcel)?)));
                rows.collect::<Result<Vec<_>, TablesError>>()
            })?;
            let Some((last, _)) = found.last() else { break };
            after = Some(*last);
            for (parcel, row) in found {
                let Some(row) = row.filter(|row| which.means(parcel, row)) else { continue };
                let users = which.chosen(&row, users.as_deref());
                if which.is_dry_run {
                    count += users.len() as u64;
                } else if !users.is_empty() {
                    let ask = ShardAsk::Redrive { parcel, wish, users: Some(users) };
                    let pushed = core.shard(*shard).queue.push(tenant, vec![ask], 256);
                    if let ShardAnswer::Redriven(redriven) = answer(pushed).await? {
                        count += redriven;
                    }
                }
            }
        }
    }
    Ok(count)
}

impl Which {
    fn means(&self, parcel: ParcelId, row: &LedgerRow) -> bool {
        self.event.is_none_or(|event| event == row.event)
            && self.channel.is_none_or(|channel| channel == parcel.channel)
    }

    /// The users of a ledger whose dead letters are meant.
    fn chosen(&self, row: &LedgerRow, named: Option<&[UserNo]>) -> Vec<UserNo> {
        let members = row.members.iter().zip(row.standings.iter());
        let dead = members.filter(|(member, standing)| {
            standing.state == State::Dead
                && self.code.as_ref().is_none_or(|code| *code == standing.code)
                && named.is_none_or(|named| named.contains(&member.user))
        });
        let mut users: Vec<UserNo> = dead.map(|(member, _)| member.user).collect();
        users.dedup();
        users
    }
}
