//! What is refused, and how.

use crate::server::Server;
use crate::world::{bare, expect, post_by, refused};
use fantail_server::client::Request;
use fantail_wire::code::Code;
use serde_json::json;

fn send(server: &Server, media_type: &str, body: &[u8]) -> std::io::Result<fantail_server::client::Response> {
    let headers = [("content-type", media_type)];
    server.client().send(&Request { method: "POST", path: "/api/v1/events", headers: &headers, body })
}

// proves: API-03
#[test]
fn bad_requests_are_told_apart() {
    let server = Server::start();
    let event = post_by("ann", "1").to_string();
    for body in ["", "{", "not json", "{} {}", "{\"a\":1,}", "\u{feff}{}"] {
        refused(send(&server, "application/json", body.as_bytes()), "INVALID_JSON");
    }
    refused(send(&server, "application/json", b"{\"id\":\"\xff\"}"), "INVALID_JSON");
    let deep = format!("{}{}", "[".repeat(33), "]".repeat(33));
    refused(send(&server, "application/json", deep.as_bytes()), "INVALID_JSON");
    refused(send(&server, "application/json", b"7"), "INVALID_REQUEST");
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""] {
        refused(send(&server, media_type, event.as_bytes()), "UNSUPPORTED_MEDIA_TYPE");
    }
    let mut client = server.client();
    refused(bare(&mut client, "POST", "/api/v1/users/batch"), "UNSUPPORTED_MEDIA_TYPE");
}

// proves: API-03
#[test]
fn unknown_paths_and_methods_are_told_apart() {
    let server = Server::start();
    let mut client = server.client();
    for path in ["/", "/api/v1", "/api/v2/events", "/api/v1/events/", "/api/v1/people", "/favicon.ico"] {
        refused(client.get(path), "ROUTE_NOT_FOUND");
    }
    let response = bare(&mut client, "POST", "/api/v1/users/bob").expect("an answer");
    assert_eq!((response.status, response.json()["code"].as_str()), (405, Some("METHOD_NOT_ALLOWED")));
    let allow = response.header("allow").expect("the methods");
    for method in ["GET", "PUT", "PATCH", "DELETE"] {
        assert!(allow.contains(method), "{allow}");
    }
}

#[test]
fn request_ids_are_taken_over_or_made() {
    let server = Server::start();
    let ask = |id: &str| {
        let mut client = server.client().with_header("x-request-id", id);
        client.get("/api/v1/users/nobody").expect("an answer")
    };
    let response = ask("trace-7");
    assert_eq!(response.header("x-request-id"), Some("trace-7"));
    assert_eq!(response.json()["requestId"], "trace-7");
    for bad in ["has space", &"x".repeat(65), "quote\""] {
        let made = ask(bad).header("x-request-id").expect("an id").to_owned();
        assert_eq!(made.len(), 26, "{made}");
    }
    let log = server.log();
    let line = log.lines().find(|line| line.contains("trace-7")).expect("refusals are logged");
    assert!(
        line.contains("USER_NOT_FOUND") && line.contains("getUser") && !line.contains("nobody"),
        "{line}"
    );
}

// proves: API-03
#[test]
fn every_code_has_its_page() {
    let server = Server::start();
    let mut client = server.anonymous();
    for code in Code::ALL {
        let response = client.get(&format!("/errors/{}", code.page())).expect("an answer");
        assert_eq!(response.status, 200);
        assert!(response.text().starts_with(&format!("# {}", code.text())));
    }
    refused(client.get("/errors/nothing"), "ROUTE_NOT_FOUND");
    let problem = refused(server.client().get("/api/v1/users/nobody"), "USER_NOT_FOUND");
    expect_page(&server, problem["type"].as_str().expect("a type"));
}

fn expect_page(server: &Server, path: &str) {
    assert_eq!(server.anonymous().get(path).expect("an answer").status, 200);
}

// proves: API-04
#[test]
fn the_description_is_served() {
    let server = Server::start();
    let document = expect(server.anonymous().get("/openapi.json"), 200);
    assert_eq!(document["openapi"], "3.1.0");
    for route in fantail_api::routes::ROUTES {
        let operation = &document["paths"][route.path][route.method.text().to_ascii_lowercase()];
        assert_eq!(operation["operationId"], json!(route.id));
    }
}
