//! A load of many kinds, and the client's own book of it: what was asked and what was answered, by positions in the trace.
//!
//! Each log is asked in its order, one request at a time, so at any position of the trace a first part of it is certain and
//! at most one more request is in doubt. A request without an answer is repeated once there is a server again.

use super::trace::Recorder;
use crate::crash::{READER, event};
use crate::deliveries::notification;
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

pub const ACTORS: usize = 2;
pub const RECIPIENTS: [&str; 2] = ["ann", "bob"];
const PRIORITIES: [&str; 3] = ["critical", "normal", "low"];
/// Requests for each user of the log of users.
pub const USER_STEPS: usize = 4;
const KEYS_MAX: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Events(usize),
    Marks,
    Notifications,
    Users,
    Consents,
    Keys,
}

pub const KINDS: [Kind; 5 + ACTORS] = [
    Kind::Events(0),
    Kind::Events(1),
    Kind::Marks,
    Kind::Notifications,
    Kind::Users,
    Kind::Consents,
    Kind::Keys,
];

#[derive(Clone)]
pub struct Ask {
    method: &'static str,
    path: String,
    body: Value,
    statuses: &'static [u16],
}

/// One request of a log.
pub struct Asked {
    pub ask: Ask,
    sent: u64,
    answered: Option<u64>,
    /// What the answer names.
    pub id: String,
}

#[derive(Default)]
pub struct Book {
    logs: [Vec<Asked>; KINDS.len()],
    acknowledged: u64,
}

impl Ask {
    pub fn send(&self, client: &mut Client) -> std::io::Result<fantail_server::client::Response> {
        client.json(self.method, &self.path, &self.body)
    }

    /// Sends it to a server that must answer, and gives what the answer names.
    pub fn settle(&self, kind: Kind, client: &mut Client) -> String {
        let response = self.send(client).expect("an answer");
        assert!(self.statuses.contains(&response.status), "{kind:?}: {}", response.text());
        named(kind, &self.body, &response)
    }
}

/// The steps of a user: made, changed, given a device, and erased or changed again.
fn user_ask(number: usize) -> Ask {
    let (user, step) = (number / USER_STEPS, number % USER_STEPS);
    let name = format!("user-{user}");
    let profile = json!({"attributes": {"step": step}});
    let (method, path, body, statuses): (_, _, _, &'static [u16]) = match step {
        2 => {
            let token = format!("stub:ok/{name}");
            let body = json!({"userId": name, "deviceId": "phone", "platform": "android", "token": token});
            ("POST", "/api/v1/devices".to_owned(), body, &[200, 201])
        }
        3 if is_erased(user) => ("POST", "/api/v1/erasures".to_owned(), json!({"userId": name}), &[202, 404]),
        _ => ("PUT", format!("/api/v1/users/{name}"), profile, &[200, 201]),
    };
    Ask { method, path, body, statuses }
}

/// Whether the last step of a user erases it.
pub fn is_erased(user: usize) -> bool {
    user.is_multiple_of(3)
}

/// The next request of a log; `None` if there is none at the moment.
fn next_ask(kind: Kind, number: usize, client: &mut Client) -> std::io::Result<Option<Ask>> {
    let post =
        |path: &str, body: Value, statuses| Ask { method: "POST", path: path.to_owned(), body, statuses };
    Ok(Some(match kind {
        Kind::Events(actor) => post("/api/v1/events", event(actor, number), &[202]),
        Kind::Marks => {
            let page = client.get(&format!("/api/v1/users/{READER}/notifications?limit=1&state=unread"))?;
            let shown = page.json()["notifications"][0]["eventId"].clone();
            if !shown.is_string() {
                return Ok(None);
            }
            post(&format!("/api/v1/users/{READER}/notifications/read"), json!({"ids": [shown]}), &[200])
        }
        Kind::Notifications => {
            let more = json!({"priority": PRIORITIES[number % PRIORITIES.len()]});
            post("/api/v1/notifications", notification(&format!("n{number}"), &RECIPIENTS, more), &[202])
        }
        Kind::Users => user_ask(number),
        Kind::Consents => {
            let body =
                json!({"granted": number.is_multiple_of(2), "version": version(number), "source": "app"});
            let path = format!("/api/v1/users/{READER}/consents/email");
            Ask { method: "PUT", path, body, statuses: &[200] }
        }
        Kind::Keys => post("/api/v1/tenants/default/keys", json!({"scopes": ["users:read"]}), &[201]),
    }))
}

