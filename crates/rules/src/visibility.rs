//! What a user wants to see in the inbox, and since when.
//!
//! The inbox is not sent, it is looked at: nothing is decided for the millions who get an event. What its reader wants is
//! remembered as turns, each at the last arrival before it; an entry is shown if the turn in force when it arrived shows its
//! category. So switching something off hides what comes later, and switching it on again does not bring back what was hidden.
//!
//! Comes from: the user's preferences, folded in the order of the shard. Goes to: pages and counts of that user's inbox, and
//! for users who are named, to the verdict about their in-app delivery. Critical events, and categories that the
//! tenant insists on, are none of its business: whoever asks leaves them out.

use crate::category::CategoryId;
use crate::channel_kind::ChannelKind;
use crate::gates::Reason;
use crate::ids::Arrival;
use crate::limits::INBOX_TURNS_MAX;
use crate::preference::{Preferences, Switch};

/// What one user wants to see in the inbox. The usual one shows everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InboxWish {
    pub nothing: bool,
    pub inbox_off: bool,
    /// Categories of which something was said, ascending: what is wrong with them in the inbox, if anything is.
    pub categories: Vec<(CategoryId, Option<Unwanted>)>,
}

/// What keeps a category out of the inbox. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Unwanted {
    Category = 1,
    /// Other channels were chosen for it.
    Here = 2,
}

impl Unwanted {
    #[must_use]
    pub fn from_stored(number: u8) -> Option<Self> {
        [Self::Category, Self::Here].into_iter().find(|one| *one as u8 == number)
    }
}

impl InboxWish {
    #[must_use]
    pub fn of(preferences: &Preferences) -> Self {
        let mut categories = Vec::new();
        for (name, choice) in &preferences.categories {
            let here = choice.channels.map(|chosen| chosen.contains(ChannelKind::InApp));
            let said = match (choice.switch, here) {
                (Switch::Off, _) => Some(Unwanted::Category),
                (Switch::On | Switch::NotSaid, Some(false)) => Some(Unwanted::Here),
                (Switch::On | Switch::NotSaid, Some(true)) => None,
                (Switch::On | Switch::NotSaid, None) => continue,
            };
            categories.push((CategoryId::of(name), said));
        }
        categories.sort_unstable_by_key(|(category, _)| *category);
        let inbox_off = preferences.channels.off().contains(ChannelKind::InApp);
        Self { nothing: preferences.everything == Switch::Off, inbox_off, categories }
    }

    /// Why a category is not shown: in the order of `gates::preference`, and the first "off" wins.
    #[must_use]
    pub fn objection(&self, category: CategoryId) -> Option<Reason> {
        if self.nothing {
            return Some(Reason::GlobalOff);
        }
        match self.categories.binary_search_by_key(&category, |(known, _)| *known) {
            Ok(place) => self.categories[place].1.map(|unwanted| match unwanted {
                Unwanted::Category => Reason::CategoryOff,
                Unwanted::Here => Reason::CategoryChannelOff,
            }),
            Err(_) => self.inbox_off.then_some(Reason::ChannelOff),
        }
    }

    fn hides_something(&self) -> bool {
        self.nothing || self.inbox_off || self.categories.iter().any(|(_, unwanted)| unwanted.is_some())
    }
}

/// What was wanted when.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Turns {
    /// Ascending. Each holds for arrivals above its own; before the first, everything is shown.
    pub turns: Vec<(Arrival, InboxWish)>,
}

impl Turns {
    #[must_use]
    pub fn hides(&self, category: CategoryId, arrival: Arrival) -> bool {
        let behind = self.turns.partition_point(|(from, _)| *from < arrival);
        let in_force = behind.checked_sub(1).map(|place| &self.turns[place].1);
        in_force.is_some_and(|wish| wish.objection(category).is_some())
    }

    /// From here on this is wanted. Turns that nothing is left of below the horizon are forgotten; and the oldest, if there
    /// are too many: what they hid is shown again.
    pub fn turn(&mut self, last: Arrival, wish: InboxWish, horizon: Arrival) {
        let usual = InboxWish::default();
        if self.turns.last().map_or(&usual, |(_, wish)| wish) == &wish {
            return;
        }
        self.turns.retain(|(from, _)| *from < last);
        if self.turns.last().map_or(&usual, |(_, wish)| wish) != &wish {
            self.turns.push((last, wish));
        }
        let expired = self.turns.partition_point(|(from, _)| *from <= horizon).saturating_sub(1);
        let surplus = self.turns.len().saturating_sub(INBOX_TURNS_MAX);
        self.turns.drain(..expired.max(surplus));
        if let [(_, only)] = &self.turns[..]
            && *only == usual
        {
            self.turns.clear();
        }
    }

