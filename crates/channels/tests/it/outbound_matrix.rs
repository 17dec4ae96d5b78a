//! Every setting that leads to a connection, against every kind of target inside: refused unless the operator allows it.
//!
//! Names are resolved and connections are counted by doubles. The only address that is really connected to is a service of
//! this test, so no packet leaves for anything else, whatever the code under test does.

use super::fcm_desk::private_key_pem;
use super::house::{endpoint, policy};
use super::parcel::{message, send, shipment, told};
use super::service::{Reaction, Seen, Service};
use super::time::Time;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fantail_channels::accounts::client::Client;
use fantail_channels::accounts::open::{opener, targets};
use fantail_channels::fields::SettingsError;
use fantail_channels::ses::{self, Sns};
use fantail_channels::webhook::{self, Webhook};
use fantail_channels::webpush::{self, WebPush, generate_vapid};
use fantail_outbound::address::{Reach, reach};
use fantail_outbound::connector::{Connector, Dial};
use fantail_outbound::pool::Ports;
use fantail_outbound::resolve::Resolve;
use fantail_ports::BoxFuture;
use fantail_ports::accounts::{Account, Credentials};
use fantail_ports::channel::Answer;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::provider_kind::ProviderKind;
use fantail_rules::push_address::{PushAddress, Service as PushService};
use fantail_sandbox::webpush::decrypt::Keys;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// Nothing here is public. What no setting allows is [`Reach::Never`].
const LITERALS: &[&str] = &[
    "127.0.0.1",
    "127.0.0.2",
    "::1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "fd00::1",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "fe80::1",
    "fd00:ec2::254",
    "100.100.100.200",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "2002:7f00:1::1",
    "0.0.0.0",
    "::",
];

/// Names, and the addresses that they have: at each lookup the next list, the last one again and again.
const NAMES: &[(&str, &[&[&str]])] = &[
    ("localhost", &[&["127.0.0.1", "::1"]]),
    ("hooks.localhost", &[&["127.0.0.1"]]),
    ("intranet", &[&["10.0.0.1"]]),
    ("loopback.example", &[&["127.0.0.1"]]),
    ("six.example", &[&["::1"]]),
    ("inside.example", &[&["10.0.0.1"]]),
    ("link.example", &[&["fe80::1"]]),
    ("metadata.example", &[&["169.254.169.254"]]),
    ("mapped.example", &[&["::ffff:127.0.0.1"]]),
    ("mixed.example", &[&["10.0.0.1", "fd00::1", "169.254.169.254", "::ffff:127.0.0.1"]]),
    ("rebind.example", &[&[PUBLIC], &["127.0.0.1"]]),
];

/// A name that nobody has.
const UNKNOWN: &str = "nobody.example";
const PUBLIC: &str = "8.8.8.8";
const PORT: u16 = 6_443;
const TENANT: TenantId = TenantId(1);

/// Answers from the list above; every other name is public.
#[derive(Default)]
struct Names {
    lookups: AtomicUsize,
    /// What every name has instead.
    all: Option<&'static str>,
}

impl Resolve for Names {
    fn resolve(&self, _whose: Option<TenantId>, name: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        if name == UNKNOWN {
            return Box::pin(async { Err(io::Error::other("Name or service not known")) });
        }
        let lookup = self.lookups.fetch_add(1, Ordering::Relaxed);
        let listed = NAMES.iter().find(|(known, _)| *known == name).map(|(_, lists)| *lists);
        let lists = listed.unwrap_or(&[&[PUBLIC]]);
        let texts = self.all.map_or_else(|| lists[lookup.min(lists.len() - 1)].to_vec(), |one| vec![one]);
        let addresses = texts.iter().map(|text| text.parse().expect("an address")).collect();
        Box::pin(async move { Ok(addresses) })
    }
}

/// Writes down every address, and connects to the test's own service alone.
struct Dialler {
    own: SocketAddr,
    dialled: Mutex<Vec<SocketAddr>>,
}

