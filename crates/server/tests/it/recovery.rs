//! What survives: a crash, lost tables, a move to another machine.

use crate::server::{Directory, Server, fantail, run};
use crate::world::{
    bare, event, eventually, expect, follow, ids, inbox, post, post_by, put_user, refused, unread,
};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::path::Path;

/// A little of everything. Returns what a reader sees, to be seen again.
pub fn fill(server: &Server) -> Value {
    let mut client = server.client();
    expect(server.admin().json("PATCH", "/api/v1/tenants/default", &json!({"celebrityThreshold": 100})), 200);
    let users: Vec<Value> = (0..150).map(|no| json!({"userId": format!("u{no}")})).collect();
    expect(client.post("/api/v1/users/batch", &json!({"users": users})), 200);
    let follows: Vec<Value> = (0..150).map(|no| json!({"user": format!("u{no}"), "actor": "star"})).collect();
    expect(client.post("/api/v1/follows/batch", &json!({"follows": follows})), 200);
    follow(&mut client, "u0", "ann");
    expect(bare(&mut client, "PUT", "/api/v1/topics/news/subscribers/u0"), 204);
    for no in 0..5 {
        post(&mut client, &post_by("star", &format!("star-{no}")));
        post(&mut client, &post_by("ann", &format!("ann-{no}")));
    }
    post(&mut client, &event("news", &json!({"topic": "news"})));
    let direct = post(&mut client, &event("direct", &json!({"users": ["u0", "u1"]})));
    eventually("everything is there", || (unread(&mut client, "u0").0 == 12).then_some(()));
    let all = ids(&inbox(&mut client, "u0", ""));
    expect(client.post("/api/v1/users/u0/notifications/read", &json!({"ids": [all[3], all[4]]})), 200);
    expect(client.post("/api/v1/users/u0/notifications/archive", &json!({"ids": [all[5]]})), 200);
    expect(bare(&mut client, "DELETE", &format!("/api/v1/events/{direct}")), 204);
    eventually("it is retracted", || (ids(&inbox(&mut client, "u0", "state=all")).len() == 11).then_some(()));
    eventually("it is retracted", || (ids(&inbox(&mut client, "u1", "state=all")).len() == 5).then_some(()));
    seen_with(&mut client)
}

/// Everything that two readers and the lists show.
pub fn seen_with(client: &mut Client) -> Value {
    json!({
        "u0": inbox(client, "u0", "state=all&limit=100"),
        "u1": inbox(client, "u1", "state=all&limit=100"),
        "follows": expect(client.get("/api/v1/users/u0/follows"), 200),
        "followers": expect(client.get("/api/v1/users/star/followers?limit=1000"), 200),
        "news": expect(client.get("/api/v1/topics/news/subscribers"), 200),
        "user": expect(client.get("/api/v1/users/u0"), 200),
    })
}

fn still_seen(data: &Path, before: &Value) {
    let server = Server::start_in(data, &[], &[("FANTAIL_INBOX_WINDOW_EVENTS", "4")]);
    let mut client = server.client();
    assert_eq!(&seen_with(&mut client), before);
    let replayed = client.post("/api/v1/events", &post_by("ann", "ann-3")).expect("an answer");
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"), "{}", replayed.text());
    let fresh = post(&mut client, &post_by("ann", "fresh"));
    eventually("new events arrive", || (ids(&inbox(&mut client, "u0", ""))[0] == fresh).then_some(()));
    server.stop();
}

// proves: FAN-12, INB-06
#[test]
fn a_crash_loses_nothing_that_was_acknowledged() {
    let server = Server::start();
    let before = fill(&server);
    let data = server.data.clone();
    let _directory = server.kill();
    still_seen(&data, &before);
}

#[test]
fn lost_tables_are_rebuilt_from_the_journal() {
    let server = Server::start();
    let before = fill(&server);
    let data = server.data.clone();
    let _directory = server.stop();
    std::fs::remove_dir_all(data.join("tables")).expect("the tables are there");
    still_seen(&data, &before);
}

