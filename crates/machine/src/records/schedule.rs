//! Facts about recurring schedules: a part of the control plane.
//!
//! ```text
//! 15 SchedulePut  tenant, id: text, cron: text, zone: varint (0: the recipient's), starts: option millis,
//!                 ends: option millis, paused: flag, sends: u8 (0 a notification, 1 to a segment; 2 and 3 the same,
//!                 with an author), body: sealed, author?, version: varint, next: option millis, difference
//! 16 ScheduleGone tenant, id: text, difference
//! 17 ScheduleRan  tenant, id: text, due: millis, run: option (at: millis, came), next: option millis
//!
//! came   = 0 event: ulid | 1 why: text
//! author = key: option text (none: the admin key), may be critical: flag
//! ```
//! What a schedule sends is sealed under the tenant's key: it has names and content. When it comes next was found out with the
//! time zones of that moment, and is a fact from then on.

use super::difference::Difference;
use crate::codec::{Malformed, Reader, Writer};
use fantail_ports::keyring::Sealed;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::schedule::{Cron, Recurrence, ScheduleClock};
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchedulePut {
    pub definition: Definition,
    /// The first one is 1.
    pub version: u32,
    /// The run that is waited for; `None` if it is paused or over.
    pub next: Option<Millis>,
    pub difference: Difference,
}

/// What a tenant says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    pub tenant: TenantId,
    pub id: String,
    /// As it was written; see `rules::schedule::Cron`.
    pub cron: String,
    /// `NONE`: everybody's own.
    pub zone: ZoneNo,
    pub starts: Option<Millis>,
    pub ends: Option<Millis>,
    pub is_paused: bool,
    pub sends: Sends,
    pub body: Sealed,
    /// `None`: it was written before schedules had authors.
    pub author: Option<Author>,
}

/// Who wrote a schedule last: its runs may do what its author may.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Author {
    /// The id of an API key; `None`: the server's admin key.
    pub key: Option<String>,
    /// Whether the author might send what is critical.
    pub may_be_critical: bool,
}

/// Added to the number of [`Sends`] if an author follows.
const WITH_AUTHOR: u8 = 2;

/// What each run asks for. Frozen numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Sends {
    Notification = 0,
    ToSegment = 1,
}

/// A schedule was due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleRan {
    pub tenant: TenantId,
    pub id: String,
    /// What was waited for.
    pub due: Millis,
    /// `None`: it was too late for it, or the time zones have changed and it comes at another time.
    pub run: Option<Run>,
    pub next: Option<Millis>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// The time of the schedule.
    pub at: Millis,
    pub came: Came,
}

/// What a run came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Came {
    Issued(Ulid),
    /// In a word.
    Refused(String),
}

impl Definition {
    /// When its runs are. `None` for what a later version may understand: it does not run.
    #[must_use]
    pub fn recurrence(&self) -> Option<Recurrence> {
        let cron = Cron::parse(&self.cron).ok()?;
        let clock =
            if self.zone == ZoneNo::NONE { ScheduleClock::Recipient } else { ScheduleClock::Zone(self.zone) };
        Some(Recurrence { cron, clock, starts: self.starts, ends: self.ends })
    }

    /// Whether the other one comes at the same times.
    #[must_use]
    pub fn is_when(&self, other: &Self) -> bool {
        let when = |of: &Self| (of.cron.clone(), of.zone, of.starts, of.ends, of.is_paused);
        when(self) == when(other)
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.id).text(&self.cron).varint(self.zone.number().into());
        option_millis(w, self.starts);
        option_millis(w, self.ends);
        let with_author = if self.author.is_some() { WITH_AUTHOR } else { 0 };
        w.flag(self.is_paused).u8(self.sends as u8 + with_author).sealed(&self.body);
        if let Some(author) = &self.author {
            w.option(author.key.as_ref(), |w, key| {
                w.text(key);
            });
            w.flag(author.may_be_critical);
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, id, cron) = (r.tenant()?, r.text()?, r.text()?);
        let zone = ZoneNo::from_stored(r.u16()?).ok_or(Malformed::Value("zone"))?;
        let (starts, ends) = (r.option(Reader::millis)?, r.option(Reader::millis)?);
        let is_paused = r.flag()?;
        let (sends, has_author) = match r.u8()? {
            0 => (Sends::Notification, false),
            1 => (Sends::ToSegment, false),
            2 => (Sends::Notification, true),
            3 => (Sends::ToSegment, true),
            other => return Err(Malformed::Tag(other)),
        };
        let body = r.sealed()?;
        let author = match has_author {
            true => Some(Author { key: r.option(Reader::text)?, may_be_critical: r.flag()? }),
            false => None,
        };
        Ok(Self { tenant, id, cron, zone, starts, ends, is_paused, sends, body, author })
    }
}

impl SchedulePut {
    pub(super) fn write(&self, w: &mut Writer) {
        self.definition.write(w);
        w.varint(self.version.into());
        option_millis(w, self.next);
        self.difference.write(w);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            definition: Definition::read(r)?,
            version: r.u32()?,
            next: r.option(Reader::millis)?,
            difference: Difference::read(r)?,
        })
    }
}

impl ScheduleRan {
    pub(super) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.id).millis(self.due);
        w.option(self.run.as_ref(), |w, run| run.write(w));
        option_millis(w, self.next);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            id: r.text()?,
            due: r.millis()?,
            run: r.option(Run::read)?,
            next: r.option(Reader::millis)?,
        })
    }
}

impl Run {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.millis(self.at);
        match &self.came {
            Came::Issued(event) => w.u8(0).ulid(*event),
            Came::Refused(why) => w.u8(1).text(why),
        };
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let at = r.millis()?;
        let came = match r.u8()? {
            0 => Came::Issued(r.ulid()?),
            1 => Came::Refused(r.text()?),
            other => return Err(Malformed::Tag(other)),
        };
        Ok(Self { at, came })
    }
}

pub(crate) fn option_millis(w: &mut Writer, at: Option<Millis>) {
    w.option(at, |w, at| {
        w.millis(at);
    });
}