impl Dial for Dialler {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        if address == self.own {
            return Box::pin(TcpStream::connect(address));
        }
        self.dialled.lock().expect("no panic").push(address);
        Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
    }
}

struct World {
    runtime: Runtime,
    time: Arc<Time>,
    /// Gives access tokens, so that FCM gets as far as its own endpoint.
    tokens: Service,
}

/// A way out with a policy, and what it dialled.
struct Exit {
    ports: Ports,
    dialler: Arc<Dialler>,
}

impl Exit {
    fn dialled(&self) -> Vec<SocketAddr> {
        self.dialler.dialled.lock().expect("no panic").clone()
    }

    /// Nothing but public addresses.
    fn assert_nothing_inside(&self, what: &str) {
        for address in self.dialled() {
            assert_eq!(reach(address.ip()), Reach::Public, "{what} dialled {address}");
        }
    }
}

impl World {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("a runtime");
        let time = Time::new(Some(runtime.handle().clone()));
        let token = |_: &Seen| Reaction::body(200, r#"{"access_token": "t", "expires_in": 3600}"#);
        let tokens = runtime.block_on(Service::start(runtime.handle(), Arc::new(token)));
        Self { runtime, time, tokens }
    }

    /// What the operator allows beside the test's own service.
    fn exit(&self, allowed: &[String]) -> Exit {
        self.exit_with(allowed, Names::default())
    }

    fn exit_with(&self, allowed: &[String], names: Names) -> Exit {
        let own = self.tokens.address;
        let dialler = Arc::new(Dialler { own, dialled: Mutex::default() });
        let policy = policy(allowed.iter().chain([&own.to_string()]));
        let connector = Connector::with(policy, Arc::new(names), dialler.clone());
        let ports = Ports { clock: self.time.clone(), tasks: self.time.clone(), connector };
        Exit { ports, dialler }
    }

    /// Opens an account whose setting leads to a host, and tries it.
    fn probe(&self, exit: &Exit, account: &Account) -> Result<String, SettingsError> {
        let client: Arc<dyn Client> = opener(exit.ports.clone())(account)?;
        let details = (0..2).map(|_| {
            let hops = self.runtime.block_on(client.probe());
            // Whatever rests has rested.
            self.time.advance(120_000);
            format!("{hops:?}")
        });
        Ok(details.collect())
    }

    fn account(&self, kind: ProviderKind, lead: &Lead, host: &str) -> Option<Account> {
        let Draft { mut settings, mut secrets } = draft(kind, self.tokens.address);
        let text = lead.form.text(host)?;
        let whole = if lead.pointer.starts_with("/settings") { &mut settings } else { &mut secrets };
        let inside = lead.pointer.trim_start_matches("/settings").trim_start_matches("/credentials");
        let (parent, name) = inside.rsplit_once('/').expect("a pointer");
        let parent = whole.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
        parent.insert(name.to_owned(), text.into());
        if lead.form == Form::Host {
            parent.insert("port".to_owned(), PORT.into());
        }
        if lead.pointer.ends_with("token_uri") {
            settings.as_object_mut().expect("an object").remove("tokenEndpoint");
        }
        Some(account(kind, &settings, &secrets))
    }
}

fn account(kind: ProviderKind, settings: &Value, secrets: &Value) -> Account {
    Account {
        tenant: TENANT,
        id: "own".to_owned(),
        version: 1,
        kind,
        settings: settings.to_string(),
        secrets: Credentials::new(secrets.to_string().into_bytes()),
        order: 0,
        weight: 1,
        per_second: None,
        concurrency: None,
        enabled: true,
    }
}

/// A setting that leads to a connection.
struct Lead {
    pointer: &'static str,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Url,
    Host,
    /// Addresses only.
    Socket,
}

impl Form {
    fn text(self, host: &str) -> Option<String> {
        let address: Option<IpAddr> = host.parse().ok();
        match (self, address) {
            (Self::Url, _) => Some(format!("https://{}", at(host))),
            (Self::Socket, Some(address)) => Some(SocketAddr::new(address, PORT).to_string()),
            (Self::Socket, None) | (Self::Host, Some(IpAddr::V6(_))) => None,
            (Self::Host, _) => Some(host.to_owned()),
        }
    }
}

