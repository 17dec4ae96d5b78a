//! Both channels pass the suite of the port.

use super::house::{Everywhere, House, endpoint};
use super::nobody::Nobody;
use super::time::Time;
use fantail_channels::stub::{Settings, Stub};
use fantail_conformance::channel::{Behaviour, Rig, channel_suite};
use fantail_ports::BoxFuture;
use fantail_ports::channel::Channel;
use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An endpoint of the stub that behaves like this.
pub fn at_stub(behaviour: Behaviour) -> Vec<u8> {
    let text: &[u8] = match behaviour {
        Behaviour::Takes => b"stub:ok",
        Behaviour::SaysLater => b"stub:429=1",
        Behaviour::Refuses => b"stub:dead",
        Behaviour::IsUnreachable => b"stub:refused",
        Behaviour::TakesAndFallsSilent => b"stub:timeout",
    };
    text.to_vec()
}

struct StubRig {
    stub: Stub,
    time: Arc<Time>,
}

impl Rig for StubRig {
    fn channel(&self) -> &dyn Channel {
        &self.stub
    }

    fn now(&self) -> Millis {
        self.time.monotonic()
    }

    fn endpoint(&self, behaviour: Behaviour) -> Vec<u8> {
        at_stub(behaviour)
    }

    fn copies(&self, reference: &str) -> usize {
        self.stub.copies(reference) as usize
    }
}

#[test]
fn stub_conforms() {
    channel_suite(|| {
        let time = Time::new(None);
        let stub = Stub::open(&Settings::recording(), time.clone(), time.clone()).expect("a stub");
        StubRig { stub, time }
    });
}

struct WebhookRig {
    house: House,
    unreachable: Nobody,
    hosts: AtomicUsize,
}

impl Rig for WebhookRig {
    fn channel(&self) -> &dyn Channel {
        &*self.house.hook
    }

    fn now(&self) -> Millis {
        self.house.time.monotonic()
    }

    fn endpoint(&self, behaviour: Behaviour) -> Vec<u8> {
        // Each on a host of its own: what one of them says is no other's rest.
        let host = format!("h{}.example.org", self.hosts.fetch_add(1, Ordering::Relaxed));
        let url = match behaviour {
            Behaviour::Takes => self.house.url_at(&host, "/status/204"),
            Behaviour::SaysLater => self.house.url_at(&host, "/status/429"),
            Behaviour::Refuses => self.house.url_at(&host, "/status/410"),
            Behaviour::IsUnreachable => {
                format!("http://{host}:{}/", self.unreachable.port())
            }
            Behaviour::TakesAndFallsSilent => self.house.url_at(&host, "/reset"),
        };
        endpoint(&url)
    }

    fn copies(&self, reference: &str) -> usize {
        let is_taken = |path: &str| path == "/status/204" || path == "/reset";
        let seen = self.house.sink.seen();
        seen.iter().filter(|seen| seen.reference() == reference && is_taken(&seen.path)).count()
    }

    fn wait(&self, future: BoxFuture<'_, ()>) {
        self.house.runtime.block_on(future);
    }
}

#[test]
fn webhook_conforms() {
    channel_suite(|| {
        let unreachable = Nobody::new();
        let target = format!("127.0.0.1:{}", unreachable.port());
        let house = House::open_to(&[target], None, Arc::new(Everywhere), |_| ());
        WebhookRig { house, unreachable, hosts: AtomicUsize::new(0) }
    });
}
