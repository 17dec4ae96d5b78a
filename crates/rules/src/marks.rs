//! What a user did with an entry, and what that does to the unread and unseen counts.
//!
//! State is sparse: three watermarks (everything up to here is read, seen, archived) and a row of flags for each
//! entry that differs from what they say. `unread = entries above the watermarks + adjustment`, where the
//! adjustment is the sum over flagged entries of (counted − counted by default); see [`Marks::contribution`].
//! What must never happen: an adjustment that differs from that sum; every change of flags or watermarks takes
//! the old contribution out and puts the new one in.

use crate::ids::{Arrival, Millis};
use crate::visibility::Turns;

/// What can be done to an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    Read,
    Unread,
    Seen,
    Archive,
    Unarchive,
    Snooze { until: Millis },
    Unsnooze,
    Delete,
}

/// Which entries a page shows. Deleted entries are never shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Neither archived nor snoozed.
    Inbox,
    Unread,
    Read,
    Archived,
    Snoozed,
    All,
}

/// How one entry differs from what the watermarks say. Frozen bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(pub u8);

impl Flags {
    pub const READ: u8 = 1;
    pub const UNREAD: u8 = 2;
    pub const SEEN: u8 = 4;
    pub const ARCHIVED: u8 = 8;
    pub const UNARCHIVED: u8 = 16;
    pub const DELETED: u8 = 32;

    #[must_use]
    pub fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The flags after a mark. Snoozing lives in [`Marks::snoozed`].
    #[must_use]
    pub fn after(self, mark: Mark) -> Self {
        let (set, clear) = match mark {
            Mark::Read => (Self::READ | Self::SEEN, Self::UNREAD),
            Mark::Unread => (Self::UNREAD, Self::READ),
            Mark::Seen => (Self::SEEN, 0),
            Mark::Archive => (Self::ARCHIVED, Self::UNARCHIVED),
            Mark::Unarchive => (Self::UNARCHIVED, Self::ARCHIVED),
            Mark::Delete => (Self::DELETED, 0),
            Mark::Snooze { .. } | Mark::Unsnooze => (0, 0),
        };
        Self((self.0 & !clear) | set)
    }
}

/// Which watermark moves. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Watermark {
    Read = 1,
    Seen = 2,
    Archived = 3,
}

/// The state of one user's inbox, apart from the flag rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    pub read_through: Arrival,
    pub seen_through: Arrival,
    pub archived_through: Arrival,
    /// Sum of the contributions of all flag rows.
    pub unread_adjustment: i64,
    pub unseen_adjustment: i64,
    /// How many flag rows say UNREAD: those may count although they lie below the watermark.
    pub unread_flags: u64,
    /// Hidden until then; at most `SNOOZED_MAX`.
    pub snoozed: Vec<(Arrival, Millis)>,
    /// What the user wants to see at all.
    pub turns: Turns,
}

/// What one entry adds to a count beyond what the watermarks say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contribution {
    pub unread: i64,
    pub unseen: i64,
}

impl Marks {
    #[must_use]
    pub fn is_read(&self, arrival: Arrival, flags: Flags) -> bool {
        flags.has(Flags::READ) || (arrival <= self.read_through && !flags.has(Flags::UNREAD))
    }

    #[must_use]
    pub fn is_seen(&self, arrival: Arrival, flags: Flags) -> bool {
        flags.has(Flags::SEEN) || arrival <= self.seen_through
    }

    #[must_use]
    pub fn is_archived(&self, arrival: Arrival, flags: Flags) -> bool {
        flags.has(Flags::ARCHIVED) || (arrival <= self.archived_through && !flags.has(Flags::UNARCHIVED))
    }

    #[must_use]
    pub fn snoozed_until(&self, arrival: Arrival, now: Millis) -> Option<Millis> {
        let (_, until) = self.snoozed.iter().find(|(snoozed, _)| *snoozed == arrival)?;
        (*until > now).then_some(*until)
    }

    /// Whether the user has done anything with an entry: seen or read it, or put it away.
    #[must_use]
    pub fn is_noticed(&self, arrival: Arrival, flags: Flags, now: Millis) -> bool {
        self.is_seen(arrival, flags)
            || self.is_read(arrival, flags)
            || self.is_archived(arrival, flags)
            || flags.has(Flags::DELETED)
            || self.snoozed_until(arrival, now).is_some()
    }

    /// Entries above this are unread unless flagged.
    #[must_use]
    pub fn unread_floor(&self) -> Arrival {
        self.read_through.max(self.archived_through)
    }

