//! Changes of the control plane.
//!
//! ```text
//! action   actor name | action name | target name | before digest? | after digest?
//! digest?  0 u8, or 1 u8 and [32]
//! ```

use super::{EncodeError, check_length, check_name};
use crate::bytes::{Malformed, Reader, Writer};
use crate::digest::sha256;
use fantail_ports::audit::Digest;
use fantail_rules::limits::{AUDIT_NAME_BYTES_MAX, NAME_BYTES_MAX};

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
    /// An action whose names fit. Targets are put together from names that may have the largest length each; what does not
    /// fit is cut, and a hash of the whole name keeps it apart from others.
    #[must_use]
    pub fn fitting(self) -> Self {
        Self {
            actor: fitting(self.actor, AUDIT_NAME_BYTES_MAX),
            action: fitting(self.action, AUDIT_NAME_BYTES_MAX),
            target: fitting(self.target, NAME_BYTES_MAX),
            ..self
        }
    }

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

/// What stands for the bytes of a name that were cut off: `~` and 32 digits of the hash of the whole name.
const CUT_BYTES: usize = 33;

/// The name itself if it fits, else its beginning and its hash.
fn fitting(name: String, bytes_max: usize) -> String {
    if name.len() <= bytes_max {
        return name;
    }
    let end = name.floor_char_boundary(bytes_max - CUT_BYTES);
    let hash = sha256(name.as_bytes()).to_string();
    format!("{}~{}", &name[..end], &hash[..CUT_BYTES - 1])
}

fn optional_digest(body: &mut Reader<'_>) -> Result<Option<Digest>, Malformed> {
    match body.u8()? {
        0 => Ok(None),
        1 => body.digest().map(Some),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Fact;

    fn action(target: String) -> Action {
        let (actor, action) = ("k".repeat(70), "template.put".to_owned());
        Action { actor, action, target, before: None, after: None }.fitting()
    }

    // fixes: correctness A1
    #[test]
    fn names_of_any_length_fit_and_stay_apart() {
        for letter in ["a", "\u{e9}", "\u{20ac}", "\u{1f600}"] {
            for count in [1, 55, 56, 63, 64, 85, 127, 128, 222, 223, 224, 254, 255, 256, 257, 600] {
                let name = letter.repeat(count);
                let (one, other) = (action(format!("{name}/1")), action(format!("{name}/2")));
                assert_ne!(one.target, other.target, "{count}");
                let fact = Fact::Action(one.clone());
                let body = fact.encode().expect("it fits");
                assert_eq!(Fact::decode(fact.kind(), &body), Ok(fact), "{count}");
                let is_whole = name.len() + 2 <= NAME_BYTES_MAX;
                assert_eq!(one.target == format!("{name}/1"), is_whole, "what fits stays as it is");
            }
        }
    }
}
