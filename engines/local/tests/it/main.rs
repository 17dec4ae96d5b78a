//! The local engine against the suites of its ports, and against its disk.

#![allow(clippy::unwrap_used)]

mod journal;
mod scratch;
mod store;
mod blobs;
mod keyring;
