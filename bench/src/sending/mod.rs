//! What the scenarios of senders share: driving one as the dispatcher does, its cost, the process that takes everything, and
//! other people's senders beside it.

pub mod scripts;
mod system;
mod taker;

use crate::process;
use crate::report::Row;
use anyhow::{Result, ensure};
use fantail_ports::channel::{Answer, Channel, Message, Shipment};
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::priority::Priority;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use system::ports;
pub use taker::{Taker, tell_port};

/// Messages of a shipment.
pub const PARCEL: usize = 1_000;
const NO_DURABILITY: &str = "none needed";
const WARM_UP: Duration = Duration::from_millis(500);
/// A push as templates make them.
pub const PUSH: &[u8] =
    br#"{"title":"Order A-42 is on its way","body":"2 parcels for you","data":{"orderId":"A-42"}}"#;

/// What a sender did, and what it took of the processor.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub struct Spent {
    pub pushes: f64,
    pub seconds: f64,
    pub cpu_seconds: f64,
}

impl Spent {
    /// Since these looks at clock and processor.
    pub fn since(began: Instant, cpu: Duration, pushes: usize) -> Result<Self> {
        let cpu_seconds = process::own_cpu()?.saturating_sub(cpu).as_secs_f64();
        Ok(Self { pushes: pushes as f64, seconds: began.elapsed().as_secs_f64(), cpu_seconds })
    }

    pub fn per_core(&self) -> f64 {
        self.pushes / self.cpu_seconds.max(1e-9)
    }

    pub fn row(&self, scenario: &'static str, name: impl Into<String>) -> Row {
        Row::new(scenario, name, NO_DURABILITY)
            .fact("per core", self.per_core(), "/s")
            .fact("CPU", self.cpu_seconds * 1e6 / self.pushes.max(1.0), " µs each")
            .fact("rate", self.pushes / self.seconds.max(1e-9), "/s")
    }

    /// Beside the rate of the one step that nothing can avoid; `goal` is a share of it.
    pub fn beside(&self, bare: &Self, goal: f64, row: Row) -> Row {
        let share = self.per_core() / bare.per_core().max(1e-9) * 100.0;
        row.fact("of the bare rate", share, " %").at_least(goal * 100.0, share, " % of the bare rate")
    }
}

pub fn missing(scenario: &'static str, name: impl Into<String>, advice: &str) -> Row {
    Row::new(scenario, name, NO_DURABILITY).note(advice)
}

/// So many shipments at a time; connections are open before the clock starts.
pub async fn measure<C>(channel: &Arc<C>, shipment: Shipment, lanes: usize, limit: Duration) -> Result<Spent>
where
    C: Channel + 'static,
{
    let shipment = Arc::new(shipment);
    drive(channel, &shipment, lanes, WARM_UP).await?;
    let (cpu, began) = (process::own_cpu()?, Instant::now());
    let taken = drive(channel, &shipment, lanes, limit).await?;
    Spent::since(began, cpu, taken)
}

async fn drive<C>(channel: &Arc<C>, shipment: &Arc<Shipment>, lanes: usize, limit: Duration) -> Result<usize>
where
    C: Channel + 'static,
{
    let began = Instant::now();
    let mut sending = tokio::task::JoinSet::new();
    for _ in 0..lanes {
        let (channel, shipment) = (Arc::clone(channel), Arc::clone(shipment));
        sending.spawn(async move {
            let (taken, others) = (AtomicU64::new(0), AtomicU64::new(0));
            let report = |_, answer| {
                let counter = if matches!(answer, Answer::Accepted { .. }) { &taken } else { &others };
                counter.fetch_add(1, Ordering::Relaxed);
            };
            while began.elapsed() < limit {
                channel.send(&shipment, &report).await;
            }
            (taken.into_inner(), others.into_inner())
        });
    }
    let mut all = 0;
    while let Some(lane) = sending.join_next().await {
        let (taken, others) = lane?;
        ensure!(others == 0, "{others} messages were not taken");
        all += usize::try_from(taken)?;
    }
    Ok(all)
}

/// A shipment without a deadline to `PARCEL` endpoints.
pub fn shipment(
    content: &[u8],
    collapse_key: Option<&str>,
    endpoint: impl Fn(usize) -> (Vec<u8>, Option<String>),
) -> Shipment {
    let message = |no: usize| {
        let (endpoint, unsubscribe) = endpoint(no);
        let (reference, recipient) = (format!("{no:0>38}"), no as u64);
        Message { reference, endpoint, content: None, attempt: 1, recipient, unsubscribe }
    };
    Shipment {
        tenant: TenantId(1),
        content: Arc::from(content),
        lane: Priority::Normal,
        expires_at: Millis(u64::MAX),
        collapse_key: collapse_key.map(str::to_owned),
        deadline: Millis(u64::MAX >> 1),
        callbacks: None,
        messages: (0..PARCEL).map(message).collect(),
    }
}
