//! Fan-out: the oldest waiting events of a partition become a run of the inbox index.
//!
//! Comes from: the recent windows. Does: streams the lists of the events, user by user in stripes that fit the
//! memory it may use, transposes, writes. Goes to: the index, which names the run; only then do the events leave
//! the recent windows, under the write lock. So a reader, and a replay after a crash, finds every entry exactly
//! once. Which follows and unfollows happen meanwhile does not matter: they change no interval at or below an
//! arrival that exists.

use super::lists::{Block, Stretch};
use super::partition::Partition;
use super::{Locked, Shared};
use crate::inbox::pairs::{Pairs, SPAN_MAX, Spares};
use crate::inbox::writer::RunWriter;
use fantail_ports::inbox::{Audience, WindowEvent};
use fantail_ports::lists::ListKey;
use fantail_ports::store::StoreError;
use fantail_rules::ids::{Arrival, ListId, PartitionId, TenantId, UserNo};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Events in one slice: bounds how long they are looked at under a lock.
const EVENTS_MAX: usize = 16_384;

/// The oldest waiting events of some tenants.
pub struct Slice {
    partition: PartitionId,
    tenants: BTreeMap<TenantId, TenantSlice>,
    last_tenant: Option<TenantId>,
}

struct TenantSlice {
    /// Ascending, and within the span of one window.
    events: Vec<Arc<WindowEvent>>,
    /// Events at or below are not worth writing.
    forgotten_through: Arrival,
    /// Users who must not come back.
    forgetting: BTreeSet<UserNo>,
}

/// What was written.
pub struct Written {
    pub through: BTreeMap<TenantId, Arrival>,
    pub entries: u64,
}

/// Takes the oldest waiting events, beginning with the tenant after `after`.
pub fn select(partition: &Partition, after: Option<TenantId>, explicit_max: usize) -> Slice {
    let (mut tenants, mut last_tenant, mut count, mut explicit) = (BTreeMap::new(), None, 0, 0);
    let later = partition.tenants.iter().filter(|(tenant, _)| Some(**tenant) > after);
    let earlier = partition.tenants.iter().filter(|(tenant, _)| Some(**tenant) <= after);
    for (tenant, inbox) in later.chain(earlier) {
        if count >= EVENTS_MAX || explicit >= explicit_max {
            break;
        }
        let mut events: Vec<Arc<WindowEvent>> = Vec::new();
        for event in inbox.recent.above(inbox.materialised_through).take(EVENTS_MAX - count) {
            let is_far = events.first().is_some_and(|first| event.arrival.0 - first.arrival.0 >= SPAN_MAX);
            if is_far || explicit >= explicit_max {
                break;
            }
            explicit += explicit_users(event);
            events.push(Arc::clone(event));
        }
        if events.is_empty() {
            continue;
        }
        count += events.len();
        last_tenant = Some(*tenant);
        let of_tenant = (*tenant, UserNo(0))..=(*tenant, UserNo(u64::MAX));
        let forgetting = partition.forgetting.range(of_tenant).map(|((_, user), _)| *user).collect();
        let forgotten_through = inbox.forgotten_through;
        tenants.insert(*tenant, TenantSlice { events, forgotten_through, forgetting });
    }
    Slice { partition: partition.id, tenants, last_tenant }
}

fn explicit_users(event: &WindowEvent) -> usize {
    match &event.audience {
        Audience::List(_) => 0,
        Audience::Members(users) => users.len(),
    }
}

impl Slice {
    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    pub fn last_tenant(&self) -> Option<TenantId> {
        self.last_tenant
    }

    /// Writes the run, names it, and lets the partition go over to it. Transposes at most so many pairs at once.
    pub fn write(self, shared: &Shared, partition: &Locked, pairs_max: usize) -> Result<Written, StoreError> {
        let mut writer = shared.index.create(self.partition)?;
        let path = writer.path().to_owned();
        let mut through = BTreeMap::new();
        let write = || {
            for (tenant, slice) in self.tenants {
                let fan_out = FanOut { shared, partition, tenant, pairs_max };
                through.insert(tenant, fan_out.run(slice, &mut writer)?);
            }
            writer.finish()
        };
        let run = write().inspect_err(|_| shared.index.abandon(&path))?;
        let entries = run.entries;
        shared
            .index
            .append(self.partition, run, &through, |runs| partition.write().materialised(&through, runs))?;
        Ok(Written { through, entries })
    }
}

/// The fan-out of one tenant's events.
struct FanOut<'a> {
    shared: &'a Shared,
    partition: &'a Locked,
    tenant: TenantId,
    pairs_max: usize,
}

