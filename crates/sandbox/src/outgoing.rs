//! Calls that emulators make: callbacks, events, inbound messages. HTTP/1.1, one connection each.
//!
//! What must never happen: a call that leaves this machine. Names are looked up here, and only an address of this machine
//! is connected to; over TLS it has to show a certificate of our own authority.

use crate::world::World;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::http::uri::{Authority, Scheme};
use hyper::http::{HeaderMap, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const WITHIN: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("the URL cannot be called")]
    BadUrl,
    #[error("the host is not on this machine")]
    Elsewhere,
    #[error("no answer: {cause}")]
    NoAnswer { cause: String },
}

/// Posts once and says what was answered.
pub async fn post(
    world: &World,
    url: &str,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, CallError> {
    let uri: Uri = url.parse().map_err(|_| CallError::BadUrl)?;
    let authority = uri.authority().cloned().ok_or(CallError::BadUrl)?;
    let is_tls = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => true,
        Some(scheme) if *scheme == Scheme::HTTP => false,
        _ => return Err(CallError::BadUrl),
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = hyper::Method::POST;
    *request.uri_mut() = path.parse().map_err(|_| CallError::BadUrl)?;
    *request.headers_mut() = headers;
    let host = authority.as_str().parse().map_err(|_| CallError::BadUrl)?;
    request.headers_mut().insert("host", host);
    let call = exchange(world, &authority, is_tls, request);
    match tokio::time::timeout(WITHIN, call).await {
        Ok(answer) => answer,
        Err(_) => Err(CallError::NoAnswer { cause: "it took too long".to_owned() }),
    }
}

async fn exchange(
    world: &World,
    authority: &Authority,
    is_tls: bool,
    request: Request<Full<Bytes>>,
) -> Result<StatusCode, CallError> {
    let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let mut addresses = tokio::net::lookup_host((host, port)).await.map_err(no_answer)?;
    let address = addresses.find(|address| address.ip().is_loopback()).ok_or(CallError::Elsewhere)?;
    let stream = TcpStream::connect(address).await.map_err(no_answer)?;
    if !is_tls {
        return send(stream, request).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|_| CallError::BadUrl)?;
    let connector = TlsConnector::from(client(world).map_err(no_answer)?);
    send(connector.connect(name, stream).await.map_err(no_answer)?, request).await
}

fn client(world: &World) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let root =
        CertificateDer::from_pem_slice(world.authority().pem().as_bytes()).map_err(io::Error::other)?;
    roots.add(root).map_err(io::Error::other)?;
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

async fn send<S>(stream: S, request: Request<Full<Bytes>>) -> Result<StatusCode, CallError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(no_answer)?;
    let answering = async {
        let response = sender.send_request(request).await.map_err(no_answer)?;
        let status = response.status();
        Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(no_answer)?;
        Ok(status)
    };
    tokio::pin!(connection);
    tokio::select! {
        answer = answering => answer,
        ended = &mut connection => Err(no_answer(format!("{ended:?}"))),
    }
}

fn no_answer(error: impl ToString) -> CallError {
    CallError::NoAnswer { cause: error.to_string() }
}
