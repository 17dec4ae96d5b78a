//! Items of tenants that take turns.
//!
//! Decides: whether one more item of a tenant may be held, and whose item is next. Tenants are served in turns, the items
//! of one tenant in the order in which they came. A tenant may hold as many items as are still free beside it: half of the
//! room if it is alone, a third if two tenants are at their limit, and so on.
//!
//! Invariant: however many items a tenant holds, another tenant waits for one turn of each tenant.

use crate::ids::TenantId;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug)]
pub struct FairQueue<T> {
    lines: BTreeMap<TenantId, VecDeque<T>>,
    /// Tenants with items, the next one first.
    turns: VecDeque<TenantId>,
    held: usize,
    held_max: usize,
}

impl<T> FairQueue<T> {
    #[must_use]
    pub fn new(held_max: usize) -> Self {
        Self { lines: BTreeMap::new(), turns: VecDeque::new(), held: 0, held_max }
    }

    /// Whether one more item of the tenant may be held.
    #[must_use]
    pub fn has_room(&self, tenant: TenantId) -> bool {
        has_room(self.lines.get(&tenant).map_or(0, VecDeque::len), self.held, self.held_max)
    }

    /// Adds an item behind those of its tenant. `false` if there is no room for it.
    #[must_use]
    pub fn push(&mut self, tenant: TenantId, item: T) -> bool {
        if !self.has_room(tenant) {
            return false;
        }
        self.line(tenant).push_back(item);
        self.held += 1;
        true
    }

    /// Puts an item that was popped before those of its tenant, whether there is room or not.
    pub fn give_back(&mut self, tenant: TenantId, item: T) {
        self.line(tenant).push_front(item);
        self.held += 1;
    }

    fn line(&mut self, tenant: TenantId) -> &mut VecDeque<T> {
        let line = self.lines.entry(tenant).or_default();
        if line.is_empty() {
            self.turns.push_back(tenant);
        }
        line
    }

    pub fn pop(&mut self) -> Option<(TenantId, T)> {
        self.pop_where(|_| true)
    }

    /// The next item of the tenants that may have a turn.
    pub fn pop_where(&mut self, may: impl Fn(TenantId) -> bool) -> Option<(TenantId, T)> {
        let at = self.turns.iter().position(|tenant| may(*tenant))?;
        let tenant = self.turns.remove(at)?;
        let line = self.lines.get_mut(&tenant)?;
        let item = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        self.held -= 1;
        Some((tenant, item))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.held
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    pub fn clear(&mut self) {
        self.lines.clear();
        self.turns.clear();
        self.held = 0;
    }
}

/// Whether a tenant that holds `own` of `held` places may have one more of `held_max`.
#[must_use]
pub fn has_room(own: usize, held: usize, held_max: usize) -> bool {
    own < held_max.saturating_sub(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(queue: &mut FairQueue<u32>, tenant: u32) -> usize {
        (0..).take_while(|item| queue.push(TenantId(tenant), *item)).count()
    }

    #[test]
    fn however_much_a_tenant_holds_another_one_waits_for_one_turn() {
        for many in [1, 10, 1_000] {
            let mut queue = FairQueue::new(10_000);
            (0..many).for_each(|item| assert!(queue.push(TenantId(1), item)));
            assert!(queue.push(TenantId(2), 7));
            let turn = (1..).find(|_| queue.pop() == Some((TenantId(2), 7)));
            assert_eq!(turn, Some(2), "beside {many}");
        }
    }

    #[test]
    fn a_tenant_never_fills_the_room_and_keeps_its_order() {
        let mut queue = FairQueue::new(64);
        assert_eq!([1, 2, 3].map(|tenant| fill(&mut queue, tenant)), [32, 16, 8]);
        assert!(queue.push(TenantId(4), 0), "room for one more tenant");
        let mut of_first = Vec::new();
        while let Some((tenant, item)) = queue.pop() {
            of_first.extend(Some(item).filter(|_| tenant == TenantId(1)));
        }
        assert_eq!(of_first, (0..32).collect::<Vec<_>>());
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    #[test]
    fn tenants_that_may_not_have_a_turn_keep_theirs() {
        let mut queue = FairQueue::new(64);
        for (tenant, item) in [(1, 1), (1, 2), (2, 3)] {
            assert!(queue.push(TenantId(tenant), item));
        }
        let (one, two) = (TenantId(1), TenantId(2));
        assert_eq!(queue.pop_where(|tenant| tenant == two), Some((two, 3)));
        assert_eq!(queue.pop_where(|tenant| tenant == two), None);
        assert_eq!(queue.pop(), Some((one, 1)));
        queue.give_back(one, 1);
        assert_eq!((queue.pop(), queue.pop(), queue.len()), (Some((one, 1)), Some((one, 2)), 0));
    }
}
