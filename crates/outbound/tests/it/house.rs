//! A pool, the server it talks to, and the time between them.

use super::server::{HOST, Server, Serving};
use super::time::{BEGAN, Time};
use bytes::Bytes;
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::{At, Failure, Limits, Pool, Ports, Reply, Target, Timing};
use fantail_outbound::tls;
use fantail_rules::ids::Millis;
use hyper::Request;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_rustls::server::TlsStream;

pub struct House {
    pub runtime: Runtime,
    pub time: Arc<Time>,
    pub server: Server,
    pub pool: Arc<Pool>,
    /// What the server says to the test.
    said: UnboundedReceiver<String>,
}

/// How the server talks to its test.
pub type Say = UnboundedSender<String>;

pub const TIMING: Timing = Timing { start_by: Millis(BEGAN.0 + 60_000), answer_within_ms: 5_000 };

pub fn one_connection() -> Limits {
    Limits { http2_connections_max: 1, ..Limits::default() }
}

impl House {
    /// Over HTTP/2: `script` is one connection of the server, with its number.
    pub fn new<F>(
        limits: Limits,
        script: impl Fn(usize, TlsStream<TcpStream>, Say) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::over(b"h2", limits, script)
    }

    pub fn over<F>(
        protocol: &[u8],
        limits: Limits,
        script: impl Fn(usize, TlsStream<TcpStream>, Say) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("a runtime");
        let (say, said) = unbounded_channel();
        let serve = move |number, stream| -> Serving { Box::pin(script(number, stream, say.clone())) };
        let server = runtime.block_on(Server::start(runtime.handle(), protocol, serve));
        let time = Time::new(runtime.handle().clone());
        let tls = tls::client(server.root_pem.as_bytes(), &[b"h2", b"http/1.1"]).expect("a root");
        let target =
            Target { host: HOST.to_owned(), port: 443, at: At::Address(server.address), tls: Some(tls) };
        let ports = Ports { clock: time.clone(), tasks: time.clone(), connector: Connector::of_operator() };
        let pool = Arc::new(Pool::with_limits(target, limits, ports));
        Self { runtime, time, server, pool, said }
    }

    pub fn call(&self) -> String {
        self.call_by(TIMING.start_by.0)
    }

    pub fn call_by(&self, start_by: u64) -> String {
        let timing = Timing { start_by: Millis(start_by), ..TIMING };
        self.runtime.block_on(async { told(&self.pool.call(request(), timing).await) })
    }

    /// Another pool, whose server would listen on this port of an address that nobody has.
    pub fn pool_to(&self, port: u16) -> Pool {
        let address = ([127, 0, 0, 2], port).into();
        let target = Target { host: HOST.to_owned(), port: 443, at: At::Address(address), tls: None };
        Pool::new(
            target,
            Ports { clock: self.time.clone(), tasks: self.time.clone(), connector: Connector::of_operator() },
        )
    }

    /// So many at once, aside.
    pub fn calls(&self, number: usize) -> Vec<JoinHandle<String>> {
        let call = |_| self.call_aside(TIMING);
        (0..number).map(call).collect()
    }

    pub fn call_aside(&self, timing: Timing) -> JoinHandle<String> {
        let pool = Arc::clone(&self.pool);
        self.runtime.spawn(async move { told(&pool.call(request(), timing).await) })
    }

    /// Answers, in the order of the alphabet.
    pub fn ends(&self, calls: Vec<JoinHandle<String>>) -> Vec<String> {
        self.runtime.block_on(async {
            let mut ends = Vec::new();
            for call in calls {
                ends.push(call.await.expect("no panic"));
            }
            ends.sort();
            ends
        })
    }

    /// Returns when the server has said so much.
    pub fn hear(&mut self, expected: &str) {
        let said = self.runtime.block_on(self.said.recv());
        assert_eq!(said.as_deref(), Some(expected));
    }

    /// Returns when the pool looks like this.
    pub fn wait_for(&self, is_so: impl Fn(&fantail_outbound::pool::Gauge) -> bool) {
        self.runtime.block_on(async {
            while !is_so(&self.pool.gauge()) {
                tokio::task::yield_now().await;
            }
        });
    }
}

pub fn request() -> Request<Bytes> {
    Request::post("/3/device/ab12").body(Bytes::from_static(b"{}")).expect("a request")
}

pub fn told(outcome: &Result<Reply, Failure>) -> String {
    match outcome {
        Ok(reply) => format!("{} {}", reply.status.as_u16(), String::from_utf8_lossy(&reply.body)),
        Err(Failure::NotSent { proof, .. }) => format!("not sent {proof:?}"),
        Err(Failure::Unknown { code, .. }) => format!("unknown {code}"),
    }
}
