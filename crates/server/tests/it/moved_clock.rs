//! A server whose time the test says: what waits for hours is seen to wait, and to come.

use crate::deliveries::{Post, register, send};
use crate::outages::titled;
use crate::respect::{eventually_stands, patch};
use crate::server::{Server, fantail};
use crate::world::put_user;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
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

    fn say(&mut self, line: &str) -> String {
        writeln!(self.to, "{line}").expect("the server listens");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the server answers");
        answer.trim_end().to_owned()
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
