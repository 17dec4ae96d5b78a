//! Our sender, as the dispatcher drives it: shipments of a thousand, a few at a time, on one core.

use crate::sending::{PUSH, Spent, measure, ports, shipment};
use anyhow::{Context, Result, ensure};
use fantail_channels::apns::{Apns, Secrets, Settings};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Shipments keep all connections busy.
pub async fn run(directory: &Path, port: u16, connections: usize, limit: Duration) -> Result<Spent> {
    let apns = Arc::new(open(directory, port, connections)?);
    // Messages as they are: a token of 64 digits, a reference of 38.
    let endpoint = |no| (format!("apns production 1600000000000 - {no:0>64x}").into_bytes(), None);
    let spent = measure(&apns, shipment(PUSH, Some("order-42"), endpoint), connections.max(2), limit).await?;
    let open: usize = apns.gauges().iter().map(|(_, gauge)| gauge.connections).sum();
    ensure!(open == connections, "{open} connections are open");
    Ok(spent)
}

fn open(directory: &Path, port: u16, connections: usize) -> Result<Apns> {
    let settings = json!({
        "teamId": "TEAM", "keyId": "KEY1", "topic": "com.example.app", "environment": "production",
        "endpoint": format!("https://localhost:{port}"), "connectTo": format!("127.0.0.1:{port}"),
        "caPem": std::fs::read_to_string(directory.join("ca.pem"))?, "connections": connections,
    });
    let key = rcgen::KeyPair::generate()?.serialize_pem();
    Apns::open(Settings::read(&settings)?, Secrets::read(&json!({"p8": key}))?, ports()).context("no sender")
}
