//! APNs as a channel: each message goes out on a connection of the key that serves its app and environment.
//!
//! What must never happen: a message that is sent twice by one attempt (a second request follows only an answer that says
//! that the first was not taken), a device that is retired because the account is wrong, or a new provider token for every
//! request that Apple refuses.

use super::answer::{self, Context, Note, Read};
use super::line::{self, Line};
use super::payload::{PayloadError, Prepared, PushType, Terms, apns_id, expiration, reference_bytes};
use super::settings::{Secrets, Settings, check_topic};
use super::token::Bearer;
use crate::alerts::Alerts;
use crate::collapse::collapse_id;
use crate::dead_guard::{DeadGuard, Doubts};
use crate::fields::SettingsError;
use crate::probe::Hop;
use crate::push_content::PushContent;
use bytes::Bytes;
use fantail_outbound::pool::{Failure, Gauge, Ports, Timing};
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Proof, Refusal, Report, Scope, Shipment};
use fantail_rules::ids::Millis;
use fantail_rules::push_address::{Environment, PushAddress, Service};
use futures_util::stream::{self, StreamExt};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::{PathAndQuery, Uri};
use hyper::{Method, Request};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

const PROVIDER: &str = "apns";
const MESSAGE_BYTES_MAX: usize = 200;
/// Apple's are 64 digits and may become longer.
const TOKEN_BYTES_MAX: usize = 400;
/// Different headers that one shipment keeps: one for each app and kind.
const HEADS_MAX: usize = 32;
/// Nobody's device: what a probe asks for.
const PROBE_TOKEN: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const APNS_ID: HeaderName = HeaderName::from_static("apns-id");

/// Must be used inside a tokio runtime: its sockets belong to one.
pub struct Apns {
    ports: Ports,
    lines: Vec<Line>,
    topic: Option<String>,
    sound: Option<String>,
    answer_ms_max: u64,
    guard: DeadGuard,
}

/// One shipment under way.
struct Run<'a> {
    shipment: &'a Shipment,
    report: &'a Report<'a>,
    /// Written once, by whoever needs it first: for apps, and for their calls.
    shared: [OnceLock<Result<Arc<Prepared>, Answer>>; 2],
    heads: Mutex<Vec<Head>>,
    collapse_id: Option<HeaderValue>,
    reference_bytes: usize,
    doubts: Doubts,
    answered: AtomicU64,
    alerts: Alerts,
}

/// Headers that messages share: those of one app and kind.
struct Head {
    topic: String,
    push_type: PushType,
    is_now_or_never: bool,
    headers: Arc<HeaderMap>,
}

/// One message, ready to go.
struct Ready<'a> {
    message: &'a Message,
    token: &'a str,
    registered_at: Millis,
    headers: Arc<HeaderMap>,
    prepared: Arc<Prepared>,
}

impl Apns {
    pub fn open(settings: Settings, secrets: Secrets, ports: Ports) -> Result<Self, SettingsError> {
        let lines = line::open(&settings, &secrets, &ports)?;
        let Settings { topic, sound, answer_ms_max, .. } = settings;
        Ok(Self { ports, lines, topic, sound, answer_ms_max, guard: DeadGuard::default() })
    }

    /// Whether the account has a key for the app and environment of this address.
    #[must_use]
    pub fn serves(&self, endpoint: &[u8]) -> bool {
        self.place(endpoint).is_ok()
    }

    /// What its connections are doing: one gauge for each key and environment.
    #[must_use]
    pub fn gauges(&self) -> Vec<(Environment, Gauge)> {
        self.lines.iter().map(|line| (line.environment, line.pool.gauge())).collect()
    }

