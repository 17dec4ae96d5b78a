//! To-do rows: effects that a crash must not lose. Written by the apply that causes them, deleted by the record
//! that says they are done; a new leader finds them all here.
//!
//! ```text
//! 47 tenant 1 list: 16 -> (empty)    the fronts do not have this list's size yet
//! 47 tenant 2 key: u64 -> (empty)    this key is to be destroyed
//! 47 tenant 3 user: u64 device: u16 -> (empty)    the directory is to be asked for this endpoint's address
//! 47 tenant 4 user: u64 device: u16 claim: u32 -> address: 16    the directory is to hear that this claim is over
//! 47 tenant 5 user: u64 -> (empty)    what waits for this user is to be asked about again
//! 47 tenant 15 erasure: ulid -> (empty)    more of somebody is to be removed
//! ```

use super::{Family, Key, collect};
use crate::codec::Malformed;
use fantail_ports::tables::{Changes, KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{AddressHash, ClaimNo, DeviceNo, KeyNo, ListId, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

const REPORT: u8 = 1;
const SHRED: u8 = 2;
const CLAIM: u8 = 3;
const RELEASE: u8 = 4;
const REPLAN: u8 = 5;
const ERASE: u8 = 15;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Todo {
    /// Tell the fronts the size of this list.
    Report { tenant: TenantId, list: ListId },
    /// Destroy this key.
    Shred { tenant: TenantId, key: KeyNo },
    /// Ask the directory for the address of this endpoint.
    Claim { tenant: TenantId, user: UserNo, device: DeviceNo },
    /// Tell the directory that this claim is over.
    Release(Release),
    /// Ask the gates again about what waits for this user.
    Replan { tenant: TenantId, user: UserNo },
    /// Remove what others keep about somebody.
    Erase { tenant: TenantId, erasure: Ulid },
}

/// A claim that its endpoint has given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    pub tenant: TenantId,
    pub user: UserNo,
    pub device: DeviceNo,
    pub claim: ClaimNo,
    pub address: AddressHash,
}

impl Todo {
    #[must_use]
    pub fn key(self) -> Vec<u8> {
        match self {
            Self::Report { tenant, list } => {
                Key::new(Family::Todo, tenant).bytes(&[REPORT]).bytes(&list.0).finish()
            }
            Self::Shred { tenant, key } => Key::new(Family::Todo, tenant).bytes(&[SHRED]).u64(key.0).finish(),
            Self::Claim { tenant, user, device } => of_device(tenant, CLAIM, user, device).finish(),
            Self::Release(Release { tenant, user, device, claim, .. }) => {
                of_device(tenant, RELEASE, user, device).bytes(&claim.0.to_be_bytes()).finish()
            }
            Self::Replan { tenant, user } => {
                Key::new(Family::Todo, tenant).bytes(&[REPLAN]).u64(user.0).finish()
            }
            Self::Erase { tenant, erasure } => {
                Key::new(Family::Todo, tenant).bytes(&[ERASE]).bytes(&erasure.bytes()).finish()
            }
        }
    }

    #[must_use]
    pub fn value(self) -> Vec<u8> {
        match self {
            Self::Report { .. }
            | Self::Shred { .. }
            | Self::Claim { .. }
            | Self::Replan { .. }
            | Self::Erase { .. } => Vec::new(),
            Self::Release(release) => release.address.0.to_vec(),
        }
    }

    fn parse(key: &[u8], value: &[u8]) -> Option<Self> {
        let (head, tail) = key.split_at_checked(6)?;
        let tenant = TenantId(u32::from_be_bytes(head[1..5].try_into().ok()?));
        match head[5] {
            REPORT => Some(Self::Report { tenant, list: ListId(tail.try_into().ok()?) }),
            SHRED => Some(Self::Shred { tenant, key: KeyNo(u64::from_be_bytes(tail.try_into().ok()?)) }),
            CLAIM => {
                let (user, device, []) = split_device(tail)? else { return None };
                Some(Self::Claim { tenant, user, device })
            }
            RELEASE => {
                let (user, device, claim) = split_device(tail)?;
                let claim = ClaimNo(u32::from_be_bytes(claim.try_into().ok()?));
                let address = AddressHash(value.try_into().ok()?);
                Some(Self::Release(Release { tenant, user, device, claim, address }))
            }
            REPLAN => Some(Self::Replan { tenant, user: UserNo(u64::from_be_bytes(tail.try_into().ok()?)) }),
            ERASE => Some(Self::Erase { tenant, erasure: Ulid::from_bytes(tail.try_into().ok()?) }),
            _ => None,
        }
    }
}

fn of_device(tenant: TenantId, kind: u8, user: UserNo, device: DeviceNo) -> Key {
    Key::new(Family::Todo, tenant).bytes(&[kind]).u64(user.0).bytes(&device.0.to_be_bytes())
}

fn split_device(tail: &[u8]) -> Option<(UserNo, DeviceNo, &[u8])> {
    let (user, tail) = tail.split_first_chunk()?;
    let (device, tail) = tail.split_first_chunk()?;
    Some((UserNo(u64::from_be_bytes(*user)), DeviceNo(u16::from_be_bytes(*device)), tail))
}

/// What a batch has put among the rows.
pub fn among(changes: &Changes) -> impl Iterator<Item = Todo> {
    let prefix = Key::of_partition(Family::Todo);
    let rows = changes.range(prefix.clone().finish()..prefix.end());
    rows.filter_map(|(key, value)| Todo::parse(key, value.as_deref()?))
}

/// Those whose rows are still there.
pub fn still_waiting(tables: &dyn Tables, todos: Vec<Todo>) -> Result<Vec<Todo>, TablesError> {
    let waits = |todo: &Todo| tables.get(&todo.key()).map(|row| row.is_some());
    todos.into_iter().filter_map(|todo| waits(&todo).map(|waits| waits.then_some(todo)).transpose()).collect()
}

/// What waits to be done, of all tenants.
pub fn waiting(tables: &dyn Tables, limit: usize) -> Result<Vec<Todo>, TablesError> {
    let prefix = Key::of_partition(Family::Todo);
    let (from, to) = (prefix.clone().finish(), prefix.end());
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, value| {
        Todo::parse(key, value).ok_or_else(|| Malformed::Value("to-do key").in_row("to-do"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use crate::view::tests::Plain;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn todo() -> impl Strategy<Value = Todo> {
        prop_oneof![
            (any::<u32>(), any::<[u8; 16]>())
                .prop_map(|(tenant, list)| Todo::Report { tenant: TenantId(tenant), list: ListId(list) }),
            any::<(u32, u64)>()
                .prop_map(|(tenant, key)| Todo::Shred { tenant: TenantId(tenant), key: KeyNo(key) }),
            any::<(u32, u64)>()
                .prop_map(|(tenant, user)| Todo::Replan { tenant: TenantId(tenant), user: UserNo(user) }),
            any::<(u32, u128)>()
                .prop_map(|(tenant, id)| Todo::Erase { tenant: TenantId(tenant), erasure: Ulid(id) }),
            any::<(u32, u64, u16)>().prop_map(|(tenant, user, device)| Todo::Claim {
                tenant: TenantId(tenant),
                user: UserNo(user),
                device: DeviceNo(device)
            }),
            any::<(u32, u64, u16, u32, u128)>().prop_map(|(tenant, user, device, claim, address)| {
                let (tenant, user, device) = (TenantId(tenant), UserNo(user), DeviceNo(device));
                let (claim, address) = (ClaimNo(claim), AddressHash(address.to_be_bytes()));
                Todo::Release(Release { tenant, user, device, claim, address })
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_waits(todos in vec(todo(), 0..20), kind in 0u8..17, bytes in vec(any::<u8>(), 0..40)) {
            let (base, mut changes) = (Plain::default(), Changes::new());
            let mut view = View::new(&base, &[], &mut changes);
            todos.iter().for_each(|todo| view.put(todo.key(), todo.value()));
            let found = waiting(&view, usize::MAX).expect("plain");
            prop_assert_eq!(among(&changes).collect::<Vec<_>>(), found.clone());
            let keys: BTreeSet<Vec<u8>> = todos.iter().map(|todo| todo.key()).collect();
            prop_assert_eq!(found.iter().map(|todo| todo.key()).collect::<BTreeSet<_>>(), keys);
            prop_assert!(found.iter().all(|todo| todos.contains(todo)));
            let bytes: Vec<u8> = [&[47, 0, 0, 0, 1, kind], &bytes[..]].concat();
            // Never panics, and what parses is what was written.
            if let Some(parsed) = Todo::parse(&bytes, &[7; 16]) {
                prop_assert_eq!(&parsed.key()[1..], &bytes[1..]);
            }
        }
    }
}
