//! The sender of one account: its client, and the pace at which it is asked.
//!
//! Input: from `accounts`, a part of a shipment. Each message begins when there is room (`room`); a message for which there
//! is none in time is put off. Output: the answers of the provider's client, and what it certainly did not take.
//!
//! Invariant: an account that rests, is slow or is dead holds up no other; no permit is lost.

use super::client::{Client, Usual};
use super::room::{Counts, Ended, Room, RoomUse};
use crate::part;
use fantail_ports::accounts::Account;
use fantail_ports::channel::{Answer, Proof, Report, Scope, Shipment};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use fantail_rules::pacing::{Call, Concurrency, News, Pace, Rate, Signal};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tracing::{info, warn};

/// An account whose settings or credentials cannot be used is tried again after this.
const UNUSABLE_MS: u64 = 60_000;

pub struct AccountSender {
    pub account: Account,
    /// Why there is none: the settings cannot be used.
    pub client: Result<Arc<dyn Client>, String>,
    room: Room,
    clock: Arc<dyn Clock>,
}

/// How an account is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// What apps have to know of its credentials, if anything.
    pub public_key: Option<String>,
    pub in_flight: u32,
    /// Messages that wait for room.
    pub waiting: usize,
    pub is_resting: bool,
    pub is_usable: bool,
    pub counts: Counts,
}

impl AccountSender {
    pub fn new(
        account: Account,
        client: Result<Arc<dyn Client>, String>,
        clock: Arc<dyn Clock>,
        tasks: Arc<dyn Tasks>,
    ) -> Self {
        let usual = client.as_ref().map_or(UNUSED, |client| client.usual());
        let rate = account.per_second.map_or(usual.rate, |per_second| Rate { per_second, burst: per_second });
        let mut concurrency = usual.concurrency;
        if let Some(most) = account.concurrency {
            concurrency.ceiling = most.max(1);
            concurrency.start = concurrency.start.min(concurrency.ceiling);
        }
        let pace = Pace::new(rate, concurrency, clock.monotonic());
        let room = Room::new(pace, clock.clone(), tasks);
        Self { account, client, room, clock }
    }

    pub fn standing(&self) -> Standing {
        let RoomUse { in_flight, waiting, is_resting, counts } = self.room.usage();
        let public_key = self.client.as_ref().ok().and_then(|client| client.public_key());
        Standing {
            public_key: public_key.map(str::to_owned),
            in_flight,
            waiting,
            is_resting,
            is_usable: self.client.is_ok(),
            counts,
        }
    }

    /// How many messages may be under way or wait here; `None` if it takes none now, however few there are.
    pub fn places(&self) -> Option<u32> {
        self.client.as_ref().ok().and_then(|_| self.room.places())
    }

    /// How long a message would wait here behind so many others, in microseconds.
    pub fn wait_us(&self, ahead: u64) -> u64 {
        if self.client.is_ok() { self.room.wait_us(ahead) } else { u64::MAX }
    }

    /// Sends the messages at these places. What it certainly did not take goes to `refuse`, each with what it said about it.
    pub async fn ask(
        &self,
        shipment: &Shipment,
        (places, no_room): (&[usize], NoRoom),
        report: &Report<'_>,
        refuse: &Report<'_>,
    ) {
        let client = match &self.client {
            Ok(client) => &**client,
            Err(reason) => return places.iter().for_each(|place| refuse(*place, unusable(reason))),
        };
        let tell = Tell { report, refuse };
        let (begun, mut parts) = mpsc::unbounded_channel::<Range<usize>>();
        let entering = async {
            let mut from = 0;
            let begin = |granted: usize| {
                let part = from..from + granted;
                from = part.end;
                // The other end lives as long as this future.
                drop(begun.send(part));
            };
            self.room.enter(places.len(), shipment.lane, shipment.deadline, begin).await
        };
        let mut entering = pin!(entering);
        let mut has_entered = false;
        let mut sending = FuturesUnordered::new();
        let mut next = None;
        loop {
            while let Some(part) = next.take().or_else(|| parts.try_recv().ok()) {
                let began = self.clock.monotonic();
                sending.push(self.send(client, shipment, (&places[part], began), tell));
            }
            if has_entered && sending.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                not_begun = &mut entering, if !has_entered => {
                    has_entered = true;
                    let left = &places[places.len() - not_begun..];
                    match no_room {
                        NoRoom::GoesOn => left.iter().for_each(|place| refuse(*place, not_here())),
                        NoRoom::ComesBack => self.put_off(left, refuse),
                    }
                }
                part = parts.recv(), if !has_entered => next = part,
                Some(()) = sending.next() => {}
            }
        }
    }

    async fn send(
        &self,
        client: &dyn Client,
        shipment: &Shipment,
        (places, began): (&[usize], Millis),
        tell: Tell<'_>,
    ) {
        let under_way = UnderWay { sender: self, began, left: Mutex::new(places.len() as u32) };
        let told = |place: usize, answer: Answer| {
            // A client that paces its projects or origins for itself says nothing about the account by one of them.
            under_way.ended(match answer.signal() {
                Signal::Rest { .. } | Signal::Fails if client.paces_hosts() => Signal::Nothing,
                signal => signal,
            });
            if answer.was_not_taken() {
                (tell.refuse)(place, answer);
            } else {
                (tell.report)(place, self.named(answer));
            }
        };
        part::send(client, shipment, places, &told).await;
    }

    fn ended(&self, call: Call) {
        let Ended { news, rests_now } = self.room.ended(call);
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

    /// Each comes back when it is its turn, at the account's own rate.
    fn put_off(&self, places: &[usize], refuse: &Report<'_>) {
        if places.is_empty() {
            return;
        }
        let is_resting = self.room.usage().is_resting;
        for (place, after_ms) in places.iter().zip(self.room.put_off(places.len())) {
            let (proof, message) = match is_resting {
                true => (Proof::Resting { after_ms }, "the provider's account is left alone"),
                false => (Proof::NoRoom { after_ms }, "the provider's account has no room"),
            };
            refuse(*place, Answer::NotSent { proof, message: message.to_owned() });
        }
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

/// The fate of a message for which there is no room.
#[derive(Clone, Copy)]
pub enum NoRoom {
    /// Another account is asked: it takes no slot here.
    GoesOn,
    ComesBack,
}

/// Where answers go: those of the provider, and those of what it did not take.
#[derive(Clone, Copy)]
struct Tell<'a> {
    report: &'a Report<'a>,
    refuse: &'a Report<'a>,
}

/// Calls that have begun; those that are dropped give their permits back.
struct UnderWay<'a> {
    sender: &'a AccountSender,
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
            self.sender.ended(Call { began: self.began, signal });
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        (0..left).for_each(|_| self.sender.ended(Call { began: self.began, signal: Signal::Nothing }));
    }
}

/// Nothing is sent without a client; its pace is never asked.
const UNUSED: Usual =
    Usual { rate: Rate { per_second: 1, burst: 1 }, concurrency: Concurrency { start: 1, ceiling: 1 } };

fn not_here() -> Answer {
    let message = "the provider's account has no room".to_owned();
    Answer::NotSent { proof: Proof::NoRoom { after_ms: 0 }, message }
}

fn unusable(reason: &str) -> Answer {
    Answer::Later {
        after_ms: Some(UNUSABLE_MS),
        scope: Scope::Credential,
        code: "account_unusable".to_owned(),
        message: reason.to_owned(),
    }
}
