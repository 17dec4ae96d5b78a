//! Background work, one bounded slice at a time: fan-out, merging, erasing. Never changes what a reader sees, so
//! when it runs, or whether, is nobody's concern but the disk's.

use super::{Locked, Shared, erase, materialise};
use fantail_ports::store::{StoreError, Tended};
use fantail_rules::ids::{PartitionId, TenantId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Events that leave the recent windows under one hold of the lock.
const DROPPED_AT_ONCE: usize = 512;
/// Erased users are looked for in every run, so it is done once in so many slices.
const ERASE_EVERY: u32 = 32;

#[derive(Default)]
pub struct Tending {
    /// Whose turn it was: the partition, and in each partition the tenant.
    turn: Option<PartitionId>,
    turns: BTreeMap<PartitionId, TenantId>,
    looked: erase::Looked,
    runs: u32,
}

impl Tending {
    pub fn run(&mut self, shared: &Shared) -> Result<Tended, StoreError> {
        match self.run_once(shared) {
            // Everything stays as it is until there is room; readers find what waits through the lists.
            Err(StoreError::Full { .. }) => {
                shared.stalls.fetch_add(1, Ordering::Relaxed);
                Ok(Tended::Idle)
            }
            other => other,
        }
    }

    fn run_once(&mut self, shared: &Shared) -> Result<Tended, StoreError> {
        self.runs = self.runs.wrapping_add(1);
        let partitions = shared.all_partitions();
        let (mut more, tidied) = self.fan_out_and_tidy(shared, &partitions)?;
        more |= tidied;
        if !more || self.runs.is_multiple_of(ERASE_EVERY) {
            for partition in &partitions {
                more |= erase::run(shared, partition, &mut self.looked)?;
            }
        }
        Ok(if more { Tended::MoreWaiting } else { Tended::Idle })
    }

    /// Fan-out and merging at the same time, on two threads if both have something to do.
    fn fan_out_and_tidy(
        &mut self,
        shared: &Shared,
        partitions: &[Arc<Locked>],
    ) -> Result<(bool, bool), StoreError> {
        if !partitions.iter().any(|one| is_due(shared, one)) {
            return Ok((false, tidy(shared, partitions)?));
        }
        std::thread::scope(|scope| {
            let tidying = scope.spawn(|| tidy(shared, partitions));
            let more = self.fan_out(shared, partitions);
            let tidied = tidying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((more?, tidied?))
        })
    }

    /// One slice of fan-out in the next partition that has enough to do. Returns whether more is waiting.
    fn fan_out(&mut self, shared: &Shared, partitions: &[Arc<Locked>]) -> Result<bool, StoreError> {
        let ids: Vec<_> = partitions.iter().map(|one| one.read().id).collect();
        let first = ids.partition_point(|id| Some(*id) <= self.turn);
        let mut order = (first..ids.len()).chain(0..first);
        let Some(chosen) = order.find(|at| is_due(shared, &partitions[*at])) else { return Ok(false) };
        let (id, partition) = (ids[chosen], &partitions[chosen]);
        let explicit_max = shared.options.transpose_pairs_max;
        let slice = materialise::select(&partition.read(), self.turns.get(&id).copied(), explicit_max);
        if slice.is_empty() {
            return Ok(false);
        }
        self.turn = Some(id);
        self.turns.extend(slice.last_tenant().map(|tenant| (id, tenant)));
        let written = slice.write(shared, partition)?;
        for (tenant, through) in written.through {
            // Readers go by the number; what is left behind only takes room.
            while partition.write().drop_some(tenant, through, DROPPED_AT_ONCE) {}
        }
        shared.entries_written.fetch_add(written.entries, Ordering::Relaxed);
        Ok(partitions.iter().any(|one| is_due(shared, one)))
    }
}

fn is_due(shared: &Shared, partition: &Locked) -> bool {
    partition.read().waiting.is_due(&shared.options)
}

/// Merges or drops some runs. Returns whether it did.
fn tidy(shared: &Shared, partitions: &[Arc<Locked>]) -> Result<bool, StoreError> {
    for partition in partitions {
        let id = partition.read().id;
        if shared.index.tidy(id, &erase::gone(partition), |runs| partition.write().runs = runs)? {
            return Ok(true);
        }
    }
    Ok(false)
}
