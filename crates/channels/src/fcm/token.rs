//! The access token of a service account: one for all callers, renewed before it expires.
//!
//! ```text
//!            none ──first caller──► asking ──answer──► held ──80 % of its life──► held + asking
//!             ▲                       └──failure──► resting (callers are told why) ──► none
//!             └──────────────── refused by FCM, or 95 % of its life ◄── held
//! ```
//! What must never happen: two questions at once, a caller who asks again while a failure rests, or a question that is
//! lost because the caller who began it went away: it is a task of its own.

use super::settings::ServiceAccount;
use bytes::Bytes;
use fantail_outbound::pool::{Failure, Pool, Ports, Reply, Timing};
use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;
use tracing::{error, warn};

const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
const ASSERTION_S: u64 = 3_600;
const ANSWER_MS_MAX: u64 = 10_000;
/// Doubled with every failure in a row.
const FAILURE_MS_MIN: u64 = 1_000;
const FAILURE_MS_MAX: u64 = 60_000;
/// If a renewed token is refused sooner than this, tokens are not the reason.
const YOUNG_MS: u64 = 60_000;
const LIFE_S_MAX: u64 = 24 * 3_600;
const CODE_BYTES_MAX: usize = 64;

/// Why there is no token. Holds no secrets.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenFailure {
    #[error("no access token in time")]
    Deadline,
    #[error("the token service cannot be reached: {message}")]
    Unreachable { message: String },
    #[error("the token service failed ({code})")]
    Busy { code: String, after_ms: u64 },
    /// Only an operator can mend it.
    #[error("the service account is refused ({code})")]
    Refused { code: String, after_ms: u64 },
}

/// Cheap to clone.
#[derive(Clone)]
pub struct TokenSource {
    shared: Arc<Shared>,
}

struct Shared {
    account: Arc<ServiceAccount>,
    /// Of the token service.
    path: String,
    audience: String,
    pool: Pool,
    ports: Ports,
    state: watch::Sender<State>,
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    is_asking: bool,
    /// Callers are told so until then.
    resting: Option<(Millis, TokenFailure)>,
    failures_in_row: u32,
    /// FCM refused the last one.
    was_refused: bool,
}

#[derive(Clone)]
struct Held {
    /// `Bearer …`
    header: HeaderValue,
    given_at: Millis,
    /// The one before was refused.
    replaces_refused: bool,
    renew_at: Millis,
    expires_at: Millis,
}

/// What a caller finds.
enum Found {
    Token(HeaderValue),
    Failure(TokenFailure),
    Nothing { must_ask: bool },
}

impl TokenSource {
    pub fn new(
        account: Arc<ServiceAccount>,
        path: String,
        audience: String,
        pool: Pool,
        ports: Ports,
    ) -> Self {
        let state = watch::Sender::new(State::default());
        Self { shared: Arc::new(Shared { account, path, audience, pool, ports, state }) }
    }

    /// The `authorization` header. Waits for the first token, up to the deadline.
    pub async fn get(&self, deadline: Millis) -> Result<HeaderValue, TokenFailure> {
        let Shared { ports, state, .. } = &*self.shared;
        let mut changes = state.subscribe();
        loop {
            changes.mark_unchanged();
            let (found, must_ask) = self.look();
            if must_ask {
                self.ask();
            }
            match found {
                Found::Token(header) => return Ok(header),
                Found::Failure(failure) => return Err(failure),
                Found::Nothing { .. } => {}
            }
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = ports.tasks.sleep_until(deadline) => return Err(TokenFailure::Deadline),
            }
        }
    }

    /// FCM refused this token: the next caller gets another, unless this one had just replaced a refused one.
    pub fn refuse(&self, header: &HeaderValue) {
        let now = self.shared.ports.clock.monotonic();
        self.shared.state.send_modify(|state| {
            let Some(held) = state.held.take_if(|held| held.header == *header) else { return };
            state.was_refused = true;
            if held.replaces_refused && now.since(held.given_at) < YOUNG_MS {
                let (code, after_ms) = ("UNAUTHENTICATED".to_owned(), FAILURE_MS_MAX);
                state.resting = Some((now.plus(after_ms), TokenFailure::Refused { code, after_ms }));
            }
        });
    }

    /// What is there, and whether the caller is the one who has to ask.
    fn look(&self) -> (Found, bool) {
        let now = self.shared.ports.clock.monotonic();
        let mut found = Found::Nothing { must_ask: false };
        self.shared.state.send_if_modified(|state| {
            found = state.look(now);
            false
        });
        let must_ask = match &found {
            Found::Nothing { must_ask } => *must_ask,
            Found::Token(_) => self.must_renew(now),
            Found::Failure(_) => false,
        };
        (found, must_ask)
    }

    fn must_renew(&self, now: Millis) -> bool {
        let mut must = false;
        self.shared.state.send_if_modified(|state| {
            let is_due = state.held.as_ref().is_some_and(|held| now >= held.renew_at);
            must = is_due && !state.is_asking && state.rests(now).is_none();
            state.is_asking |= must;
            false
        });
        must
    }

    fn ask(&self) {
        let shared = Arc::clone(&self.shared);
        let task = async move {
            let answer = shared.fetch().await;
            shared.settle(answer);
        };
        self.shared.ports.tasks.spawn("fcm access token", Box::pin(task));
    }
}

