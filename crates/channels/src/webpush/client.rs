//! Web Push as a channel: each message is encrypted for its browser and given to that browser's push service.
//!
//! What must never happen: a first byte after the deadline, a message that is sent twice by one attempt, or a subscription
//! that is called dead because our own key is refused.

use super::answer::{KEY_REFUSED_MS, Note, Read, of_another_key, read};
use super::encrypt::EncryptError;
use super::keys::Secrets;
use super::origins::{Connector, NoPool, Origins, Service};
use super::payload::Prepared;
use super::reservoir::Reservoir;
use super::settings::Settings;
use super::target::Target;
use super::vapid::Vapid;
use crate::alerts::Alerts;
use crate::collapse::topic;
use crate::dead_guard::{DeadGuard, Doubts, is_said_by_provider};
use crate::fields::SettingsError;
use crate::probe::Hop;
use crate::push_content::PushContent;
use crate::webhook::hosts::HostAttempt;
use bytes::Bytes;
use fantail_outbound::pool::{Failure, Pool, Ports, Timing};
use fantail_outbound::tls;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Proof, Refusal, Report, Shipment};
use fantail_rules::ids::Millis;
use fantail_rules::pacing::{News, Signal};
use fantail_rules::priority::Priority;
use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tracing::info;

const PROVIDER: &str = "webpush";
const ANSWER_MS_MAX: u64 = 10_000;
/// Messages that are encrypted one after the other and then given to their connection at once: an agreement of keys takes
/// so long that each would otherwise be written, and answered, alone.
const TOGETHER: usize = 16;
/// Messages under way of one shipment.
const UNDER_WAY_MAX: usize = 256;
/// Push services keep nothing for longer than four weeks.
const TTL_S_MAX: u64 = 2_419_200;
const MESSAGE_BYTES_MAX: usize = 200;

/// Must be used inside a tokio runtime: its sockets belong to one.
pub struct WebPush {
    pad_to: usize,
    connector: Connector,
    vapid: Vapid,
    reservoir: Reservoir,
    origins: Origins,
    guard: DeadGuard,
}

/// One shipment under way.
struct Run<'a> {
    shipment: &'a Shipment,
    report: &'a Report<'a>,
    /// Headers that all messages share.
    headers: HeaderMap,
    /// Written once, by whoever needs it first.
    shared: OnceLock<Result<Prepared, Answer>>,
    reference_bytes: usize,
    /// Those to which the key was refused, until the others have been heard.
    refused: Mutex<Vec<(usize, Arc<Service>, Answer)>>,
    doubts: Doubts,
    answered: AtomicU64,
    alerts: Alerts,
}

/// A message that is ready to leave, and counts as under way with its push service.
struct Sealed {
    index: usize,
    path: PathAndQuery,
    service: Arc<Service>,
    entered: HostAttempt,
    body: Bytes,
}

impl WebPush {
    pub fn open(settings: Settings, secrets: Secrets, ports: Ports) -> Result<Self, SettingsError> {
        let bad_roots = |error: tls::TlsError| SettingsError::new("/caPem", error.to_string());
        let tls = tls::client(&settings.ca_pem, &[b"h2", b"http/1.1"]).map_err(bad_roots)?;
        let connect_to = settings.connect_to;
        Ok(Self {
            pad_to: settings.pad_to,
            reservoir: Reservoir::new(ports.clone()),
            connector: Connector { connect_to, tls, ports },
            vapid: Vapid::new(secrets, settings.subject),
            origins: Origins::default(),
            guard: DeadGuard::default(),
        })
    }

    /// What an app gives its browser as `applicationServerKey`.
    #[must_use]
    pub fn public_key(&self) -> &str {
        self.vapid.public_key()
    }

