//! A page of a list: the members whose numbers lie between two bounds, packed. An edit rewrites its page.
//!
//! ```text
//! page     upper count member*       upper: where the next page begins, 0 if this is the last one
//! member   user−previous stays stay* stays: number of intervals × 2, + 1 if the last one is open
//! stay     from−previous until−from  an open stay has no second number
//! ```
//! `previous` is the user (arrival) before; it begins at the page's lower bound (at 0).

use super::pack::{Cut, put_number};
use fantail_rules::ids::{Arrival, UserNo};
use fantail_rules::interval::Interval;

/// Members of a page before it is split in two: an edit rewrites about a kilobyte.
pub const PAGE_MEMBERS_MAX: usize = 256;

/// Visits members in ascending order.
pub struct Members<'a> {
    pub upper: Option<UserNo>,
    pub left: u64,
    user: u64,
    cut: Cut<'a>,
    stays: Vec<Interval>,
}

impl<'a> Members<'a> {
    /// Begins to take a page apart. Nothing in a page says where it begins, so `from` comes from its key.
    pub fn begin(from: UserNo, page: &'a [u8]) -> Option<Self> {
        let mut cut = Cut(page);
        let (upper, left) = (cut.number()?, cut.number()?);
        let upper = (upper > 0).then_some(UserNo(upper));
        Some(Self { upper, left, user: from.0, cut, stays: Vec::new() })
    }

    /// The next member, `Ok(None)` at the end, `Err` if the page is damaged.
    pub fn next_member(&mut self) -> Result<Option<(UserNo, &[Interval])>, Damaged> {
        if self.left == 0 {
            return if self.cut.is_empty() { Ok(None) } else { Err(Damaged) };
        }
        self.left -= 1;
        self.take_member().ok_or(Damaged)?;
        Ok(Some((UserNo(self.user), &self.stays)))
    }

    fn take_member(&mut self) -> Option<()> {
        self.user = self.user.checked_add(self.cut.number()?)?;
        let head = self.cut.number()?;
        let (count, open) = (head >> 1, head & 1 == 1);
        self.stays.clear();
        let mut at = 0u64;
        for index in 0..count {
            let from = at.checked_add(self.cut.number()?)?;
            let until = if open && index + 1 == count {
                None
            } else {
                at = from.checked_add(self.cut.number()?)?;
                Some(Arrival(at))
            };
            self.stays.push(Interval { from: Arrival(from), until });
        }
        Some(())
    }
}

/// A page that does not decode.
#[derive(Debug)]
pub struct Damaged;

/// Collects members in ascending order into one page, or into two if they are too many.
pub struct Builder {
    from: UserNo,
    previous: u64,
    count: usize,
    members: Vec<u8>,
    /// Where the second half begins if the page is split: (user, byte after its number, members before).
    split: Option<Split>,
}

struct Split {
    user: UserNo,
    members_before: usize,
    bytes_before: usize,
    bytes_after_user: usize,
}

/// A page as it is stored.
#[derive(Debug)]
pub struct Packed {
    pub from: UserNo,
    pub members: usize,
    pub bytes: Vec<u8>,
}

impl Builder {
    pub fn new(from: UserNo, capacity: usize) -> Self {
        Self { from, previous: from.0, count: 0, members: Vec::with_capacity(capacity), split: None }
    }

    pub fn push(&mut self, user: UserNo, stays: &[Interval]) {
        assert!(user.0 >= self.previous, "members of a page ascend");
        let bytes_before = self.members.len();
        put_number(&mut self.members, user.0 - self.previous);
        if self.count == PAGE_MEMBERS_MAX / 2 {
            let bytes_after_user = self.members.len();
            self.split = Some(Split { user, members_before: self.count, bytes_before, bytes_after_user });
        }
        self.previous = user.0;
        self.count += 1;
        let open = stays.last().is_some_and(|last| last.until.is_none());
        put_number(&mut self.members, (stays.len() as u64) << 1 | u64::from(open));
        let mut at = 0;
        for stay in stays {
            put_number(&mut self.members, stay.from.0 - at);
            if let Some(until) = stay.until {
                put_number(&mut self.members, until.0 - stay.from.0);
                at = until.0;
            }
        }
    }

