//! Time as it passes, and tasks on tokio, for senders that are driven without a server.

use fantail_outbound::connector::Connector;
use fantail_outbound::pool::Ports;
use fantail_ports::BoxFuture;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub fn ports() -> Ports {
    let time = Arc::new(System { began: Instant::now() });
    Ports { clock: time.clone(), tasks: time, connector: Connector::of_operator() }
}

struct System {
    began: Instant,
}

impl Clock for System {
    fn wall(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Millis {
        Millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

impl Tasks for System {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        let until = self.began + Duration::from_millis(deadline.0.min(1 << 40));
        Box::pin(tokio::time::sleep_until(until.into()))
    }
}
