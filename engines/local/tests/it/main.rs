//! The local engine against the suites of its ports, and against its disk.

#![allow(clippy::unwrap_used)]

mod audit;
mod blobs;
mod erasure_list;
mod journal;
mod keyring;
mod scratch;
mod store;
