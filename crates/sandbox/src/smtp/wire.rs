//! Lines over a connection, and the mail up to its final dot.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::time::timeout;

const LINE_BYTES_MAX: u64 = 16 * 1_024;
pub const MAIL_BYTES_MAX: usize = 40 << 20;
/// A client that says nothing for so long is gone.
const IDLE: Duration = Duration::from_secs(300);

pub async fn say<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufStream<S>, line: &str) -> io::Result<()> {
    stream.write_all(format!("{line}\r\n").as_bytes()).await?;
    stream.flush().await
}

pub async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufStream<S>,
    line: &str,
) -> io::Result<String> {
    say(stream, line).await?;
    let answer = hear(stream).await?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A line without its end; `None` when the client is gone.
pub async fn hear<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufStream<S>,
) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut limited = stream.take(LINE_BYTES_MAX);
    let length = timeout(IDLE, limited.read_until(b'\n', &mut line)).await??;
    if length == 0 || !line.ends_with(b"\n") {
        return Ok(None);
    }
    while line.last().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
        line.pop();
    }
    Ok(Some(line))
}

/// Up to the final dot, with its dots as they were meant. `None` if it is too large; it is read to its end all the same.
pub async fn read_mail<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufStream<S>,
) -> io::Result<Option<Vec<u8>>> {
    let mut mail = Vec::new();
    let mut is_too_large = false;
    loop {
        let line = hear(stream).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if line == b"." {
            return Ok((!is_too_large).then_some(mail));
        }
        is_too_large |= mail.len() + line.len() > MAIL_BYTES_MAX;
        if !is_too_large {
            mail.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
            mail.extend_from_slice(b"\r\n");
        }
    }
}
