//! Twilio as a channel. Each message gets its sender, waits for its place at the sender's rate, and is posted once.
//!
//! What must never happen: a first byte after the deadline, or a second request for one message.

use super::answer::{Verdict, answer};
use super::limits::{ANSWER_WITHIN_MS, WAITING_S_MAX};
use super::pace::{NoPlace, Pace};
use super::payload::{Text, fields, text, validity_s};
use super::route::route;
use super::settings::{Secrets, Sender, Settings};
use crate::fields::SettingsError;
use crate::probe::Hop;
use crate::webhook::url::Scheme;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fantail_outbound::pool::{Failure, Pool, Ports, Reply, Target, Timing};
use fantail_outbound::tls;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Proof, Refusal, Report, Scope, Shipment};
use fantail_rules::address;
use fantail_rules::channel_kind::ChannelKind;
use futures_util::stream::{self, StreamExt};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use tracing::error;

pub struct Twilio {
    settings: Settings,
    /// The header that proves who we are.
    authorization: HeaderValue,
    pool: Pool,
    ports: Ports,
    /// Of each sender, in their order.
    paces: Vec<Mutex<Pace>>,
    /// Requests that may be under way.
    requests: Semaphore,
}

impl Twilio {
    pub fn open(settings: Settings, secrets: Secrets, ports: Ports) -> Result<Self, SettingsError> {
        let origin = &settings.endpoint.origin;
        let tls = match origin.scheme {
            Scheme::Http => None,
            Scheme::Https => {
                let config = tls::client(settings.ca_pem.as_bytes(), &[b"http/1.1"]);
                Some(config.map_err(|error| SettingsError::new("/caPem", error.to_string()))?)
            }
        };
        let target =
            Target { host: origin.host.to_string(), port: origin.port, at: settings.connect_to.into(), tls };
        let (user, password) = match (&secrets.api_key, &secrets.auth_token) {
            (Some(key), _) => (&key.sid, &key.secret),
            (None, Some(token)) => (&settings.account_sid, token),
            (None, None) => {
                return Err(SettingsError::new("/authToken", "a token or an API key is needed"));
            }
        };
        let basic = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        let mut authorization = HeaderValue::from_str(&basic).expect("base64 is visible ASCII");
        authorization.set_sensitive(true);
        let paces = settings.senders.iter().map(|sender| Mutex::new(Pace::new(sender.per_second))).collect();
        let requests = Semaphore::new(settings.concurrency);
        let pool = Pool::new(target, ports.clone());
        Ok(Self { settings, authorization, pool, ports, paces, requests })
    }

    /// Texts that can be under way, or wait for the turn of their sender: one that waits takes no room from those of others.
    #[must_use]
    pub fn places(&self) -> usize {
        let waiting = |sender: &Sender| sender.per_second as usize * WAITING_S_MAX + 1;
        self.settings.concurrency + self.settings.senders.iter().map(waiting).sum::<usize>()
    }

    /// Of all senders together.
    #[must_use]
    pub fn per_second(&self) -> u32 {
        self.settings.senders.iter().fold(0, |sum, sender| sum.saturating_add(sender.per_second))
    }

