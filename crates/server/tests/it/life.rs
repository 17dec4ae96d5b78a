//! Start, stop, restart; probes and metrics; connections that misbehave; the commands beside `serve`.

use crate::server::{Directory, Server, run};
use crate::world::{
    bare, eventually, eventually_has, expect, follow, inbox, post, post_by, put_user, refused, unread,
};
use fantail_local::disk::{Disk, RealDisk};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

// fixes: security M10
#[test]
fn the_first_start_makes_keys_and_says_where() {
    let server = Server::start();
    for file in ["default.key", "admin.key"] {
        let mode = std::fs::metadata(server.data.join(file)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let banner = server.banner.join("\n");
    // Nobody looks at it: what is kept of it gets no key.
    for file in ["default.key", "admin.key"] {
        assert!(banner.contains(file) && !banner.contains(&server.key(file)), "{banner}");
    }
    assert!(banner.contains("format 1"), "{banner}");
    let keys = expect(server.admin().get("/api/v1/tenants/default/keys"), 200);
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_restart_keeps_everything() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    follow(&mut client, "bob", "ann");
    let first = post(&mut client, &post_by("ann", "1"));
    let second = post(&mut client, &post_by("ann", "2"));
    eventually_has(&mut client, "bob", &[second.clone(), first.clone()]);
    expect(client.post("/api/v1/users/bob/notifications/read", &json!({"ids": [first]})), 200);
    let since = inbox(&mut client, "bob", "")["sinceCursor"].as_str().expect("a cursor").to_owned();
    let (data, keys) = (server.data.clone(), (server.key("default.key"), server.key("admin.key")));
    drop(client);
    let _directory = server.stop();
    let server = Server::start_in(&data, &[], &[]);
    assert_eq!((server.key("default.key"), server.key("admin.key")), keys);
    let mut client = server.client();
    assert_eq!(unread(&mut client, "bob"), (1, 1));
    let replayed = client.post("/api/v1/events", &post_by("ann", "1")).expect("an answer");
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.json()["eventId"], first.as_str());
    let third = post(&mut client, &post_by("ann", "3"));
    eventually_has(&mut client, "bob", &[third.clone(), second, first]);
    assert_eq!(crate::world::ids(&inbox(&mut client, "bob", &format!("since={since}"))), [third]);
    let keys = expect(server.admin().get("/api/v1/tenants/default/keys"), 200);
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1), "no second key was made");
    server.stop();
}

#[test]
fn the_default_key_can_be_taken_away_for_good() {
    let server = Server::start();
    let key = server.key("default.key");
    let id = key.split('_').nth(1).expect("an id");
    expect(bare(&mut server.admin(), "DELETE", &format!("/api/v1/tenants/default/keys/{id}")), 204);
    let data = server.data.clone();
    let _directory = server.stop();
    std::fs::remove_file(data.join("default.key")).expect("the file is there");
    let server = Server::start_in(&data, &[], &[]);
    assert!(!data.join("default.key").exists());
    refused(server.with_key(&key).get("/api/v1/users/bob"), "UNAUTHENTICATED");
    server.stop();
}

