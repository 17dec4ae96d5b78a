//! What an entry can say: one kind per sort of fact, with a frozen number and a frozen layout, drawn in the file of its
//! family. Little-endian; a name is a u16 length and UTF-8.
//!
//! | kind | fact | said by | file |
//! |---|---|---|---|
//! | 1 | [`Action`] | the root: who changed what of the control plane | `control` |
//! | 2, 3, 8 | [`Accepted`], [`Deduplicated`], [`Cancelled`] | a front, about requests | `request` |
//! | 4, 5, 6, 7 | [`Parcel`], [`Outcome`], [`DeadLettered`], [`Redriven`] | a shard, about many members at once | `parcel` |
//! | 9, 10, 11 | [`Erased`], [`Consent`], [`Endpoint`] | a shard, about one person | `person` |
//! | 12 | [`Openings`] | a shard, behind an entry about members that were asked for one by one | `openings` |
//! | 13 | [`ConsentBy`] | a shard, about one person: as 10, with who asked | `person` |
//!
//! When, and by which record of which partition, is in the entry. What must never happen: a change of a layout that was
//! released; it gets a new kind, and the old one stays readable.

mod control;
mod openings;
mod parcel;
mod person;
mod request;

pub use control::Action;
pub use openings::{OPENINGS_MAX, Openings};
pub use parcel::{DeadLettered, Outcome, Parcel, Redriven};
pub use person::{Consent, ConsentBy, Endpoint, Erased};
pub use request::{Accepted, Cancelled, Deduplicated};

use crate::bytes::{Malformed, Reader, Writer};
use crate::member::Commitment;
use fantail_ports::audit::{Digest, Kind};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::limits::AUDIT_BODY_BYTES_MAX;
use fantail_rules::ulid::Ulid;
use thiserror::Error;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fact {
    Action(Action),
    Accepted(Accepted),
    Deduplicated(Deduplicated),
    Parcel(Parcel),
    Outcome(Outcome),
    DeadLettered(DeadLettered),
    Redriven(Redriven),
    Cancelled(Cancelled),
    Erased(Erased),
    Consent(Consent),
    Endpoint(Endpoint),
    Openings(Openings),
    ConsentBy(ConsentBy),
}

