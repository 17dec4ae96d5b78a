//! Webhooks to the producer: what became of a notification is told to a URL of the tenant's.
//!
//! Comes from: the webhook API. Does: seals where they go under the tenant's own key, asks the root, and sets how far they
//! have told. Goes to: `machine::root::webhook`; `follow` reads the journal for each of them and sends what `tell` says.
//!
//! What must never happen: a secret in a log or in a list; a webhook that begins before it was asked for.

mod failure;
pub mod follow;
mod progress;
mod tell;

pub use progress::{WebhookFailure, WebhookProgress, WebhookProgresses};

use crate::Node;
use crate::ask::Refusal;
use crate::core::{Core, answer, internal, locked};
use crate::queue::QueueLine;
use fantail_machine::records::time_of;
use fantail_machine::records::webhook::{Told, WebhookPut};
use fantail_machine::root::webhook::{Answer, Ask};
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_machine::shard::ShardAsk;
use fantail_machine::tables::webhook::{self, WebhookRow};
use fantail_ports::journal::ReadLimit;
use fantail_ports::keyring::{Context, Sealed};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{KeyNo, Millis, PartitionId, Position, ShardNo, TenantId};
use fantail_rules::limits::WEBHOOKS_PER_TENANT_MAX;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct WebhookAsk {
    pub id: String,
    pub url: String,
    /// Where it goes and with which secret, as the channel reads it.
    pub target: Vec<u8>,
    /// A bit for each event, see `rules::producer_event`.
    pub events: u32,
}

#[derive(Clone, Debug)]
pub struct WebhookView {
    pub id: String,
    pub url: String,
    pub events: u32,
    pub created_at: Millis,
    /// Why it is off, and since when.
    pub off: Option<(String, Millis)>,
    /// Since when its receiver takes nothing.
    pub failing_since: Option<Millis>,
    /// The last attempt since this process began.
    pub progress: Option<WebhookProgress>,
}

/// Where a webhook goes and with which secrets, as the channel reads it; and as it is stored.
pub struct WebhookTarget {
    pub bytes: Vec<u8>,
    sealed: Sealed,
}

impl Node {
    /// Begins with what happens from now on.
    pub async fn create_webhook(&self, tenant: TenantId, ask: WebhookAsk) -> Result<WebhookView, Refusal> {
        let core = &self.core;
        core.require_tenant(tenant)?;
        let seal = |plain: &[u8]| core.ports.keyring.seal(tenant, KeyNo::TENANT, Context::Address, plain);
        let target = seal(&ask.target).map_err(locked)?;
        let url = seal(ask.url.as_bytes()).map_err(locked)?;
        // First the places, then the webhook: it must not begin with what was before.
        for shard in core.shards.keys() {
            set(core, &Actor::System, tenant, &ask.id, *shard, applied(core, *shard), None).await?;
        }
        let put = WebhookPut { tenant, id: ask.id, target, url, events: ask.events };
        view(core, ask_root(core, &self.by, Ask::Put(put)).await?)
    }

    pub fn webhook_target(&self, tenant: TenantId, id: &str) -> Result<WebhookTarget, Refusal> {
        let sealed = self.webhook(tenant, id)?.put.target.clone();
        let bytes = self.core.ports.keyring.open(tenant, Context::Address, &sealed).map_err(locked)?;
        Ok(WebhookTarget { bytes, sealed })
    }

    /// Another secret for the same place; it goes on where it is. `None` if it has another target by now than `from`.
    pub async fn retarget_webhook(
        &self,
        tenant: TenantId,
        id: &str,
        from: WebhookTarget,
        target: &[u8],
    ) -> Result<Option<WebhookView>, Refusal> {
        let core = &self.core;
        let to = core.ports.keyring.seal(tenant, KeyNo::TENANT, Context::Address, target).map_err(locked)?;
        let ask = Ask::Retarget { tenant, id: id.to_owned(), from: from.sealed, to };
        match answer(core.root.push(tenant, &self.by, vec![RootAsk::Webhook(ask)], 2_048 + target.len()))
            .await?
        {
            RootAnswer::Webhook(Answer::Webhook(row)) => view(core, row).map(Some),
            RootAnswer::Webhook(Answer::Changed) => Ok(None),
            RootAnswer::Webhook(Answer::Unknown) => Err(Refusal::UnknownWebhook { webhook: id.to_owned() }),
            _ => Err(other()),
        }
    }

    fn webhook(&self, tenant: TenantId, id: &str) -> Result<Arc<WebhookRow>, Refusal> {
        let found = self.core.control.now().webhooks.get(&(tenant, id.to_owned())).cloned();
        found.ok_or_else(|| Refusal::UnknownWebhook { webhook: id.to_owned() })
    }

    pub fn webhooks(&self, tenant: TenantId) -> Result<Vec<WebhookView>, Refusal> {
        let control = self.core.control.now();
        let own = control.webhooks.iter().filter(|((owner, _), _)| *owner == tenant);
        own.map(|(_, row)| view(&self.core, (**row).clone())).collect()
    }

