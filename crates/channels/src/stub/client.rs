//! The stub as a channel. Messages that take no time are answered in one go; those that do are answered in the order in
//! which they are due, all waiting at once.
//!
//! What must never happen: an allocation per message on the way of `stub:ok`, for a fan-out is measured against it; time
//! that passes other than through the ports, for the simulator runs it.

use super::answer::{Reaction, reaction};
use super::control::Control;
use super::payload::{Wish, wish};
use super::record::Record;
use super::settings::{Faults, Settings};
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Proof, Report, Shipment};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct Stub {
    clock: Arc<dyn Clock>,
    tasks: Arc<dyn Tasks>,
    faults: Mutex<Faults>,
    control: Option<Control>,
    record: Record,
}

impl Stub {
    /// Fails only if the file of arrivals cannot be opened.
    pub fn open(settings: &Settings, clock: Arc<dyn Clock>, tasks: Arc<dyn Tasks>) -> io::Result<Self> {
        let (control, record) = (settings.control.clone(), Record::open(settings)?);
        Ok(Self { clock, tasks, faults: Mutex::default(), control, record })
    }

    pub fn set_faults(&self, faults: Faults) {
        *self.lock_faults() = faults;
    }

    /// Those of the file, if there is one, stand above those that were set.
    #[must_use]
    pub fn faults(&self) -> Faults {
        match &self.control {
            Some(control) => control.read(),
            None => *self.lock_faults(),
        }
    }

    /// How many copies of a delivery have arrived, if the stub counts.
    #[must_use]
    pub fn copies(&self, reference: &str) -> u32 {
        self.record.copies(reference)
    }

    /// Everything that has arrived, with the number of its copies.
    #[must_use]
    pub fn arrivals(&self) -> BTreeMap<String, u32> {
        self.record.all()
    }

    fn lock_faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All bytes of a shipment leave here, at one moment; only answers take time.
    fn start(&self, shipment: &Shipment, report: &Report<'_>) -> Vec<Waiting> {
        let faults = self.faults();
        let now = self.clock.monotonic();
        let plain = faults == Faults::default() && self.record.is_off();
        let mut waiting = Vec::new();
        for (index, message) in shipment.messages.iter().enumerate() {
            let wish = wish(&message.endpoint);
            if now > shipment.deadline {
                report(index, too_late());
            } else if plain && wish == Some(Wish::Ok) {
                report(index, Answer::Accepted { provider_id: None });
            } else {
                let Reaction { wait_ms, answer, .. } = self.react(wish, &faults, shipment, message);
                match wait_ms {
                    0 => report(index, answer),
                    _ => waiting.push(Waiting { due: now.plus(wait_ms), index, answer }),
                }
            }
        }
        waiting
    }

    fn react(&self, wish: Option<Wish>, faults: &Faults, shipment: &Shipment, message: &Message) -> Reaction {
        let mut reaction = reaction(wish, faults, &message.reference, message.attempt);
        if reaction.arrives
            && let Err(error) = self.record.arrived(shipment, message)
        {
            let message = format!("arrived, but the record failed: {error}");
            reaction.answer = Answer::Unknown { code: "record".into(), message };
        }
        reaction
    }
}

impl Channel for Stub {
    /// What one endpoint wishes says nothing about the others; only a fault of the whole provider does.
    fn paces_hosts(&self) -> bool {
        self.faults() == Faults::default()
    }

    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut waiting = self.start(shipment, report);
            waiting.sort_by_key(|waiting| waiting.due);
            for Waiting { due, index, answer } in waiting {
                self.tasks.sleep_until(due).await;
                report(index, answer);
            }
        })
    }
}

/// An answer on its way.
struct Waiting {
    due: Millis,
    index: usize,
    answer: Answer,
}

fn too_late() -> Answer {
    Answer::NotSent { proof: Proof::Deadline, message: "the deadline passed before the first byte".into() }
}
