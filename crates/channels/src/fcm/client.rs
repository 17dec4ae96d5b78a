//! FCM as a channel: each message goes to its project, at that project's pace, with that project's token.
//!
//! What must never happen: a message that is sent twice by one attempt (a second request follows only a refused token), a
//! project whose trouble becomes another's, or a doubt about a device that is believed before the shipment is over.

use super::answer::{self, Note, Read};
use super::pace::Pace;
use super::payload::{PayloadError, Prepared, Terms};
use super::project::{ANSWER_MS_MAX, Feed, Project, json_post};
use super::settings::{ProjectSettings, Secrets, ServiceAccount, Settings};
use super::shard::{Candidate, place_of};
use super::token::{TokenSource, authorize};
use crate::alerts::Alerts;
use crate::dead_guard::{DeadGuard, Doubts, is_said_by_provider};
use crate::fields::{Base, SettingsError};
use crate::probe::Hop;
use crate::push_content::PushContent;
use bytes::Bytes;
use fantail_outbound::pool::{Failure, Pool, Ports, Target, Timing};
use fantail_outbound::tls;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Proof, Refusal, Report, Shipment};
use fantail_rules::ids::Millis;
use fantail_rules::pacing::{Call, News};
use fantail_rules::push_address::{PushAddress, Service};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use hyper::Request;
use hyper::header::HeaderValue;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tokio_rustls::rustls::ClientConfig;
use tracing::info;

const PROVIDER: &str = "fcm";
/// Requests under way of one shipment to one project.
const CONCURRENCY_MAX: usize = 256;
const MESSAGE_BYTES_MAX: usize = 200;

/// Must be used inside a tokio runtime: its sockets belong to one.
pub struct Fcm {
    ports: Ports,
    projects: Vec<Project>,
    android_channel_id: Option<String>,
    guard: DeadGuard,
}

/// One shipment under way.
struct Run<'a> {
    shipment: &'a Shipment,
    report: &'a Report<'a>,
    /// Written once, by whoever needs it first.
    shared: OnceLock<Result<Prepared, Answer>>,
    reference_bytes: usize,
    doubts: Doubts,
    answered: AtomicU64,
    alerts: Alerts,
}

impl Fcm {
    pub fn open(settings: Settings, secrets: Secrets, ports: Ports) -> Result<Self, SettingsError> {
        let bad_roots = |error: tls::TlsError| SettingsError::new("/caPem", error.to_string());
        let tls = tls::client(&settings.ca_pem, &[b"h2", b"http/1.1"]).map_err(bad_roots)?;
        let mut wanted = settings.projects.clone();
        if wanted.is_empty() {
            wanted = of_accounts(&secrets);
        }
        if wanted.is_empty() {
            return Err(SettingsError::new("/projectId", "is missing, and no service account names one"));
        }
        let finds_failures = wanted.len() > 1;
        let now = ports.clock.monotonic();
        let project = |wanted: ProjectSettings| {
            let account = secrets.account(&wanted.project_id).ok_or_else(|| {
                SettingsError::new("/projects", format!("{} has no service account", wanted.project_id))
            })?;
            Ok(Project {
                path: format!("{}/v1/projects/{}/messages:send", settings.endpoint.path, wanted.project_id),
                pool: pool(&settings.endpoint, settings.connect_to, &tls, &ports),
                tokens: token_source(account, &settings, &tls, &ports),
                pace: Mutex::new(Pace::new(wanted.quota_per_minute, finds_failures, now)),
                weight: wanted.weight,
                id: wanted.project_id,
            })
        };
        let projects = wanted.into_iter().map(project).collect::<Result<_, SettingsError>>()?;
        let android_channel_id = settings.android_channel_id.clone();
        Ok(Self { ports, projects, android_channel_id, guard: DeadGuard::default() })
    }

    /// A new quota for a project, in force at once. `false` if there is no such project.
    pub fn set_quota(&self, project_id: &str, per_minute: u32) -> bool {
        let project = self.projects.iter().find(|project| project.id == project_id);
        let now = self.ports.clock.monotonic();
        project.map(|project| project.pace().set_quota(per_minute, now)).is_some()
    }

