//! Dead letters: what could not be delivered, and what an operator wants of it.
//!
//! Comes from: the dead-letter API. Does: reads ledgers that hold dead letters, shard by shard. Goes to:
//! `machine::shard::redrive`.

use crate::ask::{DeadLetter, Refusal};
use crate::core::{Core, answer};
use crate::deliveries::{LEDGERS_MAX, shown};
use crate::inbox;
use crate::people::locate;
use crate::tries::tries_of;
use fantail_machine::shard::redrive::Wish;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::ledger::{self, LedgerRow, ParcelId};
use fantail_ports::tables::TablesError;
use fantail_rules::actor::Actor;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::retry::attempts;
use fantail_rules::ulid::Ulid;

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
        let mut behind = after.filter(|(first, _)| first == shard).map(|(_, parcel)| parcel);
        loop {
            let found = ledgers_behind(core, *shard, tenant, behind)?;
            let Some((last, _)) = found.last() else { break };
            behind = Some(*last);
            for (parcel, row) in found {
                letters_of(core, *shard, parcel, row, &mut letters)?;
                if letters.len() >= limit {
                    return Ok((letters, Some((*shard, parcel))));
                }
            }
        }
    }
    Ok((letters, None))
}

/// The next few ledgers that hold dead letters.
fn ledgers_behind(
    core: &Core,
    shard: ShardNo,
    tenant: TenantId,
    behind: Option<ParcelId>,
) -> Result<Vec<(ParcelId, Option<LedgerRow>)>, Refusal> {
    core.read(PartitionId::Shard(shard), |view| {
        let parcels = ledger::dead(view.tables(), tenant, behind, LEDGERS_MAX)?;
        let rows = parcels.into_iter().map(|parcel| Ok((parcel, ledger::find(view.tables(), parcel)?)));
        rows.collect::<Result<Vec<_>, TablesError>>()
    })
}

fn letters_of(
    core: &Core,
    shard: ShardNo,
    parcel: ParcelId,
    row: Option<LedgerRow>,
    letters: &mut Vec<DeadLetter>,
) -> Result<(), Refusal> {
    let Some(row) = row else { return Ok(()) };
    let name = inbox::name_of_event(core, parcel.tenant, row.event)?;
    let members = row.members.iter().zip(row.standings.iter());
    for (member, standing) in members.filter(|(_, standing)| standing.state == State::Dead) {
        let (user, address) = shown(core, parcel.tenant, shard, member.user)?;
        letters.push(DeadLetter {
            event: row.event,
            name: name.clone(),
            channel: parcel.channel,
            lane: row.terms.lane,
            user,
            address,
            device: member.device.0,
            code: standing.code.clone(),
            attempts: attempts(standing.state, tries_of(standing), row.terms.lane),
            begun_at: row.begun,
        });
    }
    Ok(())
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
pub async fn redrive(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    which: &Which,
    wish: Wish,
) -> Result<u64, Refusal> {
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
            let found = ledgers_behind(core, *shard, tenant, after)?;
            let Some((last, _)) = found.last() else { break };
            after = Some(*last);
            for (parcel, row) in found {
                let Some(row) = row.filter(|row| which.means(parcel, row)) else { continue };
                let users = which.chosen(&row, users.as_deref());
                if which.is_dry_run {
                    count += users.len() as u64;
                } else if !users.is_empty() {
                    let ask = ShardAsk::Redrive { parcel, wish, users: Some(users) };
                    let pushed = core.shard(*shard).queue.push(tenant, by, vec![ask], 256);
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
