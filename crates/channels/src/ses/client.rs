//! SES as a channel. The account is asked what it may before the first mail; each message waits for its turn, is written and
//! signed, and goes out as it is. Many in one call are the business of `bulk`.
//!
//! What must never happen: a turn before the account allows it, a first byte after the deadline.

use super::answer::{News, Verdict, answer};
use super::limits::{
    ACCOUNT_AGAIN_MS, ACCOUNT_MS, ANSWER_MS_MAX, BULK_ENTRIES_MAX, CALLS_MAX, MAIL_BYTES_MAX, PAUSED_REST_MS,
    TEXT_BYTES_MAX,
};
use super::pace::{Pace, Wait};
use super::payload::{Account, get_account, send_email};
use super::settings::{Secrets, Settings};
use crate::email::warm_up::Days;
use crate::email::{Batch, Composer, Mail};
use crate::fields::SettingsError;
use crate::probe::Hop;
use bytes::Bytes;
use fantail_outbound::pool::{Failure, Pool, Ports, Reply, Target, Timing};
use fantail_outbound::sigv4::{Credentials, Service, sign};
use fantail_outbound::tls;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Proof, Refusal, Report, Scope, Shipment};
use fantail_rules::ids::Millis;
use futures_util::stream::{self, StreamExt};
use hyper::Request;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use tracing::{error, warn};

/// Must be used inside a tokio runtime: its sockets belong to one.
pub struct Ses {
    composer: Arc<Composer>,
    pub(super) settings: Settings,
    credentials: Credentials,
    service: Service,
    pool: Pool,
    pub(super) ports: Ports,
    pub(super) calls: Semaphore,
    /// One question at a time what the account may.
    asking: Semaphore,
    days: Days,
    state: Mutex<State>,
}

struct State {
    pace: Pace,
    /// When the account is to be asked what it may.
    ask_at: Millis,
    /// Whether it ever said.
    is_known: bool,
    /// Until when everything gets the same answer without being asked for.
    rest: Option<(Millis, Answer)>,
}

impl Ses {
    pub fn open(settings: Settings, secrets: Secrets, ports: Ports) -> Result<Self, SettingsError> {
        let endpoint = &settings.endpoint;
        let roots = settings.ca_pem.as_deref().unwrap_or_default();
        let tls = endpoint.is_tls.then(|| tls::client(roots.as_bytes(), &[b"http/1.1"])).transpose();
        let tls = tls.map_err(|error| SettingsError::new("/caPem", error.to_string()))?;
        let (host, port) = (endpoint.host.clone(), endpoint.port);
        let target = Target { host, port, at: settings.connect_to.into(), tls };
        let state =
            State { pace: Pace::new(settings.rate_max), ask_at: Millis(0), is_known: false, rest: None };
        Ok(Self {
            composer: Arc::new(Composer::new(settings.sender.clone(), &secrets.sender)?),
            service: Service { name: "ses".to_owned(), region: settings.region.clone() },
            credentials: secrets.credentials,
            pool: Pool::new(target, ports.clone()),
            calls: Semaphore::new(CALLS_MAX),
            asking: Semaphore::new(1),
            days: Days::new(settings.sender.warm_up),
            state: Mutex::new(state),
            settings,
            ports,
        })
    }

    /// Asks the account what it may; sends nothing.
    pub async fn probe(&self) -> Vec<Hop> {
        let endpoint = self.settings.endpoint.authority();
        let mut hops = vec![Hop { name: "settings", ok: true, detail: endpoint }];
        let hop = |name, ok, detail: &str| Hop { name, ok, detail: detail.to_owned() };
        let reply = match self.call(get_account(), self.now().plus(ANSWER_MS_MAX)).await {
            Ok(reply) => reply,
            Err(failure) => {
                hops.push(hop("connect", false, &failure.to_string()));
                return hops;
            }
        };
        hops.push(hop("connect", true, ""));
        if !reply.status.is_success() {
            let Verdict { answer, .. } = answer(reply.status, &reply.headers, &reply.body);
            hops.push(hop("credential", false, &code(&answer)));
            return hops;
        }
        hops.push(hop("credential", true, ""));
        hops.push(match Account::read(&reply.body) {
            Some(account) if account.may_send => {
                hop("answer", true, &format!("may send {} per second", account.per_second))
            }
            Some(_) => hop("answer", false, "the account may not send"),
            None => hop("answer", false, "the account says nothing of a quota"),
        });
        hops
    }