impl Fact {
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind(match self {
            Self::Action(_) => 1,
            Self::Accepted(_) => 2,
            Self::Deduplicated(_) => 3,
            Self::Parcel(_) => 4,
            Self::Outcome(_) => 5,
            Self::DeadLettered(_) => 6,
            Self::Redriven(_) => 7,
            Self::Cancelled(_) => 8,
            Self::Erased(_) => 9,
            Self::Consent(_) => 10,
            Self::Endpoint(_) => 11,
            Self::Openings(_) => 12,
            Self::ConsentBy(_) => 13,
        })
    }

    /// The body of the entry that says so.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        self.check_lengths()?;
        let mut body = Writer::default();
        match self {
            Self::Action(fact) => fact.write(&mut body),
            Self::Accepted(fact) => fact.write(&mut body),
            Self::Deduplicated(fact) => fact.write(&mut body),
            Self::Parcel(fact) => fact.write(&mut body),
            Self::Outcome(fact) => fact.write(&mut body),
            Self::DeadLettered(fact) => fact.write(&mut body),
            Self::Redriven(fact) => fact.write(&mut body),
            Self::Cancelled(fact) => fact.write(&mut body),
            Self::Erased(fact) => fact.write(&mut body),
            Self::Consent(fact) => fact.write(&mut body),
            Self::Endpoint(fact) => fact.write(&mut body),
            Self::Openings(fact) => fact.write(&mut body),
            Self::ConsentBy(fact) => fact.write(&mut body),
        }
        check_length("body", body.0.len(), AUDIT_BODY_BYTES_MAX)?;
        Ok(body.0)
    }

    /// What an entry says. Every byte of the body has its meaning: what decodes, encodes to the same bytes.
    pub fn decode(kind: Kind, body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let fact = match kind.0 {
            1 => Action::read(&mut reader).map(Self::Action),
            2 => Accepted::read(&mut reader).map(Self::Accepted),
            3 => Deduplicated::read(&mut reader).map(Self::Deduplicated),
            4 => Parcel::read(&mut reader).map(Self::Parcel),
            5 => Outcome::read(&mut reader).map(Self::Outcome),
            6 => DeadLettered::read(&mut reader).map(Self::DeadLettered),
            7 => Redriven::read(&mut reader).map(Self::Redriven),
            8 => Cancelled::read(&mut reader).map(Self::Cancelled),
            9 => Erased::read(&mut reader).map(Self::Erased),
            10 => Consent::read(&mut reader).map(Self::Consent),
            11 => Endpoint::read(&mut reader).map(Self::Endpoint),
            12 => Openings::read(&mut reader).map(Self::Openings),
            13 => ConsentBy::read(&mut reader).map(Self::ConsentBy),
            _ => return Err(DecodeError::UnknownKind { kind }),
        };
        let malformed = |Malformed| DecodeError::Malformed { kind };
        let fact = fact.map_err(malformed)?;
        reader.end().map_err(malformed)?;
        Ok(fact)
    }

    /// The event that the fact is about, if it names one.
    #[must_use]
    pub fn event(&self) -> Option<Ulid> {
        match self {
            Self::Accepted(fact) => Some(fact.event),
            Self::Deduplicated(fact) => Some(fact.event),
            Self::Parcel(fact) => Some(fact.event),
            Self::Outcome(fact) => Some(fact.event),
            Self::DeadLettered(fact) => Some(fact.event),
            Self::Redriven(fact) => Some(fact.event),
            Self::Cancelled(fact) => Some(fact.event),
            Self::Action(_)
            | Self::Erased(_)
            | Self::Consent(_)
            | Self::ConsentBy(_)
            | Self::Endpoint(_)
            | Self::Openings(_) => None,
        }
    }

    /// The members that the fact commits to, if it is about members.
    #[must_use]
    pub fn members(&self) -> Option<Commitment> {
        match self {
            Self::Parcel(fact) => Some(fact.members),
            Self::Outcome(fact) => Some(fact.members),
            Self::DeadLettered(fact) => Some(fact.members),
            Self::Redriven(fact) => Some(fact.members),
            Self::Action(_)
            | Self::Accepted(_)
            | Self::Deduplicated(_)
            | Self::Cancelled(_)
            | Self::Erased(_)
            | Self::Consent(_)
            | Self::ConsentBy(_)
            | Self::Endpoint(_)
            | Self::Openings(_) => None,
        }
    }

    fn check_lengths(&self) -> Result<(), EncodeError> {
        match self {
            Self::Action(fact) => fact.check_lengths(),
            Self::Accepted(fact) => check_name("actor", &fact.actor),
            Self::Redriven(fact) => check_name("actor", &fact.actor),
            Self::Cancelled(fact) => check_name("actor", &fact.actor),
            Self::Erased(fact) => check_name("actor", &fact.actor),
            Self::Endpoint(fact) => check_name("actor", &fact.actor),
            Self::DeadLettered(fact) => check_name("reason", &fact.reason),
            Self::Consent(fact) => fact.check_lengths(),
            Self::ConsentBy(fact) => fact.check_lengths(),
            Self::Openings(fact) => fact.check_lengths(),
            Self::Deduplicated(_) | Self::Parcel(_) | Self::Outcome(_) => Ok(()),
        }
    }
}

/// A bug of the caller: the fact is not what can be said.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum EncodeError {
    #[error("{what} has {bytes} bytes, at most {max} are allowed")]
    TooLong { what: &'static str, bytes: usize, max: usize },
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum DecodeError {
    /// Said by a later version. The chain can be verified all the same.
    #[error("unknown kind of entry {}", kind.0)]
    UnknownKind { kind: Kind },
    #[error("body of an entry of kind {} is malformed", kind.0)]
    Malformed { kind: Kind },
}

fn check_length(what: &'static str, bytes: usize, max: usize) -> Result<(), EncodeError> {
    if bytes <= max { Ok(()) } else { Err(EncodeError::TooLong { what, bytes, max }) }
}

fn check_name(what: &'static str, name: &str) -> Result<(), EncodeError> {
    check_length(what, name.len(), fantail_rules::limits::AUDIT_NAME_BYTES_MAX)
}

/// Parts that several facts have.
impl Writer {
    fn event(&mut self, event: Ulid) -> &mut Self {
        self.bytes(&event.bytes())
    }

    fn commitment(&mut self, members: &Commitment) -> &mut Self {
        self.u32(members.count).bytes(&members.root.0)
    }
}

impl Reader<'_> {
    fn event(&mut self) -> Result<Ulid, Malformed> {
        self.array().map(Ulid::from_bytes)
    }

    fn channel(&mut self) -> Result<ChannelKind, Malformed> {
        ChannelKind::from_stored(self.u8()?).ok_or(Malformed)
    }

    fn digest(&mut self) -> Result<Digest, Malformed> {
        self.array().map(Digest)
    }

    fn commitment(&mut self) -> Result<Commitment, Malformed> {
        Ok(Commitment { count: self.u32()?, root: self.digest()? })
    }
}
