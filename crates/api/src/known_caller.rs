//! Whether the peer of a connection has shown a key that is good. The listener puts it into the extensions of each request, and works on
//! connections of strangers and of known callers in lines of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Debug, Default)]
pub struct KnownCaller(Arc<AtomicBool>);

impl KnownCaller {
    /// A key was good, now or earlier on this connection.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