    /// There is no push service of our own to ask: whether the settings and the key can be used.
    pub fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        let settings = Hop::passed("settings", "subject and targets are usable");
        let credential = Hop::passed("credential", format!("the public key is {}", self.public_key()));
        Box::pin(async move { vec![settings, credential] })
    }

    async fn send_all(&self, shipment: &Shipment, report: &Report<'_>) {
        let clock = &self.connector.ports.clock;
        if clock.monotonic() > shipment.deadline {
            return (0..shipment.messages.len()).for_each(|index| report(index, too_late()));
        }
        let wall = clock.wall();
        if shipment.expires_at <= wall {
            let expired = || rejected(Refusal::Message, "expired", "its time is over");
            return (0..shipment.messages.len()).for_each(|index| report(index, expired()));
        }
        let run = Run {
            shipment,
            report,
            headers: headers(shipment, wall),
            shared: OnceLock::new(),
            reference_bytes: shipment
                .messages
                .iter()
                .map(|message| message.reference.len())
                .max()
                .unwrap_or(0),
            refused: Mutex::default(),
            doubts: Doubts::default(),
            answered: AtomicU64::new(0),
            alerts: Alerts::default(),
        };
        self.deliver(&run).await;
        self.settle(run);
    }

    /// Group by group; a push service that is slow to answer holds up no message to another one.
    async fn deliver(&self, run: &Run<'_>) {
        let mut under_way = FuturesUnordered::new();
        for index in 0..run.shipment.messages.len() {
            match self.seal(index, run) {
                Ok(sealed) => under_way.push(self.send_one(sealed, run)),
                Err(answer) => (run.report)(index, answer),
            }
            if (index + 1) % TOGETHER == 0 {
                // All that were sealed begin; their connections write when it is their turn.
                while let Some(Some(())) = under_way.next().now_or_never() {}
                tokio::task::yield_now().await;
            }
            while under_way.len() >= UNDER_WAY_MAX {
                under_way.next().await;
            }
        }
        under_way.collect::<()>().await;
    }

    /// `Err`: what can be said without asking the push service.
    fn seal(&self, index: usize, run: &Run<'_>) -> Result<Sealed, Answer> {
        let message = &run.shipment.messages[index];
        let target = Target::read(&message.endpoint)
            .map_err(|error| rejected(Refusal::Malformed, "endpoint", &error.to_string()))?;
        self.connector
            .judge(&target.url.origin)
            .map_err(|forbidden| not_sent(Proof::Forbidden, forbidden.to_string()))?;
        let began = self.connector.ports.clock.monotonic();
        let service = self.origins.service(&target.url.origin, began);
        let plaintext = self.plaintext(message, run)?;
        let entered = service.gate.enter(began).map_err(|after_ms| {
            not_sent(Proof::Resting { after_ms }, "its push service is left alone".to_owned())
        })?;
        match self.reservoir.take().encrypt(&target.browser, &plaintext, self.pad_to) {
            Ok(body) => {
                Ok(Sealed { index, path: target.url.path, service, entered, body: Bytes::from(body) })
            }
            Err(error) => {
                let code = match error {
                    EncryptError::BadPublic => "endpoint",
                    EncryptError::TooLarge => "too-large",
                };
                let answer = rejected(Refusal::Malformed, code, &error.to_string());
                self.ended(&service, entered, answer.signal());
                Err(answer)
            }
        }
    }

    async fn send_one(&self, sealed: Sealed, run: &Run<'_>) {
        let read = self.attempt(&sealed, run).await;
        let signal = match read.note {
            // Whether it is the key's fault is found out when the shipment is over.
            Note::KeyRefused => Signal::Works,
            Note::Nothing | Note::Alert => read.answer.signal(),
        };
        let Sealed { index, service, entered, .. } = sealed;
        self.ended(&service, entered, signal);
        self.told(index, service, read, run);
    }

    fn ended(&self, service: &Service, entered: HostAttempt, signal: Signal) {
        let now = self.connector.ports.clock.monotonic();
        if let Some(News::Opened { until }) = entered.ended(now, signal) {
            let host = &service.origin.host;
            info!(%host, %until, "a push service does not answer and is left alone");
        }
    }

    async fn attempt(&self, sealed: &Sealed, run: &Run<'_>) -> Read {
        let clock = &self.connector.ports.clock;
        let (service, deadline) = (&sealed.service, run.shipment.deadline);
        let nothing = |answer| Read { answer, note: Note::Nothing };
        let found = match service.pool_at_hand(clock.monotonic()) {
            Some(pool) => Ok(pool),
            // Boxed, because few need it, and thousands would have room for it.
            None => Box::pin(self.pool_of(service, deadline)).await,
        };
        let pool = match found {
            Ok(pool) => pool,
            Err(answer) => return nothing(answer),
        };
        let authorization = service.authorization(&self.vapid, clock.wall(), clock.monotonic());
        let request = || {
            let mut request = Request::new(sealed.body.clone());
            *request.method_mut() = Method::POST;
            *request.uri_mut() = sealed.path.clone().into();
            *request.headers_mut() = run.headers.clone();
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
            request
        };
        let timing = Timing { start_by: deadline, answer_within_ms: ANSWER_MS_MAX };
        match pool.call_made(request, timing).await {
            Ok(reply) => read(&reply, clock.wall()),
            Err(Failure::NotSent { proof, message }) => {
                if proof == Proof::NoConnection {
                    service.look_again(clock.monotonic());
                }
                nothing(not_sent(proof, message))
            }
            Err(Failure::Unknown { code, message }) => {
                nothing(Answer::Unknown { code: code.to_owned(), message: shortened(message) })
            }
        }
    }

    async fn pool_of(&self, service: &Service, deadline: Millis) -> Result<Arc<Pool>, Answer> {
        tokio::select! {
            biased;
            pool = service.pool(&self.connector) => {
                pool.map_err(|NoPool { proof, message }| not_sent(proof, message))
            }
            () = self.connector.ports.tasks.sleep_until(deadline) => Err(too_late()),
        }
    }

    fn told(&self, index: usize, service: Arc<Service>, read: Read, run: &Run<'_>) {
        let Read { answer, note } = read;
        if let Answer::Accepted { .. } = &answer {
            service.key_was_taken(self.connector.ports.clock.monotonic());
        }
        match note {
            Note::KeyRefused => {
                let mut refused = run.refused.lock().unwrap_or_else(PoisonError::into_inner);
                return refused.push((index, service, answer));
            }
            Note::Alert => alert(&run.alerts, &answer),
            Note::Nothing => {}
        }
        run.answered.fetch_add(u64::from(is_said_by_provider(&answer)), Ordering::Relaxed);
        (run.report)(index, answer);
    }

    /// All other messages have been heard of. Where others were taken, a refused key means a subscription that was made
    /// with another one; where none were, the push service does not take our key.
    fn settle(&self, run: Run<'_>) {
        let Run { report, refused, doubts, answered, alerts, .. } = run;
        let now = self.connector.ports.clock.monotonic();
        for (index, service, answer) in refused.into_inner().unwrap_or_else(PoisonError::into_inner) {
            if service.trusts_key(now) {
                doubts.hold(index, of_another_key(answer));
            } else {
                alert(&alerts, &answer);
                service.gate.rest(now, KEY_REFUSED_MS);
                answered.fetch_add(1, Ordering::Relaxed);
                report(index, answer);
            }
        }
        self.guard.settle(PROVIDER, answered.into_inner(), doubts, report);
        alerts.tell(PROVIDER);
    }

    fn plaintext(&self, message: &Message, run: &Run<'_>) -> Result<Vec<u8>, Answer> {
        let prepare = |content: &[u8]| {
            let content = PushContent::read(content)
                .map_err(|error| rejected(Refusal::Malformed, "content", &error.to_string()))?;
            Prepared::new(&content, run.shipment.collapse_key.as_deref(), run.reference_bytes)
                .map_err(|error| rejected(Refusal::Malformed, "too-large", &error.to_string()))
        };
        match &message.content {
            Some(own) => Ok(prepare(own)?.plaintext(&message.reference)),
            None => {
                let shared = run.shared.get_or_init(|| prepare(&run.shipment.content));
                Ok(shared.as_ref().map_err(Clone::clone)?.plaintext(&message.reference))
            }
        }
    }
}