/// What the consent of this number is called.
pub fn version(number: usize) -> String {
    format!("version-{number}")
}

fn named(kind: Kind, body: &Value, response: &fantail_server::client::Response) -> String {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    match kind {
        Kind::Events(_) | Kind::Notifications => text(&response.json()["eventId"]),
        Kind::Keys => text(&response.json()["key"]),
        Kind::Marks => text(&body["ids"][0]),
        Kind::Users | Kind::Consents => String::new(),
    }
}

impl Book {
    pub fn log(&self, kind: Kind) -> &[Asked] {
        &self.logs[place(kind)]
    }

    /// What was answered before this position, and what was at least sent.
    pub fn known(&self, kind: Kind, position: u64) -> (&[Asked], &[Asked]) {
        let log = self.log(kind);
        let certain = log.partition_point(|one| one.answered.is_some_and(|at| at <= position));
        let sent = log.partition_point(|one| one.sent <= position);
        (&log[..certain], &log[certain..sent.max(certain)])
    }
}

fn place(kind: Kind) -> usize {
    KINDS.iter().position(|one| *one == kind).expect("all kinds are listed")
}

/// A load on one server after another, until each is gone.
pub struct Load<'a> {
    recorder: &'a Recorder<'a>,
    book: Mutex<Book>,
    grew: Condvar,
}

impl<'a> Load<'a> {
    pub fn new(recorder: &'a Recorder<'a>) -> Self {
        Self { recorder, book: Mutex::default(), grew: Condvar::new() }
    }

    pub fn into_book(self) -> Book {
        self.book.into_inner().expect("no worker panicked")
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no worker panicked")
    }

    /// Waits for so many acknowledgements more.
    pub fn wait_for(&self, more: u64) {
        let book = self.book();
        let enough = book.acknowledged + more;
        drop(self.grew.wait_while(book, |book| book.acknowledged < enough).expect("no worker panicked"));
    }

    /// Goes on with a log until the server is gone or stops.
    pub fn go_on(&self, kind: Kind, mut client: Client) {
        loop {
            let Some(ask) = self.begin(kind, &mut client) else { return };
            let Ok(response) = ask.send(&mut client) else { return };
            if response.status == 503 {
                return;
            }
            assert!(ask.statuses.contains(&response.status), "{kind:?}: {}", response.text());
            let mut book = self.book();
            let last = book.logs[place(kind)].last_mut().expect("it was written down");
            (last.answered, last.id) = (Some(self.recorder.position()), named(kind, &ask.body, &response));
            book.acknowledged += 1;
            self.grew.notify_all();
        }
    }

    /// What to ask next: what got no answer once more, or something new that is written down first. `None` if the log has
    /// an end, or the server is gone.
    fn begin(&self, kind: Kind, client: &mut Client) -> Option<Ask> {
        let (number, last) = {
            let book = self.book();
            let last = book.log(kind).last().filter(|last| last.answered.is_none());
            (book.log(kind).len(), last.map(|last| last.ask.clone()))
        };
        if last.is_some() || (kind == Kind::Keys && number == KEYS_MAX) {
            return last;
        }
        let ask = loop {
            if let Some(ask) = next_ask(kind, number, client).ok()? {
                break ask;
            }
            // Nothing is unread yet. The server cannot wake us, so it gets the processor.
            std::thread::park_timeout(Duration::from_millis(1));
        };
        let asked =
            Asked { ask: ask.clone(), sent: self.recorder.position(), answered: None, id: String::new() };
        self.book().logs[place(kind)].push(asked);
        Some(ask)
    }
}
