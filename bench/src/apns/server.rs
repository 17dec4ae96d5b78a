//! A server of HTTP/2 over TLS that takes every push and looks at none: so cheap that whoever sends to it is the limit.
//!
//! It reads frame headers, answers each request with 200 and an `apns-id`, gives back flow control, and understands nothing
//! else. Runs as a process of its own, so that the client's CPU time is the client's alone.

use super::echo;
use crate::sending::tell_port;
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::server::TlsStream;

pub const HOST: &str = "localhost";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const PREFACE_BYTES: usize = 24;
const WINDOW_BYTES: u32 = 1 << 30;
const STREAMS_MAX: u32 = 1_000;

/// Writes its certificate and port into the directory, and serves until it is killed. `echoes` for senders that need it.
pub fn run(directory: &Path, echoes: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port")?;
        std::fs::write(directory.join("ca.pem"), made.cert.pem())?;
        tell_port(directory, &listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that goes away is no concern of the server's.
                match acceptor.accept(stream).await {
                    Ok(stream) if echoes => drop(echo::serve(stream).await),
                    Ok(stream) => drop(serve(stream).await),
                    Err(_) => {}
                }
            });
        }
    })
}

async fn serve(mut stream: TlsStream<TcpStream>) -> Result<()> {
    let (mut read, mut out) = (Vec::with_capacity(1 << 18), Vec::with_capacity(1 << 16));
    while read.len() < PREFACE_BYTES {
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
    }
    read.drain(..PREFACE_BYTES);
    let mut settings = Vec::new();
    for (id, value) in [(3_u16, STREAMS_MAX), (4, WINDOW_BYTES)] {
        settings.extend(id.to_be_bytes());
        settings.extend(value.to_be_bytes());
    }
    frame(&mut out, SETTINGS, 0, 0, &settings)?;
    frame(&mut out, WINDOW_UPDATE, 0, 0, &WINDOW_BYTES.to_be_bytes())?;
    let answer = answer();
    let mut taken_bytes = 0;
    loop {
        taken_bytes += answer_all(&mut read, &mut out, &answer)?;
        if taken_bytes > WINDOW_BYTES / 2 {
            frame(&mut out, WINDOW_UPDATE, 0, 0, &taken_bytes.to_be_bytes())?;
            taken_bytes = 0;
        }
        if !out.is_empty() {
            stream.write_all(&out).await?;
            stream.flush().await?;
            out.clear();
        }
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
    }
}

/// Answers all whole frames, and says how many bytes of bodies they had.
fn answer_all(read: &mut Vec<u8>, out: &mut Vec<u8>, answer: &[u8]) -> Result<u32> {
    let (mut at, mut taken_bytes) = (0, 0);
    while let Some(head) = read.get(at..at + 9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let end = at + 9 + length as usize;
        let Some(payload) = read.get(at + 9..end) else { break };
        if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
            frame(out, HEADERS, END_STREAM | 4, stream, answer)?;
        }
        match (kind, flags & ACK) {
            (DATA, _) => taken_bytes += length,
            (SETTINGS, 0) => frame(out, SETTINGS, ACK, 0, &[])?,
            (PING, 0) => frame(out, PING, ACK, 0, payload)?,
            _ => {}
        }
        at = end;
    }
    read.drain(..at);
    Ok(taken_bytes)
}

/// `:status 200` and an id, as Apple answers.
fn answer() -> Vec<u8> {
    let mut answer = vec![0x88, 0x00, 7];
    answer.extend(b"apns-id");
    answer.push(36);
    answer.extend(b"00000000-0000-4000-8000-000000000000");
    answer
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<()> {
    let length = u32::try_from(payload.len())?.to_be_bytes();
    out.extend([length[1], length[2], length[3], kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    Ok(())
}