    /// Each hop of each key and environment: asks for a device that nobody has, which Apple answers only to those it knows.
    pub fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        Box::pin(async move {
            let mut hops =
                vec![Hop::passed("settings", format!("{} keys and environments", self.lines.len()))];
            for line in &self.lines {
                hops.extend(self.probe_line(line).await);
            }
            hops
        })
    }

    async fn probe_line(&self, line: &Line) -> Vec<Hop> {
        let name = format!("{} with key {}", line.environment.name(), line.key.key_id);
        let bearer = line.credential.current(&*self.ports.clock);
        let topic = line.key.topics.first().or(self.topic.as_ref());
        let make = || {
            let mut request = Request::new(Bytes::from_static(b"{\"aps\":{}}"));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = Uri::from(path(&line.path, PROBE_TOKEN));
            let topic = topic.and_then(|topic| HeaderValue::from_str(topic).ok());
            let headers = request.headers_mut();
            headers.extend(topic.map(|topic| (HeaderName::from_static("apns-topic"), topic)));
            headers.insert("apns-push-type", HeaderValue::from_static("background"));
            headers.insert("apns-priority", HeaderValue::from_static("5"));
            headers.insert(AUTHORIZATION, bearer.0.clone());
            request
        };
        let timing = Timing {
            start_by: self.ports.clock.monotonic().plus(self.answer_ms_max),
            answer_within_ms: self.answer_ms_max,
        };
        let reply = match line.pool.call_made(make, timing).await {
            Ok(reply) => reply,
            Err(Failure::NotSent { message, .. }) => {
                return vec![Hop::failed("connect", format!("{name}: {message}"))];
            }
            Err(Failure::Unknown { message, .. }) => {
                let connected = Hop::passed("connect", name.clone());
                return vec![connected, Hop::failed("answer", format!("{name}: {message}"))];
            }
        };
        let context = Context { now: self.ports.clock.wall(), registered_at: Millis(0) };
        let read = answer::read(reply.status, &reply.headers, &reply.body, context);
        let code = code_of(&read.answer).unwrap_or("accepted").to_owned();
        let connected = Hop::passed("connect", name.clone());
        let is_refused = matches!(&read.answer, Answer::Later { scope: Scope::Credential, .. });
        if is_refused {
            return vec![connected, Hop::failed("credential", format!("{name}: {code}"))];
        }
        let is_well = matches!(read.note, Note::Nothing | Note::Doubt | Note::WrongEnvironment);
        let detail = format!("{name}: {} {code}", reply.status.as_u16());
        let answer = Hop { name: "answer", ok: is_well && !reply.status.is_server_error(), detail };
        vec![connected, Hop::passed("credential", name), answer]
    }

    async fn send_all(&self, shipment: &Shipment, report: &Report<'_>) {
        let references = shipment.messages.iter().map(|message| reference_bytes(&message.reference));
        let collapse_id = shipment.collapse_key.as_deref().map(collapse_id);
        let run = Run {
            shipment,
            report,
            shared: Default::default(),
            heads: Mutex::default(),
            collapse_id: collapse_id.and_then(|id| HeaderValue::from_str(&id).ok()),
            reference_bytes: references.max().unwrap_or(0),
            doubts: Doubts::default(),
            answered: AtomicU64::new(0),
            alerts: Alerts::default(),
        };
        stream::iter(0..shipment.messages.len())
            .for_each_concurrent(None, |index| self.deliver(index, &run))
            .await;
        let Run { doubts, answered, alerts, .. } = run;
        self.guard.settle(PROVIDER, answered.into_inner(), doubts, report);
        alerts.tell(PROVIDER);
    }

    async fn deliver(&self, index: usize, run: &Run<'_>) {
        let message = &run.shipment.messages[index];
        let read = match self.place(&message.endpoint) {
            Ok(place) => match self.ready(message, &place, run) {
                Ok(ready) => self.attempt(&ready, &place, run.shipment.deadline).await,
                Err(answer) => Read { answer, note: Note::Nothing },
            },
            Err(answer) => Read { answer, note: Note::Nothing },
        };
        match read.note {
            Note::Doubt | Note::WrongEnvironment => return run.doubts.hold(index, read.answer),
            Note::Alert => run.alerts.add(code_of(&read.answer).unwrap_or_default()),
            Note::Nothing | Note::Expired | Note::TooManyTokens => {}
        }
        run.answered.fetch_add(1, Ordering::Relaxed);
        (run.report)(index, read.answer);
    }

    /// Where a message goes; the error is its answer.
    fn place<'a>(&'a self, endpoint: &'a [u8]) -> Result<Place<'a>, Answer> {
        let malformed = |message: &str| rejected(Refusal::Malformed, "endpoint", message);
        let Some(PushAddress { service: Service::Apns { environment, topic, token }, registered_at }) =
            PushAddress::read(endpoint)
        else {
            return Err(malformed("the endpoint is no address of APNs"));
        };
        let is_token = token.len() <= TOKEN_BYTES_MAX && token.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_token {
            return Err(malformed("the token is none of Apple's"));
        }
        let Some(topic) = topic.or(self.topic.as_deref()) else {
            return Err(malformed("neither the address nor the account names the app"));
        };
        check_topic(topic).map_err(malformed)?;
        let line = line::find(&self.lines, environment, topic).ok_or_else(|| {
            rejected(Refusal::Message, "no-key", "the account has no key for this app and environment")
        })?;
        let other = line::find(&self.lines, other(environment), topic);
        Ok(Place { line, other, topic, token, registered_at })
    }

    fn ready<'a>(&self, message: &'a Message, place: &Place<'a>, run: &Run<'_>) -> Result<Ready<'a>, Answer> {
        let is_voip = place.topic.ends_with(".voip");
        let prepared = match &message.content {
            Some(own) => self.prepare(own, is_voip, run)?,
            None => {
                let shared = &run.shared[usize::from(is_voip)];
                shared.get_or_init(|| self.prepare(&run.shipment.content, is_voip, run)).clone()?
            }
        };
        let headers = self.headers(place.topic, &prepared, run);
        let Place { token, registered_at, .. } = *place;
        Ok(Ready { message, token, registered_at, headers, prepared })
    }

    fn prepare(&self, content: &[u8], is_voip: bool, run: &Run<'_>) -> Result<Arc<Prepared>, Answer> {
        let content = PushContent::read(content)
            .map_err(|error| rejected(Refusal::Malformed, "content", &error.to_string()))?;
        let sound = self.sound.as_deref();
        let terms = Terms { is_voip, sound, reference_bytes: run.reference_bytes };
        let prepared = Prepared::new(&content, &terms).map(Arc::new);
        prepared.map_err(|error| match error {
            PayloadError::TooLarge { .. } => rejected(Refusal::Malformed, "too-large", &error.to_string()),
        })
    }

    /// Everything but the token and the id, which take their places later.
    fn headers(&self, topic: &str, prepared: &Prepared, run: &Run<'_>) -> Arc<HeaderMap> {
        let Prepared { push_type, is_now_or_never, .. } = *prepared;
        let mut heads = run.heads.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |head: &&Head| {
            head.push_type == push_type && head.is_now_or_never == is_now_or_never && head.topic == topic
        };
        if let Some(head) = heads.iter().find(is_it) {
            return Arc::clone(&head.headers);
        }
        let Shipment { lane, expires_at, .. } = *run.shipment;
        let expiration = expiration(expires_at, is_now_or_never, self.ports.clock.wall());
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        headers.insert(APNS_ID, HeaderValue::from_static(""));
        headers.insert("apns-push-type", HeaderValue::from_static(push_type.name()));
        headers.insert("apns-priority", HeaderValue::from_static(push_type.priority(lane)));
        headers.insert("apns-expiration", HeaderValue::from(expiration));
        if let Ok(topic) = HeaderValue::from_str(topic) {
            headers.insert("apns-topic", topic);
        }
        if let Some(id) = &run.collapse_id {
            headers.insert("apns-collapse-id", id.clone());
        }
        let headers = Arc::new(headers);
        if heads.len() < HEADS_MAX {
            let (topic, headers) = (topic.to_owned(), Arc::clone(&headers));
            heads.push(Head { topic, push_type, is_now_or_never, headers });
        }
        headers
    }

    /// One request; another one if the provider token was refused, and one to the other environment if the device is not
    /// known in this one. All of these answers say that nothing was taken.
    async fn attempt(&self, ready: &Ready<'_>, place: &Place<'_>, deadline: Millis) -> Read {
        let mut line = &self.lines[place.line];
        let mut other = place.other;
        let mut may_refresh = true;
        loop {
            let bearer = line.credential.current(&*self.ports.clock);
            let mut read = self.call(line, ready, &bearer, deadline).await;
            let renewed = match read.note {
                Note::Expired => line.credential.expired(&bearer, &*self.ports.clock),
                Note::TooManyTokens => line.credential.too_many(&bearer, &*self.ports.clock),
                Note::WrongEnvironment => match other.take() {
                    Some(other) => {
                        line = &self.lines[other];
                        continue;
                    }
                    None => return read,
                },
                Note::Nothing | Note::Alert | Note::Doubt => return read,
            };
            match renewed {
                Ok(()) if may_refresh => may_refresh = false,
                Ok(()) => return Read { note: Note::Alert, ..read },
                Err(wait_ms) => {
                    if let Answer::Later { after_ms, .. } = &mut read.answer {
                        *after_ms = Some(wait_ms);
                    }
                    return Read { note: Note::Alert, ..read };
                }
            }
        }
    }

    async fn call(&self, line: &Line, ready: &Ready<'_>, bearer: &Bearer, deadline: Millis) -> Read {
        let timing = Timing { start_by: deadline, answer_within_ms: self.answer_ms_max };
        let answer = match line.pool.call_made(|| request(line, ready, bearer), timing).await {
            Ok(reply) => {
                let context = Context { now: self.ports.clock.wall(), registered_at: ready.registered_at };
                return answer::read(reply.status, &reply.headers, &reply.body, context);
            }
            Err(Failure::NotSent { proof, message }) => not_sent(proof, message),
            Err(Failure::Unknown { code, message }) => {
                Answer::Unknown { code: code.to_owned(), message: shortened(message) }
            }
        };
        Read { answer, note: Note::Nothing }
    }
}

