//! A server between its producers and its providers that is stopped and continued, restarted, and cut off from the
//! providers by resets and half-open connections, all under load: nothing is lost, and a copy too many is a counted resend.
//!
//! The providers are a separate process, `fantail sandbox`, behind a proxy that breaks connections. `FANTAIL_INTERRUPTIONS`
//! says how many rounds; `make nightly` asks for many.

use crate::deliveries::{notification, status};
use crate::providers::{LOCAL_PROVIDERS, apns_account, put, smtp_account};
use crate::resetting_proxy::ResettingProxy;
use crate::server::{Directory, Server, fantail, run};
use crate::world::{eventually, expect, put_user};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const WORKERS: usize = 3;
/// Notifications in a round, each to a user of its own; each is a push, and every fourth a mail too.
const NOTIFICATIONS: usize = 120;
const PRIORITIES: [&str; 4] = ["critical", "high", "normal", "low"];
/// Requests that others answer while the server is stopped.
const STOPPED_FOR: usize = 300;

/// A stop does not wait for what half-open connections hold.
const SETTINGS: [(&str, &str); 2] = [("FANTAIL_DELIVERY_DRAIN_S", "1"), LOCAL_PROVIDERS];

/// What is done to the server, one after the other, spread over the load.
#[derive(Clone, Copy)]
enum Interruption {
    Stop,
    Restart,
}

const INTERRUPTIONS: [Interruption; 5] = [
    Interruption::Stop,
    Interruption::Restart,
    Interruption::Stop,
    Interruption::Restart,
    Interruption::Stop,
];

/// The providers as a process of their own.
struct Providers {
    child: Child,
    control: String,
    key: String,
    ca_pem: String,
    own: BTreeMap<String, SocketAddr>,
    _directory: Directory,
}

impl Providers {
    fn start() -> Self {
        let directory = Directory::new();
        let mut command = fantail();
        command.args(["sandbox", "--directory"]).arg(directory.path("sandbox"));
        let mut child =
            command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("the binary starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let lines = stdout.lines().map(|line| line.expect("text")).take_while(|line| line != "ready");
        let places: Vec<(String, String)> = lines
            .filter_map(|line| {
                let (name, place) = line.trim().split_once(char::is_whitespace)?;
                Some((name.to_owned(), place.trim().to_owned()))
            })
            .collect();
        let control = places.iter().find(|(name, _)| name == "control").expect("it says where it is");
        let control = control.1.trim_start_matches("http://").to_owned();
        let own =
            places.iter().filter_map(|(name, place)| Some((name.clone(), place.parse().ok()?))).collect();
        let ca_pem = std::fs::read_to_string(directory.path("sandbox").join("ca.pem")).expect("an authority");
        let key = std::fs::read_to_string(directory.path("sandbox").join("viewer.key")).expect("a key");
        let key = key.trim().to_owned();
        Self { child, control, key, ca_pem, own, _directory: directory }
    }

    fn viewer(&self) -> Client {
        Client::to(&self.control).with_key(&self.key)
    }

    /// How often something arrived at each recipient by this channel.
    fn arrived(&self, channel: &str) -> BTreeMap<String, u64> {
        let (mut copies, mut after) = (BTreeMap::new(), 0);
        loop {
            let path = format!("/messages?channel={channel}&limit=1000&after={after}");
            let page = expect(self.viewer().get(&path), 200);
            for message in page["messages"].as_array().expect("messages") {
                let recipient = message["recipient"].as_str().expect("a recipient").to_owned();
                *copies.entry(recipient).or_insert(0) += 1;
            }
            match page["next"].as_u64() {
                Some(next) => after = next,
                None => return copies,
            }
        }
    }
}

impl Drop for Providers {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn address(user: usize) -> String {
    format!("user-{user}@example.com")
}

fn token(user: usize) -> String {
    format!("{user:064x}")
}

/// Users with a phone and a mail address, and the accounts that reach them.
fn prepare(server: &Server, providers: &Providers, proxies: [&ResettingProxy; 2]) {
    let mut client = server.client();
    let [apns, smtp] = proxies.map(|proxy| proxy.address.to_string());
    put(&mut client, "ios", &apns_account(&apns, &providers.ca_pem));
    put(&mut client, "mail", &smtp_account(&smtp));
    for user in 0..NOTIFICATIONS {
        let name = format!("user-{user}");
        put_user(&mut client, &name);
        let mail = json!({"email": address(user)});
        expect(client.json("PUT", &format!("/api/v1/users/{name}"), &mail), 200);
        let phone = json!({"userId": name, "deviceId": "phone", "platform": "ios", "token": token(user + 1),
                           "consent": {"granted": true, "version": "1"}});
        expect(client.post("/api/v1/devices", &phone), 201);
    }
}

/// Where the server is at the moment; it moves when it is started again.
struct Load {
    address: Mutex<String>,
    key: String,
    next: AtomicUsize,
    answered: AtomicUsize,
    ids: Mutex<Vec<String>>,
}

impl Load {
    fn client(&self) -> Client {
        Client::to(&self.address.lock().expect("nobody panics here")).with_key(&self.key)
    }

