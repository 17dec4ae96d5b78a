//! Whether a tenant has something of a name already.
//!
//! Comes from: the API, for a name that nothing new may have (`rules::name`). What exists keeps its name and is changed, sent and
//! repeated under it, so only names that are not found here are refused.

use crate::accept::event_key;
use crate::ask::{ListAsk, Refusal};
use crate::core::Core;
use crate::node::Node;
use crate::{devices, notify, people};
use fantail_machine::tables::{idempotency, list, policy, schedule, segment, template};
use fantail_rules::admit::Bucket;
use fantail_rules::ids::{PartitionId, TenantId};

/// A name, with the kind of thing that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named<'a> {
    User(&'a str),
    Device {
        user: &'a str,
        device: &'a str,
    },
    Topic(&'a str),
    /// A notification or a bulk send, by the producer's id.
    Notification(&'a str),
    Event {
        source: &'a str,
        id: &'a str,
    },
    Template(&'a str),
    Category(&'a str),
    Segment(&'a str),
    Schedule(&'a str),
}

impl Node {
    /// Whether there is something of this name.
    pub fn is_taken(&self, tenant: TenantId, named: Named<'_>) -> Result<bool, Refusal> {
        let core = &self.core;
        core.require_tenant(tenant)?;
        match named {
            Named::User(user) => is_user(core, tenant, user),
            Named::Device { user, device } => match devices::devices(core, tenant, user) {
                Ok(known) => Ok(known.iter().any(|one| one.device == device)),
                Err(Refusal::UnknownUser { .. }) => Ok(false),
                Err(refusal) => Err(refusal),
            },
            Named::Topic(topic) => is_list(core, tenant, &ListAsk::Topic(topic.to_owned())),
            Named::Notification(id) => Ok(notify::find(core, tenant, id)?.is_some()),
            Named::Event { source, id } => is_event(core, tenant, source, id),
            Named::Template(id) => core.read(PartitionId::Root, |view| {
                template::find(view.tables(), tenant, id).map(|found| found.is_some())
            }),
            Named::Category(name) => core.read(PartitionId::Root, |view| {
                policy::category(view.tables(), tenant, name).map(|found| found.is_some())
            }),
            Named::Segment(name) => core.read(PartitionId::Root, |view| {
                segment::find(view.tables(), tenant, name).map(|found| found.is_some())
            }),
            Named::Schedule(id) => core.read(PartitionId::Root, |view| {
                schedule::find(view.tables(), tenant, id).map(|found| found.is_some())
            }),
        }
    }
}

fn is_user(core: &Core, tenant: TenantId, user: &str) -> Result<bool, Refusal> {
    match people::locate(core, tenant, user) {
        Ok(_) => Ok(true),
        Err(Refusal::UnknownUser { .. }) => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

/// Any shard may have the list: each knows those that its own users are on, or were.
fn is_list(core: &Core, tenant: TenantId, name: &ListAsk) -> Result<bool, Refusal> {
    let id = core.list_id(tenant, name)?;
    for shard in core.shards.keys() {
        let row = core.read(PartitionId::Shard(*shard), |view| list::find(view.tables(), tenant, id))?;
        if row.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The front of an event follows from more than its name, so all of them are searched.
fn is_event(core: &Core, tenant: TenantId, source: &str, id: &str) -> Result<bool, Refusal> {
    let key = event_key(core, tenant, source, id)?;
    let buckets = Bucket::searched(core.ports.clock.wall());
    for front in core.fronts.keys() {
        let found = core.read(PartitionId::Front(*front), |view| {
            idempotency::find(view.tables(), tenant, &key, &buckets)
        })?;
        if found.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
