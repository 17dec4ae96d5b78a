//! Our sender, as the dispatcher drives it: shipments of a thousand, two at a time.

use crate::sending::{PUSH, Spent, measure, ports, shipment};
use anyhow::Result;
use fantail_channels::webpush::target::Browser;
use fantail_channels::webpush::{Secrets, Settings, WebPush, generate_vapid};
use fantail_rules::ids::Millis;
use fantail_rules::push_address::{PushAddress, Service};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const LANES: usize = 2;

pub async fn run(directory: &Path, port: u16, browsers: &[Browser], limit: Duration) -> Result<Spent> {
    let settings = json!({
        "subject": "mailto:push@example.com", "connectTo": format!("127.0.0.1:{port}"),
        "caPem": std::fs::read_to_string(directory.join("ca.pem"))?,
    });
    let (settings, secrets) = (Settings::read(&settings)?, Secrets::read(&generate_vapid())?);
    let push = Arc::new(WebPush::open(settings, secrets, ports())?);
    let endpoint = |no: usize| {
        let browser = &browsers[no % browsers.len()];
        let url = format!("https://localhost/push/{no:0>64}");
        let (p256dh, auth) = (base64url(&browser.public), base64url(&browser.auth));
        let service = Service::WebPush { url: &url, p256dh: &p256dh, auth: &auth };
        (PushAddress { service, registered_at: Millis(1) }.write().into_bytes(), None)
    };
    measure(&push, shipment(PUSH, Some("order-42"), endpoint), LANES, limit).await
}

fn base64url(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}
