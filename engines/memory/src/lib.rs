//! The reference engine: everything in memory, plain enough to be believed, with the faults of a real one. The
//! simulator runs on it, and the conformance suites compare other engines with it.

pub mod journal;
pub mod store;

pub mod audit;

pub mod blobs;
pub mod erasure_list;
pub mod keyring;

pub mod clock;
pub mod entropy;
mod hash;
