//! Many small things told as one: windows in which what belongs together is collected.
//!
//! ```text
//! first item ──► window opens ──► the first `leading` items go out at once
//!                     │           the others are held
//!                     ▼
//!        window's end, or `max_count` held ──► close: enough ⇒ one digest, fewer ⇒ singly, none ⇒ nothing
//! ```
//! Comes from: items that passed the gates, keyed by recipient and collapse key, and the timer of the window's end. Decides:
//! what becomes of each item, and of those that are held when the window closes. Goes to: records of the shard, so that a
//! window has one owner by construction; the digest is rendered and frozen when it is closed.
//!
//! What must never happen: an item in a digest and alone, in two digests, or in none. Not here: the held items themselves
//! (rows of the shard), and what was read meanwhile and drops out of them.

mod calendar;
mod storm;
mod summary;

pub use calendar::Calendar;
pub use storm::{Storm, StormTerms};
pub use summary::{Item, Summary, summarise};

use crate::ids::Millis;
use crate::limits::{DIGEST_ITEMS_MAX, DIGEST_WINDOW_SECONDS_MAX};

/// How a category is collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    pub window_seconds: u32,
    /// Fewer are told singly when the window closes.
    pub min_count: u16,
    /// So many held close the window before its end.
    pub max_count: u16,
    /// So many of a window go out at once, and are not in the digest.
    pub leading: u16,
}

impl Terms {
    /// For a category that does not say otherwise, and for one that a storm switched into this mode.
    pub const USUAL: Self =
        Self { window_seconds: 300, min_count: 2, max_count: DIGEST_ITEMS_MAX, leading: 1 };

    /// The categories that are collected though the tenant has not set them up.
    pub const COLLECTED: [&'static str; 3] = ["like", "follow", "reply"];

    /// What a category has that the tenant has not set up; `None` if it is not collected.
    #[must_use]
    pub fn of_category(category: &str) -> Option<Self> {
        match category {
            "like" => Some(Self::USUAL),
            "follow" => Some(Self { window_seconds: 3_600, ..Self::USUAL }),
            "reply" => Some(Self { window_seconds: 600, ..Self::USUAL }),
            _ => None,
        }
    }

    #[must_use]
    pub fn fault(&self) -> Option<TermsFault> {
        if !(1..=DIGEST_WINDOW_SECONDS_MAX).contains(&self.window_seconds) {
            return Some(TermsFault::WindowSeconds);
        }
        if !(1..=DIGEST_ITEMS_MAX).contains(&self.max_count) {
            return Some(TermsFault::MaxCount);
        }
        if !(1..=self.max_count).contains(&self.min_count) {
            return Some(TermsFault::MinCount);
        }
        (self.leading > DIGEST_ITEMS_MAX).then_some(TermsFault::Leading)
    }
}

/// Which of the terms cannot be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TermsFault {
    /// Not from 1 to [`DIGEST_WINDOW_SECONDS_MAX`].
    WindowSeconds,
    /// Not from 1 to [`DIGEST_ITEMS_MAX`].
    MaxCount,
    /// Not from 1 to `max_count`.
    MinCount,
    /// More than [`DIGEST_ITEMS_MAX`].
    Leading,
}

/// An open window of one recipient and one collapse key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub closes_at: Millis,
    /// Items that went out at once.
    pub led: u16,
    /// Items that wait, those included that were read since.
    pub held: u16,
}

/// What becomes of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrived {
    /// Goes out at once.
    Leads(Window),
    /// Waits for the window's end.
    Waits(Window),
    /// Waits no longer: with it the window is full and closes now.
    Fills(Window),
    /// The window's time is over, and nobody has closed it yet: close it, and ask again without it.
    CloseFirst,
}

