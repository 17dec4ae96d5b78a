//! Suppressed addresses of a tenant, directory by directory, in the order of their hashes.
//!
//! The directory has no addresses, only their keyed hashes. An address is shown as long as a user has it: it is sealed under that
//! user's key, so an erasure takes it out of this list too.

use super::most;
use crate::ask::Refusal;
use crate::core::Core;
use crate::node::Node;
use crate::people::{name_of, open_name};
use fantail_machine::records::directory::Owner;
use fantail_machine::tables::{directory, endpoint};
use fantail_ports::keyring::Context;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{AddressHash, DirectoryNo, Millis, PartitionId, TenantId};
use fantail_rules::nameless;
use fantail_rules::suppression::Reason;

/// Behind which address a page begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuppressionPlace {
    pub directory: DirectoryNo,
    pub address: Option<AddressHash>,
}

#[derive(Clone, Debug)]
pub struct ListedSuppression {
    pub hash: AddressHash,
    pub reason: Reason,
    pub since: Millis,
    /// Of who has the address now.
    pub owner: Option<AddressOwner>,
}

#[derive(Clone, Debug)]
pub struct AddressOwner {
    pub channel: ChannelKind,
    /// A mail address or a phone number; other addresses are not shown, because whoever has them can send there.
    pub address: Option<String>,
    /// `None` for a user who is known only by the address.
    pub user: Option<String>,
}

#[derive(Clone, Debug)]
pub struct SuppressionPage {
    pub suppressions: Vec<ListedSuppression>,
    pub next: Option<SuppressionPlace>,
}

impl Node {
    /// Suppressed addresses behind a place, those with one reason if one is named.
    pub fn list_suppressions(
        &self,
        tenant: TenantId,
        behind: Option<SuppressionPlace>,
        reason: Option<Reason>,
        limit: usize,
    ) -> Result<SuppressionPage, Refusal> {
        let core = &self.core;
        core.require_tenant(tenant)?;
        let start = behind.unwrap_or(SuppressionPlace { directory: DirectoryNo(0), address: None });
        let mut page = SuppressionPage { suppressions: Vec::new(), next: None };
        for directory in core.directories.keys().filter(|directory| **directory >= start.directory) {
            let address = start.address.filter(|_| *directory == start.directory);
            let most = most(limit - page.suppressions.len());
            if most.found == 0 {
                page.next = Some(SuppressionPlace { directory: *directory, address });
                return Ok(page);
            }
            let (rows, cut_at) = core.read(PartitionId::Directory(*directory), |view| {
                directory::suppressed_behind(view.tables(), tenant, address, reason, most)
            })?;
            for (hash, row) in rows {
                let Some(found) = row.suppression else { continue };
                let owner = row.owner.map(|owner| owner_of(core, tenant, hash, owner)).transpose()?.flatten();
                let (reason, since) = (found.reason, found.since);
                page.suppressions.push(ListedSuppression { hash, reason, since, owner });
            }
            if let Some(address) = cut_at {
                page.next = Some(SuppressionPlace { directory: *directory, address: Some(address) });
                return Ok(page);
            }
        }
        Ok(page)
    }
}

/// `None`: the user is gone, or has another address by now, and the directory has not heard of it.
fn owner_of(
    core: &Core,
    tenant: TenantId,
    hash: AddressHash,
    owner: Owner,
) -> Result<Option<AddressOwner>, Refusal> {
    let found = core.read(PartitionId::Shard(owner.shard), |view| {
        endpoint::find(view.tables(), tenant, owner.user, owner.device)
    })?;
    let Some(endpoint) = found.filter(|endpoint| endpoint.address_hash == hash) else { return Ok(None) };
    let is_shown = matches!(endpoint.kind, ChannelKind::Email | ChannelKind::Sms);
    let address = open_name(core, tenant, Context::Address, &endpoint.address).filter(|_| is_shown);
    let name = name_of(core, tenant, owner.shard, owner.user)?;
    let user = Some(name).filter(|name| !name.is_empty() && nameless::shown(name).is_none());
    Ok(Some(AddressOwner { channel: endpoint.kind, address, user }))
}
