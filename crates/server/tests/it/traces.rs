//! Traces, as a collector gets them and as they are told on demand.

use crate::deliveries::{Post, metric, notification, register, send};
use crate::world::{eventually, expect, follow, post, put_user, refused};
use fantail_rules::trace::TraceId;
use fantail_rules::ulid::Ulid;
use fantail_server::client::Request;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

const CALLER_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER_SPAN: &str = "00f067aa0ba902b7";

/// A collector that keeps every span. Its thread ends with the tests.
struct Collector {
    endpoint: String,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let spans: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = spans.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let body = read_request(&mut BufReader::new(&stream));
                let all = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
                let all = all.as_array().expect("spans").clone();
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend(all);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").expect("it listens");
            }
        });
        Self { endpoint, spans }
    }

    fn spans(&self) -> Vec<Value> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The spans with this in one of their attributes, once there are so many.
    fn eventually(&self, event: &str, count: usize) -> Vec<Value> {
        let is_about = |span: &Value| span["attributes"].to_string().contains(event);
        eventually(&format!("{count} spans of {event}"), || {
            let found: Vec<Value> = self.spans().into_iter().filter(is_about).collect();
            (found.len() >= count).then_some(found)
        })
    }
}

fn read_request(stream: &mut impl BufRead) -> Value {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a line");
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    serde_json::from_slice(&body).expect("JSON")
}

fn trace_id(event: &str) -> String {
    TraceId::of_event(Ulid::parse(event).expect("an id")).text()
}

fn named<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    let mut found = spans.iter().filter(|span| span["name"] == name);
    let one = found.next().unwrap_or_else(|| panic!("no {name} in {spans:?}"));
    assert!(found.next().is_none(), "one {name}: {spans:?}");
    one
}

// proves: OBS-02
#[test]
fn a_direct_send_is_one_trace_from_accept_to_ack_linked_to_its_origin() {
    let collector = Collector::start();
    let house = Post::new();
    let server = house.start(&[("FANTAIL_OTLP_ENDPOINT", &collector.endpoint)]);
    let mut client = server.client();
    put_user(&mut client, "ann-the-secret");
    register(&mut client, "ann-the-secret", "phone", "stub:ok/token-of-ann");
    let body = notification("n1", &["ann-the-secret"], json!({"content": {"title": "Private words"}}));
    let traceparent = format!("00-{CALLER_TRACE}-{CALLER_SPAN}-01");
    let headers = [("content-type", "application/json"), ("traceparent", traceparent.as_str())];
    let bytes = body.to_string();
    let path = "/api/v1/notifications";
    let ask = Request { method: "POST", path, headers: &headers, body: bytes.as_bytes() };
    let accepted = expect(client.send(&ask), 202);
    let id = accepted["eventId"].as_str().expect("an id");
    let spans = collector.eventually(id, 5);
    assert!(spans.iter().all(|span| span["traceId"] == trace_id(id)), "one trace: {spans:?}");
    let mut parent = Value::Null;
    for name in ["accept", "intend", "send", "ack"] {
        let span = named(&spans, name);
        assert_eq!(span["parentSpanId"], parent, "{name}");
        parent = span["spanId"].clone();
    }
    let accept = named(&spans, "accept");
    assert_eq!(named(&spans, "admit")["parentSpanId"], accept["spanId"]);
    assert_eq!(accept["links"], json!([{"traceId": CALLER_TRACE, "spanId": CALLER_SPAN}]));
    let told = collector.spans().iter().map(Value::to_string).collect::<String>();
    for secret in ["ann-the-secret", "token-of-ann", "Private words", "n1"] {
        assert!(!told.contains(&format!("\"{secret}")), "{secret} in {told}");
    }
    // A repeat is no second trace, and what nobody can read is no origin.
    expect(client.send(&ask), 202);
    let odd = [("content-type", "application/json"), ("traceparent", "00-nonsense-01")];
    let other = notification("n2", &["ann-the-secret"], json!({})).to_string();
    let ask = Request { method: "POST", path, headers: &odd, body: other.as_bytes() };
    let second = expect(client.send(&ask), 202);
    let second = collector.eventually(second["eventId"].as_str().expect("an id"), 5);
    assert!(named(&second, "accept")["links"].is_null());
    assert_eq!(collector.eventually(id, 5).len(), 5);
    eventually("all are counted", || {
        (metric(&mut client, "fantail_trace_spans_total", "exported") >= 10).then_some(())
    });
    server.stop();
}

