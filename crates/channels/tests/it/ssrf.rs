//! Targets that a stranger may choose to reach what only this machine can reach. Every one of them must end without a
//! connection: the listeners see none but the test's own.

use super::house::{House, policy, secret};
use super::parcel::{message, send, shipment, told};
use super::time::Time;
use fantail_channels::webhook::{Settings, Webhook};
use fantail_outbound::connector::{Connector, SystemDialer};
use fantail_outbound::pool::Ports;
use fantail_outbound::resolve::{Resolve, SystemResolver};
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Proof, Refusal};
use fantail_rules::ids::TenantId;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

/// Gives the next list at each lookup, the last one again and again.
struct Script {
    answers: Vec<Vec<IpAddr>>,
    lookups: AtomicUsize,
    names: Mutex<Vec<String>>,
}

impl Script {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|text| text.parse().expect("an address")).collect();
        let answers = answers.iter().map(parse).collect();
        Arc::new(Self { answers, lookups: AtomicUsize::new(0), names: Mutex::default() })
    }

    fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

impl Resolve for Script {
    fn resolve(&self, _whose: Option<TenantId>, name: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        self.names.lock().expect("no test panics inside").push(name.to_owned());
        let lookup = self.lookups.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers[lookup.min(self.answers.len() - 1)].clone();
        Box::pin(async move { Ok(answer) })
    }
}

/// Listeners on this machine, and a channel that may connect to their port without TLS, but to no private address.
struct Trap {
    runtime: Runtime,
    listeners: Vec<TcpListener>,
    port: u16,
}

impl Trap {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("a runtime");
        let listeners = runtime.block_on(async {
            let first = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let port = first.local_addr().expect("a bound port").port();
            // The same port at the other addresses of this machine, where the machine has them.
            let mut listeners = vec![first];
            for address in ["127.0.0.2", "::1"] {
                let address: IpAddr = address.parse().expect("an address");
                listeners.extend(TcpListener::bind(SocketAddr::new(address, port)).await.ok());
            }
            listeners
        });
        let port = listeners[0].local_addr().expect("a bound port").port();
        Self { runtime, listeners, port }
    }

    /// What is listed is public, so that neither a scheme nor a port is the reason of a refusal.
    fn hook(&self, resolver: Arc<dyn Resolve>) -> Webhook {
        self.hook_to(resolver, &["8.8.8.8:*".to_owned()])
    }

    fn hook_to(&self, resolver: Arc<dyn Resolve>, targets: &[String]) -> Webhook {
        let time = Time::new(Some(self.runtime.handle().clone()));
        let connector = Connector::with(policy(targets), resolver, Arc::new(SystemDialer));
        let ports = Ports { clock: time.clone(), tasks: time, connector };
        Webhook::new(Settings::default(), ports).expect("good settings")
    }

    fn post(&self, hook: &Webhook, url: &str) -> Answer {
        let shipment = shipment(vec![message("ref-1", &stored(url))]);
        self.runtime.block_on(send(hook, &shipment)).remove(0)
    }

    /// The first connection that a listener sees is the one that is made here.
    fn assert_no_connection(&self) {
        self.runtime.block_on(async {
            for listener in &self.listeners {
                let own =
                    TcpStream::connect(listener.local_addr().expect("bound")).await.expect("a connection");
                let (_, peer) = listener.accept().await.expect("a connection");
                assert_eq!(peer, own.local_addr().expect("connected"), "someone else connected before");
            }
        });
    }
}

/// The bytes of an endpoint as they are stored, whatever the URL: no check stands before the channel's own.
fn stored(url: &str) -> Vec<u8> {
    let mut bytes = vec![1];
    let mut field = |tag: u8, field: &[u8]| {
        bytes.push(tag);
        bytes.extend(u16::try_from(field.len()).expect("a short field").to_be_bytes());
        bytes.extend(field);
    };
    field(1, url.as_bytes());
    field(2, &[7; 32]);
    assert_eq!(secret().reveal().len(), 50, "the secret of the other tests has the same form");
    bytes
}

fn is_refused(answer: &Answer) -> bool {
    matches!(
        answer,
        Answer::Rejected { refusal: Refusal::Malformed, .. }
            | Answer::NotSent { proof: Proof::Forbidden, .. }
    )
}

