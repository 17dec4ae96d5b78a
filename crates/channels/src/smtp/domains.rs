//! Domains that rest: their servers do not know us yet, or do not want more now. Everybody else goes on.

use super::limits::RESTING_DOMAINS_MAX;
use fantail_rules::ids::Millis;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub struct Domains {
    until: Mutex<BTreeMap<String, Millis>>,
}

impl Domains {
    /// How long it still rests.
    pub fn rests_ms(&self, domain: &str, now: Millis) -> Option<u64> {
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.get(domain).map(|until| until.since(now)).filter(|left_ms| *left_ms > 0)
    }

    pub fn rest(&self, domain: &str, now: Millis, span_ms: u64) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.len() >= RESTING_DOMAINS_MAX && !until.contains_key(domain) {
            until.retain(|_, until| *until > now);
        }
        if until.len() >= RESTING_DOMAINS_MAX && !until.contains_key(domain) {
            let first = until.iter().min_by_key(|(_, until)| **until).map(|(domain, _)| domain.clone());
            first.and_then(|first| until.remove(&first));
        }
        until.insert(domain.to_owned(), now.plus(span_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_rest_and_are_free_again() {
        let domains = Domains::default();
        domains.rest("a.example", Millis(1_000), 500);
        assert_eq!(domains.rests_ms("a.example", Millis(1_100)), Some(400));
        assert_eq!(domains.rests_ms("b.example", Millis(1_100)), None);
        assert_eq!(domains.rests_ms("a.example", Millis(1_500)), None);
    }

    #[test]
    fn there_is_an_end_to_them() {
        let domains = Domains::default();
        for no in 0..RESTING_DOMAINS_MAX as u64 + 10 {
            domains.rest(&format!("d{no}.example"), Millis(0), 1_000 + no);
        }
        assert_eq!(domains.rests_ms("d0.example", Millis(0)), None);
        assert_eq!(domains.rests_ms("d10.example", Millis(0)), Some(1_010));
        assert_eq!(domains.until.lock().expect("not poisoned").len(), RESTING_DOMAINS_MAX);
    }
}
