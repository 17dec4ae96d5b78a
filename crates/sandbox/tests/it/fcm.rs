//! The emulator of FCM, with its token endpoint.

use crate::client::{Http2, Reply, control, start};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use fantail_sandbox::Running;
use fantail_sandbox::faults::Profile;
use fantail_sandbox::faults::profile::Quota;
use hyper::http::Request;
use serde_json::{Value, json};

const SEND: &str = "https://fcm.googleapis.com/v1/projects/p1/messages:send";
const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";

struct Account(KeyPair);

impl Account {
    fn new() -> Self {
        Self(KeyPair::generate(KeySize::Rsa2048).expect("a key"))
    }

    fn pem(&self) -> String {
        let der: aws_lc_rs::encoding::PublicKeyX509Der<'_> =
            self.0.public_key().as_der().expect("a public key");
        let text = STANDARD.encode(der.as_ref());
        format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
    }

    fn assertion(&self, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": "RS256", "typ": "JWT"})), part(claims));
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
            .expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn claims(running: &Running) -> Value {
    let now = running.world().clock().now_ms() / 1_000;
    let audience = "https://oauth2.googleapis.com/token";
    json!({"iss": "a@p1", "scope": SCOPE, "aud": audience, "iat": now, "exp": now + 3_600})
}

async fn exchange(running: &Running, assertion: &str) -> Reply {
    let mut client = Http2::open(running, running.shared(), "oauth2.googleapis.com").await;
    let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
    let request = Request::post("https://oauth2.googleapis.com/token")
        .body(Bytes::from(format!("grant_type={grant}&assertion={assertion}")))
        .expect("a request");
    client.call(request).await.expect("an answer")
}

async fn access(running: &Running) -> String {
    let reply = exchange(running, &Account::new().assertion(&claims(running))).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["expires_in"]), (200, &json!(3_599)));
    reply.json()["access_token"].as_str().expect("a token").to_owned()
}

fn send(token: &str, message: &Value) -> Request<Bytes> {
    Request::post(SEND)
        .header("authorization", format!("Bearer {token}"))
        .body(Bytes::from(json!({"message": message}).to_string()))
        .expect("a request")
}

#[tokio::test]
async fn assertions_are_checked_claim_by_claim() {
    let running = start().await;
    let (known, other) = (Account::new(), Account::new());
    let account = json!({"project": "p1", "publicKey": known.pem()});
    assert_eq!(control(&running, "PUT", "/fcm/accounts/a@p1", &account).await.0, 200);
    let good = claims(&running);
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        claims
    };
    let now = good["iat"].as_u64().expect("a time");
    for (signer, claims, expected) in [
        (&known, good.clone(), 200),
        (&other, good.clone(), 400),
        (&known, with("iss", json!("b@p1")), 400),
        (&known, with("aud", json!("https://example.com/token")), 400),
        (&known, with("scope", json!("https://www.googleapis.com/auth/drive")), 400),
        (&known, with("exp", json!(now + 7_200)), 400),
        (&known, with("iat", json!(now + 3_000)), 400),
        (&known, with("exp", json!(null)), 400),
    ] {
        let reply = exchange(&running, &signer.assertion(&claims)).await;
        assert_eq!(reply.status.as_u16(), expected, "{claims}: {}", reply.json());
    }
}

#[tokio::test]
async fn messages_are_taken_and_shown() {
    let running = start().await;
    let token = access(&running).await;
    let mut client = Http2::open(&running, running.shared(), "fcm.googleapis.com").await;
    for (message, recipient) in [
        (json!({"token": "t1", "data": {"fantail.reference": "r1"}}), "t1"),
        (json!({"fid": "f1", "notification": {"title": "hello"}}), "f1"),
        (json!({"topic": "news"}), "topic:news"),
    ] {
        let reply = client.call(send(&token, &message)).await.expect("an answer");
        assert_eq!(reply.status, 200);
        assert!(
            reply.json()["name"].as_str().is_some_and(|name| name.starts_with("projects/p1/messages/0:"))
        );
        let (_, page) =
            control(&running, "GET", &format!("/messages?recipient={recipient}"), &json!(null)).await;
        assert_eq!(page["messages"].as_array().map(Vec::len), Some(1), "{recipient}");
    }
    assert_eq!(client.sender.current_max_send_streams(), 100);
    let (_, shown) = control(&running, "GET", "/messages/1", &json!(null)).await;
    assert_eq!((&shown["id"], &shown["content"]["project"]), (&json!("r1"), &json!("p1")));
}

#[tokio::test]
async fn refusals_have_the_recorded_shapes() {
    let running = start().await;
    let token = access(&running).await;
    let mut client = Http2::open(&running, running.shared(), "fcm.googleapis.com").await;
    let long = "x".repeat(5_000);
    for (bearer, message, status, code) in [
        ("nonsense", json!({"token": "t"}), 401, Value::Null),
        (&token, json!({"token": "sandbox-unregistered"}), 404, json!("UNREGISTERED")),
        (&token, json!({"token": "sandbox-sender-id-mismatch"}), 403, json!("SENDER_ID_MISMATCH")),
        (&token, json!({"token": "sandbox-third-party-auth"}), 401, json!("THIRD_PARTY_AUTH_ERROR")),
        (&token, json!({"token": "sandbox-quota"}), 429, json!("QUOTA_EXCEEDED")),
        (&token, json!({"token": "sandbox-bad-gateway"}), 502, Value::Null),
        (&token, json!({"token": "t", "data": {"a": long}}), 400, Value::Null),
        (&token, json!({"token": "t", "data": {"a": 1}}), 400, json!("INVALID_ARGUMENT")),
    ] {
        let reply = client.call(send(bearer, &message)).await.expect("an answer");
        assert_eq!(reply.status.as_u16(), status, "{message}");
        assert_eq!(reply.json()["error"]["details"][0]["errorCode"], code, "{message}");
    }
    assert_eq!(running.judge(&[]).unexpected, []);
    running.world().clock().advance(3_700_000);
    let reply = client.call(send(&token, &json!({"token": "t"}))).await.expect("an answer");
    assert_eq!(reply.status, 401, "access tokens expire");
}

#[tokio::test]
async fn a_project_has_its_minute() {
    let running = start().await;
    let quota = Some(Quota { count: 2, window_ms: 60_000 });
    running.set_faults("fcm", Profile { quota, ..Profile::default() });
    let token = access(&running).await;
    let mut client = Http2::open(&running, running.shared(), "fcm.googleapis.com").await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let reply = client.call(send(&token, &json!({"token": "t"}))).await.expect("an answer");
        statuses.push(reply.status.as_u16());
        if reply.status == 429 {
            let wait: u64 = reply.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
            assert!((1..=60).contains(&wait), "{wait}");
        }
    }
    assert_eq!(statuses, [200, 200, 429]);
    running.world().clock().advance(60_000);
    let reply = client.call(send(&token, &json!({"token": "t"}))).await.expect("an answer");
    assert_eq!(reply.status, 200);
}
