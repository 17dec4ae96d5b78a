//! Connections that wait for their next message, bounded for each origin and altogether, and closed when they have
//! waited for long.
//!
//! Every one leads to an address that was judged when it was opened. They are kept by origin: looking up the name again
//! to find its connection would cost more than the message, and the short idle time lets a moved name be followed.

use super::connect::Connection;
use super::settings::Settings;
use super::url::Origin;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct Pool {
    clock: Arc<dyn Clock>,
    tasks: Arc<dyn Tasks>,
    per_origin_max: usize,
    connections_max: usize,
    idle_ms_max: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Oldest first. No origin without connections.
    origins: BTreeMap<Origin, Vec<Idle>>,
    count: usize,
    /// Whether a task is there that closes what has waited for long.
    is_swept: bool,
}

struct Idle {
    connection: Connection,
    expires: Millis,
}

impl Pool {
    pub fn new(settings: &Settings, clock: Arc<dyn Clock>, tasks: Arc<dyn Tasks>) -> Self {
        Self {
            clock,
            tasks,
            per_origin_max: settings.host_concurrency_max,
            connections_max: settings.idle_connections_max,
            idle_ms_max: settings.idle_ms_max,
            state: Mutex::default(),
        }
    }

    /// The connection that was used last, so that the others can expire.
    pub fn take(&self, origin: &Origin) -> Option<Connection> {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        loop {
            let waiting = state.origins.get_mut(origin)?;
            let idle = waiting.pop();
            if waiting.is_empty() {
                state.origins.remove(origin);
            }
            let Idle { connection, expires } = idle?;
            state.count -= 1;
            if now < expires && connection.sender.is_ready() {
                return Some(connection);
            }
        }
    }

    /// Drops the connection, which closes it, where there is no room.
    pub fn put(self: &Arc<Self>, origin: Origin, connection: Connection) {
        let expires = self.clock.monotonic().plus(self.idle_ms_max);
        let mut state = self.lock();
        if state.count >= self.connections_max {
            return;
        }
        let waiting = state.origins.entry(origin).or_default();
        if waiting.len() >= self.per_origin_max {
            return;
        }
        waiting.push(Idle { connection, expires });
        state.count += 1;
        if !std::mem::replace(&mut state.is_swept, true) {
            drop(state);
            let pool = Arc::clone(self);
            self.tasks.spawn("webhook pool", Box::pin(async move { pool.sweep_until_empty().await }));
        }
    }

    /// How many connections wait that can still be used.
    pub fn idle(&self) -> usize {
        let state = self.lock();
        state.origins.values().flatten().filter(|idle| idle.connection.sender.is_ready()).count()
    }

    async fn sweep_until_empty(&self) {
        while let Some(next) = self.sweep() {
            self.tasks.sleep_until(next).await;
        }
    }

    /// Closes what has waited for long or was closed by its peer; says when to look again, `None` if nothing is left.
    fn sweep(&self) -> Option<Millis> {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        for waiting in state.origins.values_mut() {
            waiting.retain(|idle| now < idle.expires && !idle.connection.sender.is_closed());
        }
        state.origins.retain(|_, waiting| !waiting.is_empty());
        state.count = state.origins.values().map(Vec::len).sum();
        let next = state.origins.values().flatten().map(|idle| idle.expires).min();
        state.is_swept = next.is_some();
        next
    }

    /// Every critical section leaves the state whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