    /// Each hop to each project; asks FCM to check a message and to send nothing.
    pub fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        Box::pin(async move {
            let mut hops = vec![Hop::passed("settings", format!("{} projects", self.projects.len()))];
            for project in &self.projects {
                project.probe(&self.ports, &mut hops).await;
            }
            hops
        })
    }

    /// The messages of each project; what cannot be placed is reported.
    fn sort(&self, shipment: &Shipment, report: &Report<'_>) -> Vec<Vec<usize>> {
        let mut groups = vec![Vec::new(); self.projects.len()];
        for (index, message) in shipment.messages.iter().enumerate() {
            match self.place(message) {
                Ok(place) => groups[place].push(index),
                Err(answer) => report(index, answer),
            }
        }
        groups
    }

    fn place(&self, message: &Message) -> Result<usize, Answer> {
        let Some(PushAddress { service: Service::Fcm { project, .. }, .. }) =
            PushAddress::read(&message.endpoint)
        else {
            return Err(rejected(Refusal::Malformed, "endpoint", "the endpoint is no address of FCM"));
        };
        match project {
            Some(id) => self.projects.iter().position(|project| project.id == id).ok_or_else(|| {
                rejected(
                    Refusal::Message,
                    "unknown-project",
                    "the account does not have the project of the token",
                )
            }),
            None => {
                let projects = self.projects.iter();
                let candidates =
                    projects.map(|project| Candidate { id: &project.id, weight: project.weight });
                Ok(place_of(message.recipient, candidates))
            }
        }
    }

    async fn send_all(&self, shipment: &Shipment, report: &Report<'_>) {
        if self.ports.clock.monotonic() > shipment.deadline {
            return (0..shipment.messages.len()).for_each(|index| report(index, too_late()));
        }
        let run = Run {
            shipment,
            report,
            shared: OnceLock::new(),
            reference_bytes: shipment
                .messages
                .iter()
                .map(|message| message.reference.len())
                .max()
                .unwrap_or(0),
            doubts: Doubts::default(),
            answered: AtomicU64::new(0),
            alerts: Alerts::default(),
        };
        let groups = self.sort(shipment, report);
        let sending = self.projects.iter().zip(groups).filter(|(_, group)| !group.is_empty());
        join_all(sending.map(|(project, group)| self.send_group(project, group, &run))).await;
        let Run { doubts, answered, alerts, .. } = run;
        self.guard.settle(PROVIDER, answered.into_inner(), doubts, report);
        alerts.tell(PROVIDER);
    }

    /// As fast as the project may be sent to.
    async fn send_group(&self, project: &Project, group: Vec<usize>, run: &Run<'_>) {
        let feed = Feed::new(&self.ports, project, &group);
        let turns = stream::unfold(feed, |mut feed| async move {
            let turn = feed.turn(run.shipment.deadline).await?;
            Some((turn, feed))
        });
        let deliver = |(index, rest): (usize, Option<Answer>)| async move {
            match rest {
                Some(answer) => (run.report)(index, answer),
                None => self.deliver(project, index, run).await,
            }
        };
        turns.for_each_concurrent(CONCURRENCY_MAX, deliver).await;
    }

    async fn deliver(&self, project: &Project, index: usize, run: &Run<'_>) {
        let message = &run.shipment.messages[index];
        let request = match self.request(project, message, run) {
            Ok(request) => request,
            Err(answer) => {
                project.pace().put_back(1);
                return (run.report)(index, answer);
            }
        };
        let began = self.ports.clock.monotonic();
        let read = self.attempt(project, request, run.shipment.deadline).await;
        let now = self.ports.clock.monotonic();
        let news = project.pace().ended(now, Call { began, signal: read.answer.signal() });
        if let Some(News::Opened { until }) = news {
            info!(project = project.id, %until, "a project does not work and is left alone");
        }
        if let Answer::Rejected { code, .. } | Answer::Later { code, .. } | Answer::Unknown { code, .. } =
            &read.answer
            && read.note == Note::Alert
        {
            run.alerts.add(code);
        }
        match read.note {
            Note::Doubt => run.doubts.hold(index, read.answer),
            Note::Nothing | Note::Alert | Note::Refresh => {
                run.answered.fetch_add(u64::from(is_said_by_provider(&read.answer)), Ordering::Relaxed);
                (run.report)(index, read.answer);
            }
        }
    }

    /// One request; a second one if the token was refused.
    async fn attempt(&self, project: &Project, request: Request<Bytes>, deadline: Millis) -> Read {
        let mut is_second = false;
        loop {
            let header = match project.tokens.get(deadline).await {
                Ok(header) => header,
                Err(failure) => return answer::without_token(&failure),
            };
            let read = self.call(project, request.clone(), header.clone(), deadline).await;
            if read.note != Note::Refresh {
                return read;
            }
            project.tokens.refuse(&header);
            if is_second {
                return Read { note: Note::Alert, ..read };
            }
            is_second = true;
        }
    }

    async fn call(
        &self,
        project: &Project,
        mut request: Request<Bytes>,
        header: HeaderValue,
        deadline: Millis,
    ) -> Read {
        authorize(&mut request, header);
        let timing = Timing { start_by: deadline, answer_within_ms: ANSWER_MS_MAX };
        let answer = match project.pool.call(request, timing).await {
            Ok(reply) => return answer::read(&reply, self.ports.clock.wall()),
            Err(Failure::NotSent { proof, message }) => {
                Answer::NotSent { proof, message: shortened(message) }
            }
            Err(Failure::Unknown { code, message }) => {
                Answer::Unknown { code: code.to_owned(), message: shortened(message) }
            }
        };
        Read { answer, note: Note::Nothing }
    }

    fn request(&self, project: &Project, message: &Message, run: &Run<'_>) -> Result<Request<Bytes>, Answer> {
        let Some(PushAddress { service: Service::Fcm { kind, token, .. }, .. }) =
            PushAddress::read(&message.endpoint)
        else {
            return Err(rejected(Refusal::Malformed, "endpoint", "the endpoint is no address of FCM"));
        };
        let body = match &message.content {
            Some(own) => self.prepare(own, run)?.body(kind, token, &message.reference),
            None => {
                let shared = run.shared.get_or_init(|| self.prepare(&run.shipment.content, run));
                shared.as_ref().map_err(Clone::clone)?.body(kind, token, &message.reference)
            }
        };
        json_post(&project.path, body)
            .ok_or_else(|| rejected(Refusal::Malformed, "endpoint", "the path of the project is malformed"))
    }

    fn prepare(&self, content: &[u8], run: &Run<'_>) -> Result<Prepared, Answer> {
        let content = PushContent::read(content)
            .map_err(|error| rejected(Refusal::Malformed, "content", &error.to_string()))?;
        let terms = Terms {
            lane: run.shipment.lane,
            expires_at: run.shipment.expires_at,
            collapse_key: run.shipment.collapse_key.as_deref(),
            channel_id: self.android_channel_id.as_deref(),
            reference_bytes: run.reference_bytes,
            now: self.ports.clock.wall(),
        };
        Prepared::new(&content, &terms).map_err(|error| {
            let (refusal, code) = match &error {
                PayloadError::ReservedKey { .. } => (Refusal::Malformed, "reserved-key"),
                PayloadError::TooLarge => (Refusal::Malformed, "too-large"),
                PayloadError::Expired => (Refusal::Message, "expired"),
            };
            rejected(refusal, code, &error.to_string())
        })
    }
}

