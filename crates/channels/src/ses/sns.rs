//! Who is believed: messages about topics that the operator named, signed by a certificate that came from SNS itself.
//!
//! Comes from: the path where SNS posts. Does: checks topic and signature (the certificate is fetched over TLS from a host of
//! SNS, and remembered), says what it is about. Goes to: the API, which writes the event down and then has it remembered here.

use super::envelope::{Envelope, EnvelopeError, Kind, SnsHost, url_of_sns};
use super::events::{self, EventError};
use super::limits::{
    ANSWER_MS_MAX, CERTIFICATE_BYTES_MAX, CERTIFICATE_MS, CERTIFICATES_MAX, MISSING_MAX, MISSING_MS,
    REMEMBERED_MAX,
};
use super::settings::Settings;
use crate::fields::SettingsError;
use crate::receipt::Event;
use crate::remembered::Remembered;
use bytes::Bytes;
use fantail_outbound::pool::{Pool, Ports, Target, Timing};
use fantail_outbound::tls;
use fantail_rules::ids::Millis;
use hyper::Request;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use tokio_rustls::rustls::ClientConfig;

/// Must be used inside a tokio runtime: its sockets belong to one.
pub struct Sns {
    topics: BTreeSet<String>,
    hosts: BTreeSet<SnsHost>,
    tls: Arc<ClientConfig>,
    connect_to: Option<SocketAddr>,
    ports: Ports,
    /// By URL, with the time until which they are believed.
    certificates: Mutex<BTreeMap<String, (Millis, Bytes)>>,
    /// Those that could not be fetched, and until when they are not asked for again.
    missing: Mutex<BTreeMap<String, Millis>>,
    fetch: Semaphore,
    messages: Remembered,
}

/// What a message of SNS comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// To be written down; then [`Sns::remember`] its message.
    Event { event: Event, message_id: String },
    /// Nothing that changes a delivery.
    Nothing,
    /// It was here before.
    Repeat,
    /// We were subscribed to a topic that we know: [`Sns::confirm`] says that we want it.
    Confirm { url: String },
    /// We were unsubscribed.
    Unsubscribed { topic: String },
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SnsError {
    #[error("{0}")]
    Envelope(#[from] EnvelopeError),
    #[error("the topic is not one of ours")]
    UnknownTopic,
    /// SNS tries again: it should be answered with a 5xx.
    #[error("the certificate cannot be fetched: {reason}")]
    NoCertificate { reason: String },
    #[error("{0}")]
    Event(#[from] EventError),
    /// SNS tries again.
    #[error("the subscription was not confirmed: {reason}")]
    NotConfirmed { reason: String },
}

impl SnsError {
    /// Whether the same message may be believed later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::NoCertificate { .. } | Self::NotConfirmed { .. } => true,
            Self::Envelope(_) | Self::UnknownTopic | Self::Event(_) => false,
        }
    }
}

impl Sns {
    /// For the topics of an account.
    pub fn open(settings: &Settings, ports: Ports) -> Result<Self, SettingsError> {
        let roots = settings.ca_pem.as_deref().unwrap_or_default();
        let tls = tls::client(roots.as_bytes(), &[b"http/1.1"]);
        Ok(Self {
            topics: settings.event_topics.iter().cloned().collect(),
            hosts: settings.event_topics.iter().filter_map(|topic| SnsHost::of_topic(topic)).collect(),
            tls: tls.map_err(|error| SettingsError::new("/caPem", error.to_string()))?,
            connect_to: settings.connect_to,
            ports,
            certificates: Mutex::default(),
            missing: Mutex::default(),
            fetch: Semaphore::new(1),
            messages: Remembered::new(REMEMBERED_MAX),
        })
    }

