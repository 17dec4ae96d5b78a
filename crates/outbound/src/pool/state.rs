//! The books of a pool: which connections there are, what is under way on each, who waits, and whether another connection
//! is wanted. No IO; the time is given.
//!
//! What must never happen: more in flight on a connection than it may have, or a caller that waits while a place is free.

use super::Gauge;
use super::http1::Http1;
use super::lease::Lease;
use super::limits::{BACKOFF_MS_MAX, BACKOFF_MS_MIN, BUSY_MS, BUSY_PERCENT, Limits};
use super::streams::{End, Streams};
use super::{Failure, unsent};
use bytes::Bytes;
use fantail_ports::channel::Proof;
use fantail_rules::ids::Millis;
use h2::client::SendRequest;
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// One HTTP/2 connection.
pub struct Row {
    pub id: u64,
    pub sender: SendRequest<Bytes>,
    pub streams: Streams,
}

/// A place on a connection.
pub enum Way {
    Two { id: u64, sender: SendRequest<Bytes> },
    One(Box<Http1>),
}

/// The end of the line to a caller who waits.
pub struct Waiting(oneshot::Sender<Result<Lease, Failure>>);

impl Waiting {
    /// Gives it back if the caller went away.
    pub fn give(self, given: Result<Lease, Failure>) -> Result<(), Result<Lease, Failure>> {
        self.0.send(given)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    One,
    Two,
}

pub struct State {
    limits: Limits,
    rows: Vec<Row>,
    idle: Vec<(Millis, Box<Http1>)>,
    /// HTTP/1.1 connections, idle or in use.
    http1: usize,
    pub connecting: usize,
    /// As the last connection turned out.
    protocol: Option<Protocol>,
    pub waiting: VecDeque<Waiting>,
    next_id: u64,
    /// The window of the next connection: trouble is not forgotten with the connection that had it.
    next_window: usize,
    busy_since: Option<Millis>,
    failures: u32,
    rest_until: Option<Millis>,
    /// Why nobody could be connected to.
    last_error: String,
}

impl State {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            rows: Vec::new(),
            idle: Vec::new(),
            http1: 0,
            connecting: 0,
            protocol: None,
            waiting: VecDeque::new(),
            next_id: 0,
            next_window: limits.streams_max,
            busy_since: None,
            failures: 0,
            rest_until: None,
            last_error: String::new(),
        }
    }

    /// A place that is free, for a caller who has nobody before it.
    pub fn take(&mut self, now: Millis) -> Option<Way> {
        match self.has_waiting() {
            true => None,
            false => self.take_for_waiting(now),
        }
    }

    pub fn take_for_waiting(&mut self, now: Millis) -> Option<Way> {
        self.retire_old(now);
        let limits = &self.limits;
        if let Some(row) = self.rows.iter_mut().max_by_key(|row| row.streams.free(limits))
            && row.streams.free(limits) > 0
        {
            row.streams.in_flight += 1;
            let way = Way::Two { id: row.id, sender: row.sender.clone() };
            self.look_at_use(now);
            return Some(way);
        }
        while let Some((since, one)) = self.idle.pop() {
            if one.is_open() && now.0.saturating_sub(since.0) <= self.limits.http1_idle_ms_max {
                return Some(Way::One(one));
            }
            self.http1 -= 1;
        }
        None
    }

    /// Somebody waits, unless nothing is there and nothing may be opened yet.
    pub fn wait(&mut self, now: Millis) -> Result<oneshot::Receiver<Result<Lease, Failure>>, Failure> {
        if self.resting_ms(now).is_some() {
            return Err(self.resting());
        }
        if self.waiting.len() >= self.limits.waiting_max {
            self.waiting.retain(|waiting| !waiting.0.is_closed());
        }
        if self.waiting.len() >= self.limits.waiting_max {
            return Err(unsent(Proof::Unprocessed, "too many wait for a connection"));
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.push_back(Waiting(sender));
        Ok(receiver)
    }

    /// Whether somebody waits and still does.
    pub fn has_waiting(&mut self) -> bool {
        while self.waiting.front().is_some_and(|waiting| waiting.0.is_closed()) {
            self.waiting.pop_front();
        }
        !self.waiting.is_empty()
    }

    /// How many connections should be opened now.
    pub fn wanted(&mut self, now: Millis) -> usize {
        if self.rest_until.is_some_and(|until| now < until) {
            return 0;
        }
        let waiting = self.waiting.len();
        match self.protocol {
            Some(Protocol::One) => {
                let room = self.limits.http1_connections_max.saturating_sub(self.http1 + self.connecting);
                waiting.saturating_sub(self.connecting).min(room)
            }
            Some(Protocol::Two) | None => {
                let is_grown = self.open_rows().all(|row| row.streams.is_grown(&self.limits));
                let is_busy = self.busy_since.is_some_and(|since| now.0 >= since.0 + BUSY_MS);
                let open = self.open_rows().count();
                let has_room = open < self.limits.http2_connections_max;
                let is_wanted = waiting > 0 || (is_busy && open > 0);
                usize::from(self.connecting == 0 && has_room && is_wanted && is_grown)
            }
        }
    }

    pub fn add_http2(&mut self, sender: SendRequest<Bytes>, now: Millis) -> u64 {
        self.protocol = Some(Protocol::Two);
        self.next_id += 1;
        let streams = Streams::new(now, self.next_window, &self.limits);
        self.rows.push(Row { id: self.next_id, sender, streams });
        self.busy_since = None;
        self.next_id
    }

    pub fn add_http1(&mut self, one: Box<Http1>, now: Millis) {
        self.protocol = Some(Protocol::One);
        self.next_id += 1;
        self.http1 += 1;
        self.connection_works();
        self.idle.push((now, one));
    }

    /// No connection was made. Those who wait hear of it, unless another connection serves them.
    pub fn not_connected(&mut self, now: Millis, message: &str) {
        self.failed(now);
        self.last_error = message.to_owned();
        if self.is_alone() {
            self.dismiss(&unsent(Proof::NoConnection, message));
        }
    }

    pub fn put_back(&mut self, one: Box<Http1>, now: Millis) {
        self.idle.push((now, one));
    }

    pub fn http1_ended(&mut self) {
        self.http1 -= 1;
    }

    /// What the connection now allows.
    pub fn adjust(&mut self, id: u64, server_max: usize, is_stalled: bool) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.id == id) {
            row.streams.server_max = server_max;
            row.streams.is_stalled = is_stalled;
        }
    }

    pub fn ended(&mut self, id: u64, end: End, now: Millis) {
        let Some(row) = self.rows.iter_mut().find(|row| row.id == id) else { return };
        let goes_on = row.streams.ended(end, now, &self.limits);
        row.streams.is_closing |= !goes_on;
        let window = row.streams.window;
        match end {
            End::Answered | End::Refused => {
                self.next_window = self.next_window.max(window);
                self.connection_works();
            }
            End::TimedOut | End::Reset | End::Gone => self.next_window = window,
            End::CalledOff => {}
        }
        self.forget_closed(now);
    }

    /// The connection takes nothing more. What is under way on it goes on, for as long as it does.
    pub fn close(&mut self, id: u64, now: Millis) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.id == id) {
            row.streams.is_closing = true;
        }
        self.forget_closed(now);
    }

    fn forget_closed(&mut self, now: Millis) {
        let is_over = |row: &Row| row.streams.is_closing && row.streams.in_flight == 0;
        while let Some(at) = self.rows.iter().position(is_over) {
            let row = self.rows.swap_remove(at);
            // Whoever lets us connect and then never answers is not connected to again at once, if it was the same before.
            if !row.streams.has_answered {
                match self.failures {
                    0 => self.failures = 1,
                    1.. => self.failed(now),
                }
            }
        }
    }

    /// Only if nobody can be served, now or soon: those who wait go.
    pub fn dismiss_if_resting(&mut self, now: Millis) {
        if self.resting_ms(now).is_some() {
            self.dismiss(&self.resting());
        }
    }

    pub fn gauge(&self) -> Gauge {
        let streams = || self.rows.iter().map(|row| &row.streams);
        Gauge {
            connections: self.open_rows().count() + self.http1,
            opened: self.next_id,
            in_flight: streams().map(|row| row.in_flight).sum::<usize>() + self.http1 - self.idle.len(),
            waiting: self.waiting.len(),
            permits: streams().map(|row| row.permits(&self.limits)).sum::<usize>() + self.http1,
        }
    }

    fn connection_works(&mut self) {
        self.failures = 0;
        self.rest_until = None;
        self.last_error.clear();
    }

    fn failed(&mut self, now: Millis) {
        let rest_ms = BACKOFF_MS_MIN << self.failures.min(16);
        self.failures += 1;
        self.rest_until = Some(now.plus(rest_ms.min(BACKOFF_MS_MAX)));
    }

    fn resting(&self) -> Failure {
        let last = if self.last_error.is_empty() { "no connection lasts" } else { &self.last_error };
        unsent(Proof::NoConnection, &format!("tried a moment ago: {last}"))
    }

    fn resting_ms(&self, now: Millis) -> Option<u64> {
        let until = self.rest_until.filter(|until| self.is_alone() && now < *until)?;
        Some(until.0 - now.0)
    }

    fn dismiss(&mut self, failure: &Failure) {
        for waiting in self.waiting.drain(..) {
            // Whoever went away needs no answer.
            drop(waiting.give(Err(failure.clone())));
        }
    }

    fn retire_old(&mut self, now: Millis) {
        for row in &mut self.rows {
            row.streams.is_closing |= row.streams.is_old(now, &self.limits);
        }
        self.forget_closed(now);
    }

    fn open_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.streams.is_closing)
    }

    /// There is no connection, and none is on its way.
    fn is_alone(&self) -> bool {
        self.open_rows().next().is_none() && self.http1 == 0 && self.connecting == 0
    }

    fn look_at_use(&mut self, now: Millis) {
        let Gauge { in_flight, permits, .. } = self.gauge();
        match in_flight * 100 > permits * BUSY_PERCENT {
            true => self.busy_since = Some(self.busy_since.unwrap_or(now)),
            false => self.busy_since = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        http2_connections_max: 2,
        http1_connections_max: 2,
        streams_max: 100,
        warm_up: true,
        http1_idle_ms_max: 4_000,
        ping_every_ms: 30_000,
        pong_within_ms: 10_000,
        age_ms_max: 3_600_000,
        connect_ms_max: 10_000,
        waiting_max: 10,
    };
    const NOW: Millis = Millis(5_000);

    #[test]
    fn failed_connections_are_followed_by_longer_and_longer_rests() {
        let mut state = State::new(LIMITS);
        for rest_ms in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000] {
            assert_eq!(state.resting_ms(NOW), None);
            state.not_connected(NOW, "refused");
            assert_eq!(state.resting_ms(NOW), Some(rest_ms));
            assert!(state.wait(NOW).is_err());
            assert_eq!(state.wanted(NOW), 0);
            state.rest_until = None;
        }
        state.failures = 60;
        state.failed(NOW);
        assert_eq!(state.resting_ms(NOW), Some(10_000));
    }

    #[test]
    fn callers_who_wait_are_counted() {
        let mut state = State::new(LIMITS);
        let waiting: Vec<_> = (0..10).map(|_| state.wait(NOW).expect("room")).collect();
        let full = unsent(Proof::Unprocessed, "too many wait for a connection");
        assert_eq!(state.wait(NOW).err(), Some(full));
        assert_eq!(state.wanted(NOW), 1, "one connection, to see what it is");
        drop(waiting);
        assert!(state.wait(NOW).is_ok(), "who went away makes room");
        assert_eq!(state.waiting.len(), 1);
    }
}
