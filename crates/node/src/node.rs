//! The handle that callers hold: cheap to clone, every capability a method. It starts the loops; `lifecycle` stops
//! them. Its methods for templates are in `templates`, those for devices in `devices`, those for the audit log in
//! `audit`; how it is doing is in `health`.

use crate::ask::{
    Accepted, Amounts, Called, ChannelSet, Counts, DeadLetter, EdgeAsk, EdgeChange, EventAsk, Explanation,
    InboxAsk, InboxPage, KeyAsk, KeyView, ListAsk, MarkAsk, MarkResult, Names, NotificationStatus,
    NotificationView, NotifyAsk, Place, Priority, PutCondition, Recipient, RecipientPage, Refusal, TenantAsk,
    TenantPatch, TenantView, Upserted, UserAsk, UserView, Which, Who, Wish,
};
use crate::core::Core;
use crate::dead_letters::DeadPlace;
use crate::guard_sweep::GuardSweep;
use crate::producers::Work;
use crate::{
    accept, addressed, cancel, crowds, dead_letters, deliveries, housekeeping, inbox, notify, people,
    producers, start, tenants,
};
use fantail_ports::store::{StoreError, Tended};
use fantail_rules::actor::Actor;
use fantail_rules::believed_time::Jump;
use fantail_rules::ids::{Arrival, Millis, PartitionId, Position, TenantId};
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::warn;

#[derive(Clone)]
pub struct Node {
    pub(crate) core: Arc<Core>,
    /// Who asks through this handle.
    pub(crate) by: Actor,
}

impl Node {
    /// Recovers every partition, takes the lead and starts the loops.
    pub async fn start(
        ports: crate::ports::Ports,
        options: start::Options,
    ) -> Result<(Self, start::Report), start::StartError> {
        let (core, report) = start::start(ports, options).await?;
        Ok((Self { core, by: Actor::System }, report))
    }

    /// A handle for somebody else: what is asked through it is recorded as theirs.
    #[must_use]
    pub fn acting_as(&self, by: Actor) -> Self {
        Self { core: self.core.clone(), by }
    }

    /// One slice of the store's background work; call it from a thread that may block.
    pub fn tend(&self) -> Result<Tended, StoreError> {
        self.core.ports.points.reach("store.tended");
        self.core.ports.store.tend()
    }

    /// The machine's clock is right, says an operator. Returns how far off it was for the node, if it was.
    pub fn accept_clock(&self) -> Option<Jump> {
        let core = &self.core;
        let accepted = core.clock.accept();
        core.dispatch.look_anew();
        core.schedules.ring();
        core.fronts.values().for_each(|front| front.scheduled.ring());
        core.shards.values().for_each(|shard| {
            shard.windows.ring();
            shard.walks.ring();
        });
        accepted
    }

    /// How many bytes the disk has above its reserve, if that is little: then each tenant may write its share of them.
    pub fn set_disk_room(&self, free_bytes: Option<u64>) {
        if self.core.disk.is_short() != free_bytes.is_some() {
            warn!(
                ?free_bytes,
                "the disk is short, or is not any more: tenants may write their share of what is free"
            );
        }
        self.core.disk.set(free_bytes);
    }

    /// The time that the node goes by: wall time without its jumps.
    #[must_use]
    pub fn wall(&self) -> Millis {
        self.core.ports.clock.wall()
    }

    pub fn snapshot(&self, name: &str) -> Result<housekeeping::Taken, Refusal> {
        housekeeping::snapshot(&self.core, name)
    }

    /// Through where every shard has taken each front now.
    pub fn taken_by_all(&self) -> Result<BTreeMap<PartitionId, Position>, Refusal> {
        housekeeping::taken_by_all(&self.core)
    }

    pub async fn sync(&self) -> Result<(), Refusal> {
        housekeeping::sync_now(&self.core).await.map(|_| ())
    }

    /// Trims the journal behind all of these, if the oldest is old enough, beside everything else.
    pub fn trim_behind(&self, snapshots: &[housekeeping::Taken]) {
        let (core, snapshots) = (self.core.clone(), snapshots.to_vec());
        let trim = async move {
            if let Err(failed) = housekeeping::trim(&core, &snapshots).await {
                warn!(%failed, "journal not trimmed");
            }
        };
        self.core.ports.tasks.spawn("trim", Box::pin(trim));
    }

    /// One round of retention now, instead of when it is due.
    pub async fn retain(&self) -> Result<(), Refusal> {
        housekeeping::retain(&self.core, &mut housekeeping::Sweeps::default()).await?;
        for shard in self.core.shards.keys() {
            GuardSweep::default().round(&self.core, *shard).await?;
        }
        Ok(())
    }

    pub async fn create_tenant(&self, ask: TenantAsk) -> Result<TenantView, Refusal> {
        tenants::create(&self.core, &self.by, ask).await
    }