impl State {
    fn rests(&self, now: Millis) -> Option<&TokenFailure> {
        self.resting.as_ref().filter(|(until, _)| now < *until).map(|(_, failure)| failure)
    }

    fn look(&mut self, now: Millis) -> Found {
        if let Some(held) = self.held.as_ref().filter(|held| now < held.expires_at) {
            return Found::Token(held.header.clone());
        }
        if let Some(failure) = self.rests(now) {
            return Found::Failure(failure.clone());
        }
        let must_ask = !std::mem::replace(&mut self.is_asking, true);
        Found::Nothing { must_ask }
    }
}

impl Shared {
    async fn fetch(&self) -> Result<Held, TokenFailure> {
        let now = self.ports.clock.monotonic();
        let timing = Timing { start_by: now.plus(ANSWER_MS_MAX), answer_within_ms: ANSWER_MS_MAX };
        let unreachable = |message: String| TokenFailure::Unreachable { message };
        let request = self.request().map_err(|error| unreachable(error.to_string()))?;
        match self.pool.call(request, timing).await {
            Ok(reply) => read(&reply, &*self.ports.clock),
            Err(Failure::NotSent { message, .. }) => Err(unreachable(message)),
            Err(Failure::Unknown { code, .. }) => {
                Err(TokenFailure::Busy { code: code.to_owned(), after_ms: FAILURE_MS_MIN })
            }
        }
    }

    fn request(&self) -> Result<Request<Bytes>, hyper::http::Error> {
        let issued_s = self.ports.clock.wall().0 / 1_000;
        let claims = json!({
            "iss": self.account.client_email,
            "scope": SCOPE,
            "aud": self.audience,
            "iat": issued_s,
            "exp": issued_s + ASSERTION_S,
        });
        let assertion = self.account.signer.token(self.account.private_key_id.as_deref(), &claims);
        let form =
            format!("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={assertion}");
        Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Bytes::from(form))
    }

    fn settle(&self, answer: Result<Held, TokenFailure>) {
        let now = self.ports.clock.monotonic();
        let project = self.account.project_id.as_deref().unwrap_or_default();
        self.state.send_modify(|state| {
            state.is_asking = false;
            match answer {
                Ok(held) => {
                    let replaces_refused = std::mem::take(&mut state.was_refused);
                    state.held = Some(Held { replaces_refused, ..held });
                    state.resting = None;
                    state.failures_in_row = 0;
                }
                Err(failure) => {
                    let doubled = FAILURE_MS_MIN.saturating_mul(1 << state.failures_in_row.min(16));
                    state.failures_in_row = state.failures_in_row.saturating_add(1);
                    let rest_ms = match &failure {
                        TokenFailure::Refused { after_ms, .. } => {
                            error!(provider = "fcm", project, %failure, "no access token");
                            *after_ms
                        }
                        TokenFailure::Busy { after_ms, .. } => {
                            warn!(provider = "fcm", project, %failure, "no access token");
                            doubled.min(FAILURE_MS_MAX).max(*after_ms)
                        }
                        TokenFailure::Unreachable { .. } | TokenFailure::Deadline => {
                            warn!(provider = "fcm", project, %failure, "no access token");
                            doubled.min(FAILURE_MS_MAX)
                        }
                    };
                    state.resting = Some((now.plus(rest_ms), failure));
                }
            }
        });
    }
}

fn read(reply: &Reply, clock: &dyn Clock) -> Result<Held, TokenFailure> {
    let value: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
    if reply.status.is_success() {
        let unreadable = || TokenFailure::Busy { code: "unreadable".to_owned(), after_ms: FAILURE_MS_MIN };
        let token = value["access_token"].as_str().ok_or_else(unreadable)?;
        let life_s = value["expires_in"].as_u64().unwrap_or(ASSERTION_S).clamp(1, LIFE_S_MAX);
        return held(token, life_s, clock.monotonic()).ok_or_else(unreadable);
    }
    let mut code = value["error"].as_str().unwrap_or(reply.status.as_str()).to_owned();
    code.truncate(code.floor_char_boundary(CODE_BYTES_MAX));
    if reply.status.is_server_error() || reply.status.as_u16() == 429 {
        let after_ms = crate::retry_after::retry_after_ms(&reply.headers, clock.wall());
        return Err(TokenFailure::Busy { code, after_ms: after_ms.unwrap_or(FAILURE_MS_MIN) });
    }
    Err(TokenFailure::Refused { code, after_ms: FAILURE_MS_MAX })
}

fn held(token: &str, life_s: u64, now: Millis) -> Option<Held> {
    let mut header = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    header.set_sensitive(true);
    let life_ms = life_s * 1_000;
    let (renew_at, expires_at) = (now.plus(life_ms / 100 * 80), now.plus(life_ms / 100 * 95));
    Some(Held { header, given_at: now, replaces_refused: false, renew_at, expires_at })
}

/// Puts the token where it belongs.
pub fn authorize(request: &mut Request<Bytes>, header: HeaderValue) {
    request.headers_mut().insert(AUTHORIZATION, header);
}
