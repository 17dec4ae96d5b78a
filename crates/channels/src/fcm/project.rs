//! One project: its connections, its token, its pace; and a feed that gives out messages as fast as it may be sent to.

use super::pace::{Pace, Permits};
use super::token::{TokenSource, authorize};
use crate::probe::Hop;
use bytes::Bytes;
use fantail_outbound::pool::{Failure, Pool, Ports, Timing};
use fantail_ports::channel::{Answer, Proof};
use fantail_rules::ids::Millis;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub const ANSWER_MS_MAX: u64 = 10_000;

pub struct Project {
    pub id: String,
    pub weight: u32,
    /// Of `messages:send`.
    pub path: String,
    pub pool: Pool,
    pub tokens: TokenSource,
    pub pace: Mutex<Pace>,
}

impl Project {
    pub fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn probe(&self, ports: &Ports, hops: &mut Vec<Hop>) {
        let deadline = ports.clock.monotonic().plus(ANSWER_MS_MAX);
        let header = match self.tokens.get(deadline).await {
            Ok(header) => header,
            Err(failure) => return hops.push(Hop::failed("credential", format!("{}: {failure}", self.id))),
        };
        hops.push(Hop::passed("credential", format!("{}: there is an access token", self.id)));
        let body = r#"{"validate_only":true,"message":{"topic":"fantail-probe","data":{"probe":"1"}}}"#;
        let Some(mut request) = json_post(&self.path, Bytes::from_static(body.as_bytes())) else { return };
        authorize(&mut request, header);
        let timing = Timing { start_by: deadline, answer_within_ms: ANSWER_MS_MAX };
        hops.push(match self.pool.call(request, timing).await {
            Ok(reply) if reply.status.is_success() => Hop::passed("answer", format!("{}: checked", self.id)),
            Ok(reply) => Hop::failed("answer", format!("{}: status {}", self.id, reply.status.as_u16())),
            Err(Failure::NotSent { message, .. }) => {
                Hop::failed("connect", format!("{}: {message}", self.id))
            }
            Err(Failure::Unknown { message, .. }) => Hop::failed("answer", format!("{}: {message}", self.id)),
        });
    }
}

/// Why the messages that are left do not begin.
#[derive(Clone, Copy)]
enum End {
    /// The project is left alone.
    Rest { after_ms: u64 },
    /// The quota has room for them, but too late.
    NoRoom { until: Millis },
}

/// Gives out the messages of one project, each when it may begin.
pub struct Feed<'a> {
    ports: &'a Ports,
    project: &'a Project,
    /// Their places in the shipment.
    group: &'a [usize],
    next: usize,
    granted: u32,
    /// Nothing more begins in time.
    end: Option<End>,
}

impl<'a> Feed<'a> {
    pub fn new(ports: &'a Ports, project: &'a Project, group: &'a [usize]) -> Self {
        Self { ports, project, group, next: 0, granted: 0, end: None }
    }

    /// The next message and, if it may not be sent, its answer. `None` when all have had their turn.
    pub async fn turn(&mut self, deadline: Millis) -> Option<(usize, Option<Answer>)> {
        let index = *self.group.get(self.next)?;
        while self.granted == 0 && self.end.is_none() {
            let now = self.ports.clock.monotonic();
            let wanted = u32::try_from(self.group.len() - self.next).unwrap_or(u32::MAX);
            let permits = self.project.pace().take(now, wanted);
            match permits {
                Permits::Granted(granted) => self.granted = granted,
                Permits::Rest { after_ms } => self.end = Some(End::Rest { after_ms }),
                Permits::Wait { until } if until > deadline => self.end = Some(End::NoRoom { until }),
                Permits::Wait { until } => self.ports.tasks.sleep_until(until).await,
            }
        }
        self.next += 1;
        match self.end {
            Some(End::Rest { after_ms }) => Some((index, Some(resting(after_ms)))),
            Some(End::NoRoom { until }) => {
                let now = self.ports.clock.monotonic();
                Some((index, Some(no_room(self.project.pace().book(now, until)))))
            }
            None => {
                self.granted -= 1;
                Some((index, None))
            }
        }
    }
}

impl Drop for Feed<'_> {
    fn drop(&mut self) {
        self.project.pace().put_back(self.granted);
    }
}

pub fn json_post(path: &str, body: Bytes) -> Option<Request<Bytes>> {
    let request = Request::builder().method(Method::POST).uri(path).header(CONTENT_TYPE, "application/json");
    request.body(body).ok()
}

fn resting(after_ms: u64) -> Answer {
    Answer::NotSent { proof: Proof::Resting { after_ms }, message: "its project is left alone".to_owned() }
}

fn no_room(after_ms: u64) -> Answer {
    let message = "the quota of its project has no room".to_owned();
    Answer::NotSent { proof: Proof::NoRoom { after_ms }, message }
}
