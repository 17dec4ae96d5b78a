//! The life of a server: configuration, keys, listener, recovery, banner; then waiting; then the stop.
//!
//! The listener is up before the data is open, so that probes see a server that is starting. A stop first turns
//! `readyz` red and closes the listener, lets requests and deliveries under way finish, then makes everything durable and
//! seals. A failure ends the process as a crash would: what is in memory may be wrong, so nothing of it is written.

use crate::banner::Banner;
use crate::cli::ServeCommand;
use crate::composition::{self, Running, Surroundings};
use crate::config::{self, Config};
use crate::copy_mark::CopyMark;
use crate::listen::Connections;
use crate::listeners::{self, BoundListener};
use crate::otlp::Exporter;
use crate::provision::{self, AdminKey};
use crate::sandbox::House;
use crate::system::{SystemClock, SystemEntropy, SystemTasks};
use crate::test_clock::{self, TestClock, TestTasks};
use crate::{descriptors, logging, panics, private_files};
use anyhow::{Context, Result, bail};
use fantail_api::listener_kinds::ListenerKind;
use fantail_api::{App, Settings, access, key};
use fantail_node::Node;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

/// Time for requests to be answered after a failure.
const FAILED_DRAIN: Duration = Duration::from_secs(2);
/// Time for work on threads when the process ends.
const SHUTDOWN: Duration = Duration::from_secs(5);

pub fn run(command: &ServeCommand) -> Result<()> {
    private_files::keep_private();
    let testing = config::read_switch(&config::process_environment)?;
    let begins = config::process_environment(test_clock::BEGINS);
    let clock = test_clock::Asked::read(command.clock.as_deref(), testing, begins.as_deref())?;
    let mut config = config::load(&command.args.flags())?;
    logging::start(config.log);
    for name in config::unknown_variables() {
        warn!(name, "the environment has a variable that is no setting");
    }
    panics::count();
    let limits = descriptors::fit(&mut config.http);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads()).enable_all().build()?;
    let served = runtime.block_on(serve(config, clock, limits));
    // A thread that hangs must not keep a failed server alive.
    runtime.shutdown_timeout(SHUTDOWN);
    served
}

/// Whoever reads a row that is not in memory holds up its thread until the disk has answered: more threads than cores
/// keep the cores busy and ask the disk several things at once.
#[must_use]
pub fn threads() -> usize {
    8 * std::thread::available_parallelism().map_or(1, usize::from)
}

async fn serve(config: Config, asked: Option<test_clock::Asked>, limits: Option<String>) -> Result<()> {
    let mut signals = Signals::catch()?;
    let entropy = Arc::new(SystemEntropy::default());
    provision::data_directory(&config.data)?;
    private_files::warn_of_open_files(&config);
    let (clock, tasks) = time(asked.as_ref())?;
    let admin = provision::admin_key(&config.data, config.admin_key.as_ref(), &*entropy)?;
    let app = App::new(settings(&config, &admin), clock.clone(), entropy.clone());
    let connections = Arc::new(Connections::default());
    let (stop, stopped) = watch::channel(false);
    let (bound, mut listening) = listeners::open(&config, &app, &connections, stopped)?;
    app.listen(listeners::url_of(&bound, ListenerKind::Public));

    let exporter = config.collector.clone().map(Exporter::start).transpose();
    let exporter = exporter.context("cannot export traces")?;
    let sandbox = sandbox(&config, &entropy).await?;
    let surroundings = Surroundings {
        clock,
        entropy: entropy.clone(),
        tasks,
        connections,
        exporter: exporter.as_ref(),
        public_url: app.public_url().to_owned(),
        sandbox: sandbox.clone(),
    };
    let mut running = tokio::select! {
        opened = composition::open(&config, surroundings) => opened?,
        signal = signals.next() => {
            info!(signal, "stopped while starting");
            return Ok(());
        }
    };
    provision::default_tenant(&running.node, &config, &*entropy).await?;
    app.serve(running.node.clone(), running.host.clone());
    running.node.spawn_loop("runs", Box::pin(fantail_api::runs::run(app.clone(), running.node.clone())));
    running.node.spawn_loop("refused", Box::pin(access::run(app.clone(), running.node.clone())));
    let banner = banner(&config, &bound, &running, admin)?;
    let sandbox = sandbox.map(|sandbox| (sandbox.control(), provision::sandbox_file(&config.data)));
    Banner { test_clock: asked.map(|asked| asked.socket), sandbox, limits, ..banner }.print()?;
    for BoundListener { address, kinds, .. } in &bound {
        info!(%address, serves = kinds.names(), data = %config.data.display(), "serving");
    }

    let end = tokio::select! {
        signal = signals.next() => End::Asked(signal),
        reason = &mut running.failed => End::Failed(reason),
        ended = &mut listening => End::Failed(match ended {
            Ok(()) => "the listener ended".to_owned(),
            Err(panicked) => format!("the listener panicked: {panicked}"),
        }),
    };
    app.stop();
    stop.send_replace(true);
    let signal = match end {
        End::Asked(signal) => signal,
        End::Failed(reason) => return fail(&running.node, listening, &reason).await,
    };
    info!(signal, "stopping");
    drain(&config, &running.node, listening, &mut signals).await?;
    app.refused.write(&running.node).await;
    (running.close)().await?;
    if let Some(exporter) = exporter {
        tokio::task::spawn_blocking(move || exporter.stop()).await.context("exporting traces panicked")?;
    }
    info!(signal, "stopped");
    Ok(())
}