    pub async fn patch_tenant(&self, tenant: TenantId, patch: TenantPatch) -> Result<TenantView, Refusal> {
        tenants::patch(&self.core, &self.by, tenant, patch).await
    }

    #[must_use]
    pub fn tenants(&self) -> Vec<TenantView> {
        self.core.control.now().tenants.values().cloned().collect()
    }

    #[must_use]
    pub fn tenant(&self, tenant: TenantId) -> Option<TenantView> {
        self.core.control.now().tenants.get(&tenant).cloned()
    }

    /// What a tenant has, as far as it is durable.
    #[must_use]
    pub fn usage(&self, tenant: TenantId) -> Amounts {
        self.core.usage.stored(tenant)
    }

    /// Limits of tenants that have none of their own; 0: none.
    #[must_use]
    pub fn quota_defaults(&self) -> &Amounts {
        self.core.usage.defaults()
    }

    /// Requests of a tenant that did not fit into its quota.
    #[must_use]
    pub fn over_quota(&self, tenant: TenantId) -> Amounts {
        self.core.usage.refused(tenant)
    }

    #[must_use]
    pub fn tenant_by_slug(&self, slug: &str) -> Option<TenantView> {
        self.core.control.now().tenant_by_slug(slug).cloned()
    }

    pub async fn create_key(&self, tenant: TenantId, ask: KeyAsk) -> Result<KeyView, Refusal> {
        tenants::create_key(&self.core, &self.by, tenant, ask).await
    }

    pub async fn revoke_key(&self, tenant: TenantId, id: &str) -> Result<(), Refusal> {
        tenants::revoke_key(&self.core, &self.by, tenant, id).await
    }

    #[must_use]
    pub fn keys(&self, tenant: TenantId) -> Vec<KeyView> {
        self.core.control.now().keys_of(tenant)
    }

    /// For authentication: one lookup in memory, no IO. Revoked and expired keys are returned too.
    #[must_use]
    pub fn key_by_id(&self, id: &str) -> Option<Arc<KeyView>> {
        self.core.control.now().key(id)
    }

    /// Charges a request to its tenant and its key; refused if they ask faster than they may.
    pub fn spend(&self, tenant: TenantId, key: Option<&KeyView>, cost: u32) -> Result<(), Refusal> {
        producers::spend(&self.core, tenant, key, Work::Sends, cost)
    }

    /// Charges users, edges or lines of an upload to an allowance of their own at the same rate.
    pub fn spend_import(&self, tenant: TenantId, key: Option<&KeyView>, items: usize) -> Result<(), Refusal> {
        producers::spend(&self.core, tenant, key, Work::Imports, producers::cost_of_import(items))
    }

    /// One result per event, in order. `Ok` only after it is durable.
    pub async fn post_events(
        &self,
        tenant: TenantId,
        events: Vec<EventAsk>,
    ) -> Vec<Result<Accepted, Refusal>> {
        accept::post(&self.core, &self.by, tenant, events).await
    }

    /// Says whether every shard has taken it; otherwise they will.
    pub async fn retract(&self, tenant: TenantId, event: Ulid) -> Result<bool, Refusal> {
        cancel::retract(&self.core, &self.by, tenant, event).await
    }

    /// Who these are, or the names of those that do not exist. Addresses that are nobody's get a user without a name.
    pub async fn recipients(&self, tenant: TenantId, all: &[Who]) -> Result<Vec<Recipient>, Refusal> {
        addressed::resolve(&self.core, &self.by, tenant, all).await
    }

    /// Accepts a notification to named users. `Ok` only after it is durable.
    pub async fn notify(&self, tenant: TenantId, ask: NotifyAsk) -> Result<Accepted, Refusal> {
        notify::notify(&self.core, &self.by, tenant, ask).await
    }

    /// How long until the first attempts of so many deliveries, accepted now, are expected to be over.
    pub fn expected_ms(
        &self,
        tenant: TenantId,
        channels: ChannelSet,
        lane: Priority,
        own: u64,
    ) -> Result<u64, Refusal> {
        crowds::expected(&self.core, tenant, channels, lane, own)
    }

    /// The answer to a notification that was accepted before under this id.
    pub async fn recall_notification(
        &self,
        tenant: TenantId,
        id: &str,
        body_hash: [u8; 16],
    ) -> Result<Option<Accepted>, Refusal> {
        notify::recall(&self.core, tenant, id, body_hash).await
    }

    /// Our id of a notification by the producer's.
    pub fn find_notification(&self, tenant: TenantId, id: &str) -> Result<Option<Ulid>, Refusal> {
        notify::find(&self.core, tenant, id)
    }

    /// Whether there is an event, or a digest, with this id.
    pub fn is_known_event(&self, tenant: TenantId, event: Ulid) -> Result<bool, Refusal> {
        deliveries::is_known(&self.core, tenant, event)
    }

    pub fn status(&self, tenant: TenantId, event: Ulid) -> Result<NotificationStatus, Refusal> {
        deliveries::status(&self.core, tenant, event)
    }

