//! The process under test: the real binary on a directory of its own, with its output in a file.

use crate::http::{Connection, Target};
use crate::process::{self, Usage};
use crate::scrape::{Metrics, Reading};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A recovery takes its time; a start that takes longer has failed.
const READY_LIMIT: Duration = Duration::from_secs(120);
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// How long the disk must be quiet to count as settled, and how long that is waited for.
const QUIET: Duration = Duration::from_secs(1);
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

pub struct Server {
    child: Child,
    data: PathBuf,
    pub address: SocketAddr,
    /// Of the tenant `default`, with every scope.
    pub target: Target,
    pub admin: Target,
    /// From the start of the process until it was ready.
    pub started_in: Duration,
}

/// The binary to measure: the one given, or the one that cargo builds beside this program.
pub fn locate(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(given) = given {
        return given.canonicalize().with_context(|| format!("no binary at {}", given.display()));
    }
    if cfg!(debug_assertions) {
        eprintln!("bench: built without optimisation, use `make bench`: these numbers say nothing");
    }
    build()?;
    let binary = beside_this_program()?.join("fantail");
    ensure!(binary.exists(), "no server at {}; build it, or name it with --binary", binary.display());
    Ok(binary)
}

pub fn beside_this_program() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.parent().context("this program has no directory")?.to_owned())
}

/// Run by cargo, the server is built too, so that an old one is never measured.
fn build() -> Result<()> {
    let (Some(cargo), Some(package)) = (std::env::var_os("CARGO"), std::env::var_os("CARGO_MANIFEST_DIR"))
    else {
        return Ok(());
    };
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "-p", "fantail-server", "--bin", "fantail"]).current_dir(package);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    ensure!(command.status()?.success(), "the server does not build");
    Ok(())
}

impl Server {
    /// Starts on `data` (made if it is not there) and waits until it is ready.
    pub async fn start(binary: &Path, data: &Path) -> Result<Self> {
        Self::start_with(binary, data, &[]).await
    }

    pub async fn start_with(binary: &Path, data: &Path, environment: &[(&str, &str)]) -> Result<Self> {
        fs::create_dir_all(data)?;
        let address = free_address()?;
        let log = File::options().create(true).append(true).open(log_file(data))?;
        let mut command = Command::new(binary);
        command.arg("serve").arg("--data").arg(data).arg("--listen").arg(address.to_string());
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FANTAIL_"))
        {
            command.env_remove(name);
        }
        command.env("FANTAIL_TESTING", "1").env("FANTAIL_BOOTSTRAP", "full");
        // Measures the server, not one of its limits.
        command.env("FANTAIL_PRODUCER_TENANT_PER_SECOND", "0");
        command.envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let began = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {}", binary.display()))?;
        let nobody = Target { address, key: String::new() };
        let mut server = Self {
            child,
            data: data.to_owned(),
            address,
            target: nobody.clone(),
            admin: nobody,
            started_in: Duration::ZERO,
        };
        server.wait_until_ready(began).await?;
        server.started_in = began.elapsed();
        server.target.key = read_key(&data.join("default.key"))?;
        server.admin.key = read_key(&data.join("admin.key"))?;
        Ok(server)
    }

    pub fn usage(&self) -> Result<Usage> {
        process::usage(self.child.id())
    }

    /// The most memory it has had.
    pub fn peak_bytes(&self) -> Option<u64> {
        process::peak_resident_bytes(self.child.id())
    }

    pub async fn metrics(&self) -> Result<Metrics> {
        let text = self.target.ask(&self.target.get("/metrics"), 200).await?;
        Ok(Metrics::parse(&String::from_utf8_lossy(&text)))
    }

    /// From this many followers on, an actor's events are kept as pointers.
    pub async fn set_threshold(&self, tenant: &str, followers: u64) -> Result<()> {
        let body = format!(r#"{{"celebrityThreshold":{followers}}}"#);
        let request = self.admin.send("PATCH", &format!("/api/v1/tenants/{tenant}"), body.as_bytes());
        self.admin.ask(&request, 200).await.context("cannot change the threshold")?;
        Ok(())
    }

    /// A new tenant and a key for it.
    pub async fn create_tenant(&self, slug: &str) -> Result<Target> {
        let body = format!(r#"{{"slug":"{slug}"}}"#);
        self.admin.ask(&self.admin.send("POST", "/api/v1/tenants", body.as_bytes()), 201).await?;
        let scopes = br#"{"scopes":["events:write","notifications:write","notifications:read","devices:write","send:critical","inbox:read","inbox:write","users:read","users:write"]}"#;
        let path = format!("/api/v1/tenants/{slug}/keys");
        let answer = self.admin.ask(&self.admin.send("POST", &path, scopes), 201).await?;
        let answer: serde_json::Value = serde_json::from_slice(&answer)?;
        let key = answer["key"].as_str().context("the new key is not in the answer")?;
        Ok(Target { address: self.address, key: key.to_owned() })
    }

    /// Waits until nothing is written any more: sync points and compactions of what came before are done.
    pub async fn settle(&self) -> Result<()> {
        let began = Instant::now();
        let (mut last, mut quiet_since) = (None, Instant::now());
        while began.elapsed() < SETTLE_LIMIT {
            let written = self.usage()?.written_bytes;
            let is_synced =
                self.metrics().await?.get(Reading::UnsyncedBytes).is_none_or(|bytes| bytes == 0.0);
            if written != last || !is_synced {
                (last, quiet_since) = (written, Instant::now());
            }
            if quiet_since.elapsed() >= QUIET {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// kill -9, at once.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// As an operator stops it.
    pub async fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(began.elapsed() < STOP_LIMIT, "the server does not stop");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn wait_until_ready(&mut self, began: Instant) -> Result<()> {
        let request = self.target.get("/readyz");
        while began.elapsed() < READY_LIMIT {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}; its last words:\n{}", last_words(&self.data));
            }
            if is_ready(self.address, &request).await {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bail!("the server is not ready; its last words:\n{}", last_words(&self.data))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        if self.child.kill().is_ok() {
            self.child.wait().ok();
        }
    }
}

async fn is_ready(address: SocketAddr, request: &[u8]) -> bool {
    let Ok(mut connection) = Connection::open(address).await else { return false };
    connection.exchange(request).await.is_ok_and(|answer| answer.status == 200)
}

/// A port that was free a moment ago. Port 0 would have to be read from the banner.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

fn log_file(data: &Path) -> PathBuf {
    data.with_extension("log")
}

/// Everything that servers on this directory have said.
pub fn log_of(data: &Path) -> String {
    fs::read_to_string(log_file(data)).unwrap_or_default()
}

fn last_words(data: &Path) -> String {
    let log = log_of(data);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

fn read_key(file: &Path) -> Result<String> {
    let key = fs::read_to_string(file).with_context(|| format!("no key in {}", file.display()))?;
    Ok(key.trim().to_owned())
}
