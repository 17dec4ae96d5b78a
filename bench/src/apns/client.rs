//! Our sender, as the dispatcher drives it: shipments of a thousand, a few at a time, on one core.

use crate::process;
use anyhow::{Context, Result, ensure};
use fantail_channels::apns::{Apns, Secrets, Settings};
use fantail_outbound::pool::Ports;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Shipment};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::priority::Priority;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PARCEL: usize = 1_000;

/// What one run came to.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub pushes: u64,
    pub elapsed: Duration,
    pub cpu: Duration,
    pub connections: usize,
}

/// `connections` are open before the clock starts; shipments keep all of them busy.
pub async fn measure(directory: &Path, port: u16, connections: usize, limit: Duration) -> Result<Run> {
    let apns = Arc::new(open(directory, port, connections)?);
    let shipment = Arc::new(shipment());
    let lanes = connections.max(2);
    let began = Instant::now();
    run(&apns, &shipment, lanes, Duration::from_millis(500), began).await?;
    let (cpu, began) = (process::own_cpu()?, Instant::now());
    let pushes = run(&apns, &shipment, lanes, limit, began).await?;
    let (elapsed, cpu) = (began.elapsed(), process::own_cpu()?.saturating_sub(cpu));
    let open = apns.gauges().iter().map(|(_, gauge)| gauge.connections).sum();
    Ok(Run { pushes, elapsed, cpu, connections: open })
}

/// So many shipments at a time, until the time is over.
async fn run(
    apns: &Arc<Apns>,
    shipment: &Arc<Shipment>,
    lanes: usize,
    limit: Duration,
    began: Instant,
) -> Result<u64> {
    let mut sending = tokio::task::JoinSet::new();
    for _ in 0..lanes {
        let (apns, shipment) = (Arc::clone(apns), Arc::clone(shipment));
        sending.spawn(async move {
            let (taken, others) = (AtomicU64::new(0), AtomicU64::new(0));
            let report = |_, answer| {
                let counter = if matches!(answer, Answer::Accepted { .. }) { &taken } else { &others };
                counter.fetch_add(1, Ordering::Relaxed);
            };
            while began.elapsed() < limit {
                apns.send(&shipment, &report).await;
            }
            (taken.into_inner(), others.into_inner())
        });
    }
    let mut pushes = 0;
    while let Some(lane) = sending.join_next().await {
        let (taken, others) = lane?;
        ensure!(others == 0, "{others} pushes were not taken");
        pushes += taken;
    }
    Ok(pushes)
}

fn open(directory: &Path, port: u16, connections: usize) -> Result<Apns> {
    let settings = json!({
        "teamId": "TEAM", "keyId": "KEY1", "topic": "com.example.app", "environment": "production",
        "endpoint": format!("https://localhost:{port}"), "connectTo": format!("127.0.0.1:{port}"),
        "caPem": std::fs::read_to_string(directory.join("ca.pem"))?, "connections": connections,
    });
    let key = rcgen::KeyPair::generate()?.serialize_pem();
    let time = Arc::new(System::new());
    let ports = Ports { clock: time.clone(), tasks: time };
    Apns::open(Settings::read(&settings)?, Secrets::read(&json!({"p8": key}))?, ports).context("no sender")
}

/// Messages as they are: a token of 64 digits, a reference of 38.
fn shipment() -> Shipment {
    let message = |no: usize| Message {
        reference: format!("{no:0>38}"),
        endpoint: format!("apns production 1600000000000 - {no:0>64x}").into_bytes(),
        content: None,
        attempt: 1,
        recipient: no as u64,
        unsubscribe: None,
    };
    let content =
        br#"{"title":"Order A-42 is on its way","body":"2 parcels for you","data":{"orderId":"A-42"}}"#;
    Shipment {
        tenant: TenantId(1),
        content: Arc::from(&content[..]),
        lane: Priority::Normal,
        expires_at: Millis(u64::MAX),
        collapse_key: Some("order-42".to_owned()),
        deadline: Millis(u64::MAX >> 1),
        callbacks: None,
        messages: (0..PARCEL).map(message).collect(),
    }
}

/// Time as it passes, and tasks on tokio.
pub struct System {
    began: Instant,
}

impl System {
    pub fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl Clock for System {
    fn wall(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Millis {
        Millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

impl Tasks for System {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        let until = self.began + Duration::from_millis(deadline.0.min(1 << 40));
        Box::pin(tokio::time::sleep_until(until.into()))
    }
}
