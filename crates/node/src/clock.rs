//! The clock that everything in a node goes by: the machine's, without its jumps.
//!
//! Comes from: the machine's clock. Decides: nothing, `rules::believed_time` does.
//! Goes to: leaders, readers, housekeeping and the API; a jump is logged and counted once.

use crate::meter::Meter;
use fantail_ports::clock::Clock;
use fantail_rules::believed_time::{BelievedTime, Jump, News};
use fantail_rules::ids::Millis;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::{info, warn};

pub struct BelievedClock {
    machine: Arc<dyn Clock>,
    meter: Arc<Meter>,
    time: Mutex<BelievedTime>,
}

impl BelievedClock {
    #[must_use]
    pub fn new(machine: Arc<dyn Clock>, meter: Arc<Meter>) -> Self {
        let time = Mutex::new(BelievedTime::new(machine.wall(), machine.monotonic()));
        Self { machine, meter, time }
    }

    /// How far off the machine's wall clock is now, if it is.
    #[must_use]
    pub fn jump(&self) -> Option<Jump> {
        self.read().1
    }

    fn read(&self) -> (Millis, Option<Jump>) {
        let mut time = self.time.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: of two readings, the later one comes second.
        let (now, news) = time.read(self.machine.wall(), self.machine.monotonic());
        let jump = time.jump();
        drop(time);
        match news {
            Some(News::Jumped(Jump { expected, wall })) => {
                self.meter.clock_jumped();
                warn!(%expected, %wall, "wall clock jumped, not adopted");
            }
            Some(News::CameBack) => info!(%now, "wall clock is as expected again"),
            None => {}
        }
        (now, jump)
    }
}

impl Clock for BelievedClock {
    fn wall(&self) -> Millis {
        self.read().0
    }

    fn monotonic(&self) -> Millis {
        self.machine.monotonic()
    }

    fn micros(&self) -> u64 {
        self.machine.micros()
    }
}