    /// Entries above this are unseen unless flagged.
    #[must_use]
    pub fn unseen_floor(&self) -> Arrival {
        self.seen_through.max(self.archived_through)
    }

    #[must_use]
    pub fn counts_unread(&self, arrival: Arrival, flags: Flags) -> bool {
        !flags.has(Flags::DELETED) && !self.is_archived(arrival, flags) && !self.is_read(arrival, flags)
    }

    #[must_use]
    pub fn counts_unseen(&self, arrival: Arrival, flags: Flags) -> bool {
        !flags.has(Flags::DELETED) && !self.is_archived(arrival, flags) && !self.is_seen(arrival, flags)
    }

    #[must_use]
    pub fn contribution(&self, arrival: Arrival, flags: Flags) -> Contribution {
        let signed = |counted: bool, default: bool| i64::from(counted) - i64::from(default);
        Contribution {
            unread: signed(self.counts_unread(arrival, flags), arrival > self.unread_floor()),
            unseen: signed(self.counts_unseen(arrival, flags), arrival > self.unseen_floor()),
        }
    }

    /// Replaces the flags of one entry.
    pub fn reflag(&mut self, arrival: Arrival, old: Flags, new: Flags) {
        self.take_out(arrival, old);
        self.put_in(arrival, new);
    }

    /// Snoozes or wakes an entry. `false` if too many are snoozed already.
    pub fn snooze(&mut self, arrival: Arrival, until: Option<Millis>, now: Millis) -> bool {
        self.snoozed.retain(|(snoozed, end)| *snoozed != arrival && *end > now);
        if let Some(until) = until {
            if self.snoozed.len() >= crate::limits::SNOOZED_MAX {
                return false;
            }
            self.snoozed.push((arrival, until));
        }
        true
    }

    #[must_use]
    pub fn watermark(&self, which: Watermark) -> Arrival {
        match which {
            Watermark::Read => self.read_through,
            Watermark::Seen => self.seen_through,
            Watermark::Archived => self.archived_through,
        }
    }

    /// Moves a watermark in either direction. `rows` are all flag rows between the old and the new place
    /// (above the lower, up to and including the upper); returns what becomes of them.
    pub fn move_watermark(
        &mut self,
        which: Watermark,
        to: Arrival,
        rows: &[(Arrival, Flags)],
    ) -> Vec<(Arrival, Flags)> {
        let clear = match which {
            Watermark::Read => Flags::READ | Flags::UNREAD,
            Watermark::Seen => Flags::SEEN,
            Watermark::Archived => Flags::ARCHIVED | Flags::UNARCHIVED,
        };
        rows.iter().for_each(|(arrival, flags)| self.take_out(*arrival, *flags));
        match which {
            Watermark::Read => self.read_through = to,
            Watermark::Seen => self.seen_through = to,
            Watermark::Archived => self.archived_through = to,
        }
        let moved: Vec<_> = rows.iter().map(|(arrival, flags)| (*arrival, Flags(flags.0 & !clear))).collect();
        moved.iter().for_each(|(arrival, flags)| self.put_in(*arrival, *flags));
        moved
    }

    fn take_out(&mut self, arrival: Arrival, flags: Flags) {
        let contribution = self.contribution(arrival, flags);
        self.unread_adjustment -= contribution.unread;
        self.unseen_adjustment -= contribution.unseen;
        self.unread_flags = self.unread_flags.saturating_sub(u64::from(flags.has(Flags::UNREAD)));
    }

    fn put_in(&mut self, arrival: Arrival, flags: Flags) {
        let contribution = self.contribution(arrival, flags);
        self.unread_adjustment += contribution.unread;
        self.unseen_adjustment += contribution.unseen;
        self.unread_flags += u64::from(flags.has(Flags::UNREAD));
    }
}

