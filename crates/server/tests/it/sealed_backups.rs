//! Backups whose keys are sealed to a recipient, left out, or in the clear and said to be; and how long those of the API stay.

use crate::server::{Directory, Server, fantail, run};
use crate::world::{bare, expect, put_user, refused};
use std::fs;
use std::path::{Path, PathBuf};

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// Runs a command that fails, and gives what it says.
fn fails(args: &[&str]) -> String {
    let output = fantail().args(args).output().expect("the binary runs");
    assert!(!output.status.success(), "fantail {args:?} succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a backup command says on the standard error.
fn back_up(server: &Server, backup: &Path, more: &[&str]) -> String {
    let own = ["backup", text(backup), "--server", &server.address, "--data", text(&server.data)];
    let output = fantail().args(own).args(more).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

fn files(below: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![below.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { left.push(path) } else { found.push(path) }
        }
    }
    found
}

/// Whether these bytes are in any file below a directory.
fn is_anywhere(below: &Path, bytes: &[u8]) -> bool {
    let has =
        |file: PathBuf| fs::read(file).expect("a file").windows(bytes.len()).any(|window| window == bytes);
    files(below).into_iter().any(has)
}

// fixes: security M11
#[test]
fn keys_of_a_backup_are_opened_by_their_recipient_alone() {
    let elsewhere = Directory::new();
    let [identity, other, backup, data] =
        ["identity", "other", "backup", "data"].map(|name| elsewhere.path(name));
    let recipient = run(&["backup", "keygen", "--to", text(&identity)]).trim().to_owned();
    // Both halves, as they are printed, may stand in the file.
    fs::write(&other, run(&["backup", "keygen"])).expect("written");
    let server = Server::start_with(&[], &[("FANTAIL_BACKUP_RECIPIENT", &recipient)]);
    put_user(&mut server.client(), "bob");
    let said = back_up(&server, &backup, &[]);
    assert!(!said.contains("in the clear"), "{said}");
    let keys = ["keys/server.key", "keys/audit.key", "admin.key", "default.key"];
    for name in keys {
        let key = fs::read(server.data.join(name)).expect("a key");
        assert!(is_anywhere(&server.data, key.trim_ascii()), "looking finds {name}");
        assert!(!is_anywhere(&backup, key.trim_ascii()), "{name} is in no file of the backup");
    }
    let kept: Vec<Vec<u8>> =
        keys.iter().map(|name| fs::read(server.data.join(name)).expect("a key")).collect();
    server.stop();
    let restore = |more: &[&str]| fails(&[&["restore", text(&backup), "--data", text(&data)], more].concat());
    assert!(restore(&[]).contains(&format!("sealed to {recipient}")));
    let error = restore(&["--identity", text(&other)]);
    assert!(error.contains("keys.sealed") && error.contains(&recipient), "{error}");
    let whole = fs::read(backup.join("keys.sealed")).expect("a sealed part");
    for damaged in [&whole[..whole.len() - 1], &[&whole[..80], &[whole[80] ^ 1], &whole[81..]].concat()] {
        fs::write(backup.join("keys.sealed"), damaged).expect("written");
        let error = restore(&["--identity", text(&identity)]);
        assert!(error.contains("keys.sealed: was cut or changed"), "{error}");
    }
    assert!(!data.exists(), "nothing was written");
    fs::write(backup.join("keys.sealed"), whole).expect("written");
    run(&["restore", text(&backup), "--data", text(&data), "--identity", text(&identity)]);
    for (name, key) in keys.iter().zip(kept) {
        assert_eq!(fs::read(data.join(name)).expect("a key"), key, "{name}");
    }
    assert!(!data.join("keys.sealed").exists());
    let server = Server::start_in(&data, &[], &[]);
    expect(server.client().get("/api/v1/users/bob"), 200);
    server.stop();
    run(&["audit", "verify", "--data", text(&data)]);
}

#[test]
fn a_backup_without_keys_needs_those_of_the_server() {
    let (server, elsewhere) = (Server::start(), Directory::new());
    let [backup, data] = ["backup", "data"].map(|name| elsewhere.path(name));
    put_user(&mut server.client(), "bob");
    let said = back_up(&server, &backup, &["--without-keys"]);
    assert!(said.contains("has no keys"), "{said}");
    assert!(!backup.join("keys/server.key").exists() && !backup.join("admin.key").exists());
    let said = run(&["restore", text(&backup), "--data", text(&data)]);
    assert!(said.contains("put the server's own keys/server.key"), "{said}");
    let error = fails(&["serve", "--listen", "127.0.0.1:0", "--data", text(&data)]);
    assert!(
        error.contains("keys/server.key is damaged or belongs to another server key: is missing"),
        "{error}"
    );
    for name in ["server.key", "audit.key"] {
        fs::copy(server.data.join("keys").join(name), data.join("keys").join(name)).expect("copied");
    }
    let key = server.key("default.key");
    server.stop();
    let server = Server::start_in(&data, &[], &[]);
    expect(server.with_key(&key).get("/api/v1/users/bob"), 200);
    server.stop();
}

// fixes: security M11
#[test]
fn keys_in_the_clear_are_said_and_copies_of_the_api_do_not_stay_for_ever() {
    let elsewhere = Directory::new();
    let server = Server::start_with(&[], &[("FANTAIL_BACKUP_KEEP_MAX", "2")]);
    let said = back_up(&server, &elsewhere.path("backup"), &[]);
    assert!(said.contains("in the clear"), "{said}");
    let mut admin = server.admin();
    let made: Vec<String> = (0..3)
        .map(|_| {
            let made = expect(bare(&mut admin, "POST", "/api/v1/backups"), 201);
            assert_eq!(made["keys"], "clear");
            made["path"].as_str().expect("a path").to_owned()
        })
        .collect();
    let is_there: Vec<bool> = made.iter().map(|path| Path::new(path).exists()).collect();
    assert_eq!(is_there, [false, true, true]);
    let left_out = expect(bare(&mut admin, "POST", "/api/v1/backups?keys=none"), 201);
    assert_eq!(left_out["keys"], "leftOut");
    refused(bare(&mut admin, "POST", "/api/v1/backups?keys=all"), "INVALID_REQUEST");
    server.stop();
}

#[test]
fn a_recipient_with_a_slip_of_the_pen_is_refused_at_the_start() {
    let recipient = run(&["backup", "keygen"]);
    let recipient = recipient.split_whitespace().nth(1).expect("a recipient");
    let check = |value: &str| {
        let output = fantail().args(["config", "check"]).env("FANTAIL_BACKUP_RECIPIENT", value).output();
        let output = output.expect("the binary runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(check(recipient).0);
    let slip = if recipient.ends_with('0') { "1" } else { "0" };
    let (is_taken, error) = check(&format!("{}{slip}", &recipient[..recipient.len() - 1]));
    assert!(!is_taken && error.contains("backup.recipient"), "{error}");
    assert!(!check("somebody").0);
    let error = fails(&["backup"]);
    assert!(error.contains("DIRECTORY"), "{error}");
}
