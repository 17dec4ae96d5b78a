//! Where every row lies. Frozen layouts; numbers are big-endian, so that bytes sort like numbers.
//!
//! ```text
//! main    00                                                  the sync point: format, state, marks
//!         partition:2 01 key                                  table rows, keys as the machines chose them
//!         partition:2 02 tenant:4 list:16 from:8              one page of a list, from this user on
//!         partition:2 04 tenant:4                             how far a tenant's windows and retention are
//!         partition:2 05 tenant:4 first:8                     windows that were not materialised at a sync
//!         partition:2 06 tenant:4 user:8                      a user whose entries are still to be erased, and the
//!                                                             arrival that was reached when that was asked
//! ```

use fantail_ports::lists::ListKey;
use fantail_rules::ids::{Arrival, ListId, PartitionId, TenantId, UserNo};

/// Sorts before every other key, because those are longer.
pub const SYNC_POINT: [u8; 1] = [0];

/// Never there.
pub const NOTHING: [u8; 2] = [0, 0];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Family {
    Table = 1,
    Page = 2,
    Tenant = 4,
    Window = 5,
    Forgetting = 6,
}

/// What comes before a table's own key, or a list's.
pub const PREFIX: usize = 3;

/// Begins every key of a partition's family.
pub fn prefix(partition: PartitionId, family: Family) -> [u8; PREFIX] {
    let [high, low] = partition.code().to_be_bytes();
    [high, low, family as u8]
}

pub fn table(partition: PartitionId, key: &[u8]) -> Vec<u8> {
    [&prefix(partition, Family::Table)[..], key].concat()
}

/// A page of a list by the smallest number it may hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PageKey {
    pub list: ListKey,
    pub from: UserNo,
}

pub fn page(partition: PartitionId, key: PageKey) -> Vec<u8> {
    let tenant = key.list.tenant.0.to_be_bytes();
    let head = prefix(partition, Family::Page);
    [&head[..], &tenant, &key.list.list.0, &key.from.0.to_be_bytes()].concat()
}

pub fn parse_page(key: &[u8]) -> Option<PageKey> {
    let (tenant, rest) = key.get(3..)?.split_first_chunk::<4>()?;
    let (list, from) = rest.split_first_chunk::<16>()?;
    let list = ListKey { tenant: TenantId(u32::from_be_bytes(*tenant)), list: ListId(*list) };
    Some(PageKey { list, from: UserNo(u64::from_be_bytes(from.try_into().ok()?)) })
}

pub fn tenant(partition: PartitionId, tenant: TenantId) -> Vec<u8> {
    [&prefix(partition, Family::Tenant)[..], &tenant.0.to_be_bytes()].concat()
}

pub fn window(partition: PartitionId, tenant: TenantId, first: Arrival) -> Vec<u8> {
    let head = prefix(partition, Family::Window);
    [&head[..], &tenant.0.to_be_bytes(), &first.0.to_be_bytes()].concat()
}

pub fn forgetting(partition: PartitionId, tenant: TenantId, user: UserNo) -> Vec<u8> {
    let head = prefix(partition, Family::Forgetting);
    [&head[..], &tenant.0.to_be_bytes(), &user.0.to_be_bytes()].concat()
}

/// The tenant, and what follows it, of a key of the last three families.
pub fn parse_tenant(key: &[u8]) -> Option<(TenantId, &[u8])> {
    let (tenant, rest) = key.get(3..)?.split_first_chunk::<4>()?;
    Some((TenantId(u32::from_be_bytes(*tenant)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ids::ShardNo;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_round_trip(no in 0u16..0x3fff, tenant: u32, list: [u8; 16], user: u64, first: u64) {
            let partition = PartitionId::Shard(ShardNo(no));
            let tenant = TenantId(tenant);
            let key = PageKey { list: ListKey { tenant, list: ListId(list) }, from: UserNo(user) };
            prop_assert_eq!(parse_page(&page(partition, key)), Some(key));
            let window = window(partition, tenant, Arrival(first));
            prop_assert_eq!(parse_tenant(&window), Some((tenant, &first.to_be_bytes()[..])));
        }
    }

    #[test]
    fn layouts_are_frozen() {
        let partition = PartitionId::Shard(ShardNo(3));
        assert_eq!(table(partition, b"k"), [0xc0, 3, 1, b'k']);
        assert_eq!(tenant(partition, TenantId(0x0102_0304)), [0xc0, 3, 4, 1, 2, 3, 4]);
        let expected = [0xc0, 3, 6, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5];
        assert_eq!(forgetting(partition, TenantId(0x0102_0304), UserNo(5)), expected);
    }
}
