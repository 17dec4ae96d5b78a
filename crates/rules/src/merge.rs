//! Newest first (or oldest first) over several sorted sources: inbox entries and the pointers of each list.
//!
//! Comes from: the inbox reader, which fetched a stretch of each source. Decides: which arrivals form the next
//! stretch of the page. Goes to: the reader's filter.
//!
//! What must never happen: an arrival shown although a source might still hold one that belongs before it. The
//! merge therefore stops at the first place where a source that has more runs out.

use crate::ids::Arrival;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    NewestFirst,
    OldestFirst,
}

/// A stretch of one source, sorted in the page's direction.
#[derive(Clone, Debug)]
pub struct Source {
    pub arrivals: Vec<Arrival>,
    /// There is nothing beyond these. Otherwise there is at least one arrival here.
    pub exhausted: bool,
}

impl Source {
    /// What a fetch of up to `limit` arrivals found: fewer than asked for means that there are no more.
    #[must_use]
    pub fn fetched(arrivals: Vec<Arrival>, limit: usize) -> Self {
        let exhausted = arrivals.len() < limit;
        Self { arrivals, exhausted }
    }
}

/// The merged stretch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Merged {
    pub arrivals: Vec<Arrival>,
    /// Where to fetch on from; `None` if every source is exhausted.
    pub resume: Option<Arrival>,
}

#[must_use]
pub fn merge(direction: Direction, sources: &[Source]) -> Merged {
    let resume = boundary(direction, sources);
    let mut arrivals: Vec<Arrival> =
        sources.iter().flat_map(|source| source.arrivals.iter().copied()).collect();
    if let Some(end) = resume {
        arrivals.retain(|arrival| match direction {
            Direction::NewestFirst => *arrival >= end,
            Direction::OldestFirst => *arrival <= end,
        });
    }
    match direction {
        Direction::NewestFirst => arrivals.sort_unstable_by(|a, b| b.cmp(a)),
        Direction::OldestFirst => arrivals.sort_unstable(),
    }
    arrivals.dedup();
    Merged { arrivals, resume }
}

/// The last arrival up to which all sources are known: the nearest end among those that have more.
fn boundary(direction: Direction, sources: &[Source]) -> Option<Arrival> {
    let ends = sources.iter().filter(|source| !source.exhausted).map(|source| {
        *source.arrivals.last().expect("a source that has more was fetched with at least one arrival")
    });
    match direction {
        Direction::NewestFirst => ends.max(),
        Direction::OldestFirst => ends.min(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Fetches up to `chunk` arrivals strictly beyond the cursor.
    fn fetch(all: &BTreeSet<u64>, direction: Direction, beyond: Option<Arrival>, chunk: usize) -> Source {
        let wanted = |value: &&u64| match (direction, beyond) {
            (_, None) => true,
            (Direction::NewestFirst, Some(end)) => **value < end.0,
            (Direction::OldestFirst, Some(end)) => **value > end.0,
        };
        let mut found: Vec<Arrival> = match direction {
            Direction::NewestFirst => all.iter().rev().filter(wanted).map(|v| Arrival(*v)).collect(),
            Direction::OldestFirst => all.iter().filter(wanted).map(|v| Arrival(*v)).collect(),
        };
        let exhausted = found.len() <= chunk;
        found.truncate(chunk);
        Source { arrivals: found, exhausted }
    }

    fn walk(sources: &[BTreeSet<u64>], direction: Direction, chunk: usize) -> Vec<u64> {
        let (mut shown, mut cursor) = (Vec::new(), None);
        loop {
            let stretches: Vec<Source> =
                sources.iter().map(|all| fetch(all, direction, cursor, chunk)).collect();
            let merged = merge(direction, &stretches);
            shown.extend(merged.arrivals.iter().map(|arrival| arrival.0));
            match merged.resume {
                Some(resume) => cursor = Some(resume),
                None => return shown,
            }
        }
    }

    // proves: FAN-04, INB-04
    proptest! {
        #[test]
        fn paging_in_any_chunks_shows_the_sorted_union_once(
            sources in proptest::collection::vec(proptest::collection::btree_set(1u64..300, 0..40), 1..6),
            chunk in 1usize..7,
        ) {
            let union: BTreeSet<u64> = sources.iter().flatten().copied().collect();
            let ascending: Vec<u64> = union.iter().copied().collect();
            let descending: Vec<u64> = union.iter().rev().copied().collect();
            prop_assert_eq!(walk(&sources, Direction::NewestFirst, chunk), descending);
            prop_assert_eq!(walk(&sources, Direction::OldestFirst, chunk), ascending);
        }

        /// Arrivals that come in while somebody pages are all newer than the cursor, however old their ULIDs are:
        /// a page never loses or repeats an older one.
        #[test]
        fn inserts_while_paging_hide_nothing(
            first in proptest::collection::btree_set(1u64..200, 1..60),
            late in proptest::collection::vec(1usize..5, 0..20),
            chunk in 1usize..5,
        ) {
            let (mut all, mut shown, mut cursor) = (first.clone(), Vec::new(), None);
            let mut late = late.into_iter();
            loop {
                let merged = merge(Direction::NewestFirst, &[fetch(&all, Direction::NewestFirst, cursor, chunk)]);
                shown.extend(merged.arrivals.iter().map(|arrival| arrival.0));
                for _ in 0..late.next().unwrap_or(0) {
                    let newest = *all.last().expect("never empty");
                    all.insert(newest + 1);
                }
                match merged.resume { Some(resume) => cursor = Some(resume), None => break }
            }
            let expected: Vec<u64> = first.iter().rev().copied().collect();
            prop_assert_eq!(shown, expected);
        }
    }
}
