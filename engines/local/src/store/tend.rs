//! Background work, one bounded slice at a time: fan-out, consolidation, forgetting. Never changes what a reader
//! sees, so when it runs, or whether, is nobody's concern but the disk's.

use super::keys::Owner;
use super::materialise::{self, Pair};
use super::{Shared, consolidate, forget, inbox};
use fantail_ports::store::{StoreError, Tended};
use fantail_rules::ids::{PartitionId, TenantId};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

/// Looking for something to sweep costs a look at every tenant, so it is done once in so many slices.
const SWEEP_EVERY: u32 = 32;
/// Users with larger numbers are consolidated when they read, not counted here.
const COUNTED_USERS_MAX: usize = 1 << 26;

#[derive(Default)]
pub struct Tending {
    /// Whose turn it was: the partition, and in each partition the tenant.
    turn: Option<PartitionId>,
    turns: BTreeMap<PartitionId, TenantId>,
    /// Slices written for each user since the last consolidation: one byte per user.
    slices: HashMap<(PartitionId, TenantId), Vec<u8>>,
    sweeps: forget::Sweeps,
    runs: u32,
}

impl Tending {
    pub fn run(&mut self, shared: &Shared) -> Result<Tended, StoreError> {
        self.runs = self.runs.wrapping_add(1);
        let mut more = self.materialise(shared)?;
        consolidate::run(shared)?;
        more |= !shared.crowded.is_empty();
        for partition in shared.all_partitions() {
            more |= forget::users(shared, &partition)?;
        }
        if !more || self.runs.is_multiple_of(SWEEP_EVERY) {
            more |= self.sweeps.run(shared)?;
        }
        Ok(if more { Tended::MoreWaiting } else { Tended::Idle })
    }

    /// One slice of fan-out in the next partition that has enough to do. Returns whether more is waiting.
    fn materialise(&mut self, shared: &Shared) -> Result<bool, StoreError> {
        let partitions = shared.all_partitions();
        let is_due = |partition: &super::Locked| {
            let waiting = partition.read().waiting;
            waiting.events >= shared.options.window_events_min.max(1)
                || waiting.explicit_pairs >= shared.options.window_pairs_min.max(1)
        };
        let ids: Vec<_> = partitions.iter().map(|one| one.read().id).collect();
        let first = ids.partition_point(|id| Some(*id) <= self.turn);
        let order = (first..ids.len()).chain(0..first);
        let Some(chosen) = order.into_iter().find(|at| is_due(&partitions[*at])) else { return Ok(false) };
        let (id, partition) = (ids[chosen], &partitions[chosen]);
        let mut slice = materialise::select(&partition.read(), self.turns.get(&id).copied());
        if slice.is_empty() {
            return Ok(false);
        }
        let pairs = slice.gather(shared, partition)?;
        slice.write(shared, &pairs)?;
        {
            let mut partition = partition.write();
            for (tenant, through) in &slice.through {
                partition.materialised(*tenant, *through);
            }
        }
        self.turn = Some(id);
        self.turns.extend(slice.last_tenant().map(|tenant| (id, tenant)));
        self.count_slices(shared, id, &pairs);
        shared.entries_written.fetch_add(pairs.len() as u64, Ordering::Relaxed);
        Ok(partitions.iter().any(|one| is_due(one)))
    }

    /// Notes who got one more row, and who has enough of them to be consolidated without being read.
    fn count_slices(&mut self, shared: &Shared, partition: PartitionId, pairs: &[Pair]) {
        for entries in pairs.chunk_by(materialise::same_user) {
            let Pair { tenant, user, .. } = entries[0];
            let at = user.0 as usize;
            if at >= COUNTED_USERS_MAX {
                continue;
            }
            let slices = self.slices.entry((partition, tenant)).or_default();
            if slices.len() <= at {
                slices.resize(at + 1, 0);
            }
            slices[at] = slices[at].saturating_add(1);
            let is_crowded = usize::from(slices[at]) >= inbox::SLICES_MAX;
            if is_crowded && shared.crowded.push(Owner { partition, tenant, user }) {
                slices[at] = 0;
            }
        }
    }
}
