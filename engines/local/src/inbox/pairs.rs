//! Transposition: pairs of (event, user), found event by event, leave sorted user by user.
//!
//! Users are taken 65,536 at a time, and a window spans at most 65,536 arrivals, so a pair is one 32-bit number:
//! the user's low half above the arrival's offset. Follower lists are sorted, so pairs of one list go to one
//! bucket after the other; each bucket is then radix-sorted by itself, which mostly happens in the cache.

use super::segment::{Joined, SEGMENT_ENTRIES_MAX};
use super::writer::RunWriter;
use fantail_ports::store::StoreError;
use fantail_rules::ids::UserNo;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Arrivals that one window may span.
pub const SPAN_MAX: u64 = 1 << 16;
const LOW_BITS: u32 = 16;
const LOW_MASK: u64 = 0xffff;

/// Memory of pairs that were written, for the next ones: the operating system clears every page that it hands out.
#[derive(Default)]
pub struct Spares(Mutex<Vec<Vec<u32>>>);

/// Buckets that are kept: those of about 30 million users.
const SPARES_MAX: usize = 512;

impl Spares {
    fn take(&self) -> Vec<u32> {
        self.lock().pop().unwrap_or_default()
    }

    fn give_back(&self, mut pairs: Vec<u32>) {
        pairs.clear();
        let mut spares = self.lock();
        if spares.len() < SPARES_MAX {
            spares.push(pairs);
        }
    }

