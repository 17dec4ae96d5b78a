//! Mail: the SMTP server as a client meets it, and SES with its events.

use super::client::{control, start, tls};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use bytes::Bytes;
use fantail_sandbox::Running;
use fantail_sandbox::record::hex;
use fantail_sandbox::sns::rfc3339;
use http_body_util::{BodyExt, Full};
use hyper::http::StatusCode;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

struct Client<S>(BufStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// The last line of a reply; empty when the server is gone.
    async fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.expect("a line");
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("a server");
        self.0.flush().await.expect("a server");
    }

    async fn ask(&mut self, text: &str) -> String {
        self.say(&format!("{text}\r\n")).await;
        self.reply().await
    }

    /// The codes of the replies, up to the one that decides.
    async fn mail(&mut self, to: &str, id: &str) -> String {
        self.say(&format!("MAIL FROM:<bounce+{id}@shop.example>\r\nRCPT TO:<{to}>\r\nDATA\r\n")).await;
        let (_, rcpt, data) = (self.reply().await, self.reply().await, self.reply().await);
        if !data.starts_with("354") {
            return rcpt;
        }
        self.ask(&format!("Message-ID: <{id}@shop.example>\r\nSubject: Hello\r\n\r\n..a dot\r\nbye\r\n."))
            .await
    }
}

async fn connect(running: &Running) -> Client<TcpStream> {
    let stream = TcpStream::connect(running.own("smtp").expect("a port")).await.expect("a connection");
    let mut client = Client(BufStream::new(stream));
    assert!(client.reply().await.starts_with("220 "));
    assert!(client.ask("EHLO test").await.starts_with("250 "));
    client
}

#[tokio::test]
async fn mails_are_taken_shown_and_judged() {
    let running = start().await;
    let mut client = connect(&running).await;
    assert!(client.mail("ann@a.example", "r1").await.starts_with("250 2.0.0 ok: queued as "));
    let (_, list) = control(&running, "GET", "/messages?channel=email", &json!({})).await;
    let no = list["messages"][0]["no"].as_u64().expect("a number");
    let (_, shown) = control(&running, "GET", &format!("/messages/{no}"), &json!({})).await;
    assert_eq!(shown["content"]["subject"], "Hello");
    assert_eq!(shown["content"]["text"].as_str().map(str::trim_end), Some(".a dot\r\nbye"));
    assert_eq!(shown["content"]["envelope"]["from"], "bounce+r1@shop.example");
    assert_eq!(running.world().record().counts().arrived, 1);
}

#[tokio::test]
async fn recipients_say_what_becomes_of_them() {
    let running = start().await;
    let mut client = connect(&running).await;
    for (local, expected) in [
        ("sandbox-550-5.1.1", "550 5.1.1"),
        ("sandbox-451", "451"),
        ("sandbox-dot-554-5.7.1", "554 5.7.1"),
        ("sandbox-bounce", "250"),
        ("sandbox-complaint", "250"),
        ("sandbox-421-4.3.2", "421 4.3.2"),
    ] {
        let reply = client.mail(&format!("{local}@a.example"), "r1").await;
        assert!(reply.starts_with(expected), "{local}: {reply}");
        client.say("RSET\r\n").await;
        if !expected.starts_with("421") {
            client.reply().await;
        }
    }
    assert_eq!(client.reply().await, "", "421 ends the conversation");
    let mut client = connect(&running).await;
    assert_eq!(client.mail("sandbox-lose-connection@a.example", "r2").await, "");
    let (_, reports) = control(&running, "GET", "/smtp/reports", &json!({})).await;
    let reports = reports.as_array().expect("a list");
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0]["to"], "bounce+r1@shop.example");
    assert!(reports[0]["mail"].as_str().expect("a mail").contains("Status: 5.1.1\r\n"));
    assert!(reports[1]["mail"].as_str().expect("a mail").contains("Feedback-Type: abuse\r\n"));
    assert_eq!(running.world().record().counts().arrived, 3);
}

#[tokio::test]
async fn logins_and_tls_are_spoken() {
    let running = start().await;
    let settings = json!({"authNeeded": true, "username": "me", "password": "open sesame"});
    control(&running, "PUT", "/smtp/settings", &settings).await;
    let mut client = connect(&running).await;
    assert!(client.mail("ann@a.example", "r1").await.starts_with("503"), "530 came before");
    assert!(client.ask("AUTH PLAIN AG1lAGd1ZXNz").await.starts_with("535"));
    assert!(client.ask("AUTH PLAIN AG1lAG9wZW4gc2VzYW1l").await.starts_with("235"));
    assert!(client.mail("ann@a.example", "r1").await.starts_with("250"));
    let stream = tls(&running, running.own("smtps").expect("a port"), "localhost", &[]).await;
    let mut client = Client(BufStream::new(stream));
    assert!(client.reply().await.starts_with("220 "));
    client.ask("EHLO test").await;
    assert!(client.ask("AUTH LOGIN bWU=").await.starts_with("334"));
    assert!(client.ask("b3BlbiBzZXNhbWU=").await.starts_with("235"));
    assert!(client.mail("ann@a.example", "r2").await.starts_with("250"));
}

