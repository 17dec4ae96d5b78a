//! Users who were erased after a backup: a copy that is made from it erases them again, or says that it has not.

use crate::deliveries::{Post, send};
use crate::erasures::{CANARIES, ID, completed, erase, plant};
use crate::outages::titled;
use crate::server::{Directory, Server, fantail, run};
use crate::world::{bare, eventually, expect, put_user, refused};
use fantail_local::erasure_list::LocalErasureList;
use fantail_ports::erasure_list::ErasureList;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const FRAME_BYTES: u64 = 128;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// A backup with a user who was erased afterwards, and the list of erasures of then.
struct Case {
    _post: Post,
    elsewhere: Directory,
    backup: PathBuf,
    list: PathBuf,
    /// The erasure after the backup.
    erasure: String,
}

impl Case {
    fn new() -> Self {
        let (post, elsewhere) = (Post::new(), Directory::new());
        let [backup, list] = ["backup", "kept/erasures.list"].map(|name| elsewhere.path(name));
        let server = post.start(&[("FANTAIL_ERASURES_LIST", text(&list))]);
        let mut client = server.client();
        plant(&mut client);
        // Erased, and somebody else has the name when the backup is taken.
        put_user(&mut client, "zoe");
        let before = erase(&mut client, "zoe");
        completed(&mut client, &before);
        put_user(&mut client, "zoe");
        run(&["backup", text(&backup), "--server", &server.address, "--data", text(&server.data)]);
        let erasure = erase(&mut client, ID);
        completed(&mut client, &erasure);
        // Of a user whom the backup does not know.
        put_user(&mut client, "new");
        let unknown = erase(&mut client, "new");
        completed(&mut client, &unknown);
        server.kill();
        let found = LocalErasureList::open_to_read(&list).expect("a list").count();
        assert_eq!(found, 3, "what is done is in the list, also after a crash");
        Self { _post: post, elsewhere, backup, list, erasure }
    }

    fn restore(&self, name: &str, more: &[&str]) -> (PathBuf, String) {
        let data = self.elsewhere.path(name);
        let said = run(&[&["restore", text(&self.backup), "--data", text(&data)], more].concat());
        (data, said)
    }

    /// The user is gone, and whoever has a name that was erased before the backup is not.
    fn is_applied(&self, server: &Server) {
        let mut client = server.client();
        refused(client.get(&format!("/api/v1/users/{ID}")), "USER_NOT_FOUND");
        refused(client.get(&format!("/api/v1/users/{ID}/notifications")), "USER_NOT_FOUND");
        expect(client.get("/api/v1/users/zoe"), 200);
        completed(&mut client, &self.erasure);
    }
}

fn paused(server: &Server) -> Value {
    expect(server.admin().get("/api/v1/server"), 200)["paused"].clone()
}

// fixes: security M11
#[test]
fn a_restored_copy_erases_again_who_was_erased_after_the_backup() {
    let case = Case::new();
    let (data, said) = case.restore("with", &["--erasures", text(&case.list)]);
    assert!(said.contains("2 of 3 erasures come after the backup"), "{said}");
    // It dies while it applies them, and applies them at the next start.
    let died = Server::try_start_in(&data, &[], &[("FANTAIL_DELIVERY_DIE_AT", "lead.durable:1")]);
    assert!(died.is_err(), "it died before it answered");
    let server = Server::start_in(&data, &[], &[]);
    case.is_applied(&server);
    assert_eq!(paused(&server)["erasuresApplied"], true);
    assert!(
        !server.banner.iter().any(|line| line.contains("erased after the backup")),
        "{:?}",
        server.banner
    );
    assert!(!data.join("erasures.restored").exists());
    eventually("the audit log has it", || {
        let log = expect(server.client().get("/api/v1/audit?limit=1000"), 200).to_string();
        log.contains(&case.erasure).then_some(())
    });
    server.stop();
    // Its own list goes on with the one that it was given: the next backup needs no other.
    let list = LocalErasureList::open_to_read(&data.join("erasures.list")).expect("a list");
    assert_eq!(list.id(), LocalErasureList::open_to_read(&case.list).expect("a list").id());
    assert!(list.count() >= 4, "and has the erasure that was done again");
    let texts = case.elsewhere.path("texts");
    std::fs::write(&texts, CANARIES.join("\n")).expect("a file");
    let said = run(&["scan", "--data", text(&data), "--file", text(&texts)]);
    assert!(said.contains("0 hits of 6 texts"), "{said}");
    run(&["check", "--data", text(&data)]);
}

