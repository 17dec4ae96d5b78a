//! The server key and other secrets as an operator gives them, and `fantail keyring rotate`.

use crate::recovery::{fill, seen_with};
use crate::server::{Directory, Server, fantail, run};
use crate::world::{expect, put_user};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const KEY_FILE: &str = "FANTAIL_KEYRING_SERVER_KEY_FILE";
const KEY: &str = "FANTAIL_KEYRING_SERVER_KEY";
const COMMAND: &str = "FANTAIL_KEYRING_SERVER_KEY_COMMAND";

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn private(path: &Path, content: &str) -> String {
    fs::write(path, content).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its mode");
    text(path)
}

/// What the log of a start says that is refused.
fn refused(data: &Path, environment: &[(&str, &str)]) -> String {
    let log = data.with_extension("log");
    fs::write(&log, "").expect("a log file");
    assert!(Server::try_start_in(data, &[], environment).is_err(), "{environment:?}");
    fs::read_to_string(log).expect("a log file")
}

fn starts_with(data: &Path, environment: &[(&str, &str)], seen: &Value) -> String {
    let server = Server::start_in(data, &[], environment);
    assert_eq!(&seen_with(&mut server.client()), seen, "{environment:?}");
    let banner = server.banner.join("\n");
    server.stop();
    banner
}

