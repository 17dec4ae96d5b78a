//! Walks, as the journal tells them: whoever was there when one began and stayed is passed, once, and nobody else; what is paused or
//! called off passes nobody; and whoever was passed has a delivery by every channel, or no endpoint there.

use super::{Deliveries, Shard};
use crate::broken::{Broken, Invariant};
use fantail_machine::records::delivery::Intend;
use fantail_machine::records::front::Steer;
use fantail_machine::records::walk::{Begun, Passed, WalkRecord};
use fantail_machine::tables::walk as rows;
use fantail_machine::tables::work::WorkId;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Lookup, Millis, ShardNo, TenantId, UserNo};
use fantail_rules::ulid::Ulid;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Formatter};

/// One walk of one shard.
pub(super) struct Walk {
    event: Ulid,
    /// Users with a name who were there when it began.
    there: BTreeSet<UserNo>,
    bound: UserNo,
    next: UserNo,
    members: BTreeSet<UserNo>,
    entries: u64,
    is_paused: bool,
    is_over: bool,
    /// Its time ended before it did.
    has_expired: bool,
    /// Members without an endpoint, as the records of each work count them.
    unreached: BTreeMap<ChannelKind, u64>,
}

impl Debug for Walk {
    /// Without the many who are in it.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { event, bound, next, members, entries, is_paused, is_over, has_expired, .. } = self;
        let (there, members) = (self.there.len(), members.len());
        write!(f, "{event} at {next} of {bound}, {members} members of {there}, {entries} entries, ")?;
        write!(f, "paused {is_paused}, over {is_over}, expired {has_expired}, unreached {:?}", self.unreached)
    }
}

impl Deliveries {
    pub(super) fn walk(&mut self, no: ShardNo, record: &WalkRecord, at: Millis) -> Result<(), Broken> {
        match record {
            WalkRecord::Begun(begun) => self.begin_walk(no, begun),
            WalkRecord::Passed(passed) => {
                self.steps += 1;
                return self.shard(no).pass(passed, at);
            }
            WalkRecord::Enlisted(_) | WalkRecord::Delisted(_) => {}
        }
        Ok(())
    }

    fn begin_walk(&mut self, no: ShardNo, begun: &Begun) {
        let Self { shards, nameless, .. } = self;
        let shard = shards.entry(no).or_default();
        shard.taken.insert(begun.front, begun.position);
        let tenant = begun.tenant;
        let there = shard.there(tenant, |lookup| !nameless.contains(&(tenant, lookup)));
        let arrival = shard.arrive(tenant, begun.event, Some(begun.delivery), Vec::new());
        let walk = Walk {
            event: begun.event,
            there,
            bound: begun.bound,
            next: UserNo(0),
            members: BTreeSet::new(),
            entries: 0,
            is_paused: begun.walk.is_paused,
            is_over: false,
            has_expired: false,
            unreached: BTreeMap::new(),
        };
        shard.walks.insert((tenant, arrival), walk);
    }

    /// Walks that would wait for ever.
    #[must_use]
    pub fn paused(&self) -> BTreeSet<(TenantId, Ulid)> {
        let walks = self.shards.values().flat_map(|shard| &shard.walks);
        walks.filter(|(_, walk)| walk.is_paused).map(|((tenant, _), walk)| (*tenant, walk.event)).collect()
    }

    /// Steps that walks made.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Everybody was passed, and told by every channel; the rows of the walks say the same.
    pub(super) fn check_walks(
        &self,
        no: ShardNo,
        tables: &dyn Tables,
    ) -> Result<Result<(), Broken>, TablesError> {
        let Some(shard) = self.shards.get(&no) else { return Ok(Ok(())) };
        for ((tenant, arrival), walk) in &shard.walks {
            let is_halted = shard.events.get(&(*tenant, *arrival)).is_none_or(|event| event.is_halted);
            let told = || format!("{no} {tenant} {arrival}: {walk:?}");
            if let Some(row) = rows::find(tables, *tenant, *arrival)? {
                let kept = (row.looked_at, row.members, row.entries, row.ahead);
                let own = (walk.next.0, walk.members.len() as u64, walk.entries, 0);
                if kept != own {
                    return Ok(Invariant::Conservation.broken(format!("{}, its row says {kept:?}", told())));
                }
            }
            if is_halted || walk.has_expired {
                continue;
            }
            if walk.next != walk.bound {
                return Ok(Invariant::Terminal.broken(format!("{} does not end", told())));
            }
            let leaving = shard.events.get(&(*tenant, *arrival)).and_then(|event| event.leaving);
            let channels = leaving.iter().flat_map(|one| one.channels.without(ChannelKind::InApp).iter());
            for channel in channels {
                let work = WorkId { tenant: *tenant, arrival: *arrival, channel };
                let found = self.users(no, *tenant, *arrival, channel).len() as u64;
                let unreached = walk.unreached.get(&channel).copied().unwrap_or_default();
                let is_whole = shard.closed.contains(&work) || found + unreached == walk.members.len() as u64;
                if !is_whole {
                    let what = format!("{} told {found} by {channel:?}, {unreached} unreached", told());
                    return Ok(Invariant::Terminal.broken(what));
                }
            }
        }
        Ok(Ok(()))
    }
}

