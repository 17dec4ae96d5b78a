//! Web Push against a push service on this machine: the path says how it behaves. What is sent, what each end is called,
//! whose key is refused, and where nobody is connected to.

use super::house::{Everywhere, policy};
use super::nobody::Nobody;
use super::parcel::{message, send, shipment, told};
use super::service::{Reaction, Seen, Service};
use super::time::{Time, WALL};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fantail_channels::webpush::reservoir::{KEYS_MAX, Reservoir};
use fantail_channels::webpush::{Secrets, Settings, WebPush, generate_vapid};
use fantail_conformance::channel::{Behaviour, Rig, channel_suite};
use fantail_outbound::connector::{Connector, SystemDialer};
use fantail_outbound::pool::Ports;
use fantail_outbound::resolve::Resolve;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Channel, Message, Shipment};
use fantail_ports::clock::Clock;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::priority::Priority;
use fantail_rules::push_address::{PushAddress, Service as PushService};
use fantail_sandbox::webpush::decrypt::Keys;
use serde_json::{Value, json};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::{Builder, Runtime};

struct House {
    runtime: Runtime,
    time: Arc<Time>,
    service: Service,
    push: WebPush,
    browser: Keys,
    vapid_public: String,
}

impl House {
    fn new() -> Self {
        Self::with(Arc::new(Everywhere), &["127.0.0.1:#"])
    }

    /// Names have the addresses of the resolver, and these targets are allowed, in which `#` is the port of the service.
    fn with(resolver: Arc<dyn Resolve>, targets: &[&str]) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("a runtime");
        let time = Time::new(Some(runtime.handle().clone()));
        let service = runtime.block_on(Service::start(runtime.handle(), Arc::new(react)));
        let port = service.address.port().to_string();
        let targets: Vec<String> = targets.iter().map(|target| target.replace('#', &port)).collect();
        let settings = Settings::read(&json!({"subject": "mailto:push@example.com"}));
        let secrets = generate_vapid();
        let vapid_public = secrets["vapidPublicKey"].as_str().expect("text").to_owned();
        let connector = Connector::with(policy(&targets), resolver, Arc::new(SystemDialer));
        let ports = Ports { clock: time.clone(), tasks: time.clone(), connector };
        let secrets = Secrets::read(&secrets).expect("good secrets");
        let push = WebPush::open(settings.expect("good settings"), secrets, ports);
        let push = push.expect("a channel");
        Self { runtime, time, service, push, browser: Keys::generate(), vapid_public }
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.service.address.port())
    }

    fn address(&self, url: &str) -> Vec<u8> {
        let p256dh = URL_SAFE_NO_PAD.encode(&self.browser.public);
        let auth = URL_SAFE_NO_PAD.encode(self.browser.auth);
        let service = PushService::WebPush { url, p256dh: &p256dh, auth: &auth };
        PushAddress { service, registered_at: Millis(1) }.write().into_bytes()
    }

    fn to(&self, path: &str) -> Message {
        message("ref-1", &self.address(&self.url("push.example", path)))
    }

    fn send_all(&self, shipment: &Shipment) -> Vec<String> {
        self.runtime.block_on(send(&self.push, shipment)).iter().map(told).collect()
    }

    fn send(&self, messages: Vec<Message>) -> Vec<String> {
        self.send_all(&shipment(messages))
    }
}

fn react(seen: &Seen) -> Reaction {
    let mut parts = seen.path.split('/').skip(1);
    match (parts.next().unwrap_or_default(), parts.next().and_then(|status| status.parse().ok())) {
        ("status", Some(201)) => Reaction::body(201, "").with("location", "https://push.example/m/1"),
        ("status", Some(status)) => Reaction::body(status, ""),
        ("retry", Some(status)) => Reaction::body(status, "").with("retry-after", "7"),
        ("close", _) => Reaction::Close,
        _ => panic!("no behaviour is called {}", seen.path),
    }
}

