//! The receiver of webhooks: takes what is signed, and shows it.

use crate::client::{control, start};
use bytes::Bytes;
use fantail_sandbox::Running;
use http_body_util::Full;
use hyper::http::Request;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;

async fn post(running: &Running, path: &str, signature: &str, now_ms: u64) -> u16 {
    let stream = TcpStream::connect(running.places().own["webhook"]).await.expect("a connection");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    let request = Request::builder().method("POST").uri(path).header("host", "hooks.fantail.test");
    let request = request.header("webhook-id", "ref1").header("webhook-timestamp", now_ms / 1_000);
    let request = request.header("webhook-signature", signature).body(Full::new(Bytes::from_static(b"{}")));
    sender.send_request(request.expect("a request")).await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn what_is_not_signed_is_refused_where_a_secret_is_known() {
    use aws_lc_rs::hmac;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let running = start().await;
    let now_ms = running.world().clock().now_ms();
    let secret = [7; 32];
    let known = json!({"path": "/orders", "secret": format!("whsec_{}", STANDARD.encode(secret))});
    assert_eq!(control(&running, "PUT", "/webhook/secrets", &known).await.0, 200);
    let said = format!("ref1.{}.{{}}", now_ms / 1_000);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    let good = format!("v1,{}", STANDARD.encode(hmac::sign(&key, said.as_bytes())));
    for (path, signature, at_ms, expected) in [
        ("/orders", good.as_str(), now_ms, 200),
        ("/orders", &format!("v1,AAAA {good}"), now_ms, 200),
        ("/orders", "v1,AAAA", now_ms, 401),
        ("/orders", &good, now_ms - 301_000, 401),
        ("/anything", "v1,AAAA", now_ms, 200),
        ("/status/503", "v1,AAAA", now_ms, 503),
        ("/status/410/x", "v1,AAAA", now_ms, 410),
    ] {
        assert_eq!(post(&running, path, signature, at_ms).await, expected, "{path} {signature}");
    }
    let (_, page) = control(&running, "GET", "/messages?channel=webhook", &json!(null)).await;
    assert_eq!(page["messages"].as_array().map(Vec::len), Some(7));
    assert_eq!(
        control(&running, "PUT", "/webhook/secrets", &json!({"path": "/a", "secret": "x"})).await.0,
        400
    );
}
