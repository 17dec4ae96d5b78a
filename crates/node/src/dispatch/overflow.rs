//! Work, and timers that are due, that did not fit into their lane, remembered by the place at which they go on.
//!
//! Comes from: `state`, when a lane is full. Decides: which row may not be taken as it is met because older ones of the same
//! tenant wait in the tables, and from where these are read when there is room again. Goes to: `look`, which reads them in
//! order.
//!
//! Invariant: rows of a place that has an overflow come from it only, in order, from the first that did not fit on. So nothing
//! overtakes it, and nothing is forgotten: a row that is refused while the tables are read ends the page of its place.

use super::state::{LOOK_AGAIN_MS, READ_AGAIN_MS, earlier};
use fantail_machine::tables::RowsFrom;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::priority::Priority;
use std::collections::BTreeMap;

/// The most urgent lane goes first, but for one turn in so many, which is for the place that has waited longest.
const TURN_OF_ALL: u64 = 4;

/// Where work of one tenant waits for its turn.
pub type Place = (ChannelKind, Priority, TenantId);

/// What is to be read for a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refill<K> {
    pub place: Place,
    pub from: RowsFrom<K>,
    /// So many find room at most: the rest is for others.
    pub most: usize,
}

/// What is left in the tables of one shard, by place.
pub struct Overflows<K> {
    places: BTreeMap<Place, Overflow<K>>,
    /// When to look whether there is room.
    look_at: Option<Millis>,
    /// Turns that places have had.
    turns: u64,
}

struct Overflow<K> {
    from: RowsFrom<K>,
    /// The first row that was refused since the tables were read for it: the page may not have it.
    missed: Option<K>,
    /// It is not looked at before this.
    rests_until: Millis,
    /// Which turn it had last, or would have had when it began to wait.
    turn: u64,
}

impl<K> Default for Overflows<K> {
    fn default() -> Self {
        Self { places: BTreeMap::new(), look_at: None, turns: 0 }
    }
}

impl<K: Ord + Copy> Overflow<K> {
    fn miss(&mut self, row: K) {
        self.missed = Some(self.missed.map_or(row, |first| first.min(row)));
    }
}

impl<K: Ord + Copy> Overflows<K> {
    /// Whether a row has to wait until it is read for its place. It will be.
    pub fn holds_back(&mut self, place: Place, row: K) -> bool {
        let Some(overflow) = self.places.get_mut(&place).filter(|overflow| overflow.from.has(&row)) else {
            return false;
        };
        overflow.miss(row);
        true
    }

    /// There was no room for a row: it is read again, and what comes after it, when there is.
    pub fn put(&mut self, place: Place, row: K, look_at: Millis) {
        let (from, turn) = (RowsFrom::At(row), self.turns);
        let new = || Overflow { from, missed: None, rests_until: look_at, turn };
        let overflow = self.places.entry(place).or_insert_with(new);
        overflow.miss(row);
        if !overflow.from.has(&row) {
            overflow.from = from;
        }
        self.look_at = earlier(self.look_at, Some(look_at));
    }

    #[must_use]
    pub fn look_at(&self) -> Option<Millis> {
        self.look_at
    }

    /// The next place with room that does not rest, if it is time to look.
    pub fn next(&mut self, wall: Millis, has_room: impl Fn(Place) -> bool) -> Option<Refill<K>> {
        self.look_at.take_if(|at| *at <= wall)?;
        let is_of_all = self.turns % TURN_OF_ALL == TURN_OF_ALL - 1;
        let mut again = (!self.places.is_empty()).then(|| wall.plus(LOOK_AGAIN_MS));
        let mut first: Option<((u8, u64), Place, &mut Overflow<K>)> = None;
        for (place, overflow) in &mut self.places {
            if overflow.rests_until > wall {
                again = earlier(again, Some(overflow.rests_until));
                continue;
            }
            let (_, lane, _) = *place;
            let order = (if is_of_all { 0 } else { lane as u8 }, overflow.turn);
            let is_first = first.as_ref().is_none_or(|(known, ..)| order < *known);
            if is_first && has_room(*place) {
                first = Some((order, *place, overflow));
            }
        }
        let Some((_, place, overflow)) = first else {
            self.look_at = again;
            return None;
        };
        self.turns += 1;
        (overflow.missed, overflow.turn) = (None, self.turns);
        Some(Refill { place, from: overflow.from, most: usize::MAX })
    }

    /// The first row of a place that was refused since the tables were read for it. Rows of the page behind it are not taken:
    /// they would overtake it.
    #[must_use]
    pub fn missed(&self, place: Place) -> Option<K> {
        self.places.get(&place)?.missed
    }

    /// Everything up to here was read for a place, and there was room for all of it.
    pub fn filled(&mut self, place: Place, last: Option<K>, is_end: bool, wall: Millis) {
        let Some(overflow) = self.places.get_mut(&place) else { return };
        if let Some(last) = last {
            overflow.from = RowsFrom::Behind(last);
        }
        if is_end && overflow.missed.is_none() {
            self.places.remove(&place);
        }
        self.look_at = (!self.places.is_empty()).then_some(wall);
    }

    /// The same, up to this row. The place rests; others may have room.
    pub fn filled_before(&mut self, place: Place, row: K, wall: Millis) {
        if let Some(overflow) = self.places.get_mut(&place) {
            (overflow.from, overflow.rests_until) = (RowsFrom::At(row), wall.plus(LOOK_AGAIN_MS));
        }
        self.look_at = Some(wall);
    }

    /// The tables could not be read.
    pub fn not_read(&mut self, wall: Millis) {
        self.look_at = earlier(self.look_at, Some(wall.plus(READ_AGAIN_MS)));
    }

    /// Everything is read again from the beginning by others.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