    /// Asks for the account itself: nobody gets a text.
    pub fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        Box::pin(async move {
            let senders = self.settings.senders.len();
            let mut hops = vec![Hop::passed("settings", format!("{senders} senders"))];
            let path = format!("/2010-04-01/Accounts/{}.json", self.settings.account_sid);
            let request = self.request(Method::GET, &path, Bytes::new());
            let start_by = self.ports.clock.monotonic().plus(ANSWER_WITHIN_MS);
            let timing = Timing { start_by, answer_within_ms: ANSWER_WITHIN_MS };
            match self.pool.call(request, timing).await {
                Err(Failure::NotSent { message, .. }) => hops.push(Hop::failed("connect", message)),
                Err(Failure::Unknown { message, .. }) => {
                    hops.push(Hop::passed("connect", "connected"));
                    hops.push(Hop::failed("answer", message));
                }
                Ok(reply) => {
                    hops.push(Hop::passed("connect", "connected"));
                    hops.push(credential(&reply));
                }
            }
            hops
        })
    }

    async fn deliver(&self, shipment: &Shipment, index: usize) -> Answer {
        let message = &shipment.messages[index];
        let content = message.content.as_ref().unwrap_or(&shipment.content);
        let text = match text(content, self.settings.smart_encoding) {
            Ok(text) => text,
            Err(error) => return rejected(Refusal::Malformed, "content", error.to_string()),
        };
        let number = std::str::from_utf8(&message.endpoint).ok();
        let Some(number) = number.and_then(|number| address::read(ChannelKind::Sms, number).ok()) else {
            return rejected(Refusal::Malformed, "endpoint", "the endpoint is no number".into());
        };
        let Some(sender) = route(&self.settings.senders, &number.text, message.recipient) else {
            return rejected(Refusal::Message, "no-sender", "no sender reaches this number".into());
        };
        let now = self.ports.clock.monotonic();
        let starts = match self.pace(sender).reserve(now, text.segments, shipment.deadline) {
            Ok(starts) => starts,
            Err(NoPlace::Paused { after_ms }) => {
                return not_sent(Proof::Resting { after_ms }, "the sender is left alone");
            }
            Err(NoPlace::Full { after_ms }) => {
                return not_sent(Proof::NoRoom { after_ms }, "the sender has no room in time");
            }
        };
        if starts > now {
            self.ports.tasks.sleep_until(starts).await;
        }
        let attempt = Attempt { shipment, message, sender, number: &number.text, text: &text };
        let permit = tokio::select! {
            biased;
            permit = self.requests.acquire() => permit.expect("the semaphore is never closed"),
            () = self.ports.tasks.sleep_until(shipment.deadline.plus(1)) => return too_late(),
        };
        let answer = self.attempt(&attempt).await;
        drop(permit);
        answer
    }

    async fn attempt(&self, attempt: &Attempt<'_>) -> Answer {
        let Attempt { shipment, message, sender, number, text } = *attempt;
        let Some(validity_s) = validity_s(self.ports.clock.wall(), shipment.expires_at) else {
            return rejected(Refusal::Message, "expired", "it expired before it was sent".into());
        };
        let callback =
            shipment.callbacks.as_ref().filter(|_| self.settings.status_callback).map(|callbacks| {
                format!(
                    "{}/callbacks/twilio/{}/{}",
                    callbacks.base_url, self.settings.account, message.reference
                )
            });
        let form = fields(&self.settings.senders[sender], number, text, validity_s, callback.as_deref());
        let path = format!("/2010-04-01/Accounts/{}/Messages.json", self.settings.account_sid);
        let request = self.request(Method::POST, &path, Bytes::from(form));
        let timing = Timing { start_by: shipment.deadline, answer_within_ms: ANSWER_WITHIN_MS };
        match self.pool.call(request, timing).await {
            Ok(reply) => self.settle(&reply, message.attempt, sender),
            Err(Failure::NotSent { proof, message }) => Answer::NotSent { proof, message },
            Err(Failure::Unknown { code, message }) => Answer::Unknown { code: code.to_owned(), message },
        }
    }

    fn settle(&self, reply: &Reply, attempt: u8, sender: usize) -> Answer {
        let Verdict { mut answer, sender_rests_ms, needs_operator } = answer(reply, attempt);
        if needs_operator && let Answer::Later { code, .. } | Answer::Rejected { code, .. } = &answer {
            error!(provider = "twilio", account = %self.settings.account, %code, "an operator is needed");
        }
        if let Some(rests_ms) = sender_rests_ms {
            self.pace(sender).pause(self.ports.clock.monotonic().plus(rests_ms));
            // One sender of several rests by itself: the others go on.
            if let Answer::Later { scope, .. } = &mut answer
                && self.paces.len() > 1
            {
                *scope = Scope::Message;
            }
        }
        answer
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a SID makes a plain path");
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, self.authorization.clone());
        headers.insert("accept", HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        request
    }

    fn pace(&self, sender: usize) -> MutexGuard<'_, Pace> {
        self.paces[sender].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel for Twilio {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            stream::iter(0..shipment.messages.len())
                .for_each_concurrent(None, |index| async move {
                    report(index, self.deliver(shipment, index).await)
                })
                .await;
        })
    }
}

struct Attempt<'a> {
    shipment: &'a Shipment,
    message: &'a Message,
    sender: usize,
    number: &'a str,
    text: &'a Text,
}

fn credential(reply: &Reply) -> Hop {
    let body: Option<serde_json::Value> = serde_json::from_slice(&reply.body).ok();
    let status = body.as_ref().and_then(|body| body["status"].as_str());
    match (reply.status.as_u16(), status) {
        (200, Some("active") | None) => Hop::passed("credential", "the account is active"),
        (200, Some(_)) => Hop::failed("credential", "the account is not active"),
        (401 | 403, _) => Hop::failed("credential", "refused"),
        (404, _) => Hop::failed("credential", "there is no such account"),
        (status, _) => Hop::failed("answer", format!("status {status}")),
    }
}

fn rejected(refusal: Refusal, code: &str, message: String) -> Answer {
    Answer::Rejected { refusal, code: code.to_owned(), message }
}

fn not_sent(proof: Proof, message: &str) -> Answer {
    Answer::NotSent { proof, message: message.to_owned() }
}

fn too_late() -> Answer {
    not_sent(Proof::Deadline, "the deadline passed before the first byte")
}
