//! Webhooks as a channel. Each message waits for its permits, takes a connection that waits or makes one, sends once and
//! reports by the status alone; what remains of the answer is read aside, so that the connection can be used again.
//!
//! What must never happen: a first byte after the deadline, a message sent twice by one attempt (a second connection is
//! tried only with proof that the first took nothing), or a receiver that holds more than its share of permits.

use super::answer::answer;
use super::connect::{ConnectError, Connection, Connector};
use super::endpoint::Endpoint;
use super::gate::Trace;
use super::hosts::{HostGate, Hosts};
use super::limits::{ANSWER_BYTES_MAX, DRAIN_MS_MAX, MESSAGE_BYTES_MAX, SETTLE_MS_MAX};
use super::payload::{Body, request};
use super::pool::Pool;
use super::settings::{Settings, SettingsError};
use super::url::Origin;
use fantail_outbound::pool::Ports;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Proof, Refusal, Report, Shipment};
use fantail_rules::ids::Millis;
use fantail_rules::pacing::News;
use futures_util::stream::{self, StreamExt};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::info;

/// Must be used inside a tokio runtime: its sockets belong to one.
pub struct Webhook {
    settings: Settings,
    connector: Arc<Connector>,
    pool: Arc<Pool>,
    hosts: Hosts,
    everything: Arc<Semaphore>,
}

impl Webhook {
    pub fn new(settings: Settings, ports: Ports) -> Result<Self, SettingsError> {
        settings.check()?;
        let pool = Pool::new(&settings, Arc::clone(&ports.clock), Arc::clone(&ports.tasks));
        let connector = Connector::new(&settings, ports)?;
        Ok(Self {
            connector: Arc::new(connector),
            pool: Arc::new(pool),
            hosts: Hosts::new(settings.host_concurrency_max),
            everything: Arc::new(Semaphore::new(settings.concurrency_max)),
            settings,
        })
    }

    /// Connections that wait for their next message.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.pool.idle()
    }

    async fn deliver(&self, shipment: &Shipment, index: usize, slots: &Arc<Semaphore>, report: &Report<'_>) {
        let message = &shipment.messages[index];
        let content = message.content.as_ref().unwrap_or(&shipment.content);
        let endpoint = match self.prepare(message, content) {
            Ok(endpoint) => endpoint,
            Err(answer) => return report(index, answer),
        };
        let clock = &self.connector.clock;
        let gate = self.hosts.gate(&endpoint.url().origin.host, shipment.tenant, clock.monotonic());
        let queued = match gate.line_up(clock.monotonic(), shipment.deadline) {
            Ok(queued) => queued,
            Err(after_ms) => return report(index, no_room(after_ms)),
        };
        let Some(permits) = self.connector.within(shipment.deadline, self.permits(&gate, slots)).await else {
            return report(index, no_room(gate.book(clock.monotonic())));
        };
        drop(queued);
        let entered = match gate.enter(clock.monotonic()) {
            Ok(entered) => entered,
            Err(after_ms) => {
                return report(index, not_sent(Proof::Resting { after_ms }, "its host is left alone".into()));
            }
        };
        let attempt = Attempt { endpoint: &endpoint, shipment, message, content };
        // Boxed, because most of a shipment waits for permits and should be small meanwhile.
        let (answer, used) = Box::pin(self.attempt(&attempt)).await;
        if let Some(News::Opened { until }) = entered.ended(clock.monotonic(), answer.signal()) {
            let host = &endpoint.url().origin.host;
            info!(%host, %until, "webhook host does not answer and is left alone");
        }
        report(index, answer);
        if let Some(used) = used {
            self.recycle(endpoint.url().origin.clone(), used, permits).await;
        }
    }

    /// What can be said without a connection.
    fn prepare(&self, message: &Message, content: &[u8]) -> Result<Endpoint, Answer> {
        let endpoint = Endpoint::decode(&message.endpoint)
            .map_err(|error| rejected(Refusal::Malformed, "endpoint", error.to_string()))?;
        if content.len() > self.settings.body_bytes_max {
            let message = format!("the body has {} bytes", content.len());
            return Err(rejected(Refusal::Message, "too-large", message));
        }
        self.connector
            .judge(&endpoint.url().origin)
            .map_err(|forbidden| not_sent(Proof::Forbidden, forbidden.to_string()))?;
        Ok(endpoint)
    }

    /// The host first: whoever waits for a slow host takes no room from others.
    async fn permits(&self, gate: &HostGate, slots: &Arc<Semaphore>) -> Permits {
        let host = (acquire(&gate.own).await, acquire(&gate.shared).await);
        let slot = acquire(slots).await;
        Permits { host, slot, everything: acquire(&self.everything).await }
    }

    async fn attempt(&self, attempt: &Attempt<'_>) -> (Answer, Option<Used>) {
        let Attempt { endpoint, shipment, message, content } = *attempt;
        let deadline = shipment.deadline;
        let clock = &self.connector.clock;
        let now = clock.monotonic();
        if now > deadline {
            return (too_late(), None);
        }
        let request = match request(
            endpoint,
            &message.reference,
            shipment.collapse_key.as_deref(),
            content,
            clock.wall(),
        ) {
            Ok(request) => request,
            Err(error) => return (rejected(Refusal::Malformed, "reference", error.to_string()), None),
        };
        let origin = &endpoint.url().origin;
        let ends_at = now.plus(self.settings.total_timeout_ms);
        if let Some(waiting) = self.pool.take(origin) {
            match self.exchange(waiting, request.clone(), deadline, ends_at).await {
                Exchange::Unsent { proof: Proof::Unprocessed, .. } if clock.monotonic() < ends_at => {}
                exchange => return self.settle(exchange),
            }
        }
        match self.connector.connect(shipment.tenant, origin, ends_at.min(deadline)).await {
            Ok(connection) => self.settle(self.exchange(connection, request, deadline, ends_at).await),
            Err(error) => (self.not_connected(&error, deadline), None),
        }
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        request: Request<Body>,
        deadline: Millis,
        ends_at: Millis,
    ) -> Exchange {
        connection.gate.arm(deadline);
        let sending = connection.sender.try_send_request(request);
        let (code, message) = match self.connector.within(ends_at, sending).await {
            Some(Ok(response)) => return Exchange::Answered(Used { response, connection }),
            Some(Err(error)) => {
                let error = error.into_error();
                let code = if error.is_parse() { "protocol" } else { "reset" };
                (code, format!("the connection was lost: {error}"))
            }
            None => ("timeout", "no answer in time".to_owned()),
        };
        match connection.gate.give_up() {
            Trace::Touched => Exchange::Lost { code, message },
            Trace::Untouched => Exchange::Unsent { proof: Proof::Unprocessed, message },
            Trace::TooLate => Exchange::Unsent { proof: Proof::Deadline, message },
        }
    }

    fn settle(&self, exchange: Exchange) -> (Answer, Option<Used>) {
        match exchange {
            Exchange::Answered(used) => {
                let response = &used.response;
                (answer(response.status(), response.headers(), self.connector.clock.wall()), Some(used))
            }
            Exchange::Unsent { proof: Proof::Deadline, .. } => (too_late(), None),
            Exchange::Unsent { proof, message } => (not_sent(proof, message), None),
            Exchange::Lost { code, message } => {
                (Answer::Unknown { code: code.into(), message: shortened(message) }, None)
            }
        }
    }

    fn not_connected(&self, error: &ConnectError, deadline: Millis) -> Answer {
        match error {
            ConnectError::Forbidden(forbidden) => not_sent(Proof::Forbidden, forbidden.to_string()),
            ConnectError::OutOfTime if self.connector.clock.monotonic() >= deadline => too_late(),
            ConnectError::OutOfTime | ConnectError::Tcp(_) | ConnectError::Tls(_) | ConnectError::Http(_) => {
                not_sent(Proof::NoConnection, error.to_string())
            }
        }
    }

    /// Puts the connection back when the rest of the answer has been read. If that is not at once, a task does it, which
    /// keeps the permits of host and channel: the shipment does not wait for it.
    async fn recycle(&self, origin: Origin, used: Used, permits: Permits) {
        let Permits { host, slot, everything } = permits;
        drop(slot);
        let (connector, pool) = (Arc::clone(&self.connector), Arc::clone(&self.pool));
        let mut reading: BoxFuture<'static, ()> = Box::pin(async move {
            if let Some(connection) = read_rest(&connector, used).await {
                pool.put(origin, connection);
            }
            drop((host, everything));
        });
        let at_once = poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await;
        if at_once.is_pending() {
            self.connector.tasks.spawn("webhook answer", reading);
        }
    }
}

