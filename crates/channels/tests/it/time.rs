//! Time that stands still until a test moves it, and tasks that run on tokio.

use fantail_memory::clock::ManualClock;
use fantail_ports::BoxFuture;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use std::future::pending;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;

pub const WALL: Millis = Millis(1_700_000_000_000);
pub const BEGAN: Millis = Millis(1_000);

pub struct Time {
    clock: ManualClock,
    now: watch::Sender<Millis>,
    /// Absent where nothing is spawned.
    handle: Option<Handle>,
}

impl Time {
    pub fn new(handle: Option<Handle>) -> Arc<Self> {
        Self::at(WALL, handle)
    }

    /// Stands still at another time, such as the one that a sandbox has.
    pub fn at(wall: Millis, handle: Option<Handle>) -> Arc<Self> {
        let clock = ManualClock::new(Millis(wall.0 - BEGAN.0));
        clock.advance(BEGAN.0);
        Arc::new(Self { clock, now: watch::Sender::new(BEGAN), handle })
    }

    pub fn advance(&self, span_ms: u64) {
        self.clock.advance(span_ms);
        self.now.send_replace(self.clock.monotonic());
    }
}

impl Clock for Time {
    fn wall(&self) -> Millis {
        self.clock.wall()
    }

    fn monotonic(&self) -> Millis {
        self.clock.monotonic()
    }
}

impl Tasks for Time {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.handle.as_ref().expect("this test spawns nothing").spawn(task);
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        let mut now = self.now.subscribe();
        Box::pin(async move {
            if now.wait_for(|now| *now >= deadline).await.is_err() {
                pending::<()>().await;
            }
        })
    }
}
