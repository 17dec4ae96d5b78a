//! What the stub keeps, and what is wrong with it at the moment.

use super::control::Control;
use std::path::PathBuf;

/// How many references the record counts unless told otherwise: about 100 MB.
pub const REFERENCES_MAX_DEFAULT: usize = 1_000_000;

/// Fixed for the life of a stub.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// How many different references are counted in memory; 0 counts none and is the fast way.
    pub references_max: usize,
    /// Every arrival is appended here before it is answered, so that copies can be counted across a kill -9. It makes
    /// each arrival a blocking write: for tests only.
    pub arrivals_file: Option<PathBuf>,
    /// Faults that are read anew for every shipment, instead of those of [`super::Stub::set_faults`]: for tests only.
    pub control: Option<Control>,
}

impl Settings {
    /// Counts what arrives, in memory.
    #[must_use]
    pub fn recording() -> Self {
        Self { references_max: REFERENCES_MAX_DEFAULT, arrivals_file: None, control: None }
    }
}

/// What is wrong with the provider as a whole; changed while it runs. Applies to messages that start afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Everything is answered 503 and nothing arrives.
    pub down: bool,
    /// Added to the time that every answer takes.
    pub slow_ms: u64,
    /// This share of attempts, drawn from reference and attempt, is answered 500 and does not arrive.
    pub fail_percent: u8,
    /// This share of deliveries, drawn from the reference alone, is refused as malformed, whichever attempt it is.
    pub malformed_percent: u8,
}
