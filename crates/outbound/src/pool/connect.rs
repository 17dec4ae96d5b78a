//! Makes a connection: name, TCP, TLS, and the protocol that ALPN agreed on.

use super::http1::{self, Http1};
use super::http2::{self, Begun};
use super::{At, Shared, Target};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tracing::debug;

pub enum Connected {
    One(Box<Http1>),
    Two(Box<Begun>),
}

/// An error is a sentence without secrets.
pub async fn connect(shared: &Arc<Shared>) -> Result<Connected, String> {
    let until = shared.now().plus(shared.limits.connect_ms_max);
    match shared.within(until, pin!(open(shared))).await {
        None => Err("no connection in time".to_owned()),
        Some(result) => result.map_err(|error| error.to_string()),
    }
}

impl Shared {
    pub(super) fn connected(self: &Arc<Self>, result: Result<Connected, String>) {
        let now = self.now();
        let mut state = self.lock();
        state.connecting -= 1;
        match result {
            Ok(Connected::One(one)) => state.add_http1(one, now),
            Ok(Connected::Two(begun)) => {
                let Begun { sender, connection, stalled } = *begun;
                let id = state.add_http2(sender, now);
                let driving = http2::drive(self, id, connection, stalled);
                self.ports.tasks.spawn("outbound connection", Box::pin(driving));
            }
            Err(message) => {
                debug!(host = self.target.host, message, "no connection");
                state.not_connected(now, &message);
            }
        }
        self.serve(&mut state, now);
    }
}

async fn open(shared: &Arc<Shared>) -> io::Result<Connected> {
    let Target { host, at, tls, .. } = &shared.target;
    let connector = &shared.ports.connector;
    let stream = match at {
        At::Judged(judged) => connector.dial(*judged).await,
        At::Name | At::Address(_) => connector.connect(&shared.target.destination()).await,
    };
    let stream = stream.map_err(io::Error::other)?;
    let Some(tls) = tls else { return http1::begin(shared, stream).await.map(Connected::One) };
    let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
    let stalled = Arc::new(AtomicBool::new(false));
    let watched = Watched { stream, stalled: Arc::clone(&stalled) };
    let stream = TlsConnector::from(Arc::clone(tls)).connect(name, watched).await?;
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => http2::begin(stream, stalled).await.map(|begun| Connected::Two(Box::new(begun))),
        // To speak HTTP/1.1 to a server of HTTP/2 would end in an error about something else.
        None if !tls.alpn_protocols.is_empty()
            && !tls.alpn_protocols.iter().any(|name| name == b"http/1.1") =>
        {
            Err(io::Error::other("no ALPN: the server did not agree to speak HTTP/2"))
        }
        Some(_) | None => http1::begin(shared, stream).await.map(Connected::One),
    }
}

/// A socket that says when it takes no bytes: its peer does not read, and what is written now leaves nobody knows when.
pub struct Watched {
    stream: TcpStream,
    stalled: Arc<AtomicBool>,
}

impl Watched {
    fn note<T>(&self, poll: Poll<T>) -> Poll<T> {
        self.stalled.store(poll.is_pending(), Ordering::Relaxed);
        poll
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