/// The sandbox inside the server, if there is to be one.
async fn sandbox(config: &Config, entropy: &SystemEntropy) -> Result<Option<Arc<House>>> {
    if !config.delivery.sandbox {
        return Ok(None);
    }
    let key = provision::viewer_key(&provision::sandbox_file(&config.data), entropy)?;
    Ok(Some(Arc::new(House::open(config.delivery.sandbox_port, key).await?)))
}

/// Ends at once, but for requests that wait for a leader: they are answered.
async fn fail(node: &Node, listening: JoinHandle<()>, reason: &str) -> Result<()> {
    error!(reason, "nothing more may be promised, stopping");
    node.refuse_all();
    if !listening.is_finished() && tokio::time::timeout(FAILED_DRAIN, listening).await.is_err() {
        warn!("requests were still under way");
    }
    bail!("stopped: {reason}")
}

/// Waits for requests and deliveries under way, side by side, until their times are over or a second signal comes.
async fn drain(config: &Config, node: &Node, listening: JoinHandle<()>, signals: &mut Signals) -> Result<()> {
    let drained = async { tokio::join!(listening, node.drain(config.delivery.drain_ms)) };
    tokio::select! {
        (listened, left) = drained => {
            if left > 0 {
                let drain_s = config.delivery.drain_ms / 1_000;
                warn!(left, drain_s, "deliveries were still under way when the time to drain ended");
            }
            listened.context("the listener panicked")
        }
        signal = signals.next() => {
            warn!(signal, "asked to stop again, nothing is waited for any more");
            Ok(())
        }
    }
}

/// The machine's time, or a test's.
fn time(asked: Option<&test_clock::Asked>) -> Result<(Arc<dyn Clock>, Arc<dyn Tasks>)> {
    let handle = Handle::current();
    let Some(asked) = asked else {
        let clock = Arc::new(SystemClock::default());
        return Ok((clock.clone(), Arc::new(SystemTasks { handle, clock })));
    };
    let clock = Arc::new(TestClock::new(asked.begins));
    test_clock::listen(clock.clone(), &asked.socket)?;
    Ok((clock.clone(), Arc::new(TestTasks { handle, clock })))
}

fn settings(config: &Config, admin: &AdminKey) -> Settings {
    Settings {
        admin_key_hash: key::hash(admin.key.0.as_bytes()),
        body_timeout: config.http.body_timeout,
        slow_request: config.http.slow,
        public_url: config.public_url.clone(),
        outbound: config.outbound.clone(),
        version: env!("CARGO_PKG_VERSION"),
        addresses: config.addresses.clone(),
    }
}

fn banner(config: &Config, bound: &[BoundListener], running: &Running, admin: AdminKey) -> Result<Banner> {
    let default_key = provision::default_key(&running.node, &config.data)?;
    let is_exposed = default_key.is_some() && bound.iter().any(|listener| !listener.is_loopback());
    if is_exposed {
        warn!(
            "the first key exists while the server listens beyond this machine: make keys of your own and revoke it"
        );
    }
    Ok(Banner {
        listeners: bound.to_vec(),
        data: config.data.clone(),
        format: running.format,
        default_key,
        is_exposed,
        is_terminal: std::io::stdout().is_terminal(),
        admin_file: admin.file,
        testing: config.testing,
        paused: running.paused.as_ref().map(CopyMark::sentence),
        clock_days_ahead: running.clock_days_ahead,
        test_clock: None,
        sandbox: None,
        limits: None,
    })
}

enum End {
    Asked(&'static str),
    Failed(String),
}

/// The signals that ask for a stop, caught from the first moment on.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
