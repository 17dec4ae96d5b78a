//! Records: the facts in the journal. One file per machine, each with its byte layout; tags and versions are
//! frozen once released, an old version stays decodable as long as a supported snapshot needs it.
//!
//! ```text
//! | tag: u8 | version: u8 | time: varint (leader's milliseconds) | body … |
//! ```
//! Personal bytes travel as `Sealed{key, nonce, bytes}`; nothing here can open them.

use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::Millis;

pub mod delivery;
pub mod directory;
pub mod endpoint;
pub mod front;
mod mark;
pub mod respect;
pub mod root;
pub mod shard;
pub mod template;
pub mod webhook;

/// The version that every record family has so far.
pub const VERSION: u8 = 1;

/// A record with the leader's time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stamped<R> {
    pub at: Millis,
    pub record: R,
}

/// What a machine writes into its journal.
pub trait Fact: Sized {
    fn tag(&self) -> u8;
    fn write(&self, w: &mut Writer);
    fn read(tag: u8, r: &mut Reader<'_>) -> Result<Self, Malformed>;
}

impl<R: Fact> Stamped<R> {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(256);
        w.u8(self.record.tag()).u8(VERSION).millis(self.at);
        self.record.write(&mut w);
        w.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let (tag, version) = (r.u8()?, r.u8()?);
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let at = r.millis()?;
        let record = R::read(tag, &mut r)?;
        r.end()?;
        Ok(Self { at, record })
    }
}

/// The time of a record, whatever machine wrote it.
pub fn time_of(bytes: &[u8]) -> Result<Millis, Malformed> {
    let mut r = Reader::new(bytes);
    r.fixed(2)?;
    r.millis()
}
