//! Who is let in where, and what is left behind of those who are not.

use crate::actors::id_of;
use crate::audit::entries;
use crate::deliveries::{Post, metric, register};
use crate::moved_clock::start_at;
use crate::server::{Directory, Server, fantail};
use crate::world::{ALL_SCOPES, bare, eventually, expect, key_of, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

/// Ends with the test, whatever became of it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is fine.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

// fixes: security L2, security M5
#[test]
fn beyond_this_machine_it_listens_without_administration_and_in_the_clear_only_if_it_is_said() {
    let directory = Directory::new();
    let start = |settings: &[(&str, &str)]| {
        let mut command = fantail();
        command.args(["serve", "--listen", "0.0.0.0:0", "--data"]).arg(directory.path("data"));
        command.envs(settings.iter().copied()).stdin(Stdio::null());
        command
    };
    let ended = start(&[]).output().expect("the binary runs");
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && error.contains("http.plain_allowed"), "{error}");
    assert!(!directory.path("data").exists(), "nothing was made");

    let mut started = start(&[("FANTAIL_HTTP_PLAIN_ALLOWED", "true")]);
    let child = started.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut running = Running(child);
    let stdout = BufReader::new(running.0.stdout.take().expect("a pipe"));
    let lines = stdout.lines().map(|line| line.expect("text"));
    let banner: Vec<String> = lines.take_while(|line| line != "ready").collect();
    let url = |name: &str| {
        let line =
            banner.iter().find(|line| line.trim_start().starts_with(name)).expect("a line of the banner");
        let url = line.split_whitespace().nth(1).expect("a URL").trim_end_matches(',');
        url.trim_start_matches("http://").split('/').next().expect("an address").to_owned()
    };
    assert!(banner.iter().any(|line| line.contains("warning")), "{banner:#?}");
    assert!(url("api").starts_with("0.0.0.0:") && url("admin").starts_with("127.0.0.1:"), "{banner:#?}");
    let admin_key = fs::read_to_string(directory.path("data/admin.key")).expect("a key");
    let mut outside = Client::to(&url("api")).with_key(admin_key.trim());
    refused(outside.get("/metrics"), "ROUTE_NOT_FOUND");
    refused(outside.get("/api/v1/tenants"), "ROUTE_NOT_FOUND");
    refused(outside.get("/api/v1/tenants/default"), "UNAUTHENTICATED");
    let mut inside = Client::to(&url("admin")).with_key(admin_key.trim());
    expect(inside.get("/api/v1/tenants"), 200);
    assert!(inside.get("/metrics").expect("an answer").text().contains("fantail_connections_open"));
}

// fixes: security M10
#[test]
fn the_first_key_neither_administers_nor_sends_what_is_critical() {
    let server = Server::start_with(&[], &[("FANTAIL_BOOTSTRAP", "default")]);
    let keys = expect(server.admin().get("/api/v1/tenants/default/keys"), 200);
    let scopes: Vec<&str> =
        keys["keys"][0]["scopes"].as_array().expect("scopes").iter().filter_map(Value::as_str).collect();
    let mut expected: Vec<&str> =
        ALL_SCOPES.iter().copied().filter(|scope| !["admin", "send:critical"].contains(scope)).collect();
    expected.sort_unstable();
    let mut found = scopes.clone();
    found.sort_unstable();
    assert_eq!(found, expected);
    put_user(&mut server.client(), "bob");
    refused(server.client().get("/api/v1/tenants/default/keys"), "FORBIDDEN");

    let server = Server::start_with(&[], &[("FANTAIL_BOOTSTRAP", "none")]);
    assert!(!server.data.join("default.key").exists());
    assert_eq!(expect(server.admin().get("/api/v1/tenants"), 200)["tenants"], json!([]));
}

fn modes(path: &Path, open: &mut Vec<String>) {
    let metadata = fs::symlink_metadata(path).expect("it is there");
    if metadata.permissions().mode() & 0o077 != 0 {
        open.push(format!("{} {:o}", path.display(), metadata.permissions().mode()));
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("a directory") {
            modes(&entry.expect("an entry").path(), open);
        }
    }
}