    /// Nothing is to be written now.
    pub fn release(&self) {
        *self.lock() = Vec::new();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Pairs<'a> {
    spares: &'a Spares,
    /// By the high bits of the user.
    buckets: BTreeMap<u64, Vec<u32>>,
    /// The bucket that was written to last, out of the map.
    current: (u64, Vec<u32>),
    count: usize,
}

impl<'a> Pairs<'a> {
    pub fn new(spares: &'a Spares) -> Self {
        Self { spares, buckets: BTreeMap::new(), current: (0, Vec::new()), count: 0 }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds a user's pairs; an offset is an arrival above the window's first possible one.
    #[inline]
    pub fn push(&mut self, user: u64, offsets: &[u16]) {
        if user >> LOW_BITS != self.current.0 {
            self.turn_to(user >> LOW_BITS);
        }
        let high = ((user & LOW_MASK) as u32) << LOW_BITS;
        self.current.1.extend(offsets.iter().map(|offset| high | u32::from(*offset)));
        self.count += offsets.len();
    }

    /// Adds the pairs of ascending users, the same for each.
    pub fn push_all(&mut self, users: &[UserNo], offsets: &[u16]) {
        for users in users.chunk_by(|one, other| one.0 >> LOW_BITS == other.0 >> LOW_BITS) {
            self.turn_to(users[0].0 >> LOW_BITS);
            let high = |user: &UserNo| ((user.0 & LOW_MASK) as u32) << LOW_BITS;
            let pairs = &mut self.current.1;
            match offsets {
                [offset] => pairs.extend(users.iter().map(|user| high(user) | u32::from(*offset))),
                _ => users.iter().for_each(|user| {
                    let high = high(user);
                    pairs.extend(offsets.iter().map(|offset| high | u32::from(*offset)));
                }),
            }
            self.count += users.len() * offsets.len();
        }
    }

    fn turn_to(&mut self, bucket: u64) {
        if bucket == self.current.0 {
            return;
        }
        let next = self.buckets.remove(&bucket).unwrap_or_else(|| self.spares.take());
        let (left, pairs) = std::mem::replace(&mut self.current, (bucket, next));
        if !pairs.is_empty() {
            self.buckets.insert(left, pairs);
        } else if pairs.capacity() > 0 {
            self.spares.give_back(pairs);
        }
    }

    /// The number below which about half of the pairs lie; above `from`, so that something stays.
    pub fn middle(&mut self, from: u64) -> u64 {
        self.turn_to(u64::MAX);
        let mut below = 0;
        let mut at = from;
        for (bucket, pairs) in &self.buckets {
            below += pairs.len();
            if below * 2 >= self.count {
                let first = bucket << LOW_BITS;
                if first > from && below - pairs.len() > self.count / 4 {
                    return first;
                }
                at = middle_of(pairs, first);
                break;
            }
        }
        at.max(from + 1)
    }

    /// Forgets the pairs of this user and all above.
    pub fn keep_users_below(&mut self, user: u64) {
        self.turn_to(u64::MAX);
        let bucket = user >> LOW_BITS;
        let mut above = self.buckets.split_off(&bucket);
        if let Some(mut pairs) = above.remove(&bucket) {
            pairs.retain(|pair| u64::from(pair >> LOW_BITS) < user & LOW_MASK);
            self.buckets.insert(bucket, pairs);
        }
        self.count = self.buckets.values().map(Vec::len).sum();
    }

    /// Forgets the pairs above an offset.
    pub fn keep_offsets_through(&mut self, offset: u16) {
        self.turn_to(u64::MAX);
        for pairs in self.buckets.values_mut() {
            pairs.retain(|pair| *pair as u16 <= offset);
        }
        self.count = self.buckets.values().map(Vec::len).sum();
    }

    /// Sorts everything and writes it behind what the section has.
    pub fn write(mut self, writer: &mut RunWriter<'_>) -> Result<(), StoreError> {
        self.turn_to(u64::MAX);
        let (mut spare, mut joined) = (Vec::new(), Joined::default());
        for (bucket, mut pairs) in std::mem::take(&mut self.buckets) {
            sort(&mut pairs, &mut spare);
            for entries in pairs.chunk_by(|one, other| one >> LOW_BITS == other >> LOW_BITS) {
                let user = bucket << LOW_BITS | u64::from(entries[0] >> LOW_BITS);
                for part in entries.chunks(SEGMENT_ENTRIES_MAX as usize) {
                    joined.clear();
                    part.iter().for_each(|pair| joined.push(u64::from(*pair as u16) + 1));
                    writer.push(user, &joined)?;
                }
            }
            self.spares.give_back(pairs);
        }
        Ok(())
    }
}

fn middle_of(pairs: &[u32], first: u64) -> u64 {
    let mut counts = [0usize; 256];
    for pair in pairs {
        counts[(pair >> 24) as usize] += 1;
    }
    let mut below = 0;
    for (high, count) in counts.iter().enumerate() {
        below += count;
        if below * 2 >= pairs.len() {
            return first + ((high as u64) << 8).max(1);
        }
    }
    first + 1
}

const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Below this many, comparing is faster than counting.
const RADIX_MIN: usize = 2_048;

/// Sorts ascending. Least significant digit first; a digit that all have in common costs nothing.
pub fn sort(pairs: &mut Vec<u32>, spare: &mut Vec<u32>) {
    if pairs.len() < RADIX_MIN {
        pairs.sort_unstable();
        return;
    }
    let mut counts = [[0u32; DIGITS]; 3];
    for pair in pairs.iter() {
        counts[0][*pair as usize & (DIGITS - 1)] += 1;
        counts[1][(*pair >> DIGIT_BITS) as usize & (DIGITS - 1)] += 1;
        counts[2][(*pair >> (2 * DIGIT_BITS)) as usize] += 1;
    }
    spare.clear();
    spare.resize(pairs.len(), 0);
    for (digit, counts) in counts.iter_mut().enumerate() {
        let shift = DIGIT_BITS * digit as u32;
        if counts[(pairs[0] >> shift) as usize & (DIGITS - 1)] as usize == pairs.len() {
            continue;
        }
        let mut at = 0;
        for count in counts.iter_mut() {
            at += std::mem::replace(count, at);
        }
        for pair in pairs.iter() {
            let next = &mut counts[(*pair >> shift) as usize & (DIGITS - 1)];
            spare[*next as usize] = *pair;
            *next += 1;
        }
        std::mem::swap(pairs, spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scrambled(count: u32, mask: u32) -> Vec<u32> {
        (0..count).map(|index| index.wrapping_mul(0x9e37_79b9) & mask).collect()
    }

    #[test]
    fn sorting_sorts() {
        for count in [0, 1, 100, 2_048, 5_000, 70_000] {
            for mask in [u32::MAX, 0xffff, 0xffff_0000, 0x0070_0700, 0] {
                let mut pairs = scrambled(count, mask);
                let mut expected = pairs.clone();
                expected.sort_unstable();
                sort(&mut pairs, &mut Vec::new());
                assert!(pairs == expected, "{count} numbers masked with {mask:x}");
            }
        }
    }

    fn all(pairs: &mut Pairs<'_>) -> Vec<(u64, u16)> {
        pairs.turn_to(u64::MAX);
        let mut all: Vec<_> = pairs
            .buckets
            .iter()
            .flat_map(|(bucket, pairs)| {
                pairs.iter().map(move |pair| (bucket << 16 | u64::from(pair >> 16), *pair as u16))
            })
            .collect();
        all.sort_unstable();
        assert_eq!(all.len(), pairs.count());
        all
    }

    proptest! {
        #[test]
        fn cutting_keeps_what_it_says(
            users in proptest::collection::vec((0u64..300_000, 0u16..500), 2..300),
            offset in 0u16..500,
        ) {
            let spares = Spares::default();
            let mut pairs = Pairs::new(&spares);
            users.iter().for_each(|(user, offset)| pairs.push(*user, &[*offset]));
            let mut expected = users;
            expected.sort_unstable();
            prop_assert_eq!(&all(&mut pairs), &expected);
            pairs.keep_offsets_through(offset);
            expected.retain(|pair| pair.1 <= offset);
            prop_assert_eq!(&all(&mut pairs), &expected);
            let middle = pairs.middle(0);
            prop_assert!(middle > 0);
            pairs.keep_users_below(middle);
            let before = expected.len();
            expected.retain(|pair| pair.0 < middle);
            prop_assert_eq!(&all(&mut pairs), &expected);
            prop_assert!(before == 0 || middle == 1 || expected.len() < before || before < 3);
        }
    }
}
