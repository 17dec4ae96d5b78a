//! Key pairs made ahead: whoever encrypts takes one that is there, and a task fills up what was taken while there is time.
//!
//! What must never happen: a key pair that is given to two, more of them than the limit, or a task that keeps a thread for
//! long: it makes a few at a time.

use super::encrypt::Fresh;
use fantail_outbound::pool::Ports;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// About a kilobyte each, and as many as a few parcels take.
pub const KEYS_MAX: usize = 4_096;
/// Below this the task begins.
const KEYS_LOW: usize = KEYS_MAX / 2;
/// A tenth of a millisecond or two of work.
const KEYS_AT_ONCE: usize = 16;
/// Between two portions.
const PAUSE_MS: u64 = 1;

/// Cheap to clone.
#[derive(Clone)]
pub struct Reservoir {
    shared: Arc<Shared>,
}

struct Shared {
    ports: Ports,
    stock: Mutex<Stock>,
}

#[derive(Default)]
struct Stock {
    keys: Vec<Fresh>,
    is_filling: bool,
}

impl Reservoir {
    /// Begins empty, and is filled from the first one on that is taken.
    #[must_use]
    pub fn new(ports: Ports) -> Self {
        Self { shared: Arc::new(Shared { ports, stock: Mutex::default() }) }
    }

    /// One that nobody else gets; made at once if there is none.
    #[must_use]
    pub fn take(&self) -> Fresh {
        let (fresh, must_fill) = {
            let mut stock = self.shared.stock();
            let fresh = stock.keys.pop();
            let must_fill = stock.keys.len() < KEYS_LOW && !stock.is_filling;
            stock.is_filling |= must_fill;
            (fresh, must_fill)
        };
        if must_fill {
            let shared = Arc::clone(&self.shared);
            self.shared.ports.tasks.spawn("web push keys", Box::pin(async move { shared.fill().await }));
        }
        fresh.unwrap_or_else(Fresh::generate)
    }

    /// How many there are.
    #[must_use]
    pub fn stock(&self) -> usize {
        self.shared.stock().keys.len()
    }
}

impl Shared {
    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fill(&self) {
        let Ports { clock, tasks, .. } = &self.ports;
        while !self.add((0..KEYS_AT_ONCE).map(|_| Fresh::generate()).collect()) {
            tasks.sleep_until(clock.monotonic().plus(PAUSE_MS)).await;
        }
    }

    /// Whether there are enough now.
    fn add(&self, keys: Vec<Fresh>) -> bool {
        let mut stock = self.stock();
        stock.keys.extend(keys);
        let is_full = stock.keys.len() + KEYS_AT_ONCE > KEYS_MAX;
        stock.is_filling = !is_full;
        is_full
    }
}
