//! Devices with addresses that a provider takes: those of the beginning, and those that come later.

use super::{ACTIVE, CROWD_FIRST, Workload};
use crate::call::{Address, Call, Who};
use crate::provider::KINDS;
use fantail_node::ask::ChannelKind;

impl Workload {
    pub(super) fn first_devices(&self) -> Vec<Call> {
        let mut calls = Vec::new();
        let active = self.tenants.iter().flat_map(|tenant| (0..ACTIVE).map(|user| (*tenant, user)));
        let crowd = self.crowd().map(|user| (self.tenants[0], user));
        let own = if self.swarm.long_answers { 100 } else { 50 };
        for (tenant, user) in active.chain(crowd) {
            for kind in KINDS {
                if self.chance.percent(if user < CROWD_FIRST { own } else { 8 }) {
                    let who = Who { tenant, user };
                    calls.push(Call::Enrol { who, address: Address { kind, generation: 0 } });
                }
            }
        }
        calls
    }

    /// A device comes, or has another address.
    pub(super) fn enrol(&mut self) -> Call {
        self.generation += 1;
        let kind = *self.chance.pick(&KINDS).unwrap_or(&ChannelKind::Push);
        let generation = if self.chance.percent(50) { self.generation } else { 0 };
        Call::Enrol { who: self.anybody(), address: Address { kind, generation } }
    }
}
