//! HTTP as it arrives from anybody: all places taken, broken requests, and JSON that is not what it seems.

use crate::deliveries::metric;
use crate::providers::{LOCAL_PROVIDERS, put, smtp_account};
use crate::server::Server;
use crate::world::{bare, eventually, expect, put_user, refused};
use fantail_server::client::{Client, Request};
use serde_json::{Map, Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

const MEBIBYTE: usize = 1 << 20;
/// Bodies of a mebibyte from callers without a key, together.
const CALLBACKS_AT_ONCE: usize = 64;

/// What a peer reads that sends these bytes and no others.
fn answer(server: &Server, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(&server.address).expect("a connection");
    stream.write_all(sent).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an end without a reset");
    answer
}

// fixes: security M6
#[test]
fn probes_are_answered_when_all_places_are_taken() {
    let server = Server::start_with(&[], &[("FANTAIL_HTTP_CONNECTIONS_MAX", "2")]);
    let mut holders = [server.client(), server.client()];
    for holder in &mut holders {
        expect(holder.get("/livez"), 200);
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        let response = server.anonymous().get(path).expect("an answer");
        assert_eq!((response.status, response.header("connection")), (200, Some("close")), "{path}");
    }
    // More silent connections than there is room for do not keep a probe from its answer.
    let silent: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(&server.address).expect("a connection")).collect();
    expect(server.anonymous().get("/livez"), 200);
    for path in ["/api/v1/users/bob", "/openapi.json"] {
        let response = server.client().get(path).expect("an answer");
        assert_eq!(response.header("retry-after"), Some("1"), "{path}");
        assert_eq!(response.json()["code"], "TOO_MANY_CONNECTIONS", "{path}");
    }
    assert!(metric(&mut holders[0], "fantail_connections_refused_total", "") >= 106);
    drop(silent);
    put_user(&mut holders[1], "bob");
}

#[test]
fn connections_leave_descriptors_for_files_and_probes() {
    let server = Server::start_with_descriptors(256);
    let told = server.banner.iter().any(|line| line.contains("64 connections at a time, not 10000"));
    assert!(told, "{:?}", server.banner);
    let mut holders: Vec<Client> = (0..64).map(|_| server.client()).collect();
    for holder in &mut holders {
        expect(holder.get("/livez"), 200);
    }
    let silent: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(&server.address).expect("a connection")).collect();
    expect(server.anonymous().get("/livez"), 200);
    let users: Vec<Value> = (0..3_000).map(|no| json!({"userId": format!("u{no}")})).collect();
    let made = expect(holders[0].post("/api/v1/users/batch", &json!({"users": users})), 200);
    assert_eq!(made["created"], 3_000, "each batch of keys is written to files that are opened for it");
    drop(silent);
    expect(server.anonymous().get("/readyz"), 200);
}

// fixes: usability C6
#[test]
fn broken_requests_are_answered_with_a_status() {
    let server = Server::start();
    let get = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
    let length = "Content-Length: 5\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let post = |headers: &str, body: &str| {
        let key = server.key("default.key");
        format!(
            "POST /api/v1/erasures HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             {headers}\r\n{body}"
        )
    };
    let large = format!("GET /livez HTTP/1.1\r\nHost: a\r\n{}\r\n", "a: bcdefghijklmnop\r\n".repeat(60_000));
    let cases = [
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(100_000)), "414 "),
        (large, "431 "),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "400 "),
        ("GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), "400 "),
        ("GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n".to_owned(), "400 "),
        ("GET /%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(), "400 "),
        (post(&format!("{chunked}{chunked}"), "zz\r\n"), "400 "),
        (post(chunked, "zz\r\nhello\r\n0\r\n\r\n"), "400 "),
        // Two lengths are two requests to somebody: neither is done, and the connection is closed.
        (post(&format!("{length}{chunked}"), "2\r\n{}\r\n0\r\n\r\nGET /livez"), "400 "),
        (post(&format!("{chunked}{length}"), "2\r\n{}\r\n0\r\n\r\nGET /livez"), "400 "),
        (format!("GET /livez HTTP/1.1\r\nHost: a\r\n{chunked}{length}\r\n0\r\n\r\n"), "400 "),
    ];
    for (sent, status) in cases {
        let answer = answer(&server, sent.as_bytes());
        let shown: String = sent.chars().take(200).collect();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{shown}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{shown}: {answer}");
    }
    let both = answer(&server, format!("{get}GARBAGE\r\n\r\n").as_bytes());
    assert!(both.starts_with("HTTP/1.1 200 ") && both.contains("HTTP/1.1 400 "), "{both}");
}