    /// The body of a post.
    pub async fn take(&self, body: &[u8]) -> Result<Told, SnsError> {
        let envelope = Envelope::read(body)?;
        if !self.topics.contains(&envelope.topic) {
            return Err(SnsError::UnknownTopic);
        }
        let certificate = self.certificate(&envelope.certificate_url).await?;
        envelope.verify(&certificate, self.ports.clock.wall())?;
        let Envelope { kind, message_id, topic, message, .. } = envelope;
        match kind {
            Kind::Subscription { url, .. } => Ok(Told::Confirm { url }),
            Kind::Unsubscription { .. } => Ok(Told::Unsubscribed { topic }),
            Kind::Notification if self.messages.contains(&message_id) => Ok(Told::Repeat),
            Kind::Notification => match events::read(&message) {
                Ok(Some(event)) => Ok(Told::Event { event, message_id }),
                // SES posts one to say that publishing works.
                Ok(None) | Err(EventError::NotAnEvent) => Ok(Told::Nothing),
                Err(error @ EventError::NoReference) => Err(error.into()),
            },
        }
    }

    /// Its event is durable: a repeat is none.
    pub fn remember(&self, message_id: String) {
        self.messages.insert(message_id);
    }

    /// Says that we want to hear of a topic. The URL is one that `take` gave.
    pub async fn confirm(&self, url: &str) -> Result<(), SnsError> {
        self.get(url).await.map(|_| ()).map_err(|reason| SnsError::NotConfirmed { reason })
    }

    async fn certificate(&self, url: &str) -> Result<Bytes, SnsError> {
        let now = self.ports.clock.monotonic();
        let found = self.certificates().get(url).filter(|(until, _)| *until > now).cloned();
        if let Some((_, certificate)) = found {
            return Ok(certificate);
        }
        // Whoever knows a topic can name certificates that do not exist: one is asked for at a time, and not again at once.
        let not_now = |reason: &str| SnsError::NoCertificate { reason: reason.to_owned() };
        let _one_at_a_time = self.fetch.try_acquire().map_err(|_| not_now("another one is being fetched"))?;
        if self.missing().get(url).is_some_and(|until| *until > now) {
            return Err(not_now("it could not be fetched a moment ago"));
        }
        let fetched = self.get(url).await;
        if fetched.is_err() {
            let mut missing = self.missing();
            missing.retain(|_, until| *until > now);
            if missing.len() < MISSING_MAX {
                missing.insert(url.to_owned(), now.plus(MISSING_MS));
            }
        }
        let certificate = fetched.map_err(|reason| SnsError::NoCertificate { reason })?;
        if certificate.len() > CERTIFICATE_BYTES_MAX {
            return Err(SnsError::NoCertificate { reason: "it is too large".to_owned() });
        }
        let mut certificates = self.certificates();
        certificates.retain(|_, (until, _)| *until > now);
        if certificates.len() < CERTIFICATES_MAX {
            certificates.insert(url.to_owned(), (now.plus(CERTIFICATE_MS), certificate.clone()));
        }
        Ok(certificate)
    }

    /// Only from hosts of SNS in the regions of the account's topics, over TLS.
    async fn get(&self, url: &str) -> Result<Bytes, String> {
        let is_of_ours = self.hosts.iter().any(|host| host.has(url));
        let (host, path) = url_of_sns(url).filter(|_| is_of_ours).ok_or("this is no URL of SNS")?;
        let target = Target {
            host: host.to_owned(),
            port: 443,
            at: self.connect_to.into(),
            tls: Some(Arc::clone(&self.tls)),
        };
        let request = Request::get(path).body(Bytes::new()).map_err(|error| error.to_string())?;
        let start_by = self.ports.clock.monotonic().plus(ANSWER_MS_MAX);
        let timing = Timing { start_by, answer_within_ms: ANSWER_MS_MAX };
        let reply = Pool::new(target, self.ports.clone()).call(request, timing).await;
        let reply = reply.map_err(|failure| failure.to_string())?;
        if !reply.status.is_success() {
            return Err(format!("SNS answers {}", reply.status.as_u16()));
        }
        Ok(reply.body)
    }

    fn missing(&self) -> MutexGuard<'_, BTreeMap<String, Millis>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn certificates(&self) -> MutexGuard<'_, BTreeMap<String, (Millis, Bytes)>> {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
