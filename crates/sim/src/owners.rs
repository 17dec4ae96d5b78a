//! At every moment, whatever is under way: no token is used by two endpoints, and the column that gates read says what
//! the pages say. This looks into the tables, because between two answers nobody else can.

use crate::broken::{Broken, Invariant};
use crate::world::World;
use fantail_machine::columns::{self, Reach};
use fantail_machine::tables::{endpoint, user};
use fantail_ports::store::Store;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{AddressHash, PartitionId, TenantId, UserNo};
use std::collections::BTreeMap;

type Owners = BTreeMap<(TenantId, AddressHash), (PartitionId, UserNo)>;

pub fn check(world: &World, tenants: &[TenantId]) -> Result<(), Broken> {
    let mut owners = Owners::new();
    for partition in world.partitions() {
        if !matches!(partition, PartitionId::Shard(_)) {
            continue;
        }
        let mut checked = Ok(Ok(()));
        let read = world.store.read(partition, &mut |state| {
            checked = tenants
                .iter()
                .map(|tenant| check_shard(state.tables(), partition, *tenant, &mut owners))
                .collect::<Result<Result<(), Broken>, TablesError>>();
        });
        match (read, checked) {
            (Ok(()), Ok(checked)) => checked?,
            (Err(failed), _) => return Invariant::Serves.broken(failed.to_string()),
            (Ok(()), Err(failed)) => return Invariant::Serves.broken(failed.to_string()),
        }
    }
    Ok(())
}

/// Holds if no endpoint of an address is sent to.
pub fn check_unused(world: &World, tenant: TenantId, address: AddressHash) -> Result<(), Broken> {
    for partition in world.partitions() {
        if !matches!(partition, PartitionId::Shard(_)) {
            continue;
        }
        let mut used = Ok(None);
        let read = world.store.read(partition, &mut |state| {
            used = endpoint::pages_from(state.tables(), tenant, 0, usize::MAX).map(|pages| {
                let users = pages.iter().flat_map(|(no, page)| page.users(*no));
                let all = users.flat_map(|(user, state)| state.endpoints.iter().map(move |one| (user, one)));
                let mut active = all.filter(|(_, one)| one.status == Status::Active);
                active.find(|(_, one)| one.address_hash == address).map(|(user, _)| user)
            });
        });
        let used = match (read, used) {
            (Ok(()), Ok(used)) => used,
            (Err(failed), _) => return Invariant::Serves.broken(failed.to_string()),
            (Ok(()), Err(failed)) => return Invariant::Serves.broken(failed.to_string()),
        };
        Invariant::Endpoints.holds(used.is_none(), || {
            format!("an address of {tenant} was answered as suppressed, and {used:?} in {partition} uses it")
        })?;
    }
    Ok(())
}

fn check_shard(
    tables: &dyn Tables,
    partition: PartitionId,
    tenant: TenantId,
    owners: &mut Owners,
) -> Result<Result<(), Broken>, TablesError> {
    for (no, page) in endpoint::pages_from(tables, tenant, 0, usize::MAX)? {
        for (number, state) in page.users(no) {
            let key = user::find(tables, tenant, number)?.map(|row| row.id.key);
            let reach = columns::find(tables, tenant, number)?.reach;
            if reach != Reach::of(state, key) {
                let told = format!("{partition} {tenant} {number}: {reach:?} is not what {state:?} comes to");
                return Ok(Invariant::OneOwner.broken(told));
            }
            for used in state.endpoints.iter().filter(|one| one.status == Status::Active) {
                let other = owners.insert((tenant, used.address_hash), (partition, number));
                if let Some(other) = other {
                    let told =
                        format!("{partition} {tenant} {number} and {other:?} use one address: {used:?}");
                    return Ok(Invariant::OneOwner.broken(told));
                }
            }
        }
    }
    Ok(Ok(()))
}
