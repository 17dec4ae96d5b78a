//! The fairness matrix: everything that tenants share, each with the test in which one tenant does its worst. The tests count
//! places, turns and messages, or run in virtual time; `make bench ARGS="--only fairness"` measures.

use crate::deliveries::{counts_of, notification, send, status};
use crate::providers::{World, put};
use crate::server::Server;
use crate::world::{ALL_SCOPES, eventually, expect, tenant_with_key};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::path::Path;

/// What is shared, the file of its case, and the test.
const MATRIX: &[(&str, &str, &str)] = &[
    (
        "places of a channel",
        "crates/node/src/dispatch/tests.rs",
        "no_tenant_has_more_than_a_quarter_while_others_wait",
    ),
    (
        "places of a channel that hangs",
        "crates/node/src/dispatch/tests.rs",
        "singles_begin_beside_a_flood_that_hangs",
    ),
    (
        "turns of a channel",
        "crates/node/src/dispatch/tests.rs",
        "singles_asked_for_at_once_start_together_beside_a_flood",
    ),
    (
        "turns in a lane",
        "crates/rules/src/lanes.rs",
        "a_tenant_without_room_keeps_its_place_and_holds_up_no_other",
    ),
    (
        "pace of accounts",
        "crates/channels/tests/it/drain.rs",
        "an_account_that_hangs_slows_no_other_tenant_down",
    ),
    (
        "pace of hosts",
        "crates/channels/src/webhook/hosts.rs",
        "one_tenants_answers_rest_a_shared_host_for_no_other_tenant",
    ),
    (
        "places of hosts",
        "crates/channels/src/webhook/hosts.rs",
        "tenants_share_the_places_of_a_host_and_none_has_them_all",
    ),
    (
        "places for rendering",
        "crates/api/src/places.rs",
        "a_flood_of_one_tenant_delays_another_by_no_more_than_a_turn",
    ),
    ("places for sends", "crates/api/src/places.rs", "a_place_is_kept_for_sends"),
    (
        "a provider that hangs",
        "crates/server/tests/it/fairness.rs",
        "mails_that_hang_at_one_tenants_relay_stop_no_other_tenant",
    ),
];

#[test]
fn every_case_of_the_matrix_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (resource, file, test) in MATRIX {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        assert!(text.contains(&format!("fn {test}()")), "{resource}: {file} has no test {test}");
    }
}

/// Makes users with mail addresses, and waits until all of them can be written to.
fn with_mail(
    client: &mut Client,
    name: &str,
    count: usize,
    address: impl Fn(usize) -> String,
) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|no| format!("{name}{no}")).collect();
    let users: Vec<Value> =
        names.iter().enumerate().map(|(no, name)| json!({"userId": name, "email": address(no)})).collect();
    for part in users.chunks(1_000) {
        expect(client.post("/api/v1/users/batch", &json!({"users": part})), 200);
    }
    for name in &names {
        eventually("the address can be used", || {
            let user = expect(client.get(&format!("/api/v1/users/{name}")), 200);
            (user["channels"][0]["status"] == "active").then_some(())
        });
    }
    names
}

fn mail(id: &str, users: &[String]) -> Value {
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    notification(id, &users, json!({"channels": ["email"]}))
}

/// The relay of one tenant takes mails and never answers the final dot. Another tenant's mails, normal ones, all leave meanwhile.
// fixes: security H5
#[test]
fn mails_that_hang_at_one_tenants_relay_stop_no_other_tenant() {
    const EACH: usize = 200;
    let (world, server) = (World::new(), Server::start());
    let (mut loud, mut admin) = (server.client(), server.admin());
    let key = tenant_with_key(&mut admin, "quiet", ALL_SCOPES);
    let mut quiet = server.with_key(&key);
    put(&mut loud, "relay", &world.smtp());
    put(&mut quiet, "relay", &world.smtp());
    let hanging = with_mail(&mut loud, "loud", EACH, |no| format!("sandbox-lose-answer+{no}@a.example"));
    let well = with_mail(&mut quiet, "quiet", EACH, |no| format!("user{no}@b.example"));
    let stuck = send(&mut loud, &mail("stuck", &hanging));
    eventually("some hang", || {
        (counts_of(&status(&mut loud, &stuck), "email")["sending"].as_u64() > Some(0)).then_some(())
    });
    for round in 0..3 {
        let id = send(&mut quiet, &mail(&format!("well-{round}"), &well));
        eventually("all mails of the other tenant are sent", || {
            (*counts_of(&status(&mut quiet, &id), "email") == json!({"sent": EACH})).then_some(())
        });
    }
    let counts = counts_of(&status(&mut loud, &stuck), "email").clone();
    assert!(counts["sending"].as_u64() > Some(0) && counts["sent"].is_null(), "they hang still: {counts}");
}
