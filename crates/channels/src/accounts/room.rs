//! The room of one account: who may begin now, who waits for it, and when the others come back.
//!
//! Input: messages that want to begin, and calls that end. Output: permits by `rules::pacing`. Only as many messages wait as
//! can begin in time; the others get a slot at the account's own rate and come back for it.
//!
//! Invariant: a message that waits begins as soon as there is room; critical ones go first. No permit is lost.

use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use fantail_rules::pacing::{Call, News, Pace, Signal, Slots};
use fantail_rules::priority::Priority;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, Semaphore};

/// A message that begins at the very deadline would miss it: this part of the time is left for its connection.
const RESERVED_MS: u64 = 500;
/// An account that rests without saying until when is asked again after this.
const ASK_AGAIN_MS: u64 = 250;
/// So far ahead is planned, so that there is always a message when a place becomes free.
const AHEAD_MS: u64 = 500;

pub struct Room {
    state: Mutex<RoomState>,
    /// Notified when a call ends or a line becomes shorter.
    freed: Notify,
    /// In each line one shipment at a time waits for room, in the order in which they came.
    fronts: [Semaphore; 2],
    clock: Arc<dyn Clock>,
    tasks: Arc<dyn Tasks>,
}

struct RoomState {
    pace: Pace,
    slots: Slots,
    in_flight: u32,
    /// Messages in each line.
    waiting: [usize; 2],
    /// The same by the time at which they give up.
    gives_up: BTreeMap<Millis, usize>,
    counts: Counts,
}

/// What came of calls, since the account was last changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub works: u64,
    pub rests: u64,
    pub fails: u64,
    /// Messages that found no room and came back later.
    pub put_off: u64,
}

/// How much is under way and waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoomUse {
    pub in_flight: u32,
    pub waiting: usize,
    pub is_resting: bool,
    pub counts: Counts,
}

/// What ending a call changed.
pub struct Ended {
    pub news: Option<News>,
    /// The account rests from now on.
    pub rests_now: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Critical,
    Others,
}

impl Line {
    fn of(lane: Priority) -> Self {
        match lane {
            Priority::Critical => Self::Critical,
            Priority::High | Priority::Normal | Priority::Low => Self::Others,
        }
    }
}

impl Room {
    pub fn new(pace: Pace, clock: Arc<dyn Clock>, tasks: Arc<dyn Tasks>) -> Self {
        let (slots, gives_up, counts) = (Slots::default(), BTreeMap::new(), Counts::default());
        let state = Mutex::new(RoomState { pace, slots, in_flight: 0, waiting: [0; 2], gives_up, counts });
        let fronts = [Semaphore::new(1), Semaphore::new(1)];
        Self { state, freed: Notify::new(), fronts, clock, tasks }
    }

    pub fn usage(&self) -> RoomUse {
        let (now, state) = (self.clock.monotonic(), self.state());
        RoomUse {
            in_flight: state.in_flight,
            waiting: state.waiting.iter().sum(),
            is_resting: state.pace.rests(now),
            counts: state.counts,
        }
    }

    /// How many messages may be under way or wait here; `None` while the account rests.
    pub fn places(&self) -> Option<u32> {
        let (now, state) = (self.clock.monotonic(), self.state());
        if state.pace.rests(now) {
            return None;
        }
        let more = u32::try_from(state.pace.startable(now, AHEAD_MS).max(1)).unwrap_or(u32::MAX);
        Some(state.in_flight.saturating_add(more))
    }

    /// How long a message would wait for room behind those that wait here and so many others, in microseconds. A rest is
    /// longer than any wait.
    pub fn wait_us(&self, ahead: u64) -> u64 {
        let (now, state) = (self.clock.monotonic(), self.state());
        if state.pace.rests(now) {
            return u64::MAX;
        }
        let waiting = state.waiting.iter().sum::<usize>() as u64;
        let behind = (waiting + ahead + 1).saturating_sub(state.pace.startable(now, 0));
        behind.saturating_mul(state.pace.interval_us(now))
    }

    /// Calls `begin` with how many messages may begin, whenever some may, until all have begun or it is too late. Returns
    /// how many have not.
    pub async fn enter(
        &self,
        wanted: usize,
        lane: Priority,
        deadline: Millis,
        mut begin: impl FnMut(usize),
    ) -> usize {
        let line = Line::of(lane);
        let granted = self.enter_at_once(line, wanted);
        if granted > 0 {
            begin(granted);
        }
        if granted == wanted || self.is_resting() {
            return wanted - granted;
        }
        let until = Millis(deadline.0.saturating_sub(RESERVED_MS));
        let mut queued = self.line_up(line, wanted - granted, until);
        let mut begun = granted;
        if queued.left == 0 {
            return wanted - begun;
        }
        let front = self.before(until, self.fronts[line as usize].acquire()).await;
        let Some(Ok(_front)) = front else { return wanted - begun };
        while queued.left > 0 {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            let granted = queued.enter();
            if granted > 0 {
                begin(granted);
                begun += granted;
                continue;
            }
            queued.keep_those_in_time();
            let now = self.clock.monotonic();
            if queued.left == 0 || now >= until || self.is_resting() {
                break;
            }
            let ready_at = self.state().pace.ready_at(now).unwrap_or(until);
            self.before(ready_at.max(now.plus(1)).min(until), freed).await;
        }
        wanted - begun
    }

