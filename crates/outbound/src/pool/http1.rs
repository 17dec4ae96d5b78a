//! A connection of HTTP/1.1: one request at a time, and kept for the next one.

use super::limits::REPLY_BYTES_MAX;
use super::streams::End;
use super::{Failure, Reply, Shared, unsent};
use bytes::Bytes;
use fantail_ports::channel::Proof;
use fantail_rules::ids::Millis;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

pub struct Http1 {
    sender: SendRequest<Full<Bytes>>,
}

impl Http1 {
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}

pub async fn begin<S>(shared: &Arc<Shared>, stream: S) -> io::Result<Box<Http1>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let driving = async move {
        if let Err(error) = connection.await {
            debug!(%error, "connection ended");
        }
    };
    shared.ports.tasks.spawn("outbound connection", Box::pin(driving));
    Ok(Box::new(Http1 { sender }))
}

/// `Answered` if the connection can be used again.
pub async fn exchange(
    shared: &Shared,
    one: &mut Http1,
    mut request: Request<Bytes>,
    until: Millis,
) -> (End, Result<Reply, Failure>) {
    if !request.headers().contains_key(HOST) {
        let host = shared.authority.as_ref().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
        let Some(host) = host else {
            return (End::CalledOff, Err(unsent(Proof::NoConnection, "the host is no header")));
        };
        request.headers_mut().insert(HOST, host);
    }
    let sending = async {
        // It may still be busy with the end of the answer before.
        if one.sender.ready().await.is_err() {
            return Err(unsent(Proof::Unprocessed, "the connection was closed"));
        }
        match one.sender.try_send_request(request.map(Full::new)).await {
            Ok(response) => read(response).await,
            Err(mut error) => match error.take_message() {
                Some(_) => Err(unsent(Proof::Unprocessed, "the connection gave the request back")),
                None => Err(lost(&error.into_error())),
            },
        }
    };
    match shared.within(until, pin!(sending)).await {
        None => {
            let message = "no answer in time".to_owned();
            (End::TimedOut, Err(Failure::Unknown { code: "timeout", message }))
        }
        Some(Err(failure)) => (End::Gone, Err(failure)),
        Some(Ok((reply, is_last))) => (if is_last { End::Gone } else { End::Answered }, Ok(reply)),
    }
}

/// With whether the connection ends behind it.
async fn read(response: Response<Incoming>) -> Result<(Reply, bool), Failure> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, REPLY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| Failure::Unknown { code: "reset", message: error.to_string() })?;
    let is_last = head.headers.get(CONNECTION).is_some_and(|value| value.as_bytes() == b"close");
    Ok((Reply { status: head.status, headers: head.headers, body: body.to_bytes() }, is_last))
}

fn lost(error: &hyper::Error) -> Failure {
    let code = if error.is_parse() { "protocol" } else { "reset" };
    Failure::Unknown { code, message: format!("the connection was lost: {error}") }
}
