//! One account in use: its client, and the pace at which it is asked.
//!
//! Comes from: `accounts`, with a part of a shipment. Decides: how much of it may begin, by `rules::pacing`; what does not begin
//! within a moment is put off until there is room. Goes to: the provider's client, and back with every answer.
//!
//! What must never happen: an account that rests, is slow or is dead and keeps others waiting; a permit that is lost.

use super::client::{Client, Usual};
use crate::part;
use fantail_ports::accounts::Account;
use fantail_ports::channel::{Answer, Proof, Report, Scope, Shipment};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use fantail_rules::outlook::Speed;
use fantail_rules::pacing::{Call, Concurrency, News, Pace, Rate, Signal};
use fantail_rules::priority::Priority;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tracing::{info, warn};

/// How long something waits for room before it is put off.
const WAIT_MS: u64 = 250;
/// Nothing is put off for longer at once: what is slow may become fast.
const PUT_OFF_MS_MAX: u64 = 60_000;
/// An account whose settings or credentials cannot be used is tried again after this.
const UNUSABLE_MS: u64 = 60_000;

pub struct Way {
    pub account: Account,
    /// Why there is none: the settings cannot be used.
    pub client: Result<Arc<dyn Client>, String>,
    state: Mutex<State>,
    /// Told when a call ends.
    room: Notify,
    clock: Arc<dyn Clock>,
    tasks: Arc<dyn Tasks>,
}

struct State {
    pace: Pace,
    speed: Speed,
    in_flight: u32,
    /// The time at which the last one that was put off may come back.
    put_off: Millis,
    counts: Counts,
}

/// What came of calls, since the account was last changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub works: u64,
    pub rests: u64,
    pub fails: u64,
}

/// How an account is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// What apps have to know of its credentials, if anything.
    pub public_key: Option<String>,
    pub in_flight: u32,
    pub is_resting: bool,
    pub is_usable: bool,
    pub counts: Counts,
}

impl Way {
    pub fn new(
        account: Account,
        client: Result<Arc<dyn Client>, String>,
        clock: Arc<dyn Clock>,
        tasks: Arc<dyn Tasks>,
    ) -> Self {
        let now = clock.monotonic();
        let usual = client.as_ref().map_or(UNUSED, |client| client.usual());
        let rate = account.per_second.map_or(usual.rate, |per_second| Rate { per_second, burst: per_second });
        let mut concurrency = usual.concurrency;
        if let Some(most) = account.concurrency {
            concurrency.ceiling = most.max(1);
            concurrency.start = concurrency.start.min(concurrency.ceiling);
        }
        let pace = Pace::new(rate, concurrency, now);
        let (speed, in_flight, counts) = (Speed::default(), 0, Counts::default());
        let state = Mutex::new(State { pace, speed, in_flight, put_off: now, counts });
        Self { account, client, state, room: Notify::new(), clock, tasks }
    }

    pub fn standing(&self) -> Standing {
        let (now, state) = (self.clock.monotonic(), self.state());
        let public_key = self.client.as_ref().ok().and_then(|client| client.public_key());
        Standing {
            public_key: public_key.map(str::to_owned),
            in_flight: state.in_flight,
            is_resting: state.pace.rests(now),
            is_usable: self.client.is_ok(),
            counts: state.counts,
        }
    }