impl Shard {
    fn there(&self, tenant: TenantId, is_meant: impl Fn(Lookup) -> bool) -> BTreeSet<UserNo> {
        let own = self.users.iter().filter(|((of, lookup), _)| *of == tenant && is_meant(*lookup));
        own.map(|(_, user)| *user).collect()
    }

    fn pass(&mut self, passed: &Passed, at: Millis) -> Result<(), Broken> {
        let Passed { tenant, arrival, next, members, unshown, .. } = passed;
        let still_there = self.there(*tenant, |_| true);
        let event = self.events.get(&(*tenant, *arrival));
        let is_halted = event.is_none_or(|event| event.is_halted);
        let leaving = event.and_then(|event| event.leaving);
        let Some(walk) = self.walks.get_mut(&(*tenant, *arrival)) else {
            return Invariant::OneLife.broken(format!("{passed:?} is of no walk"));
        };
        let told = || format!("{passed:?} of {walk:?}");
        let is_open = !walk.is_over && !walk.is_paused && !is_halted;
        Invariant::CalledOff.holds(is_open, || format!("{} is not to go on", told()))?;
        let stretch = walk.next..*next;
        let goes_on = walk.next <= *next && *next <= walk.bound && passed.looked_at == next.0 - walk.next.0;
        let is_own = members.iter().all(|user| stretch.contains(user)) && members.is_sorted_by(|a, b| a < b);
        Invariant::ExactlyOnce.holds(goes_on && is_own, || format!("{} does not go on", told()))?;
        // Nobody of them wants none of it: all inboxes are on, or nobody is left out for that.
        let mut stayed = walk.there.range(stretch).filter(|user| still_there.contains(user));
        let missed = stayed.find(|user| members.binary_search(user).is_err());
        Invariant::ExactlyOnce.holds(missed.is_none(), || format!("{} misses {missed:?}", told()))?;
        walk.next = *next;
        walk.members.extend(members);
        if passed.is_end {
            walk.is_over = true;
            walk.has_expired = leaving.is_none_or(|leaving| at >= leaving.terms.expires_at);
        }
        let is_shown = leaving.is_some_and(|leaving| {
            leaving.channels.contains(ChannelKind::InApp) && leaving.terms.appointment.is_none()
        });
        let shown = members.iter().filter(|user| unshown.binary_search(user).is_err()).count() as u64;
        if is_shown && shown > 0 {
            walk.entries += shown;
            let last = self.last.entry(*tenant).or_default();
            *last = last.next();
        }
        Ok(())
    }

    pub(super) fn steer(&mut self, tenant: TenantId, event: Ulid, steer: Steer) {
        let arrival = self.arrivals.get(&(tenant, event));
        if let Some(walk) = arrival.and_then(|arrival| self.walks.get_mut(&(tenant, *arrival))) {
            match steer {
                Steer::Pause => walk.is_paused = !walk.is_over,
                Steer::Resume => walk.is_paused = false,
                Steer::Pace(_) => {}
            }
        }
    }

    /// Only whom a walk has passed is told of it.
    pub(super) fn intend_walked(&mut self, intend: &Intend) -> Result<(), Broken> {
        let WorkId { tenant, arrival, channel } = intend.work;
        let Some(walk) = self.walks.get_mut(&(tenant, arrival)) else { return Ok(()) };
        *walk.unreached.entry(channel).or_default() += intend.unreached;
        let other = intend.members.iter().find(|member| !walk.members.contains(&member.user));
        Invariant::ExactlyOnce.holds(other.is_none(), || format!("{other:?} was not passed by {walk:?}"))
    }

    /// Some walk has still to pass somebody.
    pub(super) fn is_walking(&self) -> bool {
        self.walks.iter().any(|(place, walk)| {
            !walk.is_over && self.events.get(place).is_some_and(|event| !event.is_halted)
        })
    }

    pub(super) fn is_walk(&self, tenant: TenantId, arrival: Arrival) -> bool {
        self.walks.contains_key(&(tenant, arrival))
    }
}
