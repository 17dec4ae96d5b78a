//! What became of a notification, one delivery after the other.
//!
//! Comes from: the status API. Does: reads the ledgers of an event page by page, and the notes about those that were asked for
//! one by one.

use crate::ask::{RecipientPage, RecipientStatus, Refusal};
use crate::core::Core;
use crate::deliveries::{LEDGERS_MAX, shown, status};
use crate::delivery_times::DeliveryTimes;
use crate::tries::tries_by;
use fantail_machine::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use fantail_machine::tables::{taken, track};
use fantail_ports::store::View;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{DeviceNo, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::retry::attempts;
use fantail_rules::ulid::Ulid;

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
    status(core, tenant, event)?;
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
                let mut notes = track::NotesReader::new(parcel);
                for (position, (member, standing)) in
                    (0u16..).zip(row.members.iter().zip(row.standings.iter()))
                {
                    let here = Place { shard: *shard, channel: parcel.channel, user: member.user };
                    if (here.channel, here.user) < (place.channel, place.user) {
                        continue;
                    }
                    let is_next_user = page.recipients.last().map(|last| last.place) != Some(here);
                    if page.recipients.len() >= limit && is_next_user {
                        page.next = Some(here);
                        return Ok(page);
                    }
                    let mut known = Vec::new();
                    if row.is_tracked {
                        let read = |view: &dyn View| Ok(notes.read(view.tables(), position)?.to_vec());
                        known = core.read(PartitionId::Shard(*shard), read)?;
                    }
                    let delivery = (member.device, standing);
                    page.recipients.push(recipient(core, tenant, here, &row, delivery, &known)?);
                }
                let last = row.members.users().last().copied().unwrap_or_default();
                place = Place { shard: *shard, channel: parcel.channel, user: UserNo(last.0 + 1) };
            }
            if is_last {
                break;
            }
        }
    }
    Ok(page)
}

/// What became of one member of a ledger.
fn recipient(
    core: &Core,
    tenant: TenantId,
    place: Place,
    ledger: &LedgerRow,
    (device, standing): (DeviceNo, &Standing),
    notes: &[track::Note],
) -> Result<RecipientStatus, Refusal> {
    let (user, address) = shown(core, tenant, place.shard, place.user)?;
    let of_entry = DeliveryTimes::of_entry(place.channel, standing.state, ledger.begun);
    Ok(RecipientStatus {
        place,
        user,
        address,
        device: device.0,
        state: standing.state,
        code: standing.code.clone(),
        attempts: attempts(standing.state, tries_by(standing, notes), ledger.terms.lane),
        begun_at: ledger.begun,
        times: of_entry.unwrap_or_else(|| DeliveryTimes::of(notes)),
    })
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