    /// Sends the messages at these places. Gives back what it certainly did not take, each with what it said about it.
    pub async fn ask(
        &self,
        shipment: &Shipment,
        places: &[usize],
        report: &Report<'_>,
    ) -> Vec<(usize, Answer)> {
        let client = match &self.client {
            Ok(client) => client,
            Err(reason) => return places.iter().map(|place| (*place, unusable(reason))).collect(),
        };
        let refused = Mutex::new(Vec::new());
        let until = self.patience(shipment);
        let mut left = places;
        let mut parts = FuturesUnordered::new();
        while !left.is_empty() {
            let granted = self.take(left.len());
            let (part, rest) = left.split_at(granted);
            left = rest;
            if !part.is_empty() {
                parts.push(self.send(&**client, shipment, part, (report, &refused)));
            } else if self.is_resting() || self.clock.monotonic() >= until {
                break;
            } else {
                tokio::select! {
                    Some(()) = parts.next() => {}
                    () = self.room_until(until) => {}
                }
            }
        }
        let put_off = self.put_off(left);
        while parts.next().await.is_some() {}
        drop(parts);
        let refused = refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        refused.into_iter().chain(put_off).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_resting(&self) -> bool {
        self.state().pace.rests(self.clock.monotonic())
    }

    /// How many of so many may begin now.
    fn take(&self, wanted: usize) -> usize {
        let mut state = self.state();
        let granted = state.pace.permits(self.clock.monotonic(), u32::try_from(wanted).unwrap_or(u32::MAX));
        state.in_flight += granted;
        granted as usize
    }

    /// Until when something waits for room: what is critical as long as it may begin at all.
    fn patience(&self, shipment: &Shipment) -> Millis {
        match shipment.lane {
            Priority::Critical => shipment.deadline,
            Priority::High | Priority::Normal | Priority::Low => {
                self.clock.monotonic().plus(WAIT_MS).min(shipment.deadline)
            }
        }
    }

    /// Until a call ends, or there may be room for another reason, or the time is over.
    async fn room_until(&self, until: Millis) {
        let now = self.clock.monotonic();
        let ready_at = self.state().pace.ready_at(now).unwrap_or(until);
        let wakes_at = ready_at.max(now.plus(1)).min(until);
        tokio::select! {
            () = self.room.notified() => {}
            () = self.tasks.sleep_until(wakes_at) => {}
        }
    }

    async fn send(
        &self,
        client: &dyn Client,
        shipment: &Shipment,
        places: &[usize],
        (report, refused): (&Report<'_>, &Mutex<Vec<(usize, Answer)>>),
    ) {
        let began = self.clock.monotonic();
        let under_way = UnderWay { way: self, began, left: Mutex::new(places.len() as u32) };
        let told = |place: usize, answer: Answer| {
            // A client that paces its projects or origins for itself says nothing about the account by one of them.
            under_way.ended(match answer.signal() {
                Signal::Rest { .. } | Signal::Fails if client.paces_hosts() => Signal::Nothing,
                signal => signal,
            });
            if answer.was_not_taken() {
                refused.lock().unwrap_or_else(PoisonError::into_inner).push((place, answer));
            } else {
                report(place, self.named(answer));
            }
        };
        part::send(client, shipment, places, &told).await;
    }

    fn ended(&self, call: Call) {
        let now = self.clock.monotonic();
        let mut state = self.state();
        let rested = state.pace.rests(now);
        let news = state.pace.ended(now, call);
        state.in_flight = state.in_flight.saturating_sub(1);
        match call.signal {
            Signal::Works => {
                state.counts.works += 1;
                state.speed.add(now, 1);
            }
            Signal::Rest { .. } => state.counts.rests += 1,
            Signal::Fails => state.counts.fails += 1,
            Signal::Nothing => {}
        }
        let rests_now = !rested && state.pace.rests(now);
        drop(state);
        self.room.notify_waiters();
        let Account { id, tenant, .. } = &self.account;
        match news {
            Some(News::Opened { until }) => {
                warn!(provider = id, %tenant, %until, "a provider does not work and is left alone");
            }
            Some(News::Closed) => info!(provider = id, %tenant, "a provider works again"),
            None if rests_now => info!(provider = id, %tenant, "a provider wants a rest"),
            None => {}
        }
    }

    /// One after the other, at the pace that the account has had lately.
    fn put_off(&self, places: &[usize]) -> Vec<(usize, Answer)> {
        if places.is_empty() {
            return Vec::new();
        }
        let now = self.clock.monotonic();
        let mut state = self.state();
        let ready_at = state.pace.ready_at(now).unwrap_or(now).max(now.plus(WAIT_MS));
        let per_second = state.speed.per_second(now).max(1);
        let begins = state.put_off.max(ready_at);
        let latest = now.plus(PUT_OFF_MS_MAX).max(ready_at);
        let at = |no: u64| begins.plus(no.saturating_mul(1_000) / per_second).min(latest);
        state.put_off = at(places.len() as u64);
        let answer = |(no, place): (usize, &usize)| {
            let proof = Proof::Resting { after_ms: at(no as u64).since(now) };
            (*place, Answer::NotSent { proof, message: "the provider's account has no room".to_owned() })
        };
        places.iter().enumerate().map(answer).collect()
    }

    /// The same answer, with the name of the account that gave it.
    fn named(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Accepted { provider_id } => {
                let own = provider_id.map_or_else(String::new, |id| format!(":{id}"));
                Answer::Accepted { provider_id: Some(format!("{}{own}", self.account.id)) }
            }
            other => other,
        }
    }
}

/// Calls that have begun; those that are dropped give their permits back.
struct UnderWay<'a> {
    way: &'a Way,
    began: Millis,
    left: Mutex<u32>,
}

impl UnderWay<'_> {
    fn ended(&self, signal: Signal) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        // A client that tells one message twice ends one call.
        if *left > 0 {
            *left -= 1;
            drop(left);
            self.way.ended(Call { began: self.began, signal });
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        (0..left).for_each(|_| self.way.ended(Call { began: self.began, signal: Signal::Nothing }));
    }
}

/// Nothing is sent without a client; its pace is never asked.
const UNUSED: Usual =
    Usual { rate: Rate { per_second: 1, burst: 1 }, concurrency: Concurrency { start: 1, ceiling: 1 } };

fn unusable(reason: &str) -> Answer {
    Answer::Later {
        after_ms: Some(UNUSABLE_MS),
        scope: Scope::Credential,
        code: "account_unusable".to_owned(),
        message: reason.to_owned(),
    }
}
