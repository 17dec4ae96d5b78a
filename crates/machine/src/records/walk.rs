//! Facts of a shard about those who are chosen, not named: walks over its users, and uploaded lists.
//!
//! ```text
//! 50 Passed    tenant, arrival, next: user, lookedAt: varint, members: ascending, unshown: ascending,
//!              skipped: list of (reason: text, varint), pacedUntil: millis, isEnd: flag
//! 51 Enlisted  tenant, list: 16, users: ascending
//! 52 Delisted  tenant, list: 16, pages: ascending, isLast: flag
//! 53 Begun     front: varint, position, tenant, event: ulid, late: flag, delivery, walk, bound: user
//!
//! walk = segment: text, filter: option text, list: option 16, flags: u8 (1 excludes opted-out, 2 ignores quiet hours, 4 is paused),
//!        pace, window: option (bits: varint, zone: varint)
//! pace = 0 free | 1 perSecond: varint | 2 ms: varint (spread over so long)
//! ```

use super::front::Delivery;
use super::respect::read_zone;
use super::segment::UploadId;
use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::{Arrival, FrontNo, Millis, Position, TenantId, UserNo};
use fantail_rules::quiet::Window;
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WalkRecord {
    Passed(Passed),
    Enlisted(Enlisted),
    Delisted(Delisted),
    Begun(Begun),
}

/// Who is chosen, and how fast.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Walk {
    /// Its name, for whoever asks.
    pub segment: String,
    /// The segment's condition and list when it was asked for: later changes are not of this walk.
    pub filter: Option<String>,
    pub list: Option<UploadId>,
    /// Whoever wants none of it is counted and not taken along.
    pub excludes_opted_out: bool,
    pub ignores_quiet_hours: bool,
    /// It does not begin by itself.
    pub is_paused: bool,
    pub pace: Pace,
    /// When it goes on, on the clock of a zone.
    pub window: Option<(Window, ZoneNo)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    Free,
    /// Members, of all shards together.
    PerSecond(u32),
    /// All users are passed evenly in so many milliseconds.
    Over(u64),
}

/// A walk begins in a shard, at its place in the front's order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begun {
    pub front: FrontNo,
    pub position: Position,
    pub tenant: TenantId,
    pub event: Ulid,
    pub is_late: bool,
    pub delivery: Delivery,
    pub walk: Walk,
    /// The first who came too late.
    pub bound: UserNo,
}

/// The cursor of a walk has passed some users, and this was decided about them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Passed {
    pub tenant: TenantId,
    pub arrival: Arrival,
    /// The first who was not looked at.
    pub next: UserNo,
    pub looked_at: u64,
    pub members: Vec<UserNo>,
    /// Those of them whose inbox does not show it, ascending; nobody's does if it is not for inboxes.
    pub unshown: Vec<UserNo>,
    /// Who was chosen and is not taken along, by reason.
    pub skipped: Vec<(String, u64)>,
    /// Nobody else is passed before.
    pub paced_until: Millis,
    pub is_end: bool,
}

/// These users are on a list from now on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enlisted {
    pub tenant: TenantId,
    pub list: UploadId,
    /// Ascending.
    pub users: Vec<UserNo>,
}

/// Pages of a list that nobody needs any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delisted {
    pub tenant: TenantId,
    pub list: UploadId,
    pub pages: Vec<u64>,
    /// With them, the list is gone.
    pub is_last: bool,
}

impl WalkRecord {
    pub(super) fn tag(&self) -> u8 {
        match self {
            Self::Passed(_) => 50,
            Self::Enlisted(_) => 51,
            Self::Delisted(_) => 52,
            Self::Begun(_) => 53,
        }
    }

    pub(super) fn write(&self, w: &mut Writer) {
        match self {
            Self::Passed(passed) => passed.write(w),
            Self::Enlisted(enlisted) => enlisted.write(w),
            Self::Delisted(delisted) => delisted.write(w),
            Self::Begun(begun) => begun.write(w),
        }
    }

    pub(super) fn read(tag: u8, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        match tag {
            50 => Passed::read(r).map(Self::Passed),
            51 => Enlisted::read(r).map(Self::Enlisted),
            52 => Delisted::read(r).map(Self::Delisted),
            53 => Begun::read(r).map(Self::Begun),
            _ => Err(Malformed::Tag(tag)),
        }
    }
}

