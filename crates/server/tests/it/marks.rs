//! Seen, read, archived, snoozed, deleted; and counts that stay exact.

use crate::server::Server;
use crate::world::{
    bare, eventually, eventually_has, expect, follow, ids, in_ms, inbox, post, post_by, put_user, refused,
    unread,
};
use fantail_server::client::Client;
use serde_json::{Value, json};

/// A user with so many notifications, oldest first.
fn reader(client: &mut Client, count: usize) -> Vec<String> {
    put_user(client, "bob");
    follow(client, "bob", "ann");
    let posted: Vec<String> = (0..count).map(|no| post(client, &post_by("ann", &format!("m{no}")))).collect();
    eventually_has(client, "bob", &posted.iter().rev().cloned().collect::<Vec<_>>());
    posted
}

fn mark(client: &mut Client, action: &str, body: &Value) -> (u64, u64) {
    let counts = expect(client.post(&format!("/api/v1/users/bob/notifications/{action}"), body), 200);
    (counts["unread"].as_u64().expect("a number"), counts["unseen"].as_u64().expect("a number"))
}

fn shown(client: &mut Client, state: &str) -> usize {
    ids(&inbox(client, "bob", &format!("state={state}&limit=100"))).len()
}

// proves: INB-06, INB-13
#[test]
fn marks_are_read_back_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let all = reader(&mut client, 6);
    assert_eq!(unread(&mut client, "bob"), (6, 6));
    assert_eq!(mark(&mut client, "seen", &json!({"ids": [all[0]]})), (6, 5));
    assert_eq!(mark(&mut client, "read", &json!({"ids": [all[0], all[1], all[0]]})), (4, 4));
    assert_eq!(mark(&mut client, "unread", &json!({"ids": [all[1]]})), (5, 4));
    let one = expect(client.get(&format!("/api/v1/users/bob/notifications/{}", all[1])), 200);
    assert_eq!((&one["read"], &one["seen"]), (&json!(false), &json!(true)));
    assert_eq!((shown(&mut client, "read"), shown(&mut client, "unread")), (1, 5));
    assert_eq!(mark(&mut client, "archive", &json!({"ids": [all[2]]})), (4, 3));
    assert_eq!((shown(&mut client, "inbox"), shown(&mut client, "archived")), (5, 1));
    assert_eq!(mark(&mut client, "unarchive", &json!({"ids": [all[2]]})), (5, 4));
    assert_eq!(mark(&mut client, "read", &json!({"all": true})), (0, 0));
    assert_eq!(mark(&mut client, "unread", &json!({"ids": [all[5]]})).0, 1);
    let page = inbox(&mut client, "bob", "");
    assert_eq!(page["unread"], 1);
    let read: Vec<&Value> =
        page["notifications"].as_array().expect("a page").iter().map(|n| &n["read"]).collect();
    assert_eq!(read, [false, true, true, true, true, true]);
}

// proves: INB-13
#[test]
fn mark_all_stops_where_it_is_told() {
    let server = Server::start();
    let mut client = server.client();
    let all = reader(&mut client, 5);
    assert_eq!(
        mark(&mut client, "read", &json!({"all": true, "before": all[1]})).0,
        3,
        "the first two are read"
    );
    let since = inbox(&mut client, "bob", "")["sinceCursor"].as_str().expect("a cursor").to_owned();
    let later = post(&mut client, &post_by("ann", "later"));
    eventually("it is there", || (unread(&mut client, "bob").0 == 4).then_some(()));
    assert_eq!(
        mark(&mut client, "read", &json!({"all": true, "before": since})).0,
        1,
        "the later one is not"
    );
    assert_eq!(ids(&inbox(&mut client, "bob", "state=unread")), [later]);
    assert_eq!(mark(&mut client, "archive", &json!({"all": true})).0, 0);
    assert_eq!(shown(&mut client, "inbox"), 0);
    assert_eq!(shown(&mut client, "archived"), 6);
}

#[test]
fn marks_refuse_what_is_not_there() {
    let server = Server::start();
    let mut client = server.client();
    let all = reader(&mut client, 2);
    let unknown = "01KG9V7W0R0000000000000001";
    let path = "/api/v1/users/bob/notifications/read";
    refused(client.post(path, &json!({"ids": [unknown, "x"]})), "NOTIFICATION_NOT_FOUND");
    refused(client.post(path, &json!({"ids": ["x"]})), "NOTIFICATION_NOT_FOUND");
    assert_eq!(unread(&mut client, "bob").0, 2, "none was marked");
    refused(client.post(path, &json!({"all": true, "before": unknown})), "NOTIFICATION_NOT_FOUND");
    for body in [
        json!({}),
        json!({"ids": []}),
        json!({"ids": [all[0]], "all": true}),
        json!({"all": false}),
        json!({"before": all[0]}),
        json!({"all": true, "before": "x"}),
        json!({"ids": vec![all[0].clone(); 1_001]}),
        json!({"id": all[0]}),
    ] {
        refused(client.post(path, &body), "INVALID_REQUEST");
    }
    for body in [json!({"all": true}), json!({"ids": [all[0]]}), json!({"ids": ["x"]})] {
        refused(client.post("/api/v1/users/nobody/notifications/read", &body), "USER_NOT_FOUND");
    }
}