// proves: PSH-06, PSH-07, PSH-09
#[test]
fn the_browser_can_read_what_the_push_service_cannot() {
    let house = House::new();
    let mut one = shipment(vec![house.to("/status/201")]);
    one.content = Arc::from(&br#"{"title":"Hi","body":"There","data":{"a":[1]}}"#[..]);
    one.lane = Priority::High;
    one.expires_at = WALL.plus(90_500);
    one.collapse_key = Some("order:42".to_owned());
    assert_eq!(house.send_all(&one), ["accepted"]);
    let seen = &house.service.seen()[0];
    for (name, value) in [
        ("ttl", "90"),
        ("urgency", "high"),
        ("content-encoding", "aes128gcm"),
        ("content-type", "application/octet-stream"),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
    assert_eq!(seen.header("topic").len(), 32);
    let opened = house.browser.open(&seen.body).expect("for this browser");
    let read: Value = serde_json::from_slice(&opened).expect("JSON");
    assert_eq!(
        read,
        json!({"title": "Hi", "body": "There", "data": {"a": [1]}, "tag": "order:42", "reference": "ref-1"})
    );
}

// proves: PSH-09
#[test]
fn the_token_is_for_the_origin_and_one_serves_many_messages() {
    let house = House::new();
    let messages = (0..20).map(|_| house.to("/status/201")).collect();
    assert!(house.send(messages).iter().all(|answer| answer == "accepted"));
    let headers: Vec<String> =
        house.service.seen().iter().map(|seen| seen.header("authorization").to_owned()).collect();
    assert!(headers.iter().all(|header| *header == headers[0]));
    let (token, key) =
        headers[0].strip_prefix("vapid t=").and_then(|rest| rest.split_once(", k=")).expect("two parts");
    assert_eq!(key, house.vapid_public);
    let (signed, signature) = token.rsplit_once('.').expect("three parts");
    let read = |part: &str| URL_SAFE_NO_PAD.decode(part).expect("base64url");
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, read(key));
    public.verify(signed.as_bytes(), &read(signature)).expect("our signature");
    let claims: Value = serde_json::from_slice(&read(signed.split_once('.').expect("two").1)).expect("JSON");
    let origin = format!("http://push.example:{}", house.service.address.port());
    assert_eq!(
        claims,
        json!({"aud": origin, "exp": WALL.0 / 1_000 + 23 * 3_600, "sub": "mailto:push@example.com"})
    );
    let other = message("ref-1", &house.address(&house.url("other.example", "/status/201")));
    assert_eq!(house.send(vec![other]), ["accepted"]);
    assert_ne!(house.service.seen()[20].header("authorization"), headers[0]);
}

#[test]
fn every_end_of_an_attempt_has_its_name() {
    for (path, expected) in [
        ("/status/201", "accepted"),
        ("/status/202", "accepted"),
        ("/status/400", "rejected Malformed 400"),
        ("/status/404", "rejected DeadEndpoint 404"),
        ("/status/410", "rejected DeadEndpoint 410"),
        ("/status/413", "rejected Malformed 413"),
        ("/status/429", "later None Origin 429"),
        ("/retry/429", "later Some(7000) Origin 429"),
        ("/retry/503", "later Some(7000) Origin 503"),
        ("/status/500", "later None Message 500"),
        ("/status/502", "later None Message 502"),
        ("/close", "unknown reset"),
    ] {
        let house = House::new();
        assert_eq!(house.send(vec![house.to(path)]), [expected], "{path}");
    }
    let house = House::new();
    let mut late = shipment(vec![house.to("/status/201")]);
    late.expires_at = WALL;
    assert_eq!(house.send_all(&late), ["rejected Message expired"]);
    let mut large = shipment(vec![house.to("/status/201")]);
    large.content = json!({"title": "T", "data": {"a": "x".repeat(5_000)}}).to_string().into_bytes().into();
    assert_eq!(house.send_all(&large), ["rejected Malformed too-large"]);
    let nowhere = URL_SAFE_NO_PAD.encode([4; 65]);
    let off_curve = format!(
        "web 1 {nowhere} {} {}",
        URL_SAFE_NO_PAD.encode([7; 16]),
        house.url("a.example", "/status/201")
    );
    assert_eq!(house.send(vec![message("ref-1", off_curve.as_bytes())]), ["rejected Malformed endpoint"]);
    assert!(house.service.seen().is_empty());
}

// proves: DEL-13
#[test]
fn one_refused_subscription_is_dead_and_a_refused_key_rests() {
    let house = House::new();
    let refused = |count| (0..count).map(|_| house.to("/status/403")).collect::<Vec<_>>();
    assert_eq!(house.send(refused(2)), ["later Some(300000) Origin 403"; 2], "nobody was taken here yet");
    assert_eq!(house.send(refused(1)), ["not sent Resting { after_ms: 300000 }"]);
    let house = House::new();
    let mut mixed = vec![house.to("/status/403")];
    mixed.extend((0..30).map(|_| house.to("/status/201")));
    assert_eq!(house.send(mixed)[0], "rejected DeadEndpoint 403", "others were taken with this key");
    assert_eq!(house.send(vec![house.to("/status/403")]), ["rejected DeadEndpoint 403"]);
    let mut many: Vec<Message> = (0..30).map(|_| house.to("/status/201")).collect();
    many.extend((0..10).map(|_| house.to("/status/403")));
    let told = house.send(many);
    assert!(told[30..].iter().all(|answer| answer == "rejected Message 403"), "too many at once: {told:?}");
}

#[test]
fn one_push_service_that_rests_takes_nothing_from_others() {
    let house = House::new();
    assert_eq!(house.send(vec![house.to("/retry/429")]), ["later Some(7000) Origin 429"]);
    assert_eq!(house.send(vec![house.to("/status/201")]), ["not sent Resting { after_ms: 7000 }"]);
    let other = message("ref-1", &house.address(&house.url("other.example", "/status/201")));
    assert_eq!(house.send(vec![other]), ["accepted"]);
    house.time.advance(7_000);
    assert_eq!(house.send(vec![house.to("/status/201")]), ["accepted"]);
}

/// Every name has this address.
struct At(&'static str);

impl Resolve for At {
    fn resolve(&self, _whose: Option<TenantId>, _name: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        let address = self.0.parse().expect("an address");
        Box::pin(async move { Ok(vec![address]) })
    }
}

#[test]
fn nobody_is_led_inside_the_house() {
    for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"] {
        let house = House::with(Arc::new(At(address)), &["8.8.8.8:#"]);
        assert_eq!(house.send(vec![house.to("/status/201")]), ["not sent Forbidden"], "{address}");
        assert!(house.service.seen().is_empty());
    }
    let house = House::with(Arc::new(Everywhere), &["127.0.0.1"]);
    assert_eq!(house.send(vec![house.to("/status/201")]), ["not sent Forbidden"], "plain http");
    let house = House::with(Arc::new(Everywhere), &["127.0.0.1:443"]);
    assert_eq!(house.send(vec![house.to("/status/201")]), ["not sent Forbidden"], "another port");
}

struct WebPushRig {
    house: House,
    /// A port that nobody listens on: this listener is bound to another address and keeps the number.
    nobody: Nobody,
    hosts: AtomicUsize,
}

impl Rig for WebPushRig {
    fn channel(&self) -> &dyn Channel {
        &self.house.push
    }

    fn now(&self) -> Millis {
        self.house.time.monotonic()
    }

    fn endpoint(&self, behaviour: Behaviour) -> Vec<u8> {
        // Each at a push service of its own: what one of them says is no other's rest.
        let host = format!("h{}.example", self.hosts.fetch_add(1, Ordering::Relaxed));
        let url = match behaviour {
            Behaviour::Takes => self.house.url(&host, "/status/201"),
            Behaviour::SaysLater => self.house.url(&host, "/status/429"),
            Behaviour::Refuses => self.house.url(&host, "/status/410"),
            Behaviour::IsUnreachable => {
                format!("http://{host}:{}/", self.nobody.port())
            }
            Behaviour::TakesAndFallsSilent => self.house.url(&host, "/close"),
        };
        self.house.address(&url)
    }

    fn copies(&self, reference: &str) -> usize {
        let is_taken = |seen: &Seen| seen.path == "/status/201" || seen.path == "/close";
        let names = |seen: &Seen| {
            let opened = self.house.browser.open(&seen.body).expect("for this browser");
            serde_json::from_slice::<Value>(&opened).expect("JSON")["reference"] == reference
        };
        self.house.service.seen().iter().filter(|seen| is_taken(seen) && names(seen)).count()
    }

    fn wait(&self, future: BoxFuture<'_, ()>) {
        self.house.runtime.block_on(future);
    }
}

#[test]
fn webpush_conforms() {
    channel_suite(|| {
        let nobody = Nobody::new();
        let port = nobody.port();
        let house = House::with(Arc::new(Everywhere), &["127.0.0.1:#", &format!("127.0.0.1:{port}")]);
        WebPushRig { house, nobody, hosts: AtomicUsize::new(0) }
    });
}

#[test]
fn keys_are_made_ahead_up_to_their_limit() {
    let house = House::new();
    let ports =
        Ports { clock: house.time.clone(), tasks: house.time.clone(), connector: Connector::of_operator() };
    let reservoir = Reservoir::new(ports);
    assert_eq!(reservoir.stock(), 0);
    drop(reservoir.take());
    house.runtime.block_on(async {
        while reservoir.stock() + 16 <= KEYS_MAX {
            house.time.advance(1);
            tokio::task::yield_now().await;
        }
    });
    house.time.advance(1_000);
    assert!(reservoir.stock() <= KEYS_MAX);
    let before = reservoir.stock();
    drop(reservoir.take());
    assert_eq!(reservoir.stock(), before - 1, "what is there is used");
}

// proves: PSH-11
#[test]
fn payloads_are_those_of_the_golden_files() {
    super::golden::check_all("webpush", |case| {
        let house = House::new();
        let mut one = shipment(vec![house.to("/status/201")]);
        one.content = case["content"].to_string().into_bytes().into();
        one.collapse_key = case["collapseKey"].as_str().map(str::to_owned);
        assert_eq!(house.send_all(&one), ["accepted"]);
        let opened = house.browser.open(&house.service.seen()[0].body).expect("for this browser");
        serde_json::from_slice(&opened).expect("JSON")
    });
}
