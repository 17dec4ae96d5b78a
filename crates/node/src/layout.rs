//! What a start settles with the root before other partitions are led: the layout, and the keys of every tenant.

use crate::control::ControlPlane;
use crate::core::{RootQueue, answer};
use crate::ports::Ports;
use crate::start::StartError;
use crate::take::HOUSE;
use fantail_machine::records::root::Layout;
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_rules::actor::Actor;

/// Returns the layout of the data; a new directory gets the wanted one.
pub async fn agree(root: &RootQueue, wanted: Layout, may_have_fronts: bool) -> Result<Layout, StartError> {
    let layout = match answer(root.push(HOUSE, &Actor::System, vec![RootAsk::Layout(wanted)], 64)).await {
        Ok(RootAnswer::Layout(layout)) => layout,
        Ok(_) | Err(_) => return Err(StartError::NoLayout),
    };
    if layout.fronts > 1 && !may_have_fronts {
        return Err(StartError::Fronts { fronts: layout.fronts });
    }
    Ok(layout)
}

/// Creates the keys of tenants that have none: a crash may have come between a tenant's record and its keys.
pub fn complete_keys(ports: &Ports, plane: &ControlPlane) -> Result<(), StartError> {
    for tenant in plane.now().tenants.keys() {
        ports.keyring.create_tenant(*tenant)?;
    }
    Ok(())
}
