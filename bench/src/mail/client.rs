//! Our sender, as the dispatcher drives it: shipments of a thousand, two at a time.

use super::RSA_KEY;
use crate::sending::{Spent, measure, ports, shipment};
use anyhow::Result;
use fantail_channels::smtp::{Secrets, Settings, Smtp};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const CONNECTIONS: usize = 16;
/// While one ends, the other keeps the connections busy.
const LANES: usize = 2;
const HTML: &str = "<h1>Your order is on its way</h1><p>Hello, have a look at <a href='https://shop.example/o/42'>your order</a>.</p>";

pub async fn run(port: u16, is_signed: bool, limit: Duration) -> Result<Spent> {
    let smtp = Arc::new(open(port, is_signed)?);
    let content = json!({"subject": "Your order", "html": HTML}).to_string();
    let endpoint = |no| {
        let unsubscribe = format!("https://notify.shop.example/h/out/{no}");
        (format!("user{no}@mail.example").into_bytes(), Some(unsubscribe))
    };
    measure(&smtp, shipment(content.as_bytes(), None, endpoint), LANES, limit).await
}

fn open(port: u16, is_signed: bool) -> Result<Smtp> {
    let mut settings = json!({
        "host": "localhost", "connectTo": format!("127.0.0.1:{port}"), "security": "none",
        "fromAddress": "news@shop.example", "connectionsMax": CONNECTIONS,
    });
    let mut secrets = json!({});
    if is_signed {
        settings["dkim"] = json!({"domain": "shop.example", "rsaSelector": "s1"});
        secrets["dkimRsaKey"] = RSA_KEY.into();
    }
    Ok(Smtp::open(Settings::read(&settings)?, Secrets::read(&secrets)?, ports())?)
}