    /// After how long each of so many messages comes back.
    pub fn put_off(&self, count: usize) -> Vec<u64> {
        let now = self.clock.monotonic();
        let mut state = self.state();
        let interval_us = state.pace.interval_us(now);
        // Those that still wait here go first.
        let waiting = state.gives_up.range(now.plus(1)..).map(|(_, count)| *count as u64).sum::<u64>();
        let (rest_ms, room_at) = match state.pace.rests(now) {
            true => {
                let ends = state.pace.ready_at(now).unwrap_or(now).max(now.plus(ASK_AGAIN_MS));
                (ends.since(now), ends)
            }
            false => (0, now.plus(waiting.saturating_mul(interval_us) / 1_000)),
        };
        state.counts.put_off += count as u64;
        (0..count).map(|_| state.slots.book(now, room_at, interval_us).max(rest_ms)).collect()
    }

    /// A call has ended, or one that was permitted never began.
    pub fn ended(&self, call: Call) -> Ended {
        let now = self.clock.monotonic();
        let mut state = self.state();
        let rested = state.pace.rests(now);
        let news = state.pace.ended(now, call);
        state.in_flight = state.in_flight.saturating_sub(1);
        match call.signal {
            Signal::Works => state.counts.works += 1,
            Signal::Rest { .. } => state.counts.rests += 1,
            Signal::Fails => state.counts.fails += 1,
            Signal::Nothing => {}
        }
        let rests_now = !rested && state.pace.rests(now);
        drop(state);
        self.freed.notify_waiters();
        Ended { news, rests_now }
    }

    fn state(&self) -> MutexGuard<'_, RoomState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_resting(&self) -> bool {
        self.state().pace.rests(self.clock.monotonic())
    }

    /// Whoever comes anew goes behind those that wait.
    fn enter_at_once(&self, line: Line, wanted: usize) -> usize {
        let mut state = self.state();
        if state.waiting[line as usize] > 0 {
            return 0;
        }
        state.enter(self.clock.monotonic(), line, wanted)
    }

    fn line_up(&self, line: Line, wanted: usize, until: Millis) -> Queued<'_> {
        let now = self.clock.monotonic();
        let mut state = self.state();
        let ahead = state.waiting.iter().sum();
        let left = match line {
            Line::Critical => wanted,
            Line::Others => wanted.min(state.in_time(now, until).saturating_sub(ahead)),
        };
        state.waiting[line as usize] += left;
        *state.gives_up.entry(until).or_default() += left;
        Queued { room: self, line, until, left }
    }

    /// What comes of it, unless it is too late before.
    async fn before<F: Future>(&self, until: Millis, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.tasks.sleep_until(until) => None,
        }
    }
}

impl RoomState {
    fn enter(&mut self, now: Millis, line: Line, wanted: usize) -> usize {
        if line == Line::Others && self.waiting[Line::Critical as usize] > 0 {
            return 0;
        }
        let granted = self.pace.permits(now, u32::try_from(wanted).unwrap_or(u32::MAX));
        self.in_flight += granted;
        granted as usize
    }

    /// So many messages wait no longer.
    fn leave(&mut self, line: Line, until: Millis, count: usize) {
        self.waiting[line as usize] -= count;
        if let Some(left) = self.gives_up.get_mut(&until) {
            *left = left.saturating_sub(count);
            if *left == 0 {
                self.gives_up.remove(&until);
            }
        }
    }

    /// How many messages can begin until then.
    fn in_time(&self, now: Millis, until: Millis) -> usize {
        usize::try_from(self.pace.startable(now, until.since(now))).unwrap_or(usize::MAX)
    }
}

/// Messages of one shipment that wait in a line. They leave it when this is dropped.
struct Queued<'a> {
    room: &'a Room,
    line: Line,
    /// When they give up.
    until: Millis,
    left: usize,
}

impl Queued<'_> {
    fn enter(&mut self) -> usize {
        let mut state = self.room.state();
        let granted = state.enter(self.room.clock.monotonic(), self.line, self.left);
        state.leave(self.line, self.until, granted);
        self.left -= granted;
        granted
    }

    /// At the front: those that cannot begin in time leave the line at once.
    fn keep_those_in_time(&mut self) {
        if self.line == Line::Critical {
            return;
        }
        let mut state = self.room.state();
        let kept = self.left.min(state.in_time(self.room.clock.monotonic(), self.until));
        state.leave(self.line, self.until, self.left - kept);
        self.left = kept;
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.room.state().leave(self.line, self.until, self.left);
        // The other line may have waited for this one.
        self.room.freed.notify_waiters();
    }
}
