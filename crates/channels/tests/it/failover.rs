//! Several providers of one channel: who is asked, who is left alone, and what is never sent twice.

use super::conform::at_stub;
use super::parcel::{message, send, shipment, told};
use super::time::Time;
use fantail_channels::failover::Failover;
use fantail_channels::stub::{Faults, Settings, Stub};
use fantail_conformance::block_on;
use fantail_conformance::channel::{Behaviour, Rig, channel_suite};
use fantail_ports::channel::{Answer, Channel, Shipment};
use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use std::sync::Arc;

const DOWN: Faults = Faults { down: true, slow_ms: 0, fail_percent: 0, malformed_percent: 0 };

struct House {
    time: Arc<Time>,
    first: Arc<Stub>,
    second: Arc<Stub>,
    both: Failover,
}

impl House {
    fn new() -> Self {
        let time = Time::new(None);
        let stub = || {
            let stub = Stub::open(&Settings::recording(), time.clone(), time.clone());
            Arc::new(stub.expect("a stub"))
        };
        let (first, second) = (stub(), stub());
        let providers: Vec<(String, Arc<dyn Channel>)> =
            vec![("first".into(), first.clone()), ("second".into(), second.clone())];
        let both = Failover::new(time.clone(), providers);
        Self { time, first, second, both }
    }

    fn post(&self, endpoints: &[&str]) -> Vec<Answer> {
        let messages = endpoints.iter().map(|endpoint| message(endpoint, endpoint.as_bytes())).collect();
        let deadline = self.time.monotonic().plus(10_000);
        block_on(send(&self.both, &Shipment { deadline, ..shipment(messages) }))
    }

    /// Copies at the first and at the second.
    fn copies(&self, reference: &str) -> (u32, u32) {
        (self.first.copies(reference), self.second.copies(reference))
    }
}

fn by(name: &str) -> Answer {
    Answer::Accepted { provider_id: Some(name.to_owned()) }
}

// proves: DEL-17
#[test]
fn what_was_not_taken_goes_to_the_next_one_and_nothing_else_does() {
    let house = House::new();
    assert_eq!(house.post(&["stub:ok"]), [by("first")]);
    house.first.set_faults(DOWN);
    assert_eq!(house.post(&["stub:ok/a", "stub:ok/b"]), [by("second"), by("second")]);
    assert_eq!(house.copies("stub:ok/a"), (0, 1));
    let house = House::new();
    let endpoints = ["stub:timeout", "stub:lost", "stub:dead", "stub:malformed", "stub:unwanted", "stub:ok"];
    let answers = house.post(&endpoints);
    assert_eq!(answers.len(), endpoints.len());
    for endpoint in endpoints {
        assert_eq!(house.second.copies(endpoint), 0, "{endpoint} is not for another one to try");
    }
    assert_eq!(house.copies("stub:timeout"), (1, 0), "who may have it is the only one who was asked");
}

// proves: DEL-17, DEL-04
#[test]
fn who_fails_again_and_again_is_left_alone_and_probed_later() {
    let house = House::new();
    house.first.set_faults(Faults { fail_percent: 100, ..Faults::default() });
    for no in 0..40 {
        assert_eq!(house.post(&[&format!("stub:ok/{no}")]), [by("second")]);
    }
    // Well again, and not yet trusted.
    house.first.set_faults(Faults::default());
    assert_eq!(house.post(&["stub:ok/x"]), [by("second")]);
    house.time.advance(10 * 60 * 1_000);
    assert_eq!(house.post(&["stub:ok/y"]), [by("first")]);
}

// proves: DEL-17
#[test]
fn if_nobody_takes_it_the_last_one_says_why() {
    let house = House::new();
    house.first.set_faults(Faults { fail_percent: 100, ..Faults::default() });
    house.second.set_faults(DOWN);
    let answers: Vec<String> = house.post(&["stub:ok"]).iter().map(told).collect();
    assert_eq!(answers, ["later None Origin 503"]);
    house.second.set_faults(Faults::default());
    assert_eq!(house.post(&["stub:ok"]), [by("second")]);
}

impl Rig for House {
    fn channel(&self) -> &dyn Channel {
        &self.both
    }

    fn now(&self) -> Millis {
        self.time.monotonic()
    }

    fn endpoint(&self, behaviour: Behaviour) -> Vec<u8> {
        at_stub(behaviour)
    }

    fn copies(&self, reference: &str) -> usize {
        let (first, second) = House::copies(self, reference);
        (first + second) as usize
    }
}

#[test]
fn several_providers_conform() {
    channel_suite(House::new);
}
