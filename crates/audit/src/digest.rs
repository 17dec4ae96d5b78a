//! SHA-256, and the first byte that keeps the things we hash apart. Frozen.
//!
//! What must never happen: bytes of one sort that hash like bytes of another. The first byte says the sort.

use aws_lc_rs::digest::{SHA256, digest};
use fantail_ports::audit::Digest;

/// A leaf of a tree.
pub const LEAF: u8 = 0x00;
/// An inner node of a tree.
pub const NODE: u8 = 0x01;
/// An entry; its stored bytes begin with this.
pub const ENTRY: u8 = 0x02;
/// The statement of a checkpoint.
pub const CHECKPOINT: u8 = 0x03;
/// The derivation of a salt.
pub const SALT: u8 = 0x04;
/// What veils an opening.
pub const VEIL: u8 = 0x05;
/// The derivation of a pseudonym.
pub const PSEUDONYM: u8 = 0x06;

#[must_use]
pub fn sha256(bytes: &[u8]) -> Digest {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    Digest(hash)
}