/// `#` stands for the port of the listeners.
const URLS: &[&str] = &[
    // Plainly inside.
    "http://127.0.0.1:#/",
    "https://127.0.0.1:#/",
    "http://127.0.0.2:#/",
    "http://127.1.2.3:#/",
    "http://127.255.255.254:#/",
    "http://0.0.0.0:#/",
    "http://10.0.0.1:#/",
    "http://172.16.0.1:#/",
    "http://192.168.0.1:#/",
    "http://100.64.0.1:#/",
    "http://169.254.169.254:#/latest/meta-data/",
    "http://100.100.100.200:#/",
    "http://192.0.0.192:#/",
    "http://168.63.129.16:#/",
    "http://198.18.0.1:#/",
    "http://224.0.0.1:#/",
    "http://240.0.0.1:#/",
    "http://255.255.255.255:#/",
    "http://192.0.2.1:#/",
    "http://198.51.100.1:#/",
    "http://203.0.113.1:#/",
    // Numbers that some readers take for an address.
    "http://2130706433:#/",
    "http://0x7f000001:#/",
    "http://0x7F000001:#/",
    "http://017700000001:#/",
    "http://0177.0.0.1:#/",
    "http://0177.0.0.01:#/",
    "http://0x7f.0.0.1:#/",
    "http://0x7f.0x0.0x0.0x1:#/",
    "http://0x7f.1:#/",
    "http://127.1:#/",
    "http://127.0.1:#/",
    "http://127.0.0.1.:#/",
    "http://0:#/",
    "http://0x0:#/",
    "http://00.00.00.00:#/",
    "http://4294967296:#/",
    "http://6425673729:#/",
    "http://127.0.0.257:#/",
    "http://383.0.0.1:#/",
    "http://127.000.000.001:#/",
    "http://%31%32%37.0.0.1:#/",
    "http://127。0。0。1:#/",
    "http://①②⑦.⓪.⓪.①:#/",
    // Version 6, and version 4 inside of it.
    "http://[::1]:#/",
    "http://[0:0:0:0:0:0:0:1]:#/",
    "http://[0000::0001]:#/",
    "http://[::]:#/",
    "http://[::127.0.0.1]:#/",
    "http://[::7f00:1]:#/",
    "http://[::ffff:127.0.0.1]:#/",
    "http://[::ffff:7f00:1]:#/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:#/",
    "http://[::ffff:0:127.0.0.1]:#/",
    "http://[64:ff9b::127.0.0.1]:#/",
    "http://[64:ff9b::7f00:1]:#/",
    "http://[64:ff9b:1::7f00:1]:#/",
    "http://[2002:7f00:1::]:#/",
    "http://[2002:7f00:0001::1]:#/",
    "http://[2001:0:7f00:1::1]:#/",
    "http://[fe80::1]:#/",
    "http://[fe80::1%25lo]:#/",
    "http://[fe80::1%lo]:#/",
    "http://[fec0::1]:#/",
    "http://[fc00::1]:#/",
    "http://[fd00:ec2::254]:#/",
    "http://[ff02::1]:#/",
    "http://[2001:db8::1]:#/",
    "http://[::1%250]:#/",
    // Names of this machine.
    "http://localhost:#/",
    "http://LOCALHOST:#/",
    "http://LocalHost:#/",
    "http://localhost.:#/",
    "http://localhost.localdomain:#/",
    "http://foo.localhost:#/",
    "http://ip6-localhost:#/",
    "http://metadata:#/",
    "http://ʟocalhost:#/",
    "http://localhost%00.example.org:#/",
    "http://localhost%2eexample.org:#/",
    // A host that is elsewhere than it seems.
    "http://example.org@127.0.0.1:#/",
    "http://example.org:80@127.0.0.1:#/",
    "http://127.0.0.1:#@example.org/",
    "http://@127.0.0.1:#/",
    "http://127.0.0.1:#\\@example.org/",
    "http://example.org\\@127.0.0.1:#/",
    "http://127.0.0.1:##@example.org/",
    "http://example.org#@127.0.0.1:#/",
    "http://example.org/@127.0.0.1:#/\r\nHost: x",
    "http://127.0.0.1:# /",
    "http://127.0.0.1\t:#/",
    "http:127.0.0.1:#/",
    "http:/127.0.0.1:#/",
    "http:///127.0.0.1:#/",
    "http:\\\\127.0.0.1:#\\",
    "//127.0.0.1:#/",
    "127.0.0.1:#",
    "gopher://127.0.0.1:#/",
    "ftp://127.0.0.1:#/",
    "file:///etc/hosts",
    "unix:/var/run/docker.sock",
    "dict://127.0.0.1:#/",
    "jar:http://127.0.0.1:#!/",
    "http://[127.0.0.1]:#/",
    "http://[localhost]:#/",
    "http://127.0.0.1:00000#/",
];

#[test]
fn no_form_of_an_inner_address_is_connected_to() {
    assert!(URLS.len() >= 60);
    let trap = Trap::new();
    // With the machine's own resolver, and with one that would fall for everything.
    let gullible = Script::new(&[&["127.0.0.1", "::1", "::ffff:127.0.0.1"]]);
    let resolvers: [Arc<dyn Resolve>; 2] = [Arc::new(SystemResolver::default()), gullible];
    for resolver in resolvers {
        let hook = trap.hook(resolver);
        for url in URLS {
            let url = url.replace('#', &trap.port.to_string());
            let answer = trap.post(&hook, &url);
            let not_found = ["localdomain", "foo.", "ip6-localhost"].iter().any(|name| url.contains(name));
            let is_safe = is_refused(&answer) || (not_found && told(&answer) == "not sent NoConnection");
            assert!(is_safe, "{url}: {answer:?}");
        }
    }
    trap.assert_no_connection();
}

