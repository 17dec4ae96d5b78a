//! A process that takes everything a sender sends, and tells its port through a file.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

const START_LIMIT: Duration = Duration::from_secs(10);

/// Ends with this.
pub struct Taker {
    child: Child,
    pub port: u16,
}

impl Taker {
    /// `command` is a hidden one of this program; the directory is its last argument.
    pub fn start(command: &[&str], directory: &Path) -> Result<Self> {
        let old = directory.join("port");
        if old.exists() {
            std::fs::remove_file(old)?;
        }
        let mut child = Command::new(std::env::current_exe()?).args(command).arg(directory).spawn()?;
        let (file, began) = (directory.join("port"), Instant::now());
        while !file.exists() {
            ensure!(child.try_wait()?.is_none(), "the server that takes everything has ended");
            ensure!(began.elapsed() < START_LIMIT, "the server that takes everything does not start");
            std::thread::yield_now();
        }
        let port = std::fs::read_to_string(&file)?.parse().context("no port")?;
        Ok(Self { child, port })
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Whole at once: whoever waits for the file reads all of it.
pub fn tell_port(directory: &Path, listener: &TcpListener) -> Result<()> {
    let port = listener.local_addr()?.port().to_string();
    std::fs::write(directory.join("port.new"), port)?;
    std::fs::rename(directory.join("port.new"), directory.join("port"))?;
    Ok(())
}
