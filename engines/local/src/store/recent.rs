//! The events of one tenant whose entries are not materialised yet, found through lists and explicit users.
//!
//! A reader sees an event here or in a run, by one number: above `materialised_through` it is here. What must
//! never happen: an event in both places, or in neither.

use crate::spread::BySpread;
use fantail_ports::inbox::{ArrivalRange, Audience, Followed, WindowEvent};
use fantail_rules::ids::{Arrival, ListId, UserNo};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

#[derive(Default)]
pub struct Recent {
    /// Ascending by arrival.
    events: VecDeque<Arc<WindowEvent>>,
    by_list: Index<ListId>,
    by_user: Index<UserNo>,
    /// Explicit pairs, because they cost memory here.
    explicit: usize,
}

impl Recent {
    pub fn push(&mut self, event: WindowEvent) {
        let newest = self.events.back().map_or(Arrival::START, |newest| newest.arrival);
        assert!(event.arrival > newest, "arrivals of a tenant ascend");
        match &event.audience {
            Audience::List(list) => self.by_list.entry(*list).or_default().push_back(event.arrival),
            Audience::Members(users) => {
                self.explicit += users.len();
                for user in users {
                    self.by_user.entry(*user).or_default().push_back(event.arrival);
                }
            }
        }
        self.events.push_back(Arc::new(event));
    }

    /// Forgets up to `limit` of the events at or below `arrival`: they are in a run now. Returns whether more are.
    pub fn drop_some(&mut self, arrival: Arrival, limit: usize) -> bool {
        for _ in 0..limit {
            let Some(event) = self.events.pop_front_if(|event| event.arrival <= arrival) else {
                return false;
            };
            match &event.audience {
                Audience::List(list) => drop_oldest(&mut self.by_list, list, event.arrival),
                Audience::Members(users) => {
                    self.explicit -= users.len();
                    users.iter().for_each(|user| drop_oldest(&mut self.by_user, user, event.arrival));
                }
            }
        }
        self.events.front().is_some_and(|event| event.arrival <= arrival)
    }

    /// Takes one user out of every explicit audience.
    pub fn forget_user(&mut self, user: UserNo) {
        for arrival in self.by_user.remove(&user).unwrap_or_default() {
            let at = self.events.partition_point(|event| event.arrival < arrival);
            let event = Arc::make_mut(&mut self.events[at]);
            if let Audience::Members(users) = &mut event.audience {
                users.retain(|one| *one != user);
                self.explicit -= 1;
            }
        }
    }

    /// The reader's arrivals inside `range`, ascending. Walks the follows or the lists, whichever are fewer.
    pub fn arrivals(&self, user: UserNo, follows: &[Followed], range: ArrivalRange) -> Vec<Arrival> {
        let mut found: Vec<Arrival> = Vec::new();
        if let Some(arrivals) = self.by_user.get(&user) {
            found.extend(arrivals.iter().filter(|arrival| range.contains(**arrival)));
        }
        let mut take = |follow: &Followed, arrivals: &VecDeque<Arrival>| {
            let inside =
                |arrival: &&Arrival| range.contains(**arrival) && follow.intervals.contains(**arrival);
            found.extend(arrivals.iter().filter(inside));
        };
        if follows.len() <= self.by_list.len() {
            for follow in follows {
                if let Some(arrivals) = self.by_list.get(&follow.list) {
                    take(follow, arrivals);
                }
            }
        } else {
            for (list, arrivals) in &self.by_list {
                if let Ok(at) = follows.binary_search_by_key(list, |follow| follow.list) {
                    take(&follows[at], arrivals);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// Events above `arrival`, oldest first.
    pub fn above(&self, arrival: Arrival) -> impl Iterator<Item = &Arc<WindowEvent>> {
        self.events.range(self.events.partition_point(|event| event.arrival <= arrival)..)
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn explicit_pairs(&self) -> usize {
        self.explicit
    }
}

/// Readers ask for every list they follow, so a question must cost a few nanoseconds.
type Index<K> = HashMap<K, VecDeque<Arrival>, BySpread>;

fn drop_oldest<K: std::hash::Hash + Eq>(index: &mut Index<K>, key: &K, arrival: Arrival) {
    let Some(arrivals) = index.get_mut(key) else { return };
    arrivals.pop_front_if(|oldest| *oldest == arrival);
    if arrivals.is_empty() {
        index.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::interval::Intervals;

    fn event(arrival: u64, audience: Audience) -> WindowEvent {
        WindowEvent { arrival: Arrival(arrival), audience }
    }

    fn all() -> ArrivalRange {
        ArrivalRange { after: Arrival(0), before: Arrival(u64::MAX) }
    }

    fn following(list: ListId, from: u64) -> Followed {
        let mut intervals = Intervals::default();
        intervals.open(Arrival(from));
        Followed { list, intervals }
    }

    #[test]
    fn both_sides_of_the_walk_find_the_same() {
        let mut recent = Recent::default();
        for arrival in 1..=40u64 {
            recent.push(event(arrival, Audience::List(ListId([arrival as u8 % 20; 16]))));
        }
        let few = vec![following(ListId([3; 16]), 10)];
        let many: Vec<_> =
            (0..60).map(|byte| following(ListId([byte; 16]), if byte == 3 { 10 } else { 40 })).collect();
        assert_eq!(recent.arrivals(UserNo(1), &few, all()), [Arrival(23)]);
        assert_eq!(recent.arrivals(UserNo(1), &many, all()), [Arrival(23)]);
    }

    #[test]
    fn dropped_and_forgotten_leave_nothing_behind() {
        let mut recent = Recent::default();
        recent.push(event(1, Audience::Members(vec![UserNo(4), UserNo(5)])));
        recent.push(event(3, Audience::List(ListId([1; 16]))));
        recent.push(event(4, Audience::Members(vec![UserNo(4), UserNo(6)])));
        assert_eq!(recent.arrivals(UserNo(4), &[], all()), [Arrival(1), Arrival(4)]);
        assert!(!recent.drop_some(Arrival(3), 9));
        assert_eq!(recent.arrivals(UserNo(4), &[], all()), [Arrival(4)]);
        recent.forget_user(UserNo(4));
        assert_eq!(recent.arrivals(UserNo(4), &[], all()), []);
        assert_eq!((recent.len(), recent.explicit_pairs()), (1, 1));
        assert!(!recent.drop_some(Arrival(9), 1));
        assert!(recent.by_list.is_empty() && recent.by_user.is_empty());
        assert_eq!((recent.len(), recent.explicit_pairs()), (0, 0));
    }
}