// fixes: usability C5, usability C14
#[test]
fn compressed_bodies_and_broken_paths_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    let headers = [("content-type", "application/json"), ("content-encoding", "br")];
    for path in ["/api/v1/events", "/api/v1/users/batch"] {
        let request = Request { method: "POST", path, headers: &headers, body: b"{}" };
        refused(client.send(&request), "UNSUPPORTED_MEDIA_TYPE");
    }
    refused(bare(&mut client, "PUT", "/api/v1/users/%zz"), "MALFORMED_REQUEST");
    refused(client.get("/api/v1/users/x?limit=%"), "MALFORMED_REQUEST");
}

/// Sends the head of a callback whose body never comes.
fn announce(server: &Server, path: &str, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("the server reads");
    stream
}

/// The head of what a server answers that closes the connection or leaves it open.
pub fn head_of(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("an answer") == 1 {
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text").to_ascii_lowercase()
}

// fixes: security M7
#[test]
fn bodies_without_a_key_are_read_for_known_accounts_and_within_a_budget() {
    let server = Server::start_with(&[], &[LOCAL_PROVIDERS]);
    let made = put(&mut server.client(), "mail", &smtp_account("127.0.0.1:9"));
    let known = made["callbackUrl"].as_str().expect("where reports are posted");
    let known = &known[known.find("/callbacks/").expect("a path")..];
    for path in ["/callbacks/nobody/x", "/callbacks/default/x", "/callbacks/twilio/x/y"] {
        let answer = head_of(&mut announce(&server, path, MEBIBYTE));
        assert!(
            answer.starts_with("http/1.1 404 ") || answer.starts_with("http/1.1 403 "),
            "{path}: {answer}"
        );
    }
    // A link that is none is answered before its form comes.
    let answer = head_of(&mut announce(&server, "/u/x", 64 << 10));
    assert!(answer.starts_with("http/1.1 404 "), "{answer}");
    let held = || metric(&mut server.client(), "fantail_request_body_bytes", "");
    let is_read = |bytes: usize| {
        let mut callback = announce(&server, known, bytes);
        callback.write_all(&vec![b'x'; bytes]).expect("the server reads");
        let answer = head_of(&mut callback);
        assert!(answer.starts_with("http/1.1 422 ") || answer.starts_with("http/1.1 200 "), "{answer}");
    };
    // However many announce bodies that never come, one that comes is read.
    let silent: Vec<TcpStream> =
        (0..2 * CALLBACKS_AT_ONCE).map(|_| announce(&server, known, MEBIBYTE)).collect();
    let waited_for = || metric(&mut server.client(), "fantail_http_requests_open", "") > silent.len() as u64;
    eventually("the bodies are waited for", || waited_for().then_some(()));
    assert_eq!(held(), 0);
    is_read(MEBIBYTE);
    drop(silent);
    // What comes is held.
    let mut open = Vec::new();
    for count in 1..=CALLBACKS_AT_ONCE {
        let mut stream = announce(&server, known, MEBIBYTE);
        stream.write_all(&vec![b'x'; MEBIBYTE - 1]).expect("the server reads");
        open.push(stream);
        eventually("all but a byte has come", || (held() == (count * MEBIBYTE) as u64).then_some(()));
    }
    let mut late = announce(&server, known, MEBIBYTE);
    late.write_all(b"x").expect("the server reads");
    let refused = head_of(&mut late);
    assert!(refused.starts_with("http/1.1 503 ") && refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
    // Who has a key has room of another kind.
    put_user(&mut server.client(), "bob");
    assert_eq!(held(), (CALLBACKS_AT_ONCE * MEBIBYTE) as u64);
    drop(open);
    eventually("the room comes back", || (held() == 0).then_some(()));
    is_read(5);
}

// fixes: usability B1
#[test]
fn an_idempotency_key_is_never_ignored() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    let body = json!({"content": {"title": "x"}, "recipients": [{"userId": "bob"}]});
    let send = |client: &mut Client, headers: &[(&str, &str)], body: &Value| {
        let mut all = vec![("content-type", "application/json")];
        all.extend_from_slice(headers);
        let body = body.to_string();
        client.send(&Request {
            method: "POST",
            path: "/api/v1/notifications",
            headers: &all,
            body: body.as_bytes(),
        })
    };
    let key = ("idempotency-key", "bestellung-ü-42");
    let first = expect(send(&mut client, &[key], &body), 202);
    let again = send(&mut client, &[key], &body).expect("an answer");
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json()["eventId"], first["eventId"]);
    assert_eq!(first["notificationId"], "bestellung-ü-42");
    refused(send(&mut client, &[key, key], &body), "INVALID_REQUEST");
    refused(send(&mut client, &[("idempotency-key", "")], &body), "INVALID_REQUEST");
    let mut named = body.clone();
    named["notificationId"] = json!("other");
    refused(send(&mut client, &[key], &named), "INVALID_REQUEST");
}

