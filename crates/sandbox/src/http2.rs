//! A connection of HTTP/2.
//!
//! Comes from: the listener, after TLS. Does: takes streams up to the announced number, answers each in a task of its own,
//! and goes away when it is told to. Goes to: `world` for every call.
//!
//! A client that opens more streams than it may gets REFUSED_STREAM, but for those it opened before it could know. After a
//! GOAWAY newer streams are left without a word, as the protocol has it: the last stream id says that they were not taken.

use crate::connection::{Connection, Order};
use crate::emulator::{Answer, Call, Reply, Streams};
use crate::frames::{Injection, Layer};
use crate::hosts;
use crate::world::Site;
use bytes::{Bytes, BytesMut};
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use hyper::http::{Request, Response, StatusCode, header};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

/// How long a connection that went away waits for the client to close it.
const LINGER: Duration = Duration::from_secs(1);
/// Unanswered streams that are kept open after a GOAWAY.
const LEFT_MAX: usize = 2_000;
const WINDOW: u32 = 4 << 20;

pub(crate) async fn serve<S>(io: S, connection: Arc<Connection>, site: Site, streams: Streams, is_tls: bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = Builder::new();
    builder.initial_connection_window_size(WINDOW).max_concurrent_reset_streams(1_000);
    let grows = streams.first != streams.proven;
    if !grows {
        builder.max_concurrent_streams(streams.first);
    }
    let io = Layer::new(io, Arc::clone(&connection.frames), grows.then_some(streams.first));
    let http2 = match builder.handshake::<_, Bytes>(io).await {
        Ok(http2) => http2,
        Err(error) => return debug!(%error, connection = connection.number, "no HTTP/2"),
    };
    let flow = Arc::new(Flow { open: AtomicU32::new(0), ended: Notify::new() });
    run(http2, Streamer { connection, site, streams, is_tls, flow }).await;
}

/// Streams under way.
struct Flow {
    open: AtomicU32,
    ended: Notify,
}

#[derive(Clone)]
struct Streamer {
    connection: Arc<Connection>,
    site: Site,
    streams: Streams,
    is_tls: bool,
    flow: Arc<Flow>,
}

async fn run<S: AsyncRead + AsyncWrite + Unpin>(
    mut http2: h2::server::Connection<Layer<S>, Bytes>,
    streamer: Streamer,
) {
    let (mut highest, mut going, mut left) = (0, false, Vec::new());
    let mut done_at: Option<Instant> = None;
    let flow = Arc::clone(&streamer.flow);
    loop {
        if going && flow.open.load(Ordering::SeqCst) == 0 {
            done_at.get_or_insert_with(Instant::now);
        }
        let linger = sleep_until(done_at.unwrap_or_else(Instant::now) + LINGER);
        tokio::select! {
            biased;
            accepted = http2.accept() => match accepted {
                None => return,
                Some(Err(error)) => return debug!(%error, "connection ended"),
                Some(Ok((_, respond))) if going => if left.len() < LEFT_MAX { left.push(respond) },
                Some(Ok((request, respond))) => {
                    highest = respond.stream_id().as_u32();
                    streamer.begin(request, respond);
                }
            },
            order = streamer.connection.next_order() => match order {
                Order::Close => return,
                Order::GoAway(reason) if !going => {
                    going = true;
                    let injection = Injection::GoAway { last_stream: highest, reason };
                    streamer.connection.frames.inject(injection);
                }
                Order::GoAway(_) => {}
            },
            () = flow.ended.notified(), if going => {}
            () = linger, if done_at.is_some() => return,
        }
    }
}

impl Streamer {
    fn begin(&self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        // A client may open what it likes until it knows the settings.
        let is_early = self.connection.frames.is_early(respond.stream_id().as_u32());
        let may_have_many = is_early || self.connection.is_proven();
        let allowed = if may_have_many { self.streams.proven } else { self.streams.first };
        if self.flow.open.fetch_add(1, Ordering::SeqCst) >= allowed {
            self.flow.open.fetch_sub(1, Ordering::SeqCst);
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        let streamer = self.clone();
        tokio::spawn(async move {
            streamer.stream(request, respond).await;
            streamer.flow.open.fetch_sub(1, Ordering::SeqCst);
            streamer.flow.ended.notify_one();
        });
    }

    async fn stream(&self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let (mut call, body) = self.call(request);
        let answer = match self.site.begin(&mut call).await {
            Err(reply) => reply.into(),
            Ok(begun) => match read(body, begun.body_bytes_max()).await {
                Body::Whole(body) => {
                    call.body = body;
                    self.site.finish(begun, &call).await
                }
                Body::TooLong => Reply::new(StatusCode::PAYLOAD_TOO_LARGE).into(),
                Body::Lost => return,
            },
        };
        match answer {
            Answer::Reply(reply) => self.send(reply, respond),
            Answer::ReplyThenGoAway { reply, reason } => {
                self.send(reply, respond);
                self.connection.go_away(reason);
            }
            Answer::CloseConnection => self.connection.close(),
            // Until the client gives up; its reason does not matter.
            Answer::Silence => drop(poll_fn(|cx| respond.poll_reset(cx)).await),
        }
    }

    fn call(&self, request: Request<RecvStream>) -> (Call, RecvStream) {
        let (head, body) = request.into_parts();
        let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let authority = head.uri.authority().map(|authority| authority.as_str()).or(host);
        let authority = authority.or(self.connection.server_name.as_deref()).unwrap_or_default().to_owned();
        let call = Call {
            connection: Arc::clone(&self.connection),
            host: hosts::name(&authority),
            authority,
            is_tls: self.is_tls,
            is_http2: true,
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head.headers,
            body: Bytes::new(),
            now_ms: 0,
        };
        (call, body)
    }

    /// HEADERS alone, or HEADERS and one DATA frame, which ends the stream.
    fn send(&self, reply: Reply, mut respond: SendResponse<Bytes>) {
        let mut response = Response::new(());
        *response.status_mut() = reply.status;
        response.headers_mut().extend(reply.headers);
        let is_empty = reply.body.is_empty();
        let sent = respond
            .send_response(response, is_empty)
            .and_then(|mut stream| if is_empty { Ok(()) } else { stream.send_data(reply.body, true) });
        match (sent, reply.arrival) {
            (Ok(()), Some(ticket)) => self.site.world.record().answered(ticket),
            (Ok(()), None) => {}
            (Err(error), _) => debug!(%error, "the answer found no connection"),
        }
    }
}

enum Body {
    Whole(Bytes),
    TooLong,
    Lost,
}

async fn read(mut stream: RecvStream, most: usize) -> Body {
    let mut body = BytesMut::new();
    while let Some(data) = stream.data().await {
        let Ok(data) = data else { return Body::Lost };
        if stream.flow_control().release_capacity(data.len()).is_err() {
            return Body::Lost;
        }
        if body.is_empty() && stream.is_end_stream() {
            return if data.len() > most { Body::TooLong } else { Body::Whole(data) };
        }
        if body.len() + data.len() > most {
            return Body::TooLong;
        }
        body.extend_from_slice(&data);
    }
    Body::Whole(body.freeze())
}
