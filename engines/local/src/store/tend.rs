//! Background work, one bounded slice at a time: fan-out, merging, erasing. Never changes what a reader sees, so
//! when it runs, or whether, is nobody's concern but the disk's.

use super::materialise::Slice;
use super::{Locked, Shared, erase, materialise};
use fantail_ports::store::{StoreError, Tended};
use fantail_rules::ids::{PartitionId, TenantId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;

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

    /// Fan-out and merging at the same time, each partition on a thread of its own, as many as the options allow.
    fn fan_out_and_tidy(
        &mut self,
        shared: &Shared,
        partitions: &[Arc<Locked>],
    ) -> Result<(bool, bool), StoreError> {
        let slices = self.select(shared, partitions);
        if slices.is_empty() {
            shared.spares.release();
            return Ok((false, tidy(shared, partitions)?));
        }
        let share = slices.len();
        std::thread::scope(|scope| {
            let tidying = scope.spawn(|| tidy(shared, partitions));
            let fan_out =
                |(slice, partition): (Slice, &Arc<Locked>)| fan_out(shared, partition, slice, share);
            let mut slices = slices.into_iter();
            let own = slices.next();
            let others: Vec<_> = slices.map(|slice| scope.spawn(move || fan_out(slice))).collect();
            let mut written = own.map_or(Ok(()), fan_out);
            for other in others {
                written = written.and(joined(other));
            }
            let tidied = joined(tidying);
            written?;
            Ok((partitions.iter().any(|one| is_due(shared, one)), tidied?))
        })
    }

    /// The oldest events of the next partitions that have enough to do.
    fn select<'a>(
        &mut self,
        shared: &Shared,
        partitions: &'a [Arc<Locked>],
    ) -> Vec<(Slice, &'a Arc<Locked>)> {
        let ids: Vec<_> = partitions.iter().map(|one| one.read().id).collect();
        let first = ids.partition_point(|id| Some(*id) <= self.turn);
        let order = (first..ids.len()).chain(0..first);
        let due = order.filter(|at| is_due(shared, &partitions[*at]));
        let mut slices = Vec::new();
        for at in due.take(shared.options.fan_outs_max.max(1)) {
            let (id, partition) = (ids[at], &partitions[at]);
            let explicit_max = shared.options.transpose_pairs_max;
            let slice = materialise::select(&partition.read(), self.turns.get(&id).copied(), explicit_max);
            if !slice.is_empty() {
                self.turn = Some(id);
                self.turns.extend(slice.last_tenant().map(|tenant| (id, tenant)));
                slices.push((slice, partition));
            }
        }
        slices
    }
}

/// Writes a slice, beside others that share the memory for it.
fn fan_out(shared: &Shared, partition: &Locked, slice: Slice, share: usize) -> Result<(), StoreError> {
    let pairs_max = (shared.options.transpose_pairs_max / share).max(1);
    let written = slice.write(shared, partition, pairs_max)?;
    for (tenant, through) in written.through {
        // Readers go by the number; what is left behind only takes room.
        while partition.write().drop_some(tenant, through, DROPPED_AT_ONCE) {}
    }
    shared.entries_written.fetch_add(written.entries, Ordering::Relaxed);
    Ok(())
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
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
