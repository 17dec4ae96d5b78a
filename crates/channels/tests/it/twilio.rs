//! Twilio's client against a server on this machine that answers as it is told: what is sent, by whom, and when.

use super::parcel::{message, send, shipment, told};
use super::time::{BEGAN, Time, WALL};
use fantail_channels::twilio::{Secrets, Settings, Twilio};
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::Ports;
use fantail_ports::channel::{Callbacks, Message, Shipment};
use fantail_rules::ids::Millis;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

const SID: &str = "AC00000000000000000000000000000001";

/// Answers requests with what is next in its script, or 201; a status of 0 closes the connection.
struct Fake {
    address: SocketAddr,
    script: Mutex<VecDeque<(u16, String)>>,
    seen: watch::Sender<Vec<(String, String)>>,
}

impl Fake {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let fake = Arc::new(Self { address, script: Mutex::default(), seen: watch::Sender::new(Vec::new()) });
        let serving = fake.clone();
        let handle = Handle::current();
        Handle::current().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let fake = serving.clone();
                handle.spawn(async move { fake.serve(stream).await });
            }
        });
        fake
    }

    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.ok()?);
            }
            let head = String::from_utf8(head).expect("a head of ASCII");
            let length =
                head.to_lowercase().split("content-length: ").nth(1).map_or(0, |rest| {
                    rest.split("\r\n").next().unwrap_or_default().parse().expect("a length")
                });
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.ok()?;
            let body = String::from_utf8(body).expect("a form");
            let next = self.script.lock().expect("no panic").pop_front();
            self.seen.send_modify(|seen| seen.push((head, body)));
            let (status, body) =
                next.unwrap_or_else(|| (201, json!({"sid": "SM1", "status": "queued"}).to_string()));
            if status == 0 {
                return None;
            }
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.ok()?;
        }
    }

    fn then(&self, status: u16, code: u32) -> &Self {
        self.script.lock().expect("no panic").push_back((status, json!({"code": code}).to_string()));
        self
    }

    fn bodies(&self) -> Vec<String> {
        self.seen.borrow().iter().map(|(_, body)| body.clone()).collect()
    }
}

struct House {
    runtime: Runtime,
    time: Arc<Time>,
    fake: Arc<Fake>,
    twilio: Arc<Twilio>,
}

impl House {
    fn new(senders: Value) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("a runtime");
        let time = Time::new(Some(runtime.handle().clone()));
        let fake = runtime.block_on(Fake::start());
        let settings = json!({
            "account": "main", "accountSid": SID, "senders": senders,
            "endpoint": "http://api.twilio.com", "connectTo": fake.address.to_string(),
        });
        let settings = Settings::read(&settings).expect("good settings");
        let secrets = Secrets::read(&json!({"authToken": "token"})).expect("secrets");
        let ports = Ports { clock: time.clone(), tasks: time.clone(), connector: Connector::of_operator() };
        let twilio = Arc::new(Twilio::open(settings, secrets, ports).expect("good settings"));
        Self { runtime, time, fake, twilio }
    }

    fn send(&self, shipment: &Shipment) -> Vec<String> {
        self.runtime.block_on(send(&*self.twilio, shipment)).iter().map(told).collect()
    }
}

