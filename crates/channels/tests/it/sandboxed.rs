//! FCM and Web Push against the sandbox: TLS, HTTP/2, its own checks of tokens and payloads, and its judge.

use super::fcm_desk::{address, private_key_pem};
use super::parcel::{message, send, shipment, told};
use super::time::Time;
use bytes::Bytes;
use fantail_channels::fcm::{self, Fcm};
use fantail_channels::ses::{self, Ses};
use fantail_channels::webpush::{self, WebPush, generate_vapid};
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::{At, Pool, Ports, Target, Timing};
use fantail_ports::channel::{Channel, Message, Shipment};
use fantail_rules::ids::Millis;
use fantail_rules::push_address::{FcmKind, PushAddress, Service};
use fantail_sandbox::faults::Profile;
use fantail_sandbox::judge::Send;
use fantail_sandbox::record::Filter;
use fantail_sandbox::{Options, Running, Sandbox};
use hyper::Request;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// The desk at which a sandbox is told what to do.
pub struct Control {
    pool: Pool,
    ports: Ports,
}

impl Control {
    pub fn new(sandbox: &Running, ports: Ports) -> Self {
        let address = sandbox.control();
        let target = Target {
            host: address.ip().to_string(),
            port: address.port(),
            at: At::Address(address),
            tls: None,
        };
        Self { pool: Pool::new(target, ports.clone()), ports }
    }

    pub async fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Bytes::from(body.to_string())).expect("a request");
        let timing = Timing { start_by: self.ports.clock.monotonic().plus(60_000), answer_within_ms: 60_000 };
        let reply = self.pool.call(request, timing).await.expect("an answer");
        assert!(reply.status.is_success(), "{path}: {}", reply.status);
        serde_json::from_slice(&reply.body).expect("JSON")
    }
}

struct Rig {
    runtime: Runtime,
    time: Arc<Time>,
    sandbox: Running,
}

impl Rig {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let sandbox = runtime.block_on(Sandbox::start(Options::default())).expect("a sandbox");
        let now = Millis(sandbox.world().clock().now_ms());
        let time = Time::at(now, Some(runtime.handle().clone()));
        Self { runtime, time, sandbox }
    }

    fn ports(&self) -> Ports {
        Ports { clock: self.time.clone(), tasks: self.time.clone(), connector: Connector::of_operator() }
    }

    fn control(&self, path: &str, body: &Value) -> Value {
        self.runtime.block_on(Control::new(&self.sandbox, self.ports()).ask("POST", path, body))
    }

    fn fcm(&self) -> Fcm {
        let settings = json!({
            "projectId": "p1",
            "connectTo": self.sandbox.shared().to_string(),
            "caPem": self.sandbox.ca_pem(),
        });
        let account = json!({"client_email": "sender@p1.iam.example", "private_key": private_key_pem()});
        let settings = fcm::Settings::read(&settings).expect("good settings");
        let secrets = fcm::Secrets::read(&json!({"serviceAccount": account})).expect("good secrets");
        Fcm::open(settings, secrets, self.ports()).expect("a channel")
    }

    fn webpush(&self, vapid: &Value) -> WebPush {
        let settings = json!({
            "subject": "mailto:push@example.com",
            "connectTo": self.sandbox.shared().to_string(),
            "caPem": self.sandbox.ca_pem(),
        });
        let (settings, secrets) = (webpush::Settings::read(&settings), webpush::Secrets::read(vapid));
        WebPush::open(settings.expect("good settings"), secrets.expect("good secrets"), self.ports())
            .expect("a channel")
    }

    fn subscribe(&self, wish: &Value) -> Vec<u8> {
        let made = self.control("/webpush/subscriptions", wish);
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let (url, keys) = (text(&made["endpoint"]), &made["keys"]);
        let (p256dh, auth) = (text(&keys["p256dh"]), text(&keys["auth"]));
        let service = Service::WebPush { url: &url, p256dh: &p256dh, auth: &auth };
        PushAddress { service, registered_at: Millis(1) }.write().into_bytes()
    }

    fn send(&self, channel: &dyn Channel, messages: Vec<Message>) -> Vec<String> {
        self.runtime.block_on(send(channel, &shipment(messages))).iter().map(told).collect()
    }

    /// All of these arrived once, and nothing else did.
    fn judge(&self, messages: &[Message]) {
        let sends: Vec<Send> =
            messages.iter().map(|message| Send { id: message.reference.clone(), recipient: None }).collect();
        let verdict = self.sandbox.judge(&sends);
        assert_eq!(verdict.unique, messages.len() as u64, "{verdict:?}");
        assert!(verdict.repeated.is_empty() && verdict.missing.is_empty(), "{verdict:?}");
    }
}