/// Signed by hand, once more: neither the sender's code nor the emulator's.
async fn ses(running: &Running, secret: &str, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
    let now_ms = running.world().now_ms("ses");
    let time: String = rfc3339(now_ms).split('.').next().expect("a time").replace(['-', ':'], "") + "Z";
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let hash = |bytes: &[u8]| hex(digest(&SHA256, bytes).as_ref());
    let canonical = format!(
        "{method}\n{path}\n\nhost:localhost\nx-amz-date:{time}\n\nhost;x-amz-date\n{}",
        hash(body.as_bytes())
    );
    let scope = format!("{}/eu-west-1/ses/aws4_request", &time[..8]);
    let mut key = format!("AWS4{secret}").into_bytes();
    for part in scope.split('/') {
        key = sign(&Key::new(HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec();
    }
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hash(canonical.as_bytes()));
    let signature = hex(sign(&Key::new(HMAC_SHA256, &key), to_sign.as_bytes()).as_ref());
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential=AKIDSANDBOX/{scope}, SignedHeaders=host;x-amz-date, Signature={signature}"
    );
    let stream = TcpStream::connect(running.own("ses").expect("a port")).await.expect("a connection");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("x-amz-date", &time)
        .header("authorization", authorization)
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    let response = sender.send_request(request).await.expect("an answer");
    let status = response.status();
    let kind =
        response.headers().get("x-amzn-errortype").and_then(|kind| kind.to_str().ok()).map(str::to_owned);
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    let mut value: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(kind) = kind {
        value["kind"] = kind.into();
    }
    (status, value)
}

fn mail(to: &str) -> Value {
    let content = json!({"Simple": {"Subject": {"Data": "Hello"}, "Body": {"Text": {"Data": "bye"}}}});
    json!({
        "FromEmailAddress": "Shop <news@shop.example>", "Destination": {"ToAddresses": [to]}, "Content": content,
        "EmailTags": [{"Name": "fantail-reference", "Value": "r1"}],
    })
}

const SEND: &str = "/v2/email/outbound-emails";
const SEND_MANY: &str = "/v2/email/outbound-bulk-emails";

#[tokio::test]
async fn ses_takes_what_is_signed_and_within_the_quota() {
    let running = start().await;
    let (status, answer) = ses(&running, "guess", "POST", SEND, &mail("ann@a.example")).await;
    assert_eq!((status.as_u16(), &answer["kind"]), (403, &json!("SignatureDoesNotMatch")));
    let send = async |to: &str| ses(&running, "sandbox-secret", "POST", SEND, &mail(to)).await;
    let (status, answer) = send("ann@a.example").await;
    assert_eq!(status, StatusCode::OK);
    assert!(answer["MessageId"].as_str().is_some_and(|id| id.starts_with("0100")));
    let (status, answer) = send("sandbox-TooManyRequestsException@a.example").await;
    assert_eq!((status.as_u16(), &answer["kind"]), (429, &json!("TooManyRequestsException")));
    control(&running, "PUT", "/ses/identities", &json!({"verified": ["other.example"]})).await;
    assert_eq!(send("ann@a.example").await.1["kind"], "MessageRejected");
    control(&running, "PUT", "/ses/identities", &json!({})).await;
    control(&running, "PUT", "/ses/account", &json!({"max24HourSend": 1})).await;
    assert_eq!(send("ann@a.example").await.1["message"], "Daily message quota exceeded.");
    let (_, account) = ses(&running, "sandbox-secret", "GET", "/v2/email/account", &Value::Null).await;
    assert_eq!(account["SendQuota"]["SentLast24Hours"], 1.0);
    assert_eq!(running.world().record().counts().arrived, 1);
}

