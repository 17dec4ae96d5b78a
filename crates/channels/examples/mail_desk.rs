//! Mail for other people's servers and verifiers: one JSON object per line in, one out.
//!
//! ```text
//! {"send": "smtp" | "ses", "settings": {…}, "secrets": {…}, "messages": [{"reference", "to", "unsubscribe"}], "content": {…}}
//!     → {"answers": ["accepted …", …]}
//! {"report": "a whole mail", "sentTo": "bounce+r1@example.com"}                → {"events": […]}
//! {"sns": "body", "settings": {…}}                                            → {"told": "…"}
//! {"sign": {"method", "url", "headers", "body", "service", "region", "seconds"}} → {"authorization": "…"}
//! ```
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for a terminal, with real time"
)]

use bytes::Bytes;
use fantail_channels::fields::SettingsError;
use fantail_channels::ses::{self, Ses, Sns};
use fantail_channels::smtp::{self, Smtp, report};
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::Ports;
use fantail_outbound::sigv4::{Credentials, Service, sign};
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Callbacks, Channel, Message, Shipment};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::priority::Priority;
use serde_json::{Value, json};
use std::io::{BufRead, stdin};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

struct RealTime(Instant);

impl Clock for RealTime {
    fn wall(&self) -> Millis {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Millis {
        Millis(u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

impl Tasks for RealTime {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        let left_ms = deadline.since(self.monotonic());
        Box::pin(tokio::time::sleep(Duration::from_millis(left_ms)))
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let time = Arc::new(RealTime(Instant::now()));
    let ports = Ports { clock: time.clone(), tasks: time, connector: Connector::of_operator() };
    for line in stdin().lock().lines() {
        let ask: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let answer = runtime.block_on(answer(&ask, &ports)).unwrap_or_else(|error| json!({"error": error}));
        println!("{answer}");
    }
}

async fn answer(ask: &Value, ports: &Ports) -> Result<Value, String> {
    let said = |error: SettingsError| error.to_string();
    let (settings, secrets) = (&ask["settings"], &ask["secrets"]);
    if let Some(mail) = ask["report"].as_str() {
        let events =
            report::read(mail.as_bytes(), ask["sentTo"].as_str()).map_err(|error| error.to_string())?;
        let show = |event: &fantail_channels::receipt::Event| json!({"reference": event.reference, "outcome": format!("{:?}", event.outcome), "code": event.code});
        return Ok(json!({"events": events.iter().map(show).collect::<Vec<_>>()}));
    }
    if let Some(body) = ask["sns"].as_str() {
        let settings = ses::Settings::read(settings).map_err(said)?;
        let sns = Sns::open(&settings, ports.clone()).map_err(said)?;
        let told = sns.take(body.as_bytes()).await.map_err(|error| error.to_string())?;
        if let ses::Told::Confirm { url } = &told {
            sns.confirm(url).await.map_err(|error| error.to_string())?;
        }
        return Ok(json!({"told": format!("{told:?}")}));
    }
    match ask["send"].as_str() {
        Some("smtp") => {
            let settings = smtp::Settings::read(settings).map_err(said)?;
            let secrets = smtp::Secrets::read(secrets).map_err(said)?;
            send(&Smtp::open(settings, secrets, ports.clone()).map_err(said)?, ask, ports).await
        }
        Some("ses") => {
            let settings = ses::Settings::read(settings).map_err(said)?;
            let secrets = ses::Secrets::read(secrets).map_err(said)?;
            send(&Ses::open(settings, secrets, ports.clone()).map_err(said)?, ask, ports).await
        }
        Some(_) | None => signed(&ask["sign"]),
    }
}

async fn send(channel: &dyn Channel, ask: &Value, ports: &Ports) -> Result<Value, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let message = |value: &Value| Message {
        reference: text(&value["reference"]),
        endpoint: text(&value["to"]).into_bytes(),
        content: None,
        attempt: 1,
        recipient: 1,
        unsubscribe: value["unsubscribe"].as_str().map(str::to_owned),
    };
    let callbacks = Callbacks { base_url: "https://notify.shop.example".to_owned(), key: [7; 16] };
    let shipment = Shipment {
        tenant: TenantId(1),
        content: Arc::from(ask["content"].to_string().into_bytes()),
        lane: Priority::Normal,
        expires_at: Millis(u64::MAX),
        collapse_key: None,
        deadline: ports.clock.monotonic().plus(30_000),
        callbacks: Some(Arc::new(callbacks)),
        messages: ask["messages"].as_array().into_iter().flatten().map(message).collect(),
    };
    let answers = Mutex::new(vec![String::new(); shipment.messages.len()]);
    let report = |index: usize, answer: Answer| answers.lock().expect("not poisoned")[index] = told(&answer);
    channel.send(&shipment, &report).await;
    Ok(json!({"answers": answers.into_inner().expect("not poisoned")}))
}

fn told(answer: &Answer) -> String {
    match answer {
        Answer::Accepted { provider_id } => {
            format!("accepted {}", provider_id.as_deref().unwrap_or_default())
        }
        Answer::Rejected { refusal, code, .. } => format!("rejected {refusal:?} {code}"),
        Answer::Later { scope, code, .. } => format!("later {scope:?} {code}"),
        Answer::NotSent { proof, message } => format!("not sent {proof:?} {message}"),
        Answer::Unknown { code, .. } => format!("unknown {code}"),
    }
}

fn signed(ask: &Value) -> Result<Value, String> {
    let text = |name: &str| ask[name].as_str().unwrap_or_default().to_owned();
    let url = text("url");
    let mut request = hyper::Request::builder().method(text("method").as_str()).uri(&url);
    for (name, value) in ask["headers"].as_object().into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap_or_default());
    }
    let mut request = request.body(Bytes::from(text("body"))).map_err(|error| error.to_string())?;
    let host = request.uri().authority().map(ToString::to_string).ok_or("a host")?;
    let credentials = Credentials {
        access_key_id: text("accessKeyId"),
        secret_access_key: text("secretAccessKey"),
        session_token: ask["sessionToken"].as_str().map(str::to_owned),
    };
    let service = Service { name: text("service"), region: text("region") };
    let at = Millis(ask["seconds"].as_u64().unwrap_or_default() * 1_000);
    sign(&mut request, &host, &service, &credentials, at).map_err(|error| error.to_string())?;
    let authorization = request.headers()["authorization"].to_str().map_err(|error| error.to_string())?;
    Ok(json!({"authorization": authorization}))
}
