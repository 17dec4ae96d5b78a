//! The push service and the browser behind it.

use crate::client::{Http2, ProviderKey, Reply, control, start};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use fantail_sandbox::emulator::ControlReply;
use fantail_sandbox::judge::Send;
use fantail_sandbox::{Options, Running, Sandbox};
use hyper::http::{Method, Request};
use serde_json::{Value, json};

fn decode(value: &Value) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(value.as_str().expect("text")).expect("base64url")
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &parts.concat()).as_ref().to_vec()
}

/// RFC 8291 from the sender's side, with HKDF written as the two HMACs that it is.
fn encrypt(subscription: &Value, text: &[u8]) -> Bytes {
    let (browser, auth) = (decode(&subscription["keys"]["p256dh"]), decode(&subscription["keys"]["auth"]));
    let private = PrivateKey::generate(&ECDH_P256).expect("a key");
    let public = private.compute_public_key().expect("a public key");
    let shared =
        agree(&private, UnparsedPublicKey::new(&ECDH_P256, &browser), (), |secret| Ok(secret.to_vec()));
    let agreed = mac(&auth, &[&shared.expect("agreed")]);
    let material = mac(&agreed, &[b"WebPush: info\0", &browser, public.as_ref(), &[1]]);
    let salt = [7; 16];
    let secret = mac(&salt, &[&material]);
    let key = mac(&secret, &[b"Content-Encoding: aes128gcm\0", &[1]]);
    let nonce = mac(&secret, &[b"Content-Encoding: nonce\0", &[1]]);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key[..16]).expect("a key"));
    let nonce = Nonce::try_assume_unique_for_key(&nonce[..12]).expect("a nonce");
    let mut sealed = [text, &[2]].concat();
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut sealed).expect("sealed");
    [&salt[..], &4_096_u32.to_be_bytes(), &[65], public.as_ref(), &sealed].concat().into()
}

fn vapid(key: &ProviderKey, running: &Running, origin: &str) -> String {
    let expires = running.world().clock().now_ms() / 1_000 + 3_600;
    let claims = json!({"aud": origin, "exp": expires, "sub": "mailto:ops@example.org"});
    let token = key.sign(&json!({"alg": "ES256", "typ": "JWT"}), &claims);
    format!("vapid t={token}, k={}", key.public())
}

async fn subscribe(running: &Running, wish: &Value) -> Value {
    let (status, subscription) = control(running, "POST", "/webpush/subscriptions", wish).await;
    assert_eq!(status, 201, "{subscription}");
    subscription
}

async fn post(running: &Running, endpoint: &str, headers: &[(&str, &str)], body: Bytes) -> Reply {
    let host = endpoint.split('/').nth(2).expect("a host");
    let mut client = Http2::open(running, running.shared(), host).await;
    let mut request = Request::post(endpoint);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.call(request.body(body).expect("a request")).await.expect("an answer")
}

#[tokio::test]
async fn a_message_reaches_the_browser_and_replaces_its_topic() {
    let running = start().await;
    let key = ProviderKey::new();
    let subscription = subscribe(&running, &json!({"applicationServerKey": key.public()})).await;
    let endpoint = subscription["endpoint"].as_str().expect("an endpoint");
    let authorization = vapid(&key, &running, "https://updates.push.services.mozilla.com");
    let headers = [
        ("authorization", authorization.as_str()),
        ("ttl", "60"),
        ("topic", "news"),
        ("content-encoding", "aes128gcm"),
    ];
    for no in 0..2 {
        let text = json!({"reference": format!("r{no}"), "title": "hello"}).to_string();
        let reply = post(&running, endpoint, &headers, encrypt(&subscription, text.as_bytes())).await;
        assert_eq!(reply.status, 201, "{}", reply.json());
        assert!(reply.headers.contains_key("location"));
        assert_eq!(reply.headers["ttl"], "60");
    }
    let id = subscription["id"].as_str().expect("an id");
    let (_, shown) = control(&running, "GET", &format!("/webpush/subscriptions/{id}"), &json!(null)).await;
    let waiting = shown["waiting"].as_array().expect("a list");
    assert_eq!(waiting.len(), 1, "the later one took the place of the first");
    assert!(waiting[0]["text"].as_str().is_some_and(|text| text.contains("r1")));
    let sends = ["r0", "r1"].map(|id| Send { id: id.to_owned(), recipient: Some(endpoint.to_owned()) });
    assert!(running.judge(&sends).is_exactly_once());
    let (_, page) = control(&running, "GET", "/messages/1", &json!(null)).await;
    assert_eq!(page["content"]["payload"]["title"], "hello");
}

