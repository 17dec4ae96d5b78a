//! All listeners of the process: bound, served and drained together.
//!
//! Comes from: settings. Goes to: one task for each. Invariant: strangers cannot take the places of the API where they have a listener
//! of their own, and nobody those of administration.

use crate::config::{Config, ListenerSettings};
use crate::listen::{self, Connections, Listener, Places, TurnPlaces, Turns};
use crate::serve::threads;
use crate::tls;
use anyhow::{Context, Result};
use fantail_api::host_rules::HostRules;
use fantail_api::listener_kinds::{ListenerKind, ListenerKinds};
use fantail_api::{App, ListenerRules, router};
use fantail_rules::limits::ADMIN_CONNECTIONS_MAX;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Where a listener is, with the port that was free.
#[derive(Clone, Copy, Debug)]
pub struct BoundListener {
    pub address: SocketAddr,
    pub kinds: ListenerKinds,
    pub is_tls: bool,
}

impl BoundListener {
    /// Without a slash at its end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.is_tls { "https" } else { "http" }, self.address)
    }

    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }
}

/// The URL of the listener of a kind; of the API's, if there are two.
#[must_use]
pub fn url_of(listeners: &[BoundListener], kind: ListenerKind) -> String {
    listeners
        .iter()
        .find(|listener| listener.kinds.contains(kind))
        .map(BoundListener::url)
        .unwrap_or_default()
}

/// Binds all of them before any serves. The task ends when the last one has drained, or when one ends that nobody stopped.
pub fn open(
    config: &Config,
    app: &Arc<App>,
    connections: &Arc<Connections>,
    stopped: watch::Receiver<bool>,
) -> Result<(Vec<BoundListener>, JoinHandle<()>)> {
    let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
    let mut bound = Vec::with_capacity(config.listeners.len());
    for settings in &config.listeners {
        let address = settings.address;
        let socket = listen::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        bound.push((socket.local_addr()?, settings, socket));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let turns = Turns::new(TurnPlaces::new(threads(), cores), config.addresses.rules.clone());
    let mut tasks = JoinSet::new();
    let mut opened = Vec::with_capacity(bound.len());
    for (address, ListenerSettings { kinds, is_tls, .. }, socket) in bound {
        let listener = Listener {
            socket,
            tls: tls.clone().filter(|_| *is_tls),
            http: config.http,
            places: places(config, *kinds),
            turns: turns.clone(),
            connections: connections.clone(),
        };
        let hosts = HostRules::new(address.ip().to_canonical().is_loopback(), &config.admin_hosts);
        let rules = ListenerRules { kinds: *kinds, hosts };
        tasks.spawn(listener.run(router(app.clone(), rules), stopped.clone()));
        opened.push(BoundListener { address, kinds: *kinds, is_tls: *is_tls });
    }
    Ok((opened, tokio::spawn(all_ended(tasks, stopped))))
}

async fn all_ended(mut tasks: JoinSet<()>, stopped: watch::Receiver<bool>) {
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            Err(_) | Ok(()) if !*stopped.borrow() => return,
            Err(_) | Ok(()) => {}
        }
    }
}

/// Connections that a listener of these kinds may have.
fn places(config: &Config, kinds: ListenerKinds) -> Arc<Places> {
    let is_split = !config.listeners[0].kinds.contains(ListenerKind::Public);
    let is_of_api = kinds == config.listeners[0].kinds;
    let all = config.http.connections_max;
    let max = if !is_of_api && kinds.contains(ListenerKind::Admin) {
        ADMIN_CONNECTIONS_MAX
    } else if is_split {
        (all / 2).max(1)
    } else {
        all
    };
    Places::new(max, config.http.connections_per_address, config.addresses.rules.clone())
}
