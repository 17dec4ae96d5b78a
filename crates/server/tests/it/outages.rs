//! What breaks, and who does not notice: a provider beside others, a tenant beside others. By counts and by the order
//! of arrivals, never by time.

use crate::deliveries::{Post, counts_of, metric, notification, register, send, status};
use crate::proofs::people_with_mail;
use crate::world::{ALL_SCOPES, eventually, expect, ids, inbox, put_user, tenant_with_key};
use fantail_server::client::Client;
use serde_json::{Value, json};

/// Waits until so many of a notification's deliveries by this channel are sent.
fn eventually_sent(client: &mut Client, id: &str, channel: &str, sent: u64) {
    eventually(&format!("{sent} are sent by {channel}"), || {
        (counts_of(&status(client, id), channel)["sent"].as_u64() == Some(sent)).then_some(())
    });
}

/// Arrivals whose content says this.
fn arrivals_of(post: &Post, title: &str) -> usize {
    post.lines().iter().filter(|line| line.contains(title)).count()
}

pub fn titled(id: &str, users: &[&str], channel: &str, title: &str) -> Value {
    notification(id, users, json!({"channels": [channel], "content": {"title": title}}))
}

// proves: DEL-02, DEL-04, DEL-16
#[test]
fn a_provider_that_is_down_hinders_nobody_else_and_its_backlog_drains_once() {
    const EACH: usize = 300;
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    people_with_mail(&mut client, "bob", 1);
    post.faults("push down\n");
    let (mut pushes, mut mails) = (Vec::new(), Vec::new());
    for no in 0..EACH {
        pushes.push(send(&mut client, &titled(&format!("p{no}"), &["ann"], "push", "By push")));
        mails.push(send(&mut client, &titled(&format!("m{no}"), &["bob0"], "email", "By mail")));
    }
    for id in &mails {
        eventually_sent(&mut client, id, "email", 1);
    }
    assert_eq!((arrivals_of(&post, "By mail"), arrivals_of(&post, "By push")), (EACH, 0));
    let tried = metric(&mut client, "fantail_delivery_attempts_total", "channel=\"push\"");
    assert!(tried < EACH as u64 / 2, "it is not stampeded: {tried} attempts for {EACH} that wait");
    post.faults("");
    for id in &pushes {
        eventually_sent(&mut client, id, "push", 1);
    }
    let arrived = post.arrived();
    assert_eq!(arrived.len(), 2 * EACH, "the backlog has drained");
    assert!(arrived.values().all(|copies| *copies == 1), "once each");
}

