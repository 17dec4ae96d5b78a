//! Facts about deliveries: what may be sent, what came of it, what an operator or a provider said later.
//!
//! ```text
//! 20 Intend   work, next: option user, unreached: varint, members, words of verdict, counted, consents   the first round
//! 21 Wake     parcel, round: varint, due, positions, words of verdict, counted, consents           a later one
//! 22 Outcome  parcel, round: varint, positions, words of standing, notes                 what came of it
//! 23 Receipt  parcel, position: varint, standing, note                                   what was heard later
//! 24 Redrive  parcel, positions, words of standing                                       what an operator wants
//! 25 Closed   work, why: text                                                            the rest is not looked at
//! 26 Swept    tenant, list of (arrival, channel: u8, first: user), arrivals: ascending    past the guard
//!
//! work = tenant, arrival, channel: u8      parcel = work, first: user      positions = ascending
//! verdict = standing = state: u8, retries: u8, resends: u8, due, code: text
//! counted = positions, and if there are any words of (day: varint, pace: option (burst: varint, seconds: varint))
//! consents = words of revision: varint, or none if all are 0
//! ```
//! A verdict is the standing that a member has from then on. All members of a parcel that went the same way cost one
//! word, so an Intend takes the bytes of its members and little else.

use crate::codec::{Malformed, Reader, Writer};
use crate::columns::counts::Count;
use crate::parcel::{Members, Words};
use crate::tables::ledger::{ParcelId, Standing};
use crate::tables::track::Note;
use crate::tables::work::WorkId;
use fantail_rules::caps::Pace;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Intend {
    pub work: WorkId,
    /// Where the next parcel begins; `None` if everybody was looked at.
    pub next: Option<UserNo>,
    /// Members of the list who were looked at and have no endpoint.
    pub unreached: u64,
    pub members: Members,
    pub verdicts: Words<Standing>,
    pub counted: Counted,
    pub consents: Consents,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wake {
    pub parcel: ParcelId,
    pub round: u16,
    /// The timer that fired.
    pub due: Millis,
    pub positions: Vec<u16>,
    pub verdicts: Words<Standing>,
    pub counted: Counted,
    pub consents: Consents,
}

/// What counts towards the limits of users: of each user who has one the first member that may be sent, if nothing of the
/// notification was counted before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    /// In the parcel.
    pub positions: Vec<u16>,
    pub how: Words<Count>,
}

impl Counted {
    #[must_use]
    pub fn nothing() -> Self {
        Self { positions: Vec::new(), how: Words::empty() }
    }

    pub(crate) fn push(&mut self, position: u16, count: Count) {
        self.positions.push(position);
        self.how.push(count);
    }

