//! A test double: the process dies or a task panics at a moment that a test chooses (`delivery.die_at`, `delivery.panic_at`).
//!
//! A moment is a point of the walk (`lead.planned`) or, for a panic, the name of a loop or thread (`books`, `snapshots`),
//! and then a number: the n-th time that the point is reached, the loop is polled or the thread starts. `later` instead of
//! a number is the first time after the clock of the test has moved by half an hour, so that the server serves by then.
//!
//! Invariant: without a setting nothing is watched.

use crate::config::Delivery;
use fantail_node::ports::Points;
use fantail_node::supervise::PollHook;
use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const LATER_MS: u64 = 30 * 60_000;

pub struct TestFaults {
    die: Option<Moment>,
    panic: Option<Moment>,
    clock: Arc<dyn Clock>,
}

struct Moment {
    name: String,
    /// How many times are left.
    left: AtomicU64,
    not_before: Option<Millis>,
}

impl Moment {
    fn parse(setting: Option<&str>, clock: &dyn Clock) -> Option<Self> {
        let (name, times) = setting?.split_once(':')?;
        let left = AtomicU64::new(times.parse().unwrap_or(1));
        let not_before = (times == "later").then(|| clock.wall().plus(LATER_MS));
        Some(Self { name: name.to_owned(), left, not_before })
    }

    fn is_ahead(&self, clock: &dyn Clock) -> bool {
        self.not_before.is_some_and(|time| clock.wall() < time)
    }
}

impl TestFaults {
    #[must_use]
    pub fn new(settings: &Delivery, clock: Arc<dyn Clock>) -> Arc<Self> {
        let [die, panic] =
            [&settings.die_at, &settings.panic_at].map(|setting| Moment::parse(setting.as_deref(), &*clock));
        Arc::new(Self { die, panic, clock })
    }

    #[must_use]
    pub fn points(self: &Arc<Self>) -> Points {
        if self.die.is_none() && self.panic.is_none() {
            return Points::default();
        }
        let faults = self.clone();
        Points::watched_by(Box::new(move |point| {
            if faults.is_now(faults.die.as_ref(), point) {
                std::process::abort();
            }
            faults.panic_at(point);
        }))
    }

    /// Looks at polls of tasks, if a task is to panic.
    #[must_use]
    pub fn poll_hook(self: &Arc<Self>) -> Option<PollHook> {
        self.panic.as_ref()?;
        let faults = self.clone();
        Some(Arc::new(move |task| {
            // Before the moment is looked at, so that it is not missed in between.
            let is_wanted = |panic: &Moment| panic.name == task && panic.is_ahead(&*faults.clock);
            let again = faults.panic.as_ref().is_some_and(is_wanted);
            faults.panic_at(task);
            again
        }))
    }

    fn panic_at(&self, name: &str) {
        assert!(!self.is_now(self.panic.as_ref(), name), "a test wants a panic at {name}");
    }

    fn is_now(&self, moment: Option<&Moment>, name: &str) -> bool {
        let moment = moment.filter(|moment| moment.name == name && !moment.is_ahead(&*self.clock));
        moment.is_some_and(|moment| moment.left.fetch_sub(1, Relaxed) == 1)
    }
}
