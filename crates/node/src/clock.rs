//! The clock that everything in a node goes by: the machine's, without its jumps.
//!
//! Comes from: the machine's clock. Decides: nothing, `rules::believed_time` does.
//! Goes to: leaders, readers, housekeeping and the API; a jump is logged and counted once.

use crate::meter::Meter;
use fantail_ports::clock::Clock;
use fantail_rules::believed_time::{BelievedTime, Jump, News, StartClock};
use fantail_rules::ids::Millis;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{error, info, warn};

const DAY_MS: u64 = 86_400_000;

/// The wall clock was too far ahead at start: what it would end may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    pub started_at: Millis,
    /// What the machine's clock shows.
    wall: Millis,
}

impl Hold {
    /// Whether something from before the start waits, because by the machine's clock it has expired and by the records it
    /// has not.
    #[must_use]
    pub fn keeps(&self, accepted_at: Millis, expires_at: Millis) -> bool {
        accepted_at <= self.started_at && expires_at <= self.wall
    }
}

pub struct BelievedClock {
    machine: Arc<dyn Clock>,
    meter: Arc<Meter>,
    time: Mutex<BelievedTime>,
}

impl BelievedClock {
    #[must_use]
    pub fn new(machine: Arc<dyn Clock>, meter: Arc<Meter>) -> Self {
        let time = Mutex::new(BelievedTime::new(machine.wall(), machine.steady()));
        Self { machine, meter, time }
    }

    /// How far off the machine's wall clock is now, if it is.
    #[must_use]
    pub fn jump(&self) -> Option<Jump> {
        self.read().1
    }

    /// Compares the machine's clock with the newest time that is known from before this start.
    pub fn start_after(&self, newest: Millis) -> StartClock {
        let found = self.time().start_after(newest, self.machine.wall(), self.machine.steady());
        match found {
            StartClock::AsExpected => {}
            StartClock::Behind { by_ms } => {
                self.meter.clock_jumped();
                warn!(behind_ms = by_ms, newest_record = %newest, "wall clock is behind the newest record");
            }
            StartClock::Held { by_ms } => {
                self.meter.clock_jumped();
                let days_ahead = by_ms / DAY_MS;
                error!(
                    days_ahead, newest_record = %newest,
                    "wall clock is too far ahead to be believed: nothing is released, expired or deleted before \
                     `fantail clock accept`"
                );
            }
        }
        found
    }

    /// An operator says that the machine's clock is right. Returns how far off it was.
    pub fn accept(&self) -> Option<Jump> {
        let accepted = self.time().accept(self.machine.wall(), self.machine.steady());
        if let Some(Jump { expected, wall }) = accepted {
            warn!(%expected, %wall, "wall clock adopted, as an operator said");
        }
        accepted
    }

    /// What is held while the clock at the start is not believed.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        self.read();
        let started_at = self.time().held_since()?;
        Some(Hold { started_at, wall: self.machine.wall() })
    }

    fn time(&self) -> MutexGuard<'_, BelievedTime> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> (Millis, Option<Jump>) {
        let mut time = self.time();
        // Read under the lock: of two readings, the later one comes second.
        let (now, news) = time.read(self.machine.wall(), self.machine.steady());
        let jump = time.jump();
        drop(time);
        match news {
            Some(News::Jumped(Jump { expected, wall })) => {
                self.meter.clock_jumped();
                warn!(%expected, %wall, "wall clock jumped, not adopted");
            }
            Some(News::Adopted(Jump { expected, wall })) => {
                warn!(%expected, %wall, "wall clock stayed ahead after a jump, adopted");
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

    fn steady(&self) -> Millis {
        self.machine.steady()
    }

    fn micros(&self) -> u64 {
        self.machine.micros()
    }

    fn worked_micros(&self) -> u64 {
        self.machine.worked_micros()
    }
}
