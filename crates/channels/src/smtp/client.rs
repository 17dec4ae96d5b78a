//! SMTP as a channel. Each message waits for a place among the connections, is written and signed, and goes out over a session
//! that waits or a new one.
//!
//! What must never happen: a first byte after the deadline; a second try after the final dot (before it a session that its
//! server had closed is replaced, once); a login that is tried again and again after it was refused.

use super::answer::{Stage, Verdict, answer};
use super::domains::Domains;
use super::limits::{CREDENTIAL_REST_MS, MAILS_PER_CONNECTION_MAX, TEXT_BYTES_MAX};
use super::payload::{Envelope, domain, stuffed};
use super::pool::Idle;
use super::reply::Reply;
use super::session::{Broken, Opener, within};
use super::settings::{Secrets, Security, Settings};
use crate::email::compose::MailError;
use crate::email::warm_up::Days;
use crate::email::{Batch, Composer};
use crate::fields::SettingsError;
use crate::probe::Hop;
use fantail_outbound::pool::Ports;
use fantail_outbound::tls;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Proof, Report, Scope, Shipment};
use fantail_rules::ids::Millis;
use futures_util::stream::{self, StreamExt};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use tracing::error;

/// Must be used inside a tokio runtime: its sockets belong to one.
pub struct Smtp {
    composer: Arc<Composer>,
    opener: Opener,
    idle: Arc<Idle>,
    places: Semaphore,
    domains: Domains,
    days: Days,
    /// Until when everything gets the same answer without being asked for.
    rest: Mutex<Option<(Millis, Answer)>>,
}

impl Smtp {
    pub fn open(settings: Settings, secrets: Secrets, ports: Ports) -> Result<Self, SettingsError> {
        let tls = match settings.security {
            Security::None => None,
            Security::Tls | Security::StartTls => {
                let roots = settings.ca_pem.as_deref().unwrap_or_default();
                let config = tls::client(roots.as_bytes(), &[]);
                Some(config.map_err(|error| SettingsError::new("/caPem", error.to_string()))?)
            }
        };
        Ok(Self {
            composer: Arc::new(Composer::new(settings.sender.clone(), &secrets.sender)?),
            idle: Idle::new(settings.connections_max, ports.clone()),
            places: Semaphore::new(settings.connections_max),
            domains: Domains::default(),
            days: Days::new(settings.sender.warm_up),
            rest: Mutex::default(),
            opener: Opener { login: secrets.login, tls, ports, settings },
        })
    }

