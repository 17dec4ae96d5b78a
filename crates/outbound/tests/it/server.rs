//! A server over TLS that is written by each test: raw frames of HTTP/2, or lines of HTTP/1.1.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::server::TlsStream;

pub const HOST: &str = "push.example.org";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

pub const REFUSED_STREAM: u32 = 7;
pub const INTERNAL_ERROR: u32 = 2;

/// `:status 200`, `204`, `500` as the static table has them.
pub const OK: u8 = 0x88;
pub const SERVER_ERROR: u8 = 0x8e;

pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

pub struct Server {
    pub address: SocketAddr,
    pub root_pem: String,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// `protocol` is what ALPN agrees on; an empty one means a server without ALPN. `serve` gets each connection with its number, from 1 on.
    pub async fn start(
        handle: &Handle,
        protocol: &[u8],
        serve: impl Fn(usize, TlsStream<TcpStream>) -> Serving + Send + Sync + 'static,
    ) -> Self {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()]).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("known versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .expect("the key of the certificate");
        config.alpn_protocols = if protocol.is_empty() { Vec::new() } else { vec![protocol.to_vec()] };
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let (serve, spawner) = (Arc::new(serve), handle.clone());
        handle.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
                let (acceptor, serve) = (acceptor.clone(), Arc::clone(&serve));
                spawner.spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(number, stream).await;
                    }
                });
            }
        });
        Self { address, root_pem: made.cert.pem(), connections }
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// One connection of HTTP/2 on the server's side.
pub struct Raw {
    stream: TlsStream<TcpStream>,
    pub answers_pings: bool,
    /// Streams that the client called off.
    pub cancelled: Vec<u32>,
}

impl Raw {
    /// Reads the preface and says how many streams there may be.
    pub async fn begin(mut stream: TlsStream<TcpStream>, streams_max: u32) -> Self {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.expect("a preface");
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut raw = Self { stream, answers_pings: true, cancelled: Vec::new() };
        raw.allow(streams_max).await;
        raw
    }

    pub async fn allow(&mut self, streams_max: u32) {
        let mut payload = vec![0, 3];
        payload.extend(streams_max.to_be_bytes());
        self.send(SETTINGS, 0, 0, &payload).await;
    }

    /// A client that went away is no error of the server's.
    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        if self.stream.write_all(&frame).await.is_ok() {
            drop(self.stream.flush().await);
        }
    }

    /// `None` when the client closed the connection.
    async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// The stream of the next whole request, 0 for a ping or a stream that is called off, `None` at the end.
    pub async fn request(&mut self) -> Option<u32> {
        loop {
            let frame = self.next().await?;
            match (frame.kind, frame.flags & ACK) {
                (HEADERS | DATA, END_STREAM) => return Some(frame.stream),
                (SETTINGS, 0) => self.send(SETTINGS, ACK, 0, &[]).await,
                (PING, 0) => {
                    if self.answers_pings {
                        self.send(PING, ACK, 0, &frame.payload).await;
                    }
                    return Some(0);
                }
                (RST_STREAM, _) => {
                    self.cancelled.push(frame.stream);
                    return Some(0);
                }
                (GOAWAY, _) => return None,
                _ => {}
            }
        }
    }

    /// Whatever the client sends from now on, until it has answered a ping of ours: proof that nothing else is coming.
    pub async fn requests_until_quiet(&mut self) -> Vec<u32> {
        self.send(PING, 0, 0, b"quiet?!?").await;
        let mut streams = Vec::new();
        while let Some(frame) = self.next().await {
            match (frame.kind, frame.flags & ACK) {
                (PING, ACK) => break,
                (SETTINGS, 0) => self.send(SETTINGS, ACK, 0, &[]).await,
                (HEADERS | DATA, END_STREAM) => streams.push(frame.stream),
                _ => {}
            }
        }
        streams
    }

    pub async fn answer(&mut self, stream: u32, status: u8) {
        self.send(HEADERS, END_STREAM | END_HEADERS, stream, &[status]).await;
    }

    pub async fn answer_body(&mut self, stream: u32, status: u8, body: &[u8]) {
        self.send(HEADERS, END_HEADERS, stream, &[status]).await;
        self.send(DATA, END_STREAM, stream, body).await;
    }

    pub async fn reset(&mut self, stream: u32, code: u32) {
        self.send(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    pub async fn go_away(&mut self, last_stream: u32) {
        let mut payload = last_stream.to_be_bytes().to_vec();
        payload.extend(0_u32.to_be_bytes());
        payload.extend(br#"{"reason":"Shutdown"}"#);
        self.send(GOAWAY, 0, 0, &payload).await;
    }

    /// Until the client closes the connection.
    pub async fn drain(&mut self) {
        while self.request().await.is_some() {}
    }

    /// Answers everything.
    pub async fn answer_all(&mut self) {
        while let Some(stream) = self.request().await {
            if stream != 0 {
                self.answer(stream, OK).await;
            }
        }
    }
}