#[tokio::test]
async fn many_at_once_have_a_result_each() {
    let running = start().await;
    let entry = |to: &str| json!({"Destination": {"ToAddresses": [to]}});
    let template = json!({"Subject": "Hello {{name}}", "Text": "bye"});
    let body = json!({
        "FromEmailAddress": "news@shop.example",
        "DefaultContent": {"Template": {"TemplateContent": template, "TemplateData": "{\"name\":\"you\"}"}},
        "BulkEmailEntries": [entry("ann@a.example"), entry("sandbox-MessageRejected@a.example"), entry("nobody")],
    });
    let (status, answer) = ses(&running, "sandbox-secret", "POST", SEND_MANY, &body).await;
    assert_eq!(status, StatusCode::OK);
    let results = answer["BulkEmailEntryResults"].as_array().expect("results");
    let statuses: Vec<&str> = results.iter().filter_map(|result| result["Status"].as_str()).collect();
    assert_eq!(statuses, ["SUCCESS", "MESSAGE_REJECTED", "INVALID_PARAMETER"]);
}

#[tokio::test]
async fn each_of_many_has_texts_headers_and_tags_of_its_own() {
    let running = start().await;
    let header = json!({"Name": "List-Unsubscribe", "Value": "<https://shop.example/out>"});
    let entry = json!({
        "Destination": {"ToAddresses": ["ann@a.example"]},
        "ReplacementEmailContent": {"ReplacementTemplate": {"ReplacementTemplateData": "{\"html\":\"<b>{{x}}</b>\"}"}},
        "ReplacementHeaders": [header],
        "ReplacementTags": [{"Name": "reference", "Value": "r1"}],
    });
    let mut body = json!({
        "FromEmailAddress": "Shop <news@shop.example>",
        "DefaultContent": {"Template": {"TemplateContent": {"Subject": "s", "Html": "{{html}}"}, "TemplateData": "{}"}},
        "BulkEmailEntries": [entry],
    });
    let send = async |body: &Value| ses(&running, "sandbox-secret", "POST", SEND_MANY, body).await;
    assert_eq!(send(&body).await.1["BulkEmailEntryResults"][0]["Status"], "SUCCESS");
    let (_, list) = control(&running, "GET", "/messages?channel=email", &json!({})).await;
    assert_eq!(list["messages"][0]["id"], "r1");
    let no = list["messages"][0]["no"].as_u64().expect("a number");
    let (_, shown) = control(&running, "GET", &format!("/messages/{no}"), &json!({})).await;
    assert_eq!(shown["content"]["html"], "<b>{{x}}</b>", "nothing is escaped, and nothing filled twice");
    assert_eq!(shown["content"]["headers"], json!([["List-Unsubscribe", "<https://shop.example/out>"]]));
    body["BulkEmailEntries"][0]["ReplacementHeaders"][0]["Value"] = "a".repeat(996).into();
    assert_eq!(send(&body).await.1["kind"], "BadRequestException");
}

/// Everything that is posted to it.
async fn listener() -> (String, mpsc::UnboundedReceiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/events", listener.local_addr().expect("an address"));
    let (post, posted) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let post = post.clone();
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let post = post.clone();
                async move {
                    let body =
                        request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                    // Nobody may be listening any more.
                    drop(post.send(serde_json::from_slice(&body).unwrap_or_default()));
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    (url, posted)
}

#[tokio::test]
async fn events_come_signed_to_whoever_confirmed() {
    let running = start().await;
    let (url, mut posted) = listener().await;
    let (_, topic) =
        control(&running, "POST", "/sns/topics", &json!({"region": "eu-west-1", "name": "mail"})).await;
    let topic = topic["id"].clone();
    control(&running, "PUT", "/ses/events", &json!({"topic": topic})).await;
    control(&running, "POST", "/sns/subscriptions", &json!({"topic": topic, "url": url})).await;
    let asked = posted.recv().await.expect("a question");
    assert_eq!(asked["Type"], "SubscriptionConfirmation");
    let address =
        asked["SubscribeURL"].as_str().expect("a URL").strip_prefix("https://sns.eu-west-1.amazonaws.com");
    let stream =
        tls(&running, running.own("sns").expect("a port"), "sns.eu-west-1.amazonaws.com", &[b"http/1.1"])
            .await;
    let (status, _) = super::client::http1(stream, "GET", address.expect("ours"), Bytes::new()).await;
    assert_eq!(status, StatusCode::OK);
    let to = mail("bounce@simulator.amazonses.com");
    ses(&running, "sandbox-secret", "POST", SEND, &to).await;
    let mut kinds = Vec::new();
    while kinds.len() < 2 {
        let message = posted.recv().await.expect("an event");
        assert_eq!((&message["Type"], &message["SignatureVersion"]), (&json!("Notification"), &json!("2")));
        let event: Value = serde_json::from_str(message["Message"].as_str().expect("a text")).expect("JSON");
        assert_eq!(event["mail"]["tags"]["fantail-reference"], json!(["r1"]));
        kinds.push(event["eventType"].as_str().expect("a kind").to_owned());
    }
    kinds.sort();
    assert_eq!(kinds, ["Bounce", "Send"]);
}
