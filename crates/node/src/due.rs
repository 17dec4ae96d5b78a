//! What is due at a time, in turns of the tenants.
//!
//! Comes from: rows that a partition keeps in the order of their time, of all tenants. Decides: which are next. Goes to:
//! `schedule` and `digests`, which have the leader do some at a time. The rows are looked through some at a time beside
//! what is done, so that much of one tenant, even if it is earlier, holds up no other one.

use fantail_machine::tables::seek::DueLook;
use fantail_rules::fair_queue::FairQueue;
use fantail_rules::ids::TenantId;

/// What is remembered at once. One tenant has half of it at most.
const HELD_MAX: usize = 8_192;
/// Rows that are looked at between two steps.
pub const LOOKED_AT_MAX: usize = 1_024;

/// One look through all that is due.
pub struct DueTurns<T> {
    queue: FairQueue<T>,
    /// Where to go on looking. `None`: at the first row.
    from: Option<Vec<u8>>,
    is_at_end: bool,
    has_skipped: bool,
}

impl<T> Default for DueTurns<T> {
    /// Nothing is looked for until it begins.
    fn default() -> Self {
        Self { queue: FairQueue::new(HELD_MAX), from: None, is_at_end: true, has_skipped: false }
    }
}

impl<T> DueTurns<T> {
    /// Looks from a key on, or from the first row on.
    pub fn begin(&mut self, from: Option<Vec<u8>>) {
        *self = Self { from, is_at_end: false, ..Self::default() };
    }

    /// Whether nothing is left of what was begun.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_at_end && self.queue.is_empty()
    }

    /// Whether rows were left out: what is due may not all have been seen.
    #[must_use]
    pub fn has_skipped(&self) -> bool {
        self.has_skipped
    }

    /// Looks at some more rows, also at those that are due since the last look. `look` goes on from a key and offers each
    /// row to the function that it is given.
    pub fn look<E>(
        &mut self,
        tenant_of: impl Fn(&T) -> TenantId,
        look: impl FnOnce(Option<&[u8]>, &mut dyn FnMut(T) -> bool) -> Result<DueLook, E>,
    ) -> Result<(), E> {
        let queue = &mut self.queue;
        let found = look(self.from.as_deref(), &mut |row| queue.push(tenant_of(&row), row))?;
        self.has_skipped |= found.has_skipped;
        self.is_at_end = found.is_at_end;
        self.from = Some(found.next);
        Ok(())
    }

    /// Those that are next.
    pub fn take(&mut self, limit: usize) -> Vec<T> {
        std::iter::from_fn(|| self.queue.pop()).take(limit).map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Looks at rows of tenants as a table would, so many at a time.
    fn look(turns: &mut DueTurns<(u32, u32)>, rows: &[(u32, u32)]) {
        let looked = turns.look(
            |row| TenantId(row.0),
            |from, accept| {
                let first = from.map_or(0, |from| usize::from(from[0]) << 8 | usize::from(from[1]));
                let mut has_skipped = false;
                for row in rows.iter().skip(first).take(LOOKED_AT_MAX) {
                    has_skipped |= !accept(*row);
                }
                let next = rows.len().min(first + LOOKED_AT_MAX);
                let (is_at_end, next) = (next == rows.len(), vec![(next >> 8) as u8, next as u8]);
                Ok::<_, Infallible>(DueLook { next, is_at_end, has_skipped })
            },
        );
        looked.unwrap_or_else(|never| match never {});
    }

    #[test]
    fn what_is_due_behind_ten_thousand_of_another_tenant_waits_for_few_steps() {
        let mut rows: Vec<(u32, u32)> = (0..10_000).map(|no| (1, no)).collect();
        rows.push((2, 7));
        let mut turns = DueTurns::default();
        assert!(turns.is_over());
        turns.begin(None);
        let mut steps = 0;
        loop {
            look(&mut turns, &rows);
            steps += 1;
            if turns.take(16).contains(&(2, 7)) {
                break;
            }
        }
        assert_eq!(steps, 10, "as soon as it is found");
        assert!(turns.has_skipped(), "more of the first one than is remembered");
        while !turns.is_over() {
            turns.take(16);
        }
        rows.push((1, 10_000));
        look(&mut turns, &rows);
        assert_eq!(turns.take(16), [(1, 10_000)], "what is due since then is seen");
    }
}
