//! Every panic of the process is logged and counted, wherever it happens: also those of requests and of threads that
//! nobody waits for.

use std::panic;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use tracing::error;

static PANICS: AtomicU64 = AtomicU64::new(0);

/// From now on.
pub fn count() {
    panic::set_hook(Box::new(|panicked| {
        PANICS.fetch_add(1, Relaxed);
        let place = panicked.location().map(ToString::to_string).unwrap_or_default();
        let payload = panicked.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        error!(thread = thread::current().name(), place, panic = text, "panicked");
    }));
}

/// How many there were.
#[must_use]
pub fn counted() -> u64 {
    PANICS.load(Relaxed)
}
