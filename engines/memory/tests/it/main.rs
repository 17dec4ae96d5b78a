//! The reference engine against the suites of its ports.

#![allow(clippy::unwrap_used)]

mod audit;
mod blobs;
mod erasure_list;
mod journal;
mod keyring;
mod store;
