//! A mail server that says yes to everything, as cheaply as it can. Runs as a process of its own, so that the client's CPU
//! time is the client's alone.

use crate::sending::tell_port;
use anyhow::{Context, Result};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Writes its port into the directory, and serves until it is killed.
pub fn run(directory: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port")?;
        tell_port(directory, &listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            // A client that goes away is no concern of the server's.
            tokio::spawn(async move { drop(take_everything(stream).await) });
        }
    })
}

async fn take_everything(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    writer.write_all(b"220 bench\r\n").await?;
    let (mut line, mut replies, mut in_mail) = (Vec::new(), Vec::new(), false);
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        match (in_mail, line.as_slice()) {
            (true, b".\r\n") => {
                in_mail = false;
                replies.extend_from_slice(b"250 2.0.0 ok: queued as 1\r\n");
            }
            (true, _) => {}
            (false, command) if command.starts_with(b"EHLO") => {
                replies.extend_from_slice(b"250-bench\r\n250 PIPELINING\r\n");
            }
            (false, command) if command.starts_with(b"DATA") => {
                in_mail = true;
                replies.extend_from_slice(b"354 go on\r\n");
            }
            (false, _) => replies.extend_from_slice(b"250 ok\r\n"),
        }
        if reader.buffer().is_empty() && !replies.is_empty() {
            writer.write_all(&replies).await?;
            replies.clear();
        }
    }
}