// fixes: torture 9, usability C1, usability §3.23
#[test]
fn a_backup_made_while_serving_is_restored_elsewhere() {
    let server = Server::start();
    let before = fill(&server);
    let elsewhere = Directory::new();
    let (copy, data) = (elsewhere.path("copy"), elsewhere.path("restored"));
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let said = run(&["backup", &text(&copy), "--server", &server.address, "--data", &text(&server.data)]);
    // What was written, and not the room that the journal has reserved.
    let bytes: Option<u64> = said.split(' ').next().and_then(|number| number.parse().ok());
    assert!(said.contains("bytes in") && bytes.is_some_and(|bytes| bytes < 32 << 20), "{said}");
    let left = std::fs::read_dir(server.data.join("backups")).expect("a directory").count();
    assert_eq!(left, 0, "the copy was moved, not left behind");
    // What comes after the backup is not in it.
    post(&mut server.client(), &post_by("ann", "after"));
    let key = server.key("default.key");
    drop(server.stop());
    run(&["restore", &text(&copy), "--data", &text(&data)]);
    // Before its first start there are no tables: the snapshot is recounted, and nothing is left behind.
    let files = || std::fs::read_dir(&data).expect("it was restored").count();
    let restored = files();
    let said = run(&["check", "--data", &text(&data)]);
    assert!(said.contains("balanced") && files() == restored, "{said}");
    // What a backup or a check leaves that is killed half-way.
    let killed = [data.join("backups/00000000000001.part"), data.join("check.part")];
    for left in &killed {
        std::fs::create_dir_all(left.join("journal")).expect("a directory");
    }
    still_seen(&data, &before);
    assert!(killed.iter().all(|left| !left.exists()), "they are removed at the start");
    let server = Server::start_in(&data, &[], &[]);
    assert_eq!(server.key("default.key"), key, "the same keys work");
    server.stop();
    let again = fantail().args(["restore", &text(&copy), "--data", &text(&data)]).output().expect("it runs");
    let error = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && error.contains("is not empty"), "{error}");
}

#[test]
fn a_flipped_byte_is_found_and_named() {
    let server = Server::start();
    fill(&server);
    let data = server.data.clone();
    let _directory = server.stop();
    let segments = std::fs::read_dir(data.join("journal")).expect("a directory");
    let segment = segments
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_none_or(|extension| extension != "lock"))
        .max_by_key(|path| std::fs::metadata(path).expect("a file").len())
        .expect("a segment");
    let mut bytes = std::fs::read(&segment).expect("a segment");
    // Somewhere in the records, well before the end.
    let place = bytes.len() / 4;
    let place = place + bytes[place..].iter().position(|byte| *byte != 0).expect("data");
    bytes[place] ^= 1;
    std::fs::write(&segment, bytes).expect("written");
    let name = segment.file_name().expect("a name").to_string_lossy().into_owned();
    for args in [vec!["serve", "--listen", "127.0.0.1:0"], vec!["journal", "verify"]] {
        let output = fantail().args(&args).arg("--data").arg(&data).output().expect("the binary runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?} succeeded");
        assert!(error.contains("damaged") && error.contains(&name) && error.contains("offset"), "{error}");
    }
}

#[test]
fn a_failed_start_leaves_the_data_alone() {
    let server = Server::start();
    put_user(&mut server.client(), "bob");
    let data = server.data.clone();
    let _directory = server.stop();
    std::fs::write(data.join("default.key"), "not a key").expect("written");
    let output = fantail()
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .output()
        .expect("the binary runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("does not hold a key"));
    std::fs::remove_file(data.join("default.key")).expect("the file is there");
    let server = Server::start_in(&data, &[], &[]);
    let mut admin = server.admin().with_header("fantail-tenant", "default");
    expect(admin.get("/api/v1/users/bob"), 200);
    refused(admin.get("/api/v1/users/max"), "USER_NOT_FOUND");
    server.stop();
}

/// The journal of yesterday beside the tables of today, and a copy of the tables that was not finished.
#[test]
fn a_start_that_cannot_recover_removes_no_copy_of_the_tables() {
    let server = Server::start();
    put_user(&mut server.client(), "bob");
    let data = server.data.clone();
    let _directory = server.stop();
    let of_journal = || {
        let files = std::fs::read_dir(data.join("journal")).expect("a directory");
        let files = files.map(|entry| entry.expect("an entry").path());
        files.chain([data.join("journal.mark")]).collect::<Vec<_>>()
    };
    let before: Vec<_> =
        of_journal().into_iter().map(|file| (std::fs::read(&file).expect("a file"), file)).collect();
    let server = Server::start_in(&data, &[], &[]);
    put_user(&mut server.client(), "max");
    server.stop();
    of_journal().iter().for_each(|file| std::fs::remove_file(file).expect("it is there"));
    before.iter().for_each(|(bytes, file)| std::fs::write(file, bytes).expect("room"));
    let copy = data.join("blobs/snapshots+00000000000001.store");
    std::fs::write(&copy, "not finished").expect("room");
    let output =
        fantail().args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("cannot recover"), "{error}");
    assert!(copy.exists(), "an operator decides what becomes of it");
}
