//! Panics on purpose: whatever the server cannot do without ends the process with a message; the rest goes on.

use crate::audit::copy;
use crate::deliveries::{Post, metric, notification, register, send, status};
use crate::moved_clock::{MovedClock, try_start_at};
use crate::server::Server;
use crate::world::{bare, event, eventually, put_user};
use fantail_api::time;
use fantail_rules::ids::Millis;
use fantail_server::client::{Client, Response};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests to a server that is to end; it must have ended by then.
const REQUESTS_MAX: usize = 4_000;

/// Every loop and required task of a server. A panic of one ends the process.
const LOOPS: &[&str] = &[
    "leader",
    "take",
    "errands",
    "long effects",
    "guard sweep",
    "windows",
    "bulk",
    "schedule",
    "dispatch",
    "turn",
    "audit",
    "sync",
    "retention",
    "deletions",
    "books",
    "webhooks",
    "runs",
    "refused",
];
/// The same for threads beside the runtime.
const THREADS: &[&str] = &["store-tend", "disk-watch", "snapshots"];
/// How many servers of the table run at once.
const AT_ONCE: usize = 4;
const BEGINS: &str = "2026-06-10T20:00:00Z";
const HOUR_MS: u64 = 3_600_000;
/// Hours of the test clock; the server must have ended by then.
const ROUNDS_MAX: u64 = 400;
const PANICKED: &str = "a task panicked";
const STOPPING: &str = "nothing more may be promised, stopping";

/// Sends until no answer comes. What is answered meanwhile is an acceptance or a 503.
fn send_until_it_ends(server: &Server) {
    let mut client = server.client();
    for number in 0..REQUESTS_MAX {
        match client
            .post("/api/v1/notifications", &notification(&format!("more{number}"), &["ann"], json!({})))
        {
            Ok(response) => assert!(matches!(response.status, 202 | 503), "{}", response.text()),
            Err(_) => return,
        }
    }
    panic!("it lives");
}

// fixes: correctness A2
#[test]
fn a_panic_of_a_loop_or_a_thread_ends_the_process_and_the_next_start_recovers() {
    let post = Post::new();
    {
        let server = post.start(&[]);
        put_user(&mut server.client(), "ann");
        register(&mut server.client(), "ann", "phone", "stub:ok/ann");
        server.stop();
    }
    for (round, (point, task)) in [
        ("lead.planned:30", "leader"),
        ("lead.folded:30", "leader"),
        ("take.proposed:3", "take"),
        ("dispatch.started:2", "dispatch"),
        ("audit.derived:2", "audit"),
        ("store.tended:1", "store-tend"),
    ]
    .into_iter()
    .enumerate()
    {
        // What waits from before may bring it to the point while it starts.
        if let Ok(mut server) = post.try_start(&[("FANTAIL_DELIVERY_PANIC_AT", point)]) {
            send_until_it_ends(&server);
            assert!(!server.wait(), "{point}: the exit code says that it failed");
            let log = server.log();
            assert!(log.contains(&format!("stopped: the task {task} panicked")), "{point}: {log}");
        }
        let server = post.start(&[]);
        let mut client = server.client();
        let id = send(&mut client, &notification(&format!("after{round}"), &["ann"], json!({})));
        eventually(&format!("{point}: it sends again"), || {
            (status(&mut client, &id)["channels"][0]["done"] == true).then_some(())
        });
        server.stop();
    }
}

// fixes: correctness A2, correctness C4
#[test]
fn a_panic_in_a_parcel_leaves_its_deliveries_unknown_and_the_server_goes_on() {
    for (point, state) in [
        ("deliver.packed:1", "unconfirmed"),
        ("deliver.settling:1", "unconfirmed"),
        // Its answers are durable by then.
        ("deliver.sent:1", "sent"),
    ] {
        let post = Post::new();
        let server = post.start(&[("FANTAIL_DELIVERY_PANIC_AT", point)]);
        let mut client = server.client();
        put_user(&mut client, "ann");
        register(&mut client, "ann", "phone", "stub:ok/ann");
        let low = json!({"priority": "low"});
        let ids = ["n1", "n2"].map(|id| send(&mut client, &notification(id, &["ann"], low.clone())));
        let found = ids.map(|id| {
            eventually(&format!("{point}: every delivery ends"), || {
                let found = status(&mut client, &id);
                (found["channels"][0]["done"] == true).then_some(found)
            })
        });
        let states: Vec<&str> =
            found.iter().map(|found| found["deliveries"][0]["state"].as_str().expect("a state")).collect();
        assert!(states.contains(&state) && states.contains(&"sent"), "{point}: {states:?}");
        let count = metric(&mut client, "fantail_task_panics_total", "parcel");
        assert_eq!(count, 1, "{point}: {}", server.log());
        assert!(metric(&mut client, "fantail_panics_total", "") >= 1);
        eventually("the permits are back", || {
            (metric(&mut client, "fantail_deliveries_in_flight", "") == 0).then_some(())
        });
        server.stop();
    }
}

/// Something for each loop to do: a user, an event, a push, a later time.
struct Stir {
    client: Client,
    clock: MovedClock,
    round: u64,
}

impl Stir {
    fn new(server: &Server, clock: MovedClock) -> Self {
        Self { client: server.client(), clock, round: 0 }
    }

    /// When it is now, for the server, at the least.
    fn now(&self) -> String {
        let begins = time::parse(BEGINS).expect("a time");
        time::text(Millis(begins.0 + self.round * HOUR_MS))
    }