impl Channel for Apns {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(self.send_all(shipment, report))
    }
}

/// Where a message goes.
struct Place<'a> {
    line: usize,
    /// The same app in the other environment.
    other: Option<usize>,
    topic: &'a str,
    token: &'a str,
    registered_at: Millis,
}

/// Made anew for each time that it is sent, so that nothing of it is kept meanwhile.
fn request(line: &Line, ready: &Ready<'_>, bearer: &Bearer) -> Request<Bytes> {
    let mut request = Request::new(ready.prepared.body(&ready.message.reference));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from(path(&line.path, ready.token));
    let id = Bytes::from(apns_id(&ready.message.reference));
    let mut id = HeaderValue::from_maybe_shared(id).expect("an id is digits and dashes");
    // Of no use to any later request: it must not push what is out of the table that headers share.
    id.set_sensitive(true);
    let mut headers = HeaderMap::clone(&ready.headers);
    headers.insert(AUTHORIZATION, bearer.0.clone());
    headers.insert(APNS_ID, id);
    *request.headers_mut() = headers;
    request
}

/// Of a token that is digits, behind the path of an endpoint.
fn path(base: &str, token: &str) -> PathAndQuery {
    let text = Bytes::from([base, "/3/device/", token].concat());
    PathAndQuery::from_maybe_shared(text).expect("a path with digits behind it is one")
}

fn other(environment: Environment) -> Environment {
    match environment {
        Environment::Production => Environment::Sandbox,
        Environment::Sandbox => Environment::Production,
    }
}

fn code_of(answer: &Answer) -> Option<&str> {
    match answer {
        Answer::Rejected { code, .. } | Answer::Later { code, .. } | Answer::Unknown { code, .. } => {
            Some(code)
        }
        Answer::Accepted { .. } | Answer::NotSent { .. } => None,
    }
}

fn not_sent(proof: Proof, message: String) -> Answer {
    Answer::NotSent { proof, message: shortened(message) }
}

fn rejected(refusal: Refusal, code: &str, message: &str) -> Answer {
    Answer::Rejected { refusal, code: code.to_owned(), message: message.to_owned() }
}

fn shortened(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    message
}