fn texts(messages: Vec<Message>) -> Shipment {
    let callbacks = Callbacks { base_url: "https://notify.example.com".into(), key: [1; 16] };
    Shipment {
        content: Arc::from(&br#"{"body":"Hi"}"#[..]),
        expires_at: WALL.plus(90_000),
        callbacks: Some(Arc::new(callbacks)),
        ..shipment(messages)
    }
}

fn to(number: &str, recipient: u64) -> Message {
    Message { recipient, ..message("ref1", number.as_bytes()) }
}

fn long_code() -> Value {
    json!([{"from": "+12025550100", "perSecond": 100}])
}

// proves: SMS-01
#[test]
fn a_message_says_who_to_what_and_where_to_report() {
    let house = House::new(json!([
        {"from": "+12025550100", "perSecond": 100},
        {"from": "55555", "prefixes": ["+1"]},
    ]));
    assert_eq!(
        house.send(&texts(vec![to("+436601234567", 1), to("+12025550199", 1)])),
        ["accepted", "accepted"]
    );
    let mut bodies = house.fake.bodies();
    bodies.sort();
    let rest = "ValidityPeriod=90&StatusCallback=https%3A%2F%2Fnotify.example.com%2Fcallbacks%2Ftwilio%2Fmain%2Fref1";
    assert_eq!(bodies[0], format!("To=%2B12025550199&From=55555&Body=Hi&{rest}"));
    assert_eq!(bodies[1], format!("To=%2B436601234567&From=%2B12025550100&Body=Hi&{rest}"));
    let (head, _) = house.fake.seen.borrow()[0].clone();
    assert!(
        head.starts_with(&format!("POST /2010-04-01/Accounts/{SID}/Messages.json HTTP/1.1\r\n")),
        "{head}"
    );
    assert!(head.to_lowercase().contains("\r\nhost: api.twilio.com\r\n"), "{head}");
    // AC…01:token
    let basic = "Basic QUMwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMTp0b2tlbg==";
    assert!(head.contains(basic), "{head}");
}

// proves: DEL-13
#[test]
fn every_end_of_an_attempt_has_its_name() {
    let house = House::new(long_code());
    for (status, code, expected) in [
        (400, 21_610, "rejected Unwanted 21610"),
        (400, 21_211, "rejected DeadEndpoint 21211"),
        (429, 20_429, "later Some(1000) Origin 20429"),
        (401, 20_003, "later Some(300000) Credential 20003"),
        (500, 20_500, "later None Message 20500"),
        (0, 0, "unknown reset"),
    ] {
        house.fake.then(status, code);
        assert_eq!(house.send(&texts(vec![to("+12025550199", 1)])), [expected]);
    }
    let before = house.fake.bodies().len();
    assert_eq!(house.send(&texts(vec![to("no number", 1)])), ["rejected Malformed endpoint"]);
    let mut late = texts(vec![to("+12025550199", 1)]);
    late.expires_at = WALL;
    assert_eq!(house.send(&late), ["rejected Message expired"]);
    late = texts(vec![to("+12025550199", 1)]);
    late.content = Arc::from(&b"{}"[..]);
    assert_eq!(house.send(&late), ["rejected Malformed content"]);
    assert_eq!(house.fake.bodies().len(), before, "none of these was sent");
}

// proves: SMS-04
#[test]
fn a_sender_is_never_asked_for_more_than_its_rate() {
    let house = House::new(json!([{"from": "+12025550100"}]));
    let mut four = texts((0..4).map(|_| to("+12025550199", 1)).collect());
    four.deadline = BEGAN.plus(2_500);
    let (twilio, fake) = (house.twilio.clone(), house.fake.clone());
    let sending =
        house.runtime.spawn(async move { send(&*twilio, &four).await.iter().map(told).collect::<Vec<_>>() });
    let mut seen = fake.seen.subscribe();
    house.runtime.block_on(async {
        for count in 1..=3 {
            seen.wait_for(|seen| seen.len() == count).await.expect("the fake lives");
            house.time.advance(1_000);
        }
        let answers = sending.await.expect("no panic");
        assert_eq!(answers, ["accepted", "accepted", "accepted", "not sent NoRoom { after_ms: 2000 }"]);
    });
}

#[test]
fn a_sender_with_a_full_queue_rests_and_others_go_on() {
    let house = House::new(json!([
        {"from": "+12025550100", "prefixes": ["+1"]},
        {"from": "+436605550100", "prefixes": ["+43"]},
    ]));
    house.fake.then(429, 21_611);
    assert_eq!(house.send(&texts(vec![to("+12025550199", 1)])), ["later Some(600000) Message 21611"]);
    house.time.advance(1_000);
    assert_eq!(house.send(&texts(vec![to("+12025550199", 1)])), ["not sent Resting { after_ms: 599000 }"]);
    assert_eq!(house.send(&texts(vec![to("+436601234567", 1)])), ["accepted"]);
}

#[test]
fn a_probe_names_the_hop_that_fails() {
    let house = House::new(long_code());
    let probe = || -> Vec<(&str, bool)> {
        house.runtime.block_on(house.twilio.probe()).iter().map(|hop| (hop.name, hop.ok)).collect()
    };
    let active = json!({"status": "active"}).to_string();
    house.fake.script.lock().expect("no panic").push_back((200, active));
    assert_eq!(probe(), [("settings", true), ("connect", true), ("credential", true)]);
    house.fake.then(401, 20_003);
    assert_eq!(probe(), [("settings", true), ("connect", true), ("credential", false)]);
    assert_eq!(house.fake.seen.borrow().iter().filter(|(head, _)| head.starts_with("POST")).count(), 0);
}

#[test]
fn nothing_leaves_after_the_deadline() {
    let house = House::new(long_code());
    let mut late = texts(vec![to("+12025550199", 1)]);
    late.deadline = Millis(BEGAN.0 - 1);
    assert!(house.send(&late)[0].starts_with("not sent"), "whatever the proof");
    assert_eq!(house.fake.bodies().len(), 0);
}
