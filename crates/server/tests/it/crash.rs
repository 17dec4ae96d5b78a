//! Killed at random points under load, again and again: what was acknowledged is there, once, in order, and counted.
//!
//! The record of what was acknowledged is the test's own. A request whose answer was lost is sent again after the
//! restart; the answer must be the first one again, or the first one ever.

use crate::server::{Directory, Server};
use crate::world::{bare, eventually, expect, follow, ids, inbox, put_user, unread};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard};

const ROUNDS_DEFAULT: u64 = 50;
const ACTORS: usize = 3;
pub const READER: &str = "reader";
/// So small that fan-out and merging are under way whenever the server is killed.
const SMALL_WINDOWS: &[(&str, &str)] = &[("FANTAIL_INBOX_WINDOW_EVENTS", "4")];

/// What the server acknowledged, by everything but the server.
#[derive(Default)]
struct Ledger {
    /// Event ids by actor, in the order of their acknowledgement.
    posted: BTreeMap<usize, Vec<String>>,
    read: BTreeSet<String>,
    followed: BTreeSet<usize>,
    acknowledged: u64,
}

struct Shared {
    ledger: Mutex<Ledger>,
    grew: Condvar,
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no worker panicked")
    }

    fn acknowledge(&self, note: impl FnOnce(&mut Ledger)) {
        let mut ledger = self.ledger();
        note(&mut ledger);
        ledger.acknowledged += 1;
        self.grew.notify_all();
    }

    fn wait_for(&self, acknowledged: u64) {
        let ledger = self.ledger();
        let reached = |ledger: &mut Ledger| ledger.acknowledged < acknowledged;
        drop(self.grew.wait_while(ledger, reached).expect("no worker panicked"));
    }
}

/// The next number of a fixed sequence: failures repeat.
pub fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31)) % below
}

pub fn event(actor: usize, number: usize) -> Value {
    // Every fourth goes to the reader by name, the others to the actor's followers.
    let audience = match number % 4 {
        3 => json!({"users": [READER]}),
        _ => json!({"followersOf": format!("actor-{actor}")}),
    };
    json!({
        "specversion": "1.0", "id": format!("{actor}-{number}"), "source": "/crash", "type": "post",
        "actor": format!("actor-{actor}"),
        "data": {"audience": audience, "category": "posts", "content": {"title": format!("{actor} {number}")}},
    })
}

/// Posts as one actor until the server is gone. The first one may be a repeat of what the last crash cut off.
fn post_until_killed(shared: &Shared, mut client: Client, actor: usize) {
    loop {
        let number = shared.ledger().posted.entry(actor).or_default().len();
        let Ok(response) = client.post("/api/v1/events", &event(actor, number)) else { return };
        assert_eq!(response.status, 202, "{}", response.text());
        let id = response.json()["eventId"].as_str().expect("an id").to_owned();
        shared.acknowledge(|ledger| ledger.posted.entry(actor).or_default().push(id));
    }
}

/// Marks what the reader has, and follows new actors, until the server is gone.
fn mark_until_killed(shared: &Shared, mut client: Client, seed: u64) {
    let mut state = seed;
    loop {
        let Ok(page) = client.get(&format!("/api/v1/users/{READER}/notifications?limit=20&state=unread"))
        else {
            return;
        };
        let shown = ids(&page.json());
        let some: Vec<String> = shown.into_iter().filter(|_| draw(&mut state, 3) == 0).collect();
        if !some.is_empty() {
            let body = json!({"ids": some});
            let Ok(marked) = client.post(&format!("/api/v1/users/{READER}/notifications/read"), &body) else {
                return;
            };
            assert_eq!(marked.status, 200, "{}", marked.text());
            shared.acknowledge(|ledger| ledger.read.extend(some));
        }
        let next = shared.ledger().followed.len();
        let path = format!("/api/v1/users/{READER}/follows/other-{next}");
        let Ok(followed) = bare(&mut client, "PUT", &path) else { return };
        assert_eq!(followed.status, 204, "{}", followed.text());
        shared.acknowledge(|ledger| ledger.followed.extend([next]));
    }
}

/// The whole inbox, page by page.
pub fn everything(client: &mut Client) -> Vec<String> {
    let (mut all, mut query) = (Vec::new(), "limit=100&state=all".to_owned());
    loop {
        let page = inbox(client, READER, &query);
        all.extend(ids(&page));
        let Some(cursor) = page["nextCursor"].as_str() else { return all };
        query = format!("limit=100&state=all&cursor={cursor}");
    }
}