// fixes: security L6
#[test]
fn what_the_server_makes_is_its_own_and_what_is_open_is_named() {
    let directory = Directory::new();
    let data = directory.path("data");
    fs::create_dir(&data).expect("a directory");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("its owner may");
    let server = Server::start_in(&data, &[], &[]);
    put_user(&mut server.client(), "bob");
    let log = server.log();
    assert!(log.contains("others on this machine") && log.contains("mode=\"755\""), "{log}");
    server.stop();
    let mut open = Vec::new();
    for entry in fs::read_dir(&data).expect("a directory") {
        modes(&entry.expect("an entry").path(), &mut open);
    }
    assert_eq!(open, Vec::<String>::new());
}

/// The line about a request with this id.
fn line_of(server: &Server, request: &str) -> String {
    eventually("the log has it", || {
        server
            .log()
            .lines()
            .find(|line| line.contains(&format!("request_id=\"{request}\"")))
            .map(str::to_owned)
    })
}

/// What a page of the audit log says of refused logins.
fn sums(page: &Value) -> Vec<String> {
    let facts = page["entries"].as_array().expect("entries").iter().map(|entry| &entry["fact"]);
    let own = facts.filter(|fact| fact["action"] == "login.refuse");
    own.map(|fact| fact["target"].as_str().expect("text").to_owned()).collect()
}

// fixes: security M12
#[test]
fn refused_requests_leave_address_key_and_reason_in_the_log_and_a_sum_in_the_audit_log() {
    let directory = Directory::new();
    let data = directory.path("data");
    let proxies = [("FANTAIL_HTTP_TRUSTED_PROXIES", "127.0.0.0/8")];
    let server = Server::start_in(&data, &[], &proxies);
    // Administration is elsewhere, as strangers come through a proxy.
    let admin = || server.at("admin").with_key(&server.key("admin.key"));
    let weak = key_of(&mut admin(), "default", &["inbox:read"]);
    // A typing error in the secret, with the right check digits, is not known; this is a key that is revoked.
    let revoked = key_of(&mut admin(), "default", &["inbox:read"]);
    expect(bare(&mut admin(), "DELETE", &format!("/api/v1/tenants/default/keys/{}", id_of(&revoked))), 204);
    let from = |client: Client, address: &str, request: &str| {
        client.with_header("x-forwarded-for", address).with_header("x-request-id", request)
    };
    let cases = [
        (from(server.with_key("y-no-key"), "192.0.2.1", "one"), 401, "192.0.2.1", "unknown_key", None),
        (from(server.anonymous(), "192.0.2.2", "two"), 401, "192.0.2.2", "no_key", None),
        (
            from(server.with_key(&weak), "2001:db8::7", "three"),
            403,
            "2001:db8::7",
            "missing_scope",
            Some(&weak),
        ),
        (
            from(server.with_key(&revoked), "198.51.100.9", "four"),
            401,
            "198.51.100.9",
            "revoked_key",
            Some(&revoked),
        ),
    ];
    for ((mut client, status, address, reason, key), request) in
        cases.into_iter().zip(["one", "two", "three", "four"])
    {
        assert_eq!(bare(&mut client, "PUT", "/api/v1/users/bob").expect("an answer").status, status);
        let line = line_of(&server, request);
        assert!(line.contains(&format!("client={address}")) && line.contains(reason), "{line}");
        assert!(line.contains("route=\"putUser\""), "{line}");
        if let Some(key) = key {
            assert!(line.contains(&format!("key=\"{}\"", id_of(key))), "{line}");
            assert!(!line.contains(key.split('_').nth(2).expect("a secret")), "{line}");
        }
    }
    let label = |reason: &str| format!("reason=\"{reason}\"");
    for reason in ["unknown_key", "no_key", "missing_scope", "revoked_key"] {
        assert_eq!(
            metric(&mut server.at("admin"), "fantail_access_refused_total", &label(reason)),
            1,
            "{reason}"
        );
    }
    // The sums of the minute are written at the stop, too.
    server.stop();
    let server = Server::start_in(&data, &[], &proxies);
    let operator = server.at("admin").with_key(&server.key("admin.key"));
    for (path, mut client) in [("/api/v1/audit/server", operator), ("/api/v1/audit", server.client())] {
        let found = eventually("the sum is derived", || {
            Some(sums(&expect(client.get(path), 200))).filter(|sums| !sums.is_empty())
        });
        assert_eq!(found.len(), 1, "{path}: one sum: {found:?}");
        assert!(found[0].starts_with("count=2 peers=2 first="), "{path}: {found:?}");
        assert!(!found[0].contains("192.0.2"), "no address is kept: {found:?}");
    }
}