    /// The page, or two pages with the second beginning where the first ends.
    pub fn finish(self, upper: Option<UserNo>) -> (Packed, Option<Packed>) {
        if self.count <= PAGE_MEMBERS_MAX {
            return (packed(self.from, upper, self.count, &self.members), None);
        }
        let split = self.split.expect("more than a page holds more than half a page");
        let lower =
            packed(self.from, Some(split.user), split.members_before, &self.members[..split.bytes_before]);
        // The first member of the second page lies at its lower bound: distance 0.
        let mut rest = vec![0];
        rest.extend_from_slice(&self.members[split.bytes_after_user..]);
        let higher = packed(split.user, upper, self.count - split.members_before, &rest);
        (lower, Some(higher))
    }
}

fn packed(from: UserNo, upper: Option<UserNo>, members: usize, body: &[u8]) -> Packed {
    let mut bytes = Vec::with_capacity(body.len() + 12);
    put_number(&mut bytes, upper.map_or(0, |upper| upper.0));
    put_number(&mut bytes, members as u64);
    bytes.extend_from_slice(body);
    Packed { from, members, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Plain = Vec<(UserNo, Vec<Interval>)>;

    fn unpack(page: &Packed) -> (Option<UserNo>, Plain) {
        let mut members = Members::begin(page.from, &page.bytes).expect("a page begins");
        let mut plain = Vec::new();
        while let Some((user, stays)) = members.next_member().expect("a page is whole") {
            plain.push((user, stays.to_vec()));
        }
        (members.upper, plain)
    }

    fn stays() -> impl Strategy<Value = Vec<Interval>> {
        (proptest::collection::vec((0u64..9, 1u64..9), 0..4), any::<bool>()).prop_map(|(steps, open)| {
            let mut at = 0;
            let mut stays: Vec<_> = steps
                .into_iter()
                .map(|(gap, length)| {
                    let from = at + gap;
                    at = from + length;
                    Interval { from: Arrival(from), until: Some(Arrival(at)) }
                })
                .collect();
            if open {
                stays.push(Interval { from: Arrival(at), until: None });
            }
            stays
        })
    }

    proptest! {
        #[test]
        fn pages_round_trip_and_split(
            from in 0u64..100,
            steps in proptest::collection::vec((1u64..300, stays()), 0..600),
        ) {
            let mut user = from;
            let mut builder = Builder::new(UserNo(from), 0);
            let mut plain = Plain::new();
            for (step, stays) in steps.into_iter().take(PAGE_MEMBERS_MAX * 2) {
                builder.push(UserNo(user), &stays);
                plain.push((UserNo(user), stays));
                user += step;
            }
            let upper = Some(UserNo(user + 1));
            let (lower, higher) = builder.finish(upper);
            let (lower_upper, mut found) = unpack(&lower);
            prop_assert_eq!(higher.is_some(), plain.len() > PAGE_MEMBERS_MAX);
            match higher {
                None => prop_assert_eq!(lower_upper, upper),
                Some(higher) => {
                    prop_assert_eq!(lower_upper, Some(higher.from));
                    let (higher_upper, rest) = unpack(&higher);
                    prop_assert_eq!(higher_upper, upper);
                    prop_assert_eq!(lower.members, PAGE_MEMBERS_MAX / 2);
                    found.extend(rest);
                }
            }
            prop_assert_eq!(found, plain);
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some(mut members) = Members::begin(UserNo(3), &bytes) {
                while let Ok(Some(_)) = members.next_member() {}
            }
        }
    }

    #[test]
    fn layout_is_frozen() {
        let mut builder = Builder::new(UserNo(10), 0);
        builder.push(UserNo(10), &[Interval { from: Arrival(7), until: None }]);
        let closed = Interval { from: Arrival(1), until: Some(Arrival(4)) };
        builder.push(UserNo(12), &[closed, Interval { from: Arrival(6), until: None }]);
        assert_eq!(builder.finish(None).0.bytes, [0, 2, 0, 3, 7, 2, 5, 1, 3, 2]);
    }
}
