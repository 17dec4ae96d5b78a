//! Twilio's messages: what is answered, what is told later, and what people write back.

use crate::client::{control, start};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fantail_sandbox::Running;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::http::{HeaderMap, Request, Response, StatusCode};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const SID: &str = "AC00000000000000000000000000000001";
const FROM: &str = "%2B12025550100";

async fn call(running: &Running, method: &str, path: &str, token: &str, form: &str) -> (StatusCode, Value) {
    let stream = TcpStream::connect(running.places().own["twilio"]).await.expect("a connection");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    let basic = format!("Basic {}", STANDARD.encode(format!("{SID}:{token}")));
    let request = Request::builder().method(method).uri(path).header("host", "api.twilio.com");
    let request = request.header("authorization", basic).body(Full::new(Bytes::from(form.to_owned())));
    let response = sender.send_request(request.expect("a request")).await.expect("an answer");
    let status = response.status();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

async fn create(running: &Running, form: &str) -> (StatusCode, Value) {
    call(running, "POST", &format!("/2010-04-01/Accounts/{SID}/Messages.json"), "token", form).await
}

struct Told {
    path: String,
    headers: HeaderMap,
    body: String,
}

/// Whoever is told.
async fn listener() -> (SocketAddr, mpsc::UnboundedReceiver<Told>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (send, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let send = send.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let send = send.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.expect("a body").to_bytes();
                    let body = String::from_utf8(body.to_vec()).expect("a form");
                    let told = Told { path: head.uri.to_string(), headers: head.headers, body };
                    send.send(told).expect("the test listens");
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    (address, told)
}

/// What was signed, put together from the body as it came: names without repeats.
fn is_signed(told: &Told, address: SocketAddr, algorithm: hmac::Algorithm, secret: &str) -> bool {
    let decoded = |text: &str| {
        percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
    };
    let mut fields: Vec<(String, String)> = told
        .body
        .split('&')
        .filter_map(|part| part.split_once('='))
        .map(|(n, v)| (decoded(n), decoded(v)))
        .collect();
    fields.sort();
    let said: String = fields.into_iter().map(|(name, value)| name + &value).collect();
    let key = hmac::Key::new(algorithm, secret.as_bytes());
    let signature = STANDARD.decode(&told.headers["x-twilio-signature"]).expect("base64");
    hmac::verify(&key, format!("http://{address}{}{said}", told.path).as_bytes(), &signature).is_ok()
}

#[tokio::test]
async fn a_message_is_taken_shown_and_told_about() {
    let running = start().await;
    let (address, mut told) = listener().await;
    let form = format!("To=%2B12025550199&From={FROM}&Body=Hi+there&StatusCallback=http://{address}/cb/ref1");
    let (status, message) = create(&running, &form).await;
    assert_eq!(status, 201);
    let shown =
        ["status", "body", "to", "from", "num_segments", "direction"].map(|name| message[name].clone());
    assert_eq!(shown, ["queued", "Hi there", "+12025550199", "+12025550100", "1", "outbound-api"]);
    for expected in ["sent", "delivered"] {
        let told = told.recv().await.expect("a callback");
        assert!(told.body.contains(&format!("MessageStatus={expected}")), "{}", told.body);
        assert!(is_signed(&told, address, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, "token"));
    }
    let path =
        format!("/2010-04-01/Accounts/{SID}/Messages/{}.json", message["sid"].as_str().expect("a sid"));
    let (_, later) = call(&running, "GET", &path, "token", "").await;
    assert_eq!(later["status"], "delivered");
    let (_, page) = control(&running, "GET", "/messages?channel=sms", &json!(null)).await;
    assert_eq!(page["messages"][0]["id"], "ref1", "known by the reference that a repeat carries too");
}

#[tokio::test]
async fn numbers_for_tests_and_mistakes_have_their_codes() {
    let running = start().await;
    for (form, code) in [
        (format!("From={FROM}&Body=x"), 21_604),
        (format!("To=12&From={FROM}&Body=x"), 21_211),
        ("To=%2B12025550199&Body=x".to_owned(), 21_603),
        (format!("To=%2B12025550199&From={FROM}"), 21_602),
        (format!("To=%2B12025550199&From={FROM}&Body={}", "x".repeat(1_601)), 21_617),
        (format!("To=%2B15005550001&From={FROM}&Body=x"), 21_211),
        (format!("To=%2B15005550002&From={FROM}&Body=x"), 21_612),
        (format!("To=%2B15005550003&From={FROM}&Body=x"), 21_408),
        (format!("To=%2B15005550004&From={FROM}&Body=x"), 21_610),
        (format!("To=%2B15005550009&From={FROM}&Body=x"), 21_614),
        ("To=%2B12025550199&From=%2B15005550007&Body=x".to_owned(), 21_606),
        ("To=%2B12025550199&From=%2B15005550008&Body=x".to_owned(), 21_611),
    ] {
        let (status, error) = create(&running, &form).await;
        assert_eq!(
            (error["code"].as_u64(), error["status"].as_u64()),
            (Some(code), Some(status.as_u16().into())),
            "{form}"
        );
    }
    let (status, _) = call(&running, "GET", &format!("/2010-04-01/Accounts/{SID}.json"), "token", "").await;
    assert_eq!(status, 200);
    let account = json!({"authToken": "right"});
    control(&running, "PUT", &format!("/twilio/accounts/{SID}"), &account).await;
    let (status, error) = create(&running, &format!("To=%2B12025550199&From={FROM}&Body=x")).await;
    assert_eq!((status.as_u16(), error["code"].as_u64()), (401, Some(20_003)));
}

#[tokio::test]
async fn a_full_queue_refuses_numbers_and_fails_services_later() {
    let running = start().await;
    let (address, mut told) = listener().await;
    let slow = json!({"perSecond": 0.001, "queueSeconds": 1});
    for sender in ["%2B12025550100", "MG1"] {
        control(&running, "PUT", &format!("/twilio/senders/{sender}"), &slow).await;
    }
    let form = format!("To=%2B12025550199&From={FROM}&Body=x");
    assert_eq!(create(&running, &form).await.0, 201);
    assert_eq!(create(&running, &form).await.1["code"], 21_611);
    let form =
        format!("To=%2B12025550199&MessagingServiceSid=MG1&Body=x&StatusCallback=http://{address}/cb/r");
    assert_eq!(create(&running, &form.replace("&Status", "&Not")).await.1["status"], "accepted");
    assert_eq!(create(&running, &form).await.1["status"], "accepted");
    let told = told.recv().await.expect("a callback");
    assert!(
        told.body.contains("MessageStatus=failed") && told.body.contains("ErrorCode=30001"),
        "{}",
        told.body
    );
}

#[tokio::test]
async fn who_says_stop_gets_nothing_until_start() {
    let running = start().await;
    let (address, mut told) = listener().await;
    let account = json!({"authToken": "token", "sharedKey": {"id": "key1", "secret": "shared"}});
    control(&running, "PUT", &format!("/twilio/accounts/{SID}"), &account).await;
    let form = format!("To=%2B12025550199&From={FROM}&Body=x");
    assert_eq!(create(&running, &form).await.0, 201);
    let word = |body: &str| {
        let url = format!("http://{address}/inbound");
        json!({"from": "+12025550199", "to": "+12025550100", "body": body, "account": SID, "url": url})
    };
    for (body, expected) in [("Stop", 400), ("hello", 400), ("START", 201)] {
        let (_, answer) = control(&running, "POST", "/twilio/inbound", &word(body)).await;
        assert_eq!(answer["told"], 200);
        let told = told.recv().await.expect("a callback");
        assert!(told.body.contains(&format!("Body={body}")), "{}", told.body);
        assert_eq!(told.headers["x-twilio-webhooks-signature-settings"], "key=key1,algorithm=HMAC_SHA256");
        assert!(is_signed(&told, address, hmac::HMAC_SHA256, "shared"));
        let (status, answer) = create(&running, &form).await;
        assert_eq!(status.as_u16(), expected, "{body}: {answer}");
    }
}

#[tokio::test]
async fn callbacks_come_twice_and_late_if_the_profile_says_so() {
    let running = start().await;
    let (address, mut told) = listener().await;
    let profile = json!({"receipts": {"duplicateShare": 1.0, "lateShare": 0.5, "lateMs": 200}});
    control(&running, "PUT", "/faults/twilio", &profile).await;
    let senders = json!({"perSecond": 1000});
    control(&running, "PUT", "/twilio/senders/%2B12025550100", &senders).await;
    for no in 0..20 {
        let form = format!(
            "To=%2B1500553000{}&From={FROM}&Body=x&StatusCallback=http://{address}/cb/r{no}",
            3 + no % 6
        );
        assert_eq!(create(&running, &form).await.0, 201);
    }
    let mut overtaken = 0;
    let mut ended = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..80 {
        let told = told.recv().await.expect("a callback");
        if told.body.contains("MessageStatus=undelivered") {
            *ended.entry(told.path).or_default() += 1;
        } else if ended.contains_key(&told.path) {
            overtaken += 1;
        }
    }
    assert_eq!((ended.len(), ended.values().sum::<u32>()), (20, 40), "each twice");
    assert!(overtaken > 0, "some came in another order");
}

#[tokio::test]
async fn nothing_is_posted_to_another_machine() {
    let running = start().await;
    let word =
        json!({"from": "+12025550199", "to": "+1", "body": "x", "account": SID, "url": "http://192.0.2.1/x"});
    create(&running, &format!("To=%2B12025550199&From={FROM}&Body=x")).await;
    let (_, answer) = control(&running, "POST", "/twilio/inbound", &word).await;
    assert_eq!(answer["told"], json!(null));
}