#[test]
fn requests_under_way_finish_before_the_stop() {
    let mut server = Server::start();
    let mut stream = TcpStream::connect(&server.address).expect("a connection");
    let body = post_by("ann", "slow").to_string();
    let head = format!(
        "POST /api/v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        server.key("default.key"),
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(&body.as_bytes()[..10]).expect("sent");
    stream.flush().expect("sent");
    // It is under way once it is counted, beside the request that asks.
    eventually("the request is under way", || {
        let metrics = server.anonymous().get("/metrics").expect("an answer").text();
        metrics.lines().any(|line| line == "fantail_http_requests_open 2").then_some(())
    });
    server.signal("TERM");
    eventually("the listener is closed", || TcpStream::connect(&server.address).is_err().then_some(()));
    stream.write_all(&body.as_bytes()[10..]).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    assert!(server.wait(), "a clean stop");
}

#[test]
fn probes_and_metrics_answer_without_a_key() {
    let server = Server::start();
    let mut anyone = server.anonymous();
    assert_eq!(anyone.get("/livez").expect("an answer").text(), "ok\n");
    assert_eq!(anyone.get("/readyz").expect("an answer").text(), "ready\n");
    let verbose = expect(anyone.get("/readyz?verbose"), 200);
    assert_eq!(verbose["ready"], true);
    let names: Vec<_> = verbose["checks"].as_array().expect("checks").iter().map(|c| &c["name"]).collect();
    assert!(names.contains(&&json!("journal")) && names.contains(&&json!("lag")), "{names:?}");
    let mut client = server.client();
    put_user(&mut client, "bob");
    post(&mut client, &post_by("ann", "1"));
    post(&mut client, &post_by("ann", "1"));
    inbox(&mut client, "bob", "");
    let metrics = anyone.get("/metrics").expect("an answer");
    assert!(metrics.header("content-type").is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")));
    let text = metrics.text();
    for line in [
        "fantail_events_accepted_total{tenant=\"default\"} 1",
        "fantail_events_replayed_total 1",
        "fantail_inbox_reads_total 1",
        "fantail_http_requests_total{route=\"postEvents\",status=\"2xx\"} 2",
        "fantail_http_request_seconds_count{route=\"postEvents\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let settings = [("FANTAIL_HTTP_CONNECTIONS_MAX", "2"), ("FANTAIL_HTTP_HEADER_TIMEOUT_S", "1")];
    let server = Server::start_with(&[], &settings);
    let mut first = server.anonymous();
    expect(first.get("/readyz?verbose"), 200);
    let mut second = server.anonymous();
    expect(second.get("/readyz?verbose"), 200);
    let mut third = TcpStream::connect(&server.address).expect("accepted by the kernel");
    third.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut byte = [0];
    assert!(matches!(third.read(&mut byte), Ok(0) | Err(_)), "closed without an answer");
    drop(first);
    eventually("there is room again", || {
        let response = server.anonymous().get("/openapi.json").ok()?;
        (response.status == 200).then_some(())
    });
}

#[test]
fn connections_that_ask_nothing_are_closed() {
    let server = Server::start_with(&[], &[("FANTAIL_HTTP_HEADER_TIMEOUT_S", "1")]);
    for sent in ["", "P", "GET /livez HTT", "PRI * HTTP/2.0\r\n"] {
        let mut stream = TcpStream::connect(&server.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        stream.write_all(sent.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => assert!(!answer.starts_with(b"HTTP/1.1 2"), "{sent:?}"),
            Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "{sent:?} was kept open"),
        }
    }
    expect(server.anonymous().get("/readyz?verbose"), 200);
}

#[test]
fn slow_bodies_are_given_up() {
    let server = Server::start_with(&[], &[("FANTAIL_HTTP_BODY_TIMEOUT_S", "1")]);
    let mut stream = TcpStream::connect(&server.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let head = format!(
        "POST /api/v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        server.key("default.key")
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let server = Server::start();
    let output = crate::server::fantail()
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&server.data)
        .output()
        .expect("the binary runs");
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("in use by another process"), "{error}");
    expect(server.client().get("/readyz?verbose"), 200);
}

#[test]
fn the_journal_can_be_looked_into() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "secret-user-name");
    post(&mut client, &post_by("ann", "1"));
    let data = server.data.to_string_lossy().into_owned();
    let _directory = server.stop();
    let verdict = run(&["journal", "verify", "--data", &data]);
    assert!(verdict.contains("sound") && verdict.contains("sealed by a clean stop"), "{verdict}");
    let records = run(&["journal", "dump", "--data", &data]);
    assert!(records.contains("partition=front-0") && records.contains("kind=data"), "{records}");
    assert!(!records.contains("secret-user-name"));
}

#[test]
fn seeding_is_reproducible() {
    let seeded = || {
        let server = Server::start();
        let data = server.data.to_string_lossy().into_owned();
        let args = ["dev", "seed", "--users", "300", "--follows", "2000", "--seed", "7", "--server"];
        let said = run(&[&args[..], &[server.address.as_str(), "--data", data.as_str()]].concat());
        let mut client = server.client();
        let counts: Vec<u64> = (0..20)
            .map(|no| {
                let path = format!("/api/v1/users/user-{no}/followers?limit=1");
                expect(client.get(&path), 200)["count"].as_u64().expect("a number")
            })
            .collect();
        (said, counts)
    };
    let (first, second) = (seeded(), seeded());
    assert_eq!(first, second);
    assert!(first.0.starts_with("300 users created"), "{}", first.0);
    assert!(first.1[0] > first.1[19], "{:?}", first.1);
}

#[test]
fn the_version_is_printed() {
    assert!(run(&["version"]).starts_with("fantail "));
    let directory = Directory::new();
    assert!(!directory.path("data").exists());
}

/// The threshold is moved instead of the disk being filled: a file takes the room and gives it back.
#[test]
fn a_full_disk_stops_writes_and_not_reads_until_there_is_room() {
    let directory = Directory::new();
    let free = free_mib(&directory.path(""));
    let environment = ("FANTAIL_STORAGE_FREE_MIB_MIN", (free - 2_048).to_string());
    let percent = ("FANTAIL_STORAGE_FREE_PERCENT_MIN", "0");
    let settings = [(environment.0, environment.1.as_str()), percent];
    let server = Server::start_in(&directory.path("data"), &[], &settings);
    let mut client = server.client();
    put_user(&mut client, "bob");
    follow(&mut client, "bob", "ann");
    let first = post(&mut client, &post_by("ann", "1"));
    eventually_has(&mut client, "bob", std::slice::from_ref(&first));
    let taken = directory.path("taken");
    let reserved = std::process::Command::new("fallocate").args(["-l", "4096MiB"]).arg(&taken).status();
    assert!(reserved.expect("fallocate runs").success());
    let mut posts = 1;
    let refusal = eventually("writes are refused", || {
        posts += 1;
        let answer = client.post("/api/v1/events", &post_by("ann", &posts.to_string())).expect("an answer");
        (answer.status != 202).then_some(answer)
    });
    assert_eq!((refusal.status, refusal.json()["code"].as_str()), (503, Some("STORAGE_FULL")));
    assert!(refusal.header("retry-after").is_some());
    assert_eq!(
        inbox(&mut client, "bob", "")["unread"].as_u64().expect("a number"),
        unread(&mut client, "bob").0
    );
    assert_eq!(client.get("/readyz").expect("an answer").status, 503);
    std::fs::remove_file(&taken).expect("it is there");
    eventually("writes are taken again", || {
        let answer = client.post("/api/v1/events", &post_by("ann", "last")).expect("an answer");
        (answer.status == 202).then_some(())
    });
    assert_eq!(client.get("/readyz").expect("an answer").status, 200);
    server.stop();
}

fn free_mib(directory: &std::path::Path) -> u64 {
    RealDisk.space(directory).expect("the directory is there").free_bytes >> 20
}
