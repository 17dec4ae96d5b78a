//! The server's wall clock is stepped while it runs and while it is down: ids, order, counts, snoozes and keys go on
//! as if nothing had happened, and the operator is told.
//!
//! A preloaded library moves the clock of the server alone (`stepped_clock.c`); the server has no hook for this.

use crate::deliveries::{notification, register, send, status};
use crate::server::{Directory, Server};
use crate::world::{
    ALL_SCOPES, event, eventually, expect, follow, ids, in_ms, inbox, post, post_by, put_user, refused,
    unread,
};
use fantail_api::time;
use fantail_rules::ids::Millis;
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 3_600;
/// Enough for a pointer instead of entries.
const FANS: usize = 120;

/// A server whose wall clock the test moves.
struct Stepped {
    directory: Directory,
    library: PathBuf,
}

impl Stepped {
    fn new() -> Self {
        let directory = Directory::new();
        let library = directory.path("stepped_clock.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stepped_clock.c");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
        assert!(built.expect("the compiler that links Rust is there").success());
        let stepped = Self { directory, library };
        stepped.step_to(0);
        stepped
    }

    fn file(&self) -> PathBuf {
        self.directory.path("seconds")
    }

    /// So many seconds from the machine's clock, from now on.
    fn step_to(&self, seconds: i64) {
        // Renamed, because the server may read at any moment.
        let fresh = self.directory.path("seconds-next");
        std::fs::write(&fresh, seconds.to_string()).expect("written");
        std::fs::rename(&fresh, self.file()).expect("renamed");
    }

    fn start(&self) -> Server {
        let (library, file) = (self.library.to_string_lossy(), self.file().to_string_lossy().into_owned());
        let environment = [("LD_PRELOAD", &*library), ("STEPPED_CLOCK_FILE", file.as_str())];
        Server::start_in(&self.directory.path("data"), &[], &environment)
    }
}

/// Bob reads ann (entries), star (pointers) and what names him. All he should have, by the test's own record.
struct Reader {
    /// Oldest first.
    posted: Vec<String>,
    /// Where his polling client is, and what it has seen.
    since: String,
    seen: Vec<String>,
    read: u64,
}

impl Reader {
    fn new(server: &Server) -> Self {
        let mut client = server.client();
        let threshold = json!({"celebrityThreshold": 100});
        expect(server.admin().json("PATCH", "/api/v1/tenants/default", &threshold), 200);
        put_user(&mut client, "bob");
        let fans: Vec<Value> = (0..FANS).map(|no| json!({"userId": format!("fan{no}")})).collect();
        expect(client.post("/api/v1/users/batch", &json!({"users": fans})), 200);
        let follows: Vec<Value> =
            (0..FANS).map(|no| json!({"user": format!("fan{no}"), "actor": "star"})).collect();
        expect(client.post("/api/v1/follows/batch", &json!({"follows": follows})), 200);
        follow(&mut client, "bob", "ann");
        follow(&mut client, "bob", "star");
        let page = inbox(&mut client, "bob", "");
        let since = page["sinceCursor"].as_str().expect("a cursor").to_owned();
        Self { posted: Vec::new(), since, seen: Vec::new(), read: 0 }
    }

    /// A few from everyone, and then all that must hold: order, completeness for both kinds of client, counts.
    fn hears(&mut self, client: &mut Client, when: &str) {
        let before = self.posted.len();
        for no in 0..3 {
            self.posted.push(post(client, &post_by("ann", &format!("ann {when} {no}"))));
            self.posted.push(post(client, &post_by("star", &format!("star {when} {no}"))));
            self.posted.push(post(client, &event(&format!("{when} {no}"), &json!({"users": ["bob"]}))));
        }
        assert!(self.posted.is_sorted_by(|earlier, later| earlier < later), "{when}: ids ascend");
        self.polls(client, when);
        let marked = json!({"ids": [self.posted[before], self.posted[before + 1]]});
        expect(client.post("/api/v1/users/bob/notifications/read", &marked), 200);
        self.read += 2;
        self.holds(client, when);
    }

