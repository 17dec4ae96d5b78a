//! Hostile connections of one address, from a process of its own: idle ones, slow ones, some that ask without end and some that never
//! read. A client at another address is answered, and the server's memory stays in bounds.
//!
//! `FANTAIL_HOSTILE_CONNECTIONS` says how many there are; with `make nightly` 10,000. Then the ratio of the client's p99 and the
//! memory are printed.
#![expect(clippy::print_stdout, reason = "figures for people, and a word from one process to the other")]

use crate::deliveries::metric;
use crate::server::Server;
use crate::world::{eventually, expect, put_user};
use fantail_server::client::Client;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where the other process attacks, and with how many connections.
const TARGET: &str = "FANTAIL_HOSTILE_TARGET";
const CONNECTIONS: &str = "FANTAIL_HOSTILE_CONNECTIONS";
const HOSTILE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const FRIENDLY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const MEMORY_MIB_MAX: u64 = 256;
/// Requests of the client before the attack, and as many during it.
const REQUESTS: usize = 2_000;
/// Connections of one address, where there is a limit.
const PER_ADDRESS: usize = 20;

fn connections() -> usize {
    std::env::var(CONNECTIONS).ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// Connects from an address of this machine.
fn connect(from: Ipv4Addr, to: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        if from == HOSTILE {
            // Little fits in flight that is not read.
            socket.set_recv_buffer_size(4_096).expect("a buffer");
        }
        socket.bind(SocketAddr::from((from, 0))).expect("an address of this machine");
        socket.connect(to.parse().expect("an address")).await.expect("the server listens")
    });
    let stream = stream.into_std().expect("a stream");
    stream.set_nonblocking(false).expect("a stream");
    stream
}

/// What a hostile connection begins with. The number chooses the kind.
fn begin(stream: &mut TcpStream, no: usize) {
    let get = "GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n";
    let sent = match no % 4 {
        0 => String::new(),
        1 => "GET /livez HTTP/1.1\r\nhost: ".to_owned(),
        2 => get.repeat(200),
        _ => get.to_owned(),
    };
    stream.set_nonblocking(true).expect("a stream");
    // What the server does not take, or ends, is its answer to this kind.
    drop(stream.write_all(sent.as_bytes()));
}

/// The other process. Does nothing where it is a test among others.
#[test]
fn attack() {
    let Ok(target) = std::env::var(TARGET) else { return };
    let mut streams: Vec<TcpStream> = Vec::new();
    for no in 0..connections() {
        let mut stream = connect(HOSTILE, &target);
        begin(&mut stream, no);
        streams.push(stream);
    }
    println!("\nattacking");
    // Until its parent ends it, slow ones say a little and the endless ones ask again.
    loop {
        std::thread::park_timeout(Duration::from_millis(200));
        for (no, stream) in streams.iter_mut().enumerate() {
            match no % 4 {
                1 => drop(stream.write_all(b"x")),
                2 => drop(stream.write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n")),
                _ => {}
            }
        }
    }
}

struct Attacker(Child);

impl Attacker {
    fn start(target: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "hostile::attack", "--nocapture"]).env(TARGET, target);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let begun = lines.any(|line| line.expect("text") == "attacking");
        assert!(begun, "the attack began");
        Self(child)
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is fine.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Asks so often and gives the p99, in microseconds.
fn p99_us(client: &mut Client) -> u128 {
    let mut times: Vec<u128> = (0..REQUESTS)
        .map(|_| {
            let began = Instant::now();
            expect(client.get("/api/v1/users/bob"), 200);
            began.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    times[REQUESTS * 99 / 100]
}

fn memory_mib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") >> 10
}

fn friend(server: &Server) -> Client {
    let stream = connect(FRIENDLY, &server.address);
    Client::over(&server.address, Box::new(stream)).with_key(&server.key("default.key"))
}

fn check(name: &str, settings: &[(&str, &str)], refused_min: u64) {
    let server = Server::start_with(&[], settings);
    put_user(&mut server.client(), "bob");
    let mut client = friend(&server);
    let before = p99_us(&mut client);
    let attacker = Attacker::start(&server.address);
    let during = p99_us(&mut client);
    let memory = memory_mib(&server);
    println!(
        "{name}: {} hostile connections, p99 {before} us before and {during} us during ({:.2} times), {memory} MiB",
        connections(),
        during as f64 / before as f64
    );
    assert!(memory <= MEMORY_MIB_MAX, "{memory} MiB");
    // Probes are answered whoever comes, and where addresses have a limit so is everything else.
    let mut probe = Client::over(&server.address, Box::new(connect(FRIENDLY, &server.address)));
    expect(probe.get("/livez"), 200);
    if refused_min > 0 {
        expect(friend(&server).get("/api/v1/users/bob"), 200);
        eventually("the others were refused", || {
            let refused = metric(&mut client, "fantail_connections_refused_total", "");
            (refused >= refused_min).then_some(())
        });
        let mut hostile = connect(HOSTILE, &server.address);
        let ask = "GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n";
        hostile.write_all(ask.as_bytes()).expect("it is taken");
        let mut answer = String::new();
        hostile.read_to_string(&mut answer).expect("an answer");
        assert!(answer.contains("TOO_MANY_CONNECTIONS"), "{answer}");
    }
    drop(attacker);
}

// fixes: security M6, proved N1
#[test]
fn an_address_with_a_limit_leaves_the_places_to_others() {
    let limit = PER_ADDRESS.to_string();
    let settings =
        [("FANTAIL_HTTP_LIMIT_LOOPBACK", "true"), ("FANTAIL_HTTP_CONNECTIONS_PER_ADDRESS", &limit)];
    check("with a limit", &settings, (connections() - PER_ADDRESS) as u64);
}

// fixes: security M6, proved N1
#[test]
fn without_a_limit_a_client_that_is_in_is_answered_and_memory_is_bounded() {
    check("without a limit", &[("FANTAIL_HTTP_CONNECTIONS_PER_ADDRESS", "0")], 0);
}
