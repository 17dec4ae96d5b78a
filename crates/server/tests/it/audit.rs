//! The audit log of a real server: fed, read, proven by code of its own, verified from its files, and found out when it
//! was touched.

use crate::deliveries::{Post, notification, register, send};
use crate::server::{Directory, Server, fantail, run};
use crate::world::{bare, event, eventually, expect, follow, post, put_user, refused};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const EVERY_SECOND: &[(&str, &str)] = &[("FANTAIL_AUDIT_CHECKPOINT_S", "1")];

/// All entries of a query, page by page.
pub fn entries(client: &mut Client, query: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = expect(client.get(&format!("/api/v1/audit?limit=50&{query}{cursor}")), 200);
        all.extend(page["entries"].as_array().expect("entries").clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

fn kinds(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["kind"].as_str().expect("a kind")).collect()
}

/// Waits until the outcomes of so many deliveries are in the log, in however many entries.
fn eventually_told(client: &mut Client, event: &str, deliveries: u64) -> Vec<Value> {
    eventually("the outcomes are in the log", || {
        let found = entries(client, &format!("notification={event}"));
        let outcomes = found.iter().filter(|entry| entry["kind"] == "outcome");
        let told = outcomes.map(|entry| entry["fact"]["members"]["count"].as_u64().expect("a count"));
        (told.sum::<u64>() >= deliveries).then_some(found)
    })
}

fn verify(data: &Path, more: &[&str]) -> (bool, String) {
    let output = fantail().args(["audit", "verify", "--data"]).arg(data).args(more).output();
    let output = output.expect("the binary runs");
    (output.status.success(), String::from_utf8(output.stdout).expect("text"))
}

// proves: AUD-01, AUD-02, AUD-03
#[test]
fn everything_that_was_done_is_told_once_whatever_the_process_did() {
    let house = Post::new();
    let server = house.start(EVERY_SECOND);
    let mut client = server.client();
    for user in ["ann", "bob", "zoe"] {
        put_user(&mut client, user);
    }
    register(&mut client, "bob", "phone", "stub:ok");
    register(&mut client, "ann", "phone", "stub:unwanted");
    let sent = send(
        &mut client,
        &notification("n1", &["ann", "bob", "zoe"], json!({"channels": ["push", "inApp"]})),
    );
    eventually_told(&mut client, &sent, 2);
    server.kill();
    let server = house.start(EVERY_SECOND);
    let mut client = server.client();
    let other = send(&mut client, &notification("n2", &["bob"], json!({})));
    eventually_told(&mut client, &other, 1);
    let told = entries(&mut client, &format!("notification={sent}"));
    let count = |kind: &str| kinds(&told).iter().filter(|one| **one == kind).count();
    assert_eq!(count("accepted"), 1, "{told:#?}");
    let mut states = std::collections::BTreeMap::new();
    for entry in told.iter().filter(|entry| entry["kind"] == "parcel" || entry["kind"] == "outcome") {
        for (state, count) in entry["fact"]["states"].as_object().expect("states") {
            *states.entry(format!("{} {state}", entry["kind"].as_str().expect("a kind"))).or_insert(0) +=
                count.as_u64().expect("a count");
        }
    }
    let expected = [
        ("outcome failed", 1),
        ("outcome sent", 1),
        ("parcel delivered", 3),
        ("parcel sending", 2),
        ("parcel suppressed", 1),
    ];
    assert_eq!(states, expected.map(|(what, count)| (what.to_owned(), count)).into());
    let actions = entries(&mut client, "");
    let actions: Vec<&str> = actions.iter().filter_map(|entry| entry["fact"]["action"].as_str()).collect();
    assert!(actions.contains(&"tenant.put") && actions.contains(&"key.put"), "{actions:?}");
    let metrics = client.get("/metrics").expect("an answer").text();
    assert!(metrics.contains("fantail_audit_entries_total "), "{metrics}");
    assert!(metrics.contains("fantail_audit_checkpoint_age_seconds "), "{metrics}");
    let (is_sound, told) = verify(&server.data, &[]);
    assert!(is_sound || told.contains("torn tail"), "beside a running server: {told}");
    server.stop();
    let told = run(&["audit", "verify", "--data", house.directory.path("data").to_str().expect("a path")]);
    assert!(told.ends_with("sound\n") && !told.contains("held by their chains alone"), "{told}");
}

// proves: AUD-04, TEN-01
#[test]
fn a_tenant_sees_its_own_entries_and_pages_of_time() {
    let server = Server::start_with(&[], EVERY_SECOND);
    let (mut client, mut admin) = (server.client(), server.admin());
    put_user(&mut client, "bob");
    let sent = send(&mut client, &notification("n1", &["bob"], json!({"channels": ["inApp"]})));
    eventually("it is told", || {
        kinds(&entries(&mut client, &format!("notification={sent}"))).contains(&"parcel").then_some(())
    });
    let by_name = entries(&mut client, "notification=n1");
    assert_eq!(by_name.len(), entries(&mut client, &format!("notification={sent}")).len());
    assert!(entries(&mut client, "to=2020-01-01T00:00:00Z").is_empty());
    assert!(entries(&mut client, "from=2020-01-01T00:00:00Z&to=2999-01-01T00:00:00Z").len() > by_name.len());
    let other = crate::world::tenant_with_key(&mut admin, "acme", crate::world::ALL_SCOPES);
    let mut other = server.with_key(&other);
    refused(other.get("/api/v1/audit?notification=n1"), "EVENT_NOT_FOUND");
    assert!(entries(&mut other, &format!("notification={sent}")).is_empty());
    refused(other.get(&format!("/api/v1/audit/proof?notification={sent}&user=bob")), "EVENT_NOT_FOUND");
    refused(client.get(&format!("/api/v1/audit/proof?notification={sent}&user=nobody")), "USER_NOT_FOUND");
    for bad in ["from=tomorrow", "cursor=AAAA", "limit=0"] {
        refused(client.get(&format!("/api/v1/audit?{bad}")), "INVALID_REQUEST");
    }
    let page = expect(client.get("/api/v1/audit?limit=1"), 200);
    let cursor = page["nextCursor"].as_str().expect("there is more");
    refused(other.get(&format!("/api/v1/audit?cursor={cursor}")), "INVALID_REQUEST");
}

/// What a reader of docs/audit.md would write; nothing of the server's own code.
mod auditor {
    use super::{ED25519, SHA256, UnparsedPublicKey, Value, digest};

    pub fn hash(parts: &[&[u8]]) -> Vec<u8> {
        digest(&SHA256, &parts.concat()).as_ref().to_vec()
    }

    pub fn bytes(text: &Value) -> Vec<u8> {
        let text = text.as_str().expect("hex");
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
    }

    /// Hashes up a tree in the shape of RFC 6962.
    fn climb(leaf: Vec<u8>, mut index: u64, mut width: u64, path: &Value) -> Vec<u8> {
        let mut path = path.as_array().expect("a path").iter().map(bytes);
        let mut node = leaf;
        while width > 1 {
            if index % 2 == 1 {
                node = hash(&[&[1], &path.next().expect("a neighbour"), &node]);
            } else if index + 1 < width {
                node = hash(&[&[1], &node, &path.next().expect("a neighbour")]);
            }
            (index, width) = (index / 2, width.div_ceil(2));
        }
        assert!(path.next().is_none(), "a path has no more than it needs");
        node
    }

    /// Whether a proof holds, down to the signature; says the state that is proven.
    pub fn check(proof: &Value, public_key: &Value) -> String {
        let member = &proof["member"];
        let number = |value: &Value| value.as_u64().expect("a number");
        let leaf = hash(&[
            &[0],
            &bytes(&member["salt"]),
            &bytes(&member["pseudonym"]),
            &(number(&member["endpoint"]) as u16).to_le_bytes(),
            &[number(&member["stateNumber"]) as u8],
            &number(&member["consentVersion"]).to_le_bytes(),
            member["reason"].as_str().expect("a reason").as_bytes(),
        ]);
        let root = climb(leaf, number(&proof["index"]), number(&proof["count"]), &proof["path"]);
        let entry = bytes(&proof["entry"]["bytes"]);
        // Behind the header of 68 bytes: event, channel, round, first member; then count and root.
        let body = &entry[68..];
        assert_eq!(body[27..31], (number(&proof["count"]) as u32).to_le_bytes());
        assert_eq!(body[31..63], root);
        let anchor = &proof["anchor"];
        let mut last = hash(&[&entry]);
        for later in anchor["later"].as_array().expect("entries").iter().map(bytes) {
            assert_eq!(later[36..68], last, "each entry has the hash of the one before");
            last = hash(&[&later]);
        }
        assert_eq!(last, bytes(&anchor["headHash"]));
        let head =
            hash(&[&[0], &entry[4..8], &entry[8..10], &number(&anchor["headSequence"]).to_le_bytes(), &last]);
        let note = anchor["checkpoint"].as_str().expect("a note");
        let line = |name: &str| note.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        let (chains, root) = line("heads ").split_once(' ').expect("a number and a root");
        let width = chains.parse().expect("a number");
        let stated = climb(head, number(&anchor["headIndex"]), width, &anchor["headPath"]);
        assert_eq!(stated, bytes(&Value::from(root)));
        let (signed, signature) = note.split_once("signature ").expect("a signature");
        let signature = bytes(&Value::from(signature.trim_end()));
        let key = UnparsedPublicKey::new(&ED25519, bytes(public_key));
        key.verify(signed.as_bytes(), &signature).expect("it was signed by this key");
        member["state"].as_str().expect("a state").to_owned()
    }
}

/// The proofs about a user, once all of them are anchored.
fn proofs(client: &mut Client, event: &str, user: &str, count: usize) -> Vec<Value> {
    eventually("the proofs are anchored", || {
        let found = expect(client.get(&format!("/api/v1/audit/proof?notification={event}&user={user}")), 200);
        assert_eq!(found["complete"], true);
        let proofs = found["proofs"].as_array().expect("proofs").clone();
        let is_ready = proofs.len() >= count && proofs.iter().all(|proof| proof["anchor"].is_object());
        is_ready.then_some(proofs)
    })
}

// proves: AUD-04, GDP-01
#[test]
fn one_recipient_is_proven_by_independent_code_also_when_another_was_erased() {
    let server = Server::start_with(&[], EVERY_SECOND);
    let mut client = server.client();
    let users: Vec<String> = (0..120).map(|no| format!("u{no}")).collect();
    let batch: Vec<Value> = users.iter().map(|user| json!({"userId": user})).collect();
    expect(client.post("/api/v1/users/batch", &json!({"users": batch})), 200);
    register(&mut client, "u7", "phone", "stub:ok/u7");
    register(&mut client, "u7", "tablet", "stub:dead/u7");
    let named: Vec<&str> = users.iter().map(String::as_str).collect();
    let sent = send(&mut client, &notification("n1", &named, json!({})));
    let key = expect(client.get("/api/v1/audit/checkpoints"), 200)["publicKey"].clone();
    let check = |client: &mut Client, user: &str, expected: &[&str]| {
        let mut states: Vec<String> = proofs(client, &sent, user, expected.len())
            .iter()
            .map(|proof| auditor::check(proof, &key))
            .collect();
        states.sort();
        assert_eq!(states, expected, "{user}");
    };
    check(&mut client, "u7", &["failed", "sending", "sending", "sent"]);
    check(&mut client, "u8", &["suppressed"]);
    // Somebody of the same parcels goes, with the key that opens their leaf.
    for user in ["u9", "u10", "u11", "u12"] {
        expect(bare(&mut client, "DELETE", &format!("/api/v1/users/{user}")), 204);
    }
    refused(client.get(&format!("/api/v1/audit/proof?notification={sent}&user=u9")), "USER_NOT_FOUND");
    eventually("the keys are destroyed", || {
        let all = entries(&mut client, "");
        let gone = all.iter().filter(|entry| entry["fact"]["action"] == "key.destroy").count();
        (gone == 4).then_some(())
    });
    check(&mut client, "u7", &["failed", "sending", "sending", "sent"]);
    check(&mut client, "u13", &["suppressed"]);
    // An event to a list keeps no leaves: they are derived again from the journal.
    for user in ["u7", "u8"] {
        follow(&mut client, user, "star");
    }
    let mut listed = event("e1", &json!({"followersOf": "star"}));
    listed["data"]["channels"] = json!(["push"]);
    let listed = post(&mut client, &listed);
    let found = proofs(&mut client, &listed, "u7", 2);
    let states: Vec<String> = found.iter().map(|proof| auditor::check(proof, &key)).collect();
    assert_eq!(states, ["sending", "sent"]);
}

// proves: PRF-07, AUD-01
#[test]
fn each_push_names_the_consent_that_allowed_it() {
    let server = Server::start_with(&[], EVERY_SECOND);
    let mut client = server.client();
    put_user(&mut client, "bob");
    register(&mut client, "bob", "phone", "stub:ok/bob");
    follow(&mut client, "bob", "star");
    let say = |client: &mut Client, granted: bool, version: &str| {
        let said = json!({"granted": granted, "version": version, "source": "test"});
        expect(client.json("PUT", "/api/v1/users/bob/consents/push", &said), 200);
    };
    let key = expect(client.get("/api/v1/audit/checkpoints"), 200)["publicKey"].clone();
    // What a reader of the history finds under the version that a push names.
    let allowed = |client: &mut Client, event: &str| {
        let proofs = proofs(client, event, "bob", 2);
        let sending =
            proofs.iter().find(|proof| auditor::check(proof, &key) == "sending").expect("it was sent");
        let version = sending["member"]["consentVersion"].as_u64().expect("a number");
        let history = expect(client.get("/api/v1/users/bob/preferences/history"), 200);
        let history = history["changes"].as_array().expect("changes").clone();
        let change =
            history.into_iter().find(|change| change["version"] == version).expect("it is in the history");
        let told = entries(client, "user=bob");
        let told = told.iter().filter(|entry| entry["kind"] == "consent");
        let versions: Vec<u64> = told.filter_map(|entry| entry["fact"]["version"].as_u64()).collect();
        assert!(versions.contains(&version), "{version} of {versions:?}");
        assert_eq!(change["newConsent"]["granted"], true);
        change["newConsent"]["version"].as_str().expect("a version").to_owned()
    };
    say(&mut client, true, "2026-01");
    let sent = send(&mut client, &notification("n1", &["bob"], json!({})));
    assert_eq!(allowed(&mut client, &sent), "2026-01");
    // Something else that bob wants is another state of the profile, and the same consent.
    expect(
        client.json(
            "PATCH",
            "/api/v1/users/bob/preferences",
            &json!({"channels": {"email": {"enabled": false}}}),
        ),
        200,
    );
    let sent = send(&mut client, &notification("n2", &["bob"], json!({})));
    assert_eq!(allowed(&mut client, &sent), "2026-01");
    say(&mut client, false, "2026-01");
    let sent = send(&mut client, &notification("n3", &["bob"], json!({})));
    let refused = proofs(&mut client, &sent, "bob", 1);
    assert_eq!(auditor::check(&refused[0], &key), "suppressed");
    assert_eq!(
        (&refused[0]["member"]["reason"], &refused[0]["member"]["consentVersion"]),
        (&json!("no_consent"), &json!(0))
    );
    say(&mut client, true, "2026-02");
    let mut listed = event("e1", &json!({"followersOf": "star"}));
    listed["data"]["channels"] = json!(["push"]);
    let listed = post(&mut client, &listed);
    assert_eq!(allowed(&mut client, &listed), "2026-02");
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("a copy");
        }
    }
}

