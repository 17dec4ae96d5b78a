//! What users want: preferences and consents, read and changed.
//!
//! Comes from: the preference and consent APIs. Does: finds the user's shard, asks it, and hears whether the change was made
//! to what its author saw. An answer means durable, and nothing is authorised after it that the change forbids. Goes to:
//! `machine::shard::respect`.

pub use fantail_machine::records::respect::Consent;
pub use fantail_machine::shard::respect::Prefer;
pub use fantail_machine::tables::respect::{Changed, RespectRow, What};

use crate::ask::Refusal;
use crate::core::{Core, answer, internal, locked};
use crate::node::Node;
use crate::people::locate;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::respect;
use fantail_rules::actor::Actor;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, PartitionId, TenantId};

/// What a consent or a few preferences take in a queue.
pub(crate) const ASK_BYTES: usize = 1_024;

/// What is said about a channel.
#[derive(Clone, Debug)]
pub struct ConsentAsk {
    pub is_granted: bool,
    /// When the user said so; now if that is not told.
    pub given: Option<Millis>,
    pub version: String,
    pub source: String,
}

impl ConsentAsk {
    pub(crate) fn at(self, now: Millis) -> Consent {
        let Self { is_granted, given, version, source } = self;
        Consent { is_granted, given: given.map_or(now, |given| given.min(now)), version, source }
    }
}

impl Node {
    pub fn respect(&self, tenant: TenantId, user: &str) -> Result<RespectRow, Refusal> {
        let (shard, number) = locate(&self.core, tenant, user)?;
        self.core.read(PartitionId::Shard(shard), |view| respect::find(view.tables(), tenant, number))
    }

    /// Changes below a revision, newest first.
    pub fn respect_history(
        &self,
        tenant: TenantId,
        user: &str,
        below: u32,
        limit: usize,
    ) -> Result<Vec<(u32, Changed)>, Refusal> {
        let (shard, number) = locate(&self.core, tenant, user)?;
        self.core.read(PartitionId::Shard(shard), |view| {
            respect::history(view.tables(), tenant, number, below, limit)
        })
    }

    /// The new revision. Refused if what is there is not what `prefer` is to replace.
    pub async fn prefer(&self, tenant: TenantId, user: &str, prefer: Prefer) -> Result<u32, Refusal> {
        let lookup = self.core.ports.keyring.lookup_user(tenant, user).map_err(locked)?;
        let ask = ShardAsk::Prefer { tenant, user: lookup, prefer: Box::new(prefer) };
        revision(&self.core, &self.by, tenant, user, ask).await
    }

    pub async fn consent(
        &self,
        tenant: TenantId,
        user: &str,
        channel: ChannelKind,
        ask: ConsentAsk,
    ) -> Result<u32, Refusal> {
        consent(&self.core, &self.by, tenant, user, channel, ask).await
    }
}

pub async fn consent(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    user: &str,
    channel: ChannelKind,
    ask: ConsentAsk,
) -> Result<u32, Refusal> {
    let lookup = core.ports.keyring.lookup_user(tenant, user).map_err(locked)?;
    let consent = ask.at(core.ports.clock.wall());
    revision(core, by, tenant, user, ShardAsk::Consent { tenant, user: lookup, channel, consent }).await
}

async fn revision(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    user: &str,
    ask: ShardAsk,
) -> Result<u32, Refusal> {
    core.require_tenant(tenant)?;
    let lookup = core.ports.keyring.lookup_user(tenant, user).map_err(locked)?;
    let queue = &core.shard(core.shard_of(lookup)).queue;
    match answer(queue.push(tenant, by, vec![ask], ASK_BYTES)).await? {
        ShardAnswer::Respected { revision } => Ok(revision),
        ShardAnswer::Changed { revision } => Err(Refusal::RespectConflict { current: revision }),
        ShardAnswer::UnknownUser => Err(Refusal::UnknownUser { user: user.to_owned() }),
        _ => Err(internal("the shard answered something else")),
    }
}
