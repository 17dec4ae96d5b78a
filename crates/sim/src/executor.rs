//! A single-threaded executor whose order is chosen by a seed, with virtual time.
//!
//! It implements the `Tasks` port for the node. Nothing runs by itself: the driver asks for one poll of one ready
//! task, or lets time pass to the next timer. What must never happen: a real clock, a thread, an order that the
//! seed did not choose.

use crate::chance::Chance;
use fantail_memory::clock::ManualClock;
use fantail_ports::BoxFuture;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A handle; clones are the same executor.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<ManualClock>,
    state: Mutex<State>,
    ready: Arc<Ready>,
    /// The name of the task that is polled, and whether it is to be dropped then.
    current: Mutex<(&'static str, bool)>,
}

#[derive(Default)]
struct State {
    /// A task is absent while it is polled.
    tasks: BTreeMap<u64, Task>,
    last_task: u64,
    timers: BTreeMap<(Millis, u64), Waker>,
    last_timer: u64,
}

struct Task {
    name: &'static str,
    future: BoxFuture<'static, ()>,
}

/// Tasks that were woken. A set, because the order of waking is not ours: a `watch` channel wakes its watchers in an
/// order it draws itself.
#[derive(Default)]
struct Ready(Mutex<BTreeSet<u64>>);

struct TaskWaker {
    task: u64,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.ready.0).insert(self.task);
    }
}

/// Every critical section leaves its state whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Executor {
    #[must_use]
    pub fn new(clock: Arc<ManualClock>) -> Self {
        Self {
            shared: Arc::new(Shared {
                clock,
                state: Mutex::default(),
                ready: Arc::default(),
                current: Mutex::default(),
            }),
        }
    }

    #[must_use]
    pub fn has_ready(&self) -> bool {
        !lock(&self.shared.ready.0).is_empty()
    }

    /// Polls one ready task, chosen by chance; says which.
    pub fn run_one(&self, chance: &Chance) -> Option<(u64, &'static str)> {
        let id = {
            let mut ready = lock(&self.shared.ready.0);
            let id = ready.iter().copied().nth(chance.index(ready.len()))?;
            ready.remove(&id);
            id
        };
        let Some(mut task) = lock(&self.shared.state).tasks.remove(&id) else { return Some((id, "gone")) };
        let waker = Waker::from(Arc::new(TaskWaker { task: id, ready: self.shared.ready.clone() }));
        let name = task.name;
        *lock(&self.shared.current) = (name, false);
        let polled = task.future.as_mut().poll(&mut Context::from_waker(&waker));
        let (_, is_dropped) = std::mem::take(&mut *lock(&self.shared.current));
        match polled {
            Poll::Pending if !is_dropped => {
                lock(&self.shared.state).tasks.insert(id, task);
            }
            Poll::Ready(()) | Poll::Pending => drop(task),
        }
        Some((id, name))
    }

    /// The name of the task that is polled now; empty if none is.
    #[must_use]
    pub fn current(&self) -> &'static str {
        lock(&self.shared.current).0
    }

    /// The task that is polled now ends after this poll, and is told nothing.
    pub fn drop_current(&self) {
        lock(&self.shared.current).1 = true;
    }

    /// When the next sleeper wakes.
    #[must_use]
    pub fn next_timer(&self) -> Option<Millis> {
        lock(&self.shared.state).timers.keys().next().map(|(deadline, _)| *deadline)
    }

    /// Lets time pass and wakes whoever is due.
    pub fn advance(&self, span_ms: u64) {
        self.shared.clock.advance(span_ms);
        let now = self.shared.clock.monotonic();
        let due = {
            let mut state = lock(&self.shared.state);
            let later = state.timers.split_off(&(now.plus(1), 0));
            std::mem::replace(&mut state.timers, later)
        };
        due.into_values().for_each(Waker::wake);
    }

    /// Drops every task and timer, as the death of the process does.
    pub fn clear(&self) {
        let (tasks, timers) = {
            let mut state = lock(&self.shared.state);
            (std::mem::take(&mut state.tasks), std::mem::take(&mut state.timers))
        };
        // Dropping a task may wake others and so must not happen under the lock.
        drop((tasks, timers));
        lock(&self.shared.ready.0).clear();
    }
}

impl Tasks for Executor {
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        let id = {
            let mut state = lock(&self.shared.state);
            state.last_task += 1;
            let id = state.last_task;
            state.tasks.insert(id, Task { name, future });
            id
        };
        lock(&self.shared.ready.0).insert(id);
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        Box::pin(Sleep { shared: self.shared.clone(), deadline, timer: None })
    }
}

struct Sleep {
    shared: Arc<Shared>,
    deadline: Millis,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.clock.monotonic() >= self.deadline {
            return Poll::Ready(());
        }
        let timer = {
            let mut state = lock(&self.shared.state);
            let timer = self.timer.unwrap_or(state.last_timer + 1);
            state.last_timer = state.last_timer.max(timer);
            state.timers.insert((self.deadline, timer), context.waker().clone());
            timer
        };
        self.timer = Some(timer);
        Poll::Pending
    }
}

/// The value of a future that never waits.
pub fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_of(seed: u64) -> Vec<u64> {
        let executor = Executor::new(Arc::new(ManualClock::new(Millis(0))));
        let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
        for task in 0..8u64 {
            let (seen, tasks) = (seen.clone(), executor.clone());
            let work = async move {
                lock(&seen).push(task);
                tasks.sleep_until(Millis(10 * (8 - task))).await;
                lock(&seen).push(100 + task);
            };
            executor.spawn("test", Box::pin(work));
        }
        let chance = Chance::of(seed, "order");
        while executor.run_one(&chance).is_some() {}
        while let Some(next) = executor.next_timer() {
            executor.advance(next.since(executor.shared.clock.monotonic()));
            while executor.run_one(&chance).is_some() {}
        }
        std::mem::take(&mut *lock(&seen))
    }

    #[test]
    fn a_seed_chooses_the_order_and_repeats_it() {
        assert_eq!(order_of(1), order_of(1));
        assert!((2..20).any(|seed| order_of(seed) != order_of(1)));
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_deadlines() {
        let late: Vec<u64> = order_of(3).into_iter().filter(|seen| *seen >= 100).collect();
        assert_eq!(late, (100..108).rev().collect::<Vec<_>>());
    }

    #[test]
    fn clearing_forgets_everything() {
        let executor = Executor::new(Arc::new(ManualClock::new(Millis(0))));
        let sleep = executor.sleep_until(Millis(5));
        executor.spawn("test", sleep);
        executor.run_one(&Chance::of(1, "order"));
        executor.clear();
        assert!(!executor.has_ready());
        assert_eq!(executor.next_timer(), None);
    }
}
