//! Test doubles exist only with `FANTAIL_TESTING=1`: without it their addresses are ordinary ones, with it one of them hinders
//! no other tenant, and nothing but this machine is listened to.

use crate::deliveries::{Post, counts_of, metric, notification, register, send, status};
use crate::proofs::people_with_mail;
use crate::server::{Directory, Server, fantail};
use crate::world::{ALL_SCOPES, eventually, put_user, tenant_with_key};
use fantail_server::client::Client;
use serde_json::{Value, json};

/// Waits until one delivery of this channel is sent.
fn eventually_sent(client: &mut Client, id: &str, channel: &str) {
    eventually(&format!("{id} is sent by {channel}"), || {
        (*counts_of(&status(client, id), channel) == json!({"sent": 1})).then_some(())
    });
}

fn to(id: &str, recipient: Value, channel: &str) -> Value {
    json!({"notificationId": id, "content": {"title": "Hello"}, "recipients": [recipient], "channels": [channel]})
}

/// What would be wishes of the stub goes to the sandbox like every other address, and nothing rests.
// fixes: security C1
#[test]
fn without_the_switch_addresses_of_test_doubles_are_ordinary_ones() {
    let server = Server::start_with(&[], &[("FANTAIL_TESTING", "0")]);
    assert!(!server.banner.iter().any(|line| line.contains("FANTAIL_TESTING")), "{:?}", server.banner);
    let mut client = server.client();
    for (user, token) in [("ann", "stub:429=3600"), ("bob", "stub:503/bob")] {
        put_user(&mut client, user);
        register(&mut client, user, "phone", token);
        let id = send(&mut client, &notification(&format!("push-{user}"), &[user], json!({})));
        eventually_sent(&mut client, &id, "push");
    }
    for (no, address) in ["429=3600@stub.test", "500@stub.test", "ok@stub.test"].iter().enumerate() {
        let id = send(&mut client, &to(&format!("mail-{no}"), json!({"email": address}), "email"));
        eventually_sent(&mut client, &id, "email");
    }
    let id = send(&mut client, &to("text", json!({"phone": "+999 1234 5678"}), "sms"));
    eventually_sent(&mut client, &id, "sms");
    assert_eq!(metric(&mut client, "fantail_provider_resting", ""), 0);
}

/// What the address of one tenant wishes for rests nothing of another's, in any lane.
// fixes: security C1
#[test]
fn with_the_switch_a_stub_that_wants_a_rest_stops_no_other_tenant() {
    let post = Post::new();
    let server = post.start(&[]);
    assert!(server.banner.iter().any(|line| line.contains("FANTAIL_TESTING=1")), "{:?}", server.banner);
    let (mut loud, mut admin) = (server.client(), server.admin());
    let key = tenant_with_key(&mut admin, "quiet", ALL_SCOPES);
    let mut quiet = server.with_key(&key);
    people_with_mail(&mut quiet, "bob", 1);
    for no in 0..3 {
        let recipient = json!({"email": format!("429=3600/{no}@stub.test")});
        let id = send(&mut loud, &to(&format!("loud-{no}"), recipient, "email"));
        eventually("it is told to come back in an hour", || {
            (*counts_of(&status(&mut loud, &id), "email") == json!({"deferred": 1})).then_some(())
        });
    }
    for (no, priority) in ["normal", "critical", "high", "low"].iter().enumerate() {
        let more = json!({"channels": ["email"], "priority": priority});
        let id = send(&mut quiet, &notification(&format!("quiet-{no}"), &["bob0"], more));
        eventually_sent(&mut quiet, &id, "email");
    }
}

// fixes: security C1, security L7
#[test]
fn with_the_switch_only_this_machine_is_listened_to() {
    let directory = Directory::new();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let data = directory.path("data");
        let mut command = fantail();
        command.args(["serve", "--listen", listen, "--data"]).arg(&data).env("FANTAIL_TESTING", "1");
        let output = command.output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("loopback"), "{listen}: {said}");
        assert!(!data.exists(), "nothing was begun");
    }
    // The built-in sandbox is no public listener either.
    let server = Server::start();
    let sandbox = server.banner.iter().find(|line| line.contains("sandbox")).expect("a line about it");
    assert!(sandbox.contains("127.0.0.1"), "{sandbox}");
}
