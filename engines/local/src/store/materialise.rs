//! Fan-out: a slice of the oldest windows becomes rows of entries.
//!
//! Rows and `materialised_through` are one atomic write, and the slice leaves the recent windows only after it,
//! under the write lock. So a reader, and a replay after a crash, finds every entry exactly once. Which follows
//! and unfollows happen meanwhile does not matter: they change no interval at or below an arrival that exists.

use super::entries::encode_slice;
use super::keys::{self, Owner};
use super::pack::put_number;
use super::partition::Partition;
use super::rows::Row;
use super::{Locked, Shared};
use fantail_ports::inbox::{Audience, WindowEvent};
use fantail_ports::lists::ListKey;
use fantail_ports::store::StoreError;
use fantail_rules::ids::{Arrival, ListId, PartitionId, TenantId, UserNo};
use fantail_rules::interval::Interval;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Events in one slice: bounds the time until the first of them is a row.
const EVENTS_MAX: usize = 512;
/// Pairs in memory above which a slice is cut in half: 24 bytes each. One event alone is never cut.
const PAIRS_MAX: usize = 1_000_000;

/// The oldest waiting events of some tenants, in the order in which the tenants have their turn.
pub struct Slice {
    partition: PartitionId,
    events: Vec<SliceEvent>,
    /// The last arrival of each tenant in this slice.
    pub through: BTreeMap<TenantId, Arrival>,
}

struct SliceEvent {
    tenant: TenantId,
    event: Arc<WindowEvent>,
    /// Nobody will ask for it.
    is_forgotten: bool,
}

/// An entry to be written. The order of the fields is the order of the rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pair {
    pub tenant: TenantId,
    pub user: UserNo,
    pub arrival: Arrival,
}

/// Takes the oldest events of a partition, beginning with the tenants after `after`, so that all get their turn.
pub fn select(partition: &Partition, after: Option<TenantId>) -> Slice {
    let mut events = Vec::new();
    let mut explicit = 0;
    let later = partition.tenants.iter().filter(|(tenant, _)| Some(**tenant) > after);
    let earlier = partition.tenants.iter().filter(|(tenant, _)| Some(**tenant) <= after);
    'full: for (tenant, inbox) in later.chain(earlier) {
        for event in inbox.recent.above(inbox.materialised_through) {
            if events.len() >= EVENTS_MAX || explicit >= PAIRS_MAX {
                break 'full;
            }
            if let Audience::Members(users) = &event.audience {
                explicit += users.len();
            }
            let is_forgotten = event.arrival <= inbox.forgotten_through;
            events.push(SliceEvent { tenant: *tenant, event: Arc::clone(event), is_forgotten });
        }
    }
    Slice { partition: partition.id, through: through(&events), events }
}

impl Slice {
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub fn last_tenant(&self) -> Option<TenantId> {
        self.events.last().map(|one| one.tenant)
    }

    /// Finds who gets what. Holds the partition's read lock for one page of a list at a time, and makes the
    /// slice smaller if it grows too large.
    pub fn gather(&mut self, shared: &Shared, partition: &Locked) -> Result<Vec<Pair>, StoreError> {
        let mut pairs = self.explicit_pairs();
        for (list, mut arrivals) in self.by_list() {
            let mut next = Some(UserNo(0));
            while let Some(from) = next {
                arrivals.retain(|arrival| self.holds(list.tenant, *arrival));
                if arrivals.is_empty() {
                    break;
                }
                next = partition.read().pages(&shared.rows, None).visit_page(
                    list,
                    from,
                    &mut |user, stays| {
                        push_member(&mut pairs, list.tenant, user, stays, &arrivals);
                    },
                )?;
                while pairs.len() > PAIRS_MAX && self.events.len() > 1 {
                    self.cut(&mut pairs);
                }
            }
        }
        // Runs of ascending users, one per list: the stable sort merges them.
        pairs.sort();
        Ok(pairs)
    }

    fn explicit_pairs(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for one in self.events.iter().filter(|one| !one.is_forgotten) {
            if let Audience::Members(users) = &one.event.audience {
                let (tenant, arrival) = (one.tenant, one.event.arrival);
                pairs.extend(users.iter().map(|user| Pair { tenant, user: *user, arrival }));
            }
        }
        pairs
    }

    fn by_list(&self) -> BTreeMap<ListKey, Vec<Arrival>> {
        let mut lists: BTreeMap<ListKey, Vec<Arrival>> = BTreeMap::new();
        for one in self.events.iter().filter(|one| !one.is_forgotten) {
            if let Audience::List(list) = &one.event.audience {
                let key = ListKey { tenant: one.tenant, list: ListId(list.0) };
                lists.entry(key).or_default().push(one.event.arrival);
            }
        }
        lists
    }

    /// Gives up the newer half of the events, and the pairs that were found for them.
    fn cut(&mut self, pairs: &mut Vec<Pair>) {
        self.events.truncate(self.events.len() / 2);
        self.through = through(&self.events);
        pairs.retain(|pair| self.holds(pair.tenant, pair.arrival));
    }

    fn holds(&self, tenant: TenantId, arrival: Arrival) -> bool {
        self.through.get(&tenant).is_some_and(|last| arrival <= *last)
    }

    /// Writes the entries, and how far each tenant is now.
    pub fn write(&self, shared: &Shared, pairs: &[Pair]) -> Result<(), StoreError> {
        let rows = pairs.chunk_by(same_user).count() + self.through.len();
        let marks = self.through.iter().map(|(tenant, through)| {
            let mut value = Vec::new();
            put_number(&mut value, through.0);
            (keys::materialised(self.partition, *tenant).into(), Some(value.into()))
        });
        let mut arrivals = Vec::new();
        let entries = pairs.chunk_by(same_user).map(|entries| {
            let Pair { tenant, user, arrival: first } = entries[0];
            arrivals.clear();
            arrivals.extend(entries.iter().map(|pair| pair.arrival));
            let owner = Owner { partition: self.partition, tenant, user };
            let row: Row = (keys::entries(owner, first).into(), Some(encode_slice(&arrivals).into()));
            row
        });
        shared.rows.write(&shared.rows.inbox, rows, marks.chain(entries))
    }
}

fn through(events: &[SliceEvent]) -> BTreeMap<TenantId, Arrival> {
    events.iter().map(|one| (one.tenant, one.event.arrival)).collect()
}

pub fn same_user(one: &Pair, other: &Pair) -> bool {
    (one.tenant, one.user) == (other.tenant, other.user)
}

fn push_member(
    pairs: &mut Vec<Pair>,
    tenant: TenantId,
    user: UserNo,
    stays: &[Interval],
    arrivals: &[Arrival],
) {
    for arrival in arrivals {
        if stays.iter().any(|stay| stay.contains(*arrival)) {
            pairs.push(Pair { tenant, user, arrival: *arrival });
        }
    }
}
