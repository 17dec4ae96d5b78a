//! Turns: of the connections of one address so many are worked on at a time, the others wait in a line of their own.
//!
//! The runtime works on tasks in the order in which they became ready. Without turns, thousands of connections of one address that all send
//! a byte at the same moment are worked on before the next request of any other address. With turns, that request waits behind a few of them.
//! Connections that have shown no key have a line of their own, with fewer places.
//! Invariant: a line is empty, or all of its places are taken: a place that is given back goes to the connection that waits longest.

use fantail_api::client_address::{AddressRules, network_of};
use fantail_api::known_caller::KnownCaller;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// How many connections of one address are worked on at a time.
#[derive(Clone, Copy, Debug)]
pub struct TurnPlaces {
    /// Connections that have shown a key, and those of a trusted proxy.
    pub known: usize,
    pub strangers: usize,
}

impl TurnPlaces {
    /// Half of the threads, because a request with a key may hold up its thread until the disk has answered; for strangers half of the cores.
    #[must_use]
    pub fn new(threads: usize, cores: usize) -> Self {
        Self { known: (threads / 2).max(1), strangers: (cores / 2).max(1) }
    }
}

/// The lines of all addresses that are connected.
#[derive(Debug)]
pub struct Turns {
    places: TurnPlaces,
    rules: AddressRules,
    by_address: Mutex<HashMap<IpAddr, Weak<AddressTurns>>>,
}

impl Turns {
    #[must_use]
    pub fn new(places: TurnPlaces, rules: AddressRules) -> Arc<Self> {
        Arc::new(Self { places, rules, by_address: Mutex::default() })
    }

    /// The lines of the address of a peer. They exist as long as it is connected.
    pub fn lines_for(self: &Arc<Self>, peer: IpAddr) -> Arc<AddressTurns> {
        let address = network_of(peer.to_canonical());
        let mut by_address = self.by_address();
        if let Some(turns) = by_address.get(&address).and_then(Weak::upgrade) {
            return turns;
        }
        let strangers = match self.rules.is_trusted(peer) {
            true => self.places.known,
            false => self.places.strangers,
        };
        let turns = Arc::new(AddressTurns {
            address,
            registry: self.clone(),
            known: TurnLine::new(self.places.known),
            strangers: TurnLine::new(strangers),
        });
        by_address.insert(address, Arc::downgrade(&turns));
        turns
    }

    fn by_address(&self) -> MutexGuard<'_, HashMap<IpAddr, Weak<AddressTurns>>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub struct AddressTurns {
    address: IpAddr,
    registry: Arc<Turns>,
    known: TurnLine,
    strangers: TurnLine,
}

impl AddressTurns {
    fn line(&self, is_known: bool) -> &TurnLine {
        if is_known { &self.known } else { &self.strangers }
    }
}

impl Drop for AddressTurns {
    fn drop(&mut self) {
        let mut by_address = self.registry.by_address();
        // Meanwhile the address may have connected again, with new lines.
        if by_address.get(&self.address).is_some_and(|turns| turns.strong_count() == 0) {
            by_address.remove(&self.address);
        }
    }
}

#[derive(Debug)]
struct TurnLine {
    places: usize,
    state: Mutex<TurnLineState>,
}

#[derive(Debug, Default)]
struct TurnLineState {
    taken: usize,
    waiting: VecDeque<Arc<Mutex<TurnSpot>>>,
}

/// Where a task stands.
#[derive(Debug, Default)]
enum TurnSpot {
    #[default]
    Outside,
    /// In the line, to be woken by this.
    Waiting(Waker),
    /// A place was handed over, and is held until the task has been worked on.
    Called,
    /// The task ended while it waited.
    Gone,
}

fn lock_spot(spot: &Mutex<TurnSpot>) -> MutexGuard<'_, TurnSpot> {
    spot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TurnLine {
    fn new(places: usize) -> Self {
        Self { places, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, TurnLineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, or joins the line.
    fn enter(&self, spot: &Arc<Mutex<TurnSpot>>, waker: &Waker) -> bool {
        let mut state = self.state();
        if state.taken < self.places {
            state.taken += 1;
            return true;
        }
        *lock_spot(spot) = TurnSpot::Waiting(waker.clone());
        state.waiting.push_back(spot.clone());
        false
    }

    /// Gives a place to the next in the line, or back.
    fn leave(&self) {
        let mut state = self.state();
        while let Some(next) = state.waiting.pop_front() {
            let mut spot = lock_spot(&next);
            match std::mem::take(&mut *spot) {
                TurnSpot::Waiting(waker) => {
                    *spot = TurnSpot::Called;
                    drop(spot);
                    drop(state);
                    waker.wake();
                    return;
                }
                TurnSpot::Gone => {}
                TurnSpot::Outside | TurnSpot::Called => unreachable!("what is in the line waits, or is gone"),
            }
        }
        state.taken -= 1;
    }
}

/// A task of a connection, worked on when it is its turn.
pub struct InTurn<F> {
    turns: Arc<AddressTurns>,
    caller: KnownCaller,
    spot: Arc<Mutex<TurnSpot>>,
    /// Which line `spot` is in.
    is_known: bool,
    task: Pin<Box<F>>,
}

impl<F: Future> InTurn<F> {
    pub fn new(turns: Arc<AddressTurns>, caller: KnownCaller, task: F) -> Self {
        Self { turns, caller, spot: Arc::default(), is_known: false, task: Box::pin(task) }
    }

    /// Whether a place is held now.
    fn is_its_turn(&mut self, waker: &Waker) -> bool {
        {
            let mut spot = lock_spot(&self.spot);
            match std::mem::take(&mut *spot) {
                TurnSpot::Outside => {}
                TurnSpot::Called => return true,
                // Something happened on the connection: it waits all the same.
                TurnSpot::Waiting(_) => {
                    *spot = TurnSpot::Waiting(waker.clone());
                    return false;
                }
                TurnSpot::Gone => unreachable!("it is not dropped"),
            }
        }
        self.is_known = self.caller.is_known();
        self.turns.line(self.is_known).enter(&self.spot, waker)
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if !self.is_its_turn(context.waker()) {
            return Poll::Pending;
        }
        let turns = self.turns.clone();
        // Also if the task panics.
        let _place = HeldPlace(turns.line(self.is_known));
        self.task.as_mut().poll(context)
    }
}

impl<F> Drop for InTurn<F> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *lock_spot(&self.spot), TurnSpot::Gone);
        if matches!(before, TurnSpot::Called) {
            self.turns.line(self.is_known).leave();
        }
    }
}