/// With the port, as the operator lists it too.
fn at(host: &str) -> String {
    if host.contains(':') { format!("[{host}]:{PORT}") } else { format!("{host}:{PORT}") }
}

const fn lead(pointer: &'static str, form: Form) -> Lead {
    Lead { pointer, form }
}

/// The list. What the accounts themselves say leads somewhere is compared with it below.
fn leads(kind: ProviderKind) -> Vec<Lead> {
    let connect_to = lead("/settings/connectTo", Form::Socket);
    match kind {
        ProviderKind::Apns => vec![
            lead("/settings/endpoint", Form::Url),
            lead("/settings/sandboxEndpoint", Form::Url),
            connect_to,
        ],
        ProviderKind::Fcm => vec![
            lead("/settings/endpoint", Form::Url),
            lead("/settings/tokenEndpoint", Form::Url),
            lead("/credentials/serviceAccount/token_uri", Form::Url),
            lead("/settings/tokenConnectTo", Form::Socket),
            connect_to,
        ],
        ProviderKind::WebPush => vec![connect_to],
        ProviderKind::Ses | ProviderKind::Twilio => vec![lead("/settings/endpoint", Form::Url), connect_to],
        ProviderKind::Smtp => vec![lead("/settings/host", Form::Host), connect_to],
    }
}

struct Draft {
    settings: Value,
    secrets: Value,
}

fn draft(kind: ProviderKind, tokens: SocketAddr) -> Draft {
    let (settings, secrets) = match kind {
        ProviderKind::Apns => (
            json!({"teamId": "TEAM", "keyId": "KEY1", "topic": "com.example.app"}),
            json!({"p8": rcgen::KeyPair::generate().expect("a key").serialize_pem()}),
        ),
        ProviderKind::Fcm => (
            json!({"projectId": "p1", "tokenEndpoint": format!("http://{tokens}/token")}),
            json!({"serviceAccount": {"client_email": "a@p1.example", "private_key": private_key_pem()}}),
        ),
        ProviderKind::WebPush => (json!({"subject": "mailto:push@example.com"}), generate_vapid()),
        ProviderKind::Ses => (
            json!({"fromAddress": "news@shop.example", "region": "eu-west-1"}),
            json!({"accessKeyId": "AKIDEXAMPLE", "secretAccessKey": "secret"}),
        ),
        ProviderKind::Smtp => (
            json!({"fromAddress": "news@shop.example", "host": "smtp.example", "security": "tls"}),
            json!({"username": "u", "password": "p"}),
        ),
        ProviderKind::Twilio => (
            json!({"accountSid": format!("AC{}", "0".repeat(32)), "senders": [{"from": "+12025550100"}]}),
            json!({"authToken": "token"}),
        ),
    };
    Draft { settings, secrets }
}

/// A setting that is new is in the list, or its account says that it leads nowhere.
// fixes: security H2
#[test]
fn the_list_has_every_setting_that_leads_to_a_connection() {
    let world = World::new();
    for kind in ProviderKind::ALL {
        let mut said = BTreeSet::new();
        for lead in leads(kind) {
            let account = world.account(kind, &lead, PUBLIC).expect("every form takes an address");
            let all = targets(&account).expect("good settings");
            said.extend(all.iter().filter(|one| one.destination().is_some()).map(|one| one.pointer));
        }
        let listed: BTreeSet<&str> = leads(kind).iter().map(|lead| lead.pointer).collect();
        assert_eq!(said, listed, "{kind:?}");
    }
}

