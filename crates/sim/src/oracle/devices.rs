//! Devices and their tokens, as clients were told.
//!
//! One device call per user is under way at a time. What became of a device whose call was lost is not known, and
//! nothing is expected of it until it is registered again; whose its token is must hold all the same.

use super::{Heard, Oracle, Who};
use crate::broken::{Broken, Invariant};
use crate::call::{DeviceNo, Token, device_name};
use crate::executor::at_once;
use fantail_node::Node;
use fantail_node::ask::{DeviceView, Refusal, Registered};
use fantail_rules::endpoint::Status;
use fantail_rules::ids::TenantId;
use std::collections::BTreeMap;

/// What is known of one user's devices.
#[derive(Default)]
pub struct Devices {
    /// A call is under way.
    pub busy: bool,
    /// The token of each; none if it was removed. Not here at all: never heard of, or not known any more.
    tokens: BTreeMap<DeviceNo, Option<Token>>,
    unsure: bool,
}

impl Devices {
    fn lose(&mut self, device: DeviceNo) {
        self.busy = false;
        self.tokens.remove(&device);
        self.unsure = true;
    }
}

impl Oracle {
    pub(super) fn invoke_device(&mut self, who: Who) {
        let person = self.person(who);
        person.readers += 1;
        person.devices.busy = true;
    }

    /// The answer will never be heard.
    pub(super) fn lose_device(&mut self, who: Who, device: DeviceNo) {
        let person = self.person(who);
        person.readers -= 1;
        person.devices.lose(device);
    }

    pub(super) fn heard_register(
        &mut self,
        who: Who,
        device: DeviceNo,
        token: Token,
        heard: Heard<Registered>,
    ) -> Result<(), Broken> {
        self.seen.registered += u64::from(matches!(heard, Heard::Yes(_)));
        let person = self.person(who);
        person.readers -= 1;
        let (exists, devices) = (person.exists, &mut person.devices);
        devices.busy = false;
        match heard {
            Heard::Yes(Registered { status, created }) => {
                let known = devices.tokens.get(&device).copied().flatten().is_some();
                let fits = exists && status.holds_address() && (devices.unsure || created != known);
                Invariant::Survives.holds(fits, || {
                    format!("{who:?} {device}: {status:?}, created {created}, was {known}")
                })?;
                devices.tokens.insert(device, Some(token));
                Ok(())
            }
            Heard::No(Refusal::UnknownUser { .. }) => {
                Invariant::Survives.holds(!exists, || format!("{who:?} exists but cannot have a device"))
            }
            Heard::No(_) => Ok(()),
            Heard::Unknown => {
                devices.lose(device);
                Ok(())
            }
        }
    }

    pub(super) fn heard_unregister(
        &mut self,
        who: Who,
        device: DeviceNo,
        heard: Heard<()>,
    ) -> Result<(), Broken> {
        let person = self.person(who);
        person.readers -= 1;
        let devices = &mut person.devices;
        devices.busy = false;
        let known = devices.tokens.get(&device).copied().flatten();
        match heard {
            Heard::Yes(()) => {
                let fits = known.is_some() || devices.unsure;
                Invariant::Survives
                    .holds(fits, || format!("{who:?} {device} was removed but never there"))?;
                devices.tokens.insert(device, None);
            }
            Heard::No(Refusal::UnknownDevice { .. }) => {
                Invariant::Survives
                    .holds(known.is_none(), || format!("{who:?} {device} is there but cannot be removed"))?;
                devices.tokens.insert(device, None);
            }
            Heard::No(_) => {}
            Heard::Unknown => devices.lose(device),
        }
        Ok(())
    }

    pub(super) fn heard_suppress(&mut self, tenant: TenantId, token: Token, on: bool, heard: &Heard<()>) {
        let known = match heard {
            Heard::Yes(()) | Heard::No(Refusal::NotSuppressed) => Some(on),
            Heard::No(_) => return,
            Heard::Unknown => None,
        };
        self.suppressed.insert((tenant, token), known);
    }
}

/// At rest nobody waits, what was acknowledged is there, and every token is one device's.
pub fn check_devices(oracle: &Oracle, node: &Node, tenant: TenantId) -> Result<(), Broken> {
    let mut used: BTreeMap<Token, String> = BTreeMap::new();
    let people = oracle.people.iter().filter(|(who, _)| who.tenant == tenant);
    for (who, person) in people.filter(|(_, person)| person.exists && !person.retired) {
        let Some(Ok(found)) = at_once(node.devices(tenant, &who.name())) else {
            return Invariant::Serves.broken(format!("devices of {who:?} cannot be read"));
        };
        let waits = found.iter().any(|device| device.status == Status::Pending);
        Invariant::Drains.holds(!waits, || format!("{who:?} still waits for a token: {found:?}"))?;
        for (device, token) in &person.devices.tokens {
            let view = found.iter().find(|view| view.device == device_name(*device));
            Invariant::Survives.holds(view.is_some() == token.is_some(), || {
                format!("{who:?} {device} has {token:?}, reads {view:?}")
            })?;
            let (Some(token), Some(view)) = (token, view) else { continue };
            check_use(oracle, tenant, *token, view)?;
            if view.status == Status::Active {
                let other = used.insert(*token, format!("{who:?} {device}"));
                Invariant::OneOwner
                    .holds(other.is_none(), || format!("{who:?} {device} and {other:?} use token {token}"))?;
            }
        }
    }
    Ok(())
}

fn check_use(oracle: &Oracle, tenant: TenantId, token: Token, view: &DeviceView) -> Result<(), Broken> {
    match oracle.suppressed.get(&(tenant, token)) {
        Some(Some(true)) => Invariant::OneOwner
            .holds(view.status != Status::Active, || format!("token {token} is suppressed: {view:?}")),
        Some(Some(false)) | None => Invariant::OneOwner.holds(view.status != Status::Suppressed, || {
            format!("token {token} is not suppressed: {view:?}")
        }),
        Some(None) => Ok(()),
    }
}
