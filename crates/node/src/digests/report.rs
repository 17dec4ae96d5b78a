//! What became of a digest: the sums, and the story of its one reader.
//!
//! Comes from: the status, explain and trace APIs, asked for the id of a digest. No front knows a digest: its shard has it as
//! long as its ledger. Until it is written there is none, and what waits for it says when its window ends.

use super::inbox;
use crate::ask::{ChannelStatus, Explanation, NotificationStatus, Phase, Refusal};
use crate::core::Core;
use crate::deliveries::deliveries_of;
use crate::people::name_of;
use fantail_machine::tables::digest::{self, DigestRow};
use fantail_machine::tables::ledger::{self, ParcelId};
use fantail_machine::tables::tally::{self, Tally};
use fantail_machine::tables::work::{self, Terms, WorkId};
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::attempt::State;
use fantail_rules::chain::Chain;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::ids::{PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::nameless;
use fantail_rules::ulid::Ulid;

/// A digest with its delivery.
struct FoundDigest {
    shard: ShardNo,
    row: DigestRow,
    channel: ChannelKind,
    terms: Terms,
    tally: Tally,
    /// Not all of its parcels are planned.
    is_open: bool,
}

impl FoundDigest {
    fn is_done(&self) -> bool {
        !self.is_open && self.tally.in_flight() == 0
    }
}

fn find(core: &Core, tenant: TenantId, event: Ulid) -> Result<FoundDigest, Refusal> {
    core.require_tenant(tenant)?;
    for shard in core.shards.keys() {
        let found =
            core.read(PartitionId::Shard(*shard), |view| in_shard(view.tables(), *shard, tenant, event))?;
        if let Some(found) = found {
            return Ok(found);
        }
    }
    Err(Refusal::UnknownEvent { event })
}

fn in_shard(
    tables: &dyn Tables,
    shard: ShardNo,
    tenant: TenantId,
    event: Ulid,
) -> Result<Option<FoundDigest>, TablesError> {
    let Some(row) = digest::find(tables, tenant, event)? else { return Ok(None) };
    let (arrival, first) = (row.arrival, row.user);
    for channel in ChannelKind::ALL {
        let work = work::find(tables, WorkId { tenant, arrival, channel })?;
        let ledger = ledger::holding(tables, ParcelId { tenant, arrival, channel, first })?;
        let is_open = work.is_some();
        let terms = ledger.map(|(_, ledger)| ledger.terms).or(work.map(|work| work.terms));
        if let Some(terms) = terms {
            let tally = tally::find(tables, &tally::key(tenant, arrival, channel))?;
            return Ok(Some(FoundDigest { shard, row, channel, terms, tally, is_open }));
        }
    }
    Ok(None)
}

pub fn status(core: &Core, tenant: TenantId, event: Ulid) -> Result<NotificationStatus, Refusal> {
    let found = find(core, tenant, event)?;
    let is_done = found.is_done();
    let channel = ChannelStatus {
        channel: found.channel,
        counts: State::ALL.into_iter().map(|state| (state, found.tally.of(state))).collect(),
        unreached: found.tally.unreached,
        is_done,
    };
    Ok(NotificationStatus {
        name: None,
        event,
        created_at: event.millis(),
        category: category(core, tenant, &found.row.events)?,
        is_cancelled: false,
        is_retracted: false,
        recipients: 1,
        phase: if is_done { Phase::Done } else { Phase::Sending },
        never_released: false,
        due: None,
        channels: vec![channel],
    })
}

/// The story of one user: of the digest's reader, or that it is not for this one.
pub fn explain(
    core: &Core,
    tenant: TenantId,
    event: Ulid,
    (shard, user): (ShardNo, UserNo),
) -> Result<Explanation, Refusal> {
    let found = find(core, tenant, event)?;
    let (arrival, channel, terms) = (found.row.arrival, found.channel, found.terms);
    let is_done = found.is_done();
    let mut deliveries = Vec::new();
    let mut halted = None;
    if (shard, user) == (found.shard, found.row.user) {
        (deliveries, halted) = core.read(PartitionId::Shard(shard), |view| {
            let tables = view.tables();
            let of_user = deliveries_of(tables, tenant, arrival, channel, user)?;
            Ok((of_user, work::halted(tables, tenant, arrival)?))
        })?;
    }
    let name = name_of(core, tenant, shard, user)?;
    Ok(Explanation {
        event,
        name: None,
        user: nameless::shown(&name).unwrap_or(name),
        accepted_at: event.millis(),
        category: category(core, tenant, &found.row.events)?,
        priority: terms.lane,
        channels: ChannelSet::EMPTY.with(channel),
        chain: Chain::NONE,
        expires_at: Some(terms.expires_at),
        class: Some(terms.class),
        arrival: Some(arrival),
        is_in_inbox: false,
        digest_of: Some(found.row.events),
        due: None,
        appointment: None,
        phase: if is_done { Phase::Done } else { Phase::Sending },
        collapse_key: None,
        is_sensitive: false,
        rendered: None,
        halted,
        deliveries: vec![(channel, deliveries)],
    })
}

/// Of the newest event that can still be read.
fn category(core: &Core, tenant: TenantId, events: &[Ulid]) -> Result<String, Refusal> {
    for event in events.iter().rev() {
        match inbox::event(core, tenant, *event) {
            Ok(view) => return Ok(view.category.clone()),
            Err(Refusal::UnknownEvent { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(String::new())
}