/// Compares what the server has with what it acknowledged.
fn check(ledger: &mut Ledger, client: &mut Client) {
    // Whatever the crash cut off is settled first, by asking again.
    for actor in 0..ACTORS {
        let posted = ledger.posted.entry(actor).or_default();
        let accepted = expect(client.post("/api/v1/events", &event(actor, posted.len())), 202);
        posted.push(accepted["eventId"].as_str().expect("an id").to_owned());
    }
    let expected: BTreeSet<String> = ledger.posted.values().flatten().cloned().collect();
    let shown = eventually("everything acknowledged is shown", || {
        let shown = everything(client);
        (shown.len() >= expected.len()).then_some(shown)
    });
    let distinct: BTreeSet<String> = shown.iter().cloned().collect();
    assert_eq!(shown.len(), distinct.len(), "nothing is shown twice");
    assert_eq!(distinct, expected, "exactly what was acknowledged is shown");
    for posted in ledger.posted.values() {
        let of_actor: Vec<&String> = shown.iter().rev().filter(|id| posted.contains(id)).collect();
        assert_eq!(of_actor, posted.iter().collect::<Vec<_>>(), "an author's order is kept");
    }
    // A mark whose answer was lost may or may not have been made; made again, it is.
    let read: BTreeSet<String> = all_read(client);
    assert!(ledger.read.is_subset(&read), "marks that were acknowledged are kept");
    assert!(read.is_subset(&expected));
    assert_eq!(unread(client, READER).0, (expected.len() - read.len()) as u64, "unread is exact");
    ledger.read = read;
    for other in &ledger.followed {
        expect(client.get(&format!("/api/v1/users/{READER}/follows/other-{other}")), 200);
    }
}

pub fn all_read(client: &mut Client) -> BTreeSet<String> {
    let (mut all, mut query) = (BTreeSet::new(), "limit=100&state=read".to_owned());
    loop {
        let page = inbox(client, READER, &query);
        all.extend(ids(&page));
        let Some(cursor) = page["nextCursor"].as_str() else { return all };
        query = format!("limit=100&state=read&cursor={cursor}");
    }
}

// proves: DED-04, DED-08, FAN-05, INB-02, INB-06
#[test]
fn a_crash_loses_nothing_and_doubles_nothing() {
    let rounds = std::env::var("FANTAIL_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: u64 = rounds.unwrap_or(ROUNDS_DEFAULT);
    let directory = Directory::new();
    let data = directory.path("data");
    let shared = Shared { ledger: Mutex::default(), grew: Condvar::new() };
    let mut state = 20_261_115;
    for round in 0..=rounds {
        let mut server = Server::start_in(&data, &[], SMALL_WINDOWS);
        let mut client = server.client();
        if round == 0 {
            put_user(&mut client, READER);
            (0..ACTORS).for_each(|actor| follow(&mut client, READER, &format!("actor-{actor}")));
        }
        check(&mut shared.ledger(), &mut client);
        if round == rounds {
            break;
        }
        let enough = shared.ledger().acknowledged + 1 + draw(&mut state, 60);
        std::thread::scope(|scope| {
            for actor in 0..ACTORS {
                let (shared, client) = (&shared, server.client());
                scope.spawn(move || post_until_killed(shared, client, actor));
            }
            let (shared, client, seed) = (&shared, server.client(), draw(&mut state, u64::MAX));
            scope.spawn(move || mark_until_killed(shared, client, seed));
            shared.wait_for(enough);
            server.signal("KILL");
            assert!(!server.wait());
        });
    }
    let posted: usize = shared.ledger().posted.values().map(Vec::len).sum();
    assert!(posted as u64 > rounds, "there was load");
}

// proves: FAN-12, INB-06
/// The tables are derived: without them the next start shows the same.
#[test]
fn deleted_tables_are_rebuilt_from_snapshot_and_journal() {
    let directory = Directory::new();
    let data = directory.path("data");
    let server = Server::start_in(&data, &[], SMALL_WINDOWS);
    let mut client = server.client();
    put_user(&mut client, READER);
    follow(&mut client, READER, "actor-0");
    let post = |client: &mut Client, number| {
        let accepted = expect(client.post("/api/v1/events", &event(0, number)), 202);
        accepted["eventId"].as_str().expect("an id").to_owned()
    };
    let mut posted: Vec<String> = (0..10).map(|number| post(&mut client, number)).collect();
    eventually("ten are shown", || (everything(&mut client).len() == 10).then_some(()));
    expect(server.admin().post("/api/v1/backups", &json!({})), 201);
    posted.extend((10..20).map(|number| post(&mut client, number)));
    expect(bare(&mut client, "DELETE", &format!("/api/v1/events/{}", posted[3])), 204);
    let expected: Vec<String> = posted.iter().rev().filter(|id| **id != posted[3]).cloned().collect();
    eventually("all but the retracted one are shown", || (everything(&mut client) == expected).then_some(()));
    let body = json!({"ids": [posted[15]]});
    expect(client.post(&format!("/api/v1/users/{READER}/notifications/read"), &body), 200);
    let before = (everything(&mut client), unread(&mut client, READER));
    drop(client);
    let mut server = server;
    for _ in 0..2 {
        server.signal("KILL");
        server.wait();
        std::fs::remove_dir_all(data.join("tables")).expect("tables were there");
        server = Server::start_in(&data, &[], SMALL_WINDOWS);
        let mut client = server.client();
        eventually("the same is shown", || {
            ((everything(&mut client), unread(&mut client, READER)) == before).then_some(())
        });
    }
}
