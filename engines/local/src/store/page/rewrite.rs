//! Edits of a page. What does not change is copied as bytes, without taking it apart more than is needed to find
//! the place; numbers are distances, so only the member after a changed one is packed again.
//!
//! On the way the page forgets what nobody can ask for: stays that ended at or before the horizon, and when those
//! began that reach above it.

use super::{ALWAYS, Damaged, Found, PAGE_MEMBERS_MAX, Page, Walk, put_member_head, put_number, put_stays};
use fantail_ports::lists::ListEdit;
use fantail_rules::ids::{Arrival, UserNo};
use fantail_rules::interval::Interval;

/// Members in each page when a page is split because of members in its middle: room for more of them.
const SPLIT_MEMBERS: usize = PAGE_MEMBERS_MAX / 4 * 3;

/// A page as it is stored.
#[derive(PartialEq, Eq, Debug)]
pub struct Packed {
    pub from: UserNo,
    pub members: u64,
    pub bytes: Vec<u8>,
}

/// What edits, in ascending order and one per user, make of their page: one page, or as many as it takes. The
/// first begins where the page began, each other one where the one before ends. `scratch` is memory to reuse.
pub fn rewrite(
    page: &Page<'_>,
    edits: &[&ListEdit],
    horizon: Arrival,
    scratch: &mut Vec<u8>,
) -> Result<Vec<Packed>, Damaged> {
    scratch.clear();
    let mut copy = Copy::begin(page, edits, horizon, scratch);
    let mut appends = page.upper.is_none();
    for edit in edits {
        assert!(page.holds(edit.user), "an edit goes to the page that holds its user");
        copy.keep_below(Some(edit.user.0))?;
        appends = appends && copy.walk.left == 0;
        copy.leave_out(edit.user.0)?;
        copy.put_needed(edit.user.0, edit.intervals.as_slice())?;
    }
    copy.keep_below(None)?;
    copy.flush_to(copy.walk.rest);
    let whole =
        Body { members: copy.members, stayers: copy.stayers, forgotten: copy.horizon, base: copy.base };
    if whole.members <= PAGE_MEMBERS_MAX as u64 {
        return Ok(vec![whole.pack(page.from, page.upper, scratch)]);
    }
    split(page, &whole, scratch, appends)
}

/// Copies a page, with changes.
struct Copy<'a, 's> {
    walk: Walk<'a>,
    /// Of `walk`, begins with what is to be copied as it is and was not yet.
    uncopied: &'a [u8],
    stayers_left: u64,
    horizon: Arrival,
    /// Whether stays may be over, or older than the horizon now, that were not when the page was written.
    forgets: bool,
    /// Of the page that is written; of the one that is read if stays are copied as they are.
    base: Arrival,
    out: &'s mut Vec<u8>,
    /// The last member in `out`, or that will be once the uncopied bytes are.
    last: u64,
    members: u64,
    stayers: u64,
    stays: Vec<Interval>,
}

impl<'a, 's> Copy<'a, 's> {
    fn begin(page: &Page<'a>, edits: &[&ListEdit], horizon: Arrival, out: &'s mut Vec<u8>) -> Self {
        let walk = Walk::begin(page);
        // What the page has forgotten it cannot tell again, whatever is asked for.
        let horizon = horizon.max(page.forgotten);
        let forgets = page.stayers > 0 && page.forgotten < horizon;
        let keeps_base = page.stayers > 0 && !forgets;
        let base = edits.first().map_or(page.base, |edit| edit.at);
        Self {
            uncopied: walk.rest,
            stayers_left: page.stayers,
            forgets,
            base: if keeps_base { page.base } else { base },
            walk,
            horizon,
            out,
            last: page.from.0,
            members: 0,
            stayers: 0,
            stays: Vec::new(),
        }
    }

    /// Whether the distance of the next member is right as it is.
    fn is_in_step(&self) -> bool {
        self.last == self.walk.user
    }

    /// Goes on to the first member at or above `bound`.
    fn keep_below(&mut self, bound: Option<u64>) -> Result<(), Damaged> {
        loop {
            if self.is_in_step() {
                self.skip_plain(bound);
            }
            let Some(found) = self.walk.peek()? else { return Ok(()) };
            if bound.is_some_and(|bound| found.user >= bound) {
                return Ok(());
            }
            if found.has_stays {
                self.keep_with_stays(found)?;
            } else if self.is_in_step() {
                self.walk.take(found);
                self.last = self.walk.user;
                self.members += 1;
            } else {
                self.walk.take(found);
                self.put(self.walk.user, &ALWAYS)?;
                self.uncopied = self.walk.rest;
            }
        }
    }

    /// Leaves members to be copied in large steps where it can.
    fn skip_plain(&mut self, bound: Option<u64>) {
        let Some(bound) = bound else {
            if self.stayers_left == 0 || !self.forgets {
                self.members += self.walk.left;
                self.stayers += self.stayers_left;
                (self.walk.left, self.walk.rest) = (0, &[]);
            }
            return;
        };
        loop {
            if let Some(distances) = self.walk.peek_eight() {
                if !self.skip_word(distances, bound) {
                    return;
                }
            } else if let Some(distances) = self.walk.peek_four() {
                if !self.skip_word(distances, bound) {
                    return;
                }
            } else {
                return;
            }
        }
    }

