//! Several providers of one channel, in an order: whatever one of them certainly did not take, the next one is asked to.
//!
//! Comes from: the dispatcher, a parcel at a time. Does: sends by the first provider that is well; what comes back with proof
//! that it was not taken goes to the next one inside the same attempt. A provider that fails again and again, or wants a rest,
//! is left alone for a while, and then probed. Goes to: one answer for each message, with the name of who took it.
//!
//! What must never happen: a second provider for a message that the first one may have. What is unknown stays unknown:
//! whether it is sent again is for whoever wrote the attempt down, by the class of the message.

use crate::part;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Report, Shipment};
use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use fantail_rules::limits::PAUSE_MS_DEFAULT;
use fantail_rules::pacing::{Breaker, Call, News, Pause, Signal};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::warn;

pub struct Failover {
    clock: Arc<dyn Clock>,
    /// In the order in which they are asked.
    ways: Vec<Way>,
}

/// One provider.
struct Way {
    name: String,
    channel: Arc<dyn Channel>,
    health: Mutex<Health>,
}

struct Health {
    breaker: Breaker,
    pause: Pause,
}

impl Failover {
    /// Names are told to whoever asks what became of a delivery.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, providers: Vec<(String, Arc<dyn Channel>)>) -> Self {
        let now = clock.monotonic();
        let way = |(name, channel)| Way {
            name,
            channel,
            health: Mutex::new(Health { breaker: Breaker::new(now), pause: Pause::default() }),
        };
        Self { ways: providers.into_iter().map(way).collect(), clock }
    }

    async fn ask_all(&self, shipment: &Shipment, report: &Report<'_>) {
        let mut left: Vec<usize> = (0..shipment.messages.len()).collect();
        let mut refusals: BTreeMap<usize, Answer> = BTreeMap::new();
        for (no, way) in self.ways.iter().enumerate() {
            let now = self.clock.monotonic();
            if now > shipment.deadline {
                // Nobody else is asked for what was refused in time.
                left.retain(|place| !refusals.contains_key(place));
            }
            // The last one is asked in any case: whether the channel rests is for the dispatcher to say.
            let is_last = no + 1 == self.ways.len();
            let allowed = if is_last { left.len() } else { way.enter(now, left.len()) };
            let others = left.split_off(allowed);
            let refused = way.ask(shipment, &left, report, &*self.clock).await;
            left.iter().for_each(|place| drop(refusals.remove(place)));
            left = refused.iter().map(|(place, _)| *place).chain(others).collect();
            left.sort_unstable();
            refusals.extend(refused);
        }
        refusals.into_iter().for_each(|(place, refusal)| report(place, refusal));
    }
}

impl Channel for Failover {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(self.ask_all(shipment, report))
    }

    fn paces_hosts(&self) -> bool {
        self.ways.iter().any(|way| way.channel.paces_hosts())
    }
}

impl Way {
    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many of so many messages may be given to it.
    fn enter(&self, now: Millis, wanted: usize) -> usize {
        let mut health = self.health();
        if health.pause.until(now).is_some() {
            return 0;
        }
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        health.breaker.take(now, wanted) as usize
    }

    fn ended(&self, now: Millis, call: Call) {
        let mut health = self.health();
        match call.signal {
            Signal::Rest { after_ms } => drop(health.pause.rest(now, after_ms.unwrap_or(PAUSE_MS_DEFAULT))),
            Signal::Nothing => health.breaker.put_back(1),
            Signal::Works | Signal::Fails => {}
        }
        let news = health.breaker.ended(now, call);
        drop(health);
        if let Some(News::Opened { .. }) = news {
            warn!(provider = self.name, "a provider does not work: others are asked");
        }
    }

    /// Sends the messages at these places, and gives back what it certainly did not take.
    async fn ask(
        &self,
        shipment: &Shipment,
        places: &[usize],
        report: &Report<'_>,
        clock: &dyn Clock,
    ) -> Vec<(usize, Answer)> {
        if places.is_empty() {
            return Vec::new();
        }
        let began = clock.monotonic();
        let refused = Mutex::new(Vec::new());
        let told = |place: usize, answer: Answer| {
            self.ended(clock.monotonic(), Call { began, signal: answer.signal() });
            if answer.was_not_taken() {
                refused.lock().unwrap_or_else(PoisonError::into_inner).push((place, answer));
            } else {
                report(place, self.named(answer));
            }
        };
        part::send(&*self.channel, shipment, places, &told).await;
        refused.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same answer, with the name of who gave it.
    fn named(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Accepted { provider_id } => {
                let own = provider_id.map_or_else(String::new, |id| format!(":{id}"));
                Answer::Accepted { provider_id: Some(format!("{}{own}", self.name)) }
            }
            other => other,
        }
    }
}
