//! What is promised about copies, held against the provider's own record of arrivals: a journal that takes nothing, and
//! redriving what died after others got theirs.

use crate::deliveries::{Post, counts_of, metric, notification, register, send, status};
use crate::world::{eventually, expect, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};

const PEOPLE: usize = 1_000;

/// Makes users with mail addresses at the stub, and waits until all of them can be written to.
pub fn people_with_mail(client: &mut Client, prefix: &str, count: usize) -> Vec<String> {
    let before = metric(client, "fantail_endpoint_changes_total", "\"active\"");
    let names: Vec<String> = (0..count).map(|no| format!("{prefix}{no}")).collect();
    let user = |name: &String| json!({"userId": name, "email": format!("ok/{name}@stub.test")});
    let users: Vec<Value> = names.iter().map(user).collect();
    expect(client.post("/api/v1/users/batch", &json!({"users": users})), 200);
    eventually("all addresses can be used", || {
        let active = metric(client, "fantail_endpoint_changes_total", "\"active\"");
        (active >= before + count as u64).then_some(())
    });
    names
}

fn by_mail(id: &str, people: &[String]) -> Value {
    let people: Vec<&str> = people.iter().map(String::as_str).collect();
    notification(id, &people, json!({"channels": ["email"]}))
}

/// Whether nothing is being sent at this moment.
fn is_at_rest(client: &mut Client, ids: &[String]) -> bool {
    ids.iter().all(|id| counts_of(&status(client, id), "push")["sending"].is_null())
}

// proves: DED-05, DED-06, DEL-15
#[test]
fn a_journal_that_takes_nothing_lets_nothing_leave_and_burns_no_attempt() {
    const WAITING: u64 = 40;
    let post = Post::new();
    post.faults("push down\n");
    let ids = {
        let server = post.start(&[]);
        let mut client = server.client();
        put_user(&mut client, "ann");
        register(&mut client, "ann", "phone", "stub:ok/ann");
        let one = |no| send(&mut client, &notification(&format!("n{no}"), &["ann"], json!({})));
        let ids: Vec<String> = (0..WAITING).map(one).collect();
        eventually("some were refused by the provider, and none is under way", || {
            let is_deferred =
                |id: &String| counts_of(&status(&mut client, id), "push")["deferred"].as_u64() == Some(1);
            (ids.iter().any(is_deferred) && is_at_rest(&mut client, &ids)).then_some(())
        });
        server.stop();
        ids
    };
    assert_eq!(post.lines().len(), 0, "the provider was down");
    post.faults("");
    let full = ("FANTAIL_STORAGE_FREE_MIB_MIN", (1_u64 << 30).to_string());
    let server = post.start(&[(full.0, &full.1)]);
    let mut client = server.client();
    let late = notification("late", &["ann"], json!({}));
    eventually("dispatch was refused again and again", || {
        let refusals = metric(&mut client, "fantail_journal_refused_total", "");
        (refusals >= 200).then_some(())
    });
    refused(client.post("/api/v1/notifications", &late), "STORAGE_FULL");
    assert_eq!(post.lines().len(), 0, "no journal, no Intent, no send");
    for found in ids.iter().map(|id| status(&mut client, id)) {
        let attempts = &found["deliveries"][0]["attempts"];
        assert!(attempts.is_null() || *attempts == 1, "waiting is no attempt: {found}");
    }
    server.stop();
    let server = post.start(&[]);
    let mut client = server.client();
    let late = send(&mut client, &late);
    for id in ids.iter().chain([&late]) {
        let found = eventually("it is sent once there is room", || {
            let found = status(&mut client, id);
            (*counts_of(&found, "push") == json!({"sent": 1})).then_some(found)
        });
        assert_eq!(found["deliveries"][0]["attempts"], 1, "a rest of the provider burns none: {found}");
    }
    let arrived = post.arrived();
    assert_eq!(arrived.len() as u64, WAITING + 1, "everything arrived");
    assert!(arrived.values().all(|copies| *copies == 1), "once: {arrived:?}");
}

fn redrive(client: &mut Client, choice: &Value) -> u64 {
    let changed = expect(client.post("/api/v1/deadletters/redrive", choice), 200);
    changed["count"].as_u64().expect("a number")
}