// fixes: usability C3
#[test]
fn a_put_that_races_a_delete_is_not_told_that_there_is_nothing() {
    const ROUNDS: usize = 100;
    let server = Server::start();
    let template = json!({
        "id": "hello", "category": "general", "defaultLocale": "en", "channels": {"sms": {"body": "Hello"}},
    });
    let cases = [
        ("/api/v1/users/bob", json!({"attributes": {"plan": "pro"}})),
        ("/api/v1/suppressions/email/bob%40example.com", json!({"reason": "manual"})),
        ("/api/v1/templates/hello", template),
    ];
    for (path, body) in cases {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..ROUNDS {
                    let status = bare(&mut client, "DELETE", path).expect("an answer").status;
                    assert!(matches!(status, 204 | 404), "{path}: {status}");
                }
            });
            let mut client = server.client();
            for _ in 0..ROUNDS {
                let response = client.json("PUT", path, &body).expect("an answer");
                // A template that another put made first wants a condition.
                assert!(matches!(response.status, 200 | 201 | 412), "{path}: {}", response.text());
            }
        });
    }
}

/// Every variant of an example in which one object became the array of its values.
fn with_an_array(document: &Value, schema: &Value, example: &Value) -> Vec<Value> {
    if let Some(path) = schema["$ref"].as_str() {
        let found = document.pointer(path.trim_start_matches('#')).expect("a schema");
        return with_an_array(document, found, example);
    }
    let mut variants = Vec::new();
    for alternative in ["anyOf", "oneOf"] {
        for schema in schema[alternative].as_array().into_iter().flatten() {
            variants.extend(with_an_array(document, schema, example));
        }
    }
    match example {
        Value::Object(fields) => {
            if schema["properties"].is_object() {
                variants.push(Value::Array(fields.values().cloned().collect()));
            }
            for (name, value) in fields {
                let of_field = &schema["properties"][name];
                let schema = if of_field.is_null() { &schema["additionalProperties"] } else { of_field };
                for variant in with_an_array(document, schema, value) {
                    let mut fields: Map<String, Value> = fields.clone();
                    fields.insert(name.clone(), variant);
                    variants.push(Value::Object(fields));
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                for variant in with_an_array(document, &schema["items"], item) {
                    let mut items = items.clone();
                    items[index] = variant;
                    variants.push(Value::Array(items));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    variants
}

/// A path with something for each of its parameters.
fn filled(path: &str) -> String {
    let known = path.replace("{slug}", "default").replace("{channel}", "email").replace("{address}", "a@b.c");
    let parts = known.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
    parts.collect::<Vec<&str>>().join("/")
}

// fixes: usability C2
#[test]
fn an_array_is_never_taken_for_an_object() {
    let server = Server::start();
    let mut client = server.admin().with_header("fantail-tenant", "default");
    let document = expect(client.get("/openapi.json"), 200);
    let mut sent = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let media = &operation["requestBody"]["content"]["application/json"];
            if media.is_null() || path == "/api/v1/events" {
                continue;
            }
            let path = filled(path);
            let mut variants = with_an_array(&document, &media["schema"], &media["example"]);
            variants.push(json!([]));
            for variant in variants {
                let response = client.json(&method.to_ascii_uppercase(), &path, &variant);
                let response = response.expect("an answer");
                let is_refused = matches!(response.status, 400 | 404 | 422);
                assert!(is_refused, "{method} {path} {variant}: {} {}", response.status, response.text());
                sent += 1;
            }
        }
    }
    assert!(sent > 60, "{sent} requests");
}
