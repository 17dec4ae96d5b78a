//! A stream whose first bytes were looked at: they are read again.

use bytes::{Buf, Bytes, BytesMut};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

pub struct Rewind<S> {
    inner: S,
    prefix: Bytes,
}

/// How every connection of HTTP/2 begins, whether it was agreed on before or not.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Whether the client speaks HTTP/2, and the stream as if nobody had looked.
pub async fn is_http2<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> io::Result<(bool, Rewind<S>)> {
    let mut seen = BytesMut::new();
    while PREFACE.starts_with(&seen) && seen.len() < PREFACE.len() {
        if stream.read_buf(&mut seen).await? == 0 {
            break;
        }
    }
    let found = seen.starts_with(PREFACE);
    Ok((found, Rewind { inner: stream, prefix: seen.freeze() }))
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewind<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.prefix.is_empty() {
            return Pin::new(&mut this.inner).poll_read(cx, buf);
        }
        let taken = this.prefix.len().min(buf.remaining());
        buf.put_slice(&this.prefix[..taken]);
        this.prefix.advance(taken);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewind<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[test]
    fn what_was_looked_at_is_read_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        for (sent, expected) in [
            (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], true),
            (b"PRI * HTTP/1.1\r\n", false),
            (b"GET / HTTP/1.1\r\n\r\n", false),
            (b"P", false),
            (b"", false),
        ] {
            runtime.block_on(async {
                let (mut client, server) = tokio::io::duplex(100);
                client.write_all(sent).await.expect("sent");
                client.shutdown().await.expect("closed");
                let (found, mut stream) = is_http2(server).await.expect("looked");
                assert_eq!(found, expected);
                let mut read = Vec::new();
                stream.read_to_end(&mut read).await.expect("read");
                assert_eq!(read, sent);
            });
        }
    }
}
