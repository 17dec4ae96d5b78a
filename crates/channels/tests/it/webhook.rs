//! Webhooks against a sink: what is sent, what each end of an attempt is called, and what is bounded.

use super::house::{Everywhere, House, endpoint, secret};
use super::parcel::{CONTENT, DEADLINE_MS, message, send, shipment, told};
use super::sink::Seen;
use super::time::WALL;
use fantail_channels::webhook::{Endpoint, Secret, verify};
use fantail_outbound::resolve::SystemResolver;
use fantail_ports::channel::{Answer, Message, Shipment};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

fn headers(seen: &Seen) -> HeaderMap {
    let parse = |(name, value): (&String, &String)| {
        (name.parse::<HeaderName>().expect("a name"), value.parse::<HeaderValue>().expect("a value"))
    };
    seen.headers.iter().map(parse).collect()
}

/// Sends aside, so that the test can move time meanwhile.
fn send_aside(house: &House, shipment: Shipment) -> JoinHandle<Vec<String>> {
    let hook = house.hook.clone();
    house.runtime.spawn(async move { send(&*hook, &shipment).await.iter().map(told).collect() })
}

fn to(house: &House, path: &str) -> Shipment {
    shipment(vec![message("ref-1", &endpoint(&house.url(path)))])
}

#[test]
fn the_receiver_can_verify_what_it_got() {
    let house = House::new();
    let new = Secret::from_bytes(&[8; 24]).expect("a secret");
    let endpoint =
        Endpoint::new(&house.url("/status/200?a=b"), vec![new.clone(), secret()], &[("x-team", "blue")])
            .expect("an endpoint");
    let own: Arc<[u8]> = Arc::from(&b"{\"own\":1}"[..]);
    let first = message("ref-1", &endpoint.encode());
    let second = Message { attempt: 2, content: Some(own.clone()), ..first.clone() };
    for message in [first, second] {
        let answers = house.runtime.block_on(send(&*house.hook, &shipment(vec![message])));
        assert_eq!(told(&answers[0]), "accepted");
        house.time.advance(30_000);
    }
    let seen = house.sink.seen();
    for (seen, body, sent_at) in [(&seen[0], CONTENT, WALL), (&seen[1], &own, WALL.plus(30_000))] {
        assert_eq!(seen.body, body);
        assert_eq!(seen.path, "/status/200?a=b");
        assert_eq!(seen.reference(), "ref-1", "the same id for every attempt");
        assert_eq!(seen.headers["webhook-timestamp"], (sent_at.0 / 1_000).to_string());
        assert_eq!(seen.headers["host"], house.sink.address.to_string());
        assert_eq!(seen.headers["x-team"], "blue");
        for secret in [&new, &secret()] {
            assert_eq!(verify(secret, &headers(seen), body, sent_at), Ok(()));
        }
        assert!(verify(&secret(), &headers(seen), b"changed", sent_at).is_err());
    }
}

#[test]
fn every_end_of_an_attempt_has_its_name() {
    let house = House::build(None, Arc::new(Everywhere), |_| ());
    for (number, (path, expected)) in [
        ("/status/200", "accepted"),
        ("/status/204", "accepted"),
        ("/status/301", "rejected Message 301"),
        ("/status/404", "later None Message 404"),
        ("/status/410", "rejected DeadEndpoint 410"),
        ("/status/413", "rejected Message 413"),
        ("/status/429", "later None Origin 429"),
        ("/retry/429/7", "later Some(7000) Origin 429"),
        ("/retry/503/soon", "later None Origin 503"),
        ("/status/500", "later None Message 500"),
        ("/status/503", "later None Origin 503"),
        ("/reset", "unknown reset"),
        ("/garbage", "unknown protocol"),
        ("/huge", "accepted"),
        ("/trickle", "accepted"),
        ("/early", "accepted"),
    ]
    .into_iter()
    .enumerate()
    {
        let url = house.url_at(&format!("h{number}.example.org"), path);
        assert_eq!(told(&house.post_to(&url)), expected, "{path}");
    }
}

