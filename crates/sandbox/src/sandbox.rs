//! Starts everything: the authority, the emulators, their ports and the control API.

use crate::authority::{Authority, AuthorityError};
use crate::clock::Clock;
use crate::connection::Connections;
use crate::control::{self, Desk};
use crate::emulator::{ControlReply, Emulator, Raw};
use crate::emulators;
use crate::faults::{Faults, Profile};
use crate::judge::{self, Send, Verdict};
use crate::listen;
use crate::record::{Limits, Record};
use crate::world::{Places, Shared, Site, World};
use hyper::http::Method;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

#[derive(Clone, Debug)]
pub struct Options {
    pub bind: IpAddr,
    /// All emulators over HTTP, by host name; 0 takes any port. So with the others.
    pub shared_port: u16,
    /// Always on 127.0.0.1: whoever can use it can do everything.
    pub control_port: u16,
    /// What callers of the control API have to know. Without one every user of this machine can use it.
    pub viewer_key: Option<String>,
    /// Of single emulators, by name; any port if not given.
    pub own_ports: BTreeMap<String, u16>,
    /// Where `ca.pem` is written, if anywhere.
    pub directory: Option<PathBuf>,
    pub record: Limits,
    /// Web Push to endpoints that were not made here is taken unopened, instead of being refused as unknown: for those whose
    /// subscriptions outlive the sandbox, or come from real browsers.
    pub takes_unknown_subscriptions: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            shared_port: 0,
            control_port: 0,
            viewer_key: None,
            own_ports: BTreeMap::new(),
            directory: None,
            record: Limits::default(),
            takes_unknown_subscriptions: false,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("{name} cannot listen on {address}: {cause}")]
    Port { name: &'static str, address: SocketAddr, cause: io::Error },
    #[error("`{name}` has a port but is no emulator")]
    UnknownEmulator { name: String },
    #[error("ca.pem cannot be written to {}: {cause}", directory.display())]
    Directory { directory: PathBuf, cause: io::Error },
}

pub struct Sandbox;

/// Everything stops when this is dropped.
pub struct Running {
    world: World,
    desk: Desk,
    places: Places,
    tasks: JoinSet<()>,
}

impl Sandbox {
    /// Listens on all ports when it returns. Must be called inside a tokio runtime.
    pub async fn start(options: Options) -> Result<Running, StartError> {
        let world = world(&options)?;
        let emulators::All { http, raw } = emulators::all(&world, &options);
        check_names(&options, &http, &raw)?;
        let http = Arc::new(http);
        let own = |name: &str| SocketAddr::new(options.bind, *options.own_ports.get(name).unwrap_or(&0));
        let shared = bind("sandbox", SocketAddr::new(options.bind, options.shared_port)).await?;
        let control_at = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), options.control_port);
        let control = bind("control", control_at).await?;
        let mut places = Places { shared: shared.1, control: control.1, own: BTreeMap::new() };
        let mut tasks = JoinSet::new();
        let site = Site { world: world.clone(), emulators: Arc::clone(&http), own: None };
        for emulator in http.iter() {
            let (listener, address) = bind(emulator.name(), own(emulator.name())).await?;
            places.own.insert(emulator.name(), address);
            tasks.spawn(listen::http(listener, Site { own: Some(Arc::clone(emulator)), ..site.clone() }));
        }
        for emulator in &raw {
            let (listener, address) = bind(emulator.name(), own(emulator.name())).await?;
            places.own.insert(emulator.name(), address);
            tasks.spawn(listen::raw(listener, world.clone(), Arc::clone(emulator)));
        }
        world.0.places.get_or_init(|| places.clone());
        tasks.spawn(listen::http(shared.0, site));
        let viewer_key = options.viewer_key.as_deref().map(Arc::from);
        let desk = Desk { world: world.clone(), http, raw: Arc::new(raw), viewer_key };
        tasks.spawn(control::serve(control.0, desk.clone()));
        Ok(Running { world, desk, places, tasks })
    }
}

fn world(options: &Options) -> Result<World, StartError> {
    let authority = Arc::new(Authority::new()?);
    if let Some(directory) = &options.directory {
        let failed = |cause| StartError::Directory { directory: directory.clone(), cause };
        std::fs::create_dir_all(directory).map_err(failed)?;
        std::fs::write(directory.join("ca.pem"), authority.pem()).map_err(failed)?;
    }
    Ok(World(Arc::new(Shared {
        clock: Clock::default(),
        faults: Faults::default(),
        record: Record::new(options.record),
        tls: authority.acceptor(&[b"h2", b"http/1.1"])?,
        tls_plain: authority.acceptor(&[])?,
        authority,
        connections: Connections::default(),
        places: OnceLock::new(),
    })))
}

fn check_names(
    options: &Options,
    http: &[Arc<dyn Emulator>],
    raw: &[Arc<dyn Raw>],
) -> Result<(), StartError> {
    let known = |name: &str| {
        http.iter().any(|emulator| emulator.name() == name)
            || raw.iter().any(|emulator| emulator.name() == name)
    };
    match options.own_ports.keys().find(|name| !known(name)) {
        None => Ok(()),
        Some(name) => Err(StartError::UnknownEmulator { name: name.clone() }),
    }
}

async fn bind(name: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |cause| StartError::Port { name, address, cause };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

impl Running {
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// All emulators over HTTP, by host name or by path.
    #[must_use]
    pub fn shared(&self) -> SocketAddr {
        self.places.shared
    }

    #[must_use]
    pub fn control(&self) -> SocketAddr {
        self.places.control
    }

    /// The port of one emulator.
    #[must_use]
    pub fn own(&self, emulator: &str) -> Option<SocketAddr> {
        self.places.own.get(emulator).copied()
    }

    #[must_use]
    pub fn ca_pem(&self) -> String {
        self.world.0.authority.pem()
    }

    /// The control API without a socket: `ask(Method::GET, "/messages?channel=push", Value::Null)`.
    pub async fn ask(&self, method: Method, path_and_query: &str, body: Value) -> ControlReply {
        self.desk.ask(method, path_and_query, body).await
    }

    pub fn set_faults(&self, emulator: &str, profile: Profile) {
        self.world.faults().set(emulator, profile);
    }

    /// Tells all connections of an emulator to go away, and how many these were.
    pub fn go_away(&self, emulator: &str) -> usize {
        go_away(&self.world, &self.desk.http, emulator)
    }

    #[must_use]
    pub fn judge(&self, sends: &[Send]) -> Verdict {
        self.world.record().read(|rows, counts| judge::judge(rows, counts, sends))
    }

    /// Until it is told to stop; the tasks end only with it.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

pub(crate) fn go_away(world: &World, http: &[Arc<dyn Emulator>], name: &str) -> usize {
    let emulator = http.iter().find(|emulator| emulator.name() == name);
    let reason = emulator.map(|emulator| emulator.go_away_reason(world.now_ms(name))).unwrap_or_default();
    let connections = world.0.connections.of(name);
    for connection in &connections {
        connection.go_away(reason.clone());
    }
    connections.len()
}
