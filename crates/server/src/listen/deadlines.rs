//! The deadlines of one connection, judged by what changed between two looks at it.

use crate::config::Http;
use crate::listen::in_flight::{InFlight, Progress};
use std::time::Duration;

/// Why a connection is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// No request came in time.
    Silent,
    /// All requests were answered, and no other came.
    Idle,
    /// The peer does not read its responses.
    NotReading,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeadlineVerdict {
    Stay,
    /// Tell the peer, and let what is under way finish.
    Leave(EndReason),
    End(EndReason),
}

#[derive(Debug)]
pub struct Deadlines {
    step: Duration,
    write_timeout: Duration,
    idle_timeout: Duration,
    header_timeout: Duration,
    seen: Progress,
    silent_for: Duration,
    idle_for: Duration,
    not_reading_for: Duration,
    is_leaving: bool,
}

impl Deadlines {
    pub fn new(http: &Http) -> Self {
        Self {
            step: (http.write_timeout / 2).min(http.idle_timeout).min(http.header_timeout),
            write_timeout: http.write_timeout,
            idle_timeout: http.idle_timeout,
            header_timeout: http.header_timeout,
            seen: Progress::default(),
            silent_for: Duration::ZERO,
            idle_for: Duration::ZERO,
            not_reading_for: Duration::ZERO,
            is_leaving: false,
        }
    }

    /// The time between two looks.
    pub fn step(&self) -> Duration {
        self.step
    }

    /// Looks at the connection.
    pub fn look(&mut self, in_flight: &InFlight) -> DeadlineVerdict {
        let now = in_flight.progress();
        let before = std::mem::replace(&mut self.seen, now);
        if now.begun == 0 {
            self.silent_for += self.step;
            let is_silent = self.silent_for >= self.header_timeout;
            return if is_silent { DeadlineVerdict::End(EndReason::Silent) } else { DeadlineVerdict::Stay };
        }
        let waits_for_reader = in_flight.has_unwritten() && now.slices_released == before.slices_released
            || in_flight.is_write_blocked() && now.bytes_written == before.bytes_written;
        self.not_reading_for =
            if waits_for_reader { self.not_reading_for + self.step } else { Duration::ZERO };
        // When memory is short, one step must do: others wait for these bytes.
        let is_short = in_flight.budget().is_exhausted();
        if waits_for_reader && (is_short || self.not_reading_for >= self.write_timeout) {
            return DeadlineVerdict::End(EndReason::NotReading);
        }
        let is_idle = in_flight.is_idle() && now.begun == before.begun;
        self.idle_for = if is_idle { self.idle_for + self.step } else { Duration::ZERO };
        match self.idle_for.checked_sub(self.idle_timeout) {
            None => DeadlineVerdict::Stay,
            Some(_) if !self.is_leaving => {
                self.is_leaving = true;
                DeadlineVerdict::Leave(EndReason::Idle)
            }
            // It was told, and does not go.
            Some(since) if since >= self.header_timeout => DeadlineVerdict::End(EndReason::Idle),
            Some(_) => DeadlineVerdict::Stay,
        }
    }
}
