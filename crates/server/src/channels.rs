//! The ways out of the house that this process has: webhooks, and the stub that stands for everything else until a
//! provider is configured.
//!
//! Comes from: settings. Goes to: the node's ports.

use crate::config::Delivery;
use anyhow::{Context, Result};
use fantail_channels::mixed::Mixed;
use fantail_channels::stub::{self, Stub};
use fantail_channels::webhook::{self, SystemResolver, Webhook};
use fantail_ports::channel::Channel;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::channel_kind::ChannelKind;
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn open(
    delivery: &Delivery,
    clock: &Arc<dyn Clock>,
    tasks: &Arc<dyn Tasks>,
) -> Result<BTreeMap<ChannelKind, Arc<dyn Channel>>> {
    let ports = webhook::Ports {
        clock: clock.clone(),
        tasks: tasks.clone(),
        resolver: Arc::new(SystemResolver::default()),
    };
    let webhook = Webhook::new(delivery.webhook.clone(), ports).context("cannot use the webhook settings")?;
    let webhook: Arc<dyn Channel> = Arc::new(webhook);
    let ways = [ChannelKind::Push, ChannelKind::Email, ChannelKind::Sms, ChannelKind::Webhook];
    let way = |kind: ChannelKind| {
        let provider = (kind == ChannelKind::Webhook).then(|| webhook.clone());
        let way: Arc<dyn Channel> = Arc::new(Mixed { stub: stub(delivery, kind, clock, tasks)?, provider });
        Ok((kind, way))
    };
    ways.into_iter().map(way).collect()
}

/// Each channel has its own, so that one can be broken while the others work.
fn stub(
    delivery: &Delivery,
    kind: ChannelKind,
    clock: &Arc<dyn Clock>,
    tasks: &Arc<dyn Tasks>,
) -> Result<Arc<Stub>> {
    let control = delivery.stub_faults.clone().map(|file| stub::Control { file, channel: kind.name() });
    let arrivals_file = delivery.stub_arrivals.clone();
    let settings = stub::Settings { arrivals_file, control, ..stub::Settings::default() };
    let stub = Stub::open(&settings, clock.clone(), tasks.clone());
    Ok(Arc::new(stub.context("cannot open the file of delivery.stub_arrivals")?))
}
