//! To-do rows: effects that a crash must not lose. Written by the apply that causes them, deleted by the record
//! that says they are done; a new leader finds them all here.
//!
//! ```text
//! 47 tenant 1 list: 16 -> (empty)    the fronts do not have this list's size yet
//! 47 tenant 2 key: u64 -> (empty)    this key is to be destroyed
//! 47 tenant 3 user: u64 device: u16 -> (empty)    the directory is to be asked for this endpoint's address
//! 47 tenant 4 user: u64 device: u16 claim: u32 -> address: 16    the directory is to hear that this claim is over
//! 47 tenant 5 user: u64 -> flags: u8, change: u8    deliveries that wait for this user meet their gates again
//! 47 tenant 9 window: u64 -> (empty)    what waits in this window is to be folded
//! 47 tenant 10 window: u64 -> (empty)    the digest of this window is to be written
//! 47 tenant 12 arrival: u64 -> (empty)    what waits of this event ends: it is halted
//! 47 tenant 15 erasure: ulid -> (empty) or place    an erasure is not done, and how far it is
//! ```

use super::seek::{RowChoice, SharedRows, TenantShares, collect_shares};
use super::window::WindowNo;
use super::{Family, Key, changed_rows, collect};
use crate::codec::Malformed;
use crate::view::View;
use fantail_ports::tables::{Changes, KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{AddressHash, Arrival, ClaimNo, DeviceNo, KeyNo, ListId, TenantId, UserNo};
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

const REPORT: u8 = 1;
const SHRED: u8 = 2;
const CLAIM: u8 = 3;
const RELEASE: u8 = 4;
const REPLAN: u8 = 5;
const FOLD: u8 = 9;
const DIGEST: u8 = 10;
const HALT: u8 = 12;
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
    /// Take what waits in a window that is over.
    Fold { tenant: TenantId, window: WindowNo },
    /// Write the digest of a window that is folded.
    Digest { tenant: TenantId, window: WindowNo },
    /// End what waits of an event that is halted.
    Halt { tenant: TenantId, arrival: Arrival },
    /// Remove what others keep about somebody.
    Erase { tenant: TenantId, erasure: Ulid },
}

/// Who does something. What takes many steps, each of which may read much, is not done by the errand loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TodoWorker {
    Errands,
    Replans,
    Halts,
    Erasures,
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
            Self::Fold { tenant, window } => of_window(tenant, FOLD, window),
            Self::Digest { tenant, window } => of_window(tenant, DIGEST, window),
            Self::Halt { tenant, arrival } => {
                Key::new(Family::Todo, tenant).bytes(&[HALT]).u64(arrival.0).finish()
            }
            Self::Erase { tenant, erasure } => {
                Key::new(Family::Todo, tenant).bytes(&[ERASE]).bytes(&erasure.bytes()).finish()
            }
        }
    }

    /// Who does it.
    #[must_use]
    pub fn worker(self) -> TodoWorker {
        match self {
            Self::Replan { .. } => TodoWorker::Replans,
            Self::Halt { .. } => TodoWorker::Halts,
            Self::Erase { .. } => TodoWorker::Erasures,
            Self::Report { .. }
            | Self::Shred { .. }
            | Self::Claim { .. }
            | Self::Release(_)
            | Self::Fold { .. }
            | Self::Digest { .. } => TodoWorker::Errands,
        }
    }

    #[must_use]
    pub fn tenant(self) -> TenantId {
        match self {
            Self::Report { tenant, .. }
            | Self::Shred { tenant, .. }
            | Self::Claim { tenant, .. }
            | Self::Release(Release { tenant, .. })
            | Self::Replan { tenant, .. }
            | Self::Fold { tenant, .. }
            | Self::Digest { tenant, .. }
            | Self::Halt { tenant, .. }
            | Self::Erase { tenant, .. } => tenant,
        }
    }

    #[must_use]
    pub fn value(self) -> Vec<u8> {
        match self {
            Self::Report { .. }
            | Self::Shred { .. }
            | Self::Claim { .. }
            | Self::Replan { .. }
            | Self::Fold { .. }
            | Self::Digest { .. }
            | Self::Halt { .. }
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
            FOLD => Some(Self::Fold { tenant, window: WindowNo(u64::from_be_bytes(tail.try_into().ok()?)) }),
            DIGEST => {
                Some(Self::Digest { tenant, window: WindowNo(u64::from_be_bytes(tail.try_into().ok()?)) })
            }
            HALT => Some(Self::Halt { tenant, arrival: Arrival(u64::from_be_bytes(tail.try_into().ok()?)) }),
            ERASE => Some(Self::Erase { tenant, erasure: Ulid::from_bytes(tail.try_into().ok()?) }),
            _ => None,
        }
    }
}