    #[inline]
    fn skip_word<const MEMBERS: usize>(&mut self, distances: [u64; MEMBERS], bound: u64) -> bool {
        let last = self.walk.user + distances.iter().sum::<u64>();
        if last >= bound {
            return false;
        }
        self.walk.take_word(distances);
        self.last = last;
        self.members += MEMBERS as u64;
        true
    }

    fn keep_with_stays(&mut self, found: Found<'a>) -> Result<(), Damaged> {
        let (was_in_step, before) = (self.is_in_step(), self.walk.rest);
        let mut stays = std::mem::take(&mut self.stays);
        self.take_with_stays(found, &mut stays)?;
        if was_in_step && !self.forgets {
            self.last = self.walk.user;
            self.members += 1;
            self.stayers += 1;
        } else {
            self.flush_to(before);
            self.uncopied = self.walk.rest;
            self.put_needed(self.walk.user, &stays)?;
        }
        self.stays = stays;
        Ok(())
    }

    fn take_with_stays(&mut self, found: Found<'a>, stays: &mut Vec<Interval>) -> Result<(), Damaged> {
        self.stayers_left = self.stayers_left.checked_sub(1).ok_or(Damaged)?;
        self.walk.take_with_stays(found, stays)
    }

    /// Leaves `user` out if it is the next member.
    fn leave_out(&mut self, user: u64) -> Result<(), Damaged> {
        self.flush_to(self.walk.rest);
        let Some(found) = self.walk.peek()?.filter(|found| found.user == user) else { return Ok(()) };
        if found.has_stays {
            let mut stays = std::mem::take(&mut self.stays);
            self.take_with_stays(found, &mut stays)?;
            self.stays = stays;
        } else {
            self.walk.take(found);
        }
        self.uncopied = self.walk.rest;
        Ok(())
    }

    /// Copies what was left to be copied and lies before `rest`.
    fn flush_to(&mut self, rest: &'a [u8]) {
        let bytes = self.uncopied.len() - rest.len();
        self.out.extend_from_slice(&self.uncopied[..bytes]);
        self.uncopied = rest;
    }

    /// Puts a member in as far as it can still be asked for.
    fn put_needed(&mut self, user: u64, stays: &[Interval]) -> Result<(), Damaged> {
        let over = stays.iter().take_while(|stay| stay.until.is_some_and(|until| until <= self.horizon));
        let needed = &stays[over.count()..];
        match needed {
            [] => Ok(()),
            [first, ..] if first.from > self.horizon => self.put(user, needed),
            [_, later @ ..] => {
                let first = Interval { from: Arrival::START, until: needed[0].until };
                self.put(user, &[&[first], later].concat())
            }
        }
    }

    fn put(&mut self, user: u64, stays: &[Interval]) -> Result<(), Damaged> {
        let ascends = user > self.last || self.members == 0 && user == self.last;
        if !ascends {
            return Err(Damaged);
        }
        let has_stays = stays != ALWAYS;
        put_member_head(self.out, user - self.last, has_stays);
        if has_stays {
            put_stays(self.out, self.base, stays);
            self.stayers += 1;
        }
        self.last = user;
        self.members += 1;
        Ok(())
    }
}

/// What the head of a page says beside its bounds.
struct Body {
    members: u64,
    stayers: u64,
    forgotten: Arrival,
    base: Arrival,
}

impl Body {
    fn pack(&self, from: UserNo, upper: Option<UserNo>, members: &[u8]) -> Packed {
        let mut bytes = Vec::with_capacity(members.len() + 24);
        put_number(&mut bytes, upper.map_or(0, |upper| upper.0));
        put_number(&mut bytes, self.members);
        put_number(&mut bytes, self.stayers);
        if self.stayers > 0 {
            put_number(&mut bytes, self.forgotten.0);
            put_number(&mut bytes, self.base.0);
        }
        bytes.extend_from_slice(members);
        Packed { from, members: self.members, bytes }
    }
}

/// Cuts a page into full ones and a rest if members were added at its end, for there are more to come; otherwise
/// into equal ones with room.
fn split(page: &Page<'_>, whole: &Body, members: &[u8], appends: bool) -> Result<Vec<Packed>, Damaged> {
    let each = if appends {
        PAGE_MEMBERS_MAX as u64
    } else {
        whole.members.div_ceil(whole.members.div_ceil(SPLIT_MEMBERS as u64))
    };
    let mut walk = Walk { user: page.from.0, base: whole.base, left: whole.members, rest: members };
    let (mut packed, mut from, mut stays) = (Vec::new(), page.from, Vec::new());
    let mut part = Body { members: 0, stayers: 0, ..*whole };
    let mut bytes = Vec::new();
    while let Some(found) = walk.peek()? {
        if part.members == each {
            let user = UserNo(found.user);
            packed.push(part.pack(from, Some(user), &bytes));
            (from, part.members, part.stayers) = (user, 0, 0);
            bytes.clear();
            // It lies at the lower bound of its page now.
            put_member_head(&mut bytes, 0, found.has_stays);
        } else {
            put_member_head(&mut bytes, found.user - walk.user, found.has_stays);
        }
        let told = found.rest;
        part.members += 1;
        if found.has_stays {
            part.stayers += 1;
            walk.take_with_stays(found, &mut stays)?;
        } else {
            walk.take(found);
        }
        bytes.extend_from_slice(&told[..told.len() - walk.rest.len()]);
    }
    packed.push(part.pack(from, page.upper, &bytes));
    Ok(packed)
}