    /// Mails that can be under way.
    #[must_use]
    pub fn places(&self) -> usize {
        let together = if self.settings.bulk { BULK_ENTRIES_MAX } else { 1 };
        CALLS_MAX * together
    }

    pub(super) fn now(&self) -> Millis {
        self.ports.clock.monotonic()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the account what it may, if it is time to. Whoever comes meanwhile waits for the first answer; later ones go on with
    /// what is known.
    async fn learn(&self, deadline: Millis) {
        let is_due = |state: &State| self.now() >= state.ask_at && self.now() <= deadline;
        let (due, is_known) = {
            let state = self.state();
            (is_due(&state), state.is_known)
        };
        if !due {
            return;
        }
        let permit = match is_known {
            true => self.asking.try_acquire().ok(),
            false => self.within(deadline, self.asking.acquire()).await.and_then(Result::ok),
        };
        let Some(_permit) = permit else { return };
        if is_due(&self.state()) {
            self.ask(deadline).await;
        }
    }

    async fn ask(&self, deadline: Millis) {
        let account = match self.call(get_account(), deadline).await {
            Ok(reply) if reply.status.is_success() => Account::read(&reply.body),
            Ok(reply) => {
                warn!(provider = "ses", status = %reply.status, "the account did not say what it may");
                None
            }
            Err(failure) => {
                warn!(provider = "ses", %failure, "the account did not say what it may");
                None
            }
        };
        let now = self.now();
        let mut state = self.state();
        let Some(account) = account else {
            state.ask_at = now.plus(ACCOUNT_AGAIN_MS);
            return;
        };
        (state.ask_at, state.is_known) = (now.plus(ACCOUNT_MS), true);
        state.pace.learn(&account);
        if !account.may_send {
            error!(provider = "ses", code = "SendingEnabled", "the account may not send");
            let message = "the account may not send".to_owned();
            let (after_ms, scope) = (Some(PAUSED_REST_MS), Scope::Credential);
            let answer = Answer::Later { after_ms, scope, code: "SendingEnabled".into(), message };
            state.rest = Some((now.plus(PAUSED_REST_MS), answer));
        }
    }

    async fn deliver(&self, shipment: &Shipment, index: usize, batch: &Batch<'_>, report: &Report<'_>) {
        let message = &shipment.messages[index];
        let permit = self.within(shipment.deadline, self.calls.acquire()).await;
        // Boxed, because most of a shipment waits for a permit and should be small meanwhile.
        let answer = match permit {
            Some(_permit) => Box::pin(self.attempt(shipment, message, batch)).await,
            None => too_late(),
        };
        report(index, answer);
    }

    pub(super) async fn attempt(&self, shipment: &Shipment, message: &Message, batch: &Batch<'_>) -> Answer {
        if self.now() > shipment.deadline {
            return too_late();
        }
        let mail = match batch.mail(message, self.ports.clock.wall()).await {
            Ok(mail) if mail.bytes.len() <= MAIL_BYTES_MAX => mail,
            Ok(_) => return rejected(Refusal::Message, "too-large", "the mail is too large"),
            Err(error) => return error.answer(),
        };
        let at = match self.turn(shipment.deadline) {
            Ok(at) => at,
            Err(answer) => return answer,
        };
        if at > self.now() {
            self.ports.tasks.sleep_until(at).await;
        }
        let wall = self.ports.clock.wall();
        if let Err(answer) = self.warm(wall) {
            return answer;
        }
        let answer = self.send_mail(&mail, &message.reference, shipment.deadline).await;
        self.settle(&answer, wall);
        answer
    }

    /// One mail of today, of a sender that is new. A turn was taken before, and is given back if there is none.
    pub(super) fn warm(&self, wall: Millis) -> Result<(), Answer> {
        self.days.take(wall).map_err(|after_ms| {
            self.state().pace.put_back();
            later(after_ms, "warm-up", "the sender is new, and has sent what it may today")
        })
    }

    /// Does not count a mail that was not taken. It was to be sent at this wall time.
    pub(super) fn settle(&self, answer: &Answer, wall: Millis) {
        match answer {
            Answer::Accepted { .. } | Answer::Unknown { .. } => {}
            Answer::Rejected { .. } | Answer::Later { .. } | Answer::NotSent { .. } => {
                self.days.put_back(wall);
                self.state().pace.put_back();
            }
        }
    }

    pub(super) fn turn(&self, deadline: Millis) -> Result<Millis, Answer> {
        let now = self.now();
        let mut state = self.state();
        state.rest.take_if(|(until, _)| *until <= now);
        if let Some((_, answer)) = &state.rest {
            return Err(answer.clone());
        }
        match state.pace.turn(now, deadline) {
            Ok(at) => Ok(at),
            Err(Wait::Rate { after_ms }) => {
                let message = "the account sends as fast as it may".to_owned();
                Err(Answer::NotSent { proof: Proof::NoRoom { after_ms }, message })
            }
            Err(Wait::Day { after_ms }) => {
                Err(later(after_ms, "day", "the account has used up its 24 hours"))
            }
        }
    }

    async fn send_mail(&self, mail: &Mail, reference: &str, deadline: Millis) -> Answer {
        let request = send_email(&self.settings, mail, reference);
        let reply = match self.call(request, deadline).await {
            Ok(reply) => reply,
            Err(failure) => return failed(failure),
        };
        let verdict = answer(reply.status, &reply.headers, &reply.body);
        self.heed(&verdict);
        verdict.answer
    }

    /// What an answer says about the account.
    pub(super) fn heed(&self, Verdict { answer, news }: &Verdict) {
        let now = self.now();
        let mut state = self.state();
        match news {
            News::Nothing => {}
            News::Works => state.pace.worked(now),
            News::Throttled => state.pace.throttled(now),
            News::DayIsOver => state.pace.day_is_over(),
            News::NeedsOperator => {
                error!(provider = "ses", code = %code(answer), "the provider refuses what an operator has to change");
            }
        }
        if let Answer::Later { after_ms: Some(after_ms), scope: Scope::Credential, .. } = answer {
            state.rest = Some((now.plus(*after_ms), answer.clone()));
        }
    }

    pub(super) async fn within<F: Future>(&self, until: Millis, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.ports.tasks.sleep_until(until) => None,
        }
    }