    pub fn deliveries(
        &self,
        tenant: TenantId,
        event: Ulid,
        from: Option<Place>,
        limit: usize,
    ) -> Result<RecipientPage, Refusal> {
        deliveries::recipients(&self.core, tenant, event, from, limit)
    }

    pub fn explain(&self, tenant: TenantId, event: Ulid, who: &Who) -> Result<Explanation, Refusal> {
        deliveries::explain(&self.core, tenant, event, who)
    }

    pub fn dead_letters(
        &self,
        tenant: TenantId,
        after: Option<DeadPlace>,
        limit: usize,
    ) -> Result<(Vec<DeadLetter>, Option<DeadPlace>), Refusal> {
        dead_letters::dead_letters(&self.core, tenant, after, limit)
    }

    /// Redrives or drops dead letters; returns how many.
    pub async fn redrive(&self, tenant: TenantId, which: &Which, wish: Wish) -> Result<u64, Refusal> {
        dead_letters::redrive(&self.core, &self.by, tenant, which, wish).await
    }

    /// Stops what of an event was not sent yet.
    pub async fn cancel(&self, tenant: TenantId, event: Ulid) -> Result<Called, Refusal> {
        cancel::cancel(&self.core, &self.by, tenant, event).await
    }

    /// Stops everything that was accepted under a cancellation key, as far as it is not too late.
    pub async fn cancel_by_key(&self, tenant: TenantId, key: &str) -> Result<Called, Refusal> {
        cancel::cancel_by_key(&self.core, &self.by, tenant, key).await
    }

    pub async fn put_users(&self, tenant: TenantId, users: Vec<UserAsk>) -> Vec<Result<Upserted, Refusal>> {
        people::put_users(&self.core, &self.by, tenant, users).await
    }

    /// Puts a user if the condition holds when it is done.
    pub async fn put_user_if(
        &self,
        tenant: TenantId,
        user: UserAsk,
        condition: PutCondition,
    ) -> Result<Upserted, Refusal> {
        people::put_user_if(&self.core, &self.by, tenant, user, condition).await
    }

    pub async fn user(&self, tenant: TenantId, user: &str) -> Result<UserView, Refusal> {
        people::user(&self.core, tenant, user)
    }

    pub async fn delete_user(&self, tenant: TenantId, user: &str) -> Result<(), Refusal> {
        people::delete_user(&self.core, &self.by, tenant, user).await
    }

    /// `Ok(true)` if the edge changed, `Ok(false)` if it was so already.
    pub async fn edit_lists(
        &self,
        tenant: TenantId,
        change: EdgeChange,
        edges: Vec<EdgeAsk>,
    ) -> Vec<Result<bool, Refusal>> {
        people::edit_lists(&self.core, &self.by, tenant, change, edges).await
    }

    pub async fn members(
        &self,
        tenant: TenantId,
        list: ListAsk,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<Names, Refusal> {
        people::members(&self.core, tenant, &list, cursor.as_deref(), limit)?.ok_or(Refusal::BadCursor)
    }

    pub async fn member_count(&self, tenant: TenantId, list: ListAsk) -> Result<u64, Refusal> {
        people::member_count(&self.core, tenant, &list)
    }

    pub async fn follows(
        &self,
        tenant: TenantId,
        user: &str,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<Names, Refusal> {
        people::follows(&self.core, tenant, user, cursor.as_deref(), limit)?.ok_or(Refusal::BadCursor)
    }

    pub async fn follow_count(&self, tenant: TenantId, user: &str) -> Result<u64, Refusal> {
        people::follow_count(&self.core, tenant, user)
    }

    pub async fn is_member(&self, tenant: TenantId, edge: EdgeAsk) -> Result<bool, Refusal> {
        people::is_member(&self.core, tenant, &edge)
    }

    pub async fn inbox(&self, tenant: TenantId, ask: InboxAsk) -> Result<InboxPage, Refusal> {
        inbox::page(&self.core, tenant, &ask)
    }

    pub async fn notification(
        &self,
        tenant: TenantId,
        user: &str,
        event: Ulid,
    ) -> Result<NotificationView, Refusal> {
        inbox::notification(&self.core, tenant, user, event)
    }

    pub async fn counts(&self, tenant: TenantId, user: &str) -> Result<Counts, Refusal> {
        inbox::counts(&self.core, tenant, user)
    }

    pub async fn mark(&self, tenant: TenantId, ask: MarkAsk) -> Result<MarkResult, Refusal> {
        inbox::mark(&self.core, &self.by, tenant, ask).await
    }

    /// Resolves an event id to its arrival for this user.
    pub async fn arrival_of(&self, tenant: TenantId, user: &str, event: Ulid) -> Result<Arrival, Refusal> {
        inbox::entry(&self.core, tenant, user, event).map(|entry| entry.arrival)
    }
}
