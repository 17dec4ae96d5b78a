//! Peers that send without reading, that stay silent, or that send what is no HTTP. The transport is a pipe of a few
//! bytes, so what a server holds for a peer cannot hide in the kernel's buffers.

use super::connection::{Admission, serve_stream};
use super::*;
use axum::body::{Body, Bytes};
use axum::extract::Request as AxumRequest;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use fantail_api::TwoLengths;
use fantail_api::bodies::{BodyBudget, BodyClaim, BodyHolder, ConnectionBodies};
use fantail_api::client_address::AddressRules;
use fantail_rules::limits::{READ_RESPONSE_BYTES_RESERVED, REQUEST_BYTES_WITHOUT_KEY_PER_CONNECTION_MAX};
use futures_util::{FutureExt, StreamExt};
use hyper::{Request, StatusCode};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const PIPE_BYTES: usize = 4 << 10;
const LARGE: usize = 1 << 20;

/// A listener's inside, and how often its handlers were called.
struct House {
    shared: Shared,
    calls: Arc<AtomicU64>,
    most_taken: Arc<AtomicU64>,
    bodies: Arc<BodyBudget>,
    _stop: watch::Sender<bool>,
    stopped: watch::Receiver<bool>,
}

/// Deadlines that no test waits for.
fn patient() -> Http {
    let long = Duration::from_secs(600);
    Http {
        connections_max: 10,
        connections_per_address: None,
        header_timeout: long,
        idle_timeout: long,
        write_timeout: long,
        body_timeout: long,
        drain: long,
        slow: long,
    }
}

/// Deadlines that a test waits for.
fn hasty() -> Http {
    let short = Duration::from_millis(20);
    Http { write_timeout: short, idle_timeout: short, header_timeout: short, ..patient() }
}

/// Claims what arrives, as the API does for callers without a key, and holds it until the body has come.
async fn held_until_it_is_whole(budget: Arc<BodyBudget>, request: AxumRequest) -> StatusCode {
    let connection = request.extensions().get::<Arc<ConnectionBodies>>().cloned();
    let mut claim = BodyClaim::new(budget, BodyHolder::NoKey, connection);
    let (mut body, mut bytes) = (request.into_body().into_data_stream(), 0);
    while let Some(Ok(data)) = body.next().await {
        bytes += data.len() as u64;
        if claim.grow_to(bytes).is_err() {
            return StatusCode::SERVICE_UNAVAILABLE;
        }
    }
    StatusCode::OK
}

/// As the API does.
async fn refuse_two_lengths(request: AxumRequest, next: Next) -> Response {
    match request.extensions().get::<TwoLengths>() {
        Some(_) => StatusCode::BAD_REQUEST.into_response(),
        None => next.run(request).await,
    }
}

impl House {
    fn new(http: Http, responses: ResponseBudget) -> Self {
        let (calls, most_taken) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let responses = Arc::new(responses);
        let count = {
            let (calls, most_taken, responses) = (calls.clone(), most_taken.clone(), responses.clone());
            move || {
                calls.fetch_add(1, Ordering::Relaxed);
                most_taken.fetch_max(responses.taken(), Ordering::Relaxed);
            }
        };
        let (large, empty) = (count.clone(), count);
        let bodies = Arc::<BodyBudget>::default();
        let of_bodies = bodies.clone();
        let router = Router::new()
            .route("/small", get(|| async { "x" }))
            .route("/body", post(move |request| held_until_it_is_whole(of_bodies.clone(), request)))
            .route(
                "/large",
                get(move || async move {
                    large();
                    Body::from(vec![b'x'; LARGE])
                }),
            )
            .route(
                "/empty",
                get(move || async move {
                    empty();
                    StatusCode::NO_CONTENT
                }),
            );
        let router = router.layer(axum::middleware::from_fn(refuse_two_lengths));
        let connections = Arc::new(Connections { responses, ..Connections::default() });
        let (stop, stopped) = watch::channel(false);
        let shared = Shared { router, http, tls: None, connections };
        Self { shared, calls, most_taken, bodies, _stop: stop, stopped }
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    async fn serve(&self, stream: DuplexStream) {
        let place =
            Places::new(1, None, AddressRules::default()).take([192, 0, 2, 1].into()).expect("a place");
        let peer = [192, 0, 2, 1].into();
        let turns = Turns::new(TurnPlaces::new(1, 1), AddressRules::default()).lines_for(peer);
        let streams = TurnExecutor { turns, caller: KnownCaller::default() };
        serve_stream(&self.shared, (stream, peer), &Admission::Full { place }, streams, self.stopped.clone())
            .await;
    }

    /// What a peer reads that sends this and waits for the end.
    async fn answer(&self, sent: &[u8]) -> String {
        let (mut peer, stream) = tokio::io::duplex(PIPE_BYTES);
        let talk = async move {
            let (mut reading, mut writing) = tokio::io::split(&mut peer);
            let mut bytes = Vec::new();
            let send = async {
                // The server may close before it has read all of it.
                drop(writing.write_all(sent).await);
            };
            let (read, ()) = tokio::join!(reading.read_to_end(&mut bytes), send);
            read.expect("an end without an error");
            String::from_utf8(bytes).expect("text")
        };
        let ((), answer) = tokio::join!(self.serve(stream), talk);
        answer
    }
}

fn pipelined(path: &str, count: usize) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(count).into_bytes()
}

