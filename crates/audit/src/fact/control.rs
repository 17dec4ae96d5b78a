//! Changes of the control plane.
//!
//! ```text
//! action   actor name | action name | target name | before digest? | after digest?
//! digest?  0 u8, or 1 u8 and [32]
//! ```

use super::{EncodeError, check_length, check_name};
use crate::bytes::{Malformed, Reader, Writer};
use fantail_ports::audit::Digest;
use fantail_rules::limits::NAME_BYTES_MAX;

/// Who changed what: tenants, keys, templates, providers, policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// The id of the API key that asked, `admin` for the server's own key, `system` for the platform itself.
    pub actor: String,
    /// As `template.put` or `key.revoke`.
    pub action: String,
    /// The name of what was changed, inside the tenant; never a person.
    pub target: String,
    /// The hash of what was there before, and of what is there now; `None` if there was or is nothing, or nothing that
    /// has a hash. What is there after one change is there before the next one.
    pub before: Option<Digest>,
    pub after: Option<Digest>,
}

impl Action {
    pub(super) fn check_lengths(&self) -> Result<(), EncodeError> {
        check_name("actor", &self.actor)?;
        check_name("action", &self.action)?;
        check_length("target", self.target.len(), NAME_BYTES_MAX)
    }

    pub(super) fn write(&self, body: &mut Writer) {
        for name in [&self.actor, &self.action, &self.target] {
            body.counted(name.as_bytes());
        }
        for digest in [self.before, self.after] {
            match digest {
                None => body.u8(0),
                Some(digest) => body.u8(1).bytes(&digest.0),
            };
        }
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            actor: body.text()?,
            action: body.text()?,
            target: body.text()?,
            before: optional_digest(body)?,
            after: optional_digest(body)?,
        })
    }
}

fn optional_digest(body: &mut Reader<'_>) -> Result<Option<Digest>, Malformed> {
    match body.u8()? {
        0 => Ok(None),
        1 => body.digest().map(Some),
        _ => Err(Malformed),
    }
}
