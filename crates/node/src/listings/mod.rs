//! Listings: pages over everything of one kind that a tenant has.
//!
//! Comes from: the list routes, on threads that may block. Does: reads some rows of each partition in a fixed order, opens names
//! for those who may read them, and says where to go on. Changes nothing.
//!
//! Invariant: a page looks at a bounded number of rows of its own tenant and at none of another one. So a page may show fewer than
//! it was asked for, or none, and still be followed by others. What is there from the first page to the last is shown once.

mod erasures;
mod notifications;
mod suppressions;
mod topics;
mod users;

pub use erasures::{ErasurePage, ErasureQuery};
pub use notifications::{NotificationPage, NotificationQuery, NotificationSummary};
pub use suppressions::{AddressOwner, ListedSuppression, SuppressionPage, SuppressionPlace};
pub use topics::{ListedTopic, TopicPage};
pub use users::{UserPage, UserPlace};

use fantail_machine::tables::look::LookMax;
use fantail_rules::ids::{FrontNo, Millis};
use fantail_rules::limits::{LISTING_PASSED_BYTES_MAX, LISTING_ROWS_MAX};
use fantail_rules::ulid::Ulid;
use std::ops::Range;

/// The look of one page that shows so many at most.
fn most(found: usize) -> LookMax {
    LookMax { rows: LISTING_ROWS_MAX, bytes: LISTING_PASSED_BYTES_MAX, found }
}

/// Ids of a span of time, its end not included, that are below one.
fn ids(span: &Range<Millis>, before: Option<Ulid>) -> Range<Ulid> {
    let first_of = |at: Millis| Ulid::new(Millis(at.0.min(ULID_MILLIS_MAX)), FrontNo(0), 0);
    let end = if span.end.0 > ULID_MILLIS_MAX { Ulid(u128::MAX) } else { first_of(span.end) };
    first_of(span.start)..before.map_or(end, |before| before.min(end))
}

/// The latest time that an id can carry.
const ULID_MILLIS_MAX: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_of_time_is_a_range_of_ids() {
        let id = |at: u64| Ulid::new(Millis(at), FrontNo(3), 7);
        let all = ids(&(Millis(0)..Millis(u64::MAX)), None);
        assert!(all.contains(&id(0)) && all.contains(&id(ULID_MILLIS_MAX)));
        let some = ids(&(Millis(5)..Millis(7)), None);
        for (at, is_in) in [(4, false), (5, true), (6, true), (7, false)] {
            assert_eq!(some.contains(&id(at)), is_in, "{at}");
        }
        let below = ids(&(Millis(5)..Millis(7)), Some(id(6)));
        assert!(below.contains(&id(5)) && !below.contains(&id(6)));
        assert_eq!(ids(&(Millis(5)..Millis(7)), Some(id(9))), some, "a place behind the span");
    }
}
