//! Push to Apple's devices, over APNs' HTTP/2 protocol.
//!
//! One connection belongs to one key and one environment. Every attempt of a delivery carries the same `apns-id`, derived
//! from its reference, and the reference itself as `fantail.reference`: APNs sends no receipts, apps do, and they have only
//! the payload.

pub mod settings;

pub mod payload;

pub mod answer;

mod token;

mod line;

mod client;

pub use client::Apns;
pub use settings::{Secrets, Settings};
