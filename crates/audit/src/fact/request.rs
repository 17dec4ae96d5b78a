//! What became of requests.
//!
//! ```text
//! accepted      event [16] | key [16] | body [16] | actor name
//! deduplicated  event [16] | key [16]
//! cancelled     event [16] | actor name
//! ```

use crate::bytes::{Malformed, Reader, Writer};
use fantail_rules::ulid::Ulid;

/// A request was taken in and is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    pub event: Ulid,
    /// Keyed hash of the idempotency key, as the journal has it.
    pub key: [u8; 16],
    /// Hash of the decoded request, as the journal has it.
    pub body: [u8; 16],
    /// Who asked, as in an action.
    pub actor: String,
}

/// A request was recognised as a repeat and answered with the first one's event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deduplicated {
    pub event: Ulid,
    pub key: [u8; 16],
}

/// What was not sent by then will not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cancelled {
    pub event: Ulid,
    /// Who asked, as in an action.
    pub actor: String,
}

impl Accepted {
    pub(super) fn write(&self, body: &mut Writer) {
        body.event(self.event).bytes(&self.key).bytes(&self.body).counted(self.actor.as_bytes());
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { event: body.event()?, key: body.array()?, body: body.array()?, actor: body.text()? })
    }
}

impl Deduplicated {
    pub(super) fn write(&self, body: &mut Writer) {
        body.event(self.event).bytes(&self.key);
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { event: body.event()?, key: body.array()? })
    }
}

impl Cancelled {
    pub(super) fn write(&self, body: &mut Writer) {
        body.event(self.event).counted(self.actor.as_bytes());
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { event: body.event()?, actor: body.text()? })
    }
}
