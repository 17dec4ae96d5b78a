//! Sends a shipment by one provider, for those who want to see what we send: JSON on stdin, an answer per line on stdout.
//!
//! ```sh
//! cargo run -p fantail-channels --example send_one <<< '{"provider": "webpush", "settings": {…}, "secrets": {…},
//!   "content": {"title": "Hello"}, "messages": [{"reference": "r1", "endpoint": "web 0 P256DH AUTH https://…"}]}'
//! ```
//! `lane` (`normal`), `ttlMs` (an hour) and `collapseKey` may be given; a message may have `content`, `recipient` and
//! `unsubscribe` of its own.

use fantail_channels::{apns, fcm, ses, smtp, twilio, webpush};
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::Ports;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Shipment};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::priority::Priority;
use serde_json::{Value, json};
use std::error::Error;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let ask: Value = serde_json::from_str(&text)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let world = World::new(runtime.handle().clone());
    let ports = Ports { clock: world.clone(), tasks: world.clone(), connector: Connector::of_operator() };
    let channel = {
        let _inside = runtime.enter();
        open(&ask, ports)?
    };
    let shipment = shipment(&ask, &*world)?;
    let answers = Mutex::new(Vec::new());
    let report = |index: usize, answer: Answer| {
        answers.lock().unwrap_or_else(PoisonError::into_inner).push((index, answer));
    };
    runtime.block_on(channel.send(&shipment, &report));
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(index, _)| *index);
    for (index, answer) in answers {
        let reference = &shipment.messages[index].reference;
        writeln!(io::stdout(), "{}", told(reference, &answer))?;
    }
    Ok(())
}

/// One line for each provider.
fn open(ask: &Value, ports: Ports) -> Result<Arc<dyn Channel>, Failure> {
    let (settings, secrets) = (&ask["settings"], &ask["secrets"]);
    Ok(match ask["provider"].as_str().unwrap_or_default() {
        "apns" => {
            Arc::new(apns::Apns::open(apns::Settings::read(settings)?, apns::Secrets::read(secrets)?, ports)?)
        }
        "fcm" => {
            Arc::new(fcm::Fcm::open(fcm::Settings::read(settings)?, fcm::Secrets::read(secrets)?, ports)?)
        }
        "webpush" => {
            let (settings, secrets) = (webpush::Settings::read(settings)?, webpush::Secrets::read(secrets)?);
            Arc::new(webpush::WebPush::open(settings, secrets, ports)?)
        }
        "ses" => {
            Arc::new(ses::Ses::open(ses::Settings::read(settings)?, ses::Secrets::read(secrets)?, ports)?)
        }
        "smtp" => {
            Arc::new(smtp::Smtp::open(smtp::Settings::read(settings)?, smtp::Secrets::read(secrets)?, ports)?)
        }
        "twilio" => {
            let (settings, secrets) = (twilio::Settings::read(settings)?, twilio::Secrets::read(secrets)?);
            Arc::new(twilio::Twilio::open(settings, secrets, ports)?)
        }
        other => return Err(format!("no provider is called `{other}`").into()),
    })
}

fn shipment(ask: &Value, clock: &dyn Clock) -> Result<Shipment, Failure> {
    let lane = ask["lane"].as_str().unwrap_or("normal");
    let lane = Priority::ALL.into_iter().find(|one| one.name() == lane).ok_or("no such lane")?;
    let messages = ask["messages"].as_array().ok_or("messages is missing")?;
    Ok(Shipment {
        tenant: TenantId(1),
        content: ask["content"].to_string().into_bytes().into(),
        lane,
        expires_at: clock.wall().plus(ask["ttlMs"].as_u64().unwrap_or(3_600_000)),
        collapse_key: ask["collapseKey"].as_str().map(str::to_owned),
        deadline: clock.monotonic().plus(10_000),
        callbacks: None,
        messages: messages.iter().map(message).collect::<Result<_, _>>()?,
    })
}

fn message(value: &Value) -> Result<Message, Failure> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let own = value.get("content").map(|content| content.to_string().into_bytes().into());
    Ok(Message {
        reference: text("reference").ok_or("a message has a reference")?,
        endpoint: text("endpoint").ok_or("a message has an endpoint")?.into_bytes(),
        content: own,
        attempt: 1,
        recipient: value["recipient"].as_u64().unwrap_or(1),
        unsubscribe: text("unsubscribe"),
    })
}

fn told(reference: &str, answer: &Answer) -> Value {
    match answer {
        Answer::Accepted { provider_id } => {
            json!({"reference": reference, "answer": "accepted", "providerId": provider_id})
        }
        Answer::Rejected { refusal, code, message } => {
            let refusal = format!("{refusal:?}");
            json!({"reference": reference, "answer": "rejected", "refusal": refusal, "code": code, "message": message})
        }
        Answer::Later { after_ms, scope, code, message } => {
            let scope = format!("{scope:?}");
            json!({"reference": reference, "answer": "later", "afterMs": after_ms, "scope": scope, "code": code,
                "message": message})
        }
        Answer::NotSent { proof, message } => {
            json!({"reference": reference, "answer": "notSent", "proof": format!("{proof:?}"), "message": message})
        }
        Answer::Unknown { code, message } => {
            json!({"reference": reference, "answer": "unknown", "code": code, "message": message})
        }
    }
}

/// Time as it passes, and tasks on tokio.
struct World {
    began: Instant,
    handle: Handle,
}

#[expect(clippy::disallowed_methods, reason = "this is what stands behind the ports")]
impl World {
    fn new(handle: Handle) -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), handle })
    }
}

#[expect(clippy::disallowed_methods, reason = "this is what stands behind the ports")]
impl Clock for World {
    fn wall(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Millis {
        Millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX) + 1)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is what stands behind the ports")]
impl Tasks for World {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.handle.spawn(task);
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        let until = self.began + Duration::from_millis(deadline.0.min(1 << 40));
        Box::pin(tokio::time::sleep_until(until.into()))
    }
}
