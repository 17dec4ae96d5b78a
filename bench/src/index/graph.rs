//! The social graph of the index scenarios. Who is on a list and who gets an event are functions of numbers, so
//! that nothing is held in memory while something else is measured, and any count can be computed again.

use crate::event::spread;
use fantail_ports::inbox::{Audience, Followed};
use fantail_rules::ids::{Arrival, ListId, UserNo};
use fantail_rules::interval::Intervals;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A list of a power law has at most one in so many of all users.
const SHARE_MAX: u64 = 10;
/// The exponent of the power law: a few lists are huge, and the mean is still reached.
const ALPHA: f64 = 1.5;
/// Readers out of 1,000 who follow very many lists, and how many the others follow; 400 is the mean of both.
const AVID_PER_MILLE: u64 = 10;
const AVID_FOLLOWS: u64 = 5_000;
const USUAL_FOLLOWS: u64 = 354;
/// Lists of strangers for each list of the graph, while any list posts: in a network of millions of authors, few of
/// the newest events are for one reader, and the rest of a page comes out of the runs.
const STRANGERS: u64 = 100;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Graph {
    pub users: u64,
    /// Lists whose owners post while fan-out is measured.
    pub lists: u64,
    pub sizes: Sizes,
    /// Users who follow 400 lists on average; everybody else is on as many as the lists make them.
    pub readers: u64,
    /// Further lists that only readers are on.
    pub side_lists: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Sizes {
    Equal(u64),
    /// With this mean.
    PowerLaw(u64),
}

impl Graph {
    pub fn all_lists(&self) -> u64 {
        self.lists + self.side_lists
    }

    /// Ascending and different. A few less than the size says, where two draws met.
    pub fn members(&self, list: u64) -> Vec<u64> {
        let drawn = if list < self.lists { self.size(list) } else { 0 };
        let mut members: Vec<u64> = (0..drawn).map(|at| spread(list << 32 | at) % self.users).collect();
        members.extend((0..self.readers).filter(|at| self.reads(*at, list)).map(|at| self.reader(at)));
        members.sort_unstable();
        members.dedup();
        members
    }

    fn size(&self, list: u64) -> u64 {
        match self.sizes {
            Sizes::Equal(size) => size,
            Sizes::PowerLaw(mean) => {
                let least = mean as f64 * (ALPHA - 1.0) / ALPHA;
                let uniform = (spread(!list) >> 11) as f64 / (1_u64 << 53) as f64;
                let size = least / (1.0 - uniform).powf(1.0 / ALPHA);
                (size as u64).clamp(1, (self.users / SHARE_MAX).max(1))
            }
        }
    }

    /// The user that the reader of this number is.
    pub fn reader(&self, at: u64) -> u64 {
        at * (self.users / self.readers.max(1))
    }

    fn reads(&self, reader: u64, list: u64) -> bool {
        let is_avid = spread(reader) % 1_000 < AVID_PER_MILLE;
        let follows = if is_avid { AVID_FOLLOWS } else { USUAL_FOLLOWS };
        spread(reader << 32 | list) % self.all_lists() < follows
    }

    /// The numbers of the lists that each of these users is on, ascending.
    pub fn lists_of(&self, users: &[u64]) -> Vec<Vec<u64>> {
        let mut found = vec![Vec::new(); users.len()];
        for list in 0..self.all_lists() {
            let members = self.members(list);
            for (lists, user) in found.iter_mut().zip(users) {
                if members.binary_search(user).is_ok() {
                    lists.push(list);
                }
            }
        }
        found
    }

    /// Users to check, all of them on a list.
    pub fn sample(&self, count: u64) -> Vec<u64> {
        let chosen = (0..count).filter_map(|at| {
            let members = self.members(spread(at) % self.lists.max(1));
            members.get(spread(!at) as usize % members.len().max(1)).copied()
        });
        let mut users: Vec<u64> = chosen.collect();
        users.sort_unstable();
        users.dedup();
        users
    }
}

pub fn list_id(list: u64) -> ListId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&spread(list).to_be_bytes());
    id[8..].copy_from_slice(&spread(!list).to_be_bytes());
    ListId(id).with_kind(false)
}

/// What a reader of these lists hands to the port.
pub fn follows(lists: &[u64]) -> Vec<Followed> {
    let mut follows: Vec<Followed> =
        lists.iter().map(|list| Followed { list: list_id(*list), intervals: since_ever() }).collect();
    follows.sort_unstable_by_key(|followed| followed.list);
    follows
}

pub fn since_ever() -> Intervals {
    let mut intervals = Intervals::default();
    intervals.open(Arrival::START);
    intervals
}

/// Who posts: the event of every arrival.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub graph: Graph,
    pub posting: Posting,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Posting {
    /// The posting lists one after the other; between two arrivals any list, also side lists and
    /// strangers' lists that nobody here is on.
    Lists { any: Option<(u64, u64)> },
    /// So many users each, named in the event.
    Explicit { users: u64 },
}