    fn polls(&mut self, client: &mut Client, when: &str) {
        eventually(&format!("{when}: a polling client has seen all"), || {
            let page = inbox(client, "bob", &format!("limit=4&since={}", self.since));
            self.seen.extend(ids(&page));
            let next = page["nextCursor"].as_str().or(page["sinceCursor"].as_str());
            self.since = next.expect("a cursor").to_owned();
            (self.seen.len() >= self.posted.len()).then_some(())
        });
        assert_eq!(self.seen, self.posted, "{when}: each once, in order");
    }

    fn holds(&self, client: &mut Client, when: &str) {
        let newest_first: Vec<String> = self.posted.iter().rev().cloned().collect();
        let page = inbox(client, "bob", "state=all&limit=100");
        assert_eq!(ids(&page), newest_first, "{when}");
        let wanted = self.posted.len() as u64 - self.read;
        assert_eq!((unread(client, "bob").0, page["unread"].as_u64()), (wanted, Some(wanted)), "{when}");
    }

    /// When an event was made, as its reader is told.
    fn created_at(&self, client: &mut Client, id: &str) -> Millis {
        let shown = expect(client.get(&format!("/api/v1/users/bob/notifications/{id}")), 200);
        time::parse(shown["createdAt"].as_str().expect("a time")).expect("a time")
    }

    /// The time that the server went by between the events around one of its steps.
    fn gap_ms(&self, client: &mut Client, heard_before: usize) -> u64 {
        let earlier = self.created_at(client, &self.posted[heard_before - 1]);
        let later = self.created_at(client, &self.posted[heard_before]);
        assert!(later >= earlier, "time does not go back");
        later.since(earlier)
    }
}

fn jumps(server: &Server) -> u64 {
    let metrics = server.anonymous().get("/metrics").expect("an answer").text();
    let value = metrics.lines().find_map(|line| line.strip_prefix("fantail_clock_jumps_total "));
    value.expect("a metric").parse().expect("a number")
}

/// What the readiness report says of the clock. A wrong clock is told; it is no reason to send readers away.
fn clock_detail(server: &Server) -> String {
    let report = expect(server.anonymous().get("/readyz?verbose"), 200);
    let checks = report["checks"].as_array().expect("checks");
    let clock = checks.iter().find(|check| check["name"] == "clock").expect("a check of the clock");
    assert_eq!(clock["ok"], true);
    clock["detail"].as_str().expect("text").to_owned()
}

/// Steps the clock of a running server, and back, and asserts that it was told and not followed.
fn a_step_is_told_and_not_followed(seconds: i64) {
    let stepped = Stepped::new();
    let server = stepped.start();
    let mut client = server.client();
    let mut reader = Reader::new(&server);
    reader.hears(&mut client, "before");
    assert_eq!(jumps(&server), 0, "{}", server.log());
    // Both end long after the test and long before the clock that was stepped ahead.
    let soon = in_ms(HOUR_S.unsigned_abs() * 1_000);
    let asked = json!({"scopes": ALL_SCOPES, "expiresAt": soon});
    let made = expect(server.admin().post("/api/v1/tenants/default/keys", &asked), 201);
    let mut expiring = server.with_key(made["key"].as_str().expect("a key"));
    let snoozed = json!({"ids": [reader.posted[2]], "until": soon});
    expect(client.post("/api/v1/users/bob/notifications/snooze", &snoozed), 200);
    let counts = unread(&mut client, "bob");

    stepped.step_to(seconds);
    assert_eq!(unread(&mut client, "bob"), counts, "a snooze goes on");
    expect(expiring.get("/api/v1/users/bob"), 200);
    expect(client.post("/api/v1/users/bob/notifications/unsnooze", &json!({"ids": [reader.posted[2]]})), 200);
    let heard = reader.posted.len();
    reader.hears(&mut client, "stepped");
    assert!(reader.gap_ms(&mut client, heard) < seconds.unsigned_abs() * 1_000, "the step was followed");
    assert_eq!(jumps(&server), 1, "one step is one alarm");
    assert_eq!(server.log().matches("wall clock jumped, not adopted").count(), 1, "{}", server.log());
    let direction = if seconds < 0 { "behind" } else { "ahead" };
    let detail = clock_detail(&server);
    assert!(detail.contains(direction), "{detail}");

    stepped.step_to(0);
    reader.hears(&mut client, "right again");
    assert_eq!(clock_detail(&server), "as expected");
    assert_eq!(jumps(&server), 1, "coming back is no alarm");
    server.stop();
}

