//! What was decided about, and what became of, many members at once. A few hundred bytes stand for up to a thousand
//! deliveries; every single one can be proven from the root (`proof`).
//!
//! ```text
//! parcel         event [16] | channel u8 | round u16 | first member u64 | members | tally
//! outcome        event [16] | channel u8 | round u16 | first member u64 | members | tally
//! dead-lettered  event [16] | channel u8 | round u16 | reason name | members
//! redriven       event [16] | channel u8 | members | actor name
//! members        count u32 | root [32]
//! tally          states u8, then for each in ascending order: state u8 | count u32 (not 0)
//! ```
//! What must never happen: a tally that does not add up to the members; it does not decode.

use crate::bytes::{Malformed, Reader, Writer};
use crate::member::{Commitment, Member, Tally};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::UserNo;
use fantail_rules::ulid::Ulid;

/// The verdicts on a parcel: who will be sent to, who will not, and why. (event, channel, first member, round) is the
/// parcel's identity; the entry's position is that of its Intend record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parcel {
    pub event: Ulid,
    pub channel: ChannelKind,
    pub round: u16,
    pub first: UserNo,
    pub members: Commitment,
    pub tally: Tally,
}

/// What became of a parcel's members, or of some of them. The identity is that of the parcel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub event: Ulid,
    pub channel: ChannelKind,
    /// 0 for what was heard or done later, whatever round it was about: receipts, and dead letters that were dropped.
    pub round: u16,
    pub first: UserNo,
    pub members: Commitment,
    pub tally: Tally,
}

/// Members that were given up for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLettered {
    pub event: Ulid,
    pub channel: ChannelKind,
    pub round: u16,
    pub reason: String,
    pub members: Commitment,
}

/// Dead members that an operator gave another chance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redriven {
    pub event: Ulid,
    pub channel: ChannelKind,
    pub members: Commitment,
    /// Who asked, as in an action.
    pub actor: String,
}

impl Parcel {
    /// The verdicts on these members.
    #[must_use]
    pub fn of(event: Ulid, channel: ChannelKind, round: u16, first: UserNo, members: &[Member]) -> Self {
        let (members, tally) = (Commitment::to(members), Tally::of(members));
        Self { event, channel, round, first, members, tally }
    }

    pub(super) fn write(&self, body: &mut Writer) {
        body.event(self.event).u8(self.channel as u8).u16(self.round).u64(self.first.0);
        write_members(body, &self.members, &self.tally);
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (event, channel, round) = (body.event()?, body.channel()?, body.u16()?);
        let first = UserNo(body.u64()?);
        let (members, tally) = read_members(body)?;
        Ok(Self { event, channel, round, first, members, tally })
    }
}

impl Outcome {
    /// What became of these members of a parcel.
    #[must_use]
    pub fn of(event: Ulid, channel: ChannelKind, round: u16, first: UserNo, members: &[Member]) -> Self {
        let (members, tally) = (Commitment::to(members), Tally::of(members));
        Self { event, channel, round, first, members, tally }
    }

    pub(super) fn write(&self, body: &mut Writer) {
        body.event(self.event).u8(self.channel as u8).u16(self.round).u64(self.first.0);
        write_members(body, &self.members, &self.tally);
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (event, channel, round) = (body.event()?, body.channel()?, body.u16()?);
        let first = UserNo(body.u64()?);
        let (members, tally) = read_members(body)?;
        Ok(Self { event, channel, round, first, members, tally })
    }
}

impl DeadLettered {
    pub(super) fn write(&self, body: &mut Writer) {
        body.event(self.event).u8(self.channel as u8).u16(self.round).counted(self.reason.as_bytes());
        body.commitment(&self.members);
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            event: body.event()?,
            channel: body.channel()?,
            round: body.u16()?,
            reason: body.text()?,
            members: body.commitment()?,
        })
    }
}

impl Redriven {
    pub(super) fn write(&self, body: &mut Writer) {
        body.event(self.event).u8(self.channel as u8).commitment(&self.members);
        body.counted(self.actor.as_bytes());
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            event: body.event()?,
            channel: body.channel()?,
            members: body.commitment()?,
            actor: body.text()?,
        })
    }
}

fn write_members(body: &mut Writer, members: &Commitment, tally: &Tally) {
    assert_eq!(tally.sum(), u64::from(members.count), "every member has one verdict");
    let states = u8::try_from(tally.counts().count()).expect("there are fourteen states");
    body.commitment(members).u8(states);
    for (state, count) in tally.counts() {
        body.u8(state as u8).u32(count);
    }
}

fn read_members(body: &mut Reader<'_>) -> Result<(Commitment, Tally), Malformed> {
    let members = body.commitment()?;
    let mut tally = Tally::default();
    let mut least = 0;
    for _ in 0..body.u8()? {
        let (number, count) = (body.u8()?, body.u32()?);
        let state = State::from_stored(number).filter(|_| number >= least && count > 0).ok_or(Malformed)?;
        least = number + 1;
        tally.add(state, count);
    }
    if tally.sum() != u64::from(members.count) {
        return Err(Malformed);
    }
    Ok((members, tally))
}
