//! The emulator of Apple's service, frame by frame.

use crate::client::{Http2, ProviderKey, Reply, control, read, start, tls};
use bytes::Bytes;
use fantail_sandbox::Running;
use fantail_sandbox::faults::Profile;
use fantail_sandbox::judge::Send;
use hyper::http::Request;
use serde_json::{Value, json};

const HOST: &str = "api.push.apple.com";

fn push(token: &str, device: &str, id: &str) -> Request<Bytes> {
    Request::builder()
        .method("POST")
        .uri(format!("https://{HOST}/3/device/{device}"))
        .header("authorization", format!("bearer {token}"))
        .header("apns-topic", "com.example.app")
        .header("apns-push-type", "alert")
        .header("apns-id", id)
        .body(Bytes::from_static(br#"{"aps":{"alert":"hello"}}"#))
        .expect("a request")
}

fn id(no: u32) -> String {
    format!("00000000-0000-4000-8000-{no:012x}")
}

fn device(first: &str) -> String {
    format!("{first:0<64}")
}

async fn connect(running: &Running) -> Http2 {
    Http2::open(running, running.shared(), HOST).await
}

#[tokio::test]
async fn one_stream_until_a_token_was_good_then_a_thousand() {
    let running = start().await;
    let mut client = connect(&running).await;
    let token = ProviderKey::new().token("TEAM", running.world().clock().now_ms());
    let bad = client.call(push("nonsense", &device("aa"), &id(1))).await.expect("an answer");
    assert_eq!((bad.status.as_u16(), bad.json()), (403, json!({"reason": "InvalidProviderToken"})));
    assert_eq!(client.sender.current_max_send_streams(), 1);
    let good = client.call(push(&token, &device("aa"), &id(2))).await.expect("an answer");
    assert_eq!(good.status, 200);
    assert_eq!(good.headers["apns-id"], id(2).as_str());
    assert!(good.frames.is_empty(), "a success has no DATA");
    assert_eq!(client.sender.current_max_send_streams(), 1_000);
    let mut waiting = Vec::new();
    for no in 0..300 {
        waiting.push(client.send(push(&token, &device("ab"), &id(100 + no))).await.expect("sent"));
    }
    for response in waiting {
        assert_eq!(read(response).await.expect("an answer").status, 200);
    }
    let sends = (0..300).map(|no| Send { id: id(100 + no), recipient: Some(device("ab")) });
    let sends: Vec<Send> = sends.chain([Send { id: id(2), recipient: None }]).collect();
    assert!(running.judge(&sends).is_exactly_once());
}

#[tokio::test]
async fn magic_tokens_have_their_outcomes() {
    let running = start().await;
    let mut client = connect(&running).await;
    let token = ProviderKey::new().token("TEAM", running.world().clock().now_ms());
    for (first, status, reason) in [
        ("bad00400", 400, "BadDeviceToken"),
        ("bad0040f", 400, "DeviceTokenNotForTopic"),
        ("dead0410", 410, "Unregistered"),
        ("dead0411", 410, "Unregistered"),
        ("dead0412", 410, "ExpiredToken"),
        ("bad00429", 429, "TooManyRequests"),
        ("bad00500", 500, "InternalServerError"),
        ("bad00503", 503, "ServiceUnavailable"),
    ] {
        let reply = client.call(push(&token, &device(first), &id(7))).await.expect("an answer");
        assert_eq!((reply.status.as_u16(), &reply.json()["reason"]), (status, &json!(reason)));
        assert_eq!(reply.frames.len(), 1, "an error is one DATA frame");
        assert_eq!(reply.headers["apns-id"], id(7).as_str());
        let since = reply.json()["timestamp"].as_u64();
        match first {
            "dead0410" | "dead0412" => {
                assert!(since.is_some_and(|at| at > 1_700_000_000_000), "milliseconds")
            }
            "dead0411" => assert_eq!(since, Some(1_577_836_800_000)),
            _ => assert_eq!(since, None),
        }
    }
    assert_eq!(running.judge(&[]).unexpected, []);
    assert!(client.call(push(&token, &device("badf0001"), &id(8))).await.is_err());
    let verdict = running.judge(&[Send { id: id(8), recipient: None }]);
    assert_eq!(verdict.unique, 1, "taken, although the answer was lost");
}

#[tokio::test]
async fn a_connection_goes_away_with_a_reason_and_answers_what_it_took() {
    let running = start().await;
    running.set_faults("apns", Profile { go_away_every: Some(3), ..Profile::default() });
    let mut client = connect(&running).await;
    let token = ProviderKey::new().token("TEAM", running.world().clock().now_ms());
    for no in 0..3 {
        let reply = client.call(push(&token, &device("aa"), &id(no))).await.expect("an answer");
        assert_eq!(reply.status, 200);
    }
    assert!(client.call(push(&token, &device("aa"), &id(4))).await.is_err(), "no new streams");
    let ended = client.ended.await.expect("an end");
    assert!(ended.is_ok(), "went away without an error: {ended:?}");
    let mut client = connect(&running).await;
    assert_eq!(client.call(push(&token, &device("aa"), &id(4))).await.expect("an answer").status, 200);
    let (status, told) = control(&running, "POST", "/goaway/apns", &json!({})).await;
    assert_eq!((status.as_u16(), told), (200, json!({"connections": 1})));
    client.ended.await.expect("an end").expect("no error");
    let sends: Vec<Send> = [0, 1, 2, 4].map(|no| Send { id: id(no), recipient: None }).into();
    assert!(running.judge(&sends).is_exactly_once());
}

#[tokio::test]
async fn http2_is_recognised_without_alpn() {
    let running = start().await;
    let stream = tls(&running, running.shared(), HOST, &[]).await;
    let mut client = Http2::over(stream).await;
    let token = ProviderKey::new().token("TEAM", running.world().clock().now_ms());
    let reply: Reply = client.call(push(&token, &device("aa"), &id(1))).await.expect("an answer");
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn keys_that_are_registered_are_checked() {
    let running = start().await;
    let (known, other) = (ProviderKey::new(), ProviderKey::new());
    let key = json!({"team": "TEAM", "publicKey": known.public(), "topics": ["com.example.app"]});
    assert_eq!(control(&running, "PUT", "/apns/keys/KEY", &key).await.0, 200);
    let now_ms = running.world().clock().now_ms();
    let mut client = connect(&running).await;
    for (token, expected) in [
        (other.token("TEAM", now_ms), 403),
        (known.token("OTHER", now_ms), 403),
        (known.token("TEAM", now_ms), 200),
    ] {
        let reply = client.call(push(&token, &device("aa"), &id(1))).await.expect("an answer");
        assert_eq!(reply.status.as_u16(), expected);
    }
    let token = known.token("TEAM", now_ms);
    let mut request = push(&token, &device("aa"), &id(2));
    request.headers_mut().insert("apns-topic", "com.example.other".parse().expect("a value"));
    let mut client = connect(&running).await;
    let reply = client.call(request).await.expect("an answer");
    assert_eq!(reply.json()["reason"], "TopicDisallowed");
    running.world().clock().advance(3_700_000);
    let reply = client.call(push(&token, &device("aa"), &id(3))).await.expect("an answer");
    assert_eq!(reply.json()["reason"], "ExpiredProviderToken");
}

#[tokio::test]
async fn channels_are_made_and_broadcast_to() {
    let running = start().await;
    let mut client = Http2::open(&running, running.shared(), "api-manage-broadcast.push.apple.com").await;
    let token = ProviderKey::new().token("TEAM", running.world().clock().now_ms());
    let ask = |method: &str, path: &str, channel: Option<&str>, body: &Value| {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://{HOST}{path}"))
            .header("authorization", format!("Bearer {token}"))
            .header("apns-push-type", "liveactivity");
        if let Some(channel) = channel {
            request = request.header("apns-channel-id", channel);
        }
        request.body(Bytes::from(body.to_string())).expect("a request")
    };
    let wanted = json!({"message-storage-policy": 1, "push-type": "LiveActivity"});
    let made = client.call(ask("POST", "/1/apps/com.a/channels", None, &wanted)).await.expect("an answer");
    assert_eq!(made.status, 201);
    let channel = made.headers["apns-channel-id"].to_str().expect("text").to_owned();
    let payload = json!({"aps": {"event": "update"}});
    for (method, path, channel, body, status, reason) in [
        ("GET", "/1/apps/com.a/channels", Some(channel.as_str()), &json!(null), 200, Value::Null),
        ("GET", "/1/apps/com.a/all-channels", None, &json!(null), 200, Value::Null),
        ("POST", "/4/broadcasts/apps/com.a", Some(&channel), &payload, 200, Value::Null),
        ("POST", "/4/broadcasts/apps/com.a", None, &payload, 400, json!("MissingChannelId")),
        ("POST", "/4/broadcasts/apps/com.b", Some(&channel), &payload, 400, json!("ChannelNotRegistered")),
        ("POST", "/4/broadcasts/apps/com.a", Some(&channel), &json!({}), 400, json!("BadRequestPayload")),
        ("DELETE", "/1/apps/com.a/channels", Some(&channel), &json!(null), 204, Value::Null),
        ("GET", "/1/apps/com.a/channels", Some(&channel), &json!(null), 400, json!("ChannelNotRegistered")),
    ] {
        let reply = client.call(ask(method, path, channel, body)).await.expect("an answer");
        assert_eq!((reply.status.as_u16(), &reply.json()["reason"]), (status, &reason), "{method} {path}");
    }
}
