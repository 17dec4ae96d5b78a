//! What a change of the control plane replaced, and by what: hashes that plan writes down while it has both at hand, so
//! that the audit log can say them without looking anywhere else.
//!
//! ```text
//! difference = before: option 32, after: option 32
//! hash       = SHA-256 of the row's name, a zero byte, and the row
//! ```
//! What is there after one change is there before the next: the hashes of a thing's changes link up.

use crate::codec::{Malformed, Reader, Writer};
use crate::tables::Row;
use aws_lc_rs::digest::{Context, SHA256};
use fantail_ports::audit::Digest;

/// `None`: there was, or is, nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Difference {
    pub before: Option<Digest>,
    pub after: Option<Digest>,
}

impl Difference {
    #[must_use]
    pub fn of<R: Row>(before: Option<&R>, after: Option<&R>) -> Self {
        let hashed = |row: &R| hash(R::NAME, &row.encode());
        Self { before: before.map(hashed), after: after.map(hashed) }
    }

    pub(super) fn write(&self, w: &mut Writer) {
        for digest in [self.before, self.after] {
            w.option(digest, |w, digest| {
                w.fixed(&digest.0);
            });
        }
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let digest = |r: &mut Reader<'_>| r.option(|r| r.array().map(Digest));
        Ok(Self { before: digest(r)?, after: digest(r)? })
    }
}

/// The hash of a thing by the name of its kind and its bytes.
#[must_use]
pub fn hash(name: &str, bytes: &[u8]) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(name.as_bytes());
    context.update(&[0]);
    context.update(bytes);
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    Digest(digest)
}
