//! Time as it passes, for tests that wait for answers that never come.

use fantail_ports::BoxFuture;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;

pub struct RealTime {
    began: Instant,
    handle: Handle,
}

#[expect(clippy::disallowed_methods, reason = "this is what stands behind the ports")]
impl RealTime {
    pub fn new(handle: Handle) -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), handle })
    }
}

#[expect(clippy::disallowed_methods, reason = "this is what stands behind the ports")]
impl Clock for RealTime {
    fn wall(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        Millis(u64::try_from(since.as_millis()).expect("not for ages"))
    }

    fn monotonic(&self) -> Millis {
        Millis(u64::try_from(self.began.elapsed().as_millis()).expect("not for ages") + 1)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is what stands behind the ports")]
impl Tasks for RealTime {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.handle.spawn(task);
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        let until = self.began + Duration::from_millis(deadline.0.min(1 << 40));
        Box::pin(tokio::time::sleep_until(until.into()))
    }
}
