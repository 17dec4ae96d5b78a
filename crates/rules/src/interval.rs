//! Since when, and until when, a user is on a list: arrivals, not times, so that order is exact.
//!
//! An event is inside if its arrival is above `from` and not above `until`: following at arrival 7 shows events
//! from 8 on; leaving at arrival 9 keeps 8 and 9. An interval in which nothing arrived is never kept.

use crate::ids::Arrival;
use crate::limits::INTERVALS_MAX;

/// One stay on a list: `(from, until]`; open while `until` is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    pub from: Arrival,
    pub until: Option<Arrival>,
}

impl Interval {
    #[must_use]
    pub fn contains(&self, arrival: Arrival) -> bool {
        self.from < arrival && self.until.is_none_or(|until| arrival <= until)
    }
}

/// All stays of one user on one list, oldest first, disjoint; at most the last one is open.
#[derive(Clone, Default)]
pub struct Intervals(Stays);

/// Nearly everyone has one stay, and readers look at hundreds of lists: that one needs no memory of its own.
#[derive(Clone)]
enum Stays {
    Few(Option<Interval>),
    Many(Vec<Interval>),
}

impl Default for Stays {
    fn default() -> Self {
        Self::Few(None)
    }
}

impl PartialEq for Intervals {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Intervals {}

impl std::fmt::Debug for Intervals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

impl Intervals {
    /// Intervals as they were stored. `None` if they are not ordered and disjoint.
    #[must_use]
    pub fn from_stored(intervals: &[Interval]) -> Option<Self> {
        let ordered = intervals.windows(2).all(|pair| pair[0].until.is_some_and(|end| end <= pair[1].from));
        let whole = intervals.iter().all(|one| one.until.is_none_or(|until| one.from < until));
        if !ordered || !whole {
            return None;
        }
        Some(Self(match intervals {
            [] => Stays::Few(None),
            [one] => Stays::Few(Some(*one)),
            many => Stays::Many(many.to_vec()),
        }))
    }

    #[must_use]
    pub fn as_slice(&self) -> &[Interval] {
        match &self.0 {
            Stays::Few(one) => one.as_slice(),
            Stays::Many(many) => many,
        }
    }

    fn last_mut(&mut self) -> Option<&mut Interval> {
        match &mut self.0 {
            Stays::Few(one) => one.as_mut(),
            Stays::Many(many) => many.last_mut(),
        }
    }

    fn push(&mut self, interval: Interval) {
        match &mut self.0 {
            Stays::Few(none @ None) => *none = Some(interval),
            Stays::Few(Some(one)) => self.0 = Stays::Many(vec![*one, interval]),
            Stays::Many(many) => many.push(interval),
        }
    }

    fn pop(&mut self) {
        match &mut self.0 {
            Stays::Few(one) => *one = None,
            Stays::Many(many) => drop(many.pop()),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// Whether no further stay can be kept apart; joining again has to wait until old ones pass retention.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.as_slice().len() >= INTERVALS_MAX
    }

    /// Whether joining after `at` continues the last stay, because nothing arrived since it ended.
    #[must_use]
    pub fn would_reopen(&self, at: Arrival) -> bool {
        self.as_slice().last().is_some_and(|last| last.until == Some(at))
    }

    /// Whether the user is on the list now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.as_slice().last().is_some_and(|last| last.until.is_none())
    }

    #[must_use]
    pub fn contains(&self, arrival: Arrival) -> bool {
        let stays = self.as_slice();
        let after = stays.partition_point(|one| one.from < arrival);
        after > 0 && stays[after - 1].contains(arrival)
    }

    /// Joins after `at`. `false` if the user is on the list already.
    pub fn open(&mut self, at: Arrival) -> bool {
        if self.is_open() {
            return false;
        }
        match self.last_mut() {
            // Nothing arrived since the user left: as if the user had never left.
            Some(last) if last.until == Some(at) => last.until = None,
            _ => self.push(Interval { from: at, until: None }),
        }
        true
    }

    /// Leaves after `at`. `false` if the user is not on the list.
    pub fn close(&mut self, at: Arrival) -> bool {
        if !self.is_open() {
            return false;
        }
        let last = self.last_mut().expect("an open interval is the last one");
        if last.from == at {
            self.pop();
        } else {
            last.until = Some(at);
        }
        true
    }

    /// Drops the stays that ended at or before `horizon`: nothing they cover can be read any more.
    pub fn forget_through(&mut self, horizon: Arrival) {
        let is_needed = |one: &Interval| one.until.is_none_or(|until| until > horizon);
        match &mut self.0 {
            Stays::Few(one) => *one = one.filter(is_needed),
            Stays::Many(many) => many.retain(is_needed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the plainest model: a bit per arrival.
        #[test]
        fn intervals_equal_a_bit_per_arrival(steps in proptest::collection::vec((0u8..3, 1u64..4), 0..60)) {
            let (mut intervals, mut model) = (Intervals::default(), Vec::new());
            let (mut now, mut following) = (0u64, false);
            for (step, amount) in steps {
                match step {
                    0 => { prop_assert_eq!(intervals.open(Arrival(now)), !following); following = true; }
                    1 => { prop_assert_eq!(intervals.close(Arrival(now)), following); following = false; }
                    _ => for _ in 0..amount { now += 1; model.push(following); },
                }
            }
            prop_assert_eq!(intervals.is_open(), following);
            for (index, expected) in model.iter().enumerate() {
                let arrival = Arrival(index as u64 + 1);
                prop_assert_eq!(intervals.contains(arrival), *expected, "arrival {}", arrival);
            }
            prop_assert_eq!(Intervals::from_stored(intervals.as_slice()), Some(intervals));
        }
    }

    #[test]
    fn disordered_stored_intervals_are_refused() {
        let at = |from, until: Option<u64>| Interval { from: Arrival(from), until: until.map(Arrival) };
        for bad in [vec![at(1, None), at(5, None)], vec![at(5, Some(9)), at(8, None)], vec![at(4, Some(4))]] {
            assert_eq!(Intervals::from_stored(&bad), None);
        }
    }

    #[test]
    fn forgetting_keeps_what_can_still_be_read() {
        let mut intervals = Intervals::default();
        intervals.open(Arrival(0));
        intervals.close(Arrival(5));
        intervals.open(Arrival(8));
        intervals.forget_through(Arrival(4));
        assert_eq!(intervals.as_slice().len(), 2);
        intervals.forget_through(Arrival(5));
        assert_eq!(intervals.as_slice(), &[Interval { from: Arrival(8), until: None }]);
    }
}
