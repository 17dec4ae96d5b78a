//! Twilio's messages: a queue per sender, callbacks with signatures, and a list of those who said STOP.
//!
//! The numbers that Twilio keeps for tests mean here what they mean there; `+1500553000X` is taken and fails later with
//! 3000X. Callbacks come as the profile wants it: twice, late, and so in any order.

pub mod accounts;

mod callbacks;

mod control;

pub mod errors;

mod form;

mod message;

mod senders;

use crate::emulator::{Answer, Call, ControlCall, ControlReply, Emulator, Reply};
use crate::ids;
use crate::record::{Arrival, Channel, hex, sha256};
use crate::world::World;
use accounts::{Account, Accounts};
use errors::{error, fails_later, refused_from, refused_to};
use form::Form;
use futures_util::future::BoxFuture;
use hyper::http::StatusCode;
use message::{Message, Status};
use senders::{Senders, segments, sender_of};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub const NAME: &str = "twilio";
const MESSAGES_MAX: usize = 10_000;
const STOPPED_MAX: usize = 100_000;
/// Callbacks under way; a message beyond it gets none.
const CALLBACKS_MAX: usize = 10_000;
/// How long a phone takes to say that it has a message.
const DELIVERY_MS: u64 = 20;

pub struct Twilio {
    world: World,
    state: Arc<Mutex<State>>,
    callbacks: Arc<tokio::sync::Semaphore>,
}

#[derive(Default)]
struct State {
    accounts: Accounts,
    senders: Senders,
    messages: BTreeMap<String, Message>,
    /// Oldest first.
    order: VecDeque<String>,
    /// Sender and number: who said STOP to whom.
    stopped: BTreeSet<(String, String)>,
    /// Where inbound messages to a number go.
    inbound_urls: BTreeMap<String, String>,
}

/// What a message becomes, and when.
struct Course {
    message: Message,
    account: Account,
    /// Each with its time from now.
    steps: Vec<(u64, Status)>,
}

impl Twilio {
    #[must_use]
    pub fn new(world: World) -> Self {
        let callbacks = Arc::new(tokio::sync::Semaphore::new(CALLBACKS_MAX));
        Self { world, state: Arc::default(), callbacks }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, call: &Call) -> Result<Reply, u32> {
        let path = call.path.strip_prefix("/2010-04-01/Accounts/").ok_or(20_404_u32)?;
        let (sid, rest) = path.split_once('/').unwrap_or((path.trim_end_matches(".json"), ""));
        let account = self.state().accounts.check(sid, call.header("authorization")).ok_or(20_003_u32)?;
        if account.is_suspended {
            return Err(20_003);
        }
        match (call.method.as_str(), rest) {
            ("GET", "") => Ok(account_resource(sid)),
            ("POST", "Messages.json") => self.create(call, sid, account),
            ("GET", "Messages.json") => Ok(self.list(call, sid)),
            ("GET", rest) => {
                let name = rest.strip_prefix("Messages/").and_then(|rest| rest.strip_suffix(".json"));
                let state = self.state();
                let found =
                    name.and_then(|name| state.messages.get(name)).filter(|message| message.account == sid);
                found.map(|message| Reply::json(StatusCode::OK, &message.resource())).ok_or(20_404)
            }
            _ => Err(20_404),
        }
    }

