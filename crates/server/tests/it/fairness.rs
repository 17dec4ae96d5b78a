//! The fairness matrix: everything that tenants share, each with the test in which one tenant does its worst. The tests count
//! places, turns and messages, or run in virtual time; `make bench ARGS="--only fairness"` measures.

use crate::deliveries::{counts_of, notification, send, status};
use crate::providers::{World, put};
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
        "places for scans and pages of exports and the audit log",
        "crates/api/src/places.rs",
        "many_exports_of_one_tenant_hold_one_of_two_places",
    ),
    (
        "turns of merge patches",
        "crates/api/src/merge_turns.rs",
        "patches_of_a_document_take_turns_in_their_order",
    ),
    ("room in queues", "crates/node/src/queue.rs", "a_tenant_that_fills_the_queue_keeps_nobody_else_out"),
    (
        "room in queues beside many tenants",
        "crates/node/src/queue.rs",
        "however_many_tenants_fill_the_queue_there_is_room_for_one_more",
    ),
    ("batches of leaders", "crates/node/src/queue.rs", "a_flood_of_one_tenant_leaves_room_for_the_other"),
    (
        "acceptance, end to end",
        "crates/sim/src/fairness.rs",
        "an_event_is_accepted_beside_a_flood_of_imports",
    ),
    ("connections", "crates/server/src/listen/places.rs", "one_address_cannot_take_all_places"),
    (
        "responses in flight",
        "crates/server/src/listen/tests.rs",
        "all_connections_together_are_bounded_and_each_has_one_response",
    ),
    (
        "requests of a connection",
        "crates/server/src/listen/tests.rs",
        "pipelined_requests_are_not_handled_while_nothing_is_read",
    ),
    (
        "effects: devices",
        "crates/sim/src/fairness.rs",
        "a_device_is_activated_beside_a_flood_of_registrations",
    ),
    (
        "effects: erasures",
        "crates/sim/src/fairness.rs",
        "an_erasure_ends_and_a_device_is_activated_beside_a_flood_of_erasures",
    ),
    ("effects: digests", "crates/sim/src/fairness.rs", "a_digest_is_written_beside_a_flood_of_digests"),
    (
        "effects that are remembered",
        "crates/node/src/todos.rs",
        "a_flood_of_one_tenant_delays_another_by_a_turn_and_hides_no_row",
    ),
    (
        "effects of directories",
        "crates/node/src/directory_todos.rs",
        "a_mass_change_of_one_tenant_delays_another_by_a_turn",
    ),
    (
        "scheduled notifications",
        "crates/sim/src/fairness.rs",
        "what_is_due_is_released_beside_a_flood_that_is_due_at_the_same_time",
    ),
    (
        "rows that are due",
        "crates/node/src/due.rs",
        "what_is_due_behind_ten_thousand_of_another_tenant_waits_for_few_steps",
    ),
    ("runs of recurring schedules", "crates/node/src/recurring/put_off.rs", "runs_of_tenants_take_turns"),
    ("bulk scans", "crates/node/src/bulk/run.rs", "walks_of_a_tenant_take_turns_for_its_steps"),
    (
        "fan-out that is behind",
        "crates/node/src/fanout_share.rs",
        "the_tenant_that_posts_too_much_is_refused_first",
    ),
    ("disk", "crates/node/src/disk_share.rs", "the_tenant_that_fills_the_disk_is_refused_first"),
    (
        "commands on a short disk",
        "crates/node/src/queue.rs",
        "a_short_disk_refuses_the_tenant_that_fills_it_and_nobody_else",
    ),
    (
        "webhooks to producers",
        "crates/server/tests/it/webhooks.rs",
        "a_receiver_that_hangs_delays_no_other_tenants_webhook",
    ),
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
    let (world, server) = World::with_server();
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