// fixes: proved N1, security M6
#[tokio::test]
async fn pipelined_requests_are_not_handled_while_nothing_is_read() {
    for path in ["/large", "/empty"] {
        let house = House::new(hasty(), ResponseBudget::default());
        let (mut peer, stream) = tokio::io::duplex(PIPE_BYTES);
        let sent = pipelined(path, 1_000);
        let send = async {
            drop(peer.write_all(&sent).await);
            peer
        };
        // The connection ends by its write deadline, although its peer never closes it.
        let ((), peer) = tokio::join!(house.serve(stream), send);
        drop(peer);
        // Responses without a body fill the pipe before writing stops.
        let most = if path == "/large" { 2 } else { 200 };
        assert!((1..=most).contains(&house.calls()), "{path}: {} requests were handled", house.calls());
        assert!(house.most_taken.load(Ordering::Relaxed) <= 2 * LARGE as u64, "{path}");
        assert_eq!(house.shared.connections.not_reading.get(), 1, "{path}");
        assert_eq!(house.shared.connections.responses.taken(), 0, "{path}: all bytes are given back");
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_when_they_are_read() {
    let house = House::new(patient(), ResponseBudget::default());
    let mut sent = pipelined("/large", 20);
    sent.extend_from_slice(b"GET /empty HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let answer = house.answer(&sent).await;
    assert_eq!(house.calls(), 21);
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 20);
    assert_eq!(answer.matches('x').count(), 20 * LARGE);
    assert!(answer.rfind("HTTP/1.1 204").is_some_and(|at| at > 20 * LARGE));
}

/// Sends requests over HTTP/2 and reads nothing but their heads, until the server ends the connection.
async fn ask_without_window(pipe: DuplexStream, count: usize) {
    let mut builder = h2::client::Builder::new();
    let (mut sender, connection) =
        builder.initial_window_size(0).handshake::<_, Bytes>(pipe).await.expect("a connection");
    let connection = tokio::spawn(connection);
    let mut responses = Vec::new();
    for _ in 0..count {
        let Ok(ready) = sender.ready().await else { break };
        sender = ready;
        let request = Request::get("http://a/large").body(()).expect("a request");
        responses.push(sender.send_request(request, true));
    }
    drop(connection.await.expect("no panic"));
    drop(responses);
}

// fixes: proved N1, security M6
#[tokio::test]
async fn http_2_responses_without_a_window_are_bounded() {
    let http = Http { write_timeout: Duration::from_millis(50), ..patient() };
    let house = House::new(http, ResponseBudget::new(1 << 30, 4 * READ_RESPONSE_BYTES_RESERVED));
    let (peer, stream) = tokio::io::duplex(1 << 20);
    tokio::join!(house.serve(stream), ask_without_window(peer, 200));
    assert_eq!(house.shared.connections.not_reading.get(), 1);
    assert!((1..=4).contains(&house.calls()), "{} requests were handled", house.calls());
    assert_eq!(house.shared.connections.responses.taken(), 0);
}

/// Asks for responses that it does not read, and then for small ones that it reads, until the server ends the connection.
async fn ask_and_read_small_ones_only(pipe: DuplexStream, stalled: usize, requests_max: usize) {
    let mut builder = h2::client::Builder::new();
    let (mut sender, connection) =
        builder.initial_window_size(1).handshake::<_, Bytes>(pipe).await.expect("a connection");
    let connection = tokio::spawn(connection);
    let mut unread = Vec::new();
    for number in 0..stalled + requests_max {
        let Ok(ready) = sender.ready().await else { break };
        sender = ready;
        let path = if number < stalled { "http://a/large" } else { "http://a/small" };
        let request = Request::get(path).body(()).expect("a request");
        let Ok((response, _)) = sender.send_request(request, true) else { break };
        let Ok(response) = response.await else { break };
        let mut body = response.into_body();
        if number < stalled {
            unread.push(body);
        } else if let Some(data) = body.data().await {
            let Ok(data) = data else { break };
            body.flow_control().release_capacity(data.len()).expect("it was received");
        }
    }
    drop(unread);
    connection.abort();
}

#[tokio::test]
async fn a_stream_that_moves_does_not_hide_those_that_stand_still() {
    let http = Http { write_timeout: Duration::from_millis(50), ..patient() };
    let house = House::new(http, ResponseBudget::new(1 << 30, 1 << 30));
    let (peer, stream) = tokio::io::duplex(1 << 20);
    tokio::join!(house.serve(stream), ask_and_read_small_ones_only(peer, 31, 50_000));
    assert_eq!(house.shared.connections.not_reading.get(), 1);
    assert_eq!(house.shared.connections.responses.taken(), 0);
}

// fixes: security M7
#[tokio::test]
async fn bodies_of_one_connection_are_bounded_over_all_of_its_streams() {
    const STREAMS: usize = 256;
    const PORTION: usize = 32 << 10;
    let house = House::new(patient(), ResponseBudget::default());
    let (peer, stream) = tokio::io::duplex(1 << 20);
    let ask = async {
        let (mut sender, connection) = h2::client::handshake(peer).await.expect("a connection");
        let connection = tokio::spawn(connection);
        let held = (REQUEST_BYTES_WITHOUT_KEY_PER_CONNECTION_MAX as usize) / PORTION;
        let mut open = Vec::new();
        for number in 0..STREAMS {
            sender = sender.ready().await.expect("room for a stream");
            let request = Request::post("http://a/body").header("content-length", LARGE);
            let request = request.body(()).expect("a request");
            let (mut response, mut body) = sender.send_request(request, false).expect("an open connection");
            // The rest of the body never comes: nothing is answered but what has no room.
            body.send_data(vec![b'x'; PORTION].into(), false).expect("an open stream");
            if number < held {
                let all = (number + 1) * PORTION;
                while house.bodies.taken() < all as u64 {
                    tokio::task::yield_now().await;
                }
                open.push((response, body));
            } else {
                let status = (&mut response).await.expect("a response").status();
                assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            }
        }
        for (response, _) in &mut open {
            assert!(response.now_or_never().is_none(), "what was held before is not disturbed");
        }
        assert_eq!(house.bodies.taken(), REQUEST_BYTES_WITHOUT_KEY_PER_CONNECTION_MAX);
        drop((open, sender));
        connection.abort();
    };
    tokio::join!(house.serve(stream), ask);
    // Its streams are tasks of their own, and end behind it.
    while house.bodies.taken() > 0 {
        tokio::task::yield_now().await;
    }
}

// fixes: proved N1
#[tokio::test]
async fn all_connections_together_are_bounded_and_each_has_one_response() {
    let http = Http { write_timeout: Duration::from_millis(50), ..patient() };
    let house = House::new(http, ResponseBudget::new(LARGE as u64, 1 << 30));
    let connections = (0..8).map(|_| {
        let (peer, stream) = tokio::io::duplex(1 << 20);
        let house = &house;
        async move { tokio::join!(house.serve(stream), ask_without_window(peer, 50)) }
    });
    futures_util::future::join_all(connections).await;
    // Until the first responses exist, as many are handled as the reserves allow; then one of each connection.
    let most = LARGE as u64 / READ_RESPONSE_BYTES_RESERVED + 8;
    assert!((8..=most).contains(&house.calls()), "{} requests were handled", house.calls());
    assert_eq!(house.shared.connections.not_reading.get(), 8);
}

// fixes: security M6
#[tokio::test]
async fn idle_http_2_connections_are_told_to_go_away() {
    let house =
        House::new(Http { header_timeout: patient().header_timeout, ..hasty() }, ResponseBudget::default());
    let (peer, stream) = tokio::io::duplex(1 << 20);
    let ask = async {
        let (sender, connection) = h2::client::handshake(peer).await.expect("a connection");
        let connection = tokio::spawn(connection);
        let mut sender = sender.ready().await.expect("room for a stream");
        let request = Request::get("http://a/empty").body(()).expect("a request");
        let (response, _) = sender.send_request(request, true).expect("an open connection");
        assert_eq!(response.await.expect("a response").status(), StatusCode::NO_CONTENT);
        // The client answers every ping, and would stay for ever.
        connection.await.expect("no panic").expect("an end without an error");
        drop(sender);
    };
    tokio::join!(house.serve(stream), ask);
    assert_eq!(house.shared.connections.idle.get(), 1);
}

#[tokio::test]
async fn silent_connections_are_ended() {
    let house = House::new(hasty(), ResponseBudget::default());
    let (peer, stream) = tokio::io::duplex(PIPE_BYTES);
    house.serve(stream).await;
    drop(peer);
    assert_eq!(house.shared.connections.silent.get(), 1);
}

// fixes: usability C6
#[tokio::test]
async fn broken_http_is_answered_with_a_status() {
    let house = House::new(patient(), ResponseBudget::default());
    let long = "x".repeat(100_000);
    let cases = [
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), "414 "),
        (format!("GET /empty HTTP/1.1\r\nHost: a\r\n{}\r\n", format!("a: {long}\r\n").repeat(10)), "431 "),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "400 "),
        ("GARBAGE\r\n\r\n".to_owned(), "400 "),
        ("GET /empty HTTP/1.1\r\nHost a\r\n\r\n".to_owned(), "400 "),
    ];
    for (sent, status) in cases {
        let answer = house.answer(sent.as_bytes()).await;
        let shown = sent.get(..60).unwrap_or(&sent);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{shown}: {answer:?}");
    }
    assert_eq!(house.calls(), 0);
}

