//! Links for recipients: made for whoever sends to them, followed by whoever has one.
//!
//! Comes from: the API that makes links, and the hosted pages. Does: seals what a link says under the user's own key, and
//! opens it again for a user who is still there. Goes to: `respect`, as a change that the recipient makes.
//! What must never happen: a link of one tenant or user that says anything about another.

pub use fantail_rules::link::{Link, Purpose};

use crate::ask::Refusal;
use crate::core::{Core, answer, internal, locked};
use crate::node::Node;
use crate::people::locate;
use crate::respect::{ASK_BYTES, Prefer, RespectRow};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::{respect, user};
use fantail_ports::keyring::{Context, KeyringError, Sealed};
use fantail_rules::actor::Actor;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{KeyNo, Lookup, Millis, PartitionId, TenantId};
use fantail_rules::link::Envelope;
use fantail_rules::zone::ZoneNo;

/// What a link is to be for.
#[derive(Clone, Debug)]
pub struct LinkAsk {
    pub purpose: Purpose,
    pub channel: Option<ChannelKind>,
    pub category: Option<String>,
    pub until: Option<Millis>,
}

/// A link that somebody followed, and what its user wants now.
#[derive(Clone, Debug)]
pub struct Followed {
    pub link: Link,
    pub row: RespectRow,
    /// Of the profile.
    pub locale: String,
    pub zone: ZoneNo,
    /// Those that the tenant says something about, by name.
    pub categories: Vec<String>,
    tenant: TenantId,
    lookup: Lookup,
}

impl Node {
    /// The text of a new link. Nothing is stored: a link is valid as long as its user is there and its time is not over, which ends by itself
    /// as the settings say.
    pub fn make_link(&self, tenant: TenantId, name: &str, ask: LinkAsk) -> Result<String, Refusal> {
        let (shard, number) = locate(&self.core, tenant, name)?;
        let row =
            self.core.read(PartitionId::Shard(shard), |view| user::find(view.tables(), tenant, number))?;
        let unknown = || Refusal::UnknownUser { user: name.to_owned() };
        let key = row.ok_or_else(unknown)?.id.key;
        let LinkAsk { purpose, channel, category, until } = ask;
        let until = until.or_else(|| end_of_new_link(&self.core));
        let link = Link { shard, user: number, purpose, channel, category, until };
        sealed(&self.core, tenant, key, &link)?.ok_or_else(unknown)
    }

    /// `None` for what is not a link of ours, or one that is over, or whose user has gone.
    pub fn follow_link(&self, text: &str) -> Result<Option<Followed>, Refusal> {
        let Some(Envelope { tenant, key, nonce, sealed }) = Envelope::read(text) else { return Ok(None) };
        if self.core.require_tenant(tenant).is_err() {
            return Ok(None);
        }
        let sealed = Sealed { key, nonce, bytes: sealed };
        let plain = match self.core.ports.keyring.open(tenant, Context::Link, &sealed) {
            Ok(plain) => plain,
            Err(KeyringError::NoKey { .. } | KeyringError::DoesNotOpen { .. }) => return Ok(None),
            Err(failed) => return Err(locked(failed)),
        };
        let Some(link) = Link::read(&plain).filter(|link| !link.is_over(self.wall())) else {
            return Ok(None);
        };
        let (shard, number) = (link.shard, link.user);
        let found = self.core.read(PartitionId::Shard(shard), |view| {
            let row = user::find(view.tables(), tenant, number)?;
            Ok((row, respect::find(view.tables(), tenant, number)?))
        })?;
        // A user who has gone may have left the key behind for a moment.
        let (Some(profile), row) = found else { return Ok(None) };
        let (lookup, locale, zone) = (profile.lookup, profile.locale, profile.zone);
        let categories = self.categories(tenant)?.into_iter().map(|(name, _)| name).collect();
        Ok(Some(Followed { link, row, locale, zone, categories, tenant, lookup }))
    }

    /// The recipient changes what it wants, from what `followed` shows. Again after a conflict: follow the link anew.
    pub async fn prefer_by_link(&self, followed: &Followed, prefer: Prefer) -> Result<u32, Refusal> {
        let tenant = followed.tenant;
        let ask = ShardAsk::Prefer { tenant, user: followed.lookup, prefer: Box::new(prefer) };
        let queue = &self.core.shard(followed.link.shard).queue;
        match answer(queue.push(tenant, &Actor::Recipient, vec![ask], ASK_BYTES)).await? {
            ShardAnswer::Respected { revision } => Ok(revision),
            ShardAnswer::Changed { revision } => Err(Refusal::RespectConflict { current: revision }),
            ShardAnswer::UnknownUser => Err(Refusal::UnknownUser { user: "of the link".to_owned() }),
            _ => Err(internal("the shard answered something else")),
        }
    }
}

/// When a link ends that is made now and says nothing else.
pub(crate) fn end_of_new_link(core: &Core) -> Option<Millis> {
    (core.link_ms > 0).then(|| core.ports.clock.wall().plus(core.link_ms))
}

/// The text of a link, under its user's key; `None` if that is gone.
pub(crate) fn sealed(
    core: &Core,
    tenant: TenantId,
    key: KeyNo,
    link: &Link,
) -> Result<Option<String>, Refusal> {
    match core.ports.keyring.seal(tenant, key, Context::Link, &link.write()) {
        Ok(Sealed { key, nonce, bytes }) => Ok(Some(Envelope { tenant, key, nonce, sealed: bytes }.write())),
        Err(KeyringError::NoKey { .. }) => Ok(None),
        Err(failed) => Err(locked(failed)),
    }
}
