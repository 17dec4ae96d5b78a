//! The pages behind links: seen by scanners, mail programs and readers, in a real browser too.

use crate::deliveries::Post;
use crate::moved_clock::start_at;
use crate::server::Server;
use crate::world::{ALL_SCOPES, bare, eventually, expect, put_user, refused, tenant_with_key};
use fantail_server::client::{Client, Request, Response};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const FORM: &str = "application/x-www-form-urlencoded";

fn link(client: &mut Client, user: &str, body: &Value) -> Value {
    expect(client.post(&format!("/api/v1/users/{user}/preference-links"), body), 201)
}

/// The path of a link, without the host.
fn path_of(link: &Value) -> String {
    let url = link["url"].as_str().expect("a URL");
    url[url.find("/u/").expect("a hosted page")..].to_owned()
}

fn posted(client: &mut Client, path: &str, kind: &str, body: &str) -> Response {
    let headers = [("content-type", kind)];
    client
        .send(&Request { method: "POST", path, headers: &headers, body: body.as_bytes() })
        .expect("an answer")
}

fn preferences(client: &mut Client, user: &str) -> Value {
    expect(client.get(&format!("/api/v1/users/{user}/preferences")), 200)
}

// proves: EML-03, PRF-06, AUD-03
#[test]
fn one_click_unsubscribes_and_a_look_does_not() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let wanted = json!({"purpose": "unsubscribe", "channel": "email", "category": "news"});
    let made = link(&mut client, "ann", &wanted);
    let (path, mut reader) = (path_of(&made), server.anonymous());
    assert_eq!(made["mailHeaders"]["List-Unsubscribe"], format!("<{}>", made["url"].as_str().expect("text")));
    assert_eq!(made["mailHeaders"]["List-Unsubscribe-Post"], "List-Unsubscribe=One-Click");
    assert!(
        made["url"].as_str().is_some_and(|url| url.starts_with(&format!("http://{}/u/", server.address)))
    );
    assert!(!path.contains("ann") && !path.contains("news"), "{path}");
    for method in ["GET", "HEAD"] {
        let seen = bare(&mut reader, method, &path).expect("an answer");
        assert_eq!(seen.status, 200);
        let policy = seen.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert_eq!(
            (seen.header("cache-control"), seen.header("referrer-policy")),
            (Some("no-store"), Some("no-referrer"))
        );
    }
    assert_eq!(preferences(&mut client, "ann")["version"], 0, "nothing changes by looking");
    let parts =
        "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--\r\n";
    for (kind, body) in [(FORM, "List-Unsubscribe=One-Click"), ("multipart/form-data; boundary=b", parts)] {
        let answer = posted(&mut reader, &path, kind, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let found = preferences(&mut client, "ann");
        assert_eq!(
            (&found["version"], &found["categories"]["news"]["channels"]),
            (&json!(1), &json!(["inApp", "push", "sms", "webhook"]))
        );
    }
    let other = link(&mut client, "ann", &json!({"purpose": "unsubscribe", "category": "likes"}));
    assert_eq!(posted(&mut reader, &path_of(&other), "multipart/form-data; boundary=b", parts).status, 200);
    let history = expect(client.get("/api/v1/users/ann/preferences/history"), 200);
    for change in history["changes"].as_array().expect("changes") {
        assert_eq!((&change["source"], &change["kind"]), (&json!("one-click"), &json!("opt_out")));
    }
    let audited = eventually("the audit log has both", || {
        let log = expect(client.get("/api/v1/audit?limit=100"), 200);
        let entries = log["entries"].as_array().expect("entries").clone();
        let by: Vec<Value> =
            entries.into_iter().filter(|one| one.to_string().contains("preferences.opt_out")).collect();
        (by.len() == 2).then_some(by)
    });
    assert!(audited.iter().all(|entry| entry.to_string().contains("\"recipient\"")), "{audited:?}");
    for (kind, body) in
        [(FORM, "form=preferences&version=2"), (FORM, "List-Unsubscribe=Maybe"), ("text/plain", "x")]
    {
        assert_eq!(posted(&mut reader, &path, kind, body).status, 400, "{body}");
    }
    let large = "x".repeat(70_000);
    assert_eq!(posted(&mut reader, &path, FORM, &large).status, 413);
    assert_eq!(preferences(&mut client, "ann")["version"], 2);
}