// proves: INB-02, INB-06, FAN-05, RT-06
#[test]
fn a_clock_stepped_back_changes_nothing() {
    a_step_is_told_and_not_followed(-10 * MINUTE_S);
}

// proves: INB-02, INB-06, FAN-05, RT-06
#[test]
fn a_clock_stepped_ahead_changes_nothing() {
    a_step_is_told_and_not_followed(2 * HOUR_S);
}

/// A server that starts has only its last records to compare the clock with.
// proves: INB-02, INB-06, FAN-05, RT-06
#[test]
fn a_restart_under_a_clock_that_was_stepped_back_keeps_the_order() {
    let stepped = Stepped::new();
    let server = stepped.start();
    let mut reader = Reader::new(&server);
    reader.hears(&mut server.client(), "first");
    server.stop();
    // Each one is behind the one before.
    for (seconds, when) in [(-10 * MINUTE_S, "ten minutes"), (-2 * HOUR_S, "two hours")] {
        stepped.step_to(seconds);
        let server = stepped.start();
        let mut client = server.client();
        reader.holds(&mut client, when);
        let first = client.post("/api/v1/events", &post_by("ann", "ann first 0")).expect("an answer");
        assert_eq!(first.header("idempotent-replayed"), Some("true"), "{}", first.text());
        assert_eq!(first.json()["eventId"], reader.posted[0].as_str());
        reader.hears(&mut client, when);
        assert_eq!(jumps(&server), 1, "the start tells it");
        let detail = clock_detail(&server);
        assert!(detail.contains("behind the newest record at start"), "{detail}");
        // A crash this time: what was promised under the wrong clock is kept as well.
        server.kill();
    }
    stepped.step_to(0);
    let server = stepped.start();
    reader.holds(&mut server.client(), "right again");
    reader.hears(&mut server.client(), "right again");
    assert_eq!((jumps(&server), clock_detail(&server).as_str()), (0, "as expected"));
    server.stop();
}

// proves: DED-02, DED-07, GDP-02
#[test]
fn a_month_later_the_status_is_forgotten_and_the_inbox_is_not() {
    const DAY_S: i64 = 24 * HOUR_S;
    let stepped = Stepped::new();
    let server = stepped.start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok");
    let id = send(&mut client, &notification("n1", &["ann"], json!({"channels": ["push", "inApp"]})));
    eventually("it is sent", || (status(&mut client, &id)["channels"][1]["done"] == true).then_some(()));
    server.stop();
    for (days, is_kept) in [(29, true), (31, false)] {
        stepped.step_to(days * DAY_S);
        let server = stepped.start();
        let mut client = server.client();
        // Nothing is forgotten on the word of a clock that nobody has confirmed.
        assert_eq!(status(&mut client, &id)["channels"][0]["done"], true);
        expect(server.admin().post("/api/v1/clock/accept", &json!({})), 200);
        assert_eq!(ids(&inbox(&mut client, "ann", "")), std::slice::from_ref(&id), "after {days} days");
        if is_kept {
            assert_eq!(status(&mut client, &id)["channels"][0]["done"], true);
        } else {
            refused(client.get(&format!("/api/v1/notifications/{id}/status")), "EVENT_NOT_FOUND");
            refused(client.get(&format!("/api/v1/notifications/{id}/explain?user=ann")), "EVENT_NOT_FOUND");
        }
        server.stop();
    }
}