    fn create(&self, call: &Call, sid: &str, account: Account) -> Result<Reply, u32> {
        let form = Form::read(&String::from_utf8_lossy(&call.body));
        let mut message = read(sid, &form, call.now_ms);
        if let Some(code) = wrong(&message) {
            return Ok(self.refuse(call, message, code));
        }
        let sender = sender_of(&form).unwrap_or_default().to_owned();
        let mut state = self.state();
        if state.stopped.contains(&(sender.clone(), message.to.clone())) {
            drop(state);
            return Ok(self.refuse(call, message, 21_610));
        }
        let starts_ms = state.senders.queue(&sender, message.segments, call.now_ms);
        let steps = match starts_ms {
            // A service takes everything and fails later.
            None if message.service.is_none() => {
                drop(state);
                return Ok(self.refuse(call, message, 21_611));
            }
            None => {
                message.error_code = Some(30_001);
                vec![(0, Status::Failed)]
            }
            Some(starts_ms) => course(&mut message, starts_ms - call.now_ms),
        };
        let answered = Message { error_code: None, ..message.clone() };
        state.keep(answered.clone());
        drop(state);
        let ticket = self.arrive(call, message.clone(), None);
        self.follow(Course { message, account, steps });
        Ok(Reply::json(StatusCode::CREATED, &answered.resource()).arrival(ticket))
    }

    fn refuse(&self, call: &Call, message: Message, code: u32) -> Reply {
        let ticket = self.arrive(call, message, Some(code));
        error(code).unwrap_or_else(|| Reply::new(StatusCode::BAD_REQUEST)).arrival(ticket)
    }

    fn arrive(&self, call: &Call, message: Message, refused: Option<u32>) -> crate::record::Ticket {
        self.world.arrived(Arrival {
            emulator: NAME,
            channel: Channel::Sms,
            id: message.repeated_id().to_owned(),
            recipient: message.to.clone(),
            sha256: sha256(message.body.as_bytes()),
            at_ms: call.now_ms,
            connection: call.connection.number,
            refused: refused.map(|code| code.to_string()),
            contents: Box::new(message),
        })
    }

    fn list(&self, call: &Call, sid: &str) -> Reply {
        let query = Form::read(&call.query);
        let page_size =
            query.get("PageSize").and_then(|size| size.parse().ok()).unwrap_or(50_usize).min(1_000);
        let to = query.get("To");
        let state = self.state();
        let newest = state.order.iter().rev().filter_map(|name| state.messages.get(name));
        let fitting = newest.filter(|message| message.account == sid && to.is_none_or(|to| to == message.to));
        let messages: Vec<Value> = fitting.take(page_size).map(Message::resource).collect();
        let uri = format!("/2010-04-01/Accounts/{sid}/Messages.json?PageSize={page_size}&Page=0");
        let body = json!({
            "end": messages.len().saturating_sub(1), "first_page_uri": uri, "messages": messages,
            "next_page_uri": null, "page": 0, "page_size": page_size, "previous_page_uri": null,
            "start": 0, "uri": uri,
        });
        Reply::json(StatusCode::OK, &body)
    }

    /// Lets a message go its way, and tells about it if somebody wants to know.
    fn follow(&self, course: Course) {
        let Ok(permit) = Arc::clone(&self.callbacks).try_acquire_owned() else { return };
        let (world, state) = (self.world.clone(), Arc::clone(&self.state));
        tokio::spawn(async move {
            walk(&world, &state, course).await;
            drop(permit);
        });
    }
}

async fn walk(world: &World, state: &Mutex<State>, course: Course) {
    let Course { mut message, account, steps } = course;
    let mut told = Vec::new();
    for (after_ms, status) in steps {
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        message.status = status;
        message.sent_ms = message.sent_ms.or(Some(world.now_ms(NAME)));
        let mut shown = message.clone();
        if !matches!(status, Status::Undelivered | Status::Failed) {
            shown.error_code = None;
        }
        state.lock().unwrap_or_else(PoisonError::into_inner).keep(shown);
        let Some(url) = message.status_callback.clone() else { continue };
        let form = callbacks::status_form(&message, status);
        let receipt = world.faults().receipt(NAME, &format!("{}{}", message.repeated_id(), status.name()));
        let (world, account) = (world.clone(), account.clone());
        // Each on its own, so that a late one is overtaken.
        told.push(tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(receipt.delay_ms)).await;
            for _ in 0..receipt.copies {
                callbacks::send(&world, &account, &url, &form).await;
            }
        }));
    }
    for one in told {
        if let Err(error) = one.await {
            tracing::debug!(%error, "a callback ended badly");
        }
    }
}

