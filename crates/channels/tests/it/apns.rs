//! APNs against the sandbox's emulator: what is sent, what each end of an attempt is called, and what is never lost.

use super::parcel::{message, send, shipment, told};
use super::real_time::RealTime;
use super::sandboxed::arrived;
use fantail_channels::apns::payload::apns_id;
use fantail_channels::apns::{Apns, Secrets, Settings};
use fantail_conformance::channel::{Behaviour, Rig, channel_suite};
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::Ports;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Shipment};
use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use fantail_rules::priority::Priority;
use fantail_rules::push_address::{Environment, PushAddress, Service};
use fantail_sandbox::faults::Profile;
use fantail_sandbox::judge::Send;
use fantail_sandbox::record::Filter;
use fantail_sandbox::{Options, Running, Sandbox};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

const TOPIC: &str = "com.example.app";

struct House {
    apns: Apns,
    time: Arc<RealTime>,
    sandbox: Running,
    runtime: Runtime,
}

impl House {
    fn new() -> Self {
        Self::with(json!({}))
    }

    /// Settings beside those that lead to the sandbox; `null` takes one away.
    fn with(settings: Value) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let sandbox = runtime.block_on(Sandbox::start(Options::default())).expect("a sandbox");
        let time = RealTime::new(runtime.handle().clone());
        let apns = open(&time, &sandbox, &settings);
        Self { apns, time, sandbox, runtime }
    }

    fn open(&self, settings: Value) -> Apns {
        open(&self.time, &self.sandbox, &settings)
    }

    fn shipment(&self, messages: Vec<Message>) -> Shipment {
        Shipment { deadline: self.time.monotonic().plus(60_000), ..shipment(messages) }
    }

    fn send(&self, shipment: &Shipment) -> Vec<Answer> {
        self.runtime.block_on(send(&self.apns, shipment))
    }

    /// One message to each token.
    fn post(&self, tokens: &[&str]) -> Vec<String> {
        let messages = tokens.iter().map(|token| message(&format!("ref-{token}"), &address(token)));
        self.send(&self.shipment(messages.collect())).iter().map(told).collect()
    }

    /// What arrived under this reference.
    fn arrived(&self, reference: &str) -> Vec<Value> {
        let (id, record) = (apns_id(reference), self.sandbox.world().record());
        let all = record.list(&Filter { limit: usize::MAX, ..Filter::default() });
        let own = all.iter().filter(|push| push["id"] == *id && push["refused"].is_null());
        own.filter_map(|push| Some(record.get(push["no"].as_u64()?)?["content"].clone())).collect()
    }
}

fn open(time: &Arc<RealTime>, sandbox: &Running, settings: &Value) -> Apns {
    let mut value = json!({
        "teamId": "TEAM", "keyId": "KEY1", "topic": TOPIC,
        "connectTo": sandbox.shared().to_string(), "caPem": sandbox.ca_pem(), "timeoutMs": 500,
    });
    for (name, field) in settings.as_object().expect("an object") {
        value[name] = field.clone();
    }
    let settings = Settings::read(&value).expect("good settings");
    let pem = rcgen::KeyPair::generate().expect("a key").serialize_pem();
    let secrets = Secrets::read(&json!({"p8": pem})).expect("a good key");
    let ports = Ports { clock: time.clone(), tasks: time.clone(), connector: Connector::of_operator() };
    Apns::open(settings, secrets, ports).expect("good settings")
}

fn token(first: &str) -> String {
    format!("{first:0<64}")
}

fn address(first: &str) -> Vec<u8> {
    address_in(Environment::Production, first)
}

fn address_in(environment: Environment, first: &str) -> Vec<u8> {
    let token = token(first);
    let service = Service::Apns { environment, topic: None, token: &token };
    PushAddress { service, registered_at: Millis(1_600_000_000_000) }.write().into_bytes()
}

// proves: PSH-01, PSH-06, PSH-07
#[test]
fn a_push_has_all_its_headers_and_the_same_id_for_every_attempt() {
    let house = House::with(json!({"sound": "default"}));
    let content = br#"{"title":"T","body":"B","data":{"order":7},"imageUrl":"https://example.org/i.png"}"#;
    let now = house.time.wall();
    let push = Shipment {
        content: Arc::from(&content[..]),
        lane: Priority::Low,
        expires_at: now.plus(300_000),
        collapse_key: Some("k".repeat(65)),
        ..house.shipment(vec![message("ref-1", &address("aa"))])
    };
    for _ in 0..2 {
        assert_eq!(house.send(&push), [Answer::Accepted { provider_id: Some(apns_id("ref-1")) }]);
    }
    let arrived = house.arrived("ref-1");
    assert_eq!(arrived.len(), 2);
    let headers = &arrived[0]["headers"];
    assert_eq!(headers["apns-topic"], TOPIC);
    assert_eq!(headers["apns-push-type"], "alert");
    assert_eq!(headers["apns-priority"], "5");
    assert_eq!(headers["apns-expiration"], (now.plus(300_000).0 / 1_000).to_string());
    assert_eq!(headers["apns-collapse-id"].as_str().map(str::len), Some(43), "a long key is hashed");
    let alert = json!({"title": "T", "body": "B"});
    assert_eq!(
        arrived[1]["payload"],
        json!({
            "aps": {"alert": alert, "sound": "default", "mutable-content": 1},
            "order": 7,
            "fantail": {"image": "https://example.org/i.png", "reference": "ref-1"},
        })
    );
}