impl Channel for Webhook {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let slots = &Arc::new(Semaphore::new(self.settings.shipment_concurrency_max));
            stream::iter(0..shipment.messages.len())
                .for_each_concurrent(None, |index| self.deliver(shipment, index, slots, report))
                .await;
        })
    }

    fn paces_hosts(&self) -> bool {
        true
    }
}

struct Attempt<'a> {
    endpoint: &'a Endpoint,
    shipment: &'a Shipment,
    message: &'a Message,
    content: &'a Arc<[u8]>,
}

struct Permits {
    /// The tenant's own, and the one that tenants share.
    host: (OwnedSemaphorePermit, OwnedSemaphorePermit),
    slot: OwnedSemaphorePermit,
    everything: OwnedSemaphorePermit,
}

/// A connection whose answer has begun.
struct Used {
    response: Response<Incoming>,
    connection: Connection,
}

enum Exchange {
    Answered(Used),
    /// Proof that nothing was taken.
    Unsent {
        proof: Proof,
        message: String,
    },
    Lost {
        code: &'static str,
        message: String,
    },
}

async fn acquire(permits: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(permits).acquire_owned().await.expect("permits are never closed")
}

/// The connection, if all of the answer came within its limits and the peer keeps the connection open.
async fn read_rest(connector: &Connector, used: Used) -> Option<Connection> {
    let Used { response, mut connection } = used;
    let body = response.into_body();
    if body.size_hint().lower() > ANSWER_BYTES_MAX as u64 {
        return None;
    }
    let drained = connector.within(connector.clock.monotonic().plus(DRAIN_MS_MAX), drain(body)).await?;
    if !drained {
        return None;
    }
    let settled = connector.clock.monotonic().plus(SETTLE_MS_MAX);
    let ready = connector.within(settled, connection.sender.ready()).await?;
    ready.is_ok().then_some(connection)
}

/// Whether the body came to its end within the limit. Its bytes are looked at by nobody.
async fn drain(mut body: Incoming) -> bool {
    let mut left = ANSWER_BYTES_MAX;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        let length = frame.data_ref().map_or(0, |data| data.len());
        if length > left {
            return false;
        }
        left -= length;
    }
    true
}

fn too_late() -> Answer {
    not_sent(Proof::Deadline, "the deadline passed before the first byte".into())
}

fn no_room(after_ms: u64) -> Answer {
    not_sent(Proof::NoRoom { after_ms }, "its host has no room".into())
}

fn not_sent(proof: Proof, message: String) -> Answer {
    Answer::NotSent { proof, message: shortened(message) }
}

fn rejected(refusal: Refusal, code: &str, message: String) -> Answer {
    Answer::Rejected { refusal, code: code.into(), message: shortened(message) }
}

fn shortened(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    message
}
