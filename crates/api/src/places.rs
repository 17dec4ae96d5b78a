//! A few places that tenants share, in fair turns.
//!
//! Input: a tenant that wants a place, and places that come back. Decides: who is next. Among tenants that wait it is the one
//! that holds the fewest places, then the one that waits longest; inside a tenant the order of asking.
//!
//! Invariant: no tenant holds all places, so another one waits for no more than its turn. Places that are kept for sends are
//! given to sends only. A place comes back however its holder ends.

use fantail_rules::ids::TenantId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Waiting requests of one tenant. Each holds its body; further ones are refused with a time to retry. What has begun and
/// cannot be refused is bounded where it begins.
const WAITING_PER_TENANT_MAX: usize = 256;

pub struct Places {
    all: usize,
    kept_for_sends: usize,
    state: Mutex<PlacesState>,
}

#[derive(Default)]
struct PlacesState {
    taken: usize,
    /// By tenant; those that hold none are not in it.
    held: BTreeMap<TenantId, usize>,
    /// Those who went away stay until their turn comes, or until there are too many: to look for them costs time.
    waiting: BTreeMap<TenantId, VecDeque<Waiter>>,
    /// Tenants that wait, the longest first.
    turns: VecDeque<TenantId>,
}

struct Waiter {
    is_send: bool,
    grant: oneshot::Sender<Place>,
}

/// A place of a tenant. Dropping it gives it to the next one.
pub struct Place {
    places: Arc<Places>,
    tenant: TenantId,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.release(self.tenant);
    }
}

impl Places {
    pub fn new(all: usize, kept_for_sends: usize) -> Arc<Self> {
        Arc::new(Self { all, kept_for_sends, state: Mutex::default() })
    }

    /// Waits for a place. `None` if too many requests of the tenant wait already.
    pub async fn acquire(self: &Arc<Self>, tenant: TenantId, is_send: bool) -> Option<Place> {
        self.wait(tenant, is_send, WAITING_PER_TENANT_MAX).await
    }

    /// Waits for a place with an export that has been begun and cannot be refused any more. They are bounded by
    /// `exports_under_way`.
    pub async fn acquire_late(self: &Arc<Self>, tenant: TenantId) -> Option<Place> {
        self.wait(tenant, false, usize::MAX).await
    }

    async fn wait(self: &Arc<Self>, tenant: TenantId, is_send: bool, waiting_max: usize) -> Option<Place> {
        let granted = {
            let mut state = self.state();
            let (grant, granted) = oneshot::channel();
            let queue = state.waiting.entry(tenant).or_default();
            if queue.len() >= WAITING_PER_TENANT_MAX {
                queue.retain(|waiter| !waiter.grant.is_closed());
            }
            if queue.len() >= waiting_max {
                return None;
            }
            queue.push_back(Waiter { is_send, grant });
            if !state.turns.contains(&tenant) {
                state.turns.push_back(tenant);
            }
            granted
        };
        self.grant_all();
        granted.await.ok()
    }

    fn state(&self) -> MutexGuard<'_, PlacesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(self: &Arc<Self>, tenant: TenantId) {
        {
            let mut state = self.state();
            state.taken -= 1;
            if let Some(held) = state.held.get_mut(&tenant) {
                *held -= 1;
                if *held == 0 {
                    state.held.remove(&tenant);
                }
            }
        }
        self.grant_all();
    }

    /// Gives out what is free.
    fn grant_all(self: &Arc<Self>) {
        loop {
            // The lock is free again before a place is sent: a place that is not taken comes back at once.
            let Some((tenant, waiter)) = self.state().next(self.all, self.kept_for_sends) else { return };
            drop(waiter.grant.send(Place { places: Arc::clone(self), tenant }));
        }
    }
}

impl PlacesState {
    /// Returns the receiver of the next place, which counts as taken from now on.
    fn next(&mut self, all: usize, kept_for_sends: usize) -> Option<(TenantId, Waiter)> {
        let free = all.saturating_sub(self.taken);
        if free == 0 {
            return None;
        }
        let sends_only = free <= kept_for_sends;
        loop {
            let (tenant, waiter) = self.next_waiter(all, sends_only)?;
            if waiter.grant.is_closed() {
                continue;
            }
            // A tenant has its turn for a place, and not for a waiter that went away.
            if self.waiting.contains_key(&tenant) {
                self.turns.retain(|other| *other != tenant);
                self.turns.push_back(tenant);
            }
            self.taken += 1;
            *self.held.entry(tenant).or_default() += 1;
            return Some((tenant, waiter));
        }
    }