// fixes: security M6, security M12
#[test]
fn an_address_asks_as_often_as_it_may_and_others_go_on() {
    let limits = [
        ("FANTAIL_HTTP_TRUSTED_PROXIES", "127.0.0.1"),
        ("FANTAIL_HTTP_REQUESTS_PER_ADDRESS", "2"),
        ("FANTAIL_HTTP_FAILED_LOGINS_PER_ADDRESS", "3"),
    ];
    let server = Server::start_with(&[], &limits);
    let mut stranger = server.anonymous().with_header("x-forwarded-for", "192.0.2.1");
    let asked: Vec<u16> = (0..50).map(|_| stranger.get("/livez").expect("an answer").status).collect();
    assert_eq!(asked[..4], [200; 4]);
    assert!(asked.contains(&429), "{asked:?}");
    let limited = eventually("it is limited", || {
        let response = stranger.get("/u/x").expect("an answer");
        (response.status == 429).then_some(response)
    });
    assert!(limited.header("retry-after").is_some() && limited.json()["code"] == "ADDRESS_RATE_LIMITED");
    let mut other = server.anonymous().with_header("x-forwarded-for", "192.0.2.2");
    expect(other.get("/livez"), 200);
    // Who has a key is no stranger.
    let mut known = server.client().with_header("x-forwarded-for", "192.0.2.1");
    (0..20).for_each(|_| put_user(&mut known, "bob"));

    // Administration is elsewhere, as strangers come through a proxy.
    let admin = || server.at("admin");
    let guess =
        |key: &str| admin().with_key(key).with_header("x-forwarded-for", "192.0.2.3").get("/api/v1/tenants");
    let codes: Vec<String> = (0..6)
        .map(|_| guess("a-guess-of-an-admin-key").expect("an answer").json()["code"].to_string())
        .collect();
    assert!(codes[..3].iter().all(|code| code.contains("UNAUTHENTICATED")), "{codes:?}");
    assert!(codes[3..].iter().any(|code| code.contains("ADDRESS_RATE_LIMITED")), "{codes:?}");
    let admin_key = server.key("admin.key");
    let limited = eventually("the right key is not compared any more", || {
        (0..20).find_map(|_| {
            drop(guess("a-guess-of-an-admin-key"));
            guess(&admin_key).ok().filter(|response| response.status == 429)
        })
    });
    assert_eq!(limited.json()["code"], "ADDRESS_RATE_LIMITED");
    expect(admin().with_key(&admin_key).get("/api/v1/tenants"), 200);
    let limits = |name: &str| metric(&mut admin(), "fantail_address_limited_total", name);
    assert!(limits("limit=\"requests\"") > 0 && limits("limit=\"failed_logins\"") > 0);
}