impl Channel for Fcm {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(self.send_all(shipment, report))
    }

    /// One project that rests says nothing about the others.
    fn paces_hosts(&self) -> bool {
        self.projects.len() > 1
    }
}

/// Those that service accounts name, in their order.
fn of_accounts(secrets: &Secrets) -> Vec<ProjectSettings> {
    let project = |account: &Arc<ServiceAccount>| {
        let project_id = account.project_id.clone()?;
        let quota_per_minute = super::settings::QUOTA_PER_MINUTE_DEFAULT;
        Some(ProjectSettings { project_id, weight: 1, quota_per_minute })
    };
    secrets.accounts.iter().filter_map(project).collect()
}

fn token_source(
    account: &Arc<ServiceAccount>,
    settings: &Settings,
    tls: &Arc<ClientConfig>,
    ports: &Ports,
) -> TokenSource {
    let base = settings.token_endpoint.as_ref().unwrap_or(&account.token_uri);
    let connect_to = settings.token_connect_to.or(settings.connect_to);
    let path = if base.path.is_empty() { "/".to_owned() } else { base.path.clone() };
    let pool = pool(base, connect_to, tls, ports);
    TokenSource::new(Arc::clone(account), path, account.audience.clone(), pool, ports.clone())
}

fn pool(base: &Base, connect_to: Option<SocketAddr>, tls: &Arc<ClientConfig>, ports: &Ports) -> Pool {
    let tls = base.is_tls.then(|| Arc::clone(tls));
    let target = Target { host: base.host.clone(), port: base.port, at: connect_to.into(), tls };
    Pool::new(target, ports.clone())
}

fn too_late() -> Answer {
    let message = "the deadline passed before the first byte".to_owned();
    Answer::NotSent { proof: Proof::Deadline, message }
}

fn rejected(refusal: Refusal, code: &str, message: &str) -> Answer {
    Answer::Rejected { refusal, code: code.to_owned(), message: shortened(message.to_owned()) }
}

fn shortened(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    message
}
