//! The audit log is derived from the journal, beside everything else: no delivery waits for it.
//!
//! ```text
//! journal ──► feed ──► derive, parcels ──► facts ──► the log, with the mark through which it is derived
//!                                                      └──► checkpoints: signed statements about all chains
//! ```
//! Reading order: `feed` (the loop), `derive` (what a record says), `parcels` (what it says about many), `people` (who they
//! are, and the secrets of their leaves), `checkpoints`, and for readers `search` and `prove`.
//!
//! What must never happen: a fact that is not durable in the journal; a record that is trimmed before it was derived; a
//! name or an address in the log.

pub mod feed;

mod derive;
mod parcels;
mod people;

pub mod checkpoints;

pub mod prove;
pub mod search;