// proves: DEL-17, TRK-01
#[test]
fn the_next_provider_gets_what_the_first_did_not_take_and_never_what_it_may_have() {
    const EACH: usize = 60;
    let post = Post::new();
    let server = post.start(&[("FANTAIL_DELIVERY_STUB_STANDBY", "true")]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    put_user(&mut client, "bob");
    register(&mut client, "bob", "phone", "stub:timeout/bob");
    let by = |client: &mut Client, id: &str| {
        eventually_sent(client, id, "push", 1);
        let told = expect(client.get(&format!("/api/v1/notifications/{id}/explain?user=ann")), 200);
        let steps = told["steps"].as_array().expect("steps");
        let last = steps.iter().rfind(|step| step["step"] == "attempt").expect("it was tried");
        last["inputs"]["providerId"].as_str().expect("who took it").to_owned()
    };
    let well = send(&mut client, &titled("p0", &["ann"], "push", "By push"));
    assert_eq!(by(&mut client, &well), "stub");
    post.faults("push down\n");
    for no in 1..=EACH {
        let id = send(&mut client, &titled(&format!("p{no}"), &["ann"], "push", "By push"));
        assert_eq!(by(&mut client, &id), "standby");
    }
    // Both are away: it waits, and whoever comes back first gets it.
    post.faults("push down\npush-standby down\n");
    let late = send(&mut client, &titled("late", &["ann"], "push", "By push"));
    eventually("it waits", || {
        (counts_of(&status(&mut client, &late), "push")["deferred"].as_u64() == Some(1)).then_some(())
    });
    post.faults("push down\n");
    assert_eq!(by(&mut client, &late), "standby");
    post.faults("");
    let mut lost = titled("lost", &["bob"], "push", "To bob");
    (lost["priority"], lost["category"]) = (json!("low"), json!("marketing"));
    let lost = send(&mut client, &lost);
    eventually("its answer is lost", || {
        let told = status(&mut client, &lost);
        let told = counts_of(&told, "push").clone();
        (told["unknown"].as_u64() == Some(1) || told["unconfirmed"].as_u64() == Some(1)).then_some(())
    });
    let arrived = post.arrived();
    assert_eq!(arrived.len(), EACH + 3);
    assert!(arrived.values().all(|copies| *copies == 1), "once each: {arrived:?}");
}

// proves: DEL-02, DEL-04
#[test]
fn a_provider_that_is_slow_hinders_nobody_else() {
    const EACH: usize = 100;
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    people_with_mail(&mut client, "bob", 1);
    post.faults("push slow=60000\n");
    let mut mails = Vec::new();
    for no in 0..EACH {
        send(&mut client, &titled(&format!("p{no}"), &["ann"], "push", "By push"));
        mails.push(send(&mut client, &titled(&format!("m{no}"), &["bob0"], "email", "By mail")));
    }
    for id in &mails {
        eventually_sent(&mut client, id, "email", 1);
    }
    let answered = metric(&mut client, "fantail_delivery_attempts_total", "channel=\"push\"");
    assert_eq!(answered, 0, "not one push was answered meanwhile");
}

// proves: DEL-05, DEL-20
#[test]
fn a_provider_that_fails_every_fifth_and_recovers_has_everything_in_the_end() {
    const PEOPLE: usize = 1_000;
    let post = Post::new();
    let server = post.start(&[]);
    let mut client = server.client();
    let people = people_with_mail(&mut client, "u", PEOPLE);
    let people: Vec<&str> = people.iter().map(String::as_str).collect();
    post.faults("email fail=20\n");
    let first = send(&mut client, &titled("n1", &people, "email", "While it fails"));
    let deferred = eventually("the first attempts have ended", || {
        let found = status(&mut client, &first);
        let counts = counts_of(&found, "email");
        let deferred = counts["deferred"].as_u64().unwrap_or(0);
        (counts["sent"].as_u64().unwrap_or(0) + deferred == PEOPLE as u64).then_some(deferred)
    });
    assert!((100..300).contains(&deferred), "about every fifth: {deferred}");
    // Some retries fail as well.
    eventually("somebody failed twice", || {
        let found = status(&mut client, &first);
        let deliveries = found["deliveries"].as_array().expect("deliveries");
        let failed_twice = |one: &serde_json::Value| {
            one["attempts"].as_u64() >= Some(if one["state"] == "deferred" { 2 } else { 3 })
        };
        deliveries.iter().any(failed_twice).then_some(())
    });
    post.faults("");
    let found = eventually("all have ended", || {
        let found = status(&mut client, &first);
        (found["channels"][0]["done"] == true).then_some(found)
    });
    let sent = counts_of(&found, "email")["sent"].as_u64().expect("a number");
    assert!(sent * 1_000 > PEOPLE as u64 * 999, "{sent} of {PEOPLE} were delivered");
    let arrived = post.arrived();
    assert_eq!(arrived.len() as u64, sent);
    assert!(arrived.values().all(|copies| *copies == 1), "once each");
}

// proves: PRI-01, PRI-05
#[test]
fn a_flood_is_not_before_the_next_one_of_other_tenants_and_not_before_what_is_critical() {
    const CROWD: usize = 1_000;
    /// More than a tenant that is alone gets through in twice the time of an answer, so that most of it waits on a slow machine too.
    const FLOOD: usize = 24;
    const OTHERS: usize = 4;
    let post = Post::new();
    let server = post.start(&[]);
    let mut loud = server.client();
    let crowd = people_with_mail(&mut loud, "u", CROWD);
    let crowd: Vec<&str> = crowd.iter().map(String::as_str).collect();
    let quiet = |no| {
        let key = tenant_with_key(&mut server.admin(), &format!("quiet{no}"), ALL_SCOPES);
        let mut client = server.with_key(&key);
        people_with_mail(&mut client, "q", 1);
        client
    };
    let others: Vec<Client> = (0..OTHERS).map(quiet).collect();
    // The first thousands of the flood take all places that are not kept for critical ones; answers take their time.
    post.faults("email slow=5000\n");
    for no in 0..FLOOD {
        send(&mut loud, &titled(&format!("f{no}"), &crowd, "email", "Flood"));
    }
    eventually("the flood fills the channel", || (arrivals_of(&post, "Flood") > 2 * CROWD).then_some(()));
    let mut urgent = titled("urgent", &["u0"], "email", "Urgent");
    urgent["priority"] = json!("critical");
    send(&mut loud, &urgent);
    eventually("places are kept for it", || (arrivals_of(&post, "Urgent") == 1).then_some(()));
    for mut client in others {
        let id = send(&mut client, &titled("single", &["q0"], "email", "Single"));
        eventually_taken(&mut client, "q0", &id);
    }
    let before = arrivals_of(&post, "Flood");
    assert!(before + 3 * CROWD <= FLOOD * CROWD, "most of the flood still waits: {before} have arrived");
    post.faults("");
    let all = FLOOD * CROWD + OTHERS + 1;
    eventually("all have arrived", || (post.lines().len() == all).then_some(()));
    let lines = post.lines();
    let last = lines.iter().rposition(|line| line.contains("Single")).expect("it arrived");
    let ahead = lines[..last].iter().filter(|line| line.contains("Flood")).count();
    // A turn is a thousand at most: one that was out already, and one in the ring before theirs.
    assert!(ahead <= before + 2 * CROWD, "{ahead} of the flood came first, {before} were there before");
    assert!(post.arrived().values().all(|copies| *copies == 1), "once each");
}

/// All that a tenant asked for goes in one turn, so the flood goes on for one round and not for one round each.
// proves: PRI-04, PRI-05
#[test]
fn many_singles_of_one_user_are_not_behind_another_tenants_flood() {
    const CROWD: usize = 1_000;
    const FLOOD: usize = 28;
    const SINGLES: usize = 30;
    /// What a channel may have in flight to begin with. Whoever waits gets the first places that become free; in the
    /// round in which that turn is made durable the flood starts what fits into the others.
    const PLACES: usize = 4_000;
    let post = Post::new();
    let server = post.start(&[]);
    let mut loud = server.client();
    let crowd = people_with_mail(&mut loud, "u", CROWD);
    let crowd: Vec<&str> = crowd.iter().map(String::as_str).collect();
    let key = tenant_with_key(&mut server.admin(), "quiet", ALL_SCOPES);
    let mut quiet = server.with_key(&key);
    people_with_mail(&mut quiet, "q", 1);
    post.faults("email slow=5000\n");
    for no in 0..FLOOD {
        send(&mut loud, &titled(&format!("f{no}"), &crowd, "email", "Flood"));
    }
    eventually("the flood fills the channel", || (arrivals_of(&post, "Flood") > 2 * CROWD).then_some(()));
    for no in 0..SINGLES {
        let id =
            send(&mut quiet, &titled(&format!("single{no}"), &["q0"], "email", &format!("Single {no:02}")));
        eventually_taken(&mut quiet, "q0", &id);
    }
    let before = arrivals_of(&post, "Flood");
    assert!(before + 2 * PLACES <= FLOOD * CROWD, "most of the flood still waits: {before} have arrived");
    post.faults("");
    eventually("all have arrived", || (post.lines().len() == FLOOD * CROWD + SINGLES).then_some(()));
    let lines = post.lines();
    let last = lines.iter().rposition(|line| line.contains("Single")).expect("it arrived");
    let ahead = lines[..last].iter().filter(|line| line.contains("Flood")).count();
    assert!(ahead <= before + PLACES, "{ahead} of the flood came first, {before} were there before");
    let singles: Vec<&String> = lines.iter().filter(|line| line.contains("Single")).collect();
    let in_order = |no: usize| singles[no].contains(&format!("Single {no:02}"));
    assert!((0..SINGLES).all(in_order), "those of one user start in order: {singles:?}");
    assert!(post.arrived().values().all(|copies| *copies == 1), "once each");
}

/// Waits until the user's shard has it, which is when it is in line to be sent.
fn eventually_taken(client: &mut Client, user: &str, id: &str) {
    eventually(&format!("{user} has {id}"), || {
        ids(&inbox(client, user, "state=all")).iter().any(|found| found == id).then_some(())
    });
}
