//! A webhook channel, a sink it may reach, and the time between them.

use super::parcel::{message, send, shipment};
use super::sink::Sink;
use super::time::Time;
use fantail_channels::webhook::{Endpoint, Secret, Settings, Webhook};
use fantail_outbound::connector::{Connector, SystemDialer};
use fantail_outbound::policy::Policy;
use fantail_outbound::pool::Ports;
use fantail_outbound::resolve::{Resolve, SystemResolver};
use fantail_ports::BoxFuture;
use fantail_ports::channel::Answer;
use fantail_rules::ids::TenantId;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

pub struct House {
    pub runtime: Runtime,
    pub time: Arc<Time>,
    pub sink: Sink,
    pub hook: Arc<Webhook>,
}

pub fn secret() -> Secret {
    Secret::from_bytes(&[7; 32]).expect("a secret")
}

pub fn endpoint(url: &str) -> Vec<u8> {
    Endpoint::new(url, vec![secret()], &[]).expect("an endpoint").encode()
}

/// Allows these targets beside what is public.
pub fn policy<'a>(targets: impl IntoIterator<Item = &'a String>) -> Policy {
    Policy::default().allowing(targets.into_iter().map(|target| target.parse().expect("a target")).collect())
}

/// Every name is the sink's.
pub struct Everywhere;

impl Resolve for Everywhere {
    fn resolve(&self, _whose: Option<TenantId>, _name: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
    }
}

impl House {
    /// The sink under another name.
    pub fn url_at(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.sink.address.port())
    }

    /// May reach its sink, and nothing else.
    pub fn new() -> Self {
        Self::with(|_| ())
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::build(None, Arc::new(SystemResolver::default()), change)
    }

    pub fn build(
        tls: Option<TlsAcceptor>,
        resolver: Arc<dyn Resolve>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::open_to(&[], tls, resolver, change)
    }

    /// May reach these targets beside its sink.
    pub fn open_to(
        targets: &[String],
        tls: Option<TlsAcceptor>,
        resolver: Arc<dyn Resolve>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("a runtime");
        let time = Time::new(Some(runtime.handle().clone()));
        let sink = runtime.block_on(Sink::start(runtime.handle(), tls));
        let mut settings = Settings::default();
        change(&mut settings);
        let own = sink.address.to_string();
        let connector =
            Connector::with(policy(targets.iter().chain([&own])), resolver, Arc::new(SystemDialer));
        let ports = Ports { clock: time.clone(), tasks: time.clone(), connector };
        let hook = Arc::new(Webhook::new(settings, ports).expect("good settings"));
        Self { runtime, time, sink, hook }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.sink.address)
    }

    /// One message to one path of the sink.
    pub fn post(&self, path: &str) -> Answer {
        self.post_to(&self.url(path))
    }

    pub fn post_to(&self, url: &str) -> Answer {
        let shipment = shipment(vec![message("ref-1", &endpoint(url))]);
        self.runtime.block_on(send(&*self.hook, &shipment)).remove(0)
    }

    /// Returns when so many connections wait to be used again.
    pub fn wait_for_idle(&self, connections: usize) {
        self.runtime.block_on(async {
            while self.hook.idle_connections() != connections {
                tokio::task::yield_now().await;
            }
        });
    }
}
