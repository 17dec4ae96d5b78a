//! Sessions that wait for their next mail. They wait for less time than servers do, and one whose server went away
//! meanwhile is not used.

use super::limits::IDLE_MS_MAX;
use super::session::Session;
use fantail_outbound::pool::Ports;
use fantail_rules::ids::Millis;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct Idle {
    sessions: Mutex<Waiting>,
    ports: Ports,
    sessions_max: usize,
}

#[derive(Default)]
struct Waiting {
    /// The one that waits longest is first.
    sessions: VecDeque<Session>,
    /// Whether a task looks after those that wait too long.
    is_watched: bool,
}

impl Idle {
    pub fn new(sessions_max: usize, ports: Ports) -> Arc<Self> {
        Arc::new(Self { sessions: Mutex::default(), ports, sessions_max })
    }

    /// One that its server still listens to.
    pub async fn take(&self) -> Option<Session> {
        loop {
            let mut session = self.waiting().sessions.pop_back()?;
            let is_fresh = self.ports.clock.monotonic().since(session.idle_since) < IDLE_MS_MAX;
            if is_fresh && session.is_quiet().await {
                return Some(session);
            }
        }
    }

    pub fn put(self: &Arc<Self>, mut session: Session) {
        session.idle_since = self.ports.clock.monotonic();
        let mut waiting = self.waiting();
        if waiting.sessions.len() >= self.sessions_max {
            return;
        }
        waiting.sessions.push_back(session);
        if !std::mem::replace(&mut waiting.is_watched, true) {
            self.watch();
        }
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.waiting().sessions.len()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(self: &Arc<Self>) {
        let (idle, tasks) = (Arc::downgrade(self), Arc::clone(&self.ports.tasks));
        let mut until = self.ports.clock.monotonic().plus(IDLE_MS_MAX);
        self.ports.tasks.spawn(
            "smtp sessions",
            Box::pin(async move {
                loop {
                    tasks.sleep_until(until).await;
                    let Some(idle) = idle.upgrade() else { return };
                    let Some(next) = idle.retire() else { return };
                    until = next;
                }
            }),
        );
    }

    /// Closes those that wait too long. When to look again, if any are left.
    fn retire(&self) -> Option<Millis> {
        let now = self.ports.clock.monotonic();
        let mut waiting = self.waiting();
        let is_old = |session: &Session| now.since(session.idle_since) >= IDLE_MS_MAX;
        let old = waiting.sessions.iter().take_while(|session| is_old(session)).count();
        waiting.sessions.drain(..old);
        let next = waiting.sessions.front().map(|session| session.idle_since.plus(IDLE_MS_MAX));
        waiting.is_watched = next.is_some();
        next
    }
}