fn of_window(tenant: TenantId, kind: u8, window: WindowNo) -> Vec<u8> {
    Key::new(Family::Todo, tenant).bytes(&[kind]).u64(window.0).finish()
}

fn of_device(tenant: TenantId, kind: u8, user: UserNo, device: DeviceNo) -> Key {
    Key::new(Family::Todo, tenant).bytes(&[kind]).u64(user.0).bytes(&device.0.to_be_bytes())
}

fn split_device(tail: &[u8]) -> Option<(UserNo, DeviceNo, &[u8])> {
    let (user, tail) = tail.split_first_chunk()?;
    let (device, tail) = tail.split_first_chunk()?;
    Some((UserNo(u64::from_be_bytes(*user)), DeviceNo(u16::from_be_bytes(*device)), tail))
}

/// How the waiting deliveries of a user are re-evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replanning {
    /// Some of them may have begun to wait before there was an index: they are searched for among the timers.
    pub is_unindexed: bool,
    /// Differs from change to change. A re-evaluation that finds another one begins again.
    pub change: u8,
}

impl Replanning {
    const UNINDEXED: u8 = 1;

    /// Rows that were written before there was an index are empty.
    fn read(value: &[u8]) -> Self {
        match *value {
            [flags, change] => Self { is_unindexed: flags & Self::UNINDEXED != 0, change },
            _ => Self { is_unindexed: true, change: 0 },
        }
    }

    fn bytes(self) -> Vec<u8> {
        vec![u8::from(self.is_unindexed) * Self::UNINDEXED, self.change]
    }
}

/// The re-evaluation that waits for a user, if there is one.
pub fn replanning(
    tables: &dyn Tables,
    tenant: TenantId,
    user: UserNo,
) -> Result<Option<Replanning>, TablesError> {
    Ok(tables.get(&Todo::Replan { tenant, user }.key())?.map(|value| Replanning::read(&value)))
}

/// Asks for a re-evaluation, and for another one if there is one already.
pub(crate) fn ask_replanning(
    view: &mut View<'_>,
    tenant: TenantId,
    user: UserNo,
    is_unindexed: bool,
) -> Result<(), TablesError> {
    let known = replanning(view, tenant, user)?;
    let after = Replanning {
        is_unindexed: is_unindexed || known.is_some_and(|known| known.is_unindexed),
        change: known.map_or(0, |known| known.change.wrapping_add(1)),
    };
    view.put(Todo::Replan { tenant, user }.key(), after.bytes());
    Ok(())
}

/// What a batch has put among the rows.
pub fn among(changes: &Changes) -> impl Iterator<Item = Todo> {
    changed_rows(changes, Family::Todo).filter_map(|(key, value)| Todo::parse(key, value.as_deref()?))
}

/// Those whose rows are still there.
pub fn still_waiting(tables: &dyn Tables, todos: Vec<Todo>) -> Result<Vec<Todo>, TablesError> {
    let waits = |todo: &Todo| tables.get(&todo.key()).map(|row| row.is_some());
    todos.into_iter().filter_map(|todo| waits(&todo).map(|waits| waits.then_some(todo)).transpose()).collect()
}

/// Rows that one worker does, in shares of their tenants, of each behind its last one.
pub fn waiting_of(
    tables: &dyn Tables,
    worker: TodoWorker,
    shares: TenantShares,
    behind: &BTreeMap<TenantId, Todo>,
) -> Result<SharedRows<Todo>, TablesError> {
    let places = behind.iter().map(|(tenant, todo)| (*tenant, todo.key())).collect();
    collect_shares(tables, Family::Todo, shares, &places, |key, value| match Todo::parse(key, value) {
        Some(todo) if todo.worker() == worker => Ok(RowChoice::Take(todo)),
        Some(_) => Ok(RowChoice::SkipTo(behind_kind(key))),
        None => Err(Malformed::Value("to-do key").in_row("to-do")),
    })
}

/// The first key of the next kind of the same tenant. Kinds are small numbers.
fn behind_kind(key: &[u8]) -> Vec<u8> {
    let mut end = key[..6].to_vec();
    end[5] += 1;
    end
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
            any::<(u32, u64)>().prop_map(|(tenant, window)| Todo::Fold {
                tenant: TenantId(tenant),
                window: WindowNo(window)
            }),
            any::<(u32, u64)>().prop_map(|(tenant, window)| Todo::Digest {
                tenant: TenantId(tenant),
                window: WindowNo(window)
            }),
            any::<(u32, u64)>()
                .prop_map(|(tenant, user)| Todo::Replan { tenant: TenantId(tenant), user: UserNo(user) }),
            any::<(u32, u64)>().prop_map(|(tenant, arrival)| Todo::Halt {
                tenant: TenantId(tenant),
                arrival: Arrival(arrival)
            }),
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
