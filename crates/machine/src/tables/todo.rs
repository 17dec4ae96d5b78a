//! To-do rows: effects that a crash must not lose. Written by the apply that causes them, deleted by the record
//! that says they are done; a new leader finds them all here.
//!
//! ```text
//! 47 tenant 1 list: 16 -> (empty)    the fronts do not have this list's size yet
//! 47 tenant 2 key: u64 -> (empty)    this key is to be destroyed
//! ```

use super::{Family, Key, collect};
use crate::codec::Malformed;
use fantail_ports::tables::{KeyRange, Order, Tables, TablesError};
use fantail_rules::ids::{KeyNo, ListId, TenantId};

const REPORT: u8 = 1;
const SHRED: u8 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Todo {
    /// Tell the fronts the size of this list.
    Report { tenant: TenantId, list: ListId },
    /// Destroy this key.
    Shred { tenant: TenantId, key: KeyNo },
}

impl Todo {
    #[must_use]
    pub fn key(self) -> Vec<u8> {
        match self {
            Self::Report { tenant, list } => {
                Key::new(Family::Todo, tenant).bytes(&[REPORT]).bytes(&list.0).finish()
            }
            Self::Shred { tenant, key } => Key::new(Family::Todo, tenant).bytes(&[SHRED]).u64(key.0).finish(),
        }
    }

    fn parse(key: &[u8]) -> Option<Self> {
        let (head, tail) = key.split_at_checked(6)?;
        let tenant = TenantId(u32::from_be_bytes(head[1..5].try_into().ok()?));
        match head[5] {
            REPORT => Some(Self::Report { tenant, list: ListId(tail.try_into().ok()?) }),
            SHRED => Some(Self::Shred { tenant, key: KeyNo(u64::from_be_bytes(tail.try_into().ok()?)) }),
            _ => None,
        }
    }
}

/// What waits to be done, of all tenants.
pub fn waiting(tables: &dyn Tables, limit: usize) -> Result<Vec<Todo>, TablesError> {
    let prefix = Key::of_partition(Family::Todo);
    let (from, to) = (prefix.clone().finish(), prefix.end());
    collect(tables, KeyRange { from: &from, to: &to }, Order::Ascending, limit, |key, _| {
        Todo::parse(key).ok_or_else(|| Malformed::Value("to-do key").in_row("to-do"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use crate::view::tests::Plain;
    use fantail_ports::tables::Changes;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn todo() -> impl Strategy<Value = Todo> {
        prop_oneof![
            (any::<u32>(), any::<[u8; 16]>())
                .prop_map(|(tenant, list)| Todo::Report { tenant: TenantId(tenant), list: ListId(list) }),
            any::<(u32, u64)>()
                .prop_map(|(tenant, key)| Todo::Shred { tenant: TenantId(tenant), key: KeyNo(key) }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_waits(todos in vec(todo(), 0..20), bytes in vec(any::<u8>(), 0..40)) {
            let (base, mut changes) = (Plain::default(), Changes::new());
            let mut view = View::new(&base, &[], &mut changes);
            todos.iter().for_each(|todo| view.put(todo.key(), Vec::new()));
            let found = waiting(&view, usize::MAX).expect("plain");
            let keys: BTreeSet<Vec<u8>> = todos.iter().map(|todo| todo.key()).collect();
            prop_assert_eq!(found.iter().map(|todo| todo.key()).collect::<BTreeSet<_>>(), keys);
            prop_assert!(found.iter().all(|todo| todos.contains(todo)));
            // Never panics, and what parses is what was written.
            if let Some(parsed) = Todo::parse(&bytes) {
                prop_assert_eq!(&parsed.key()[1..], &bytes[1..]);
            }
        }
    }
}
