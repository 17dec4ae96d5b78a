//! Entries of erased users leave the runs. No reader asks for them any more, so it can wait for company: runs are
//! rewritten when that costs no more than so many bytes per user. Merges leave the entries out anyway.

use super::partition::Partition;
use super::{Locked, Shared};
use crate::inbox::Owner;
use crate::inbox::merge::Gone;
use crate::inbox::run::{Look, Run};
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::store::StoreError;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, PartitionId, TenantId, UserNo};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Users looked at in one slice of background work.
const USERS_MAX: usize = 1_024;
/// Bytes of runs that may be rewritten for one erased user.
const BYTES_PER_USER: u64 = 64 << 20;

const EVERYTHING: ArrivalRange = ArrivalRange { after: Arrival::START, before: Arrival(u64::MAX) };

/// What was there when a partition was looked at last, and nothing was worth doing: looking again would find the same.
#[derive(Default)]
pub struct Looked(BTreeMap<PartitionId, (usize, Arrival, Vec<u64>)>);

impl Looked {
    /// Whether something has changed; remembers it.
    fn is_news(&mut self, partition: &Partition) -> bool {
        let runs = partition.runs.iter().map(|run| run.name.number).collect();
        let through =
            partition.tenants.values().map(|inbox| inbox.materialised_through).max().unwrap_or_default();
        let now = (partition.forgetting.len(), through, runs);
        self.0.insert(partition.id, now.clone()) != Some(now)
    }
}

/// Rewrites one run that holds entries of erased users, if it is worth it. Returns whether it did something.
pub fn run(shared: &Shared, partition: &Locked, looked: &mut Looked) -> Result<bool, StoreError> {
    if partition.read().forgetting.is_empty() || !looked.is_news(&partition.read()) {
        return Ok(false);
    }
    let (id, asked, runs) = {
        let partition = partition.read();
        let asked: BTreeMap<_, _> =
            partition.forgetting.iter().take(USERS_MAX).map(|(user, reached)| (*user, *reached)).collect();
        (partition.id, asked, Arc::clone(&partition.runs))
    };
    if asked.is_empty() {
        return Ok(false);
    }
    asked
        .keys()
        .for_each(|(tenant, user)| shared.hot.forget(Owner { partition: id, tenant: *tenant, user: *user }));
    let mut held: BTreeSet<(TenantId, UserNo)> = BTreeSet::new();
    let (mut bytes, mut first) = (0, None);
    for run in runs.iter() {
        let inside = users_in(run, asked.keys())?;
        if !inside.is_empty() {
            held.extend(inside);
            bytes += run.name.bytes;
            first = first.or(Some(run));
        }
    }
    let done: Vec<_> =
        asked.iter().filter(|(user, _)| !held.contains(user)).map(|(user, at)| (*user, *at)).collect();
    let settled = partition.write().erased(&done);
    let Some(first) = first.filter(|_| bytes <= BYTES_PER_USER.saturating_mul(held.len() as u64)) else {
        return Ok(settled);
    };
    let gone = Gone { users: held, ..gone(partition) };
    shared.index.purge(id, first, &gone, |runs| partition.write().runs = runs)?;
    Ok(true)
}

/// What nobody will ask for again in a partition.
pub fn gone(partition: &Locked) -> Gone {
    let partition = partition.read();
    let through =
        partition.tenants.iter().map(|(tenant, inbox)| (*tenant, inbox.forgotten_through)).collect();
    Gone { through, users: partition.forgetting.keys().copied().collect() }
}

fn users_in<'a>(
    run: &Run,
    users: impl Iterator<Item = &'a (TenantId, UserNo)>,
) -> Result<Vec<(TenantId, UserNo)>, TablesError> {
    let (mut buffer, mut inside) = (Vec::new(), Vec::new());
    for (tenant, user) in users {
        if run.count(&mut Look::new(*tenant, *user, EVERYTHING, &mut buffer))? > 0 {
            inside.push((*tenant, *user));
        }
    }
    Ok(inside)
}
