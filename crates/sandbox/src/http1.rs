//! A connection of HTTP/1.1. Going away means: the next answer is the last one.

use crate::connection::{Connection, Order};
use crate::emulator::{Answer, Call, Reply};
use crate::hosts;
use crate::world::Site;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::pin::pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

/// Ends the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("closed on purpose")]
struct Closed;

pub(crate) async fn serve<S>(io: S, connection: Arc<Connection>, site: Site, is_tls: bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(|request| answer(request, Arc::clone(&connection), &site, is_tls));
    let http1 = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(io), service);
    let mut http1 = pin!(http1);
    loop {
        tokio::select! {
            ended = http1.as_mut() => {
                if let Err(error) = ended {
                    debug!(%error, "connection ended");
                }
                return;
            }
            order = connection.next_order() => match order {
                Order::Close => return,
                Order::GoAway(_) => http1.as_mut().graceful_shutdown(),
            },
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    connection: Arc<Connection>,
    site: &Site,
    is_tls: bool,
) -> Result<Response<Full<Bytes>>, Closed> {
    let (head, body) = request.into_parts();
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = host.or(connection.server_name.as_deref()).unwrap_or_default().to_owned();
    let mut call = Call {
        connection: Arc::clone(&connection),
        host: hosts::name(&authority),
        authority,
        is_tls,
        is_http2: false,
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body: Bytes::new(),
        now_ms: 0,
    };
    let answer = match site.begin(&mut call).await {
        Err(reply) => reply.into(),
        Ok(begun) => match Limited::new(body, begun.body_bytes_max()).collect().await {
            Ok(body) => {
                call.body = body.to_bytes();
                site.finish(begun, &call).await
            }
            Err(_) => Reply::new(StatusCode::PAYLOAD_TOO_LARGE).into(),
        },
    };
    match answer {
        Answer::Reply(reply) => Ok(send(reply, site, false)),
        Answer::ReplyThenGoAway { reply, .. } => Ok(send(reply, site, true)),
        Answer::CloseConnection => Err(Closed),
        Answer::Silence => std::future::pending().await,
    }
}

fn send(reply: Reply, site: &Site, is_last: bool) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = reply.status;
    response.headers_mut().extend(reply.headers);
    if is_last {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(ticket) = reply.arrival {
        site.world.record().answered(ticket);
    }
    response
}