// proves: PSH-02, PSH-03, DEL-13
#[test]
fn fcm_over_tls_is_what_the_sandbox_wants() {
    let rig = Rig::new();
    let fcm = rig.fcm();
    let to = |number: usize| {
        let token = format!("device-{number}:{}", "a".repeat(140));
        message(&format!("fcm-{number}"), &address(FcmKind::Token, None, &token))
    };
    let messages: Vec<Message> = (0..300).map(to).collect();
    let answers = rig.send(&fcm, messages.clone());
    assert!(answers.iter().all(|answer| answer == "accepted"), "{answers:?}");
    rig.judge(&messages);
    rig.control("/fcm/revoke", &json!({}));
    let again: Vec<Message> = (300..400).map(to).collect();
    let answers = rig.send(&fcm, again.clone());
    assert!(
        answers.iter().all(|answer| answer == "accepted"),
        "a token that was revoked is renewed: {answers:?}"
    );
    let hops = rig.runtime.block_on(fcm.probe());
    assert!(hops.iter().all(|hop| hop.ok), "{hops:?}");
    for (kind, expected) in [
        ("unregistered", "rejected DeadEndpoint UNREGISTERED"),
        ("sender-id-mismatch", "rejected DeadEndpoint SENDER_ID_MISMATCH"),
        ("invalid-token", "rejected DeadEndpoint INVALID_ARGUMENT"),
        ("invalid-argument", "rejected Malformed INVALID_ARGUMENT"),
        ("too-big", "rejected Malformed INVALID_ARGUMENT"),
        ("third-party-auth", "later Some(300000) Message THIRD_PARTY_AUTH_ERROR"),
        ("permission-denied", "later Some(300000) Credential PERMISSION_DENIED"),
        ("internal", "later None Message INTERNAL"),
        ("unavailable", "later Some(60000) Message UNAVAILABLE"),
        ("bad-gateway", "later None Message 502"),
        ("lose-connection", "unknown reset"),
    ] {
        let fcm = rig.fcm();
        let one = message("magic", &address(FcmKind::Token, None, &format!("sandbox-{kind}")));
        assert_eq!(rig.send(&fcm, vec![one]), [expected], "{kind}");
    }
}

// proves: PSH-09, DEL-13
#[test]
fn web_push_over_tls_is_what_the_sandbox_wants() {
    let rig = Rig::new();
    let vapid = generate_vapid();
    let push = rig.webpush(&vapid);
    let key = &vapid["vapidPublicKey"];
    let mut messages = Vec::new();
    for (number, service) in ["mozilla", "apple"].into_iter().cycle().take(60).enumerate() {
        let endpoint = rig.subscribe(&json!({"applicationServerKey": key, "service": service}));
        messages.push(message(&format!("web-{number}"), &endpoint));
    }
    let answers = rig.send(&push, messages.clone());
    assert!(answers.iter().all(|answer| answer == "accepted"), "{answers:?}");
    rig.judge(&messages);
    let other = generate_vapid();
    let foreign = rig.subscribe(&json!({"applicationServerKey": other["vapidPublicKey"]}));
    assert_eq!(rig.send(&push, vec![message("other", &foreign)]), ["rejected DeadEndpoint 403 errno 109"]);
    for (kind, expected) in [
        ("not-found", "rejected DeadEndpoint 404 errno 102"),
        ("gone", "rejected DeadEndpoint 410 errno 106"),
        ("too-large", "rejected Malformed 413 errno 104"),
        ("quota", "later Some(120000) Origin 429 errno 114"),
        ("unauthorized", "later Some(300000) Origin 401 errno 109"),
        ("bad-request", "rejected Malformed 400 errno 110"),
        ("internal", "later None Message 500 errno 999"),
        ("bad-gateway", "later None Message 502"),
        ("unavailable", "later Some(120000) Origin 503 errno 202"),
        ("lose-connection", "unknown reset"),
    ] {
        let push = rig.webpush(&vapid);
        let endpoint = rig.subscribe(&json!({"applicationServerKey": key, "outcome": kind}));
        assert_eq!(rig.send(&push, vec![message("magic", &endpoint)]), [expected], "{kind}");
    }
}

/// How many messages an emulator took.
pub fn arrived(sandbox: &Running, emulator: &str) -> usize {
    let all = sandbox.world().record().list(&Filter { limit: usize::MAX, ..Filter::default() });
    all.iter().filter(|one| one["emulator"] == emulator && one["refused"].is_null()).count()
}

/// A gateway between us and the provider gives up after the provider took the message: nothing is known, so it is not sent again as
/// if it had not been taken, and there is one copy for each attempt.
// fixes: correctness B1
#[test]
fn a_gateway_that_times_out_leaves_unknown_what_was_taken() {
    let rig = Rig::new();
    let late = || Profile { gateway_timeout: 1.0, ..Profile::default() };
    for emulator in ["fcm", "webpush", "ses"] {
        rig.sandbox.set_faults(emulator, late());
    }
    let token = format!("device-1:{}", "a".repeat(140));
    let to_device = message("fcm-1", &address(FcmKind::Token, None, &token));
    let vapid = generate_vapid();
    let endpoint = rig.subscribe(&json!({"applicationServerKey": vapid["vapidPublicKey"]}));
    let to_browser = message("web-1", &endpoint);
    let port = rig.sandbox.own("ses").expect("an emulator").port();
    let settings = json!({
        "fromAddress": "news@shop.example", "region": "eu-west-1", "endpoint": format!("http://127.0.0.1:{port}"),
    });
    let secrets = json!({"accessKeyId": "AKIDSANDBOX", "secretAccessKey": "sandbox-secret"});
    let settings = ses::Settings::read(&settings).expect("settings");
    let ses =
        Ses::open(settings, ses::Secrets::read(&secrets).expect("secrets"), rig.ports()).expect("a channel");
    let to_mailbox = message("mail-1", b"ann@a.example");
    let (fcm, webpush) = (rig.fcm(), rig.webpush(&vapid));
    let channels: [(&dyn Channel, &str, Message); 3] =
        [(&fcm, "fcm", to_device), (&webpush, "webpush", to_browser), (&ses, "ses", to_mailbox)];
    for (channel, emulator, one) in channels {
        let content = br#"{"title":"hello","subject":"Hello","text":"hello"}"#;
        let shipment = Shipment { content: Arc::from(&content[..]), ..shipment(vec![one]) };
        let answers = rig.runtime.block_on(send(channel, &shipment));
        assert_eq!(told(&answers[0]), "unknown 504", "{emulator}");
        assert_eq!(arrived(&rig.sandbox, emulator), 1, "{emulator} took one copy");
    }
}
