//! A segment: some entries of one user, arrivals ascending, packed.
//!
//! ```text
//! segment  head first                     one entry
//!          head first count−2 gap*        more; head = (user − previous user) × 2, + 1 if there are more
//! ```
//! `first` counts from the section's base; a gap is the distance to the arrival before, minus 1. The gaps of a
//! segment mean the same wherever it is copied to: merging moves them without looking.

use super::numbers::{length_of, put, take};

/// Entries of one segment: bounds a block, whatever one user has.
pub const SEGMENT_ENTRIES_MAX: u64 = 2_048;

/// A segment inside its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    pub user: u64,
    /// Above the section's base.
    pub first: u64,
    pub count: u64,
    gaps: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Takes the next segment off a block; `previous` is the user before. `None` if the bytes are not one.
    #[inline]
    pub fn take(bytes: &mut &'a [u8], previous: u64) -> Option<Self> {
        let head = take(bytes)?;
        let user = previous.checked_add(head >> 1)?;
        let first = take(bytes)?;
        if head & 1 == 0 {
            return Some(Self { user, first, count: 1, gaps: &[] });
        }
        let more = take(bytes)?.checked_add(1).filter(|more| *more < SEGMENT_ENTRIES_MAX)?;
        let (gaps, rest) = bytes.split_at(length_of(bytes, more)?);
        *bytes = rest;
        Some(Self { user, first, count: more + 1, gaps })
    }

    /// The arrivals above the base, ascending. `None` at the end if they do not fit a number.
    #[inline]
    pub fn offsets(&self) -> impl Iterator<Item = u64> + 'a {
        let (mut gaps, mut next) = (self.gaps, Some(self.first));
        std::iter::from_fn(move || {
            let now = next?;
            next = take(&mut gaps).and_then(|gap| now.checked_add(gap)?.checked_add(1));
            Some(now)
        })
    }

    pub fn last(&self) -> u64 {
        let (mut gaps, mut at) = (self.gaps, self.first);
        while let Some(gap) = take(&mut gaps) {
            at = at.saturating_add(gap).saturating_add(1);
        }
        at
    }
}

/// One user's entries on their way into a block.
#[derive(Default, Debug)]
pub struct Joined {
    pub first: u64,
    pub count: u64,
    last: u64,
    gaps: Vec<u8>,
}

impl Joined {
    pub fn clear(&mut self) {
        self.count = 0;
        self.gaps.clear();
    }

    /// Adds one entry; offsets ascend.
    #[inline]
    pub fn push(&mut self, offset: u64) {
        if self.count == 0 {
            self.first = offset;
        } else {
            debug_assert!(offset > self.last, "a user's entries ascend");
            put(&mut self.gaps, offset - self.last - 1);
        }
        (self.last, self.count) = (offset, self.count + 1);
    }

    /// Adds a whole segment whose offsets are moved by `by`, wrapping: its gaps are copied as they are.
    #[inline]
    pub fn append(&mut self, segment: &Segment<'_>, by: u64) {
        self.push(segment.first.wrapping_add(by));
        if segment.count > 1 {
            self.gaps.extend_from_slice(segment.gaps);
            self.count += segment.count - 1;
            self.last = segment.last().wrapping_add(by);
        }
    }

    /// Whether this many more still make one segment.
    pub fn fits(&self, more: u64) -> bool {
        self.count + more <= SEGMENT_ENTRIES_MAX
    }

    /// Writes the segment behind the one of the user `distance` before.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, distance: u64) {
        debug_assert!((1..=SEGMENT_ENTRIES_MAX).contains(&self.count), "a segment has its size");
        put(out, distance << 1 | u64::from(self.count > 1));
        put(out, self.first);
        if self.count > 1 {
            put(out, self.count - 2);
            out.extend_from_slice(&self.gaps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ascending(steps: &[u64]) -> Vec<u64> {
        steps.iter().scan(0, |at, step| Some(std::mem::replace(at, *at + step))).collect()
    }

    fn joined(offsets: &[u64]) -> Joined {
        let mut joined = Joined::default();
        offsets.iter().for_each(|offset| joined.push(*offset));
        joined
    }

    proptest! {
        #[test]
        fn segments_round_trip_and_join(
            one in proptest::collection::vec(1u64..1 << 20, 1..60),
            other in proptest::collection::vec(1u64..1 << 20, 1..60),
            distance in 0u64..1 << 40,
        ) {
            let (one, other) = (ascending(&one), ascending(&other));
            let by = one[one.len() - 1] + 1;
            let mut bytes = Vec::new();
            joined(&one).write(&mut bytes, distance);
            joined(&other).write(&mut bytes, 0);
            let mut rest = &bytes[..];
            let first = Segment::take(&mut rest, 7).expect("what was written is a segment");
            let second = Segment::take(&mut rest, first.user).expect("what was written is a segment");
            prop_assert!(rest.is_empty());
            prop_assert_eq!((first.user, second.user), (7 + distance, 7 + distance));
            prop_assert_eq!(first.offsets().collect::<Vec<_>>(), one.clone());
            prop_assert_eq!(first.last(), one[one.len() - 1]);
            let mut both = Joined::default();
            both.append(&first, 0);
            both.append(&second, by);
            let mut bytes = Vec::new();
            both.write(&mut bytes, 0);
            let whole = Segment::take(&mut &bytes[..], 0).expect("what was written is a segment");
            let expected: Vec<u64> = one.into_iter().chain(other.into_iter().map(|offset| offset + by)).collect();
            prop_assert_eq!(whole.count, expected.len() as u64);
            prop_assert_eq!(whole.offsets().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let (mut rest, mut user) = (&bytes[..], 0);
            while let Some(segment) = Segment::take(&mut rest, user) {
                user = segment.user;
                let _any = (segment.offsets().count(), segment.last());
            }
        }
    }

    #[test]
    fn layout_is_frozen() {
        let mut bytes = Vec::new();
        joined(&[7]).write(&mut bytes, 3);
        joined(&[1, 2, 300]).write(&mut bytes, 64);
        assert_eq!(bytes, [6, 7, 0x81, 1, 1, 1, 0, 0xa9, 2]);
    }
}