// proves: TEN-01, EML-03
#[test]
fn links_belong_to_one_user_and_end() {
    let server = Server::start();
    let mut client = server.client();
    let mut reader = server.anonymous();
    put_user(&mut client, "ann");
    let path = path_of(&link(&mut client, "ann", &json!({})));
    // Every letter counts, wherever it stands.
    for at in 3..path.len() {
        let other = if &path[at..=at] == "0" { "1" } else { "0" };
        let forged = format!("{}{other}{}", &path[..at], &path[at + 1..]);
        assert_eq!(reader.get(&forged).expect("an answer").status, 404, "{forged}");
    }
    let ended = link(&mut client, "ann", &json!({"expiresAt": "2020-01-31T12:00:00Z"}));
    for bad in [path_of(&ended), "/u/0".to_owned(), format!("/u/{}", "0".repeat(2_000))] {
        let answer = reader.get(&bad).expect("an answer");
        assert_eq!((answer.status, answer.header("content-type")), (404, Some("text/html; charset=utf-8")));
        assert_eq!(posted(&mut reader, &bad, FORM, "List-Unsubscribe=One-Click").status, 404);
    }
    for (body, code) in [
        (json!({"channel": "inApp"}), "INVALID_REQUEST"),
        (json!({"expiresAt": "soon"}), "INVALID_REQUEST"),
        (json!({"colour": "blue"}), "INVALID_REQUEST"),
    ] {
        refused(client.post("/api/v1/users/ann/preference-links", &body), code);
    }
    let mut elsewhere = server.with_key(&tenant_with_key(&mut server.admin(), "acme", ALL_SCOPES));
    refused(elsewhere.post("/api/v1/users/ann/preference-links", &json!({})), "USER_NOT_FOUND");
    // Somebody who comes back under the same name is somebody else.
    assert_eq!(reader.get(&path).expect("an answer").status, 200);
    expect(bare(&mut client, "DELETE", "/api/v1/users/ann"), 204);
    put_user(&mut client, "ann");
    assert_eq!(reader.get(&path).expect("an answer").status, 404);
    let given = Server::start_with(&[], &[("FANTAIL_HTTP_PUBLIC_URL", "https://n.example.com/app/")]);
    put_user(&mut given.client(), "ann");
    let made = link(&mut given.client(), "ann", &json!({}));
    assert!(
        made["url"].as_str().is_some_and(|url| url.starts_with("https://n.example.com/app/u/")),
        "{made}"
    );
}

// proves: PRF-01, PRF-06, QH-06
#[test]
fn a_page_saves_what_its_reader_saw() {
    let server = Server::start();
    let mut client = server.client();
    let mut reader = server.anonymous();
    put_user(&mut client, "ann");
    let path = path_of(&link(&mut client, "ann", &json!({"category": "likes"})));
    let full = "form=preferences&version=0&everything=on&channel=inApp&channel=push&channel=sms&channel=webhook&category=likes";
    assert_eq!(posted(&mut reader, &path, FORM, full).status, 200);
    let saved = preferences(&mut client, "ann");
    assert_eq!(saved, json!({"userId": "ann", "version": 1, "channels": {"email": {"enabled": false}}}));
    let late = posted(&mut reader, &path, FORM, full);
    assert_eq!(late.status, 409);
    assert!(late.text().contains("role=\"alert\"") && late.text().contains("name=\"version\" value=\"1\""));
    let wrong = "form=preferences&version=1&everything=on&quiet=on&start=99:00&end=07:00&zone=";
    assert_eq!(posted(&mut reader, &path, FORM, wrong).status, 400);
    assert_eq!(preferences(&mut client, "ann")["version"], 1, "nothing is saved by halves");
}

