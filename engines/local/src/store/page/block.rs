//! Members in bulk, for fan-out: numbers in one slice, so that nothing is called per member.

use super::{Damaged, Page, Walk};
use fantail_rules::ids::{Arrival, UserNo};
use fantail_rules::interval::Interval;

/// A stretch of a list as it matters above one arrival. Reused from stretch to stretch: it keeps its memory.
#[derive(Default)]
pub struct Block {
    throughout: Vec<UserNo>,
    partly: Vec<Partly>,
    stays: Vec<Interval>,
    /// Stays of one member while they are read.
    read: Vec<Interval>,
}

struct Partly {
    user: UserNo,
    /// Where its stays end; they begin where those of the one before end.
    stays_end: usize,
}

impl Block {
    /// Members who are on the list at every arrival above the one that was asked for, ascending.
    pub fn throughout(&self) -> &[UserNo] {
        &self.throughout
    }

    /// Members who are on the list at some of those arrivals, ascending, with the stays that reach above it.
    /// Nobody is in both, and who is in neither needs nothing.
    pub fn partly(&self) -> impl Iterator<Item = (UserNo, &[Interval])> {
        let mut begin = 0;
        self.partly.iter().map(move |one| {
            let stays = &self.stays[begin..one.stays_end];
            begin = one.stays_end;
            (one.user, stays)
        })
    }

    pub fn clear(&mut self) {
        self.throughout.clear();
        self.partly.clear();
        self.stays.clear();
    }

    /// Adds the members of a page that begins where the last one ended.
    pub fn add(&mut self, page: &Page<'_>, after: Arrival) -> Result<(), Damaged> {
        let mut walk = Walk::begin(page);
        loop {
            if let Some(distances) = walk.peek_eight() {
                self.add_plain(walk.user, distances);
                walk.take_word(distances);
                continue;
            }
            if let Some(distances) = walk.peek_four() {
                self.add_plain(walk.user, distances);
                walk.take_word(distances);
                continue;
            }
            let Some(found) = walk.peek()? else { return Ok(()) };
            if found.has_stays {
                let mut read = std::mem::take(&mut self.read);
                walk.take_with_stays(found, &mut read)?;
                self.add_with_stays(UserNo(walk.user), &read, after);
                self.read = read;
            } else {
                walk.take(found);
                self.throughout.push(UserNo(walk.user));
            }
        }
    }

    #[inline]
    fn add_plain<const MEMBERS: usize>(&mut self, mut user: u64, distances: [u64; MEMBERS]) {
        self.throughout.extend(distances.map(|distance| {
            user += distance;
            UserNo(user)
        }));
    }

    fn add_with_stays(&mut self, user: UserNo, stays: &[Interval], after: Arrival) {
        let over = stays.iter().take_while(|stay| stay.until.is_some_and(|until| until <= after)).count();
        match &stays[over..] {
            [] => {}
            [Interval { from, until: None }] if *from <= after => self.throughout.push(user),
            reaching => {
                self.stays.extend_from_slice(reaching);
                self.partly.push(Partly { user, stays_end: self.stays.len() });
            }
        }
    }

    /// Leaves out who lies below.
    pub fn cut_below(&mut self, from: UserNo) {
        let below = self.throughout.partition_point(|user| *user < from);
        self.throughout.drain(..below);
        let below = self.partly.partition_point(|one| one.user < from);
        let Some(last) = self.partly.drain(..below).next_back() else { return };
        self.stays.drain(..last.stays_end);
        self.partly.iter_mut().for_each(|one| one.stays_end -= last.stays_end);
    }

    /// Leaves out who lies at or above.
    pub fn cut_from(&mut self, until: UserNo) {
        self.throughout.truncate(self.throughout.partition_point(|user| *user < until));
        self.partly.truncate(self.partly.partition_point(|one| one.user < until));
        self.stays.truncate(self.partly.last().map_or(0, |last| last.stays_end));
    }

    /// Everyone, in one order, as plainly as possible.
    #[cfg(test)]
    pub fn all(&self) -> std::collections::BTreeMap<UserNo, Vec<Interval>> {
        let throughout = self.throughout.iter().map(|user| (*user, super::ALWAYS.to_vec()));
        throughout.chain(self.partly().map(|(user, stays)| (user, stays.to_vec()))).collect()
    }
}