fn segments(data: &Path, part: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(data.join("audit").join(part)).expect("a directory");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "segment"));
    files.sort();
    files
}

// proves: AUD-02
#[test]
fn a_log_that_was_touched_is_named_and_the_command_fails() {
    let directory = Directory::new();
    let (data, early, note) = (directory.path("data"), directory.path("early"), directory.path("note.txt"));
    for (round, id) in ["n1", "n2", "n3"].iter().enumerate() {
        let server = Server::start_in(&data, &[], EVERY_SECOND);
        let mut client = server.client();
        put_user(&mut client, "bob");
        let sent = send(&mut client, &notification(id, &["bob"], json!({"channels": ["inApp"]})));
        eventually("it is told", || {
            kinds(&entries(&mut client, &format!("notification={sent}"))).contains(&"parcel").then_some(())
        });
        server.stop();
        if round == 0 {
            copy(&data, &early);
        }
    }
    let to = note.to_str().expect("a path");
    run(&["audit", "export", "--data", data.to_str().expect("a path"), "--to", to]);
    let (is_sound, told) = verify(&data, &["--checkpoint", to]);
    assert!(is_sound, "{told}");
    // Flipped, cut short and removed, in entries and in checkpoints.
    for part in ["log", "checkpoints"] {
        let check = |name: &str, touch: &dyn Fn(&[PathBuf])| {
            let touched = directory.path(&format!("{part}-{name}"));
            copy(&data, &touched);
            touch(&segments(&touched, part));
            let (is_sound, told) = verify(&touched, &["--checkpoint", to]);
            assert!(!is_sound, "{part} {name}: {told}");
            let is_named = ["damaged: ", "cut off: ", "removed: ", "torn tail: ", "altered: ", "checkpoint "];
            assert!(is_named.iter().any(|word| told.contains(word)), "{part} {name}: {told}");
        };
        check("flipped", &|files| {
            let mut bytes = fs::read(&files[0]).expect("a file");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&files[0], bytes).expect("written");
        });
        check("cut", &|files| {
            let last = files.last().expect("a file");
            let bytes = fs::read(last).expect("a file");
            fs::write(last, &bytes[..bytes.len() / 2]).expect("written");
        });
        check("removed", &|files| fs::remove_file(files.last().expect("a file")).expect("removed"));
    }
    // A log that was put back to an earlier day is sound in itself; what was kept elsewhere tells.
    let (is_sound, told) = verify(&early, &[]);
    assert!(is_sound, "{told}");
    let (is_sound, told) = verify(&early, &["--checkpoint", to]);
    assert!(!is_sound && told.contains("it was posted elsewhere and is not among the checkpoints"), "{told}");
    // Keys of somebody else vouch for nothing.
    let key = directory.path("other.keys");
    fs::write(&key, format!("{}\n", "0".repeat(64))).expect("written");
    let (is_sound, told) = verify(&data, &["--key", key.to_str().expect("a path")]);
    assert!(!is_sound && told.contains("is not known"), "{told}");
}

// proves: AUD-02
#[test]
fn a_backup_takes_the_log_along() {
    let server = Server::start_with(&[], EVERY_SECOND);
    let mut client = server.client();
    put_user(&mut client, "bob");
    let sent = send(&mut client, &notification("n1", &["bob"], json!({"channels": ["inApp"]})));
    eventually("it is told", || {
        kinds(&entries(&mut client, &format!("notification={sent}"))).contains(&"parcel").then_some(())
    });
    let directory = Directory::new();
    let (backup, restored) = (directory.path("backup"), directory.path("restored"));
    let (server_data, backup) = (server.data.to_str().expect("a path"), backup.to_str().expect("a path"));
    run(&["backup", backup, "--server", &server.address, "--data", server_data]);
    run(&["restore", backup, "--data", restored.to_str().expect("a path")]);
    let copy = Server::start_in(&restored, &[], EVERY_SECOND);
    let found = entries(&mut copy.client(), &format!("notification={sent}"));
    assert_eq!(kinds(&found).iter().filter(|kind| **kind == "accepted").count(), 1);
    copy.stop();
    let (is_sound, told) = verify(&restored, &[]);
    assert!(is_sound, "{told}");
}
