//! All users of a tenant, shard by shard, in the order in which each shard came to know them; or the one who has an address.

use super::most;
use crate::addressed;
use crate::ask::{Refusal, UserView};
use crate::core::{Core, locked};
use crate::devices::address_hash;
use crate::node::Node;
use crate::people;
use fantail_machine::tables::endpoint::{self, Endpoint};
use fantail_machine::tables::look::LookMax;
use fantail_machine::tables::user::{self, UserRow};
use fantail_ports::keyring::Context;
use fantail_ports::tables::TablesError;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::limits::LISTING_SHOWN_BYTES_MAX;
use fantail_rules::nameless;

/// The user that a page begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserPlace {
    pub shard: ShardNo,
    pub user: UserNo,
}

#[derive(Clone, Debug)]
pub struct UserPage {
    pub users: Vec<UserView>,
    pub next: Option<UserPlace>,
}

impl Node {
    /// Users from a place on. Those who are known only by an address are left out.
    pub fn list_users(
        &self,
        tenant: TenantId,
        from: Option<UserPlace>,
        limit: usize,
    ) -> Result<UserPage, Refusal> {
        page(&self.core, tenant, from, limit)
    }

    /// The user who has an address now, as a page of one or none.
    pub fn list_users_at(
        &self,
        tenant: TenantId,
        kind: ChannelKind,
        identity: &str,
    ) -> Result<UserPage, Refusal> {
        let core = &self.core;
        core.require_tenant(tenant)?;
        let address = address_hash(core, tenant, kind, identity).map_err(locked)?;
        let owner = addressed::owner(core, tenant, address)?;
        let rows = match owner {
            Some((shard, number)) => core.read(PartitionId::Shard(shard), |view| {
                let row = user::find(view.tables(), tenant, number)?;
                row.map(|row| Ok(((shard, number), row, endpoint::of_user(view.tables(), tenant, number)?)))
                    .transpose()
            })?,
            None => None,
        };
        Ok(UserPage { users: views(core, tenant, rows.into_iter().collect())?, next: None })
    }
}

fn page(core: &Core, tenant: TenantId, from: Option<UserPlace>, limit: usize) -> Result<UserPage, Refusal> {
    core.require_tenant(tenant)?;
    let start = from.unwrap_or(UserPlace { shard: ShardNo(0), user: UserNo(0) });
    let (mut users, mut left) = (Vec::new(), LookMax { bytes: LISTING_SHOWN_BYTES_MAX, ..most(limit) });
    for shard in core.shards.keys().filter(|shard| **shard >= start.shard) {
        let first = if *shard == start.shard { start.user } else { UserNo(0) };
        if left.found == 0 || left.rows == 0 || left.bytes == 0 {
            return Ok(UserPage { users, next: Some(UserPlace { shard: *shard, user: first }) });
        }
        let (rows, next) = core.read(PartitionId::Shard(*shard), |view| {
            let (rows, next) = user::page(view.tables(), tenant, first, left)?;
            let with_endpoints = |(number, row): (UserNo, UserRow)| {
                Ok(((*shard, number), row, endpoint::of_user(view.tables(), tenant, number)?))
            };
            Ok((rows.into_iter().map(with_endpoints).collect::<Result<Vec<_>, TablesError>>()?, next))
        })?;
        let bytes: usize =
            rows.iter().map(|(_, row, _)| row.id.bytes.len() + row.attributes.bytes.len()).sum();
        left.rows = left.rows.saturating_sub(rows.len());
        left.bytes = left.bytes.saturating_sub(bytes);
        left.found = left.found.saturating_sub(rows.len());
        users.extend(views(core, tenant, rows)?);
        if let Some(user) = next {
            return Ok(UserPage { users, next: Some(UserPlace { shard: *shard, user }) });
        }
    }
    Ok(UserPage { users, next: None })
}

fn views(
    core: &Core,
    tenant: TenantId,
    rows: Vec<((ShardNo, UserNo), UserRow, Vec<Endpoint>)>,
) -> Result<Vec<UserView>, Refusal> {
    let mut views = Vec::with_capacity(rows.len());
    for (place, row, endpoints) in rows {
        let Some(name) = people::open_name(core, tenant, Context::UserId, &row.id) else {
            continue;
        };
        if nameless::shown(&name).is_none() {
            views.extend(people::view(core, tenant, name, place, row, &endpoints)?);
        }
    }
    Ok(views)
}
