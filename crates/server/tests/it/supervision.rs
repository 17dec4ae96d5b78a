//! Panics on purpose: whatever the server cannot do without ends the process with a message; the rest goes on.

use crate::deliveries::{Post, metric, notification, register, send, status};
use crate::server::Server;
use crate::world::{eventually, put_user};
use serde_json::json;

/// Requests to a server that is to end; it must have ended by then.
const REQUESTS_MAX: usize = 4_000;

/// Sends until no answer comes. What is answered meanwhile is an acceptance or a 503.
fn send_until_it_ends(server: &Server) {
    let mut client = server.client();
    for number in 0..REQUESTS_MAX {
        match client
            .post("/api/v1/notifications", &notification(&format!("more{number}"), &["ann"], json!({})))
        {
            Ok(response) => assert!(matches!(response.status, 202 | 503), "{}", response.text()),
            Err(_) => return,
        }
    }
    panic!("it lives");
}

// fixes: correctness A2
#[test]
fn a_panic_of_a_loop_or_a_thread_ends_the_process_and_the_next_start_recovers() {
    let post = Post::new();
    {
        let server = post.start(&[]);
        put_user(&mut server.client(), "ann");
        register(&mut server.client(), "ann", "phone", "stub:ok/ann");
        server.stop();
    }
    for (round, (point, task)) in [
        ("lead.planned:30", "leader"),
        ("lead.folded:30", "leader"),
        ("take.proposed:3", "take"),
        ("dispatch.started:2", "dispatch"),
        ("audit.derived:2", "audit"),
        ("store.tended:1", "store-tend"),
    ]
    .into_iter()
    .enumerate()
    {
        // What waits from before may bring it to the point while it starts.
        if let Ok(mut server) = post.try_start(&[("FANTAIL_DELIVERY_PANIC_AT", point)]) {
            send_until_it_ends(&server);
            assert!(!server.wait(), "{point}: the exit code says that it failed");
            let log = server.log();
            assert!(log.contains(&format!("stopped: the task {task} panicked")), "{point}: {log}");
        }
        let server = post.start(&[]);
        let mut client = server.client();
        let id = send(&mut client, &notification(&format!("after{round}"), &["ann"], json!({})));
        eventually(&format!("{point}: it sends again"), || {
            (status(&mut client, &id)["channels"][0]["done"] == true).then_some(())
        });
        server.stop();
    }
}

// fixes: correctness A2, correctness C4
#[test]
fn a_panic_in_a_parcel_leaves_its_deliveries_unknown_and_the_server_goes_on() {
    for (point, state) in [
        ("deliver.packed:1", "unconfirmed"),
        ("deliver.settling:1", "unconfirmed"),
        // Its answers are durable by then.
        ("deliver.sent:1", "sent"),
    ] {
        let post = Post::new();
        let server = post.start(&[("FANTAIL_DELIVERY_PANIC_AT", point)]);
        let mut client = server.client();
        put_user(&mut client, "ann");
        register(&mut client, "ann", "phone", "stub:ok/ann");
        let low = json!({"priority": "low"});
        let ids = ["n1", "n2"].map(|id| send(&mut client, &notification(id, &["ann"], low.clone())));
        let found = ids.map(|id| {
            eventually(&format!("{point}: every delivery ends"), || {
                let found = status(&mut client, &id);
                (found["channels"][0]["done"] == true).then_some(found)
            })
        });
        let states: Vec<&str> =
            found.iter().map(|found| found["deliveries"][0]["state"].as_str().expect("a state")).collect();
        assert!(states.contains(&state) && states.contains(&"sent"), "{point}: {states:?}");
        let count = metric(&mut client, "fantail_task_panics_total", "parcel");
        assert_eq!(count, 1, "{point}: {}", server.log());
        assert!(metric(&mut client, "fantail_panics_total", "") >= 1);
        eventually("the permits are back", || {
            (metric(&mut client, "fantail_deliveries_in_flight", "") == 0).then_some(())
        });
        server.stop();
    }
}