impl Plan {
    pub fn audience(&self, arrival: u64) -> Audience {
        match self.posting {
            Posting::Lists { .. } => Audience::List(list_id(self.list_of(arrival))),
            Posting::Explicit { .. } => {
                Audience::Members(self.named(arrival).into_iter().map(UserNo).collect())
            }
        }
    }

    /// Only where events go to lists.
    pub fn list_of(&self, arrival: u64) -> u64 {
        match self.posting {
            Posting::Lists { any: Some((from, to)) } if from <= arrival && arrival <= to => {
                spread(arrival) % (self.graph.all_lists() * STRANGERS)
            }
            Posting::Lists { .. } | Posting::Explicit { .. } => (arrival - 1) % self.graph.lists,
        }
    }

    fn named(&self, arrival: u64) -> Vec<u64> {
        let Posting::Explicit { users } = self.posting else { return Vec::new() };
        let mut named: Vec<u64> =
            (0..users).map(|at| spread(arrival * users + at) % self.graph.users).collect();
        named.sort_unstable();
        named.dedup();
        named
    }

    /// Users to check.
    pub fn sample(&self, count: u64) -> Vec<u64> {
        match self.posting {
            Posting::Lists { .. } => self.graph.sample(count),
            Posting::Explicit { .. } => {
                let mut users: Vec<u64> = (1..=count).flat_map(|arrival| self.named(arrival)).collect();
                users.sort_unstable();
                users.dedup();
                users.truncate(count as usize);
                users
            }
        }
    }

    /// How many of the first `through` events each of these users has. `lists` are theirs, from the graph.
    pub fn counts(&self, users: &[u64], lists: &[Vec<u64>], through: u64) -> Vec<u64> {
        match self.posting {
            Posting::Lists { .. } => {
                let mut posts = vec![0; self.graph.all_lists() as usize];
                for arrival in 1..=through {
                    if let Some(posts) = posts.get_mut(self.list_of(arrival) as usize) {
                        *posts += 1;
                    }
                }
                let count = |lists: &Vec<u64>| lists.iter().map(|list| posts[*list as usize]).sum();
                lists.iter().map(count).collect()
            }
            Posting::Explicit { .. } => {
                let places: HashMap<u64, usize> = users.iter().copied().zip(0..).collect();
                let mut counts = vec![0; users.len()];
                for user in (1..=through).flat_map(|arrival| self.named(arrival)) {
                    if let Some(at) = places.get(&user) {
                        counts[*at] += 1;
                    }
                }
                counts
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(sizes: Sizes) -> Graph {
        Graph { users: 100_000, lists: 300, sizes, readers: 0, side_lists: 0 }
    }

    #[test]
    fn members_ascend_and_the_mean_is_met() {
        for (sizes, mean) in [(Sizes::Equal(100), 100), (Sizes::PowerLaw(200), 200)] {
            let graph = Graph { lists: 5_000, ..graph(sizes) };
            let mut all = 0;
            for list in 0..graph.lists {
                let members = graph.members(list);
                assert!(members.windows(2).all(|pair| pair[0] < pair[1]));
                all += members.len() as u64;
            }
            let found = all / graph.lists;
            assert!(found * 10 >= mean * 7 && found * 10 <= mean * 13, "{sizes:?}: {found}");
        }
    }

    #[test]
    fn readers_follow_400_lists_on_average() {
        let graph = Graph { readers: 500, side_lists: 9_900, lists: 100, ..graph(Sizes::Equal(10)) };
        let users: Vec<u64> = (0..graph.readers).map(|at| graph.reader(at)).collect();
        let lists = graph.lists_of(&users);
        let mean = lists.iter().map(Vec::len).sum::<usize>() / lists.len();
        assert!((330..=470).contains(&mean), "{mean}");
    }

    #[test]
    fn counts_are_what_was_posted() {
        let lists =
            Plan { graph: graph(Sizes::Equal(500)), posting: Posting::Lists { any: Some((700, 900)) } };
        let explicit = Plan { posting: Posting::Explicit { users: 40 }, ..lists };
        for plan in [lists, explicit] {
            let users = plan.sample(20);
            let followed = plan.graph.lists_of(&users);
            let mut expected = vec![0; users.len()];
            for arrival in 1..=1_000 {
                let members = match plan.audience(arrival) {
                    Audience::List(_) => plan.graph.members(plan.list_of(arrival)),
                    Audience::Members(users) => users.into_iter().map(|user| user.0).collect(),
                };
                for (count, user) in expected.iter_mut().zip(&users) {
                    *count += u64::from(members.contains(user));
                }
            }
            assert!(expected.iter().sum::<u64>() > 0);
            assert_eq!(plan.counts(&users, &followed, 1_000), expected);
        }
    }
}
