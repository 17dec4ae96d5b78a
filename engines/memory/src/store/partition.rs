//! One partition as plain maps. Reads are written for plainness, not for speed.

use crate::hash::hash_parts;
use fantail_ports::inbox::{ArrivalRange, Audience, Forget, Inbox, Reader};
use fantail_ports::lists::{ListKey, Lists, Member};
use fantail_ports::store::Commit;
use fantail_ports::tables::{KeyRange, Order, Read, Tables, TablesError, Visit};
use fantail_rules::ids::{Arrival, Position, TenantId, UserNo};
use fantail_rules::interval::Intervals;
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Partition {
    pub position: Position,
    pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
    pub lists: BTreeMap<ListKey, BTreeMap<UserNo, Intervals>>,
    pub events: BTreeMap<(TenantId, Arrival), Audience>,
    digest: u128,
}

impl Partition {
    /// An empty partition at a position.
    pub fn at(position: Position) -> Self {
        Self { position, ..Self::default() }
    }

    pub fn fold(&mut self, commit: Commit) {
        assert!(commit.through > self.position, "commits of a partition ascend");
        self.position = commit.through;
        for (key, to) in commit.changes {
            self.set_row(key, to);
        }
        for edit in commit.edits {
            let members = self.lists.entry(edit.key).or_default();
            if edit.intervals.is_empty() {
                members.remove(&edit.user);
            } else {
                members.insert(edit.user, edit.intervals);
            }
        }
        for window in commit.windows {
            for event in window.events {
                let mut newest =
                    self.events.range((window.tenant, Arrival(0))..=(window.tenant, Arrival(u64::MAX)));
                let newest = newest.next_back().map_or(Arrival::START, |((_, arrival), _)| *arrival);
                assert!(event.arrival > newest, "arrivals of a tenant ascend");
                self.events.insert((window.tenant, event.arrival), event.audience);
            }
        }
        for forget in commit.forgets {
            self.forget(&forget);
        }
    }

    pub fn set_row(&mut self, key: Vec<u8>, to: Option<Vec<u8>>) {
        if let Some(to) = &to {
            self.digest = self.digest.wrapping_add(hash_parts(&[&key, to]));
        }
        let before = match to {
            Some(to) => self.rows.insert(key.clone(), to),
            None => self.rows.remove(&key),
        };
        if let Some(before) = before {
            self.digest = self.digest.wrapping_sub(hash_parts(&[&key, &before]));
        }
    }

    pub fn digest(&self) -> u128 {
        self.digest
    }

    fn forget(&mut self, forget: &Forget) {
        match forget {
            Forget::Through { tenant, arrival } => {
                self.events.retain(|(of, at), _| of != tenant || at > arrival);
            }
            Forget::User { tenant, user } => {
                let own = self.events.range_mut((*tenant, Arrival(0))..=(*tenant, Arrival(u64::MAX)));
                for (_, audience) in own {
                    if let Audience::Members(users) = audience {
                        users.retain(|one| one != user);
                    }
                }
            }
        }
    }

    /// The reader's arrivals inside `range`, ascending: every event of the range is asked in turn.
    fn arrivals<'a>(
        &'a self,
        reader: &'a Reader<'a>,
        range: ArrivalRange,
    ) -> impl DoubleEndedIterator<Item = Arrival> + 'a {
        let (from, to) = (range.after.0.saturating_add(1), range.before.0);
        let bounds = (reader.tenant, Arrival(from.min(to)))..(reader.tenant, Arrival(to));
        let addressed = self.events.range(bounds);
        let addressed = addressed.filter(|((_, at), audience)| is_addressed(reader, *at, audience));
        addressed.map(|((_, arrival), _)| *arrival)
    }
}

fn is_addressed(reader: &Reader<'_>, arrival: Arrival, audience: &Audience) -> bool {
    match audience {
        Audience::Members(users) => users.contains(&reader.user),
        Audience::List(list) => {
            reader.follows.iter().any(|follow| follow.list == *list && follow.intervals.contains(arrival))
        }
    }
}

impl Tables for Partition {
    fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        visit(self.rows.get(key).map(Vec::as_slice));
        Ok(())
    }

    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        if range.from >= range.to {
            return Ok(());
        }
        let mut rows = self.rows.range::<[u8], _>((Bound::Included(range.from), Bound::Excluded(range.to)));
        let visit = |(key, value): (&Vec<u8>, &Vec<u8>)| visit(key, value).is_break();
        match order {
            Order::Ascending => rows.any(visit),
            Order::Descending => rows.rev().any(visit),
        };
        Ok(())
    }
}

impl Lists for Partition {
    fn members(
        &self,
        list: ListKey,
        after: Option<UserNo>,
        limit: usize,
    ) -> Result<Vec<Member>, TablesError> {
        let Some(members) = self.lists.get(&list) else { return Ok(Vec::new()) };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let page = members.range((from, Bound::Unbounded)).take(limit);
        Ok(page.map(|(user, intervals)| Member { user: *user, intervals: intervals.clone() }).collect())
    }
}

impl Inbox for Partition {
    fn page(
        &self,
        reader: &Reader<'_>,
        range: ArrivalRange,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<Arrival>, TablesError> {
        let arrivals = self.arrivals(reader, range);
        Ok(if newest_first { arrivals.rev().take(limit).collect() } else { arrivals.take(limit).collect() })
    }

    fn count(&self, reader: &Reader<'_>, range: ArrivalRange) -> Result<u64, TablesError> {
        Ok(self.arrivals(reader, range).count() as u64)
    }
}