    /// The stretches `(after, until]` in which something may be hidden; `None`: to this day. Ascending.
    pub fn hiding(&self) -> impl Iterator<Item = (Arrival, Option<Arrival>)> {
        let ends = self.turns.iter().skip(1).map(|(from, _)| Some(*from)).chain(std::iter::once(None));
        let stretches = self.turns.iter().zip(ends);
        stretches.filter(|((_, wish), _)| wish.hides_something()).map(|((from, _), until)| (*from, until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel_kind::ChannelSet;
    use crate::gates::{self, Ask, Choice, Profile, Verdict};
    use crate::preference::{CategoryChoice, Switches};
    use proptest::prelude::*;

    const LIKES: &str = "likes";

    fn wish(off: bool) -> InboxWish {
        InboxWish { inbox_off: off, ..InboxWish::default() }
    }

    // proves: INB-14
    #[test]
    fn what_was_hidden_stays_hidden_and_what_comes_is_shown() {
        let likes = CategoryId::of(LIKES);
        let mut turns = Turns::default();
        turns.turn(Arrival(10), wish(true), Arrival(0));
        turns.turn(Arrival(20), wish(false), Arrival(0));
        let shown: Vec<bool> =
            [1, 10, 11, 20, 21].map(|arrival| !turns.hides(likes, Arrival(arrival))).to_vec();
        assert_eq!(shown, [true, true, false, false, true]);
        assert_eq!(turns.hiding().collect::<Vec<_>>(), [(Arrival(10), Some(Arrival(20)))]);
        turns.turn(Arrival(30), wish(true), Arrival(0));
        assert_eq!(turns.hiding().last(), Some((Arrival(30), None)));
    }

    #[test]
    fn turns_that_nothing_arrived_between_are_one() {
        let mut turns = Turns::default();
        turns.turn(Arrival(10), wish(true), Arrival(0));
        turns.turn(Arrival(10), wish(false), Arrival(0));
        assert_eq!(turns, Turns::default());
        turns.turn(Arrival(10), wish(false), Arrival(0));
        assert_eq!(turns, Turns::default(), "showing everything is usual");
    }

    #[test]
    fn turns_are_forgotten_with_what_they_hid() {
        let mut turns = Turns::default();
        for no in 1..=3 {
            turns.turn(Arrival(no * 10), wish(no % 2 == 1), Arrival(0));
        }
        turns.turn(Arrival(40), wish(false), Arrival(30));
        let left: Vec<u64> = turns.turns.iter().map(|(from, _)| from.0).collect();
        assert_eq!(left, [30, 40]);
        for no in 0..3 * INBOX_TURNS_MAX as u64 {
            turns.turn(Arrival(50 + no), wish(no % 2 == 0), Arrival(0));
        }
        assert_eq!(turns.turns.len(), INBOX_TURNS_MAX);
    }

    fn switch() -> impl Strategy<Value = Switch> {
        prop_oneof![Just(Switch::NotSaid), Just(Switch::On), Just(Switch::Off)]
    }

    proptest! {
        // proves: PRF-01, PRF-03
        /// The inbox follows the same cascade as everything that is sent.
        #[test]
        fn it_objects_as_the_gates_do(
            everything in switch(),
            inbox in switch(),
            choice in proptest::option::of((switch(), proptest::option::of(any::<bool>()))),
        ) {
            let choice = choice.map(|(switch, here)| CategoryChoice {
                switch,
                channels: here.map(|here| {
                    let chosen = ChannelSet::EMPTY.with(ChannelKind::Email);
                    if here { chosen.with(ChannelKind::InApp) } else { chosen }
                }),
                frequency: None,
            });
            let preferences = Preferences {
                everything,
                channels: Switches::default().with(ChannelKind::InApp, inbox),
                categories: choice.map(|choice| (LIKES.to_owned(), choice)).into_iter().collect(),
                ..Preferences::default()
            };
            let profile = Profile {
                global_off: everything == Switch::Off,
                channels_off: preferences.channels.off(),
                ..Profile::default()
            };
            let chosen = choice.unwrap_or_default();
            let chosen = Choice { is_off: chosen.switch == Switch::Off, channels: chosen.channels, ..Choice::default() };
            let gate = gates::preference::check(&Ask::new(ChannelKind::InApp), &profile, &chosen);
            let objection = InboxWish::of(&preferences).objection(CategoryId::of(LIKES));
            prop_assert_eq!(objection.map(Verdict::Suppress), gate);
        }
    }
}