/// An item comes. `window` is the one that is open, if one is.
#[must_use]
pub fn arrive(window: Option<Window>, terms: &Terms, now: Millis) -> Arrived {
    let opened = Window { closes_at: now.plus(u64::from(terms.window_seconds) * 1_000), led: 0, held: 0 };
    let window = window.unwrap_or(opened);
    if window.closes_at <= now {
        return Arrived::CloseFirst;
    }
    if window.held == 0 && window.led < terms.leading {
        return Arrived::Leads(Window { led: window.led + 1, ..window });
    }
    let window = Window { held: window.held.saturating_add(1), ..window };
    if window.held >= terms.max_count { Arrived::Fills(window) } else { Arrived::Waits(window) }
}

/// What becomes of the items that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closed {
    /// There are none.
    Nothing,
    /// Each is told by itself, now.
    Singly,
    /// One digest tells them all.
    Digest,
}

/// A window closes. `left` is how many items wait and were not read meanwhile.
#[must_use]
pub fn close(terms: &Terms, left: u16) -> Closed {
    match left {
        0 => Closed::Nothing,
        left if left < terms.min_count => Closed::Singly,
        _ => Closed::Digest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A recipient and a collapse key, driven as a shard would.
    #[derive(Default)]
    struct Story {
        window: Option<Window>,
        held: Vec<u32>,
        /// In the order in which they are told: one item, or a digest of several.
        told: Vec<Vec<u32>>,
    }

    impl Story {
        fn arrive(&mut self, item: u32, terms: &Terms, now: Millis) {
            match arrive(self.window, terms, now) {
                Arrived::Leads(window) => {
                    self.window = Some(window);
                    self.told.push(vec![item]);
                }
                Arrived::Waits(window) => {
                    self.window = Some(window);
                    self.held.push(item);
                }
                Arrived::Fills(window) => {
                    self.window = Some(window);
                    self.held.push(item);
                    self.close(terms);
                }
                Arrived::CloseFirst => {
                    self.close(terms);
                    self.arrive(item, terms, now);
                }
            }
        }

        fn wake(&mut self, terms: &Terms, now: Millis) {
            if self.window.is_some_and(|window| window.closes_at <= now) {
                self.close(terms);
            }
        }

        fn close(&mut self, terms: &Terms) {
            let held = std::mem::take(&mut self.held);
            self.window = None;
            match close(terms, u16::try_from(held.len()).expect("few")) {
                Closed::Nothing => assert!(held.is_empty()),
                Closed::Singly => self.told.extend(held.into_iter().map(|item| vec![item])),
                Closed::Digest => self.told.push(held),
            }
        }
    }

    /// Items at these seconds; at the end every window has closed.
    fn check(terms: Terms, seconds: &[u64], told: &str) {
        let mut story = Story::default();
        for (item, second) in (1..).zip(seconds) {
            story.wake(&terms, Millis(second * 1_000));
            story.arrive(item, &terms, Millis(second * 1_000));
        }
        story.wake(&terms, Millis(u64::MAX));
        let words =
            story.told.iter().map(|items| items.iter().map(u32::to_string).collect::<Vec<_>>().join("+"));
        assert_eq!(words.collect::<Vec<_>>().join(" "), told, "{terms:?} {seconds:?}");
    }

    // proves: AGG-01, AGG-02
    #[test]
    fn a_window_leads_then_collects() {
        let terms = Terms { window_seconds: 60, min_count: 2, max_count: 4, leading: 1 };
        check(terms, &[0], "1");
        check(terms, &[0, 1], "1 2"); // one is no digest: singly, at the window's end
        check(terms, &[0, 1, 2], "1 2+3");
        check(terms, &[0, 59, 60, 61, 62], "1 2 3 4+5"); // the window is over at its end
        check(terms, &[0, 1, 2, 3, 4], "1 2+3+4+5"); // full
        check(terms, &[0, 1, 2, 3, 4, 5, 6], "1 2+3+4+5 6 7");
        check(Terms { leading: 0, ..terms }, &[0, 1, 2], "1+2+3");
        check(Terms { leading: 3, ..terms }, &[0, 1, 2, 3, 4], "1 2 3 4+5");
        check(Terms { min_count: 3, ..terms }, &[0, 1, 2], "1 2 3");
        check(Terms { min_count: 1, ..terms }, &[0, 1], "1 2");
        check(Terms { max_count: 1, min_count: 1, ..terms }, &[0, 1, 2], "1 2 3");
    }

    // proves: AGG-01, RL-02
    #[test]
    fn five_hundred_likes_are_one_digest() {
        let terms = Terms::of_category("like").expect("likes are collected");
        let mut story = Story::default();
        (0..500).for_each(|item| story.arrive(item, &terms, Millis(u64::from(item) * 120)));
        story.wake(&terms, Millis(300_000));
        assert_eq!(story.told.iter().map(Vec::len).collect::<Vec<_>>(), [1, 499]);
    }

    // proves: AGG-03
    #[test]
    fn categories_have_their_windows() {
        for (category, seconds) in [
            ("like", Some(300)),
            ("follow", Some(3_600)),
            ("reply", Some(600)),
            ("message", None),
            ("", None),
        ] {
            assert_eq!(Terms::of_category(category).map(|terms| terms.window_seconds), seconds, "{category}");
            assert_eq!(Terms::of_category(category).and_then(|terms| terms.fault()), None);
            assert_eq!(Terms::COLLECTED.contains(&category), seconds.is_some());
        }
    }

    // proves: AGG-02
    #[test]
    fn terms_that_cannot_be_kept_are_refused() {
        let usual = Terms::USUAL;
        for (terms, fault) in [
            (usual, None),
            (Terms { window_seconds: 0, ..usual }, Some(TermsFault::WindowSeconds)),
            (
                Terms { window_seconds: DIGEST_WINDOW_SECONDS_MAX + 1, ..usual },
                Some(TermsFault::WindowSeconds),
            ),
            (Terms { max_count: 0, ..usual }, Some(TermsFault::MaxCount)),
            (Terms { max_count: DIGEST_ITEMS_MAX + 1, ..usual }, Some(TermsFault::MaxCount)),
            (Terms { min_count: 0, ..usual }, Some(TermsFault::MinCount)),
            (Terms { min_count: 3, max_count: 2, ..usual }, Some(TermsFault::MinCount)),
            (Terms { leading: DIGEST_ITEMS_MAX + 1, ..usual }, Some(TermsFault::Leading)),
        ] {
            assert_eq!(terms.fault(), fault, "{terms:?}");
        }
    }

    #[test]
    fn what_was_read_meanwhile_drops_out() {
        let terms = Terms { min_count: 3, ..Terms::USUAL };
        for (left, closed) in [
            (0, Closed::Nothing),
            (1, Closed::Singly),
            (2, Closed::Singly),
            (3, Closed::Digest),
            (9, Closed::Digest),
        ] {
            assert_eq!(close(&terms, left), closed, "{left}");
        }
    }

    proptest! {
        /// Whatever comes when, and however late timers fire: every item is told once, digests are neither too small
        /// nor too large, and what is held comes in order.
        #[test]
        fn every_item_is_told_once(
            gaps_ms in proptest::collection::vec((0u64..40_000, any::<bool>()), 1..200),
            window_seconds in 1u32..120,
            min_count in 1u16..5,
            more in 0u16..20,
            leading in 0u16..4,
        ) {
            let terms = Terms { window_seconds, min_count, max_count: min_count + more, leading };
            prop_assert_eq!(terms.fault(), None);
            let (mut story, mut now) = (Story::default(), Millis(0));
            for (item, (gap, has_timer)) in (0..).zip(&gaps_ms) {
                now = now.plus(*gap);
                if *has_timer {
                    story.wake(&terms, now);
                }
                story.arrive(item, &terms, now);
            }
            story.wake(&terms, Millis(u64::MAX));
            let items: Vec<u32> = story.told.iter().flatten().copied().collect();
            prop_assert_eq!(items.len(), gaps_ms.len());
            prop_assert_eq!(items.iter().collect::<BTreeSet<_>>().len(), gaps_ms.len());
            prop_assert!(items.is_sorted());
            for digest in story.told.iter().filter(|items| items.len() > 1) {
                prop_assert!(digest.len() >= usize::from(min_count));
                prop_assert!(digest.len() <= usize::from(terms.max_count));
            }
        }
    }
}