// proves: DEL-02, DEL-04
#[test]
fn a_host_that_wants_a_rest_gets_it_and_no_other_notices() {
    let house = House::build(None, Arc::new(Everywhere), |_| ());
    let post = |host: &str, path: &str| told(&house.post_to(&house.url_at(host, path)));
    assert_eq!(post("tired.example.org", "/retry/429/7"), "later Some(7000) Origin 429");
    assert_eq!(post("tired.example.org", "/status/200"), "not sent Resting { after_ms: 7000 }");
    assert_eq!(post("awake.example.org", "/status/200"), "accepted");
    house.time.advance(7_000);
    assert_eq!(post("tired.example.org", "/status/200"), "accepted");
    assert_eq!(house.sink.seen().len(), 3, "nothing was sent to a host that rests");
}

#[test]
fn no_answer_in_time_is_unknown() {
    let house = House::new();
    let sending = send_aside(&house, to(&house, "/silent"));
    house.runtime.block_on(async {
        house.sink.wait_for(|counts| counts.requests == 1).await;
        house.time.advance(14_999);
        tokio::task::yield_now().await;
        assert!(!sending.is_finished());
        house.time.advance(1);
        assert_eq!(sending.await.expect("no panic"), ["unknown timeout"]);
        house.sink.wait_for(|counts| counts.closed == 1).await;
    });
    assert_eq!(house.sink.counts().requests, 1, "never sent again on its own");
}

#[test]
fn a_deadline_that_passes_while_connecting_means_not_sent() {
    // Accepts connections and then says nothing, so that TLS never gets anywhere.
    let house = House::with(|settings| settings.connect_timeout_ms = 15_000);
    let url = house.url("/status/200").replace("http://", "https://");
    let mut late = shipment(vec![message("ref-1", &endpoint(&url))]);
    late.deadline = super::time::BEGAN.plus(2_000);
    let sending = send_aside(&house, late);
    house.runtime.block_on(async {
        house.sink.wait_for(|counts| counts.connections == 1).await;
        house.time.advance(2_000);
        assert_eq!(sending.await.expect("no panic"), ["not sent Deadline"]);
    });
    assert_eq!(house.sink.counts().requests, 0);
}

#[test]
fn a_connection_that_takes_too_long_means_not_sent() {
    let house = House::new();
    let url = house.url("/status/200").replace("http://", "https://");
    let sending = send_aside(&house, shipment(vec![message("ref-1", &endpoint(&url))]));
    house.runtime.block_on(async {
        house.sink.wait_for(|counts| counts.connections == 1).await;
        house.time.advance(5_000);
        assert_eq!(sending.await.expect("no panic"), ["not sent NoConnection"]);
    });
}

#[test]
fn what_waits_for_a_busy_host_is_not_sent_after_the_deadline() {
    let house = House::with(|settings| settings.host_concurrency_max = 1);
    let messages = (0..3).map(|n| message(&format!("ref-{n}"), &endpoint(&house.url("/hold")))).collect();
    let sending = send_aside(&house, shipment(messages));
    house.runtime.block_on(async {
        house.sink.wait_for(|counts| counts.requests == 1).await;
        house.time.advance(DEADLINE_MS);
        let mut answers = sending.await.expect("no panic");
        answers.sort();
        // The first one gives its place back at this very moment: too late for the others.
        let is_late =
            |answer: &String| answer == "not sent Deadline" || answer.starts_with("not sent NoRoom");
        assert!(answers[..2].iter().all(is_late), "{answers:?}");
        assert_eq!(answers[2..], ["unknown timeout"]);
    });
    assert_eq!(house.sink.counts().requests, 1);
}

#[test]
fn attempts_under_way_are_bounded_by_host_and_shipment() {
    for (host_max, shipment_max, all_max, expected) in [(3, 64, 512, 3), (8, 2, 512, 2), (8, 64, 4, 4)] {
        let house = House::with(|settings| {
            settings.host_concurrency_max = host_max;
            settings.shipment_concurrency_max = shipment_max;
            settings.concurrency_max = all_max;
        });
        let messages =
            (0..20).map(|n| message(&format!("ref-{n}"), &endpoint(&house.url("/hold")))).collect();
        let sending = send_aside(&house, shipment(messages));
        house.runtime.block_on(async {
            house.sink.wait_for(|counts| counts.in_flight == expected).await;
            house.sink.release(20);
            assert_eq!(sending.await.expect("no panic"), vec!["accepted"; 20]);
        });
        assert_eq!(house.sink.counts().in_flight_max, expected);
        assert_eq!(house.sink.counts().requests, 20);
    }
}

