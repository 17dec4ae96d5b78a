//! One connection of a client, as emulators and the control API see it.

use crate::frames::{Frames, Injection};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Notify;

pub struct Connection {
    pub number: u64,
    /// The name in TLS.
    pub server_name: Option<String>,
    proven: AtomicBool,
    calls: AtomicU64,
    /// Set for HTTP/2.
    pub(crate) frames: Arc<Frames>,
    /// What is announced once the client has proven who it is.
    streams_proven: u32,
    order: Mutex<Option<Order>>,
    ordered: Notify,
    /// Whom it called last.
    emulator: Mutex<Option<&'static str>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    GoAway(Bytes),
    Close,
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Connection({})", self.number)
    }
}

impl Connection {
    pub(crate) fn new(number: u64, server_name: Option<String>, streams_proven: u32) -> Self {
        Self {
            number,
            server_name,
            proven: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            frames: Arc::new(Frames::default()),
            streams_proven,
            order: Mutex::new(None),
            ordered: Notify::new(),
            emulator: Mutex::new(None),
        }
    }

    /// The client showed who it is: from now on it may open more streams.
    pub fn prove(&self) {
        if !self.proven.swap(true, Ordering::SeqCst) {
            self.frames.inject(Injection::Streams(self.streams_proven));
        }
    }

    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.proven.load(Ordering::SeqCst)
    }

    /// No more calls; those that were taken are still answered.
    pub fn go_away(&self, reason: Bytes) {
        self.give(Order::GoAway(reason));
    }

    /// At once, whatever is under way.
    pub fn close(&self) {
        self.give(Order::Close);
    }

    pub(crate) fn count_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The later order replaces an earlier one that nobody followed yet, but nothing replaces a close.
    fn give(&self, order: Order) {
        let mut given = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if *given != Some(Order::Close) {
            *given = Some(order);
        }
        drop(given);
        self.ordered.notify_one();
    }

    pub(crate) async fn next_order(&self) -> Order {
        loop {
            if let Some(order) = self.order.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return order;
            }
            self.ordered.notified().await;
        }
    }
}

/// All open connections by emulator, so that they can be told to go away.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, (&'static str, Weak<Connection>)>>,
}

impl Connections {
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A connection that serves several emulators belongs to the one it last called.
    pub fn belongs(&self, emulator: &'static str, connection: &Arc<Connection>) {
        let before = connection.emulator.lock().unwrap_or_else(PoisonError::into_inner).replace(emulator);
        if before == Some(emulator) {
            return;
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(connection.number, (emulator, Arc::downgrade(connection)));
    }

    pub fn ended(&self, number: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    pub fn of(&self, emulator: &str) -> Vec<Arc<Connection>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = open.values().filter(|(name, _)| *name == emulator);
        theirs.filter_map(|(_, connection)| connection.upgrade()).collect()
    }
}
