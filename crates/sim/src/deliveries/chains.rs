//! Channels that wait for others, as the journal says: whoever is told by one was not reached by those before it, as far as
//! the records before say, and was not given up too early.

use super::{Delivery, Key};
use crate::broken::{Broken, Invariant};
use fantail_machine::tables::work::Terms;
use fantail_rules::attempt::State;
use fantail_rules::ids::DeviceNo;
use fantail_rules::policy::Condition;
use std::collections::BTreeMap;

/// A delivery is authorised for the first time.
pub(super) fn check(all: &BTreeMap<Key, Delivery>, key: Key, terms: &Terms) -> Result<(), Broken> {
    let Some(step) = terms.chain.step(key.channel) else { return Ok(()) };
    let before: Vec<State> = terms
        .chain
        .before(key.channel)
        .iter()
        .flat_map(|channel| {
            let first = Key { channel, device: DeviceNo(0), ..key };
            let last = Key { device: DeviceNo(u16::MAX), ..first };
            all.range(first..=last).map(|(_, delivery)| delivery.state)
        })
        .collect();
    let any = |states: &[State]| before.iter().any(|state| states.contains(state));
    let is_taken = any(&[State::Accepted, State::Unknown, State::Delivered]);
    let is_open = any(&[State::Planned, State::Intent, State::Deferred]);
    let is_right = match step.when {
        Condition::NoReceipt => !any(&[State::Delivered]) && (is_taken || !is_open),
        Condition::NotSeen => is_taken || !is_open,
        Condition::Failed => !is_taken && !is_open,
    };
    Invariant::Chains.holds(is_right, || format!("{key:?} is tried by {step:?} after {before:?}"))
}