/// A page that is open for long names entries that have expired or were deleted meanwhile.
// fixes: usability P2
#[test]
fn what_an_inbox_has_is_marked_and_the_others_are_named() {
    let server = Server::start();
    let mut client = server.client();
    let all = reader(&mut client, 3);
    let (gone, never) = (&all[2], "01KG9V7W0R0000000000000001");
    expect(bare(&mut client, "DELETE", &format!("/api/v1/users/bob/notifications/{gone}")), 204);
    let path = |action: &str| format!("/api/v1/users/bob/notifications/{action}");
    let given = json!({"ids": ["x", all[0], gone, "x", never, all[0]]});
    let mut unknown = ["x".to_owned(), gone.clone(), never.to_owned()];
    unknown.sort();
    let answer = expect(client.post(&path("read"), &given), 200);
    assert_eq!(answer, json!({"unread": 1, "unseen": 1, "unknown": unknown}));
    assert_eq!(ids(&inbox(&mut client, "bob", "state=read")), [all[0].clone()]);
    let known = expect(client.post(&path("read"), &json!({"ids": [all[1]]})), 200);
    assert_eq!(known, json!({"unread": 0, "unseen": 0}));
    let snooze = json!({"ids": [all[1], gone], "until": in_ms(3_600_000)});
    assert_eq!(expect(client.post(&path("snooze"), &snooze), 200)["unknown"], json!([gone]));
    let unsnooze = json!({"ids": [gone, all[1]]});
    assert_eq!(expect(client.post(&path("unsnooze"), &unsnooze), 200)["unknown"], json!([gone]));
    assert_eq!(ids(&inbox(&mut client, "bob", "")), [all[1].clone(), all[0].clone()]);
}

// proves: INB-13
#[test]
fn snoozed_notifications_come_back() {
    let server = Server::start();
    let mut client = server.client();
    let all = reader(&mut client, 3);
    let path = "/api/v1/users/bob/notifications/snooze";
    expect(client.post(path, &json!({"ids": [all[0]], "until": in_ms(3_600_000)})), 200);
    expect(client.post(path, &json!({"ids": [all[1]], "until": in_ms(900)})), 200);
    assert_eq!(ids(&inbox(&mut client, "bob", "")), [all[2].clone()]);
    let snoozed = inbox(&mut client, "bob", "state=snoozed");
    assert_eq!(ids(&snoozed).len(), 2);
    assert!(snoozed["notifications"][0]["snoozedUntil"].is_string());
    eventually("the short one is back", || {
        (ids(&inbox(&mut client, "bob", "")) == [all[2].clone(), all[1].clone()]).then_some(())
    });
    expect(client.post("/api/v1/users/bob/notifications/unsnooze", &json!({"ids": [all[0]]})), 200);
    assert_eq!(shown(&mut client, "inbox"), 3);
    for until in ["2020-01-01T00:00:00Z".to_owned(), in_ms(400 * 24 * 3_600_000), "later".to_owned()] {
        let problem =
            refused(client.post(path, &json!({"ids": [all[0]], "until": until})), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], "/until");
    }
}

#[test]
fn snoozing_has_a_limit() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    let events: Vec<Value> =
        (0..101).map(|no| crate::world::event(&no.to_string(), &json!({"users": ["bob"]}))).collect();
    expect(client.post("/api/v1/events", &Value::Array(events)), 202);
    eventually("all are there", || (unread(&mut client, "bob").0 == 101).then_some(()));
    let page = inbox(&mut client, "bob", "limit=100");
    let path = "/api/v1/users/bob/notifications/snooze";
    expect(client.post(path, &json!({"ids": ids(&page), "until": in_ms(3_600_000)})), 200);
    let rest = ids(&inbox(&mut client, "bob", ""));
    assert_eq!(rest.len(), 1);
    refused(client.post(path, &json!({"ids": rest, "until": in_ms(3_600_000)})), "LIMIT_REACHED");
}

#[test]
fn deleted_notifications_are_gone_for_this_user_only() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "max");
    follow(&mut client, "max", "ann");
    let all = reader(&mut client, 2);
    let path = format!("/api/v1/users/bob/notifications/{}", all[0]);
    expect(bare(&mut client, "DELETE", &path), 204);
    refused(client.get(&path), "NOTIFICATION_NOT_FOUND");
    refused(bare(&mut client, "DELETE", &path), "NOTIFICATION_NOT_FOUND");
    assert_eq!(unread(&mut client, "bob"), (1, 1));
    eventually_has(&mut client, "bob", &[all[1].clone()]);
    eventually_has(&mut client, "max", &[all[1].clone(), all[0].clone()]);
}

/// Counts equal a recount over the whole inbox, whatever was done.
// proves: INB-06
#[test]
fn counts_equal_a_recount_after_random_operations() {
    let server = Server::start();
    let mut client = server.client();
    let all = reader(&mut client, 30);
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).expect("fits")
    };
    for _ in 0..120 {
        let action = ["read", "unread", "seen", "archive", "unarchive"][draw(5)];
        let body = match draw(8) {
            0 => json!({"all": true, "before": all[draw(all.len())]}),
            _ => json!({"ids": [all[draw(all.len())], all[draw(all.len())]]}),
        };
        let counts = mark(&mut client, action, &body);
        let page = inbox(&mut client, "bob", "state=all&limit=100");
        let entries = page["notifications"].as_array().expect("a page");
        let count = |field: &str| {
            let counted = |n: &&Value| n[field] == false && n["archived"] == false;
            entries.iter().filter(counted).count() as u64
        };
        assert_eq!(counts, (count("read"), count("seen")), "after {action} {body}");
        assert_eq!(unread(&mut client, "bob"), counts);
    }
}