#[test]
fn a_slow_host_takes_no_room_from_others() {
    let (slow, quick) = (House::new(), House::new());
    let port = quick.sink.address.port();
    let targets = [slow.sink.address.to_string(), quick.sink.address.to_string()];
    let house = House::open_to(&targets, None, Arc::new(SystemResolver::default()), |settings| {
        settings.host_concurrency_max = 2;
        settings.shipment_concurrency_max = 4;
    });
    let mut messages: Vec<_> =
        (0..50).map(|n| message(&format!("s{n}"), &endpoint(&slow.url("/hold")))).collect();
    let url = format!("http://localhost:{port}/status/200");
    messages.extend((0..50).map(|n| message(&format!("q{n}"), &endpoint(&url))));
    let sending = send_aside(&house, shipment(messages));
    house.runtime.block_on(async {
        quick.sink.wait_for(|counts| counts.requests == 50).await;
        slow.sink.release(50);
        assert_eq!(sending.await.expect("no panic"), vec!["accepted"; 100]);
    });
}

#[test]
fn connections_are_used_again_and_closed_when_idle() {
    let house = House::with(|settings| settings.host_concurrency_max = 1);
    let messages =
        (0..20).map(|n| message(&format!("ref-{n}"), &endpoint(&house.url("/status/200")))).collect();
    let answers = house.runtime.block_on(send(&*house.hook, &shipment(messages)));
    assert!(answers.iter().all(|answer| matches!(answer, Answer::Accepted { .. })));
    house.wait_for_idle(1);
    assert_eq!(house.sink.counts().connections, 1);
    house.time.advance(4_000);
    house.runtime.block_on(house.sink.wait_for(|counts| counts.closed == 1));
    assert_eq!(house.hook.idle_connections(), 0);
    assert_eq!(told(&house.post("/status/200")), "accepted");
    assert_eq!(house.sink.counts().connections, 2);
}

#[test]
fn a_connection_that_its_peer_closed_costs_no_attempt() {
    let house = House::new();
    for connections in 1..=3 {
        assert_eq!(told(&house.post("/status/200")), "accepted");
        house.wait_for_idle(1);
        house.sink.close_idle();
        house.wait_for_idle(0);
        assert_eq!(house.sink.counts().connections, connections);
    }
    assert_eq!(house.sink.counts().requests, 3);
}

#[test]
fn connections_with_a_rest_of_an_answer_are_not_used_again() {
    let house = House::new();
    for (closed, path) in ["/huge", "/trickle"].into_iter().enumerate() {
        assert_eq!(told(&house.post(path)), "accepted");
        house.time.advance(2_000);
        house.runtime.block_on(house.sink.wait_for(|counts| counts.closed > closed));
        assert_eq!(house.hook.idle_connections(), 0);
    }
}

#[test]
fn a_peer_that_closes_at_once_leaves_no_doubt_it_did_not_cause() {
    let house = House::new();
    let (listener, port) = house.runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("a bound port").port();
        (listener, port)
    });
    let target = format!("127.0.0.1:{port}");
    let closing = House::open_to(&[target], None, Arc::new(SystemResolver::default()), |_| ());
    house.runtime.spawn(async move { while listener.accept().await.is_ok() {} });
    // Over TLS it cannot have got far. In the clear the request may have been written before the end was seen.
    assert_eq!(told(&closing.post_to(&format!("https://127.0.0.1:{port}/"))), "not sent NoConnection");
    let plain = told(&closing.post_to(&format!("http://127.0.0.1:{port}/")));
    assert!(["unknown reset", "not sent Unprocessed"].contains(&plain.as_str()), "{plain}");
}

#[test]
fn what_cannot_be_sent_is_refused_before_it_connects() {
    let house = House::with(|settings| settings.body_bytes_max = CONTENT.len() - 1);
    assert_eq!(told(&house.post("/status/200")), "rejected Message too-large");
    let house = House::new();
    for reference in ["", "a.b", "a\r\nb"] {
        let shipment = shipment(vec![message(reference, &endpoint(&house.url("/status/200")))]);
        let answers = house.runtime.block_on(send(&*house.hook, &shipment));
        assert_eq!(told(&answers[0]), "rejected Malformed reference");
    }
    assert_eq!(house.sink.counts().connections, 0);
}

#[test]
fn no_answer_quotes_the_receiver() {
    let house = House::new();
    for path in ["/status/500", "/status/302", "/garbage", "/status/999"] {
        let shown = format!("{:?}", house.post(path));
        assert!(!shown.contains("body") && !shown.contains("SMTP"), "{path}: {shown}");
    }
}
