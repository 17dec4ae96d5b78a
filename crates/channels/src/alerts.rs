//! Answers that only an operator can mend (a wrong key, a malformed payload): said once for each shipment and code, because
//! a shipment of a thousand gets the same answer a thousand times.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tracing::error;

/// Codes come from providers; so many different ones are told apart in one shipment.
const CODES_MAX: usize = 16;

#[derive(Debug, Default)]
pub struct Alerts {
    counts: Mutex<BTreeMap<String, u64>>,
}

impl Alerts {
    pub fn add(&self, code: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() < CODES_MAX || counts.contains_key(code) {
            *counts.entry(code.to_owned()).or_default() += 1;
        }
    }

    /// At the end of a shipment.
    pub fn tell(self, provider: &'static str) {
        for (code, messages) in self.counts.into_inner().unwrap_or_else(PoisonError::into_inner) {
            error!(provider, code, messages, "the provider refuses what only an operator can mend");
        }
    }
}
