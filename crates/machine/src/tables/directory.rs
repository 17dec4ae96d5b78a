//! Addresses: whose they are, who still has to let go of them, and whether anything may be sent there. And the
//! directory's to-do rows.
//!
//! ```text
//! 96 tenant address: 16 -> owner: option, releasing: list of owner, suppression: option (reason: u8, since: millis)
//! 97 tenant 1 address: 16 shard: u16 user: u64 device: u16 claim: u32 -> (empty)   this claim is to be released
//! 97 tenant 2 address: 16 -> (empty)                   the owner is to hear how it stands with the address
//! ```

use super::look::{FoundRows, LookMax, look};
use super::seek::{RowChoice, SharedRows, TenantPlaces, TenantShares, collect_shares};
use super::{Family, Key, Row, changed_rows, collect, get};
use crate::codec::{Malformed, Reader, Writer};
use crate::records::directory::{Claim, Owner, read_reason};
use fantail_ports::tables::{Changes, KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{AddressHash, ClaimNo, DeviceNo, Millis, ShardNo, TenantId, UserNo};
use fantail_rules::suppression::Reason;

const RELEASE: u8 = 1;
const TELL: u8 = 2;

#[must_use]
pub fn key(tenant: TenantId, address: AddressHash) -> Vec<u8> {
    Key::new(Family::Address, tenant).bytes(&address.0).finish()
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AddressRow {
    pub owner: Option<Owner>,
    /// Earlier owners whose shards have not said yet that they use the address no more. As long as there is one, the
    /// owner may not use it either.
    pub releasing: Vec<Owner>,
    pub suppression: Option<Suppression>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suppression {
    pub reason: Reason,
    pub since: Millis,
}

impl AddressRow {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

pub fn find(tables: &dyn Tables, tenant: TenantId, address: AddressHash) -> Result<AddressRow, TablesError> {
    Ok(get(tables, &key(tenant, address))?.unwrap_or_default())
}

/// Suppressed addresses behind one, in the order of their hashes, and the address that was looked at last if there are more.
/// Addresses that are not suppressed count as rows.
pub fn suppressed_behind(
    tables: &dyn Tables,
    tenant: TenantId,
    behind: Option<AddressHash>,
    reason: Option<Reason>,
    most: LookMax,
) -> Result<FoundRows<AddressHash, AddressRow>, TablesError> {
    let all = Key::new(Family::Address, tenant);
    let from =
        behind.map_or_else(|| all.clone().finish(), |address| [key(tenant, address), vec![0]].concat());
    let range = KeyRange { from: &from, to: &all.end() };
    let looked = look(tables, range, Order::Ascending, most, |key, row| {
        let row = AddressRow::decode(row)?;
        let is_meant =
            row.suppression.is_some_and(|known| reason.is_none_or(|reason| known.reason == reason));
        if is_meant { Ok(Some((address_of(key)?, row))) } else { Ok(None) }
    })?;
    Ok((looked.found, looked.cut_at.map(|key| address_of(&key)).transpose()?))
}

fn address_of(key: &[u8]) -> Result<AddressHash, TablesError> {
    let address = key.get(5..).and_then(|tail| tail.try_into().ok());
    address.map(AddressHash).ok_or_else(|| Malformed::Short.in_row(AddressRow::NAME))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectoryTodo {
    /// Have this claim released by its shard.
    Release { tenant: TenantId, claim: Claim },
    /// Tell the owner's shard how it stands with the address.
    Tell { tenant: TenantId, address: AddressHash },
}

impl DirectoryTodo {
    #[must_use]
    pub fn key(self) -> Vec<u8> {
        match self {
            Self::Release { tenant, claim: Claim { address, owner } } => {
                Key::new(Family::DirectoryTodo, tenant)
                    .bytes(&[RELEASE])
                    .bytes(&address.0)
                    .bytes(&owner.shard.0.to_be_bytes())
                    .u64(owner.user.0)
                    .bytes(&owner.device.0.to_be_bytes())
                    .bytes(&owner.claim.0.to_be_bytes())
                    .finish()
            }
            Self::Tell { tenant, address } => {
                Key::new(Family::DirectoryTodo, tenant).bytes(&[TELL]).bytes(&address.0).finish()
            }
        }
    }

    #[must_use]
    pub fn tenant(self) -> TenantId {
        match self {
            Self::Release { tenant, .. } | Self::Tell { tenant, .. } => tenant,
        }
    }

    fn parse(key: &[u8]) -> Option<Self> {
        let (tenant, tail) = key.get(1..)?.split_first_chunk()?;
        let tenant = TenantId(u32::from_be_bytes(*tenant));
        let (kind, tail) = tail.split_first()?;
        let (address, tail) = tail.split_first_chunk()?;
        let address = AddressHash(*address);
        match (*kind, tail) {
            (TELL, []) => Some(Self::Tell { tenant, address }),
            (RELEASE, tail) => {
                let (shard, tail) = tail.split_first_chunk()?;
                let (user, tail) = tail.split_first_chunk()?;
                let (device, tail) = tail.split_first_chunk()?;
                let owner = Owner {
                    shard: ShardNo(u16::from_be_bytes(*shard)),
                    user: UserNo(u64::from_be_bytes(*user)),
                    device: DeviceNo(u16::from_be_bytes(*device)),
                    claim: ClaimNo(u32::from_be_bytes(tail.try_into().ok()?)),
                };
                Some(Self::Release { tenant, claim: Claim { address, owner } })
            }
            _ => None,
        }
    }
}

/// What a batch has put among the to-do rows.
pub fn among(changes: &Changes) -> impl Iterator<Item = DirectoryTodo> {
    let rows = changed_rows(changes, Family::DirectoryTodo);
    rows.filter(|(_, value)| value.is_some()).filter_map(|(key, _)| DirectoryTodo::parse(key))
}

/// What waits to be done behind this, of all tenants.
pub fn waiting(
    tables: &dyn Tables,
    behind: Option<DirectoryTodo>,
    limit: usize,
) -> Result<Vec<DirectoryTodo>, TablesError> {
    let prefix = Key::of_partition(Family::DirectoryTodo);
    let to = prefix.end();
    let from = behind.map_or(prefix.finish(), |behind| Key(behind.key()).bytes(&[0]).finish());
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, _| {
        DirectoryTodo::parse(key).ok_or_else(|| Malformed::Value("to-do key").in_row("directory to-do"))
    })
}

/// What waits to be done, in shares of its tenants.
pub fn waiting_in_shares(
    tables: &dyn Tables,
    shares: TenantShares,
) -> Result<SharedRows<DirectoryTodo>, TablesError> {
    collect_shares(tables, Family::DirectoryTodo, shares, &TenantPlaces::new(), |key, _| {
        let todo = DirectoryTodo::parse(key);
        let todo = todo.ok_or_else(|| Malformed::Value("to-do key").in_row("directory to-do"))?;
        Ok(RowChoice::Take(todo))
    })
}

impl Row for AddressRow {
    const NAME: &'static str = "address";

    fn write(&self, w: &mut Writer) {
        w.option(self.owner, |w, owner| owner.write(w));
        w.list(self.releasing.iter(), |w, owner| owner.write(w));
        w.option(self.suppression, |w, suppression| {
            w.u8(suppression.reason as u8).millis(suppression.since);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            owner: r.option(Owner::read)?,
            releasing: r.list(Owner::read)?,
            suppression: r.option(|r| Ok(Suppression { reason: read_reason(r)?, since: r.millis()? }))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_of_todos_say_what_is_to_do(
            tenant: u32, address: [u8; 16], shard: u16, user: u64, device: u16, claim: u32,
            kind in 0u8..4, bytes in vec(any::<u8>(), 0..40),
        ) {
            let (tenant, address) = (TenantId(tenant), AddressHash(address));
            let (device, claim) = (DeviceNo(device), ClaimNo(claim));
            let owner = Owner { shard: ShardNo(shard), user: UserNo(user), device, claim };
            let release = DirectoryTodo::Release { tenant, claim: Claim { address, owner } };
            for todo in [release, DirectoryTodo::Tell { tenant, address }] {
                prop_assert_eq!(DirectoryTodo::parse(&todo.key()), Some(todo));
            }
            let bytes = [&[97, 0, 0, 0, 1, kind], &bytes[..]].concat();
            if let Some(parsed) = DirectoryTodo::parse(&bytes) {
                prop_assert_eq!(parsed.key(), bytes);
            }
        }
    }
}