// fixes: security M12
#[test]
fn backups_exports_tests_consents_and_devices_name_who_asked() {
    let server = Server::start();
    let key = server.key("default.key");
    let mut client = server.client();
    put_user(&mut client, "bob");
    register(&mut client, "bob", "phone", "stub:ok/bob");
    let account = json!({"kind": "webPush", "settings": {"subject": "mailto:a@example.com"}});
    expect(client.json("PUT", "/api/v1/providers/browsers", &account), 201);
    expect(bare(&mut client, "POST", "/api/v1/providers/browsers/test"), 200);
    assert_eq!(client.get("/api/v1/users/bob/export").expect("an answer").status, 200);
    let log = eventually("it is derived", || {
        let log = entries(&mut client, "");
        log.iter().any(|entry| entry["fact"]["action"] == "user.export").then_some(log)
    });
    let find = |what: &dyn Fn(&Value) -> bool| {
        log.iter().find(|entry| what(entry)).unwrap_or_else(|| panic!("{log:#?}"))
    };
    let id = id_of(&key);
    let tested = &find(&|entry| entry["fact"]["action"] == "provider.test")["fact"];
    assert_eq!((&tested["actor"], &tested["target"]), (&json!(id), &json!("browsers")));
    let exported = &find(&|entry| entry["fact"]["action"] == "user.export")["fact"];
    let target = exported["target"].as_str().expect("a pseudonym");
    assert!(exported["actor"] == id.as_str() && target.len() == 32 && !target.contains("bob"), "{exported}");
    let consent = &find(&|entry| entry["kind"] == "consent")["fact"];
    assert_eq!((&consent["actor"], &consent["given"]), (&json!(id), &json!(true)));
    let registered =
        &find(&|entry| entry["kind"] == "endpoint" && entry["fact"]["status"] == "pending")["fact"];
    assert_eq!(registered["actor"], id.as_str());
    assert_eq!(exported["target"], registered["pseudonym"]);

    let mut admin = server.admin();
    expect(bare(&mut admin, "POST", "/api/v1/backups"), 201);
    let made = eventually("the backup is derived", || {
        let log =
            expect(admin.get("/api/v1/audit/server"), 200)["entries"].as_array().expect("entries").clone();
        log.into_iter().find(|entry| entry["fact"]["action"] == "backup.create")
    });
    assert_eq!(made["fact"]["actor"], "admin");
    refused(client.get("/api/v1/audit/server"), "FORBIDDEN");

    // The trace is on disk before the first line leaves.
    assert_eq!(client.get("/api/v1/users/bob/export").expect("an answer").status, 200);
    let data = server.data.clone();
    let directory = server.kill();
    let server = Server::start_in(&data, &[], &[]);
    let mut client = server.client();
    eventually("both exports are in the log", || {
        let log = entries(&mut client, "");
        let exports = log.iter().filter(|entry| entry["fact"]["action"] == "user.export");
        (exports.count() == 2).then_some(())
    });
    drop((server, directory));
}

/// Whoever floods the server fills no disk with its log, and hides nothing of others.
// fixes: security M12
#[test]
fn a_flood_of_refused_requests_writes_a_bounded_number_of_lines() {
    let post = Post::new();
    let (server, mut clock) = start_at(&post, "2026-06-10T20:00:00Z", &[]);
    let (mut stranger, mut client) = (server.anonymous(), server.client());
    for _ in 0..2_000 {
        refused(stranger.get("/api/v1/users/bob"), "UNAUTHENTICATED");
    }
    refused(client.get("/api/v1/users/bob"), "USER_NOT_FOUND");
    let log = server.log();
    assert!(log.contains("USER_NOT_FOUND"), "the flood of strangers hides nothing of tenants");
    let left_out = |client: &mut Client, callers: &str| {
        metric(client, "fantail_refusal_lines_left_out_total", &format!("\"{callers}\""))
    };
    let more = left_out(&mut client, "strangers");
    assert_eq!(log.matches("UNAUTHENTICATED").count() as u64 + more, 2_000, "each has a line or is counted");
    assert!(more > 0);
    assert_eq!(left_out(&mut client, "tenants"), 0);
    clock.move_to("2026-06-10T20:02:00Z");
    eventually("the others are summed up", || server.log().contains(&format!("more={more}")).then_some(()));
    server.stop();
}