impl Walk {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.text(&self.segment).option(self.filter.as_deref(), |w, filter| {
            w.text(filter);
        });
        w.option(self.list, |w, list| {
            w.fixed(&list.0);
        });
        let flags = u8::from(self.excludes_opted_out)
            | u8::from(self.ignores_quiet_hours) << 1
            | u8::from(self.is_paused) << 2;
        w.u8(flags);
        self.pace.write(w);
        w.option(self.window, |w, (window, zone)| {
            w.varint(window.bits().into()).varint(zone.number().into());
        });
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (segment, filter) = (r.text()?, r.option(Reader::text)?);
        let list = r.option(|r| r.array().map(UploadId))?;
        let flags = r.u8()?;
        if flags > 7 {
            return Err(Malformed::Value("walk"));
        }
        let pace = Pace::read(r)?;
        let window = r.option(|r| {
            let window = Window::from_stored(r.u32()?).ok_or(Malformed::Value("window"))?;
            Ok((window, read_zone(r)?))
        })?;
        let [excludes_opted_out, ignores_quiet_hours, is_paused] = [1, 2, 4].map(|flag| flags & flag != 0);
        Ok(Self { segment, filter, list, excludes_opted_out, ignores_quiet_hours, is_paused, pace, window })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steer {
    Pause,
    Resume,
    Pace(Pace),
}

impl Steer {
    pub(crate) fn write(self, w: &mut Writer) {
        match self {
            Self::Pause => drop(w.u8(0)),
            Self::Resume => drop(w.u8(1)),
            Self::Pace(pace) => pace.write(w.u8(2)),
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        match r.u8()? {
            0 => Ok(Self::Pause),
            1 => Ok(Self::Resume),
            2 => Pace::read(r).map(Self::Pace),
            other => Err(Malformed::Tag(other)),
        }
    }
}

impl Pace {
    pub(crate) fn write(self, w: &mut Writer) {
        match self {
            Self::Free => w.u8(0),
            Self::PerSecond(members) => w.u8(1).varint(members.into()),
            Self::Over(ms) => w.u8(2).varint(ms),
        };
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        match r.u8()? {
            0 => Ok(Self::Free),
            1 => r.u32().map(Self::PerSecond),
            2 => r.varint().map(Self::Over),
            other => Err(Malformed::Tag(other)),
        }
    }
}

impl Begun {
    fn write(&self, w: &mut Writer) {
        w.varint(self.front.0.into()).position(self.position).tenant(self.tenant).ulid(self.event);
        w.flag(self.is_late);
        self.delivery.write(w);
        self.walk.write(w);
        w.user(self.bound);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            front: FrontNo(r.u16()?),
            position: r.position()?,
            tenant: r.tenant()?,
            event: r.ulid()?,
            is_late: r.flag()?,
            delivery: Delivery::read(r)?,
            walk: Walk::read(r)?,
            bound: r.user()?,
        })
    }
}

impl Passed {
    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).arrival(self.arrival).user(self.next).varint(self.looked_at);
        w.ascending(self.members.iter().map(|user| user.0)).ascending(self.unshown.iter().map(|user| user.0));
        w.list(self.skipped.iter(), |w, (reason, count)| {
            w.text(reason).varint(*count);
        });
        w.millis(self.paced_until).flag(self.is_end);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            arrival: r.arrival()?,
            next: r.user()?,
            looked_at: r.varint()?,
            members: r.ascending()?.into_iter().map(UserNo).collect(),
            unshown: r.ascending()?.into_iter().map(UserNo).collect(),
            skipped: r.list(|r| Ok((r.text()?, r.varint()?)))?,
            paced_until: r.millis()?,
            is_end: r.flag()?,
        })
    }
}

impl Enlisted {
    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).fixed(&self.list.0).ascending(self.users.iter().map(|user| user.0));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, list) = (r.tenant()?, UploadId(r.array()?));
        Ok(Self { tenant, list, users: r.ascending()?.into_iter().map(UserNo).collect() })
    }
}

impl Delisted {
    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).fixed(&self.list.0).ascending(self.pages.iter().copied()).flag(self.is_last);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, list) = (r.tenant()?, UploadId(r.array()?));
        Ok(Self { tenant, list, pages: r.ascending()?, is_last: r.flag()? })
    }
}