// proves: OBS-02
#[test]
fn a_list_is_a_span_for_each_parcel_linked_to_the_event_and_a_recipient_is_told_on_demand() {
    let collector = Collector::start();
    let house = Post::new();
    let server = house.start(&[("FANTAIL_OTLP_ENDPOINT", &collector.endpoint)]);
    let mut client = server.client();
    for no in 0..20 {
        let user = format!("u{no}");
        put_user(&mut client, &user);
        follow(&mut client, &user, "star");
        register(&mut client, &user, "phone", &format!("stub:ok/{no}"));
    }
    let event = json!({
        "specversion": "1.0", "id": "e1", "source": "/test", "type": "post",
        "data": {"audience": {"followersOf": "star"}, "content": {"title": "Hi"}, "channels": ["push"]},
    });
    let id = post(&mut client, &event);
    eventually("all have it", || (house.lines().len() == 20).then_some(()));
    // A parcel for each shard with followers, of which there are four at most.
    let deliveries = |spans: &[Value]| -> u64 {
        let parcels = spans.iter().filter(|span| span["name"] == "parcel");
        let number = |span: &Value| {
            let mut all = span["attributes"].as_array().expect("attributes").iter();
            let found = all.find(|one| one["key"] == "fantail.deliveries").expect("it is there");
            found["value"]["intValue"].as_str().expect("text").parse::<u64>().expect("a number")
        };
        parcels.map(number).sum()
    };
    let spans = eventually("parcels with all of them", || {
        let spans = collector.eventually(&id, 3);
        (deliveries(&spans) == 20).then_some(spans)
    });
    assert!(spans.len() <= 2 + 4, "accept, admit and parcels: {spans:?}");
    let accept = named(&spans, "accept");
    for parcel in spans.iter().filter(|span| span["name"] == "parcel") {
        assert_eq!(parcel["links"], json!([{"traceId": trace_id(&id), "spanId": accept["spanId"]}]));
        assert_ne!(parcel["traceId"], json!(trace_id(&id)), "a list is not one trace");
    }
    let told = expect(client.get(&format!("/api/v1/notifications/{id}/trace?user=u7")), 200);
    assert_eq!((&told["traceId"], &told["userId"]), (&json!(trace_id(&id)), &json!("u7")));
    let spans = told["spans"].as_array().expect("spans");
    assert_eq!(named(spans, "accept")["spanId"], accept["spanId"], "as it was exported");
    let delivery = named(spans, "delivery");
    assert_eq!((&delivery["state"], &delivery["channel"]), (&json!("sent"), &json!("push")));
    assert_eq!(delivery["parentSpanId"], accept["spanId"]);
    refused(client.get(&format!("/api/v1/notifications/{id}/trace?user=nobody")), "USER_NOT_FOUND");
    refused(client.get("/api/v1/notifications/nothing/trace?user=u7"), "EVENT_NOT_FOUND");
}

// proves: OBS-02
#[test]
fn attempts_are_told_and_a_collector_that_is_away_hinders_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let house = Post::new();
    let server = house.start(&[("FANTAIL_OTLP_ENDPOINT", &endpoint)]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:fail-first=1");
    let id = send(&mut client, &notification("n1", &["ann"], json!({})));
    let told = eventually("it was tried twice", || {
        let told = expect(client.get(&format!("/api/v1/notifications/{id}/trace?user=ann")), 200);
        let spans = told["spans"].as_array().expect("spans").clone();
        (spans.iter().filter(|span| span["name"] == "attempt").count() == 2).then_some(spans)
    });
    let states: Vec<&Value> =
        told.iter().filter(|span| span["name"] == "attempt").map(|span| &span["state"]).collect();
    assert_eq!(states, ["deferred", "sent"]);
    assert_eq!(house.lines().len(), 1);
    eventually("spans were lost, and counted", || {
        (metric(&mut client, "fantail_trace_spans_total", "failed") >= 5).then_some(())
    });
    server.stop();
}
