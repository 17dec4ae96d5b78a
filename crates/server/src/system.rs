//! Time, chance and concurrency of the real machine.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use fantail_ports::BoxFuture;
use fantail_ports::clock::Clock;
use fantail_ports::entropy::Entropy;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;

/// The operating system's clocks.
pub struct SystemClock {
    began: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { began: Instant::now() }
    }
}

impl SystemClock {
    /// When [`Clock::monotonic`] is this.
    #[must_use]
    pub fn instant(&self, at: Millis) -> Instant {
        self.began + Duration::from_millis(at.0)
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Millis {
        Millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    #[cfg(target_os = "linux")]
    fn steady(&self) -> Millis {
        let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(since.tv_sec).unwrap_or_default();
        Millis(seconds * 1_000 + u64::try_from(since.tv_nsec / 1_000_000).unwrap_or_default())
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    #[cfg(target_os = "linux")]
    fn worked_micros(&self) -> u64 {
        let worked = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let seconds = u64::try_from(worked.tv_sec).unwrap_or_default();
        seconds * 1_000_000 + u64::try_from(worked.tv_nsec / 1_000).unwrap_or_default()
    }
}

/// The operating system's randomness.
pub struct SystemEntropy(SystemRandom);

impl Default for SystemEntropy {
    fn default() -> Self {
        Self(SystemRandom::new())
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.fill(bytes).expect("without randomness no key and no id may be made");
    }
}

/// Tokio, with the same clock that `sleep_until` is about.
pub struct SystemTasks {
    pub handle: Handle,
    pub clock: std::sync::Arc<SystemClock>,
}

impl Tasks for SystemTasks {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.handle.spawn(task);
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        let deadline = self.clock.instant(deadline);
        Box::pin(async move { tokio::time::sleep_until(deadline.into()).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn clocks_agree_with_each_other() {
        let clock = SystemClock::default();
        let first = clock.micros();
        assert!(clock.monotonic().0 <= clock.micros() / 1_000);
        assert!(clock.micros() >= first);
        let steady = clock.steady();
        assert!(clock.steady() >= steady);
        assert!(clock.wall() > Millis(1_700_000_000_000));
    }

    #[test]
    fn sleeping_reaches_the_deadline() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let clock = Arc::new(SystemClock::default());
        let tasks = SystemTasks { handle: runtime.handle().clone(), clock: clock.clone() };
        let deadline = clock.monotonic().plus(3);
        runtime.block_on(tasks.sleep_until(deadline));
        assert!(clock.monotonic() >= deadline);
    }

    #[test]
    fn draws_differ() {
        let entropy = SystemEntropy::default();
        assert_ne!(entropy.random_u128(), entropy.random_u128());
    }
}
