//! Entries that nobody will ask for again are deleted in bounded slices: those of forgotten users at once, those
//! past retention by a sweep that begins when about a sixteenth of what it would read can be dropped.

use super::entries::Entries;
use super::keys::{self, Owner};
use super::rows::{Row, taken};
use super::{Locked, Shared};
use fantail_ports::store::StoreError;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, PartitionId, TenantId, UserNo};
use std::collections::BTreeMap;

/// Rows read in one slice.
const ROWS_MAX: usize = 8_192;
/// Users in one slice.
const USERS_MAX: usize = 256;
/// A sweep is worth it when this part of the kept arrivals can be dropped.
const SWEEP_PART: u64 = 16;

/// Deletes the entries of some forgotten users. Returns whether more wait in this partition.
pub fn users(shared: &Shared, partition: &Locked) -> Result<bool, StoreError> {
    let (id, waiting) = {
        let partition = partition.read();
        let some: Vec<_> = partition.forgetting.iter().take(USERS_MAX).copied().collect();
        (partition.id, some)
    };
    if waiting.is_empty() {
        return Ok(false);
    }
    let mut deleted: Vec<Row> = Vec::new();
    let mut done = Vec::new();
    for (tenant, user) in waiting {
        let owner = Owner { partition: id, tenant, user };
        let range = keys::entries(owner, Arrival(u64::MAX))..=keys::entries(owner, Arrival::START);
        let mut rows = shared.rows.inbox.range(range);
        while deleted.len() < ROWS_MAX {
            let Some(row) = rows.next() else {
                done.push((tenant, user));
                break;
            };
            deleted.push((taken(row)?.0, None));
        }
    }
    if !deleted.is_empty() {
        shared.rows.write(&shared.rows.inbox, deleted.len(), deleted.into_iter())?;
    }
    let mut partition = partition.write();
    partition.forgotten(&done);
    Ok(!partition.forgetting.is_empty())
}

/// Where the sweeps of all tenants are. Lost in a crash, which costs one more sweep.
#[derive(Default)]
pub struct Sweeps {
    swept: BTreeMap<(PartitionId, TenantId), Arrival>,
    running: Option<Sweep>,
}

struct Sweep {
    partition: PartitionId,
    tenant: TenantId,
    horizon: Arrival,
    /// The next user to look at.
    next: UserNo,
}

impl Sweeps {
    /// One slice of a sweep. Returns whether more waits.
    pub fn run(&mut self, shared: &Shared) -> Result<bool, StoreError> {
        let Some(mut sweep) = self.running.take().or_else(|| self.begin(shared)) else { return Ok(false) };
        match sweep.run(shared)? {
            Some(next) => {
                sweep.next = next;
                self.running = Some(sweep);
            }
            None => {
                self.swept.insert((sweep.partition, sweep.tenant), sweep.horizon);
            }
        }
        Ok(true)
    }

    fn begin(&self, shared: &Shared) -> Option<Sweep> {
        for partition in shared.all_partitions() {
            let partition = partition.read();
            for (tenant, inbox) in &partition.tenants {
                let swept = self.swept.get(&(partition.id, *tenant)).copied().unwrap_or_default();
                let horizon = inbox.forgotten_through.min(inbox.materialised_through);
                let kept = inbox.materialised_through.0 - horizon.0;
                let droppable = horizon.0.saturating_sub(swept.0);
                if droppable > kept / SWEEP_PART {
                    return Some(Sweep {
                        partition: partition.id,
                        tenant: *tenant,
                        horizon,
                        next: UserNo(0),
                    });
                }
            }
        }
        None
    }
}

impl Sweep {
    /// Reads some rows and deletes those that end at or below the horizon. Returns where to go on.
    fn run(&self, shared: &Shared) -> Result<Option<UserNo>, StoreError> {
        let Sweep { partition, tenant, .. } = *self;
        let owner = |user| Owner { partition, tenant, user };
        let range = keys::entries(owner(self.next), Arrival(u64::MAX))
            ..=keys::entries(owner(UserNo(u64::MAX)), Arrival::START);
        let (mut read, mut current, mut next, mut deleted) = (0, self.next, None, Vec::<Row>::new());
        for row in shared.rows.inbox.range(range) {
            let (key, value) = taken(row)?;
            let (owner, first) = keys::parse_entries(&key).ok_or_else(damaged)?;
            // A user's rows are always read to the end, so that the next slice can begin with a user.
            if owner.user != current && read >= ROWS_MAX {
                next = Some(owner.user);
                break;
            }
            (current, read) = (owner.user, read + 1);
            let entries = Entries::decode(first, &value).ok_or_else(damaged)?;
            if entries.last <= self.horizon {
                deleted.push((key, None));
            }
        }
        if !deleted.is_empty() {
            shared.rows.write(&shared.rows.inbox, deleted.len(), deleted.into_iter())?;
        }
        Ok(next)
    }
}

fn damaged() -> TablesError {
    TablesError::Damaged { family: "inbox entries", reason: "a row does not decode".to_owned() }
}