    /// An error once the server is gone, or accepts nothing more.
    fn once(&mut self) -> io::Result<()> {
        self.round += 1;
        // First of all, since a task may wait for it that requests need.
        let now = self.now();
        self.clock.try_move_to(&now)?;
        let (round, user) = (self.round, format!("user{}", self.round));
        let accepted = |response: Response| match response.status {
            status if status < 300 => Ok(()),
            503 => Err(io::Error::other(response.text())),
            _ => panic!("{}", response.text()),
        };
        accepted(bare(&mut self.client, "PUT", &format!("/api/v1/users/{user}"))?)?;
        let event = event(&format!("e{round}"), &json!({"users": ["ann"]}));
        accepted(self.client.post("/api/v1/events", &event)?)?;
        let push = notification(&format!("n{round}"), &["ann"], json!({}));
        accepted(self.client.post("/api/v1/notifications", &push)?)?;
        Ok(())
    }
}

/// The head of a request for readiness, but for its last line: the server has to wait for it. The server accepts connections in order,
/// so this one is accepted once the next one is answered.
fn begin_to_ask(server: &Server) -> TcpStream {
    let mut held = TcpStream::connect(&server.address).expect("it listens");
    held.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n").expect("it reads");
    assert_eq!(server.anonymous().get("/livez").expect("an answer").status, 200);
    held
}

/// The status of the answer; none if the server is gone.
fn ask(mut held: TcpStream) -> Option<u16> {
    held.write_all(b"\r\n").ok()?;
    let mut line = String::new();
    BufReader::new(held).read_line(&mut line).ok()?;
    line.split(' ').nth(1)?.parse().ok()
}

/// Asks for readiness until nobody listens. Never again ready after it was not, nor once the log has the panic.
fn readiness_until_the_end(server: &Server) -> Vec<u16> {
    let mut answers = Vec::new();
    let mut is_over = false;
    loop {
        is_over |= server.log().contains(PANICKED);
        let Ok(answer) = server.anonymous().get("/readyz") else { return answers };
        assert!(
            answer.status == 503 || (answer.status == 200 && !is_over),
            "{}\n{}",
            answer.status,
            server.log()
        );
        is_over |= answer.status == 503;
        answers.push(answer.status);
    }
}

/// A data directory with a user and a device.
fn prepared() -> Post {
    let post = Post::new();
    let (server, _) = try_start_at(&post, BEGINS, &[]).expect("it starts");
    put_user(&mut server.client(), "ann");
    register(&mut server.client(), "ann", "phone", "stub:ok/ann");
    server.stop();
    post
}

/// A server in which this task panics. It says that it is not ready, ends, and starts again.
fn check(prepared: &Post, task: &str) {
    let post = Post::new();
    copy(&prepared.directory.path("data"), &post.directory.path("data"));
    let at = format!("{task}:later");
    let (mut server, clock) = try_start_at(&post, BEGINS, &[("FANTAIL_DELIVERY_PANIC_AT", &at)])
        .unwrap_or_else(|banner| panic!("{task}: it did not start: {banner:?}"));
    let held = begin_to_ask(&server);
    let mut stir = Stir::new(&server, clock);
    let mut answers = std::thread::scope(|scope| {
        let readiness = scope.spawn(|| readiness_until_the_end(&server));
        let is_over = (0..ROUNDS_MAX).any(|_| stir.once().is_err());
        assert!(is_over, "{task}: it lives");
        eventually(&format!("{task}: it is stopping"), || server.log().contains(STOPPING).then_some(()));
        let last = ask(held);
        let mut answers = readiness.join().expect("readiness is red");
        answers.extend(last);
        answers
    });
    assert_eq!(answers.pop(), Some(503), "{task}: {}", server.log());
    assert!(!server.wait(), "{task}: the exit code says that it failed");
    let log = server.log();
    assert!(log.contains(&format!("stopped: the task {task} panicked: a test wants")), "{task}: {log}");

    let (server, _clock) = try_start_at(&post, &stir.now(), &[]).expect("it starts again");
    let mut client = server.client();
    let id = send(&mut client, &notification("after", &["ann"], json!({})));
    eventually(&format!("{task}: it sends again"), || {
        (status(&mut client, &id)["channels"][0]["done"] == true).then_some(())
    });
    server.stop();
}

// fixes: correctness A2
#[test]
fn a_panic_of_any_loop_or_thread_turns_readiness_red_and_ends_the_process() {
    let all = [LOOPS, THREADS].concat();
    let (prepared, next) = (prepared(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(task) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(&prepared, task);
                }
            });
        }
    });
}

// fixes: correctness A2
#[test]
fn every_loop_and_thread_of_a_server_is_in_the_table() {
    let post = prepared();
    let (server, clock) = try_start_at(&post, BEGINS, &[]).expect("it starts");
    let mut stir = Stir::new(&server, clock);
    let listed: BTreeSet<&str> = [LOOPS, THREADS].concat().into_iter().collect();
    eventually("every task of the table has run", || {
        stir.once().expect("it serves");
        let text = stir.client.get("/metrics").expect("an answer").text();
        let lines = text.lines().filter_map(|line| line.strip_prefix("fantail_task_panics_total{task=\""));
        let found: BTreeSet<&str> = lines.filter_map(|line| line.split('"').next()).collect();
        assert!(found.is_subset(&listed), "{found:?}");
        (found == listed).then_some(())
    });
    server.stop();
}
