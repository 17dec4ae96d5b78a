//! A loop that gets a few turns a minute, however much it has to do.

use fantail_ports::BoxFuture;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

const SLOW_TASK: &str = "guard sweep";
const POLLS_PER_MINUTE: u32 = 8;
const MINUTE_MS: u64 = 60_000;

pub struct SlowSweep {
    pub tasks: Arc<dyn Tasks>,
    pub clock: Arc<dyn Clock>,
}

impl Tasks for SlowSweep {
    fn spawn(&self, name: &'static str, mut task: BoxFuture<'static, ()>) {
        if name != SLOW_TASK {
            return self.tasks.spawn(name, task);
        }
        let (tasks, clock) = (self.tasks.clone(), self.clock.clone());
        let (mut minute, mut polls) = (Millis(0), 0);
        let mut rest: Option<BoxFuture<'static, ()>> = None;
        let slow = poll_fn(move |context| {
            let now = clock.monotonic();
            if now.since(minute) >= MINUTE_MS {
                (minute, polls, rest) = (now, 0, None);
            }
            if polls < POLLS_PER_MINUTE {
                polls += 1;
                return task.as_mut().poll(context);
            }
            let rest = rest.get_or_insert_with(|| tasks.sleep_until(minute.plus(MINUTE_MS)));
            match rest.as_mut().poll(context) {
                Poll::Ready(()) => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                Poll::Pending => Poll::Pending,
            }
        });
        self.tasks.spawn(name, Box::pin(slow));
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        self.tasks.sleep_until(deadline)
    }
}
