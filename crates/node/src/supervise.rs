//! Supervision: no task ends unnoticed.
//!
//! Wraps the `Tasks` port, so that the simulator and production share it. The panic of any task is caught, logged and
//! counted. Three kinds of tasks differ in what follows:
//!
//! | kind | panic | end |
//! |---|---|---|
//! | loop: leaders, dispatch, errands … | the node stops | the node stops, unless its queue is closed |
//! | required: a turn of the dispatcher | the node stops | as expected |
//! | contained: connections, webhooks | the task ends | as expected |
//!
//! A node that stops says why in the log, `/readyz` turns red and the process ends.

use crate::ports::Stop;
use fantail_ports::BoxFuture;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use std::any::Any;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use tracing::error;

#[derive(Clone)]
pub struct Supervisor {
    tasks: Arc<dyn Tasks>,
    stop: Arc<Stop>,
    panics: Arc<Panics>,
}

/// How many tasks of each name panicked.
#[derive(Default)]
struct Panics(Mutex<BTreeMap<&'static str, u64>>);

impl Panics {
    fn add(&self, name: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
    }
}

impl Supervisor {
    #[must_use]
    pub fn new(tasks: Arc<dyn Tasks>, stop: Arc<Stop>) -> Self {
        Self { tasks, stop, panics: Arc::default() }
    }

    /// Runs a loop. Its panic stops the node, and so does its end, unless `may_end` says that it was to end.
    pub fn spawn_loop(
        &self,
        name: &'static str,
        may_end: impl Fn() -> bool + Send + 'static,
        task: BoxFuture<'static, ()>,
    ) {
        let supervisor = self.clone();
        let supervised = async move {
            match caught(task, |panic| supervisor.fail(name, panic)).await {
                Err(_) => {}
                Ok(()) if may_end() || supervisor.stop.reason().is_some() => {}
                Ok(()) => {
                    error!(task = name, "a task ended that must not end");
                    supervisor.stop.set(&format!("the task {name} ended early"));
                }
            }
        };
        self.tasks.spawn(name, Box::pin(supervised));
    }

    /// Runs a task whose panic stops the node.
    pub fn spawn_required(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        let supervisor = self.clone();
        let supervised = async move {
            caught(task, |panic| supervisor.fail(name, panic)).await.ok();
        };
        self.tasks.spawn(name, Box::pin(supervised));
    }

    /// Runs a contained task: its panic ends nothing else.
    pub fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        let supervisor = self.clone();
        let supervised = async move {
            caught(task, |panic| supervisor.count_panic(name, panic)).await.ok();
        };
        self.tasks.spawn(name, Box::pin(supervised));
    }

    /// As the port says.
    pub fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        self.tasks.sleep_until(deadline)
    }

    /// Counts and logs a panic that its caller has caught and survives.
    pub fn count_panic(&self, name: &'static str, panic: &str) {
        self.panics.add(name);
        error!(task = name, panic, "a task panicked");
    }

    /// A thread or task that the node cannot do without has panicked.
    pub fn fail(&self, name: &'static str, panic: &str) {
        self.count_panic(name, panic);
        self.stop.set(&format!("the task {name} panicked: {panic}"));
    }

    /// How many tasks of each name panicked since the start.
    #[must_use]
    pub fn panics(&self) -> Vec<(&'static str, u64)> {
        let panics = self.panics.0.lock().unwrap_or_else(PoisonError::into_inner);
        panics.iter().map(|(name, count)| (*name, *count)).collect()
    }
}

impl Tasks for Supervisor {
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        Self::spawn(self, name, task);
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        Self::sleep_until(self, deadline)
    }
}

/// Polls a task to its end. A panic is an error with its message: `on_panic` is called, then the task is dropped.
pub async fn caught<T>(mut task: BoxFuture<'_, T>, on_panic: impl FnOnce(&str)) -> Result<T, String> {
    let ended = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(panic) => Poll::Ready(Err(message(&*panic))),
    })
    .await;
    if let Err(panic) = &ended {
        on_panic(panic);
    }
    // What the task held may panic once more while it is dropped: that is the same panic.
    if ended.is_err() && catch_unwind(AssertUnwindSafe(|| drop(task))).is_err() {
        error!("what a panicked task held cannot be dropped");
    }
    ended
}

/// What a panic says.
#[must_use]
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    /// Runs each task at once; none of them waits.
    struct AtOnce;

    impl Tasks for AtOnce {
        fn spawn(&self, name: &'static str, mut task: BoxFuture<'static, ()>) {
            let ended = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(ended.is_ready(), "{name}");
        }

        fn sleep_until(&self, _: Millis) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    // fixes: correctness A2
    #[test]
    fn no_task_panics_or_ends_unnoticed() {
        let panics = || -> BoxFuture<'static, ()> { Box::pin(async { panic!("out of order") }) };
        let ends = || -> BoxFuture<'static, ()> { Box::pin(async {}) };
        let check = |spawn: &dyn Fn(&Supervisor), reason: Option<&str>, counted: u64| {
            let supervisor = Supervisor::new(Arc::new(AtOnce), Arc::default());
            spawn(&supervisor);
            assert_eq!(supervisor.stop.reason().as_deref(), reason);
            assert_eq!(supervisor.panics().iter().map(|(_, count)| count).sum::<u64>(), counted);
        };
        let panicked = Some("the task leader panicked: out of order");
        check(&|to| to.spawn_loop("leader", || true, panics()), panicked, 1);
        check(&|to| to.spawn_loop("leader", || false, ends()), Some("the task leader ended early"), 0);
        check(&|to| to.spawn_loop("leader", || true, ends()), None, 0);
        check(&|to| to.spawn_required("leader", panics()), panicked, 1);
        check(&|to| to.spawn_required("leader", ends()), None, 0);
        check(&|to| to.spawn("connection", panics()), None, 1);
        check(&|to| to.spawn("connection", ends()), None, 0);
    }
}
