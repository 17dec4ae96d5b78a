//! What all emulators share, and the way of one call through it.
//!
//! Comes from: a connection, as a whole request. Does: finds the emulator, draws a fate, asks the emulator. Goes to: the
//! connection, which sends the answer and marks the arrival as answered.

use crate::authority::Authority;
use crate::clock::Clock;
use crate::connection::{Connection, Connections};
use crate::emulator::{Answer, Call, Emulator, Reply};
use crate::faults::{Deed, Fate, Faults};
use crate::hosts;
use crate::record::{Arrival, Record, Ticket};
use bytes::Bytes;
use hyper::http::StatusCode;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_rustls::TlsAcceptor;

/// What emulators are made with.
#[derive(Clone)]
pub struct World(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub clock: Clock,
    pub faults: Faults,
    pub record: Record,
    pub authority: Arc<Authority>,
    /// For HTTP.
    pub tls: TlsAcceptor,
    /// For protocols that begin TLS themselves; no application protocol is offered.
    pub tls_plain: TlsAcceptor,
    pub connections: Connections,
    pub places: OnceLock<Places>,
}

/// Where everything listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// All emulators over HTTP, told apart by name.
    pub shared: SocketAddr,
    pub control: SocketAddr,
    /// One for each emulator.
    pub own: BTreeMap<&'static str, SocketAddr>,
}

impl World {
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    #[must_use]
    pub fn record(&self) -> &Record {
        &self.0.record
    }

    /// Keeps what arrived; the ticket belongs into the reply.
    pub fn arrived(&self, arrival: Arrival) -> Ticket {
        self.0.record.add(arrival)
    }

    /// For STARTTLS.
    #[must_use]
    pub fn tls_plain(&self) -> &TlsAcceptor {
        &self.0.tls_plain
    }

    #[must_use]
    pub fn authority(&self) -> &Arc<Authority> {
        &self.0.authority
    }

    /// Once everything listens; emulators are called only then.
    #[must_use]
    pub fn places(&self) -> Option<&Places> {
        self.0.places.get()
    }

    /// By the clock of this emulator.
    #[must_use]
    pub fn now_ms(&self, emulator: &str) -> u64 {
        self.0.clock.now_ms().saturating_add_signed(self.0.faults.profile(emulator).clock_skew_ms)
    }
}

/// The emulators that a listener serves.
#[derive(Clone)]
pub(crate) struct Site {
    pub world: World,
    pub emulators: Arc<Vec<Arc<dyn Emulator>>>,
    /// Whom this port belongs to; `None` for the shared one.
    pub own: Option<Arc<dyn Emulator>>,
}

impl Site {
    /// By the port, otherwise by the name.
    pub fn by_name(&self, host: &str) -> Option<&Arc<dyn Emulator>> {
        if self.own.is_some() {
            return self.own.as_ref();
        }
        let knows =
            |emulator: &&Arc<dyn Emulator>| emulator.hosts().iter().any(|known| hosts::matches(known, host));
        self.emulators.iter().find(knows)
    }

    /// By the port, the name, or the first part of the path, which is then taken off.
    pub fn choose(&self, call: &mut Call) -> Option<Arc<dyn Emulator>> {
        if let Some(emulator) = self.by_name(&call.host) {
            return Some(Arc::clone(emulator));
        }
        let first = call.path.strip_prefix('/')?.split('/').next().unwrap_or_default();
        let emulator = self.emulators.iter().find(|emulator| emulator.name() == first)?;
        call.path = call.path[1 + first.len()..].to_owned();
        Some(Arc::clone(emulator))
    }

    /// What becomes of a call whose head is there. The body is read only then: a slow reader reads slowly.
    pub async fn begin(&self, call: &mut Call) -> Result<Begun, Reply> {
        let Some(emulator) = self.choose(call) else { return Err(self.nobody(call)) };
        call.now_ms = self.world.now_ms(emulator.name());
        self.world.0.connections.belongs(emulator.name(), &call.connection);
        let fate = self.world.faults().next(emulator.name(), emulator.message_id(call).as_deref());
        pause(fate.slow_read_ms).await;
        Ok(Begun { emulator, fate })
    }

