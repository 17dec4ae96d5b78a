//! Opening: what the newest sync point and the inbox index say about each partition.
//!
//! Runs may be ahead of the sync point, because fan-out writes on its own. Windows at or below
//! `materialised_through` are therefore never taken in again, whether they come from here or from the journal.

use super::keys::{self, Family};
use super::pack::Cut;
use super::partition::{Partition, TenantInbox, decode_tenant};
use super::rows::{Rows, taken};
use super::sync_point::{self, Marks};
use super::windows;
use crate::inbox::InboxIndex;
use fantail_ports::store::StoreError;
use fantail_rules::ids::{Arrival, PartitionId, TenantId, UserNo};
use std::collections::BTreeMap;

pub struct Loaded {
    pub marks: Marks,
    pub partitions: BTreeMap<PartitionId, Partition>,
}

pub fn load(rows: &Rows, index: &InboxIndex) -> Result<Loaded, StoreError> {
    let marks = sync_point::read(rows)?;
    let mut tenants = Tenants::new();
    load_materialised(index, &mut tenants);
    let mut partitions = BTreeMap::new();
    for (id, position) in &marks {
        load_tenants(rows, index, *id, &mut tenants)?;
        load_windows(rows, *id, &mut tenants)?;
        let mut partition = Partition::new(*id);
        partition.position = *position;
        load_forgetting(rows, &mut partition)?;
        partitions.insert(*id, partition);
    }
    for ((id, tenant), inbox) in tenants {
        let partition = partitions.entry(id).or_insert_with(|| Partition::new(id));
        partition.load_tenant(tenant, inbox);
    }
    for (id, partition) in &mut partitions {
        partition.runs = index.at(*id).runs;
    }
    Ok(Loaded { marks, partitions })
}

type Tenants = BTreeMap<(PartitionId, TenantId), TenantInbox>;

fn load_materialised(index: &InboxIndex, tenants: &mut Tenants) {
    for id in index.partitions() {
        for (tenant, through) in index.at(id).through {
            tenants.entry((id, tenant)).or_default().materialised_through = through;
        }
    }
}

fn load_tenants(
    rows: &Rows,
    index: &InboxIndex,
    id: PartitionId,
    tenants: &mut Tenants,
) -> Result<(), StoreError> {
    for row in rows.main.prefix(keys::prefix(id, Family::Tenant)) {
        let (key, value) = taken(row)?;
        let (tenant, _) = keys::parse_tenant(&key).ok_or_else(|| damaged("tenants"))?;
        let row = decode_tenant(&value).ok_or_else(|| damaged("tenants"))?;
        let inbox = tenants.entry((id, tenant)).or_default();
        if inbox.materialised_through < row.materialised_through {
            let (has, needs) = (inbox.materialised_through, row.materialised_through);
            return Err(StoreError::Damaged {
                what: index.manifest_path(id).display().to_string(),
                reason: format!(
                    "the index of tenant {tenant} ends at arrival {has}, the rows need it through {needs}"
                ),
            });
        }
        (inbox.reached, inbox.forgotten_through) = (row.reached, row.forgotten_through);
    }
    Ok(())
}

fn load_windows(rows: &Rows, id: PartitionId, tenants: &mut Tenants) -> Result<(), StoreError> {
    for row in rows.main.prefix(keys::prefix(id, Family::Window)) {
        let (key, value) = taken(row)?;
        let (tenant, _) = keys::parse_tenant(&key).ok_or_else(|| damaged("windows"))?;
        let events = windows::decode(&value).ok_or_else(|| damaged("windows"))?;
        let inbox = tenants.entry((id, tenant)).or_default();
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return Err(damaged("windows"));
        };
        inbox.chunks.push_back((first.arrival, last.arrival));
        let through = inbox.materialised_through;
        events.into_iter().filter(|event| event.arrival > through).for_each(|event| inbox.recent.push(event));
    }
    Ok(())
}

fn load_forgetting(rows: &Rows, partition: &mut Partition) -> Result<(), StoreError> {
    for row in rows.main.prefix(keys::prefix(partition.id, Family::Forgetting)) {
        let (key, value) = taken(row)?;
        let (tenant, user) = keys::parse_tenant(&key).ok_or_else(|| damaged("users to forget"))?;
        let user = user.try_into().map_err(|_| damaged("users to forget"))?;
        let reached = Cut(&value).number().ok_or_else(|| damaged("users to forget"))?;
        partition.forgetting.insert((tenant, UserNo(u64::from_be_bytes(user))), Arrival(reached));
    }
    Ok(())
}

fn damaged(what: &str) -> StoreError {
    StoreError::Damaged { what: what.to_owned(), reason: "a row does not decode".to_owned() }
}
