//! Traces, as a collector gets them and as they are told on demand.

use crate::deliveries::{Post, metric, notification, register, send};
use crate::tls::certificate;
use crate::world::{eventually, expect, follow, post, put_user, refused};
use fantail_rules::trace::TraceId;
use fantail_rules::ulid::Ulid;
use fantail_server::client::Request;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

const CALLER_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER_SPAN: &str = "00f067aa0ba902b7";

/// A collector that keeps every span. Its thread ends with the tests.
struct Collector {
    endpoint: String,
    spans: Arc<Mutex<Vec<Value>>>,
    /// The heads of all requests.
    heads: Arc<Mutex<String>>,
}

/// A connection as the collector has it.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        Self::listen(endpoint, listener, |stream| Box::new(stream))
    }

    fn over_tls(cert: &str, key: &str) -> Self {
        let chain = vec![CertificateDer::from_pem_file(cert).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("TLS")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("the key of the certificate");
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("https://localhost:{}", listener.local_addr().expect("an address").port());
        Self::listen(endpoint, listener, move |stream| {
            let connection = ServerConnection::new(config.clone()).expect("a connection");
            Box::new(StreamOwned::new(connection, stream))
        })
    }

    fn listen(
        endpoint: String,
        listener: TcpListener,
        open: impl Fn(TcpStream) -> Box<dyn Stream> + Send + 'static,
    ) -> Self {
        let (spans, heads): (Arc<Mutex<Vec<Value>>>, Arc<Mutex<String>>) = Default::default();
        let (kept, kept_heads) = (spans.clone(), heads.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = BufReader::new(open(stream));
                // A caller that does not believe in us says nothing.
                let Some((head, body)) = read_request(&mut stream) else { continue };
                let all = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
                let all = all.as_array().expect("spans").clone();
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend(all);
                kept_heads.lock().unwrap_or_else(PoisonError::into_inner).push_str(&head);
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                stream.get_mut().write_all(answer).expect("it listens");
            }
        });
        Self { endpoint, spans, heads }
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

fn read_request(stream: &mut impl BufRead) -> Option<(String, Value)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        head.push_str(&line);
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    Some((head, serde_json::from_slice(&body).expect("JSON")))
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

// proves: OBS-02
#[test]
fn a_collector_farther_away_is_spoken_to_by_tls_with_its_key() {
    let house = Post::new();
    let (cert, key) = certificate(&house.directory, "collector");
    let collector = Collector::over_tls(&cert, &key);
    let headers = "Authorization=Bearer%20s3cr3t-of-the-collector,x-org=7";
    let mut environment =
        vec![("FANTAIL_OTLP_ENDPOINT", collector.endpoint.as_str()), ("FANTAIL_OTLP_HEADERS", headers)];
    // Nobody vouches for it: it is told nothing, least of all the key.
    let server = house.start(&environment);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    send(&mut client, &notification("n1", &["ann"], json!({})));
    eventually("spans were lost, and counted", || {
        (metric(&mut client, "fantail_trace_spans_total", "failed") >= 5).then_some(())
    });
    assert!(collector.spans().is_empty());
    assert!(!server.log().contains("s3cr3t"), "{}", server.log());
    server.stop();

    environment.push(("FANTAIL_OTLP_ROOTS", &cert));
    let server = house.start(&environment);
    let id = send(&mut server.client(), &notification("n2", &["ann"], json!({})));
    collector.eventually(&id, 5);
    let heads = collector.heads.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for line in ["authorization: Bearer s3cr3t-of-the-collector\r\n", "x-org: 7\r\n"] {
        assert!(heads.contains(line), "{heads}");
    }
    assert!(!server.log().contains("s3cr3t"), "{}", server.log());
    server.stop();
}