#[test]
fn every_address_of_a_name_is_judged() {
    let trap = Trap::new();
    let inner = [
        "127.0.0.1",
        "127.0.0.2",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "0.0.0.0",
        "::",
        "10.0.0.1",
        "169.254.169.254",
        "fe80::1",
        "fd00::1",
        "100.64.0.1",
        "255.255.255.255",
    ];
    for address in inner {
        let hook = trap.hook(Script::new(&[&[address]]));
        let answer = trap.post(&hook, &format!("http://example.org:{}/", trap.port));
        assert_eq!(told(&answer), "not sent Forbidden", "{address}");
        let shown = format!("{answer:?}");
        assert!(!shown.contains(address), "a stranger learns no address: {shown}");
    }
    let hook = trap.hook(Script::new(&[&inner]));
    let answer = trap.post(&hook, &format!("http://example.org:{}/", trap.port));
    assert_eq!(told(&answer), "not sent Forbidden");
    let hook = trap.hook(Script::new(&[&[]]));
    assert_eq!(told(&trap.post(&hook, "http://example.org/")), "not sent Forbidden");
    trap.assert_no_connection();
}

#[test]
fn an_allowed_host_does_not_open_special_addresses() {
    let trap = Trap::new();
    let allow = [format!(".internal:{}", trap.port)];
    for address in ["169.254.169.254", "0.0.0.0", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "fd00:ec2::254"] {
        let hook = trap.hook_to(Script::new(&[&[address]]), &allow);
        let answer = trap.post(&hook, &format!("http://a.internal:{}/", trap.port));
        assert_eq!(told(&answer), "not sent Forbidden", "{address}");
    }
    let hook = trap.hook_to(Script::new(&[&["127.0.0.1"]]), &allow);
    for host in ["internal", "a.internal.example.org", "ainternal.example"] {
        let answer = trap.post(&hook, &format!("http://{host}:{}/", trap.port));
        assert_eq!(told(&answer), "not sent Forbidden", "{host}");
    }
    trap.assert_no_connection();
}

#[test]
fn a_name_that_changes_is_judged_for_every_connection() {
    let trap = Trap::new();
    // First where it may be, then where it may not, then as a mixture.
    let script = Script::new(&[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.2", "::1", "127.0.0.1"]]);
    let house = House::build(None, script.clone(), |_| ());
    let port = house.sink.address.port();
    let url = |path: &str| format!("http://rebind.example.org:{port}{path}");
    assert_eq!(told(&house.post_to(&url("/status/200"))), "accepted");
    assert_eq!(script.lookups(), 1, "judged and connected to is the same answer");
    house.wait_for_idle(1);
    assert_eq!(told(&house.post_to(&url("/status/200"))), "accepted", "over the connection that was judged");
    assert_eq!(script.lookups(), 1);
    house.wait_for_idle(1);
    house.sink.close_idle();
    house.wait_for_idle(0);
    assert_eq!(told(&house.post_to(&url("/status/200"))), "not sent Forbidden");
    assert_eq!(told(&house.post_to(&url("/status/200"))), "accepted");
    assert_eq!(script.lookups(), 3);
    assert_eq!(house.sink.counts().connections, 2);
    assert_eq!(script.names.lock().expect("no test panics inside")[0], "rebind.example.org");
    trap.assert_no_connection();
}

#[test]
fn redirects_are_not_followed() {
    let trap = Trap::new();
    let house = House::new();
    assert_eq!(told(&house.post(&format!("/redirect/{}", trap.port))), "rejected Message 302");
    let own = house.sink.address.port();
    assert_eq!(told(&house.post(&format!("/redirect/{own}"))), "rejected Message 302");
    assert_eq!(house.sink.counts().requests, 2);
    trap.assert_no_connection();
}

#[test]
fn ports_and_schemes_are_listed() {
    let trap = Trap::new();
    let hook = trap.hook_to(Arc::new(SystemResolver::default()), &["127.0.0.1".to_owned()]);
    for url in
        ["http://127.0.0.1:443/", "http://127.0.0.1:#/", "https://127.0.0.1:#/", "https://127.0.0.1:22/"]
    {
        let url = url.replace('#', &trap.port.to_string());
        assert_eq!(told(&trap.post(&hook, &url)), "not sent Forbidden", "{url}");
    }
    trap.assert_no_connection();
}
