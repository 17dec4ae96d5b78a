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
    poll_hook: Option<PollHook>,
}

/// For tests: called with the name of a loop or required task before each of its polls, and with the name of a thread when
/// it starts. A panic of the hook is a panic of that task. It answers whether it wants to be called again at once.
pub type PollHook = Arc<dyn Fn(&'static str) -> bool + Send + Sync>;

/// How many tasks of each name panicked.
#[derive(Default)]
struct Panics(Mutex<BTreeMap<&'static str, u64>>);

impl Panics {
    fn add(&self, name: &'static str, count: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += count;
    }
}

impl Supervisor {
    #[must_use]
    pub fn new(tasks: Arc<dyn Tasks>, stop: Arc<Stop>) -> Self {
        Self { tasks, stop, panics: Arc::default(), poll_hook: None }
    }

    #[must_use]
    pub fn with_poll_hook(self, hook: Option<PollHook>) -> Self {
        Self { poll_hook: hook, ..self }
    }

    /// Runs a loop. Its panic stops the node, and so does its end, unless `may_end` says that it was to end.
    pub fn spawn_loop(
        &self,
        name: &'static str,
        may_end: impl Fn() -> bool + Send + 'static,
        task: BoxFuture<'static, ()>,
    ) {
        let (supervisor, task) = (self.clone(), self.required(name, task));
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
        let (supervisor, task) = (self.clone(), self.required(name, task));
        let supervised = async move {
            caught(task, |panic| supervisor.fail(name, panic)).await.ok();
        };
        self.tasks.spawn(name, Box::pin(supervised));
    }

    /// The work of a thread whose panic stops the node.
    pub fn supervised_thread(
        &self,
        name: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        self.panics.add(name, 0);
        let supervisor = self.clone();
        move || {
            let hook = supervisor.poll_hook.clone();
            let hooked = || {
                if let Some(hook) = hook {
                    while hook(name) {
                        std::thread::yield_now();
                    }
                }
                work();
            };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(hooked)) {
                supervisor.fail(name, &message(&*panic));
            }
        }
    }

    /// Counts a task from now on, and has the hook of a test look at its polls.
    fn required(&self, name: &'static str, mut task: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        self.panics.add(name, 0);
        let Some(hook) = self.poll_hook.clone() else { return task };
        Box::pin(poll_fn(move |context| {
            if hook(name) {
                context.waker().wake_by_ref();
            }
            task.as_mut().poll(context)
        }))
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
        self.panics.add(name, 1);
        error!(task = name, panic, "a task panicked");
    }

    /// A thread or task that the node cannot do without has panicked.
    fn fail(&self, name: &'static str, panic: &str) {
        // In this order: once the log has it, readiness is red.
        self.stop.set(&format!("the task {name} panicked: {panic}"));
        self.count_panic(name, panic);
    }

    /// How many tasks of each name panicked since the start. Those that stop the node are listed with 0 before.
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
        let thread = |work: fn()| move |to: &Supervisor| to.supervised_thread("leader", work)();
        check(&thread(|| panic!("out of order")), panicked, 1);
        check(&thread(|| {}), None, 0);
    }

    // fixes: correctness A2
    #[test]
    fn a_test_can_panic_each_task_that_the_node_cannot_do_without() {
        let ends = || -> BoxFuture<'static, ()> { Box::pin(async {}) };
        let check = |spawn: &dyn Fn(&Supervisor), counted: &[(&'static str, u64)]| {
            let hook: PollHook = Arc::new(|name| panic!("a test wants {name} to panic"));
            let hooked = Supervisor::new(Arc::new(AtOnce), Arc::default()).with_poll_hook(Some(hook));
            spawn(&hooked);
            assert_eq!(hooked.panics(), counted);
            assert_eq!(hooked.stop.reason().is_some(), counted.iter().any(|(_, count)| *count > 0));
        };
        check(&|to| to.spawn_loop("leader", || true, ends()), &[("leader", 1)]);
        check(&|to| to.spawn_required("turn", ends()), &[("turn", 1)]);
        check(&|to| to.supervised_thread("snapshots", || {})(), &[("snapshots", 1)]);
        check(&|to| drop(to.supervised_thread("snapshots", || {})), &[("snapshots", 0)]);
        check(&|to| to.spawn("connection", ends()), &[]);
    }
}
