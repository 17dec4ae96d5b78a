//! Facts about what is told together.
//!
//! ```text
//! 42 Collected  work, first: user, terms of work, list of (user, storm: option (slot: varint, counts: 9),
//!               into: option (no: varint, key: 8, kind: u8, terms, window, held: flag))    beside its Intend or Wake
//! 43 Closed     tenant, no: varint, singly: flag                                      a window is over
//! 44 Folded     tenant, no: varint, channel: u8, digest: option ulid, last: flag,
//!               list of (arrival, first: user, positions: ascending, standing)        what waited in it stands so now
//! 45 Digested   tenant, no: varint, expires, content: option sealed                   its digest is written, or there is none
//!
//! window = closes: millis, led: varint, held: varint      terms: see `tables::window`
//! ```

use super::delivery::{read_work, write_work};
use crate::codec::{Malformed, Reader, Writer};
use crate::tables::ledger::{ParcelId, Standing};
use crate::tables::window::{
    Kind, WindowNo, read_storm, read_terms, read_window, write_storm, write_terms, write_window,
};
use crate::tables::work::{self, WorkId};
use fantail_ports::keyring::Sealed;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::digest::{Storm, Terms, Window};
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DigestRecord {
    Collected(Collected),
    Closed(WindowClosed),
    Folded(Folded),
    Digested(Digested),
}

impl DigestRecord {
    pub(super) fn tag(&self) -> u8 {
        match self {
            Self::Collected(_) => 42,
            Self::Closed(_) => 43,
            Self::Folded(_) => 44,
            Self::Digested(_) => 45,
        }
    }

    pub(super) fn write(&self, w: &mut Writer) {
        match self {
            Self::Collected(collected) => collected.write(w),
            Self::Closed(closed) => closed.write(w),
            Self::Folded(folded) => folded.write(w),
            Self::Digested(digested) => digested.write(w),
        }
    }

    pub(super) fn read(tag: u8, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match tag {
            42 => Self::Collected(Collected::read(r)?),
            43 => Self::Closed(WindowClosed::read(r)?),
            44 => Self::Folded(Folded::read(r)?),
            45 => Self::Digested(Digested::read(r)?),
            other => return Err(Malformed::Tag(other)),
        })
    }
}

/// What windows took of the users of one parcel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Collected {
    pub work: WorkId,
    /// Of the parcel.
    pub first: UserNo,
    pub terms: work::Terms,
    pub takes: Vec<Taking>,
}

/// What became of one user's delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taking {
    pub user: UserNo,
    /// What came lately, if that is counted.
    pub storm: Option<Storm>,
    /// The window that it went into, if it did.
    pub into: Option<Into>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Into {
    pub no: WindowNo,
    pub key: u64,
    pub kind: Kind,
    pub terms: Terms,
    /// As it is from now on.
    pub window: Window,
    /// It waits; otherwise it goes out at once.
    pub is_held: bool,
}

/// A window is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowClosed {
    pub tenant: TenantId,
    pub no: WindowNo,
    /// Too few wait for a digest.
    pub is_singly: bool,
}

/// Some of what waited in a window that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folded {
    pub tenant: TenantId,
    pub no: WindowNo,
    pub channel: ChannelKind,
    /// The digest that takes it; `None` if it is told singly.
    pub digest: Option<Ulid>,
    /// Nothing else waits in it.
    pub is_last: bool,
    pub items: Vec<FoldedItem>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoldedItem {
    pub arrival: Arrival,
    /// Of the parcel that has it.
    pub first: UserNo,
    /// Its members that waited; none if they stand elsewhere by now.
    pub positions: Vec<u16>,
    pub standing: Standing,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digested {
    pub tenant: TenantId,
    pub no: WindowNo,
    pub expires_at: Millis,
    /// `None` if nobody is there to be told.
    pub content: Option<Sealed>,
}

impl Collected {
    fn write(&self, w: &mut Writer) {
        write_work(w, self.work);
        w.user(self.first);
        self.terms.write(w);
        w.list(self.takes.iter(), |w, taking| {
            w.user(taking.user).option(taking.storm.as_ref(), write_storm);
            w.option(taking.into, |w, into| into.write(w));
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            work: read_work(r)?,
            first: r.user()?,
            terms: work::Terms::read(r)?,
            takes: r.list(|r| {
                Ok(Taking { user: r.user()?, storm: r.option(read_storm)?, into: r.option(Into::read)? })
            })?,
        })
    }
}

impl Into {
    fn write(&self, w: &mut Writer) {
        w.varint(self.no.0).fixed(&self.key.to_le_bytes()).u8(self.kind as u8);
        write_terms(w, &self.terms);
        write_window(w, &self.window);
        w.flag(self.is_held);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            no: WindowNo(r.varint()?),
            key: u64::from_le_bytes(r.array()?),
            kind: Kind::from_stored(r.u8()?).ok_or(Malformed::Value("kind"))?,
            terms: read_terms(r)?,
            window: read_window(r)?,
            is_held: r.flag()?,
        })
    }
}

impl WindowClosed {
    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).varint(self.no.0).flag(self.is_singly);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { tenant: r.tenant()?, no: WindowNo(r.varint()?), is_singly: r.flag()? })
    }
}

impl Folded {
    /// The parcel that has an item.
    #[must_use]
    pub fn parcel(&self, item: &FoldedItem) -> ParcelId {
        ParcelId { tenant: self.tenant, arrival: item.arrival, channel: self.channel, first: item.first }
    }

    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).varint(self.no.0).u8(self.channel as u8).option(self.digest, |w, digest| {
            w.ulid(digest);
        });
        w.flag(self.is_last).list(self.items.iter(), |w, item| {
            w.arrival(item.arrival).user(item.first);
            w.ascending(item.positions.iter().map(|position| u64::from(*position)));
            item.standing.write(w);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            no: WindowNo(r.varint()?),
            channel: ChannelKind::from_stored(r.u8()?).ok_or(Malformed::Value("channel"))?,
            digest: r.option(Reader::ulid)?,
            is_last: r.flag()?,
            items: r.list(|r| {
                let (arrival, first) = (r.arrival()?, r.user()?);
                let positions: Result<_, _> = r.ascending()?.into_iter().map(u16::try_from).collect();
                let positions = positions.map_err(|_| Malformed::Value("position"))?;
                Ok(FoldedItem { arrival, first, positions, standing: Standing::read(r)? })
            })?,
        })
    }
}

impl Digested {
    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).varint(self.no.0).millis(self.expires_at);
        w.option(self.content.as_ref(), |w, content| {
            w.sealed(content);
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            no: WindowNo(r.varint()?),
            expires_at: r.millis()?,
            content: r.option(Reader::sealed)?,
        })
    }
}
