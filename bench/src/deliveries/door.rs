//! Where the provider takes messages in.

use super::DEVICES;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Channel, Report, Shipment};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the provider of a paced drain takes in a second.
const PACED_PER_SECOND: u64 = 100_000;

/// The stub behind a door: it counts what comes one by one, and may let only so much of the rest in.
pub struct Door {
    stub: Arc<dyn Channel>,
    /// Messages that came one by one, and all of them.
    pub arrived: AtomicU64,
    pub taken: AtomicU64,
    pub is_paced: AtomicBool,
    /// When the provider has done what it was given.
    free_at: Mutex<Instant>,
}

impl Door {
    pub fn new(stub: Arc<dyn Channel>) -> Self {
        Self {
            stub,
            arrived: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            is_paced: AtomicBool::new(false),
            free_at: Mutex::new(Instant::now()),
        }
    }

    /// When these messages may go in.
    fn turn(&self, messages: usize) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = (*free_at).max(Instant::now());
        *free_at = begins + Duration::from_secs(1) * messages as u32 / PACED_PER_SECOND as u32;
        begins
    }
}

impl Channel for Door {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        self.taken.fetch_add(shipment.messages.len() as u64, Ordering::Relaxed);
        if shipment.messages.len() as u64 == DEVICES {
            self.arrived.fetch_add(DEVICES, Ordering::Relaxed);
            return self.stub.send(shipment, report);
        }
        if !self.is_paced.load(Ordering::Relaxed) {
            return self.stub.send(shipment, report);
        }
        Box::pin(async move {
            tokio::time::sleep_until(self.turn(shipment.messages.len()).into()).await;
            self.stub.send(shipment, report).await;
        })
    }
}
