//! Reading inboxes: order, pages, states, and clients that poll.

use crate::server::Server;
use crate::world::{
    bare, event, eventually, eventually_has, expect, follow, ids, inbox, post, post_by, put_user, refused,
    unread,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

// proves: INB-04, INB-12
#[test]
fn pages_are_newest_first_and_complete_while_more_arrives() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    follow(&mut client, "bob", "ann");
    let mut before: Vec<String> =
        (0..40).map(|no| post(&mut client, &post_by("ann", &format!("a{no}")))).collect();
    before.reverse();
    eventually_has(&mut client, "bob", &before);
    let mut seen = Vec::new();
    let mut query = "limit=7".to_owned();
    for round in 0.. {
        let page = inbox(&mut client, "bob", &query);
        seen.extend(ids(&page));
        // What arrives meanwhile is newer than every page that follows: nothing shifts.
        post(&mut client, &post_by("ann", &format!("later{round}")));
        match page["nextCursor"].as_str() {
            Some(cursor) => query = format!("limit=7&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, before);
}

// proves: RT-06
#[test]
fn a_client_that_polls_with_since_misses_nothing() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    follow(&mut client, "bob", "ann");
    let mut since = inbox(&mut client, "bob", "")["sinceCursor"].as_str().expect("a cursor").to_owned();
    let posted: Vec<String> = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = server.client();
            (0..120).map(|no| post(&mut client, &post_by("ann", &format!("p{no}")))).collect::<Vec<_>>()
        });
        let mut seen = Vec::new();
        eventually("120 notifications were seen", || {
            let page = inbox(&mut client, "bob", &format!("limit=9&since={since}"));
            seen.extend(ids(&page));
            let next = page["nextCursor"].as_str().or(page["sinceCursor"].as_str());
            since = next.expect("a cursor").to_owned();
            (seen.len() >= 120).then_some(())
        });
        let posted = writer.join().expect("no panic");
        assert_eq!(seen, posted, "oldest first, each once");
        posted
    });
    assert_eq!(posted.len(), 120);
    assert_eq!(unread(&mut client, "bob"), (120, 120));
}

#[test]
fn cursors_belong_to_their_reader() {
    let server = Server::start();
    let mut client = server.client();
    for user in ["bob", "max"] {
        put_user(&mut client, user);
        follow(&mut client, user, "ann");
    }
    let posted: Vec<String> = (0..3).map(|no| post(&mut client, &post_by("ann", &no.to_string()))).collect();
    eventually("all are there", || (unread(&mut client, "bob").0 == 3).then_some(()));
    let page = inbox(&mut client, "bob", "limit=1");
    let cursor = page["nextCursor"].as_str().expect("more");
    let since = page["sinceCursor"].as_str().expect("a cursor");
    for (query, pointer) in [
        (format!("cursor={cursor}x"), "/cursor"),
        (format!("cursor={since}"), "/cursor"),
        (format!("since={cursor}"), "/since"),
        (format!("cursor={cursor}&since={since}"), "/since"),
        ("state=deleted".to_owned(), "/state"),
        ("limit=101".to_owned(), "/limit"),
        ("page=2".to_owned(), "/page"),
    ] {
        let problem =
            refused(client.get(&format!("/api/v1/users/bob/notifications?{query}")), "INVALID_REQUEST");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{query}");
    }
    refused(client.get(&format!("/api/v1/users/max/notifications?cursor={cursor}")), "INVALID_REQUEST");
    assert_eq!(posted.len(), 3);
    refused(client.get("/api/v1/users/nobody/notifications"), "USER_NOT_FOUND");
}

// proves: INB-02, FAN-05
#[test]
fn posts_of_one_author_keep_their_order() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    let authors: Vec<String> = (0..6).map(|no| format!("author-{no}")).collect();
    for author in &authors {
        follow(&mut client, "bob", author);
    }
    std::thread::scope(|scope| {
        for author in &authors {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                for no in 0..12 {
                    let mut event = post_by(author, &format!("{author}-{no}"));
                    event["data"]["content"]["data"] = json!({"no": no});
                    post(&mut client, &event);
                }
            });
        }
    });
    eventually("all are there", || (unread(&mut client, "bob").0 == 72).then_some(()));
    let page = inbox(&mut client, "bob", "limit=100");
    let all = page["notifications"].as_array().expect("a page");
    for author in &authors {
        let own: Vec<&Value> = all.iter().filter(|n| n["actor"] == author.as_str()).collect();
        let numbers: Vec<u64> =
            own.iter().map(|n| n["content"]["data"]["no"].as_u64().expect("a number")).collect();
        assert_eq!(numbers, (0..12).rev().collect::<Vec<_>>(), "{author}");
    }
    let distinct: BTreeSet<String> = ids(&page).into_iter().collect();
    assert_eq!(distinct.len(), 72);
}

// proves: FAN-04
#[test]
fn following_and_leaving_decide_what_is_seen() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    // What comes after this in the one front is taken after this: bob's shard has taken all before a tick he sees.
    follow(&mut client, "bob", "clock");
    let mut expected = Vec::new();
    for round in 0..4 {
        for (what, wanted) in [("out", false), ("in", true)] {
            let posted = post(&mut client, &post_by("ann", &format!("{what}{round}")));
            if wanted {
                expected.insert(0, posted);
            }
            expected.insert(0, post(&mut client, &post_by("clock", &format!("{what}{round}-tick"))));
            eventually_has(&mut client, "bob", &expected);
            let method = if wanted { "DELETE" } else { "PUT" };
            expect(bare(&mut client, method, "/api/v1/users/bob/follows/ann"), 204);
        }
    }
    assert_eq!(unread(&mut client, "bob"), (12, 12));
}

#[test]
fn empty_inboxes_have_pages_too() {
    let server = Server::start();
    let mut client = server.client();
    put_user(&mut client, "bob");
    let page = inbox(&mut client, "bob", "");
    assert_eq!((&page["notifications"], &page["unread"]), (&json!([]), &json!(0)));
    assert!(page["nextCursor"].is_null());
    let since = page["sinceCursor"].as_str().expect("a cursor").to_owned();
    let id = post(&mut client, &event("1", &json!({"users": ["bob"]})));
    eventually("it is there", || {
        (ids(&inbox(&mut client, "bob", &format!("since={since}"))) == [id.clone()]).then_some(())
    });
}
