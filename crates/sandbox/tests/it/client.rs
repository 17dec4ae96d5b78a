//! A small client: TLS with the sandbox's authority, HTTP/2 by h2 itself so that frames can be seen, HTTP/1.1 by hyper.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use fantail_sandbox::{Options, Running, Sandbox};
use h2::client::{ResponseFuture, SendRequest};
use http_body_util::{BodyExt, Full};
use hyper::http::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs as provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub async fn start() -> Running {
    Sandbox::start(Options::default()).await.expect("a sandbox")
}

pub async fn tls(
    running: &Running,
    address: SocketAddr,
    name: &str,
    protocols: &[&[u8]],
) -> TlsStream<TcpStream> {
    let pem = running.ca_pem();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")).expect("a root");
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("TLS")
}

pub struct Http2 {
    pub sender: SendRequest<Bytes>,
    /// How the connection ended.
    pub ended: oneshot::Receiver<Result<(), h2::Error>>,
}

pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// One entry per DATA frame.
    pub frames: Vec<Bytes>,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.frames.concat()).unwrap_or_default()
    }
}

impl Http2 {
    pub async fn open(running: &Running, address: SocketAddr, name: &str) -> Self {
        Self::over(tls(running, address, name, &[b"h2"]).await).await
    }

    pub async fn over(stream: TlsStream<TcpStream>) -> Self {
        let (sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        let (end, ended) = oneshot::channel();
        tokio::spawn(async move {
            // Nobody may be waiting for the end any more.
            drop(end.send(connection.await));
        });
        Self { sender, ended }
    }

    /// Sends without waiting for the answer.
    pub async fn send(&mut self, request: Request<Bytes>) -> Result<ResponseFuture, h2::Error> {
        poll_fn(|cx| self.sender.poll_ready(cx)).await?;
        let (head, body) = request.into_parts();
        let (response, mut stream) = self.sender.send_request(Request::from_parts(head, ()), false)?;
        stream.send_data(body, true)?;
        Ok(response)
    }

    pub async fn call(&mut self, request: Request<Bytes>) -> Result<Reply, h2::Error> {
        read(self.send(request).await?).await
    }
}

pub async fn read(response: ResponseFuture) -> Result<Reply, h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    let mut frames = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        frames.push(data);
    }
    Ok(Reply { status: head.status, headers: head.headers, frames })
}

/// HTTP/1.1 without TLS: the control API.
pub async fn control(running: &Running, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
    let stream = TcpStream::connect(running.control()).await.expect("a connection");
    let headers = [("content-type", "application/json")];
    let (status, body) = http1_with(stream, (method, path, &headers), body.to_string().into()).await;
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

pub async fn http1<S>(stream: S, method: &str, path: &str, body: Bytes) -> (StatusCode, Bytes)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    http1_with(stream, (method, path, &[]), body).await
}

/// The same, with headers beside the host.
pub async fn http1_with<S>(
    stream: S,
    (method, path, headers): (&str, &str, &[(&str, &str)]),
    body: Bytes,
) -> (StatusCode, Bytes)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body)).expect("a request");
    let (head, body) = sender.send_request(request).await.expect("an answer").into_parts();
    (head.status, body.collect().await.expect("a body").to_bytes())
}

/// A key of Apple's kind.
pub struct ProviderKey(EcdsaKeyPair);

impl ProviderKey {
    pub fn new() -> Self {
        Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    pub fn public(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.public_key().as_ref())
    }

    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    pub fn token(&self, team: &str, issued_ms: u64) -> String {
        self.sign(&json!({"alg": "ES256", "kid": "KEY"}), &json!({"iss": team, "iat": issued_ms / 1_000}))
    }
}
