//! The sandbox, with threads of its own so that it answers whatever the load does; and what it has seen.

use crate::http::Target;
use crate::mail::RSA_KEY;
use anyhow::{Context, Result};
use fantail_sandbox::faults::Profile;
use fantail_sandbox::{Options, Running, Sandbox};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::runtime::{Builder, Runtime};

pub struct Providers {
    sandbox: Running,
    runtime: Option<Runtime>,
}

impl Providers {
    pub fn start() -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let started = std::thread::scope(|scope| {
            scope.spawn(|| runtime.block_on(Sandbox::start(Options::default()))).join()
        });
        let sandbox = started.map_err(|_| anyhow::anyhow!("the sandbox panicked"))?.context("no sandbox")?;
        Ok(Self { sandbox, runtime: Some(runtime) })
    }

    pub async fn open_accounts(&self, target: &Target) -> Result<()> {
        for (id, account) in [("ios", self.apns()?), ("android", self.fcm()?), ("mail", self.smtp()?)] {
            let path = format!("/api/v1/providers/{id}");
            target.ask(&target.send("PUT", &path, account.to_string().as_bytes()), 201).await?;
        }
        Ok(())
    }

    fn at(&self, emulator: &str) -> Result<String> {
        Ok(self.sandbox.own(emulator).context("no such emulator")?.to_string())
    }

    fn apns(&self) -> Result<Value> {
        let key = rcgen::KeyPair::generate()?.serialize_pem();
        Ok(json!({
            "kind": "apns",
            "settings": {"teamId": "TEAM000001", "keyId": "KEY0000001", "topic": "com.example.app",
                         "connectTo": self.at("apns")?, "caPem": self.sandbox.ca_pem()},
            "credentials": {"p8": key},
        }))
    }

    fn fcm(&self) -> Result<Value> {
        Ok(json!({
            "kind": "fcm",
            "settings": {"projectId": "bench", "connectTo": self.at("fcm")?, "caPem": self.sandbox.ca_pem()},
            "credentials": {"serviceAccount": {"type": "service_account", "project_id": "bench",
                "client_email": "fantail@bench.iam.gserviceaccount.com", "private_key": RSA_KEY,
                "token_uri": "https://oauth2.googleapis.com/token"}},
        }))
    }

    fn smtp(&self) -> Result<Value> {
        Ok(json!({
            "kind": "smtp",
            "settings": {"fromAddress": "news@example.com", "host": "localhost", "security": "none",
                         "connectTo": self.at("smtp")?},
            "credentials": {},
        }))
    }

    pub fn set_faults(&self, emulator: &str, profile: Profile) {
        self.sandbox.set_faults(emulator, profile);
    }

    pub fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    pub fn seen(&self) -> Seen {
        self.sandbox.world().record().read(|rows, _| {
            let mut seen = Seen::default();
            for row in rows {
                let of = seen.0.entry(row.emulator).or_default();
                of.at_ms.push(row.at_ms);
                of.ids.insert(row.id.to_string());
            }
            seen
        })
    }
}

impl Drop for Providers {
    fn drop(&mut self) {
        // A runtime must not wait for its tasks inside another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What arrived, by emulator.
#[derive(Default)]
pub struct Seen(BTreeMap<&'static str, Arrived>);

#[derive(Default)]
struct Arrived {
    at_ms: Vec<u64>,
    ids: HashSet<String>,
}

impl Seen {
    /// Different ones.
    pub fn messages(&self, emulator: &str) -> u64 {
        self.0.get(emulator).map_or(0, |arrived| arrived.ids.len() as u64)
    }

    /// Repeated ones too.
    pub fn arrivals(&self, emulator: &str) -> u64 {
        self.times(emulator).count() as u64
    }

    fn times(&self, emulator: &str) -> impl Iterator<Item = u64> {
        self.0.get(emulator).into_iter().flat_map(|arrived| &arrived.at_ms).copied()
    }

    /// Per second.
    pub fn rate(&self, emulator: &str, from_ms: u64, until_ms: u64) -> f64 {
        let count = self.times(emulator).filter(|at| (from_ms..until_ms).contains(at)).count();
        count as f64 * 1e3 / until_ms.saturating_sub(from_ms).max(1) as f64
    }

    /// The most in any second since.
    pub fn peak(&self, emulator: &str, from_ms: u64) -> f64 {
        let mut seconds: BTreeMap<u64, u64> = BTreeMap::new();
        for at in self.times(emulator).filter(|at| *at >= from_ms) {
            *seconds.entry((at - from_ms) / 1_000).or_default() += 1;
        }
        seconds.into_values().max().unwrap_or_default() as f64
    }

    /// Seconds since then until the last one.
    pub fn last_after(&self, emulator: &str, from_ms: u64) -> f64 {
        self.times(emulator).max().unwrap_or_default().saturating_sub(from_ms) as f64 / 1e3
    }
}
