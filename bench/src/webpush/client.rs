//! Our sender, as the dispatcher drives it: shipments of a thousand, two at a time.

use crate::apns::{Spent, System};
use crate::process;
use anyhow::{Result, ensure};
use fantail_channels::webpush::target::Browser;
use fantail_channels::webpush::{Secrets, Settings, WebPush, generate_vapid};
use fantail_outbound::pool::Ports;
use fantail_ports::channel::{Answer, Channel, Message, Shipment};
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::priority::Priority;
use fantail_rules::push_address::{PushAddress, Service};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LANES: usize = 2;

pub async fn measure(directory: &Path, port: u16, browsers: &[Browser], limit: Duration) -> Result<Spent> {
    let settings = json!({
        "subject": "mailto:push@example.com", "connectTo": format!("127.0.0.1:{port}"),
        "caPem": std::fs::read_to_string(directory.join("ca.pem"))?,
    });
    let time = Arc::new(System::new());
    let ports = Ports { clock: time.clone(), tasks: time };
    let (settings, secrets) = (Settings::read(&settings)?, Secrets::read(&generate_vapid())?);
    let push = Arc::new(WebPush::open(settings, secrets, ports)?);
    let shipment = Arc::new(shipment(browsers));
    send(&push, &shipment, Duration::from_millis(500)).await?;
    let (cpu, began) = (process::own_cpu()?, Instant::now());
    let pushes = send(&push, &shipment, limit).await?;
    let cpu_seconds = process::own_cpu()?.saturating_sub(cpu).as_secs_f64();
    Ok(Spent { pushes: pushes as f64, seconds: began.elapsed().as_secs_f64(), cpu_seconds })
}

/// So many shipments at a time, until the time is over.
async fn send(push: &Arc<WebPush>, shipment: &Arc<Shipment>, limit: Duration) -> Result<u64> {
    let began = Instant::now();
    let mut sending = tokio::task::JoinSet::new();
    for _ in 0..LANES {
        let (push, shipment) = (Arc::clone(push), Arc::clone(shipment));
        sending.spawn(async move {
            let (taken, others) = (AtomicU64::new(0), AtomicU64::new(0));
            let report = |_, answer| {
                let counter = if matches!(answer, Answer::Accepted { .. }) { &taken } else { &others };
                counter.fetch_add(1, Ordering::Relaxed);
            };
            while began.elapsed() < limit {
                push.send(&shipment, &report).await;
            }
            (taken.into_inner(), others.into_inner())
        });
    }
    let mut pushes = 0;
    while let Some(lane) = sending.join_next().await {
        let (taken, others) = lane?;
        ensure!(others == 0, "{others} messages were not taken");
        pushes += taken;
    }
    Ok(pushes)
}

fn shipment(browsers: &[Browser]) -> Shipment {
    let message = |(no, browser): (usize, &Browser)| {
        let url = format!("https://localhost/push/{no:0>64}");
        let (p256dh, auth) = (base64url(&browser.public), base64url(&browser.auth));
        let service = Service::WebPush { url: &url, p256dh: &p256dh, auth: &auth };
        Message {
            reference: format!("{no:0>38}"),
            endpoint: PushAddress { service, registered_at: Millis(1) }.write().into_bytes(),
            content: None,
            attempt: 1,
            recipient: no as u64,
            unsubscribe: None,
        }
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
        messages: browsers.iter().enumerate().map(message).collect(),
    }
}

fn base64url(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}