/// What becomes of it once its turn has come.
fn course(message: &mut Message, wait_ms: u64) -> Vec<(u64, Status)> {
    message.error_code = fails_later(&message.to);
    match message.error_code {
        Some(30_001 | 30_002) => vec![(wait_ms, Status::Failed)],
        Some(_) => vec![(wait_ms, Status::Sent), (DELIVERY_MS, Status::Undelivered)],
        None => vec![(wait_ms, Status::Sent), (DELIVERY_MS, Status::Delivered)],
    }
}

fn read(account: &str, form: &Form, now_ms: u64) -> Message {
    let owned = |name: &str| form.get(name).map(str::to_owned);
    let service = owned("MessagingServiceSid");
    let body = owned("Body").unwrap_or_default();
    Message {
        sid: format!("SM{}", hex(&ids::bytes::<16>())),
        account: account.to_owned(),
        to: owned("To").unwrap_or_default(),
        from: owned("From"),
        segments: segments(&body),
        status: if service.is_some() { Status::Accepted } else { Status::Queued },
        service,
        body,
        error_code: None,
        status_callback: owned("StatusCallback"),
        validity_s: form.get("ValidityPeriod").map(|text| text.parse().unwrap_or(0)),
        created_ms: now_ms,
        sent_ms: None,
    }
}

/// The checks that Twilio makes, in its order.
fn wrong(message: &Message) -> Option<u32> {
    let digits = message.to.strip_prefix('+').unwrap_or_default();
    let is_number = (7..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let from = message.from.as_deref();
    if message.to.is_empty() {
        Some(21_604)
    } else if !is_number {
        Some(21_211)
    } else if from.is_none() && message.service.is_none() {
        Some(21_603)
    } else if message.body.is_empty() {
        Some(21_602)
    } else if message.body.chars().count() > 1_600 {
        Some(21_617)
    } else if message.validity_s.is_some_and(|seconds| !(1..=36_000).contains(&seconds)) {
        Some(20_001)
    } else {
        from.and_then(refused_from).or_else(|| refused_to(&message.to))
    }
}

fn account_resource(sid: &str) -> Reply {
    let uri = format!("/2010-04-01/Accounts/{sid}.json");
    Reply::json(
        StatusCode::OK,
        &json!({"sid": sid, "friendly_name": "sandbox", "status": "active", "type": "Full", "uri": uri}),
    )
}

impl State {
    fn keep(&mut self, message: Message) {
        if self.messages.insert(message.sid.clone(), message.clone()).is_none() {
            self.order.push_back(message.sid);
        }
        if self.order.len() > MESSAGES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.messages.remove(&oldest);
        }
    }
}

impl Emulator for Twilio {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hosts(&self) -> &'static [&'static str] {
        &["api.twilio.com", "api.*.twilio.com"]
    }

    fn answer<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Answer> {
        let reply = self
            .handle(call)
            .unwrap_or_else(|code| error(code).unwrap_or_else(|| Reply::new(StatusCode::BAD_REQUEST)));
        Box::pin(std::future::ready(reply.into()))
    }

    /// Kinds are Twilio's codes.
    fn fault(&self, kind: &str, _call: &Call, retry_after_ms: Option<u64>) -> Option<Reply> {
        let code = if kind == "quota" { 20_429 } else { kind.parse().ok()? };
        let reply = error(code)?;
        Some(match retry_after_ms {
            Some(ms) => reply.with("retry-after", &ms.div_ceil(1_000).to_string()),
            None => reply,
        })
    }

    fn quota_key(&self, call: &Call) -> Option<String> {
        let path = call.path.strip_prefix("/2010-04-01/Accounts/")?;
        Some(path.split('/').next().unwrap_or_default().to_owned())
    }

    fn control<'a>(&'a self, ask: &'a ControlCall) -> BoxFuture<'a, Option<ControlReply>> {
        Box::pin(self.command(ask))
    }
}
