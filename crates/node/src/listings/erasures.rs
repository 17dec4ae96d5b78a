//! Erasures of a tenant, the newest first; or the latest one of one user.

use super::ids;
use crate::ask::Refusal;
use crate::core::{Core, locked};
use crate::node::Node;
use fantail_machine::tables::erasure::{self, ErasureRow};
use fantail_rules::ids::{Millis, PartitionId, TenantId};
use fantail_rules::ulid::Ulid;
use std::ops::Range;

#[derive(Clone, Debug)]
pub struct ErasureQuery {
    /// When they were begun, the end not included.
    pub span: Range<Millis>,
    pub before: Option<Ulid>,
    pub limit: usize,
}

#[derive(Clone, Debug)]
pub struct ErasurePage {
    pub erasures: Vec<(Ulid, ErasureRow)>,
    /// Those before it may be asked for next.
    pub next: Option<Ulid>,
}

impl Node {
    pub fn list_erasures(&self, tenant: TenantId, query: &ErasureQuery) -> Result<ErasurePage, Refusal> {
        page(&self.core, tenant, query)
    }

    /// The erasure that the same request would be answered with, as a page of one or none.
    pub fn list_erasures_of(&self, tenant: TenantId, user: &str) -> Result<ErasurePage, Refusal> {
        let core = &self.core;
        core.require_tenant(tenant)?;
        let lookup = core.ports.keyring.lookup_user(tenant, user).map_err(locked)?;
        let found = core.read(PartitionId::Shard(core.shard_of(lookup)), |view| {
            let Some(id) = erasure::of_lookup(view.tables(), tenant, lookup)? else { return Ok(None) };
            Ok(erasure::find(view.tables(), tenant, id)?.map(|row| (id, row)))
        })?;
        Ok(ErasurePage { erasures: found.into_iter().collect(), next: None })
    }
}

fn page(core: &Core, tenant: TenantId, query: &ErasureQuery) -> Result<ErasurePage, Refusal> {
    core.require_tenant(tenant)?;
    let ids = ids(&query.span, query.before);
    let mut erasures = Vec::new();
    for shard in core.shards.keys() {
        // One more than is shown says whether there are others.
        erasures.extend(core.read(PartitionId::Shard(*shard), |view| {
            erasure::newest(view.tables(), tenant, ids.clone(), query.limit + 1)
        })?);
    }
    erasures.sort_unstable_by_key(|(erasure, _)| std::cmp::Reverse(*erasure));
    let is_more = erasures.len() > query.limit;
    erasures.truncate(query.limit);
    let next = erasures.last().map(|(erasure, _)| *erasure).filter(|_| is_more);
    Ok(ErasurePage { erasures, next })
}