    pub(super) async fn call(&self, mut request: Request<Bytes>, deadline: Millis) -> Result<Reply, Failure> {
        let host = self.settings.endpoint.authority();
        let signed = sign(&mut request, &host, &self.service, &self.credentials, self.ports.clock.wall());
        if let Err(error) = signed {
            return Err(Failure::NotSent { proof: Proof::Unprocessed, message: error.to_string() });
        }
        let timing = Timing { start_by: deadline, answer_within_ms: ANSWER_MS_MAX };
        self.pool.call(request, timing).await
    }
}

impl Channel for Ses {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !shipment.messages.is_empty() {
                self.learn(shipment.deadline).await;
            }
            let batch = &Batch::new(&self.composer, shipment, &self.ports.clock);
            if self.settings.bulk {
                return self.deliver_all(shipment, batch, report).await;
            }
            stream::iter(0..shipment.messages.len())
                .for_each_concurrent(None, |index| self.deliver(shipment, index, batch, report))
                .await;
        })
    }
}

fn code(answer: &Answer) -> String {
    match answer {
        Answer::Rejected { code, .. } | Answer::Later { code, .. } | Answer::Unknown { code, .. } => {
            code.clone()
        }
        Answer::Accepted { .. } | Answer::NotSent { .. } => String::new(),
    }
}

pub(super) fn failed(failure: Failure) -> Answer {
    match failure {
        Failure::NotSent { proof, message } => Answer::NotSent { proof, message: shortened(message) },
        Failure::Unknown { code, message } => {
            Answer::Unknown { code: code.to_owned(), message: shortened(message) }
        }
    }
}

pub(super) fn too_late() -> Answer {
    let message = "the deadline passed before the first byte".to_owned();
    Answer::NotSent { proof: Proof::Deadline, message }
}

fn later(after_ms: u64, code: &str, message: &str) -> Answer {
    let (after_ms, scope) = (Some(after_ms), Scope::Credential);
    Answer::Later { after_ms, scope, code: code.to_owned(), message: message.to_owned() }
}

fn rejected(refusal: Refusal, code: &str, message: &str) -> Answer {
    Answer::Rejected { refusal, code: code.to_owned(), message: message.to_owned() }
}

fn shortened(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(TEXT_BYTES_MAX));
    message
}