    pub async fn finish(&self, Begun { emulator, fate }: Begun, call: &Call) -> Answer {
        let answer = match &fate.deed {
            Deed::BlackHole => Answer::Silence,
            Deed::Error(kind) => fault(&*emulator, kind, call).into(),
            Deed::Answer => self.ask(&*emulator, call).await,
            Deed::LoseConnection => lose(self.ask(&*emulator, call).await, Answer::CloseConnection),
            Deed::LoseAnswer => lose(self.ask(&*emulator, call).await, Answer::Silence),
            Deed::GatewayTimeout => lose(self.ask(&*emulator, call).await, gateway_timeout().into()),
        };
        pause(fate.delay_ms + reply_delay_ms(&answer)).await;
        self.go_away_in_time(&*emulator, &call.connection, answer)
    }

    async fn ask(&self, emulator: &dyn Emulator, call: &Call) -> Answer {
        let key = emulator.quota_key(call);
        let over = key.and_then(|key| self.world.faults().over_quota(emulator.name(), &key, call.now_ms));
        match over {
            Some(wait_ms) => emulator
                .fault("quota", call, Some(wait_ms))
                .unwrap_or_else(|| Reply::new(StatusCode::TOO_MANY_REQUESTS))
                .into(),
            None => emulator.answer(call).await,
        }
    }

    fn go_away_in_time(&self, emulator: &dyn Emulator, connection: &Connection, answer: Answer) -> Answer {
        let calls = connection.count_call();
        let every = self.world.faults().profile(emulator.name()).go_away_every;
        match (answer, every) {
            (Answer::Reply(reply), Some(every)) if calls == every => {
                let reason = emulator.go_away_reason(self.world.now_ms(emulator.name()));
                Answer::ReplyThenGoAway { reply, reason }
            }
            (answer, _) => answer,
        }
    }

    fn nobody(&self, call: &Call) -> Reply {
        let hosts: Vec<&str> = self.emulators.iter().flat_map(|emulator| emulator.hosts()).copied().collect();
        let names: Vec<&str> = self.emulators.iter().map(|emulator| emulator.name()).collect();
        let detail = json!({
            "title": "no emulator has this name",
            "detail": "use one of these hosts, or put the emulator's name first in the path",
            "host": call.host, "hosts": hosts, "paths": names,
        });
        Reply::json(StatusCode::MISDIRECTED_REQUEST, &detail)
    }
}

/// A call that has its emulator and its fate, and waits for its body.
pub(crate) struct Begun {
    emulator: Arc<dyn Emulator>,
    fate: Fate,
}

impl Begun {
    pub fn body_bytes_max(&self) -> usize {
        self.emulator.body_bytes_max()
    }
}

async fn pause(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

fn reply_delay_ms(answer: &Answer) -> u64 {
    match answer {
        Answer::Reply(reply) | Answer::ReplyThenGoAway { reply, .. } => reply.delay_ms,
        Answer::CloseConnection | Answer::Silence => 0,
    }
}

/// As a proxy answers that has waited for long enough.
fn gateway_timeout() -> Reply {
    let page = Bytes::from_static(b"<html><head><title>504 Gateway Time-out</title></head></html>");
    Reply { body: page, ..Reply::new(StatusCode::GATEWAY_TIMEOUT) }
}

/// Only what was taken can be lost: a refusal is answered.
fn lose(answer: Answer, loss: Answer) -> Answer {
    match &answer {
        Answer::Reply(reply) if reply.arrival.is_some() && reply.status.is_success() => loss,
        Answer::Reply(_) | Answer::ReplyThenGoAway { .. } | Answer::CloseConnection | Answer::Silence => {
            answer
        }
    }
}

fn fault(emulator: &dyn Emulator, kind: &str, call: &Call) -> Reply {
    emulator.fault(kind, call, None).unwrap_or_else(|| {
        let status = kind.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
        Reply::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
    })
}
