//! What the audit log says, and how it is hashed, signed, proven and verified. Pure: no clock, no chance, no input or
//! output; keys and salts are arguments. Engines keep the bytes (`fantail_ports::audit`); the node turns journal records
//! into facts.
//!
//! ```text
//! members ── leaves ──► tree root ─┐
//!                                  ├─► fact ──► entry ──► chain per (tenant, partition) ──► head ─┐
//! requests, actions, erasures … ───┘                                                              ├─► checkpoint, signed
//!                                                                        all other heads ─────────┘
//! ```
//! Reading order: `digest`, `tree`, `member` and `opening` (one recipient), `fact` (what is said), `entry` and `chain` (in which order),
//! `proof` (of one recipient), `key` and `checkpoint` (who vouches), `verify` (whether all of it still holds).
//!
//! What must never happen: a name, an address or a content in here. People are pseudonyms, and what a leaf says of one
//! can only be opened with a salt that goes with the user's key.

pub mod digest;
pub mod tree;

pub mod member;
pub mod opening;

pub mod fact;

pub mod chain;
pub mod entry;

pub mod proof;

pub mod checkpoint;
pub mod key;

pub mod verify;

mod bytes;
