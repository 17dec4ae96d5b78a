//! A page of a list: the members whose numbers lie between two bounds, packed. An edit rewrites its page.
//!
//! ```text
//! page     upper members stayers told? member*
//!                               upper: where the next page begins, 0 if this is the last one
//!                               stayers: how many of the members have their stays told
//! told     forgotten base       only if there are any: through which arrival they are forgotten,
//!                               and the one near which most of them begin
//! member   head stays?          head: (user−previous) × 2, + 1 if stays are told
//! stays    kind stay*           kind: number of stays × 2, + 1 if the last one is open
//! stay     from−previous until−from    an open stay has no second number
//! ```
//! A member without stays is on the list, always: it joined at or below everything that may still be asked for.
//! `previous` is the user (arrival) before; it begins at the page's lower bound (at `base`: only this first
//! distance may be negative, and is folded around zero). All numbers are LEB128. A head has 65 bits; its lowest
//! seven, in the first byte, are six of the distance and whether stays are told.

use super::pack::{Cut, put_number};
use fantail_rules::ids::{Arrival, UserNo};
use fantail_rules::interval::Interval;

mod block;
mod rewrite;

pub use block::Block;
pub use rewrite::rewrite;

/// Members of a page before it is split. An edit copies its page and a sync writes it; a stream looks up one row per
/// page. Half of it streams a third slower, twice of it takes edits a tenth slower.
pub const PAGE_MEMBERS_MAX: usize = 512;

/// How the stays of a member are told that has none stored.
pub const ALWAYS: [Interval; 1] = [Interval { from: Arrival::START, until: None }];

/// A page that does not decode.
#[derive(Debug)]
pub struct Damaged;

/// A page as it is read: its head, and what follows packed.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    pub from: UserNo,
    pub upper: Option<UserNo>,
    pub members: u64,
    pub stayers: u64,
    forgotten: Arrival,
    base: Arrival,
    body: &'a [u8],
}

impl<'a> Page<'a> {
    /// Reads the head. Nothing in a page says where it begins, so `from` comes from its key.
    pub fn open(from: UserNo, bytes: &'a [u8]) -> Result<Self, Damaged> {
        Self::read_head(from, Cut(bytes)).ok_or(Damaged)
    }

    fn read_head(from: UserNo, mut cut: Cut<'a>) -> Option<Self> {
        let (upper, members, stayers) = (cut.number()?, cut.number()?, cut.number()?);
        let (forgotten, base) = if stayers > 0 { (cut.number()?, cut.number()?) } else { (0, 0) };
        let (forgotten, base) = (Arrival(forgotten), Arrival(base));
        let upper = (upper > 0).then_some(UserNo(upper));
        // Each takes a byte or more.
        let is_possible = stayers <= members && members <= cut.0.len() as u64;
        is_possible.then_some(Self { from, upper, members, stayers, forgotten, base, body: cut.0 })
    }

    pub fn holds(&self, user: UserNo) -> bool {
        self.from <= user && self.upper.is_none_or(|upper| user < upper)
    }

    /// Visits all members in ascending order.
    pub fn visit(&self, mut visit: impl FnMut(UserNo, &[Interval])) -> Result<(), Damaged> {
        let (mut walk, mut stays) = (Walk::begin(self), Vec::new());
        while let Some(found) = walk.peek()? {
            if found.has_stays {
                walk.take_with_stays(found, &mut stays)?;
                visit(UserNo(walk.user), &stays);
            } else {
                walk.take(found);
                visit(UserNo(walk.user), &ALWAYS);
            }
        }
        Ok(())
    }
}

/// A place between two members of a page.
struct Walk<'a> {
    /// The member before.
    user: u64,
    base: Arrival,
    left: u64,
    rest: &'a [u8],
}