// proves: DEL-13
#[test]
fn every_end_of_an_attempt_has_its_name() {
    let house = House::new();
    assert_eq!(house.post(&["aa"]), ["accepted"]);
    for (token, expected) in [
        ("bad00400", "rejected DeadEndpoint BadDeviceToken"),
        ("bad0040f", "rejected DeadEndpoint DeviceTokenNotForTopic"),
        ("bad0040d", "later Some(60000) Credential TopicDisallowed"),
        ("bad00403", "later Some(60000) Credential InvalidProviderToken"),
        ("bad00413", "rejected Malformed PayloadTooLarge"),
        ("bad00429", "later None Message TooManyRequests"),
        ("bad00500", "later None Message InternalServerError"),
        ("bad00503", "later None Message ServiceUnavailable"),
        ("bad0050d", "later None Message Shutdown"),
        ("dead0410", "rejected DeadEndpoint Unregistered"),
        ("dead0411", "later None Endpoint Unregistered"),
        ("dead0412", "rejected DeadEndpoint ExpiredToken"),
        ("badf0000", "unknown timeout"),
        ("badf0002", "unknown timeout"),
        ("badf0001", "unknown reset"),
    ] {
        assert_eq!(house.post(&[token]), [expected], "{token}");
    }
}

// proves: PSH-02
#[test]
fn a_token_that_apple_calls_expired_is_not_made_anew_below_the_floor() {
    let house = House::new();
    assert_eq!(house.post(&["aa"]), ["accepted"]);
    let told = house.post(&["bad0043e"]);
    let wait_ms = told[0].strip_prefix("later Some(").and_then(|rest| rest.split(')').next());
    let wait_ms: u64 = wait_ms.and_then(|text| text.parse().ok()).expect("a wait");
    assert!((1_100_000..=1_200_000).contains(&wait_ms), "{told:?}");
}

// proves: DEL-13
#[test]
fn a_wrong_account_does_not_retire_its_devices() {
    let house = House::new();
    let tokens: Vec<String> = (0..40).map(|no| format!("bad00400{no:04}")).collect();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    assert_eq!(house.post(&tokens), vec!["rejected Message BadDeviceToken"; 40]);
}

#[test]
fn a_token_of_the_other_environment_is_tried_there_once() {
    let house = House::new();
    let strict = house.control("PUT", "/apns/tokens/", &token("5a"), json!({"environment": "sandbox"}));
    assert!(strict, "the sandbox knows the token");
    assert_eq!(house.post(&["5a"]), ["accepted"]);
    let hosts: Vec<Value> = house.arrived("ref-5a").iter().map(|push| push["host"].clone()).collect();
    assert_eq!(hosts, ["api.sandbox.push.apple.com"]);
    let production = House::with(json!({"environment": "production"}));
    assert!(production.control("PUT", "/apns/tokens/", &token("5a"), json!({"environment": "sandbox"})));
    assert_eq!(production.post(&["5a"]), ["rejected DeadEndpoint BadDeviceToken"]);
}

#[test]
fn addresses_that_are_none_of_the_account_are_refused() {
    let house = House::with(json!({"environment": "production", "topic": null}));
    let nobody = message("a", &address("aa"));
    let elsewhere = message("b", b"apns sandbox 1 com.example.app abcd");
    let injected = message("c", b"apns production 1 com.example.app ../x");
    let good = message("d", format!("apns production 1 {TOPIC} {}", token("aa")).as_bytes());
    let bad_topic = message("e", b"apns production 1 a:b abcd");
    for (message, is_served) in
        [(&nobody, false), (&elsewhere, false), (&injected, false), (&good, true), (&bad_topic, false)]
    {
        assert_eq!(house.apns.serves(&message.endpoint), is_served);
    }
    let answers = house.send(&house.shipment(vec![nobody, elsewhere, injected, good, bad_topic]));
    let answers: Vec<String> = answers.iter().map(told).collect();
    let malformed = "rejected Malformed endpoint";
    assert_eq!(answers, [malformed, "rejected Message no-key", malformed, "accepted", malformed]);
}

#[test]
fn a_probe_tells_each_hop() {
    let names = |house: &House| -> Vec<(&'static str, bool)> {
        let hops = house.runtime.block_on(house.apns.probe());
        hops.iter().map(|hop| (hop.name, hop.ok)).collect()
    };
    let way = [("connect", true), ("credential", true), ("answer", true)];
    let house = House::with(json!({"environment": "production"}));
    assert_eq!(names(&house), [&[("settings", true)], &way[..]].concat());
    let house = House::with(json!({"environment": "production"}));
    house.control("PUT", "/apns/keys/", "OTHER", json!({"team": "T", "publicKey": "AA"}));
    let broken = House::with(json!({"environment": "sandbox", "connectTo": "127.0.0.2:1"}));
    assert_eq!(names(&broken), [("settings", true), ("connect", false)]);
}

