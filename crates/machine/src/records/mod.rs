//! Records: the facts in the journal. One file per machine, each with its byte layout; tags and versions are
//! frozen once released, an old version stays decodable as long as a supported snapshot needs it.
//!
//! ```text
//! | tag: u8 | version: u8 | time: varint (leader's milliseconds) | by | body … |
//!
//! by = 0 the server itself | 1 the admin key | 2 id of an API key: text
//! ```
//! Personal bytes travel as `Sealed{key, nonce, bytes}`; nothing here can open them.

use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::actor::Actor;
use fantail_rules::ids::Millis;

pub mod delivery;
pub mod difference;
pub mod digest;
pub mod directory;
pub mod endpoint;
pub mod erased_user;
pub mod erasure;
pub mod front;
mod given;
pub mod halt;
mod mark;
pub mod policy;
pub mod provider;
pub mod respect;
pub mod root;
pub mod schedule;
pub mod segment;
pub mod shard;
mod size;
pub mod template;
pub mod throttle;
pub mod walk;
pub mod webhook;

/// The version that every record family has so far.
pub const VERSION: u8 = 1;

/// A record with the leader's time, and who asked for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stamped<R> {
    pub at: Millis,
    /// Nothing but the audit log depends on it.
    pub by: Actor,
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
        write_actor(&mut w, &self.by);
        self.record.write(&mut w);
        w.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let (tag, version) = (r.u8()?, r.u8()?);
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let (at, by) = (r.millis()?, read_actor(&mut r)?);
        let record = R::read(tag, &mut r)?;
        r.end()?;
        Ok(Self { at, by, record })
    }
}

fn write_actor(w: &mut Writer, by: &Actor) {
    match by {
        Actor::System => w.u8(0),
        Actor::Admin => w.u8(1),
        Actor::Key(id) => w.u8(2).text(id),
        Actor::Recipient => w.u8(3),
        Actor::Provider(name) => w.u8(4).text(name),
    };
}

fn read_actor(r: &mut Reader<'_>) -> Result<Actor, Malformed> {
    match r.u8()? {
        0 => Ok(Actor::System),
        1 => Ok(Actor::Admin),
        2 => r.text().map(|id| Actor::Key(id.into())),
        3 => Ok(Actor::Recipient),
        4 => r.text().map(|name| Actor::Provider(name.into())),
        _ => Err(Malformed::Value("actor")),
    }
}

/// The time of a record, whatever machine wrote it.
pub fn time_of(bytes: &[u8]) -> Result<Millis, Malformed> {
    let mut r = Reader::new(bytes);
    r.fixed(2)?;
    r.millis()
}