/// A command that has to fail, and what it says.
fn fails(args: &[&str], environment: &[(&str, &str)]) -> String {
    let output = fantail().args(args).envs(environment.iter().copied()).output().expect("it runs");
    assert!(!output.status.success(), "{args:?} should fail");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn rotate(data: &Path, args: &[&str], environment: &[(&str, &str)]) -> String {
    let command = ["keyring", "rotate", "--data", &text(data)];
    let output = fantail().args(command).args(args).envs(environment.iter().copied()).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn kept(data: &Path) -> PathBuf {
    data.join("keys/server.key")
}

// fixes: security M11
#[test]
fn a_server_key_that_is_given_is_not_in_the_data_directory_and_no_other_opens_it() {
    let directory = Directory::new();
    let data = directory.path("data");
    let digits = "0f".repeat(32);
    let file = private(&directory.path("given.key"), &format!("{digits}\n"));
    let server = Server::start_in(&data, &[], &[(KEY_FILE, &file)]);
    assert!(server.banner.join("\n").contains("sealed   by the key of keyring.server_key_file"));
    assert!(server.log().contains("keyring.server_key_file"), "{}", server.log());
    let seen = fill(&server);
    server.stop();
    assert!(!kept(&data).exists(), "what is given is not stored");
    let command = format!("[\"cat\", {file:?}]");
    starts_with(&data, &[(KEY, &digits)], &seen);
    starts_with(&data, &[(COMMAND, &command)], &seen);

    let other = private(&directory.path("other.key"), &"0e".repeat(32));
    let of_other = format!("[\"cat\", {other:?}]");
    for (environment, names) in [
        (&[][..], ["server.key", "is missing"]),
        (&[(KEY_FILE, other.as_str())], ["server.check", "keyring.server_key_file"]),
        (&[(KEY, &"0e".repeat(32))], ["server.check", "does not open under keyring.server_key:"]),
        (&[(COMMAND, &of_other)], ["server.check", "keyring.server_key_command"]),
        (&[(COMMAND, "[\"false\"]")], ["false ended with", "keyring.server_key_command"]),
        (&[(KEY_FILE, "/nonexistent")], ["/nonexistent", "keyring.server_key_file"]),
        (&[(KEY, &digits), (COMMAND, &command)], ["keyring.server_key (", "keyring.server_key_command ("]),
    ] {
        let log = refused(&data, environment);
        assert!(names.iter().all(|name| log.contains(name)), "{environment:?}: {log}");
        assert!(!log.contains(&"0e".repeat(32)) && !log.contains(&digits), "{log}");
    }
    starts_with(&data, &[(KEY_FILE, &file)], &seen);
}

// fixes: security M11
#[test]
fn the_server_key_is_replaced_and_everything_is_read_as_before() {
    let directory = Directory::new();
    let data = directory.path("data");
    let server = Server::start_in(&data, &[], &[]);
    assert!(server.banner.join("\n").contains("sealed   by keys/server.key in the same directory"));
    let seen = fill(&server);
    let running = fails(&["keyring", "rotate", "--data", &text(&data)], &[]);
    assert!(running.contains("stop it first"), "{running}");
    server.stop();

    let first = fs::read(kept(&data)).expect("a key");
    let told = rotate(&data, &[], &[]);
    assert!(told.contains("tenants: 1,") && told.contains("keys/server.key"), "{told}");
    let second = fs::read(kept(&data)).expect("a key");
    assert_ne!(first, second);
    starts_with(&data, &[], &seen);

    // Out of the data directory, into a file that is made.
    let file = text(&directory.path("given.key"));
    let told = rotate(&data, &["--new-key-file", &file], &[]);
    assert!(told.contains(&format!("keyring.server_key_file = {file}")), "{told}");
    assert!(!kept(&data).exists(), "the old key is gone");
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let given = [(KEY_FILE, file.as_str())];
    starts_with(&data, &given, &seen);
    for old in [first, second] {
        let digits: String = old.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(refused(&data, &[(KEY, &digits)]).contains("server.check"), "an old key opens nothing");
    }

    // From one given key to another, by commands; the same once more changes nothing.
    let next = private(&directory.path("next.key"), &"0d".repeat(32));
    let command = format!("[\"cat\", {next:?}]");
    let unsaid = fails(&["keyring", "rotate", "--data", &text(&data)], &given);
    assert!(unsaid.contains("keyring.server_key_file") && unsaid.contains("--new-key-command"), "{unsaid}");
    rotate(&data, &["--new-key-command", &command], &given);
    let again = rotate(&data, &["--new-key-command", &command], &given);
    assert!(again.contains("already"), "{again}");
    assert!(refused(&data, &given).contains("keyring.server_key_file"));
    starts_with(&data, &[(COMMAND, &command)], &seen);

    // Back into the data directory.
    rotate(&data, &["--new-key-in-data"], &[(COMMAND, &command)]);
    fs::write(data.join("keys/rotated-server.check"), "of a rotation that was interrupted").expect("a file");
    let server = Server::start_in(&data, &[], &[]);
    assert_eq!(seen_with(&mut server.client()), seen);
    assert!(server.log().contains("interrupted and did not happen"), "{}", server.log());
    put_user(&mut server.client(), "afterwards");
    server.stop();
    let nothing = fails(&["keyring", "rotate", "--data", &text(&directory.path("nothing"))], &[]);
    assert!(nothing.contains("there is no keyring"), "{nothing}");
}

#[test]
fn secrets_are_read_from_files_and_open_ones_are_named() {
    let directory = Directory::new();
    let data = directory.path("data");
    let key = "an-admin-key-of-an-operator-in-a-file";
    let admin = private(&directory.path("admin"), &format!("{key}\n"));
    let signing = private(&directory.path("signing"), &"5e".repeat(32));
    fs::set_permissions(&signing, fs::Permissions::from_mode(0o644)).expect("its mode");
    let environment =
        [("FANTAIL_ADMIN_KEY_FILE", admin.as_str()), ("FANTAIL_AUDIT_SIGNING_KEY_FILE", signing.as_str())];
    let server = Server::start_in(&data, &[], &environment);
    expect(server.with_key(key).get("/api/v1/tenants"), 200);
    let log = server.log();
    assert!(log.contains(&signing) && !log.contains(&admin), "only what others may read is named: {log}");
    assert!(!data.join("admin.key").exists() && !data.join("keys/audit.key").exists());
    put_user(&mut server.client(), "u");
    let backup = text(&directory.path("backup"));
    let made = fantail()
        .args(["backup", &backup, "--server", &server.address, "--data", &text(&data)])
        .env("FANTAIL_ADMIN_KEY_FILE", &admin)
        .output()
        .expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    server.stop();
    assert!(run(&["audit", "verify", "--data", &text(&data)]).contains("sound"));
    let shown = fantail().args(["config", "show"]).envs(environment).output().expect("it runs");
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(shown.contains("admin.key = (hidden)  # contents of") && !shown.contains(key), "{shown}");
    let both = [environment[0], ("FANTAIL_ADMIN_KEY", key)];
    let twice = refused(&data, &both);
    assert!(twice.contains("FANTAIL_ADMIN_KEY)") && twice.contains("FANTAIL_ADMIN_KEY_FILE"), "{twice}");
    let help = run(&["serve", "--help"]);
    assert!(help.contains("FANTAIL_KEYRING_SERVER_KEY_FILE"), "{help}");
}
