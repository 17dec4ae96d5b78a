//! A server whose time the test says: what waits for hours is seen to wait, and to come.

use crate::deliveries::{Post, metric, register, send, status};
use crate::outages::titled;
use crate::respect::{eventually_stands, patch};
use crate::server::{Server, fantail, run};
use crate::world::{eventually, expect, ids, inbox, put_user};
use serde_json::json;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// The clock of one server.
pub struct MovedClock {
    to: UnixStream,
    answers: BufReader<UnixStream>,
}

impl MovedClock {
    /// It is so late from now on.
    pub fn move_to(&mut self, time: &str) {
        assert_eq!(self.say(time), "ok", "{time}");
    }

    /// The same, of a server that may be gone.
    pub fn try_move_to(&mut self, time: &str) -> io::Result<()> {
        match self.ask(time)?.as_str() {
            "ok" => Ok(()),
            other => Err(io::Error::other(other.to_owned())),
        }
    }

    fn say(&mut self, line: &str) -> String {
        self.ask(line).expect("the server answers")
    }

    fn ask(&mut self, line: &str) -> io::Result<String> {
        writeln!(self.to, "{line}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    }
}

/// Starts a server at this time, with a stub that writes down what arrives.
pub fn start_at(post: &Post, time: &str, environment: &[(&str, &str)]) -> (Server, MovedClock) {
    let started = try_start_at(post, time, environment);
    started.unwrap_or_else(|banner| panic!("the server did not start: {banner:?}"))
}

/// Or what the server said before it died.
pub fn try_start_at(
    post: &Post,
    time: &str,
    environment: &[(&str, &str)],
) -> Result<(Server, MovedClock), Vec<String>> {
    let socket = post.directory.path("clock");
    let mut all = vec![("FANTAIL_TEST_CLOCK", time)];
    all.extend_from_slice(environment);
    let server = post.try_start_with(&["--clock", socket.to_str().expect("a path")], &all)?;
    // It listens there before it is ready.
    let to = UnixStream::connect(&socket).map_err(|failed| vec![failed.to_string()])?;
    let answers = BufReader::new(to.try_clone().expect("a second handle"));
    Ok((server, MovedClock { to, answers }))
}

#[test]
fn a_clock_for_tests_is_refused_without_permission_and_told_with_it() {
    let post = Post::new();
    let (data, socket) = (post.directory.path("refused"), post.directory.path("refused-clock"));
    let mut command = fantail();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data).arg("--clock").arg(&socket);
    let refused = command.output().expect("the binary runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("FANTAIL_TESTING"), "{said}");
    assert!(!data.exists() && !socket.exists(), "nothing was begun");

    let (server, mut clock) = start_at(&post, "2026-06-10T20:00:00Z", &[]);
    assert!(server.banner.iter().any(|line| line.contains("FOR TESTS ONLY")), "{:?}", server.banner);
    assert!(server.log().contains("the clock is a test's"), "{}", server.log());
    assert!(clock.say("2026-06-10T19:59:59Z").starts_with("time does not go back"));
    assert!(clock.say("later").starts_with("not a time"));
    clock.move_to("2026-06-10T20:30:00Z");
    server.stop();
}

// proves: QH-01, QH-02, QH-03
#[test]
fn what_comes_at_night_is_sent_in_the_morning_also_after_a_crash() {
    let post = Post::new();
    // 23:00 in Vienna.
    let (server, mut clock) = start_at(&post, "2026-06-10T21:00:00Z", &[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    let night = json!({"enabled": true, "start": "22:00", "end": "07:00", "timezone": "Europe/Vienna"});
    patch(&mut client, "ann", &json!({"quietHours": night}));
    let first = send(&mut client, &titled("n1", &["ann"], "push", "Hello"));
    let (inputs, _) = eventually_stands(&mut client, &first, "ann", "deferred");
    assert_eq!(
        (&inputs["code"], &inputs["dueAt"]),
        (&json!("quiet_hours"), &json!("2026-06-11T05:00:00.000Z"))
    );

    clock.move_to("2026-06-11T04:59:00Z");
    let second = send(&mut client, &titled("n2", &["ann"], "push", "Good night"));
    eventually_stands(&mut client, &second, "ann", "deferred");
    eventually_stands(&mut client, &first, "ann", "deferred");
    assert_eq!(post.lines().len(), 0, "it is 06:59");
    server.kill();

    let (server, mut clock) = start_at(&post, "2026-06-11T04:59:30Z", &[]);
    let mut client = server.client();
    eventually_stands(&mut client, &first, "ann", "deferred");
    clock.move_to("2026-06-11T05:00:00Z");
    for id in [first, second] {
        eventually_stands(&mut client, &id, "ann", "sent");
    }
    assert_eq!(post.arrived().values().copied().collect::<Vec<_>>(), [1, 1], "once each");
    server.stop();
}

/// What `/readyz?verbose` says of the clock. A held clock is no reason to send readers away.
fn clock_detail(server: &Server) -> String {
    let report = expect(server.anonymous().get("/readyz?verbose"), 200);
    let mut checks = report["checks"].as_array().expect("checks").iter();
    let clock = checks.find(|check| check["name"] == "clock").expect("a check of the clock");
    clock["detail"].as_str().expect("text").to_owned()
}

fn later(id: &str, at: &str) -> serde_json::Value {
    let mut body = titled(id, &["ann"], "push", "Later");
    body["options"] = json!({"scheduledAt": at, "ttl": 2_592_000});
    body
}

// fixes: correctness A12
#[test]
fn a_clock_years_ahead_at_a_start_releases_expires_and_deletes_nothing_until_it_is_accepted() {
    let post = Post::new();
    let (server, _clock) = start_at(&post, "2026-06-10T20:00:00Z", &[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    let mut first = titled("n1", &["ann"], "push", "Now");
    first["channels"] = json!(["push", "inApp"]);
    let first = send(&mut client, &first);
    eventually_stands(&mut client, &first, "ann", "sent");
    let scheduled = send(&mut client, &later("n2", "2026-06-10T21:00:00Z"));
    post.faults("push down\n");
    let deferred = send(&mut client, &titled("n3", &["ann"], "push", "Again"));
    eventually_stands(&mut client, &deferred, "ann", "deferred");
    server.stop();
    post.faults("");

    let (server, mut clock) = start_at(&post, "2031-06-10T20:00:00Z", &[]);
    let mut client = server.client();
    assert!(server.banner.iter().any(|line| line.contains("1825 days ahead")), "{:?}", server.banner);
    assert!(clock_detail(&server).contains("fantail clock accept"), "{}", clock_detail(&server));
    assert_eq!(metric(&mut client, "fantail_clock_held", ""), 1);
    for (id, time) in [("n4", "2031-06-10T20:01:30Z"), ("n5", "2031-06-10T22:30:00Z")] {
        // Retention looks once a minute, and the release of what is scheduled is due by any clock.
        clock.move_to(time);
        let id = send(&mut client, &titled(id, &["ann"], "push", "Now"));
        eventually_stands(&mut client, &id, "ann", "sent");
        eventually_stands(&mut client, &deferred, "ann", "deferred");
        assert_eq!(status(&mut client, &scheduled)["status"], "scheduled");
        assert!(ids(&inbox(&mut client, "ann", "")).contains(&first), "nothing is forgotten");
        eventually_stands(&mut client, &first, "ann", "sent");
        let shown = expect(client.get(&format!("/api/v1/notifications/{id}/status")), 200);
        assert!(shown.to_string().contains("2026-06-10"), "it goes on from the newest record: {shown}");
    }
    assert_eq!(post.lines().len(), 3, "n1, n4 and n5");
    server.stop();

    // The clock was wrong and is right again: as if nothing had happened.
    let (server, _clock) = start_at(&post, "2026-06-10T22:31:00Z", &[]);
    let mut client = server.client();
    assert_eq!(
        (clock_detail(&server).as_str(), metric(&mut client, "fantail_clock_held", "")),
        ("as expected", 0)
    );
    for id in [&scheduled, &deferred] {
        eventually_stands(&mut client, id, "ann", "sent");
    }
    let waiting = send(&mut client, &later("n6", "2026-06-12T00:00:00Z"));
    server.stop();

    // Two weeks later the clock is right, and an operator says so.
    let (server, _clock) = start_at(&post, "2026-06-24T22:31:00Z", &[]);
    let mut client = server.client();
    assert_eq!(metric(&mut client, "fantail_clock_held", ""), 1);
    assert_eq!(status(&mut client, &waiting)["status"], "scheduled");
    let data = server.data.to_str().expect("a path").to_owned();
    let said = run(&["clock", "accept", "--server", &server.address, "--data", &data]);
    assert!(said.contains("2026-06-24T22:31"), "{said}");
    eventually_stands(&mut client, &waiting, "ann", "sent");
    assert_eq!(
        (clock_detail(&server).as_str(), metric(&mut client, "fantail_clock_held", "")),
        ("as expected", 0)
    );
    eventually("all arrived once", || (post.lines().len() == 6).then_some(()));
    server.stop();
}