/// The library ignores the shorter length here, and would read the next request behind the chunks.
// fixes: usability C6
#[tokio::test]
async fn nothing_is_done_behind_a_request_with_two_lengths() {
    const BOTH: &str =
        "GET /empty HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let blanks = " ".repeat(50);
    let padded = format!("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length:{blanks}5\r\n\r\nhello");
    for (sent, statuses) in
        [(BOTH.repeat(2), &["400 "][..]), (format!("{padded}{BOTH}{BOTH}"), &["200 ", "400 "])]
    {
        let house = House::new(patient(), ResponseBudget::default());
        let answer = house.answer(sent.as_bytes()).await;
        let found: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).map(|one| &one[..4]).collect();
        assert_eq!(found, statuses, "{answer:?}");
        assert!(answer.contains("connection: close"), "{answer:?}");
        assert_eq!(house.calls(), 0, "{sent:?}");
    }
}

// fixes: usability C6
#[tokio::test]
async fn a_request_before_garbage_is_answered() {
    let house = House::new(patient(), ResponseBudget::default());
    let answer = house.answer(b"GET /empty HTTP/1.1\r\nHost: a\r\n\r\nGARBAGE\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer:?}");
    assert_eq!(answer.matches("HTTP/1.1 400 ").count(), 1, "{answer:?}");
}