/// The status once all deliveries have ended, so many of them by being sent.
fn ended(client: &mut Client, id: &str, sent: u64) -> Value {
    eventually(&format!("{sent} are sent"), || {
        let found = status(client, id);
        let counts = counts_of(&found, "email");
        let (yes, no) = (counts["sent"].as_u64().unwrap_or(0), counts["dead"].as_u64().unwrap_or(0));
        (yes == sent && yes + no == PEOPLE as u64).then_some(found)
    })
}

// proves: DEL-06, DEL-07, DEL-08, DED-01, BLK-10
#[test]
fn redriving_the_dead_never_reaches_those_who_have_it() {
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let people = people_with_mail(&mut client, "u", PEOPLE);
    post.faults("email malformed=30\n");
    let id = send(&mut client, &by_mail("n1", &people));
    let found = eventually("every delivery has ended", || {
        let found = status(&mut client, &id);
        (found["channels"][0]["done"] == true).then_some(found)
    });
    let dead = counts_of(&found, "email")["dead"].as_u64().expect("some died");
    let had = PEOPLE as u64 - dead;
    assert!(dead > 100 && had > 100, "some got it and some did not: {dead} died");
    assert_eq!(post.lines().len() as u64, had);
    // Still broken: they die again, and nobody else is touched.
    assert_eq!(redrive(&mut client, &json!({})), dead);
    ended(&mut client, &id, had);
    eventually("they died again", || (redrive(&mut client, &json!({"dryRun": true})) == dead).then_some(()));
    assert_eq!(post.lines().len() as u64, had, "a dry run and a failed redrive send nothing");
    post.faults("");
    // By id, also of those who have it.
    let mut some: Vec<&str> = Vec::new();
    let deliveries = found["deliveries"].as_array().expect("deliveries");
    for state in ["dead", "sent"] {
        let those = deliveries.iter().filter(|one| one["state"] == state);
        some.extend(those.take(3).map(|one| one["userId"].as_str().expect("a name")));
    }
    assert_eq!(redrive(&mut client, &json!({"users": some, "dryRun": true})), 3);
    assert_eq!(redrive(&mut client, &json!({"users": some})), 3, "three of six were dead");
    ended(&mut client, &id, had + 3);
    // By filter.
    assert_eq!(redrive(&mut client, &json!({"code": "something else"})), 0);
    assert_eq!(redrive(&mut client, &json!({"channel": "push"})), 0);
    let choice = json!({"channel": "email", "code": "malformed", "eventId": id, "dryRun": true});
    assert_eq!(redrive(&mut client, &choice), dead - 3);
    // All, and all once more.
    assert_eq!(redrive(&mut client, &json!({})), dead - 3);
    ended(&mut client, &id, PEOPLE as u64);
    assert_eq!(redrive(&mut client, &json!({})), 0);
    let arrived = post.arrived();
    assert_eq!(arrived.len(), PEOPLE, "everybody has it");
    assert!(arrived.values().all(|copies| *copies == 1), "nobody has it twice");
}

// proves: DEL-08
#[test]
fn every_dead_letter_is_listed_however_many_notifications_they_are_of() {
    const LETTERS: usize = 150;
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:malformed/ann");
    for no in 0..LETTERS {
        send(&mut client, &notification(&format!("n{no}"), &["ann"], json!({})));
    }
    let all = json!({"dryRun": true});
    eventually("all are dead", || (redrive(&mut client, &all) == LETTERS as u64).then_some(()));
    for limit in [1_000, 40] {
        let (mut cursor, mut listed) = (String::new(), std::collections::BTreeSet::new());
        loop {
            let page = expect(client.get(&format!("/api/v1/deadletters?limit={limit}{cursor}")), 200);
            for letter in page["deadLetters"].as_array().expect("letters") {
                let id = letter["eventId"].as_str().expect("an id").to_owned();
                assert!(listed.insert(id), "listed twice: {letter}");
            }
            let Some(next) = page["nextCursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(listed.len(), LETTERS, "in pages of {limit}");
    }
}
