//! Merge patches of one document take turns, in the order in which they came.
//!
//! A patch without `If-Match` is merged into whatever is there. Patches that read the same version would all but one be
//! refused by the machine and start over: with turns each is merged once. Patches of different documents do not wait for
//! each other.
//!
//! Invariant: a document is listed exactly as long as a patch holds or awaits its turn, so memory is bounded by the
//! requests that are open.

use fantail_rules::ids::TenantId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Names a patched document: the tenant, the kind, and the name.
type Document = (TenantId, &'static str, String);

#[derive(Default)]
pub struct MergeTurns(SyncMutex<BTreeMap<Document, Waiting>>);

#[derive(Default)]
struct Waiting {
    turn: Arc<Mutex<()>>,
    patches: usize,
}

/// The next patch has its turn when this is dropped.
pub struct MergeTurn<'a> {
    // Dropped first, so that the next patch finds the turn free.
    _turn: OwnedMutexGuard<()>,
    _place: Place<'a>,
}

/// A patch that holds or awaits its turn.
struct Place<'a> {
    turns: &'a MergeTurns,
    document: Document,
}

impl MergeTurns {
    /// Waits until the patches that came before are merged or given up.
    pub async fn take(&self, tenant: TenantId, kind: &'static str, name: &str) -> MergeTurn<'_> {
        let document = (tenant, kind, name.to_owned());
        let turn = {
            let mut documents = self.documents();
            let waiting = documents.entry(document.clone()).or_default();
            waiting.patches += 1;
            waiting.turn.clone()
        };
        // It gives the place up as well if the caller goes away while it waits.
        let place = Place { turns: self, document };
        MergeTurn { _turn: turn.lock_owned().await, _place: place }
    }

    fn documents(&self) -> MutexGuard<'_, BTreeMap<Document, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut documents = self.turns.documents();
        if let Some(waiting) = documents.get_mut(&self.document) {
            waiting.patches -= 1;
            if waiting.patches == 0 {
                documents.remove(&self.document);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const TENANT: TenantId = TenantId(1);

    // fixes: usability B3
    #[test]
    fn patches_of_a_document_take_turns_in_their_order() {
        let turns = MergeTurns::default();
        let context = &mut Context::from_waker(Waker::noop());
        let mut first = pin!(turns.take(TENANT, "preferences", "ann"));
        let mut second = pin!(turns.take(TENANT, "preferences", "ann"));
        let mut third = pin!(turns.take(TENANT, "preferences", "ann"));
        let Poll::Ready(one) = first.as_mut().poll(context) else { panic!("nobody is before it") };
        assert!(second.as_mut().poll(context).is_pending());
        assert!(third.as_mut().poll(context).is_pending());
        for (tenant, kind, name) in
            [(TenantId(2), "preferences", "ann"), (TENANT, "schedule", "ann"), (TENANT, "preferences", "bob")]
        {
            let mut other = pin!(turns.take(tenant, kind, name));
            assert!(other.as_mut().poll(context).is_ready(), "{kind} {name} is another document");
        }
        drop(one);
        assert!(third.as_mut().poll(context).is_pending(), "the second one came before");
        let Poll::Ready(two) = second.as_mut().poll(context) else { panic!("it is its turn") };
        drop(two);
        assert!(third.as_mut().poll(context).is_ready());
    }

    #[test]
    fn a_caller_that_goes_away_leaves_nothing_behind() {
        let turns = MergeTurns::default();
        let context = &mut Context::from_waker(Waker::noop());
        {
            let mut first = pin!(turns.take(TENANT, "preferences", "ann"));
            let mut second = pin!(turns.take(TENANT, "preferences", "ann"));
            let Poll::Ready(_one) = first.as_mut().poll(context) else { panic!("nobody is before it") };
            assert!(second.as_mut().poll(context).is_pending());
            assert_eq!(turns.documents().len(), 1);
        }
        assert!(turns.documents().is_empty());
    }
}
