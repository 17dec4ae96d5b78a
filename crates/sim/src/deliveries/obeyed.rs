//! What was answered is obeyed from the answer on: when a producer hears that an event was called off, every shard has taken
//! that, so that no later place of any shard's journal can say Intent; see `fold` for the places themselves.

use super::{Deliveries, Delivery, Key};
use crate::broken::{Broken, Invariant};
use fantail_machine::records::front::FrontRecord;
use fantail_machine::records::halt::CalledOff;
use fantail_rules::ids::{DeviceNo, FrontNo, Lookup, Position, ShardNo, TenantId};
use fantail_rules::ulid::Ulid;

/// How an event was called off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Withdrawal {
    Cancelled,
    Retracted,
}

impl Deliveries {
    /// It was never due: all of its deliveries have ended.
    pub(super) fn called_off(&mut self, no: ShardNo, called: &CalledOff) {
        let CalledOff { tenant, event, delivery, members, .. } = called;
        let shard = self.shard(no);
        shard.taken.insert(called.front, called.position);
        let arrival = shard.arrive(*tenant, *event, None, members.clone());
        if let Some(event) = shard.events.get_mut(&(*tenant, arrival)) {
            event.is_halted = true;
        }
        if let Some(leaving) = delivery {
            for (channel, user) in
                leaving.channels.iter().flat_map(|channel| members.iter().map(move |user| (channel, user)))
            {
                let key =
                    Key { shard: no, tenant: *tenant, arrival, channel, user: *user, device: DeviceNo(0) };
                self.all.insert(key, Delivery::new(called.standing().state, leaving.terms));
            }
        }
    }

    pub(super) fn withdraw(&mut self, at: (FrontNo, Position), record: &FrontRecord) {
        let (event, how) = match record {
            FrontRecord::Cancelled { tenant, event } => ((*tenant, *event), Withdrawal::Cancelled),
            FrontRecord::Retracted { tenant, event } => ((*tenant, *event), Withdrawal::Retracted),
            _ => return,
        };
        self.halts.entry((event.0, event.1, how)).or_insert(at);
    }

    /// Holds if every one of these shards has taken that an event was called off, where that was recorded at all.
    pub fn check_obeyed(
        &self,
        shards: impl Iterator<Item = ShardNo>,
        (tenant, event, how): (TenantId, Ulid, Withdrawal),
    ) -> Result<(), Broken> {
        let Some((front, at)) = self.halts.get(&(tenant, event, how)) else { return Ok(()) };
        for no in shards {
            let taken =
                self.shards.get(&no).and_then(|shard| shard.taken.get(front).copied()).unwrap_or_default();
            Invariant::CalledOff.holds(taken >= *at, || {
                format!("{event} was answered as {how:?}, but {no} has taken {front} to {taken}, not to {at}")
            })?;
        }
        Ok(())
    }

    /// Holds if no shard knows a user.
    pub fn check_gone(&self, tenant: TenantId, lookup: Lookup) -> Result<(), Broken> {
        let is_known = self.shards.values().any(|shard| shard.users.contains_key(&(tenant, lookup)));
        Invariant::Survives
            .holds(!is_known, || format!("a user of {tenant} was answered as gone, and is there"))
    }
}
