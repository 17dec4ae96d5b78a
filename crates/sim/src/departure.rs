//! The end of a run: one tenant is deleted, the node dies in the middle of it, and goes on. Nothing of that tenant is left then, and what
//! is the other tenant's own is as it was.

use crate::broken::{Broken, Invariant};
use crate::executor::at_once;
use crate::phases::DRAIN_STEPS_MAX;
use crate::run::Sim;
use crate::world::World;
use fantail_node::ask::Refusal;
use fantail_ports::keyring::{Context, Keyring, KeyringError};
use fantail_ports::store::Store;
use fantail_ports::tables::{KeyRange, Order};
use fantail_rules::ids::{KeyNo, PartitionId, TenantId};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Rows that say that a tenant was deleted.
const TENANT_END: u8 = 31;
/// Users by their hashed names, users, templates and categories: housekeeping does not touch them.
const OWN: [u8; 4] = [34, 35, 4, 10];

impl Sim {
    pub(crate) fn delete_a_tenant(&mut self) -> Result<(), Broken> {
        let place = self.order.index(self.workload.tenants.len());
        // What is judged of every tenant at every step does not hold while its rows go.
        let gone = self.workload.tenants.remove(place);
        self.trace.note("delete", &gone);
        let sealed = self.world.keyring.seal(gone, KeyNo::TENANT, Context::Content, b"a text");
        let others = rows(&self.world, |key| !is_of(key, gone) && OWN.contains(&key[0]))?;
        let begun = self.ask(move |node| async move { node.delete_tenant(gone).await })?;
        Invariant::Serves.holds(begun.is_ok(), || format!("{gone} cannot be deleted: {begun:?}"))?;
        self.require_refused(gone)?;
        for _ in 0..self.order.index(300) {
            self.step()?;
        }
        self.die();
        self.world.boot();
        self.wait_for_start(|_| Ok(()))?;
        self.require_refused(gone)?;
        self.wait_until_deleted(gone)?;
        let left = rows(&self.world, |key| is_of(key, gone) && key[0] != TENANT_END)?;
        Invariant::Tenants.holds(left.is_empty(), || format!("rows of {gone} are left: {left:?}"))?;
        let now = rows(&self.world, |key| !is_of(key, gone) && OWN.contains(&key[0]))?;
        Invariant::Tenants
            .holds(now == others, || format!("the deletion of {gone} changed rows of others"))?;
        if let Ok(sealed) = sealed {
            let opened = self.world.keyring.open(gone, Context::Content, &sealed);
            let is_lost = matches!(opened, Err(KeyringError::NoKey { .. }));
            Invariant::Tenants.holds(is_lost, || format!("a text of {gone} can still be read"))?;
        }
        self.require_refused(gone)
    }

    fn wait_until_deleted(&mut self, gone: TenantId) -> Result<(), Broken> {
        for _ in 0..DRAIN_STEPS_MAX {
            let Some(node) = self.world.node.clone() else { break };
            if node.deletion(gone).is_none() {
                return Ok(());
            }
            self.step()?;
        }
        Invariant::Drains.broken(format!("the deletion of {gone} never ends"))
    }

    /// Nobody reads anything of the tenant any more.
    fn require_refused(&mut self, gone: TenantId) -> Result<(), Broken> {
        let Some(node) = self.world.node.clone() else { return Ok(()) };
        let found = at_once(node.user(gone, "u0")).map(|found| found.map(drop));
        let is_refused = matches!(found, Some(Err(Refusal::UnknownTenant)));
        Invariant::Tenants.holds(is_refused, || format!("{gone} is deleted and was read: {found:?}"))
    }
}

fn is_of(key: &[u8], tenant: TenantId) -> bool {
    // Rows that are ordered by time are of nobody here: nothing waits any more.
    key.get(1..5) == Some(&tenant.0.to_be_bytes())
}

/// Keys of rows, in all partitions.
fn rows(world: &World, fits: impl Fn(&[u8]) -> bool) -> Result<BTreeSet<(PartitionId, Vec<u8>)>, Broken> {
    let mut found = BTreeSet::new();
    for partition in world.partitions() {
        let mut scanned = Ok(());
        let read = world.store.read(partition, &mut |state| {
            let everything = KeyRange { from: &[], to: &[0xff; 64] };
            scanned = state.tables().scan(everything, Order::Ascending, &mut |key, _| {
                if fits(key) {
                    found.insert((partition, key.to_vec()));
                }
                ControlFlow::Continue(())
            });
        });
        match (read, scanned) {
            (Ok(()), Ok(())) => {}
            (Err(failed), _) => return Invariant::Serves.broken(failed.to_string()),
            (Ok(()), Err(failed)) => return Invariant::Serves.broken(failed.to_string()),
        }
    }
    Ok(found)
}