impl State {
    /// Whether a page of this state shows an entry that was not deleted or retracted.
    #[must_use]
    pub fn shows(self, marks: &Marks, arrival: Arrival, flags: Flags, now: Millis) -> bool {
        if flags.has(Flags::DELETED) {
            return false;
        }
        let archived = marks.is_archived(arrival, flags);
        let snoozed = marks.snoozed_until(arrival, now).is_some();
        let read = marks.is_read(arrival, flags);
        match self {
            Self::Inbox => !archived && !snoozed,
            Self::Unread => !archived && !snoozed && !read,
            Self::Read => !archived && !snoozed && read,
            Self::Archived => archived,
            Self::Snoozed => snoozed,
            Self::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Arrive,
        One(u64, u8),
        Move(u8, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            2 => Just(Step::Arrive),
            4 => (0u64..30, 0u8..6).prop_map(|(entry, mark)| Step::One(entry, mark)),
            2 => (0u8..3, 0u64..30).prop_map(|(which, to)| Step::Move(which, to)),
        ]
    }

    fn mark_of(number: u8) -> Mark {
        [Mark::Read, Mark::Unread, Mark::Seen, Mark::Archive, Mark::Unarchive, Mark::Delete]
            [usize::from(number)]
    }

    // proves: INB-06, INB-13
    proptest! {
        /// Counts by watermark and adjustment equal a recount of every entry, after any history.
        #[test]
        fn counts_equal_a_recount(steps in proptest::collection::vec(step(), 0..120)) {
            let (mut marks, mut rows, mut newest) = (Marks::default(), BTreeMap::<u64, Flags>::new(), 0u64);
            for step in steps {
                match step {
                    Step::Arrive => newest += 1,
                    Step::One(entry, mark) if entry < newest => {
                        let arrival = entry + 1;
                        let old = rows.get(&arrival).copied().unwrap_or_default();
                        let new = old.after(mark_of(mark));
                        marks.reflag(Arrival(arrival), old, new);
                        rows.insert(arrival, new);
                    }
                    Step::One(..) => {}
                    Step::Move(which, to) => {
                        let which = [Watermark::Read, Watermark::Seen, Watermark::Archived][usize::from(which)];
                        let (to, from) = (to.min(newest), marks.watermark(which).0);
                        let touched: Vec<_> = rows.range(from.min(to)..=from.max(to))
                            .filter(|(arrival, _)| **arrival > from.min(to))
                            .map(|(arrival, flags)| (Arrival(*arrival), *flags)).collect();
                        for (arrival, flags) in marks.move_watermark(which, Arrival(to), &touched) {
                            if flags.is_empty() { rows.remove(&arrival.0); } else { rows.insert(arrival.0, flags); }
                        }
                    }
                }
                let flags = |arrival: u64| rows.get(&arrival).copied().unwrap_or_default();
                let recount = |counts: &dyn Fn(Arrival, Flags) -> bool| {
                    (1..=newest).filter(|arrival| counts(Arrival(*arrival), flags(*arrival))).count() as i64
                };
                let above = |floor: Arrival| (newest - floor.0.min(newest)) as i64;
                let unread = above(marks.unread_floor()) + marks.unread_adjustment;
                let unseen = above(marks.unseen_floor()) + marks.unseen_adjustment;
                prop_assert_eq!(unread, recount(&|arrival, flags| marks.counts_unread(arrival, flags)));
                prop_assert_eq!(unseen, recount(&|arrival, flags| marks.counts_unseen(arrival, flags)));
                let flagged = rows.values().filter(|flags| flags.has(Flags::UNREAD)).count() as u64;
                prop_assert_eq!(marks.unread_flags, flagged);
            }
        }
    }

    #[test]
    fn a_state_shows_what_its_name_says() {
        let marks = Marks {
            read_through: Arrival(5),
            archived_through: Arrival(2),
            snoozed: vec![(Arrival(9), Millis(100))],
            ..Marks::default()
        };
        let shown = |state: State, arrival: u64, flags: u8| {
            state.shows(&marks, Arrival(arrival), Flags(flags), Millis(50))
        };
        for (arrival, flags, expected) in [
            (1, 0, [false, false, false, true, false, true]),
            (1, Flags::UNARCHIVED, [true, false, true, false, false, true]),
            (4, 0, [true, false, true, false, false, true]),
            (4, Flags::UNREAD, [true, true, false, false, false, true]),
            (7, 0, [true, true, false, false, false, true]),
            (9, 0, [false, false, false, false, true, true]),
            (7, Flags::DELETED, [false; 6]),
        ] {
            let states =
                [State::Inbox, State::Unread, State::Read, State::Archived, State::Snoozed, State::All];
            assert_eq!(states.map(|state| shown(state, arrival, flags)), expected, "{arrival} {flags}");
        }
    }

    #[test]
    fn snoozing_has_a_limit_and_ends() {
        let mut marks = Marks::default();
        for arrival in 0..crate::limits::SNOOZED_MAX as u64 {
            assert!(marks.snooze(Arrival(arrival), Some(Millis(10)), Millis(0)));
        }
        assert!(!marks.snooze(Arrival(7_000), Some(Millis(10)), Millis(0)));
        assert!(marks.snooze(Arrival(7_000), Some(Millis(30)), Millis(10)), "the others have ended");
        assert_eq!(marks.snoozed_until(Arrival(7_000), Millis(29)), Some(Millis(30)));
        assert_eq!(marks.snoozed_until(Arrival(7_000), Millis(30)), None);
    }
}
