//! Tenants, keys, dead letters and erasures from the command line; and how commands tell of refusals.

use crate::deliveries::{Post, notification, register, send};
use crate::server::{Server, fantail, run};
use crate::world::{eventually, put_user};
use serde_json::{Value, json};
use std::process::Output;

fn asked(server: &Server, args: &[&str]) -> Output {
    let data = server.data.to_str().expect("a path");
    let all = [args, &["--server", &server.address, "--data", data]].concat();
    fantail().args(all).output().expect("the binary runs")
}

/// What a command that succeeds prints.
fn said(server: &Server, args: &[&str]) -> String {
    let output = asked(server, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "fantail {args:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn answered(server: &Server, args: &[&str]) -> Value {
    let text = said(server, &[args, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|failed| panic!("{failed}: {text}"))
}

/// The exit code of a command that fails, and what it says.
fn failed(server: &Server, args: &[&str]) -> (Option<i32>, String) {
    let output = asked(server, args);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

// fixes: usability §3.12
#[test]
fn refusals_are_printed_for_people_and_exit_codes_for_scripts() {
    let server = Server::start();
    let (code, text) = failed(&server, &["tenant", "show", "none"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("There is no such tenant (404 UNKNOWN_TENANT)"), "{text}");
    assert!(text.contains("docs/errors/unknown-tenant.md") && !text.contains('{'), "{text}");
    let (code, text) = failed(&server, &["tenant", "create", "Not A Slug"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("/slug: "), "the field is named: {text}");
    let (code, text) = failed(&server, &["key", "create", "--scope", "everything"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("/scopes"), "{text}");
    assert_eq!(failed(&server, &["dead-letter", "drop"]).0, Some(1), "nothing is dropped by default");
    assert_eq!(failed(&server, &["tenant", "delete", "default"]).0, Some(2), "it is to be confirmed");
    let data = server.data.to_str().expect("a path").to_owned();
    let gone = fantail().args(["tenant", "list", "--server", "127.0.0.1:1", "--data", &data]).output();
    let gone = gone.expect("the binary runs");
    assert_eq!(gone.status.code(), Some(4), "{}", String::from_utf8_lossy(&gone.stderr));
}

// fixes: usability §3.12
#[test]
fn tenants_and_keys_are_managed_from_the_command_line() {
    let server = Server::start();
    assert!(
        said(&server, &["tenant", "create", "shop", "--name", "The Shop"]).starts_with("shop \"The Shop\"")
    );
    assert!(said(&server, &["tenant", "list"]).contains("shop \"The Shop\""));
    assert!(said(&server, &["tenant", "show", "shop"]).contains("retention: 90 days"));
    let scopes = ["--scope", "users:write", "--scope", "users:read"];
    let made = answered(&server, &[&["key", "create", "--tenant", "shop"][..], &scopes].concat());
    let (id, key) = (made["keyId"].as_str().expect("an id"), made["key"].as_str().expect("a key"));
    put_user(&mut server.with_key(key), "ann");
    assert!(said(&server, &["key", "list", "--tenant", "shop"]).contains("users:read, users:write"));
    said(&server, &["key", "revoke", id, "--tenant", "shop"]);
    assert!(said(&server, &["key", "list", "--tenant", "shop"]).contains(", revoked "));
    let begun = answered(&server, &["tenant", "delete", "shop", "--confirm", "shop"]);
    assert!(begun["deletion"]["requestedAt"].is_string(), "{begun}");
    eventually("it is gone", || (!said(&server, &["tenant", "list"]).contains("shop")).then_some(()));
}

// fixes: usability §3.12
#[test]
fn dead_letters_and_erasures_are_managed_from_the_command_line() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:malformed/ann");
    for id in ["n1", "n2"] {
        send(&mut client, &notification(id, &["ann"], json!({})));
    }
    eventually("both have died", || {
        (said(&server, &["dead-letter", "list"]).lines().count() == 2).then_some(())
    });
    let shown = said(&server, &["dead-letter", "show", "n1"]);
    assert!(shown.contains(" n1 for ann by push: ") && shown.lines().count() == 1, "{shown}");
    assert_eq!(failed(&server, &["dead-letter", "show", "n3"]).0, Some(1));
    let count = |args: &[&str]| answered(&server, args)["count"].clone();
    assert_eq!(count(&["dead-letter", "drop", "--all", "--dry-run"]), 2);
    assert_eq!(count(&["dead-letter", "drop", "--notification", "n1", "--channel", "push"]), 1);
    assert_eq!(count(&["dead-letter", "redrive", "--user", "ann", "--tenant", "default"]), 1);
    let begun = answered(&server, &["user", "erase", "ann"]);
    let id = begun["erasureId"].as_str().expect("an id");
    eventually("it is completed", || {
        (answered(&server, &["user", "erasure", id])["state"] == "completed").then_some(())
    });
    assert!(said(&server, &["user", "erasure", id]).contains("profile: 1 removed"));
    assert_eq!(failed(&server, &["user", "erase", "ann"]).0, Some(3));
}

#[test]
fn every_new_command_has_an_example() {
    for command in [
        ["tenant", "create"],
        ["tenant", "list"],
        ["tenant", "show"],
        ["tenant", "delete"],
        ["key", "create"],
        ["key", "list"],
        ["key", "revoke"],
        ["dead-letter", "list"],
        ["dead-letter", "show"],
        ["dead-letter", "redrive"],
        ["dead-letter", "drop"],
        ["user", "erase"],
        ["user", "erasure"],
    ] {
        let help = run(&[command[0], command[1], "--help"]);
        assert!(help.contains(&format!("Example: fantail {} {}", command[0], command[1])), "{help}");
    }
}