    /// Connections that wait for their next mail.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.idle.count()
    }

    /// Mails that can be under way.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        self.opener.settings.connections_max
    }

    /// Connects, greets, logs in and leaves again; sends nothing.
    pub async fn probe(&self) -> Vec<Hop> {
        let Settings { host, port, security, .. } = &self.opener.settings;
        let mut hops =
            vec![Hop { name: "settings", ok: true, detail: format!("{host}:{port}, {security:?}") }];
        let until = self.now().plus(PROBE_MS_MAX);
        let names = ["connect", "credential"];
        let (passed, failed) = match self.opener.open(until).await {
            Ok(session) => {
                session.quit().await;
                (names.len(), None)
            }
            Err(Broken::Lost { stage: Stage::Greeting, message, .. }) => (0, Some(message)),
            Err(Broken::Refused { stage: Stage::Greeting, reply }) => (0, Some(reply.codes())),
            Err(Broken::NoStartTls) => (0, Some("the relay offers no STARTTLS".to_owned())),
            Err(Broken::NoAuth) => (1, Some("the relay offers no login that we know".to_owned())),
            Err(Broken::Lost { message, .. }) => (1, Some(message)),
            Err(Broken::Refused { reply, .. }) => (1, Some(reply.codes())),
        };
        hops.extend(names[..passed].iter().map(|name| Hop { name, ok: true, detail: String::new() }));
        hops.extend(failed.map(|detail| Hop { name: names[passed], ok: false, detail }));
        hops
    }

    fn now(&self) -> Millis {
        self.opener.ports.clock.monotonic()
    }

    async fn deliver(&self, shipment: &Shipment, index: usize, batch: &Batch<'_>, report: &Report<'_>) {
        let message = &shipment.messages[index];
        if let Some(answer) = self.resting(message) {
            return report(index, answer);
        }
        let place = within(&self.opener.ports, shipment.deadline, self.places.acquire()).await;
        let Some(_place) = place else { return report(index, too_late()) };
        if let Some(answer) = self.resting(message) {
            return report(index, answer);
        }
        // Boxed, because most of a shipment waits for a place and should be small meanwhile.
        report(index, Box::pin(self.attempt(shipment, message, batch)).await);
    }

    /// What can be said without asking the relay.
    fn resting(&self, message: &Message) -> Option<Answer> {
        let now = self.now();
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        rest.take_if(|(until, _)| *until <= now);
        if let Some((_, answer)) = &*rest {
            return Some(answer.clone());
        }
        let address = std::str::from_utf8(&message.endpoint).ok()?;
        let after_ms = self.domains.rests_ms(&domain(address).to_ascii_lowercase(), now)?;
        Some(not_sent(Proof::Resting { after_ms }, "its domain is left alone"))
    }

    async fn attempt(&self, shipment: &Shipment, message: &Message, batch: &Batch<'_>) -> Answer {
        if self.now() > shipment.deadline {
            return too_late();
        }
        let mail = match batch.mail(message, self.opener.ports.clock.wall()).await {
            Ok(mail) => mail,
            Err(error) => return error.answer(),
        };
        let return_path = &self.opener.settings.return_path;
        let Some(envelope) = Envelope::new(return_path, &message.reference, &mail.to) else {
            return MailError::Reference.answer();
        };
        let wall = self.opener.ports.clock.wall();
        if let Err(after_ms) = self.days.take(wall) {
            let message = "the sender is new, and has sent what it may today".to_owned();
            let (after_ms, scope) = (Some(after_ms), Scope::Credential);
            return Answer::Later { after_ms, scope, code: "warm-up".into(), message };
        }
        let answer = self.send_mail(&envelope, &stuffed(&mail.bytes), shipment.deadline).await;
        match answer {
            Answer::Accepted { .. } | Answer::Unknown { .. } => {}
            Answer::Rejected { .. } | Answer::Later { .. } | Answer::NotSent { .. } => {
                self.days.put_back(wall)
            }
        }
        answer
    }

    async fn send_mail(&self, envelope: &Envelope, mail: &[u8], deadline: Millis) -> Answer {
        let waiting = self.idle.take().await;
        if let Some(mut session) = waiting {
            if self.now() > deadline {
                return too_late();
            }
            match session.send(envelope, mail).await {
                Ok((stage, reply)) => return self.settle(envelope, stage, &reply, Some(session)),
                // Its server had closed it: nothing was taken.
                Err(Broken::Lost { stage, code: "reset", .. }) if stage < Stage::Dot => {}
                Err(broken) => return self.broken(broken, envelope, deadline),
            }
        }
        let mut session = match self.opener.open(deadline).await {
            Ok(session) => session,
            Err(broken) => return self.broken(broken, envelope, deadline),
        };
        if self.now() > deadline {
            return too_late();
        }
        match session.send(envelope, mail).await {
            Ok((stage, reply)) => self.settle(envelope, stage, &reply, Some(session)),
            Err(broken) => self.broken(broken, envelope, deadline),
        }
    }

    fn settle(
        &self,
        envelope: &Envelope,
        stage: Stage,
        reply: &Reply,
        session: Option<super::session::Session>,
    ) -> Answer {
        let Verdict { answer, domain_rests_ms, needs_operator, closes } = answer(stage, reply);
        let now = self.now();
        if needs_operator {
            error!(provider = "smtp", code = %reply.codes(), ?stage, "the relay refuses what an operator has to change");
        }
        if let Some(span_ms) = domain_rests_ms {
            self.domains.rest(envelope.domain(), now, span_ms);
        }
        if let Answer::Later { after_ms: Some(after_ms), scope: Scope::Origin | Scope::Credential, .. } =
            &answer
        {
            let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
            *rest = Some((now.plus(*after_ms), answer.clone()));
        }
        match session {
            Some(session) if closes => drop(session),
            Some(session) if session.mails >= MAILS_PER_CONNECTION_MAX => {
                self.opener.ports.tasks.spawn("smtp goodbye", Box::pin(session.quit()));
            }
            Some(session) => self.idle.put(session),
            None => {}
        }
        answer
    }

    fn broken(&self, broken: Broken, envelope: &Envelope, deadline: Millis) -> Answer {
        match broken {
            Broken::Refused { stage, reply } => self.settle(envelope, stage, &reply, None),
            Broken::NoAuth | Broken::NoStartTls => {
                let code = if broken == Broken::NoAuth { "no-auth" } else { "no-starttls" };
                error!(provider = "smtp", code, "the relay does not offer what the settings ask for");
                let message = "the relay does not offer what the settings ask for".to_owned();
                let (after_ms, scope) = (Some(CREDENTIAL_REST_MS), Scope::Credential);
                Answer::Later { after_ms, scope, code: code.into(), message }
            }
            Broken::Lost { stage: Stage::Dot, code, message } => {
                Answer::Unknown { code: code.into(), message: shortened(message) }
            }
            Broken::Lost { stage, message, .. } => {
                if stage < Stage::Mail && self.now() >= deadline {
                    return too_late();
                }
                let proof = if stage < Stage::Mail { Proof::NoConnection } else { Proof::Unprocessed };
                not_sent(proof, &message)
            }
        }
    }
}

const PROBE_MS_MAX: u64 = 15_000;

impl Channel for Smtp {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let batch = &Batch::new(&self.composer, shipment, &self.opener.ports.clock);
            stream::iter(0..shipment.messages.len())
                .for_each_concurrent(None, |index| self.deliver(shipment, index, batch, report))
                .await;
        })
    }
}

fn too_late() -> Answer {
    not_sent(Proof::Deadline, "the deadline passed before the first byte")
}

fn not_sent(proof: Proof, message: &str) -> Answer {
    Answer::NotSent { proof, message: shortened(message.to_owned()) }
}

fn shortened(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(TEXT_BYTES_MAX));
    message
}