    pub async fn delete_webhook(&self, tenant: TenantId, id: &str) -> Result<(), Refusal> {
        let ask = RootAsk::Webhook(Ask::Delete { tenant, id: id.to_owned() });
        match answer(self.core.root.push(tenant, &self.by, vec![ask], 256)).await? {
            RootAnswer::Webhook(Answer::Gone) => Ok(()),
            RootAnswer::Webhook(Answer::Unknown) => Err(Refusal::UnknownWebhook { webhook: id.to_owned() }),
            _ => Err(other()),
        }
    }

    /// Goes on where it was switched off.
    pub async fn enable_webhook(&self, tenant: TenantId, id: &str) -> Result<WebhookView, Refusal> {
        view(&self.core, switch(&self.core, &self.by, tenant, id, None).await?)
    }

    /// Tells again what happened since a time, as far as the journal goes back.
    pub async fn replay_webhook(&self, tenant: TenantId, id: &str, since: Millis) -> Result<(), Refusal> {
        let core = &self.core;
        if !core.control.now().webhooks.contains_key(&(tenant, id.to_owned())) {
            return Err(Refusal::UnknownWebhook { webhook: id.to_owned() });
        }
        for shard in core.shards.keys() {
            let through = before(core, *shard, since).await?;
            set(core, &self.by, tenant, id, *shard, through, None).await?;
        }
        Ok(())
    }
}

/// Switches a webhook off, saying why, or on.
async fn switch(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    id: &str,
    off: Option<String>,
) -> Result<WebhookRow, Refusal> {
    ask_root(core, by, Ask::Switch { tenant, id: id.to_owned(), off }).await
}

/// Says that a webhook's receiver takes nothing from now on, or does again.
async fn fail(core: &Core, tenant: TenantId, id: &str, is_failing: bool) -> Result<(), Refusal> {
    ask_root(core, &Actor::System, Ask::Fail { tenant, id: id.to_owned(), is_failing }).await.map(drop)
}

async fn ask_root(core: &Core, by: &Actor, ask: Ask) -> Result<WebhookRow, Refusal> {
    let (tenant, webhook) = match &ask {
        Ask::Put(put) => (put.tenant, put.id.clone()),
        Ask::Retarget { tenant, id, .. }
        | Ask::Switch { tenant, id, .. }
        | Ask::Fail { tenant, id, .. }
        | Ask::Delete { tenant, id, .. } => (*tenant, id.clone()),
    };
    match answer(core.root.push(QueueLine::asked_by(by, tenant), by, vec![RootAsk::Webhook(ask)], 2_048))
        .await?
    {
        RootAnswer::Webhook(Answer::Webhook(row)) => Ok(row),
        RootAnswer::Webhook(Answer::UnknownTenant) => Err(Refusal::UnknownTenant),
        RootAnswer::Webhook(Answer::Unknown) => Err(Refusal::UnknownWebhook { webhook }),
        RootAnswer::Webhook(Answer::TooMany) => Err(Refusal::TooMany { limit: WEBHOOKS_PER_TENANT_MAX }),
        _ => Err(other()),
    }
}

fn other() -> Refusal {
    internal("the root answered something else")
}

fn view(core: &Core, row: WebhookRow) -> Result<WebhookView, Refusal> {
    let WebhookRow { put, created, off } = row;
    let url = core.ports.keyring.open(put.tenant, Context::Address, &put.url).map_err(locked)?;
    let url = String::from_utf8_lossy(&url).into_owned();
    let failing_since =
        core.read(PartitionId::Root, |tables| webhook::failing_since(tables.tables(), put.tenant, &put.id))?;
    let progress = core.webhook_progresses.of(put.tenant, &put.id);
    let WebhookPut { id, events, .. } = put;
    Ok(WebhookView { id, url, events, created_at: created, off, failing_since, progress })
}

fn applied(core: &Core, shard: ShardNo) -> Position {
    core.applied.get(&PartitionId::Shard(shard)).map_or(Position::START, |applied| *applied.borrow())
}

/// Says how far a webhook has told of a shard, if it is where it is expected.
async fn set(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    id: &str,
    shard: ShardNo,
    through: Position,
    from: Option<Position>,
) -> Result<(), Refusal> {
    let told = Told { tenant, webhook: id.to_owned(), through };
    let ask = ShardAsk::Told { told, from };
    answer(core.shard(shard).queue.push(QueueLine::asked_by(by, tenant), by, vec![ask], 128)).await.map(drop)
}

/// The last record of a shard that is older than a time: times ascend with positions.
async fn before(core: &Core, shard: ShardNo, since: Millis) -> Result<Position, Refusal> {
    let partition = PartitionId::Shard(shard);
    let bounds = core.ports.journal.bounds(partition).map_err(|failed| internal(&failed.to_string()))?;
    let (mut low, mut high) = (bounds.first.0, bounds.next.0);
    while low < high {
        let middle = low + (high - low) / 2;
        let one = ReadLimit { records: 1, bytes: 0 };
        let records = core.ports.journal.read(partition, Position(middle), one).await;
        let records = records.map_err(|failed| internal(&failed.to_string()))?;
        let at = records.first().map(|record| time_of(&record.bytes)).transpose();
        let at = at.map_err(|failed| internal(&failed.to_string()))?;
        if at.is_some_and(|at| at < since) { low = middle + 1 } else { high = middle }
    }
    Ok(Position(low.saturating_sub(1)))
}