impl Channel for WebPush {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(self.send_all(shipment, report))
    }

    fn paces_hosts(&self) -> bool {
        true
    }
}

/// What all messages of a shipment say beside their body.
fn headers(shipment: &Shipment, wall: Millis) -> HeaderMap {
    let urgency = match shipment.lane {
        Priority::Critical | Priority::High => "high",
        Priority::Normal => "normal",
        Priority::Low => "low",
    };
    let ttl_s = (shipment.expires_at.since(wall) / 1_000).min(TTL_S_MAX);
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert("ttl", HeaderValue::from(ttl_s));
    headers.insert("urgency", HeaderValue::from_static(urgency));
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("aes128gcm"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    if let Some(key) = &shipment.collapse_key {
        let topic = HeaderValue::from_str(&topic(key)).expect("letters of base64url are a header");
        headers.insert("topic", topic);
    }
    headers
}

fn alert(alerts: &Alerts, answer: &Answer) {
    match answer {
        Answer::Rejected { code, .. } | Answer::Later { code, .. } | Answer::Unknown { code, .. } => {
            alerts.add(code)
        }
        Answer::Accepted { .. } | Answer::NotSent { .. } => {}
    }
}

fn too_late() -> Answer {
    not_sent(Proof::Deadline, "the deadline passed before the first byte".to_owned())
}

fn not_sent(proof: Proof, message: String) -> Answer {
    Answer::NotSent { proof, message: shortened(message) }
}

fn rejected(refusal: Refusal, code: &str, message: &str) -> Answer {
    Answer::Rejected { refusal, code: code.to_owned(), message: shortened(message.to_owned()) }
}

fn shortened(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    message
}