    /// Takes the waiter out whose turn it is.
    fn next_waiter(&mut self, all: usize, sends_only: bool) -> Option<(TenantId, Waiter)> {
        let held = |tenant: &TenantId| self.held.get(tenant).copied().unwrap_or(0);
        let may = |tenant: &&TenantId| {
            let mut queue = self.waiting.get(*tenant).into_iter().flatten();
            held(tenant) + 1 < all.max(2) && queue.any(|waiter| waiter.is_send || !sends_only)
        };
        let tenant = self.turns.iter().filter(may).min_by_key(|tenant| held(tenant)).copied()?;
        let queue = self.waiting.get_mut(&tenant)?;
        let at = queue.iter().position(|waiter| waiter.is_send || !sends_only)?;
        let waiter = queue.remove(at)?;
        if queue.is_empty() {
            self.waiting.remove(&tenant);
            self.turns.retain(|other| *other != tenant);
        }
        Some((tenant, waiter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{Future, ready};
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    const LOUD: TenantId = TenantId(1);
    const QUIET: TenantId = TenantId(2);

    type Waiting = Pin<Box<dyn Future<Output = Option<Place>>>>;

    fn poll(waiting: &mut Waiting) -> Poll<Option<Place>> {
        waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn ask(places: &Arc<Places>, tenant: TenantId, is_send: bool) -> Waiting {
        let places = Arc::clone(places);
        let mut waiting: Waiting = Box::pin(async move { places.acquire(tenant, is_send).await });
        match poll(&mut waiting) {
            Poll::Ready(place) => Box::pin(ready(place)),
            Poll::Pending => waiting,
        }
    }

    fn take(waiting: &mut Waiting) -> Option<Place> {
        match poll(waiting) {
            Poll::Ready(place) => place,
            Poll::Pending => None,
        }
    }

    /// One tenant asks for a hundred renderings; a send of another one begins at once, and the next after one turn.
    // fixes: security M1
    #[test]
    fn a_flood_of_one_tenant_delays_another_by_no_more_than_a_turn() {
        let places = Places::new(4, 1);
        let mut flood: Vec<Waiting> = (0..100).map(|_| ask(&places, LOUD, true)).collect();
        let mut begun: VecDeque<Place> = flood.iter_mut().filter_map(take).collect();
        assert_eq!(begun.len(), 3, "one tenant never has all places");
        let mut sends: Vec<Waiting> = (0..3).map(|_| ask(&places, QUIET, true)).collect();
        let first = take(&mut sends[0]).expect("a place is left");
        assert!(take(&mut sends[1]).is_none());
        // One place of the flood comes back: it is the other tenant's, which holds fewer.
        drop(begun.pop_front());
        let second = take(&mut sends[1]).expect("its turn");
        drop(begun.pop_front());
        let turns: Vec<Place> = flood[3..].iter_mut().chain(&mut sends[2..]).filter_map(take).collect();
        assert_eq!(turns.len(), 1, "and then they take turns");
        drop((first, second));
    }

    // fixes: security M1
    #[test]
    fn a_place_is_kept_for_sends() {
        let places = Places::new(4, 1);
        let mut looks: Vec<Waiting> = (1..=8).map(|tenant| ask(&places, TenantId(tenant), false)).collect();
        let begun: Vec<Place> = looks.iter_mut().filter_map(take).collect();
        assert_eq!(begun.len(), 3);
        let send = take(&mut ask(&places, QUIET, true)).expect("the kept place");
        drop(send);
        assert!(looks[3..].iter_mut().all(|look| take(look).is_none()), "it stays kept");
        drop(begun);
        let next: Vec<Place> = looks[3..].iter_mut().filter_map(take).collect();
        assert_eq!(next.len(), 3);
    }

    /// Hundreds of exports of one tenant: a single place is theirs, none is broken off, and another tenant's begins at once.
    #[test]
    fn many_exports_of_one_tenant_hold_one_of_two_places() {
        let places = Places::new(2, 0);
        let page = |tenant: TenantId| {
            let places = Arc::clone(&places);
            let mut waiting: Waiting = Box::pin(async move { places.acquire_late(tenant).await });
            match poll(&mut waiting) {
                Poll::Ready(place) => Box::pin(ready(place)),
                Poll::Pending => waiting,
            }
        };
        let mut exports: Vec<Waiting> = (0..2 * WAITING_PER_TENANT_MAX).map(|_| page(LOUD)).collect();
        let mut begun: Vec<Place> = exports.iter_mut().filter_map(take).collect();
        assert_eq!(begun.len(), 1);
        let first = take(&mut page(QUIET)).expect("a place is left");
        let mut second = page(QUIET);
        drop(first);
        begun.extend(take(&mut second));
        assert_eq!(begun.len(), 2, "the place that came back is its turn again");
    }

    /// Requests come and go while nothing is free: what is kept of them is bounded, and none of them takes a turn.
    // fixes: security M8
    #[test]
    fn requests_that_are_gone_take_no_turn() {
        let places = Places::new(2, 0);
        let held = take(&mut ask(&places, LOUD, true)).expect("free");
        let other = take(&mut ask(&places, QUIET, true)).expect("free");
        for _ in 0..10 * WAITING_PER_TENANT_MAX {
            drop(ask(&places, LOUD, true));
            let gone = places.clone();
            let mut late: Waiting = Box::pin(async move { gone.acquire_late(QUIET).await });
            assert!(poll(&mut late).is_pending());
        }
        assert!(places.state().waiting.values().all(|queue| queue.len() <= WAITING_PER_TENANT_MAX));
        let (mut first, mut second) = (ask(&places, QUIET, true), ask(&places, LOUD, true));
        drop(held);
        let second = take(&mut second).expect("it holds none, and nobody else of it is there");
        assert!(take(&mut first).is_none());
        drop(other);
        let first = take(&mut first).expect("its turn");
        drop((first, second));
        let state = places.state();
        assert!(state.taken == 0 && state.waiting.is_empty() && state.turns.is_empty(), "nothing is left");
    }

    #[test]
    fn requests_that_are_gone_hold_nothing() {
        let places = Places::new(2, 0);
        let held = take(&mut ask(&places, LOUD, true)).expect("free");
        let waits = ask(&places, LOUD, true);
        drop(waits);
        let granted = ask(&places, QUIET, true);
        drop(granted);
        drop(held);
        assert_eq!(places.state().taken, 0);
        let many: Vec<Waiting> = (0..WAITING_PER_TENANT_MAX + 1).map(|_| ask(&places, LOUD, true)).collect();
        let mut refused = ask(&places, LOUD, true);
        assert!(matches!(poll(&mut refused), Poll::Ready(None)), "too many wait");
        drop(many);
    }
}