#[tokio::test]
async fn what_does_not_open_is_not_counted() {
    let running = start().await;
    let subscription = subscribe(&running, &json!({})).await;
    let other = subscribe(&running, &json!({})).await;
    let endpoint = subscription["endpoint"].as_str().expect("an endpoint");
    let headers = [("ttl", "60"), ("content-encoding", "aes128gcm")];
    let reply = post(&running, endpoint, &headers, encrypt(&other, b"{\"id\":\"r\"}")).await;
    assert_eq!(reply.status, 201, "no push service could tell");
    assert_eq!(running.judge(&[]).unexpected, []);
    let (_, shown) = control(&running, "GET", "/messages/1", &json!(null)).await;
    assert!(shown["refused"].as_str().is_some_and(|reason| reason.contains("does not open")));
}

#[tokio::test]
async fn endings_and_keys_have_their_statuses() {
    let running = start().await;
    let (key, other) = (ProviderKey::new(), ProviderKey::new());
    let bound = subscribe(&running, &json!({"applicationServerKey": key.public()})).await;
    let ended = subscribe(&running, &json!({})).await;
    let full = subscribe(&running, &json!({"outcome": "quota"})).await;
    let apple = subscribe(&running, &json!({"service": "apple"})).await;
    let id = ended["id"].as_str().expect("an id");
    let (_, told) = control(&running, "DELETE", &format!("/webpush/subscriptions/{id}"), &json!(null)).await;
    assert_eq!(told, json!({"ended": true}));
    let origin = "https://updates.push.services.mozilla.com";
    let (own, foreign) = (vapid(&key, &running, origin), vapid(&other, &running, origin));
    let unknown = json!({"endpoint": format!("{origin}/wpush/v2/unknown")});
    let magic = json!({"endpoint": format!("{origin}/wpush/v2/sandbox-gone")});
    for (subscription, authorization, expected) in [
        (&bound, Some(&own), 201),
        (&bound, Some(&foreign), 403),
        (&bound, None, 401),
        (&ended, None, 410),
        (&unknown, None, 404),
        (&magic, None, 410),
        (&full, None, 429),
        (&apple, None, 401),
        (&apple, Some(&own), 403),
    ] {
        let mut headers = vec![("ttl", "5")];
        headers.extend(authorization.map(|value| ("authorization", value.as_str())));
        let endpoint = subscription["endpoint"].as_str().expect("an endpoint");
        let reply = post(&running, endpoint, &headers, Bytes::new()).await;
        assert_eq!(reply.status.as_u16(), expected, "{endpoint}");
        assert_eq!(reply.status == 429, reply.headers.contains_key("retry-after"));
    }
}

#[tokio::test]
async fn unknown_subscriptions_are_taken_unopened_if_that_is_wanted() {
    let options = Options { takes_unknown_subscriptions: true, ..Options::default() };
    let running = Sandbox::start(options).await.expect("a sandbox");
    let own = ProviderKey::new();
    let endpoint = "https://updates.push.services.mozilla.com/wpush/v2/of-a-real-browser";
    let authorization = vapid(&own, &running, "https://updates.push.services.mozilla.com");
    let foreign = vapid(&own, &running, "https://elsewhere.example");
    for (authorization, expected) in [(&authorization, 201), (&foreign, 401)] {
        let headers = [("authorization", authorization.as_str()), ("ttl", "5")];
        let reply = post(&running, endpoint, &headers, Bytes::new()).await;
        assert_eq!(reply.status.as_u16(), expected);
    }
    let asked = running.ask(Method::GET, "/messages?channel=push&order=newest&limit=1", Value::Null).await;
    let ControlReply::Json(_, page) = asked else { panic!("{asked:?}") };
    assert_eq!(page["messages"][0]["recipient"], endpoint);
}
