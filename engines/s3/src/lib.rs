//! A small client of S3 and whatever speaks like it: objects are put, locked, read back and listed.
//!
//! What must never happen: an object that is said to be there and was not read back, or a secret in an error.
//!
//! Reading order: `location` (which bucket, where), `bucket` (what can be done there), `listing` (their XML).
//!
//! Deliberately not here: deleting, and uploads in parts. What is put here is to stay, and one request carries a segment.

pub mod location;

pub mod bucket;

mod listing;

pub use bucket::{Bucket, BucketError, Held, Listed, Lock};
pub use location::{Location, LocationError};
