//! How webhooks are doing since this process began: when each was tried last, why it failed, and when it is tried again.
//!
//! Input: `follow`, after each attempt. Output: the tenant's list of webhooks, and a counter of failures by reason. Since when
//! a webhook fails is durable and stands in the root's tables; the rest is known again after the next attempt, which a start
//! makes at once.

use fantail_rules::ids::{Millis, TenantId};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reasons that are counted by name. Receivers choose their status codes, so there could be hundreds.
const REASONS_MAX: usize = 64;
const OTHER: &str = "other";

/// The last attempt of a webhook.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WebhookProgress {
    pub attempted_at: Millis,
    /// Why it failed; `None` if the receiver took everything.
    pub failure: Option<WebhookFailure>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookFailure {
    /// A word, or a status.
    pub reason: String,
    /// For people.
    pub detail: String,
    /// When it is tried again; `None` if it was switched off.
    pub next_at: Option<Millis>,
}

#[derive(Default)]
pub struct WebhookProgresses(Mutex<ProgressState>);

#[derive(Default)]
struct ProgressState {
    /// One for each webhook there is, of which a tenant has few.
    last: BTreeMap<(TenantId, String), WebhookProgress>,
    failures: BTreeMap<String, u64>,
}

impl WebhookProgresses {
    pub fn succeeded(&self, tenant: TenantId, id: &str, at: Millis) {
        self.set(tenant, id, WebhookProgress { attempted_at: at, failure: None });
    }

    pub fn failed(&self, tenant: TenantId, id: &str, at: Millis, failure: WebhookFailure) {
        {
            let mut state = self.state();
            let is_known = state.failures.contains_key(&failure.reason);
            let is_named = is_known || state.failures.len() < REASONS_MAX;
            let reason = if is_named { failure.reason.clone() } else { OTHER.to_owned() };
            *state.failures.entry(reason).or_default() += 1;
        }
        self.set(tenant, id, WebhookProgress { attempted_at: at, failure: Some(failure) });
    }

    pub fn forget(&self, tenant: TenantId, id: &str) {
        self.state().last.remove(&(tenant, id.to_owned()));
    }

    #[must_use]
    pub fn of(&self, tenant: TenantId, id: &str) -> Option<WebhookProgress> {
        self.state().last.get(&(tenant, id.to_owned())).cloned()
    }

    /// Attempts that failed, by reason.
    #[must_use]
    pub fn failures(&self) -> BTreeMap<String, u64> {
        self.state().failures.clone()
    }

    fn set(&self, tenant: TenantId, id: &str, progress: WebhookProgress) {
        self.state().last.insert((tenant, id.to_owned()), progress);
    }

    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(reason: &str) -> WebhookFailure {
        WebhookFailure { reason: reason.to_owned(), detail: String::new(), next_at: None }
    }

    #[test]
    fn the_last_attempt_is_kept_and_failures_are_counted_by_reason() {
        let (progresses, tenant) = (WebhookProgresses::default(), TenantId(1));
        progresses.failed(tenant, "a", Millis(5), failure("forbidden"));
        progresses.failed(tenant, "a", Millis(6), failure("forbidden"));
        assert_eq!(progresses.of(tenant, "a").and_then(|one| one.failure), Some(failure("forbidden")));
        assert_eq!(progresses.of(TenantId(2), "a"), None);
        progresses.succeeded(tenant, "a", Millis(7));
        assert_eq!(
            progresses.of(tenant, "a"),
            Some(WebhookProgress { attempted_at: Millis(7), failure: None })
        );
        assert_eq!(progresses.failures(), BTreeMap::from([("forbidden".to_owned(), 2)]));
        progresses.forget(tenant, "a");
        assert_eq!(progresses.of(tenant, "a"), None);
    }

    #[test]
    fn reasons_are_bounded() {
        let progresses = WebhookProgresses::default();
        for status in 100..600 {
            progresses.failed(TenantId(1), "a", Millis(1), failure(&status.to_string()));
        }
        let failures = progresses.failures();
        assert_eq!(failures.len(), REASONS_MAX + 1);
        assert_eq!(failures.values().sum::<u64>(), 500);
        assert_eq!(failures[OTHER], 500 - REASONS_MAX as u64);
    }
}
