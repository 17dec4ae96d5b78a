//! The audit log as a whole: what is stored is frozen, what was proven holds, what was touched is found.

#![allow(clippy::unwrap_used)]

mod facts;
mod frozen;
mod proofs;
mod rig;
mod tamper;
