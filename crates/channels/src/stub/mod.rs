//! A provider that answers as the endpoint says, so that every path behind a channel can be walked without one.

pub mod settings;

pub mod payload;

pub mod answer;

mod record;

pub mod control;

mod client;

pub use client::Stub;
pub use control::Control;
pub use settings::{Faults, Settings};