impl FanOut<'_> {
    /// Writes the section of this tenant; returns through which arrival. Events that would make the run too large
    /// are left for the next one.
    fn run(&self, mut slice: TenantSlice, writer: &mut RunWriter<'_>) -> Result<Arrival, StoreError> {
        let mut users = Stripe { from: 0, until: None, width: None };
        let mut pairs = self.gather(&mut slice, &mut users, true)?;
        let (after, through) = (slice.after(), slice.through());
        writer.begin_section(self.tenant, after, through)?;
        loop {
            let had_room = pairs.count() * 2 < self.pairs_max;
            pairs.write(writer)?;
            let Some(from) = users.until else { return Ok(through) };
            // Numbers may lie far apart: a stripe that found little is followed by a wider one.
            let width = users.width.map(|width| if had_room { width.saturating_mul(2) } else { width });
            users = Stripe { from, until: width.and_then(|width| from.checked_add(width)), width };
            pairs = self.gather(&mut slice, &mut users, false)?;
        }
    }

    /// Finds the pairs of the users of a stripe, and makes the stripe narrower, or the slice shorter if it may,
    /// when they grow too many.
    fn gather(
        &self,
        slice: &mut TenantSlice,
        users: &mut Stripe,
        may_shorten: bool,
    ) -> Result<Pairs<'_>, StoreError> {
        let options = &self.shared.options;
        let mut pairs = slice.explicit_pairs(users, &self.shared.spares);
        let (lists, mut block) = (slice.by_list(), Block::default());
        let (all, mut done): (usize, usize) = (lists.values().map(Vec::len).sum(), 0);
        for (list, mut offsets) in lists {
            done += offsets.len();
            let last = slice.offset(slice.through());
            offsets.retain(|offset| *offset <= last);
            let list = ListKey { tenant: self.tenant, list };
            let mut next = Some(UserNo(users.from));
            while let Some(from) = next.filter(|from| users.until.is_none_or(|until| from.0 < until)) {
                let stretch = Stretch { list, from, until: users.until.map(UserNo), after: slice.after() };
                next = self.gather_block(stretch, slice, &offsets, &mut block, &mut pairs)?;
                if pairs.count() <= self.pairs_max {
                    continue;
                }
                let expected = pairs.count() / done * all * users.narrowed();
                if may_shorten && slice.events.len() > 1 && expected > options.window_pairs_max {
                    let last = slice.shorten();
                    pairs.keep_offsets_through(last);
                    offsets.retain(|offset| *offset <= last);
                } else {
                    users.narrow(pairs.middle(users.from));
                    pairs.keep_users_below(users.until.unwrap_or(u64::MAX));
                }
            }
        }
        Ok(pairs)
    }

    /// Adds the pairs of the stretch's first members; returns where to go on.
    fn gather_block(
        &self,
        stretch: Stretch,
        slice: &TenantSlice,
        offsets: &[u16],
        block: &mut Block,
        pairs: &mut Pairs<'_>,
    ) -> Result<Option<UserNo>, StoreError> {
        // The lock is held for some pages at a time.
        let next = self.partition.read().pages(&self.shared.rows, None).stream(stretch, block)?;
        if slice.forgetting.is_empty() {
            pairs.push_all(block.throughout(), offsets);
        } else {
            let kept = block.throughout().iter().filter(|user| !slice.forgetting.contains(*user));
            kept.for_each(|user| pairs.push(user.0, offsets));
        }
        let (base, mut some) = (slice.base(), Vec::new());
        for (user, stays) in block.partly().filter(|(user, _)| !slice.forgetting.contains(user)) {
            let is_on = |offset: &u16| {
                let arrival = Arrival(base + u64::from(*offset));
                stays.iter().any(|stay| stay.contains(arrival))
            };
            some.clear();
            some.extend(offsets.iter().copied().filter(is_on));
            pairs.push(user.0, &some);
        }
        Ok(next)
    }
}

/// Users that are transposed together.
struct Stripe {
    from: u64,
    /// Where the next stripe begins.
    until: Option<u64>,
    /// How many numbers a stripe took before.
    width: Option<u64>,
}

impl Stripe {
    fn narrow(&mut self, until: u64) {
        self.until = Some(until);
        self.width = Some(until - self.from);
    }

    /// About how many times the pairs of this stripe all pairs are.
    fn narrowed(&self) -> usize {
        if self.until.is_some() { 2 } else { 1 }
    }
}

impl TenantSlice {
    /// The arrival of offset 0.
    fn base(&self) -> u64 {
        self.events.first().expect("a slice has events").arrival.0
    }

    fn after(&self) -> Arrival {
        Arrival(self.base() - 1)
    }

    fn through(&self) -> Arrival {
        self.events.last().expect("a slice has events").arrival
    }

    fn offset(&self, arrival: Arrival) -> u16 {
        u16::try_from(arrival.0 - self.base()).expect("a slice spans no more than a window may")
    }

    /// Gives up the newer half of the events; returns the last offset that is left.
    fn shorten(&mut self) -> u16 {
        self.events.truncate(self.events.len().div_ceil(2));
        self.offset(self.through())
    }

    fn wanted(&self) -> impl Iterator<Item = &WindowEvent> {
        let through = self.forgotten_through;
        self.events.iter().map(|event| &**event).filter(move |event| event.arrival > through)
    }

    fn explicit_pairs<'a>(&self, users: &Stripe, spares: &'a Spares) -> Pairs<'a> {
        let mut pairs = Pairs::new(spares);
        for event in self.wanted() {
            if let Audience::Members(members) = &event.audience {
                let offset = [self.offset(event.arrival)];
                let first = members.partition_point(|user| user.0 < users.from);
                let members = members[first..].iter();
                for user in members.take_while(|user| users.until.is_none_or(|until| user.0 < until)) {
                    if !self.forgetting.contains(user) {
                        pairs.push(user.0, &offset);
                    }
                }
            }
        }
        pairs
    }

    fn by_list(&self) -> BTreeMap<ListId, Vec<u16>> {
        let mut lists: BTreeMap<ListId, Vec<u16>> = BTreeMap::new();
        for event in self.wanted() {
            if let Audience::List(list) = &event.audience {
                lists.entry(*list).or_default().push(self.offset(event.arrival));
            }
        }
        lists
    }
}