    /// Sends until all is sent. What got no answer is asked for again, wherever the server is by then.
    fn send_all(&self) {
        let mut client = self.client();
        loop {
            let no = self.next.fetch_add(1, Ordering::Relaxed);
            if no >= NOTIFICATIONS {
                return;
            }
            let user = format!("user-{no}");
            let priority = PRIORITIES[no % PRIORITIES.len()];
            // Of other mails it takes ten minutes until evidence is no longer waited for.
            let channels: &[&str] = if priority == "critical" { &["push", "email"] } else { &["push"] };
            let more = json!({"channels": channels, "priority": priority,
                              "content": {"title": format!("n{no}"), "body": "Hello"}});
            let body = notification(&format!("n{no}"), &[&user], more);
            let id = eventually("it is accepted", || {
                let answer =
                    client.post("/api/v1/notifications", &body).ok().filter(|answer| answer.status != 503);
                if answer.is_none() {
                    client = self.client();
                }
                answer.map(|answer| expect(Ok(answer), 202)["eventId"].as_str().expect("an id").to_owned())
            });
            self.ids.lock().expect("nobody panics here").push(id);
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn interrupt(server: Server, what: Interruption, providers: &Providers, load: &Load) -> Server {
    match what {
        Interruption::Stop => {
            server.signal("STOP");
            let mut viewer = providers.viewer();
            (0..STOPPED_FOR).for_each(|_| drop(expect(viewer.get("/faults/apns"), 200)));
            server.signal("CONT");
            server
        }
        Interruption::Restart => {
            let data = server.data.clone();
            server.stop();
            let server = Server::start_in(&data, &[], &SETTINGS);
            load.address.lock().expect("nobody panics here").clone_from(&server.address);
            server
        }
    }
}

/// What became of the deliveries of a channel.
#[derive(Default, Debug)]
struct Ended {
    sent: u64,
    unconfirmed: u64,
    /// Attempts that repeated another one.
    repeated: u64,
    /// Copies that arrived beyond the first.
    extra: u64,
}

/// Holds every delivery of a channel against what arrived: whatever counts as sent did, never more often than it was tried,
/// and bulk never twice.
fn ended(found: &[Value], channel: &str, arrived: &BTreeMap<String, u64>) -> Ended {
    let mut ended = Ended::default();
    for found in found {
        let deliveries = found["deliveries"].as_array().expect("deliveries").iter();
        for delivery in deliveries.filter(|one| one["channel"] == channel) {
            let user = delivery["userId"].as_str().and_then(|user| user.strip_prefix("user-"));
            let no: usize = user.and_then(|no| no.parse().ok()).expect("one of our users");
            let recipient = if channel == "push" { token(no + 1) } else { address(no) };
            let copies = arrived.get(&recipient).copied().unwrap_or_default();
            let attempts = delivery["attempts"].as_u64().expect("a number");
            match delivery["state"].as_str().expect("a state") {
                "sent" => {
                    assert!(copies > 0, "it counts as sent and did not arrive: {found}");
                    ended.sent += 1;
                }
                "unconfirmed" => ended.unconfirmed += 1,
                other => panic!("ended {other}: {found}"),
            }
            assert!(copies <= attempts, "{copies} copies of {attempts} attempts: {found}");
            let is_bulk = PRIORITIES[no % PRIORITIES.len()] == "low";
            assert!(!is_bulk || copies <= 1, "bulk is never sent twice: {copies} copies of {found}");
            ended.repeated += attempts - 1;
            ended.extra += copies.saturating_sub(1);
        }
    }
    ended
}

fn round(seed: u64) {
    let (providers, directory) = (Providers::start(), Directory::new());
    let apns = ResettingProxy::new(providers.own["apns"], seed);
    let smtp = ResettingProxy::new(providers.own["smtp"], seed + 1);
    let server = Server::start_in(&directory.path("data"), &[], &SETTINGS);
    prepare(&server, &providers, [&apns, &smtp]);
    let load = Load {
        address: Mutex::new(server.address.clone()),
        key: server.key("default.key"),
        next: AtomicUsize::new(0),
        answered: AtomicUsize::new(0),
        ids: Mutex::default(),
    };
    let server = std::thread::scope(|scope| {
        (0..WORKERS).for_each(|_| drop(scope.spawn(|| load.send_all())));
        (1..).zip(INTERRUPTIONS).fold(server, |server, (no, what)| {
            let enough = NOTIFICATIONS * no / (INTERRUPTIONS.len() + 1);
            eventually("the load goes on", || {
                (load.answered.load(Ordering::Relaxed) >= enough).then_some(())
            });
            interrupt(server, what, &providers, &load)
        })
    });
    let broken = [apns.broken(), smtp.broken()];
    [&apns, &smtp].into_iter().for_each(ResettingProxy::heal);
    let (ids, mut client) = (load.ids.into_inner().expect("nobody panicked"), server.client());
    let found: Vec<Value> = ids
        .iter()
        .map(|id| {
            eventually(&format!("every delivery ends: {}", status(&mut client, id)), || {
                let found = status(&mut client, id);
                let mut channels = found["channels"].as_array().expect("channels").iter();
                channels.all(|one| one["done"] == true).then_some(found)
            })
        })
        .collect();
    let mut out = std::io::stdout();
    for (channel, broken) in ["push", "email"].into_iter().zip(broken) {
        let arrived = providers.arrived(channel);
        let ended = ended(&found, channel, &arrived);
        let known = ended.sent + ended.unconfirmed;
        assert!(arrived.len() as u64 <= known, "{channel}: {} arrived of {known}", arrived.len());
        writeln!(
            out,
            "round {seed}: {channel}: {} arrived, {broken} connections broken, {ended:?}",
            arrived.len()
        )
        .expect("stdout can be written");
    }
    assert!(broken.iter().sum::<u64>() > 0, "there were faults");
    server.stop();
    let data = directory.path("data");
    let data = data.to_str().expect("a path");
    for args in [&["check"][..], &["audit", "verify"]] {
        run(&[args, &["--data", data]].concat());
    }
}

// proves: DED-01, DED-03, DEL-14
#[test]
fn stops_restarts_and_resets_under_load_lose_nothing_and_copies_are_counted() {
    let rounds = std::env::var("FANTAIL_INTERRUPTIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for no in 0..rounds {
        round(2 * no);
    }
}
