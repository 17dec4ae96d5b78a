//! Sends pushes through the APNs client and prints what came of each, for judges that are no part of this project.
//! `apns_push SETTINGS.json SECRETS.json PUSHES`: the first to the token of 64 zeros, and so on upwards.
#![allow(clippy::disallowed_methods, reason = "a program: this is where time and the command line come from")]

use fantail_channels::apns::{Apns, Secrets, Settings};
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::Ports;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Shipment};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::priority::Priority;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

struct System {
    began: Instant,
}

impl Clock for System {
    fn wall(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Millis {
        Millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

impl Tasks for System {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        let until = self.began + Duration::from_millis(deadline.0);
        Box::pin(tokio::time::sleep_until(until.into()))
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [settings, secrets, pushes] = &arguments[..] else {
        return Err(io::Error::other("usage: apns_push SETTINGS.json SECRETS.json PUSHES"));
    };
    let json = |path: &String| -> io::Result<serde_json::Value> {
        serde_json::from_slice(&std::fs::read(path)?).map_err(io::Error::other)
    };
    let settings = Settings::read(&json(settings)?).map_err(io::Error::other)?;
    let secrets = Secrets::read(&json(secrets)?).map_err(io::Error::other)?;
    let pushes: u32 = pushes.parse().map_err(io::Error::other)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answers = runtime.block_on(async {
        let time = Arc::new(System { began: Instant::now() });
        let ports = Ports { clock: time.clone(), tasks: time.clone(), connector: Connector::of_operator() };
        let apns = Apns::open(settings, secrets, ports).map_err(io::Error::other)?;
        let answers = Mutex::new(Vec::new());
        let report = |index: usize, answer: Answer| {
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((index, format!("{answer:?}")));
        };
        apns.send(&shipment(pushes, time.wall()), &report).await;
        io::Result::Ok(answers.into_inner().unwrap_or_else(PoisonError::into_inner))
    })?;
    let mut out = io::stdout().lock();
    for (index, answer) in answers {
        writeln!(out, "{index} {answer}")?;
    }
    Ok(())
}

fn shipment(pushes: u32, now: Millis) -> Shipment {
    let message = |number: u32| Message {
        reference: format!("ref{number}"),
        endpoint: format!("apns production 1600000000000 - {number:064x}").into_bytes(),
        content: None,
        attempt: 1,
        recipient: u64::from(number),
        unsubscribe: None,
    };
    Shipment {
        tenant: TenantId(1),
        content: Arc::from(&br#"{"title":"Hello","body":"from Fantail","data":{"a":1}}"#[..]),
        lane: Priority::High,
        expires_at: now.plus(3_600_000),
        collapse_key: Some("greeting".to_owned()),
        deadline: Millis(30_000),
        callbacks: None,
        messages: (0..pushes).map(message).collect(),
    }
}