/// Otherwise a test of an account would list the names of a house.
// fixes: security P12
#[test]
fn a_test_does_not_tell_which_names_there_are_inside() {
    let world = World::new();
    for kind in ProviderKind::ALL {
        for lead in leads(kind) {
            let said = |host: &str| {
                let account = world.account(kind, &lead, host)?;
                let exit = world.exit(&[format!("{PUBLIC}:{PORT}")]);
                let said = world.probe(&exit, &account).unwrap_or_else(|refused| refused.reason);
                exit.assert_nothing_inside(host);
                Some(said.replace(host, "HOST"))
            };
            let unknown = said(UNKNOWN);
            for inside in ["inside.example", "metadata.example", "loopback.example"] {
                assert_eq!(said(inside), unknown, "{kind:?} {} {inside}", lead.pointer);
            }
        }
    }
}

// fixes: security H2, usability A2
#[test]
fn no_setting_of_an_account_leads_inside() {
    let world = World::new();
    for kind in ProviderKind::ALL {
        for lead in leads(kind) {
            for host in LITERALS.iter().copied() {
                let Some(account) = world.account(kind, &lead, host) else { continue };
                let exit = world.exit(&[]);
                let refused = world.probe(&exit, &account).expect_err(host);
                let what = format!("{kind:?} {} {host}: {refused}", lead.pointer);
                assert_eq!(refused.field, lead.pointer, "{what}");
                assert!(refused.reason.starts_with("forbidden"), "{what}");
                assert!(exit.dialled().is_empty(), "{what}");
            }
            for (host, _) in NAMES {
                let Some(account) = world.account(kind, &lead, host) else { continue };
                // The port alone is no reason to refuse a name.
                let exit = world.exit(&[format!("{PUBLIC}:{PORT}")]);
                let what = format!("{kind:?} {} {host}", lead.pointer);
                let said = world.probe(&exit, &account).unwrap_or_else(|refused| refused.reason);
                assert!(said.contains("forbidden"), "{what}: {said}");
                exit.assert_nothing_inside(&what);
            }
        }
    }
}

/// What the operator lists is connected to, each by its own entry; what no setting allows is not.
// fixes: security H2
#[test]
fn what_the_operator_lists_is_connected_to() {
    let world = World::new();
    for kind in ProviderKind::ALL {
        // Web Push connects where a subscription says, which is below.
        for lead in leads(kind).into_iter().filter(|_| kind != ProviderKind::WebPush) {
            for host in LITERALS.iter().copied() {
                let Some(account) = world.account(kind, &lead, host) else { continue };
                let address: IpAddr = host.parse().expect("an address");
                let exit = world.exit(&[at(host)]);
                let probed = world.probe(&exit, &account);
                let what = format!("{kind:?} {} {host}: {probed:?}", lead.pointer);
                match reach(address) {
                    Reach::Never => assert!(probed.is_err() && exit.dialled().is_empty(), "{what}"),
                    Reach::Public | Reach::Private | Reach::Special => {
                        assert!(exit.dialled().contains(&SocketAddr::new(address, PORT)), "{what}");
                    }
                }
            }
            for host in ["loopback.example", "inside.example", "rebind.example"] {
                let Some(account) = world.account(kind, &lead, host) else { continue };
                let exit = world.exit(&[at("127.0.0.1"), at("10.0.0.1"), at(PUBLIC)]);
                let said = world.probe(&exit, &account).expect("names are allowed");
                let what = format!("{kind:?} {} {host}: {said}", lead.pointer);
                assert!(exit.dialled().iter().any(|one| reach(one.ip()) == Reach::Private), "{what}");
            }
        }
    }
}