/// The head of the next member, and what follows it.
struct Found<'a> {
    user: u64,
    has_stays: bool,
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    fn begin(page: &Page<'a>) -> Self {
        Self { user: page.from.0, base: page.base, left: page.members, rest: page.body }
    }

    /// The next member, which is not taken yet; `None` at the end.
    #[inline]
    fn peek(&self) -> Result<Option<Found<'a>>, Damaged> {
        if self.left == 0 {
            return if self.rest.is_empty() { Ok(None) } else { Err(Damaged) };
        }
        self.read_member_head().ok_or(Damaged).map(Some)
    }

    #[inline]
    fn read_member_head(&self) -> Option<Found<'a>> {
        let (first, mut rest) = self.rest.split_first()?;
        let mut distance = u64::from(first & 0x7e) >> 1;
        if *first >= 0x80 {
            let mut cut = Cut(rest);
            let high = match rest {
                [second, after @ ..] if *second < 0x80 => {
                    cut = Cut(after);
                    u64::from(*second)
                }
                _ => cut.number()?,
            };
            if high >> 58 > 0 {
                return None;
            }
            distance |= high << 6;
            rest = cut.0;
        }
        Some(Found { user: self.user.checked_add(distance)?, has_stays: first & 1 == 1, rest })
    }

    #[inline]
    fn take(&mut self, found: Found<'a>) {
        (self.user, self.rest) = (found.user, found.rest);
        self.left -= 1;
    }

    fn take_with_stays(&mut self, found: Found<'a>, stays: &mut Vec<Interval>) -> Result<(), Damaged> {
        let mut cut = Cut(found.rest);
        read_stays(&mut cut, self.base, stays).ok_or(Damaged)?;
        self.take(Found { rest: cut.0, ..found });
        Ok(())
    }

    /// The distances of the next eight members if their heads have one byte each and none tells stays, as most do
    /// where many follow.
    #[inline]
    fn peek_eight(&self) -> Option<[u64; 8]> {
        let heads = self.peek_word(8)?;
        (heads & 0x8181_8181_8181_8181 == 0).then(|| heads.to_le_bytes().map(|head| u64::from(head >> 1)))
    }

    /// The distances of the next four members if their heads have two bytes each and none tells stays, as most do
    /// where few follow.
    #[inline]
    fn peek_four(&self) -> Option<[u64; 4]> {
        let heads = self.peek_word(4)?;
        let distances = heads >> 1 & 0x003f_003f_003f_003f | heads >> 2 & 0x1fc0_1fc0_1fc0_1fc0;
        let distance = |at: u32| distances >> (16 * at) & 0xffff;
        (heads & 0x8081_8081_8081_8081 == 0x0080_0080_0080_0080).then(|| [0, 1, 2, 3].map(distance))
    }

    #[inline]
    fn peek_word(&self, members: u64) -> Option<u64> {
        let word = self.rest.first_chunk::<8>()?;
        // Distances of one or two bytes cannot lead beyond the largest number then.
        (self.left >= members && self.user < u64::MAX - (1 << 16)).then(|| u64::from_le_bytes(*word))
    }

    /// Takes what was seen in eight bytes.
    #[inline]
    fn take_word<const MEMBERS: usize>(&mut self, distances: [u64; MEMBERS]) {
        self.user += distances.iter().sum::<u64>();
        self.rest = &self.rest[8..];
        self.left -= MEMBERS as u64;
    }
}

fn read_stays(cut: &mut Cut<'_>, base: Arrival, stays: &mut Vec<Interval>) -> Option<()> {
    stays.clear();
    // Most joined not long ago and are there: one open stay that begins near the base.
    if let [3, distance @ 0..0x80, rest @ ..] = cut.0 {
        let from = Arrival(base.0.wrapping_add(unfold(u64::from(*distance))));
        stays.push(Interval { from, until: None });
        cut.0 = rest;
        return Some(());
    }
    let kind = cut.number()?;
    let (count, open) = (kind >> 1, kind & 1 == 1);
    for index in 0..count {
        let distance = cut.number()?;
        let from = match stays.last().and_then(|last: &Interval| last.until) {
            None => base.0.wrapping_add(unfold(distance)),
            Some(previous) => previous.0.checked_add(distance)?,
        };
        let until = if open && index + 1 == count { None } else { Some(from.checked_add(cut.number()?)?) };
        stays.push(Interval { from: Arrival(from), until: until.map(Arrival) });
    }
    (count > 0).then_some(())
}

fn put_member_head(out: &mut Vec<u8>, distance: u64, has_stays: bool) {
    let low = (distance as u8 & 0x3f) << 1 | u8::from(has_stays);
    if distance < 0x40 {
        out.push(low);
    } else {
        out.push(low | 0x80);
        put_number(out, distance >> 6);
    }
}

fn put_stays(out: &mut Vec<u8>, base: Arrival, stays: &[Interval]) {
    let open = stays.last().is_some_and(|last| last.until.is_none());
    put_number(out, (stays.len() as u64) << 1 | u64::from(open));
    let mut previous = None;
    for stay in stays {
        let distance = match previous {
            None => fold(stay.from.0.wrapping_sub(base.0)),
            Some(previous) => stay.from.0 - previous,
        };
        put_number(out, distance);
        if let Some(until) = stay.until {
            put_number(out, until.0 - stay.from.0);
            previous = Some(until.0);
        }
    }
}

/// Small distances in either direction become small numbers: 0, −1, 1, −2 …
fn fold(distance: u64) -> u64 {
    distance << 1 ^ ((distance as i64) >> 63) as u64
}

fn unfold(folded: u64) -> u64 {
    folded >> 1 ^ (folded & 1).wrapping_neg()
}

#[cfg(test)]
mod tests;