    fn write(&self, w: &mut Writer) {
        write_positions(w, &self.positions);
        if self.positions.is_empty() {
            return;
        }
        self.how.write(w, |w, Count { day, pace }| {
            w.varint((*day).into()).option(*pace, |w, pace| {
                w.varint(pace.burst.into()).varint(pace.refill_seconds.into());
            });
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let positions = read_positions(r)?;
        if positions.is_empty() {
            return Ok(Self::nothing());
        }
        let how = Words::read(r, |r| {
            let day = r.u16()?;
            let pace = r.option(|r| Ok(Pace { burst: r.u16()?, refill_seconds: r.u32()? }))?;
            Ok(Count { day, pace })
        })?;
        if how.codes.len() == positions.len() {
            Ok(Self { positions, how })
        } else {
            Err(Malformed::Value("counted"))
        }
    }
}

/// The proof of consent of each member that may be sent: the revision of what its user had said last about consent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consents(Words<u32>);

impl Consents {
    #[must_use]
    pub fn nothing() -> Self {
        Self(Words::empty())
    }

    /// Of each member in turn; 0 if it is not sent, or its user never said anything.
    #[must_use]
    pub fn of(revisions: impl IntoIterator<Item = u32>) -> Self {
        let mut words = Words::empty();
        revisions.into_iter().for_each(|revision| words.push(revision));
        if words.words.iter().all(|revision| *revision == 0) { Self::nothing() } else { Self(words) }
    }

    /// Of the members in their order, as many as there are.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied().chain(std::iter::repeat(0))
    }

    fn write(&self, w: &mut Writer) {
        self.0.write(w, |w, revision| {
            w.varint((*revision).into());
        });
    }

    fn read(r: &mut Reader<'_>, count: usize) -> Result<Self, Malformed> {
        let words = Words::read(r, Reader::u32)?;
        match words.codes.len() {
            0 => Ok(Self::nothing()),
            some if some == count => Ok(Self(words)),
            _ => Err(Malformed::Value("consents")),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub parcel: ParcelId,
    pub round: u16,
    pub positions: Vec<u16>,
    pub standings: Words<Standing>,
    /// For deliveries that were asked for one by one: one note per position, else none.
    pub notes: Vec<Note>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    pub parcel: ParcelId,
    pub position: u16,
    pub standing: Standing,
    pub note: Note,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redrive {
    pub parcel: ParcelId,
    pub positions: Vec<u16>,
    pub standings: Words<Standing>,
}

/// These ledgers are past the guard; of these events nothing is left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Swept {
    pub tenant: TenantId,
    /// All of the same tenant.
    pub parcels: Vec<ParcelId>,
    pub arrivals: Vec<Arrival>,
}

impl Swept {
    pub(super) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).list(self.parcels.iter(), |w, parcel| {
            w.arrival(parcel.arrival).u8(parcel.channel as u8).user(parcel.first);
        });
        w.ascending(self.arrivals.iter().map(|arrival| arrival.0));
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let tenant = r.tenant()?;
        let parcels = r.list(|r| {
            let arrival = r.arrival()?;
            let channel = ChannelKind::from_stored(r.u8()?).ok_or(Malformed::Value("channel"))?;
            Ok(ParcelId { tenant, arrival, channel, first: r.user()? })
        })?;
        Ok(Self { tenant, parcels, arrivals: r.ascending()?.into_iter().map(Arrival).collect() })
    }
}

pub(super) fn write_work(w: &mut Writer, work: WorkId) {
    w.tenant(work.tenant).arrival(work.arrival).u8(work.channel as u8);
}

pub(super) fn read_work(r: &mut Reader<'_>) -> Result<WorkId, Malformed> {
    let (tenant, arrival) = (r.tenant()?, r.arrival()?);
    let channel = ChannelKind::from_stored(r.u8()?).ok_or(Malformed::Value("channel"))?;
    Ok(WorkId { tenant, arrival, channel })
}

fn write_parcel(w: &mut Writer, parcel: ParcelId) {
    write_work(w, parcel.work());
    w.user(parcel.first);
}

fn read_parcel(r: &mut Reader<'_>) -> Result<ParcelId, Malformed> {
    let work = read_work(r)?;
    Ok(ParcelId::of(work, r.user()?))
}

fn write_positions(w: &mut Writer, positions: &[u16]) {
    w.ascending(positions.iter().map(|position| u64::from(*position)));
}

fn read_positions(r: &mut Reader<'_>) -> Result<Vec<u16>, Malformed> {
    let positions = r.ascending()?.into_iter().map(u16::try_from);
    positions.collect::<Result<_, _>>().map_err(|_| Malformed::Value("position"))
}

fn write_words(w: &mut Writer, words: &Words<Standing>) {
    words.write(w, |w, standing| standing.write(w));
}

/// As many as there are members that they are about.
fn read_words(r: &mut Reader<'_>, count: usize) -> Result<Words<Standing>, Malformed> {
    let words = Words::read(r, Standing::read)?;
    if words.codes.len() == count { Ok(words) } else { Err(Malformed::Value("words")) }
}

impl Intend {
    pub(super) fn write(&self, w: &mut Writer) {
        write_work(w, self.work);
        w.option(self.next, |w, next| {
            w.user(next);
        });
        w.varint(self.unreached);
        self.members.write(w);
        write_words(w, &self.verdicts);
        self.counted.write(w);
        self.consents.write(w);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (work, next, unreached) = (read_work(r)?, r.option(Reader::user)?, r.varint()?);
        let members = Members::read(r)?;
        let verdicts = read_words(r, members.count())?;
        let (counted, consents) = (Counted::read(r)?, Consents::read(r, members.count())?);
        Ok(Self { work, next, unreached, members, verdicts, counted, consents })
    }
}

impl Wake {
    pub(super) fn write(&self, w: &mut Writer) {
        write_parcel(w, self.parcel);
        w.varint(self.round.into()).millis(self.due);
        write_positions(w, &self.positions);
        write_words(w, &self.verdicts);
        self.counted.write(w);
        self.consents.write(w);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (parcel, round, due, positions) = (read_parcel(r)?, r.u16()?, r.millis()?, read_positions(r)?);
        let verdicts = read_words(r, positions.len())?;
        let (counted, consents) = (Counted::read(r)?, Consents::read(r, positions.len())?);
        Ok(Self { parcel, round, due, positions, verdicts, counted, consents })
    }
}

impl Outcome {
    pub(super) fn write(&self, w: &mut Writer) {
        write_parcel(w, self.parcel);
        w.varint(self.round.into());
        write_positions(w, &self.positions);
        write_words(w, &self.standings);
        w.list(self.notes.iter(), |w, note| note.write(w));
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (parcel, round, positions) = (read_parcel(r)?, r.u16()?, read_positions(r)?);
        let standings = read_words(r, positions.len())?;
        let notes = r.list(Note::read)?;
        if notes.is_empty() || notes.len() == positions.len() {
            Ok(Self { parcel, round, positions, standings, notes })
        } else {
            Err(Malformed::Value("notes"))
        }
    }
}

impl Receipt {
    pub(super) fn write(&self, w: &mut Writer) {
        write_parcel(w, self.parcel);
        w.varint(self.position.into());
        self.standing.write(w);
        self.note.write(w);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            parcel: read_parcel(r)?,
            position: r.u16()?,
            standing: Standing::read(r)?,
            note: Note::read(r)?,
        })
    }
}

impl Redrive {
    pub(super) fn write(&self, w: &mut Writer) {
        write_parcel(w, self.parcel);
        write_positions(w, &self.positions);
        write_words(w, &self.standings);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (parcel, positions) = (read_parcel(r)?, read_positions(r)?);
        let standings = read_words(r, positions.len())?;
        Ok(Self { parcel, positions, standings })
    }
}

pub(super) fn write_closed(w: &mut Writer, work: WorkId, code: &str) {
    write_work(w, work);
    w.text(code);
}

pub(super) fn read_closed(r: &mut Reader<'_>) -> Result<(WorkId, String), Malformed> {
    Ok((read_work(r)?, r.text()?))
}