/// Webhooks, and push services of browsers: each said by a user's endpoint.
// fixes: security H2
#[test]
fn no_endpoint_of_a_user_leads_inside() {
    let world = World::new();
    let browser = Keys::generate();
    let hosts = LITERALS.iter().copied().chain(NAMES.iter().map(|(name, _)| *name));
    for host in hosts {
        let url = format!("https://{}/x", at(host));
        let (p256dh, auth) = (URL_SAFE_NO_PAD.encode(&browser.public), URL_SAFE_NO_PAD.encode(browser.auth));
        let subscription = PushService::WebPush { url: &url, p256dh: &p256dh, auth: &auth };
        let subscription =
            PushAddress { service: subscription, registered_at: Millis(1) }.write().into_bytes();
        for (what, target) in [("webhook", endpoint(&url)), ("subscription", subscription)] {
            let exit = world.exit(&[format!("{PUBLIC}:{PORT}")]);
            let said: Vec<String> = (0..3).map(|_| told(&world.post(&exit, what, &target))).collect();
            assert!(said.contains(&"not sent Forbidden".to_owned()), "{what} {host}: {said:?}");
            exit.assert_nothing_inside(what);
            let Ok(address) = host.parse::<IpAddr>() else { continue };
            let exit = world.exit(&[at(host)]);
            let answer = world.post(&exit, what, &target);
            let is_dialled = exit.dialled().contains(&SocketAddr::new(address, PORT));
            assert_eq!(is_dialled, reach(address) != Reach::Never, "{what} {host}: {answer:?}");
        }
    }
}

impl World {
    fn post(&self, exit: &Exit, what: &str, target: &[u8]) -> Answer {
        self.time.advance(120_000);
        let ports = exit.ports.clone();
        let mut one = shipment(vec![message("ref-1", target)]);
        one.deadline = ports.clock.monotonic().plus(60_000);
        if what == "webhook" {
            let hook = Webhook::new(webhook::Settings::default(), ports).expect("good settings");
            return self.runtime.block_on(send(&hook, &one)).remove(0);
        }
        let settings = webpush::Settings::read(&json!({"subject": "mailto:push@example.com"}));
        let secrets = webpush::Secrets::read(&generate_vapid());
        let push = WebPush::open(settings.expect("settings"), secrets.expect("secrets"), ports);
        self.runtime.block_on(send(&push.expect("a channel"), &one)).remove(0)
    }
}

/// What Amazon's notifications name: where their certificate is, and where a subscription is confirmed.
// fixes: security H2
#[test]
fn no_message_of_sns_leads_inside() {
    let world = World::new();
    let messages: Vec<Value> =
        serde_json::from_str(include_str!("../golden/sns-messages.json")).expect("a list");
    let settings = json!({
        "fromAddress": "news@shop.example", "region": "eu-west-1", "eventTopics": [messages[0]["TopicArn"]],
    });
    let settings = ses::Settings::read(&settings).expect("settings");
    for address in LITERALS {
        let exit = world.exit_with(&[], Names { all: Some(*address), ..Names::default() });
        let sns = Sns::open(&settings, exit.ports.clone()).expect("a reader");
        let taken = world.runtime.block_on(sns.take(messages[0].to_string().as_bytes()));
        let said = taken.expect_err("no certificate").to_string();
        assert!(said.contains("forbidden"), "{address}: {said}");
        let url = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=t";
        let confirmed = world.runtime.block_on(sns.confirm(url)).expect_err("no connection").to_string();
        assert!(confirmed.contains("forbidden"), "{address}: {confirmed}");
        assert!(exit.dialled().is_empty(), "{address}");
    }
}

/// Whatever connects does so in one place, which judges. Operators' own connections (a collector, the command line) and
/// listeners are apart.
// fixes: security H2
#[test]
fn nothing_connects_beside_the_connector() {
    const OWN: &[&str] = &[
        "outbound/src/connector.rs",
        "outbound/src/resolve.rs",
        "server/src/client/dial.rs",
        "server/src/listen.rs",
        "server/src/otlp/endpoint.rs",
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates");
    let mut files = Vec::new();
    for name in ["api", "channels", "node", "outbound", "server"] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 100, "the sources are here");
    let connects = ["TcpStream::connect", "TcpSocket", "UdpSocket", "to_socket_addrs", "lookup_host"];
    let found: BTreeSet<String> = files
        .iter()
        .filter(|file| {
            let text = std::fs::read_to_string(file).expect("a source");
            connects.iter().any(|word| text.contains(word))
        })
        .map(|file| file.strip_prefix(crates).expect("a crate").to_string_lossy().into_owned())
        .collect();
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), OWN);
}

fn sources(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}