/// Nothing that would count says anything new: one click after the other is answered, however many come.
// fixes: security L10
#[test]
fn a_link_saves_twenty_changes_in_an_hour() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T07:30:00Z", &[]);
    let mut client = server.client();
    let mut reader = server.anonymous();
    put_user(&mut client, "ann");
    let path = path_of(&link(&mut client, "ann", &json!({})));
    let mut save = |client: &mut Client| {
        let version = preferences(client, "ann")["version"].as_u64().expect("a number");
        let everything = if version.is_multiple_of(2) { "" } else { "&everything=on" };
        let form = format!("form=preferences&version={version}{everything}&channel=email");
        posted(&mut reader, &path, FORM, &form)
    };
    for number in 0..20 {
        assert_eq!(save(&mut client).status, 200, "change {number}");
    }
    let refused = save(&mut client);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1800")));
    assert!(refused.text().contains("role=\"alert\"") && refused.text().contains("in an hour"));
    assert_eq!(preferences(&mut client, "ann")["version"], 20);
    clock.move_to("2026-06-10T08:00:00Z");
    assert_eq!(save(&mut client).status, 200);
    let other = path_of(&link(&mut client, "ann", &json!({"purpose": "unsubscribe"})));
    let mut other_reader = server.anonymous();
    for _ in 0..30 {
        assert_eq!(posted(&mut other_reader, &other, FORM, "List-Unsubscribe=One-Click").status, 200);
    }
    server.stop();
}

// fixes: security L10
#[test]
fn links_end_by_themselves() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T07:00:00Z", &[("FANTAIL_LINKS_DAYS", "2")]);
    let mut client = server.client();
    let mut reader = server.anonymous();
    put_user(&mut client, "ann");
    let path = path_of(&link(&mut client, "ann", &json!({})));
    let longer = json!({"expiresAt": "2026-06-20T07:00:00Z"});
    let longer = path_of(&link(&mut client, "ann", &longer));
    for (time, is_there) in [
        ("2026-06-12T06:59:59Z", [200, 200]),
        ("2026-06-12T07:05:00Z", [404, 200]),
        ("2026-06-20T07:05:00Z", [404, 404]),
    ] {
        clock.move_to(time);
        let found = [&path, &longer].map(|path| reader.get(path).expect("an answer").status);
        assert_eq!(found, is_there, "{time}");
    }
}

/// The browser of the system and what drives it, as `make browser-tools` installs them.
fn browse(urls: [&str; 2]) -> Value {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    assert!(tests.join("node_modules").exists(), "run `make browser-tools` once");
    let mut node = Command::new("node");
    node.arg(tests.join("preferences.mjs")).args(urls);
    // `FANTAIL_PICTURES=/tmp cargo test … in_a_browser` leaves pictures there.
    node.args(std::env::var("FANTAIL_PICTURES"));
    let output = node.output().expect("node runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the browser failed: {errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

// proves: EML-03, PRF-01
#[test]
fn the_pages_work_in_a_browser_without_scripts() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "ann");
    let hostile = "<script>alert(1)</script>";
    let wanted = json!({"categories": {"likes": {"enabled": true}, hostile: {"enabled": true}}});
    expect(client.json("PATCH", "/api/v1/users/ann/preferences", &wanted), 200);
    let page = link(&mut client, "ann", &json!({}));
    let way_out = link(&mut client, "ann", &json!({"purpose": "unsubscribe", "category": "news"}));
    let url = |link: &Value| link["url"].as_str().expect("a URL").to_owned();
    let seen = browse([&url(&page), &url(&way_out)]);
    for empty in ["violations", "foreign", "refused"] {
        assert_eq!(seen[empty], json!([]), "{empty}");
    }
    assert_eq!((&seen["lang"], &seen["first"]), (&json!("de"), &json!("everything")));
    assert_eq!(seen["saved"], "Ihre Einstellungen sind gespeichert.");
    assert_eq!((&seen["emailStaysOff"], &seen["scrollsSideways"]), (&json!(true), &json!(false)));
    assert_eq!(seen["promise"], "You will get no more: news");
    assert!(seen["left"].as_str().is_some_and(|text| text.starts_with("You are unsubscribed.")), "{seen}");
    let found = preferences(&mut client, "ann");
    assert_eq!(found["channels"], json!({"email": {"enabled": false}}));
    let days = json!(["mon", "tue", "wed", "thu", "fri", "sat"]);
    let quiet =
        json!({"enabled": true, "start": "21:30", "end": "07:00", "timezone": "Europe/Vienna", "days": days});
    assert_eq!(found["quietHours"], quiet);
    let categories = json!({
        "likes": {"enabled": false}, "news": {"enabled": false}, hostile: {"enabled": true},
    });
    assert_eq!(found["categories"], categories);
}
