//! Configuration as an operator meets it.

use crate::server::{Directory, Server, fantail, run};
use crate::world::expect;

fn fails(args: &[&str], part: &str) {
    let output = fantail().args(args).output().expect("the binary runs");
    assert!(!output.status.success(), "{args:?} should fail");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains(part), "{args:?}: {error}");
}

#[test]
fn the_documented_file_is_accepted() {
    let directory = Directory::new();
    let file = directory.path("fantail.toml");
    std::fs::write(&file, run(&["config", "doc"])).expect("a file");
    let path = file.to_string_lossy();
    assert!(run(&["config", "check", "--config", &path]).contains("valid"));
}

#[test]
fn layers_are_shown_with_their_source() {
    let directory = Directory::new();
    let file = directory.path("fantail.toml");
    std::fs::write(
        &file,
        "[http]\ndrain_s = 3\n[admin]\nkey = \"0123456789012345678901234567890123456789\"\n",
    )
    .expect("a file");
    let output = fantail()
        .args(["config", "show", "--listen", "127.0.0.1:9", "--config"])
        .arg(&file)
        .env("FANTAIL_LOG_LEVEL", "warn")
        .output()
        .expect("the binary runs");
    let shown = String::from_utf8(output.stdout).expect("text");
    for line in [
        "listen = \"127.0.0.1:9\"  # flag --listen",
        "log.level = \"warn\"  # environment FANTAIL_LOG_LEVEL",
        "http.idle_timeout_s = 60  # default",
    ] {
        assert!(shown.lines().any(|found| found == line), "{line} in\n{shown}");
    }
    assert!(shown.contains("http.drain_s = 3  # file"));
    assert!(shown.contains("admin.key = (hidden)  # file") && !shown.contains("01234567890"), "{shown}");
}

#[test]
fn mistakes_are_refused_before_anything_starts() {
    let directory = Directory::new();
    let file = directory.path("fantail.toml");
    std::fs::write(&file, "lisen = \"127.0.0.1:1\"\n").expect("a file");
    let path = file.to_string_lossy().into_owned();
    let data = directory.path("data").to_string_lossy().into_owned();
    fails(&["serve", "--data", &data, "--config", &path], "unknown key: lisen");
    fails(&["config", "check", "--config", &path], "unknown key: lisen");
    fails(&["serve", "--data", &data, "--tls-cert", "a.pem"], "belong together");
    fails(&["serve", "--data", &data, "--listen", "nowhere"], "listen (flag --listen)");
    fails(&["serve", "--data", &data, "--config", "/nonexistent.toml"], "cannot read");
    assert!(!directory.path("data").exists(), "nothing was made");
}

#[test]
fn a_file_configures_the_server() {
    let directory = Directory::new();
    let file = directory.path("fantail.toml");
    std::fs::write(&file, "[log]\nformat = \"json\"\nlevel = \"debug\"\n").expect("a file");
    let path = file.to_string_lossy();
    let server = Server::start_in(&directory.path("data"), &["--config", &path], &[]);
    expect(server.client().get("/readyz?verbose"), 200);
    let log = server.log();
    let line = log.lines().find(|line| line.contains("\"answered\"")).expect("a request is logged at debug");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!((&line["route"], &line["status"]), (&"readyz".into(), &200.into()));
    server.stop();
}

// fixes: usability C11
#[test]
fn a_misspelt_variable_is_refused_by_name() {
    let output = fantail().args(["config", "check"]).env("FANTAIL_LISTENN", "x").output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("FANTAIL_LISTENN"), "{error}");
}