struct HeldPlace<'a>(&'a TurnLine);

impl Drop for HeldPlace<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Starts the streams of an HTTP/2 connection: each takes its turns as the connection does.
#[derive(Clone, Debug)]
pub struct TurnExecutor {
    pub turns: Arc<AddressTurns>,
    pub caller: KnownCaller,
}

impl<F> hyper::rt::Executor<F> for TurnExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let task = InTurn::new(self.turns.clone(), self.caller.clone(), stream);
        tokio::spawn(async move {
            task.await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn turns() -> Arc<Turns> {
        Turns::new(TurnPlaces { known: 2, strangers: 1 }, AddressRules::default())
    }

    /// A connection that is worked on until it is told to go on: two looks.
    struct Connection {
        task: Pin<Box<InTurn<std::future::Pending<()>>>>,
        woken: Arc<Woken>,
    }

    impl Connection {
        fn new(turns: &Arc<Turns>, peer: IpAddr, caller: &KnownCaller) -> Self {
            let task = InTurn::new(turns.lines_for(peer), caller.clone(), std::future::pending());
            Self { task: Box::pin(task), woken: Arc::default() }
        }

        /// Becomes ready, while all places of its line are held or not.
        fn poll(&mut self) -> bool {
            let waker = Waker::from(self.woken.clone());
            assert!(self.task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            !matches!(*lock_spot(&self.task.spot), TurnSpot::Waiting(_))
        }

        fn woken(&self) -> usize {
            self.woken.0.load(Ordering::Relaxed)
        }
    }

    // fixes: security M6
    #[test]
    fn connections_of_an_address_wait_in_their_own_line() {
        let (turns, stranger) = (turns(), KnownCaller::default());
        let lines = turns.lines_for(PEER);
        let mut crowd: Vec<Connection> = (0..4).map(|_| Connection::new(&turns, PEER, &stranger)).collect();
        // A task on another thread holds the only place.
        assert!(lines.strangers.enter(&Arc::default(), Waker::noop()));
        assert!(crowd.iter_mut().all(|connection| !connection.poll()), "all of them wait");
        assert!(crowd.iter_mut().all(|connection| !connection.poll()), "and stand in the line once");
        assert_eq!(lines.strangers.state().waiting.len(), 4);
        assert!(Connection::new(&turns, OTHER, &stranger).poll(), "another address has places of its own");
        let known = KnownCaller::default();
        known.set();
        assert!(Connection::new(&turns, PEER, &known).poll(), "and so has a connection with a key");

        // The one that waits longest is called; one that is gone is passed over.
        drop(crowd.remove(1));
        lines.strangers.leave();
        assert_eq!(crowd.iter().map(Connection::woken).collect::<Vec<_>>(), [1, 0, 0]);
        let late = Connection::new(&turns, PEER, &stranger).poll();
        assert!(!late, "a place that was handed over is not free");
        assert!(crowd[0].poll());
        assert_eq!(crowd.iter().map(Connection::woken).collect::<Vec<_>>(), [1, 1, 0]);
    }

    #[test]
    fn a_call_that_is_not_answered_goes_to_the_next_and_nothing_is_left() {
        let (turns, stranger) = (turns(), KnownCaller::default());
        let lines = turns.lines_for(PEER);
        let mut crowd: Vec<Connection> = (0..3).map(|_| Connection::new(&turns, PEER, &stranger)).collect();
        assert!(lines.strangers.enter(&Arc::default(), Waker::noop()));
        assert!(crowd.iter_mut().all(|connection| !connection.poll()));
        lines.strangers.leave();
        drop(crowd.remove(0));
        assert_eq!(crowd[0].woken(), 1, "the connection that was called is gone");
        drop(crowd);
        let state = lines.strangers.state();
        assert!(state.taken == 0 && state.waiting.is_empty(), "{state:?}");
        drop(state);
        drop(lines);
        assert!(turns.by_address().is_empty(), "nothing is remembered of closed connections");
    }

    #[test]
    fn a_task_that_panics_gives_its_place_back() {
        let turns = turns();
        let failing = std::future::poll_fn(|_| -> Poll<()> { panic!("as it happens") });
        let task = InTurn::new(turns.lines_for(PEER), KnownCaller::default(), failing);
        let mut task = pin!(task);
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        }));
        assert!(polled.is_err());
        assert_eq!(turns.lines_for(PEER).strangers.state().taken, 0);
    }
}
