//! A row of entries: arrivals of one user, ascending, packed as gaps. The first arrival is in the key.
//!
//! ```text
//! slice   00 count span gap*            written by fan-out
//! page    01 count span ordinal gap*    written by consolidation; all pages are older than all slices
//! ```
//! `span` is last − first, so a row is placed without unpacking. `ordinal` is how many entries the user had in
//! older pages: two pages give the count of everything between them.

use super::pack::{Cut, put_number};
use fantail_rules::ids::Arrival;

const SLICE: u8 = 0;
const PAGE: u8 = 1;

/// Entries in one page: about two kilobytes.
pub const PAGE_ENTRIES_MAX: usize = 1_000;

/// The value of a row that fan-out writes. `arrivals` ascend and are not empty.
pub fn encode_slice(arrivals: &[Arrival]) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + 2 * arrivals.len());
    out.push(SLICE);
    put_head(&mut out, arrivals);
    put_gaps(&mut out, arrivals);
    out
}

/// The value of a row that consolidation writes.
pub fn encode_page(ordinal: u64, arrivals: &[Arrival]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + 2 * arrivals.len());
    out.push(PAGE);
    put_head(&mut out, arrivals);
    put_number(&mut out, ordinal);
    put_gaps(&mut out, arrivals);
    out
}

fn put_head(out: &mut Vec<u8>, arrivals: &[Arrival]) {
    assert!(!arrivals.is_empty(), "a row without entries is never written");
    put_number(out, arrivals.len() as u64);
    put_number(out, arrivals[arrivals.len() - 1].0 - arrivals[0].0);
}

fn put_gaps(out: &mut Vec<u8>, arrivals: &[Arrival]) {
    for pair in arrivals.windows(2) {
        assert!(pair[0] < pair[1], "arrivals of a user ascend");
        put_number(out, pair[1].0 - pair[0].0);
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    pub first: Arrival,
    pub last: Arrival,
    pub count: u64,
    /// Present in pages.
    pub ordinal: Option<u64>,
    gaps: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Takes a row apart; `None` if it is not one.
    pub fn decode(first: Arrival, value: &'a [u8]) -> Option<Self> {
        let (kind, rest) = value.split_first()?;
        let mut cut = Cut(rest);
        let (count, span) = (cut.number()?, cut.number()?);
        let ordinal = match *kind {
            SLICE => None,
            PAGE => Some(cut.number()?),
            _ => return None,
        };
        let last = Arrival(first.0.checked_add(span)?);
        (count > 0).then_some(Self { first, last, count, ordinal, gaps: cut.0 })
    }

    /// The arrivals, ascending. Ends early on a row that is not whole, which [`arrivals_checked`] tells.
    ///
    /// [`arrivals_checked`]: Entries::arrivals_checked
    pub fn arrivals(&self) -> impl Iterator<Item = Arrival> + 'a {
        let (mut at, mut gaps, mut left) = (self.first.0, Cut(self.gaps), self.count);
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let now = at;
            if left > 0 {
                match gaps.number().and_then(|gap| at.checked_add(gap)) {
                    Some(next) => at = next,
                    None => left = 0,
                }
            }
            Some(Arrival(now))
        })
    }

    /// All arrivals, or `None` if count, span and gaps contradict each other.
    pub fn arrivals_checked(&self) -> Option<Vec<Arrival>> {
        let arrivals: Vec<_> = self.arrivals().collect();
        (arrivals.len() as u64 == self.count && arrivals.last() == Some(&self.last)).then_some(arrivals)
    }

    /// How many entries lie at or below `arrival`.
    pub fn count_through(&self, arrival: Arrival) -> u64 {
        if arrival >= self.last {
            return self.count;
        }
        self.arrivals().take_while(|one| *one <= arrival).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_round_trip(
            first in 1u64..1 << 40,
            gaps in proptest::collection::vec(1u64..1 << 20, 0..50),
            ordinal: u64,
        ) {
            let mut arrivals = vec![Arrival(first)];
            for gap in gaps {
                arrivals.push(Arrival(arrivals[arrivals.len() - 1].0 + gap));
            }
            let page = encode_page(ordinal, &arrivals);
            for (value, expected) in [(encode_slice(&arrivals), None), (page, Some(ordinal))] {
                let row = Entries::decode(Arrival(first), &value).expect("what was encoded decodes");
                prop_assert_eq!(row.ordinal, expected);
                prop_assert_eq!(row.arrivals_checked(), Some(arrivals.clone()));
                for (index, arrival) in arrivals.iter().enumerate() {
                    prop_assert_eq!(row.count_through(*arrival), index as u64 + 1);
                    prop_assert_eq!(row.count_through(Arrival(arrival.0 - 1)), index as u64);
                }
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(row) = Entries::decode(Arrival(3), &bytes).filter(|row| row.count < 1_000) {
                let _ignored = row.arrivals_checked();
            }
        }
    }

    #[test]
    fn layout_is_frozen() {
        assert_eq!(encode_slice(&[Arrival(7)]), [0, 1, 0]);
        assert_eq!(encode_slice(&[Arrival(7), Arrival(9), Arrival(300)]), [0, 3, 0xa5, 2, 2, 0xa3, 2]);
        assert_eq!(encode_page(200, &[Arrival(7), Arrival(8)]), [1, 2, 1, 0xc8, 1, 1]);
    }
}
