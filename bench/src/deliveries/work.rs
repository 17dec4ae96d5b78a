//! What is asked of the node while it is measured, and when it is done.

use super::door::Door;
use super::import::user_name;
use super::{DEVICES, LIMIT, LOOK, refused};
use crate::quantiles::{Samples, Summary};
use anyhow::{Result, ensure};
use fantail_node::Node;
use fantail_node::ask::{
    AudienceAsk, ChannelKind, ChannelSet, DeliveryState, EventAsk, NotifyAsk, OptionsAsk, Priority, Who,
};
use fantail_node::health::Health;
use fantail_rules::ids::TenantId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Asking a node how it is walks some of its tables: only when nothing arrives any more.
const STILL: Duration = Duration::from_millis(20);

#[derive(Clone, Copy)]
pub struct Work<'a> {
    pub node: &'a Node,
    pub tenant: TenantId,
    pub push: &'a Door,
    /// In every id, so that the same data can be measured again.
    pub run: u64,
}

impl Work<'_> {
    pub fn sent(&self) -> u64 {
        accepted(&self.node.health())
    }

    /// Waits until nothing is on its way and everything was looked at.
    pub async fn drained(&self) -> Result<()> {
        let began = Instant::now();
        let mut last = (u64::MAX, Instant::now());
        loop {
            ensure!(began.elapsed() < LIMIT, "deliveries do not end");
            tokio::time::sleep(LOOK).await;
            let taken = self.push.taken.load(Ordering::Relaxed);
            if taken != last.0 {
                last = (taken, Instant::now());
            }
            if last.1.elapsed() < STILL {
                continue;
            }
            let health = self.node.health();
            ensure!(health.stopped.is_none(), "the node stopped: {:?}", health.stopped);
            let in_flight: u64 = health.in_flight.iter().map(|(_, count)| u64::from(*count)).sum();
            if in_flight == 0 && health.take_lag == 0 {
                return Ok(());
            }
        }
    }

    /// Waits until the audit log has told of everything.
    pub async fn audited(&self) -> Result<()> {
        let began = Instant::now();
        while self.node.health().audit_lag > 0 {
            ensure!(began.elapsed() < LIMIT, "the audit log does not end");
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    pub async fn post(&self, actor: &str, id: &str) -> Result<()> {
        let ask = EventAsk {
            source: format!("{id}-{}", self.run),
            id: actor.to_owned(),
            kind: "post".to_owned(),
            actor: Some(actor.to_owned()),
            audience: AudienceAsk::FollowersOf(actor.to_owned()),
            category: "posts".to_owned(),
            priority: Priority::Normal,
            channels: ChannelSet::EMPTY.with(ChannelKind::Push),
            ttl_ms: 86_400_000,
            options: OptionsAsk::default(),
            content: format!("{{\"title\":\"{:0>280}\"}}", id).into_bytes(),
            body_hash: [1; 16],
        };
        let accepted = self.node.post_events(self.tenant, vec![ask]).await;
        accepted.into_iter().try_for_each(|one| one.map(drop).map_err(refused))
    }

    fn ask(&self, id: &str, priority: Priority) -> NotifyAsk {
        NotifyAsk {
            id: format!("{id}-{}", self.run),
            kind: "notification".to_owned(),
            category: "bench".to_owned(),
            priority,
            channels: ChannelSet::EMPTY.with(ChannelKind::Push),
            ttl_ms: 86_400_000,
            content: b"{\"title\":\"hello\"}".to_vec(),
            recipients: Vec::new(),
            options: OptionsAsk::default(),
            body_hash: [1; 16],
        }
    }

    /// One after the other, each to one user: the time until the channel has it.
    pub async fn singles(&self, lane: Priority, count: u64, series: u64) -> Result<Summary> {
        let mut samples = Samples::default();
        for no in 0..count {
            let recipients =
                self.node.recipients(self.tenant, &[Who::User(user_name(no))]).await.map_err(refused)?;
            let before = self.push.arrived.load(Ordering::Relaxed);
            let began = Instant::now();
            let mut ask = self.ask(&format!("single-{series}-{no}"), lane);
            ask.recipients = recipients.into_iter().map(|one| (one, None)).collect();
            self.node.notify(self.tenant, ask).await.map_err(refused)?;
            while self.push.arrived.load(Ordering::Relaxed) < before + DEVICES {
                ensure!(began.elapsed() < Duration::from_secs(60), "a notification does not arrive");
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            samples.record(began.elapsed());
        }
        Ok(samples.summarise())
    }

    /// Requests of 1,000 recipients, each with content of its own; the seconds until all are accepted, and sent.
    pub async fn direct(&self, requests: u64, users: u64) -> Result<(f64, f64)> {
        let began = Instant::now();
        let mut waiting = Vec::new();
        let padding: Arc<str> = "0".repeat(272).into();
        for no in 0..requests {
            let padding = Arc::clone(&padding);
            let (node, tenant) = (self.node.clone(), self.tenant);
            let ask = self.ask(&format!("direct-{no}"), Priority::Normal);
            waiting.push(tokio::spawn(async move {
                let who = |at| Who::User(user_name((no * 1_000 + at) % users));
                let names: Vec<Who> = (0..1_000).map(who).collect();
                let recipients = node.recipients(tenant, &names).await.map_err(refused)?;
                // Not padded by the formatter, which takes longer for it than the node does for a recipient's key.
                let own = |at: usize| format!("{{\"title\":\"{padding}{at:0>8}\"}}").into_bytes();
                let recipients = recipients.into_iter().enumerate().map(|(at, one)| (one, Some(own(at))));
                let ask = NotifyAsk { recipients: recipients.collect(), ..ask };
                node.notify(tenant, ask).await.map_err(refused)
            }));
            if waiting.len() >= 8 {
                waiting.remove(0).await??;
            }
        }
        for one in waiting {
            one.await??;
        }
        let accepted = began.elapsed().as_secs_f64();
        self.drained().await?;
        Ok((accepted, began.elapsed().as_secs_f64()))
    }
}

/// Deliveries that the provider has.
fn accepted(health: &Health) -> u64 {
    let accepted = health.deliveries.iter().filter(|(_, state, _)| *state == DeliveryState::Accepted);
    accepted.map(|(_, _, count)| count).sum()
}
