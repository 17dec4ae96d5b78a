//! Ports: each takes connections, finds out what is spoken (TLS or not, HTTP/2 or 1.1), and serves them.
//!
//! A client that agrees on nothing by ALPN may still begin with the preface of HTTP/2: its first bytes decide.

use crate::connection::Connection;
use crate::emulator::{Raw, Streams};
use crate::hosts;
use crate::rewind;
use crate::world::{Site, World};
use crate::{http1, http2};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::{debug, warn};

/// Connections of one port; more wait in the backlog.
const CONNECTIONS_MAX: usize = 4_096;
/// A client has so long to say what it speaks.
const HANDSHAKE: Duration = Duration::from_secs(20);
const STREAMS_BY_DEFAULT: Streams = Streams { first: 100, proven: 100 };
/// How a TLS handshake begins.
const TLS_FIRST_BYTE: u8 = 22;

pub(crate) async fn http(listener: TcpListener, site: Site) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Some((stream, permit)) = accept(&listener, &connections).await {
        let site = site.clone();
        tokio::spawn(async move {
            if let Err(error) = connect(stream, site).await {
                debug!(%error, "no connection");
            }
            drop(permit);
        });
    }
}

pub(crate) async fn raw(listener: TcpListener, world: World, emulator: Arc<dyn Raw>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Some((stream, permit)) = accept(&listener, &connections).await {
        let (world, emulator) = (world.clone(), Arc::clone(&emulator));
        tokio::spawn(async move {
            let connection = Arc::new(Connection::new(world.0.connections.number(), None, 1));
            world.0.connections.belongs(emulator.name(), &connection);
            emulator.serve(stream, Arc::clone(&connection)).await;
            world.0.connections.ended(connection.number);
            drop(permit);
        });
    }
}

pub(crate) async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(connections).acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Some((stream, permit)),
            Err(error) => {
                // Out of descriptors, as a rule: others have to end first.
                warn!(%error, "a connection could not be taken");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connect(stream: TcpStream, site: Site) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    let seen = timeout(HANDSHAKE, stream.peek(&mut first)).await??;
    if seen == 0 {
        return Ok(());
    }
    if first[0] != TLS_FIRST_BYTE {
        return sniff(stream, site, None, false).await;
    }
    let stream = timeout(HANDSHAKE, site.world.0.tls.accept(stream)).await??;
    let (name, protocol) = {
        let (_, session) = stream.get_ref();
        (session.server_name().map(hosts::name), session.alpn_protocol().map(<[u8]>::to_vec))
    };
    if protocol.as_deref() == Some(b"h2") {
        return serve(stream, site, name, Protocol { is_http2: true, is_tls: true }).await;
    }
    sniff(stream, site, name, true).await
}

async fn sniff<S>(stream: S, site: Site, name: Option<String>, is_tls: bool) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (is_http2, stream) = timeout(HANDSHAKE, rewind::is_http2(stream)).await??;
    serve(stream, site, name, Protocol { is_http2, is_tls }).await
}

#[derive(Clone, Copy)]
struct Protocol {
    is_http2: bool,
    is_tls: bool,
}

async fn serve<S>(stream: S, site: Site, name: Option<String>, protocol: Protocol) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let emulator = site.by_name(name.as_deref().unwrap_or_default()).cloned();
    let streams = emulator.as_ref().map_or(STREAMS_BY_DEFAULT, |emulator| emulator.streams());
    let world = site.world.clone();
    let connection = Arc::new(Connection::new(world.0.connections.number(), name, streams.proven));
    if let Some(emulator) = &emulator {
        world.0.connections.belongs(emulator.name(), &connection);
    }
    let number = connection.number;
    let emulators = Arc::clone(&site.emulators);
    if protocol.is_http2 {
        http2::serve(stream, connection, site, streams, protocol.is_tls).await;
    } else {
        http1::serve(stream, connection, site, protocol.is_tls).await;
    }
    world.0.connections.ended(number);
    for emulator in emulators.iter() {
        emulator.closed(number);
    }
    Ok(())
}
