//! Where every row lies. Frozen layouts; numbers are big-endian, so that bytes sort like numbers.
//!
//! ```text
//! main    00                                                  the sync point: format, state, marks
//!         partition:2 01 key                                  table rows, keys as the machines chose them
//!         partition:2 02 tenant:4 list:16 from:8              one page of a list, from this user on
//!         partition:2 04 tenant:4                             how far a tenant's windows and retention are
//!         partition:2 05 tenant:4 first:8                     windows that were not materialised at a sync
//!         partition:2 06 tenant:4 user:8                      a user whose entries are still to be deleted
//! inbox   00 partition:2 tenant:4                             materialised through this arrival
//!         01 partition:2 tenant:4 user:8 !first:8             entries of a user, newest row first
//! ```

use fantail_ports::lists::ListKey;
use fantail_rules::ids::{Arrival, ListId, PartitionId, TenantId, UserNo};

/// Sorts before every other key, because those are longer.
pub const SYNC_POINT: [u8; 1] = [0];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Family {
    Table = 1,
    Page = 2,
    Tenant = 4,
    Window = 5,
    Forgetting = 6,
}

/// Begins every key of a partition's family.
pub fn prefix(partition: PartitionId, family: Family) -> [u8; 3] {
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

/// Begins the rows that say how far each tenant is materialised.
pub const MATERIALISED: [u8; 1] = [0];

pub fn materialised(partition: PartitionId, tenant: TenantId) -> Vec<u8> {
    [&MATERIALISED[..], &partition.code().to_be_bytes(), &tenant.0.to_be_bytes()].concat()
}

pub fn parse_materialised(key: &[u8]) -> Option<(PartitionId, TenantId)> {
    let (code, tenant) = key.get(1..)?.split_first_chunk::<2>()?;
    let partition = PartitionId::from_code(u16::from_be_bytes(*code))?;
    Some((partition, TenantId(u32::from_be_bytes(tenant.try_into().ok()?))))
}

/// One user's entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    pub partition: PartitionId,
    pub tenant: TenantId,
    pub user: UserNo,
}

pub const ENTRIES_KEY_BYTES: usize = 23;

/// Newer rows come first, and every row above `arrival` comes before this key.
pub fn entries(owner: Owner, first: Arrival) -> [u8; ENTRIES_KEY_BYTES] {
    let mut key = [0; ENTRIES_KEY_BYTES];
    key[0] = 1;
    key[1..3].copy_from_slice(&owner.partition.code().to_be_bytes());
    key[3..7].copy_from_slice(&owner.tenant.0.to_be_bytes());
    key[7..15].copy_from_slice(&owner.user.0.to_be_bytes());
    key[15..].copy_from_slice(&(!first.0).to_be_bytes());
    key
}

pub fn parse_entries(key: &[u8]) -> Option<(Owner, Arrival)> {
    let key: &[u8; ENTRIES_KEY_BYTES] = key.try_into().ok()?;
    let (code, rest) = key[1..].split_first_chunk::<2>()?;
    let (tenant, rest) = rest.split_first_chunk::<4>()?;
    let (user, first) = rest.split_first_chunk::<8>()?;
    let owner = Owner {
        partition: PartitionId::from_code(u16::from_be_bytes(*code))?,
        tenant: TenantId(u32::from_be_bytes(*tenant)),
        user: UserNo(u64::from_be_bytes(*user)),
    };
    Some((owner, Arrival(!u64::from_be_bytes(first.try_into().ok()?))))
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
            let owner = Owner { partition, tenant, user: UserNo(user) };
            prop_assert_eq!(parse_entries(&entries(owner, Arrival(first))), Some((owner, Arrival(first))));
            prop_assert_eq!(parse_materialised(&materialised(partition, tenant)), Some((partition, tenant)));
            let window = window(partition, tenant, Arrival(first));
            prop_assert_eq!(parse_tenant(&window), Some((tenant, &first.to_be_bytes()[..])));
        }

        #[test]
        fn newer_entries_sort_first(user: u64, older in 0u64..u64::MAX) {
            let partition = PartitionId::Shard(ShardNo(1));
            let owner = Owner { partition, tenant: TenantId(7), user: UserNo(user) };
            prop_assert!(entries(owner, Arrival(older + 1)) < entries(owner, Arrival(older)));
        }
    }

    #[test]
    fn layouts_are_frozen() {
        let partition = PartitionId::Shard(ShardNo(3));
        let owner = Owner { partition, tenant: TenantId(0x0102_0304), user: UserNo(5) };
        assert_eq!(table(partition, b"k"), [0xc0, 3, 1, b'k']);
        assert_eq!(tenant(partition, owner.tenant), [0xc0, 3, 4, 1, 2, 3, 4]);
        let mut expected = vec![1, 0xc0, 3, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5];
        expected.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf6]);
        assert_eq!(entries(owner, Arrival(9)).to_vec(), expected);
    }
}
