//! The same server for senders that find their pushes again by the `apns-id` of the answer: it reads headers and echoes it.

use anyhow::Result;
use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use hyper::http::{Request, Response};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

pub async fn serve(stream: TlsStream<TcpStream>) -> Result<()> {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(1_000).initial_connection_window_size(1 << 30);
    let mut connection = builder.handshake::<_, Bytes>(stream).await?;
    while let Some(request) = connection.accept().await {
        let (request, respond) = request?;
        tokio::spawn(answer(request, respond));
    }
    Ok(())
}

async fn answer(request: Request<h2::RecvStream>, mut respond: SendResponse<Bytes>) -> Result<()> {
    let (head, mut body) = request.into_parts();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    let mut response = Response::new(());
    if let Some(id) = head.headers.get("apns-id") {
        response.headers_mut().insert("apns-id", id.clone());
    }
    respond.send_response(response, true)?;
    Ok(())
}