impl House {
    /// Asks the sandbox for something.
    fn control(&self, method: &str, path: &str, last: &str, body: Value) -> bool {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let body = body.to_string();
        let request = format!(
            "{method} {path}{last} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.runtime.block_on(async {
            let mut stream = tokio::net::TcpStream::connect(self.sandbox.control()).await.expect("a desk");
            stream.write_all(request.as_bytes()).await.expect("a desk");
            let mut reply = String::new();
            stream.read_to_string(&mut reply).await.expect("an answer");
            reply.starts_with("HTTP/1.1 2")
        })
    }
}

impl Rig for House {
    fn channel(&self) -> &dyn Channel {
        &self.apns
    }

    fn now(&self) -> Millis {
        self.time.monotonic()
    }

    fn endpoint(&self, behaviour: Behaviour) -> Vec<u8> {
        match behaviour {
            Behaviour::Takes => address("aa"),
            Behaviour::SaysLater => address("bad00429"),
            Behaviour::Refuses => address("dead0410"),
            Behaviour::IsUnreachable => address_in(Environment::Sandbox, "aa"),
            Behaviour::TakesAndFallsSilent => address("badf0002"),
        }
    }

    fn copies(&self, reference: &str) -> usize {
        self.arrived(reference).len()
    }

    fn wait(&self, future: BoxFuture<'_, ()>) {
        self.runtime.block_on(future);
    }
}

#[test]
fn apns_conforms() {
    channel_suite(|| {
        let mut house = House::new();
        let port = house.sandbox.own("apns").expect("the emulator").port();
        // Nobody listens on the other address.
        house.apns = house.open(json!({
            "connectTo": null, "endpoint": format!("https://localhost:{port}"),
            "sandboxEndpoint": "https://127.0.0.2:1",
        }));
        house
    });
}

/// How many pushes; `make nightly` sends a hundred thousand.
fn soak_count() -> usize {
    #[expect(clippy::disallowed_methods, reason = "how long a test runs is no setting")]
    let count = std::env::var("FANTAIL_APNS_PUSHES");
    count.ok().and_then(|count| count.parse().ok()).unwrap_or(5_000)
}

/// Sends all, and again whatever was not taken or may not have been, as a caller with a ladder of retries would.
// fixes: correctness B1
#[test]
fn a_gateway_that_times_out_leaves_unknown_what_apple_took() {
    let house = House::new();
    house.sandbox.set_faults("apns", Profile { gateway_timeout: 1.0, ..Profile::default() });
    assert_eq!(house.post(&["aa01"]), ["unknown 504"]);
    assert_eq!(arrived(&house.sandbox, "apns"), 1, "it took one copy");
}

// proves: PSH-01, PSH-05
#[test]
fn nothing_is_lost_and_only_what_was_unknown_comes_twice() {
    let house = House::new();
    let errors = [("TooManyRequests", 0.004), ("InternalServerError", 0.003), ("ServiceUnavailable", 0.001)];
    house.sandbox.set_faults(
        "apns",
        Profile {
            seed: 7,
            go_away_every: Some(5_000.min(soak_count() as u64 / 10)),
            errors: BTreeMap::from(errors.map(|(kind, share)| (kind.to_owned(), share))),
            lose_answer: 0.001,
            lose_connection: 0.000_2,
            ..Profile::default()
        },
    );
    let pushes = soak_count();
    let (mut unknown, mut rounds) = (BTreeSet::new(), 0);
    let mut left: Vec<usize> = (0..pushes).collect();
    while !left.is_empty() {
        rounds += 1;
        assert!(rounds < 50, "{} are left", left.len());
        let mut again = Vec::new();
        for parcel in left.chunks(1_000) {
            let push = |no: &usize| message(&format!("ref-{no}"), &address(&format!("aa{no:08}")));
            let answers = house.send(&house.shipment(parcel.iter().map(push).collect()));
            for (no, answer) in parcel.iter().zip(answers) {
                match answer {
                    Answer::Accepted { .. } => {}
                    Answer::Later { .. } | Answer::NotSent { .. } => again.push(*no),
                    Answer::Unknown { .. } => {
                        unknown.insert(apns_id(&format!("ref-{no}")));
                        again.push(*no);
                    }
                    Answer::Rejected { code, .. } => panic!("{no}: {code}"),
                }
            }
        }
        left = again;
    }
    let sends = (0..pushes).map(|no| Send { id: apns_id(&format!("ref-{no}")), recipient: None });
    let verdict = house.sandbox.judge(&sends.collect::<Vec<_>>());
    assert_eq!((verdict.missing.len(), verdict.unexpected.len(), verdict.unrecorded), (0, 0, 0));
    for repeated in &verdict.repeated {
        assert!(unknown.contains(&repeated.send.id), "{repeated:?} was answered");
        assert!(!repeated.differing, "{repeated:?}");
    }
    assert!(!unknown.is_empty(), "some answers were lost");
    assert_eq!(verdict.unique + verdict.repeated.len() as u64, pushes as u64);
}