// fixes: security M11
#[test]
fn a_copy_without_the_list_says_which_erasures_it_does_not_have() {
    let case = Case::new();
    let (data, said) = case.restore("without", &[]);
    assert!(said.contains("erasures since 20") && said.contains("are not covered"), "{said}");
    let server = Server::start_in(&data, &[], &[]);
    assert!(server.banner.iter().any(|line| line.contains("erased after the backup are here again")));
    assert_eq!(paused(&server)["erasuresApplied"], false);
    let mut client = server.client();
    expect(client.get(&format!("/api/v1/users/{ID}")), 200);
    // Resumed, it was acknowledged.
    expect(server.admin().post("/api/v1/server/resume", &json!({})), 200);
    assert_eq!(paused(&server), Value::Null);
    server.stop();
    // A server that writes the list of before has it at hand.
    let (data, _) = case.restore("configured", &[]);
    let server = Server::start_in(&data, &[], &[("FANTAIL_ERASURES_LIST", text(&case.list))]);
    case.is_applied(&server);
    assert_eq!(paused(&server)["erasuresApplied"], true);
    server.stop();
}

#[test]
fn an_active_copy_applies_erasures_before_it_sends() {
    let case = Case::new();
    let (data, said) = case.restore("active", &["--active", "--erasures", text(&case.list)]);
    assert!(said.contains("it sends at once"), "{said}");
    let arrivals = case.elsewhere.path("arrivals");
    let server = Server::start_in(&data, &[], &[("FANTAIL_DELIVERY_STUB_ARRIVALS", text(&arrivals))]);
    case.is_applied(&server);
    assert_eq!(paused(&server), Value::Null);
    assert!(!data.join("copy.json").exists());
    let mut client = server.client();
    send(&mut client, &titled("after", &["bob"], "push", "After"));
    eventually("it sends", || {
        let lines = std::fs::read_to_string(&arrivals).unwrap_or_default();
        lines.contains("After").then_some(())
    });
    let lines = std::fs::read_to_string(&arrivals).expect("arrivals");
    assert!(!CANARIES.iter().any(|canary| lines.contains(canary)), "{lines}");
    server.stop();
}

#[test]
fn a_list_that_is_not_whole_is_refused_before_anything_is_written() {
    let case = Case::new();
    let data = case.elsewhere.path("refused");
    let refused = |list: &Path| {
        let output = fantail()
            .args(["restore", text(&case.backup), "--data", text(&data), "--erasures", text(list)])
            .output()
            .expect("it runs");
        assert!(!output.status.success());
        assert!(!data.exists(), "nothing was begun");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let whole = std::fs::read(&case.list).expect("a list");
    let damaged = case.elsewhere.path("damaged.list");
    let write = |bytes: &[u8]| std::fs::write(&damaged, bytes).expect("written");
    assert!(refused(&damaged).contains("damaged.list"));
    // One entry: it is older than the backup.
    write(&whole[..whole.len() - 3 * FRAME_BYTES as usize]);
    let error = refused(&damaged);
    assert!(error.contains("has 0 erasures, and had 1 when the backup was taken"), "{error}");
    let mut flipped = whole.clone();
    flipped[60] ^= 4;
    write(&flipped);
    let error = refused(&damaged);
    assert!(error.contains("damaged.list is damaged: entry 0"), "{error}");
    write(b"not a list");
    assert!(refused(&damaged).contains("damaged.list is damaged"));
}

/// An erasure is not done before the list has it, however often the process dies in between.
#[test]
fn no_erasure_is_done_before_it_is_in_the_list() {
    let post = Post::new();
    let list = post.directory.path("data/erasures.list");
    let server = post.start(&[]);
    let mut client = server.client();
    for no in 0..6 {
        put_user(&mut client, &format!("u{no}"));
    }
    server.stop();
    for (no, point) in
        ["durable:1", "planned:2", "durable:2", "folded:2", "planned:3", "durable:3"].iter().enumerate()
    {
        // It may die before it answers, or after, or is killed.
        if let Ok(server) = post.try_start(&[("FANTAIL_DELIVERY_DIE_AT", &format!("lead.{point}"))]) {
            drop(server.client().post("/api/v1/erasures", &json!({"userId": format!("u{no}")})));
        }
    }
    let server = post.start(&[]);
    let mut client = server.client();
    for no in 0..6 {
        let response =
            client.post("/api/v1/erasures", &json!({"userId": format!("u{no}")})).expect("an answer");
        assert!(matches!(response.status, 200 | 202), "{}", response.text());
    }
    eventually("all are done", || {
        let log = expect(client.get("/api/v1/audit?limit=1000"), 200).to_string();
        (log.matches("\"erasure.complete\"").count() == 6).then_some(())
    });
    // A crash behind an entry repeats it, which does no harm.
    assert!(LocalErasureList::open_to_read(&list).expect("a list").count() >= 6);
    // A list that is gone is not begun anew.
    server.stop();
    std::fs::remove_file(&list).expect("it is there");
    assert!(post.try_start(&[]).is_err());
    let log = std::fs::read_to_string(post.directory.path("data.log")).expect("a log");
    assert!(log.contains("erasures.list is missing"), "{log}");
    std::fs::remove_file(post.directory.path("data/erasures.mark")).expect("it is there");
    let server = post.start(&[]);
    expect(bare(&mut server.client(), "DELETE", "/api/v1/users/u9"), 404);
    server.stop();
}
