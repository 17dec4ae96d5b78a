//! What a front knows of large lists: the latest size of each shard's part, and the list's tier.
//!
//! ```text
//! 19 tenant list: 16 -> tier: u8, list of (shard, members)
//! ```

use super::{Family, Key, Row, get};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::front::read_tier;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{ListId, ShardNo, TenantId};
use fantail_rules::tier::Tier;

#[must_use]
pub fn key(tenant: TenantId, list: ListId) -> Vec<u8> {
    Key::new(Family::Size, tenant).bytes(&list.0).finish()
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SizeRow {
    pub tier: Tier,
    /// Ascending by shard.
    pub parts: Vec<(ShardNo, u64)>,
}

impl SizeRow {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.parts.iter().map(|(_, members)| members).sum()
    }

    pub fn set(&mut self, shard: ShardNo, members: u64) {
        match self.parts.binary_search_by_key(&shard, |(shard, _)| *shard) {
            Ok(found) => self.parts[found].1 = members,
            Err(place) => self.parts.insert(place, (shard, members)),
        }
    }
}

pub fn find(tables: &dyn Tables, tenant: TenantId, list: ListId) -> Result<SizeRow, TablesError> {
    Ok(get(tables, &key(tenant, list))?.unwrap_or_default())
}

impl Row for SizeRow {
    const NAME: &'static str = "list size";

    fn write(&self, w: &mut Writer) {
        w.u8(self.tier as u8).list(self.parts.iter(), |w, (shard, members)| {
            w.varint(shard.0.into()).varint(*members);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { tier: read_tier(r)?, parts: r.list(|r| Ok((r.shard()?, r.varint()?)))? })
    }
}
