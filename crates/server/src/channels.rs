//! The delivery channels of this process: webhooks and the tenants' accounts with providers.
//!
//! Invariant: the stub exists only with `FANTAIL_TESTING=1`. A second stub stands behind the first one if a test sets
//! `delivery.stub_standby`.
//!
//! Comes from: settings. Goes to: the node's ports.

use crate::config::{Config, Delivery};
use crate::sandbox::House;
use anyhow::{Context, Result};
use fantail_channels::accounts::open::opener;
use fantail_channels::accounts::{Registry, SandboxAccounts};
use fantail_channels::failover::Failover;
use fantail_channels::mixed::Mixed;
use fantail_channels::stub::{self, Stub};
use fantail_channels::webhook::Webhook;
use fantail_outbound::connector::Connector;
use fantail_outbound::policy::Policy;
use fantail_outbound::pool::Ports;
use fantail_ports::channel::Channel;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::channel_kind::ChannelKind;
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::info;

/// The ways out, and the accounts that most of them go through.
pub struct Channels {
    pub ways: BTreeMap<ChannelKind, Arc<dyn Channel>>,
    pub accounts: Arc<Registry>,
}

pub fn open(
    config: &Config,
    clock: &Arc<dyn Clock>,
    tasks: &Arc<dyn Tasks>,
    sandbox: Option<Arc<House>>,
) -> Result<Channels> {
    let delivery = &config.delivery;
    let listed = config.outbound.listed();
    if !listed.is_empty() {
        info!(allow = listed, "tenants may have these targets connected to beside public ones");
    }
    // Each has lookups of its own: names that do not answer hold up none of the others.
    let ports = |policy: &Policy| Ports {
        clock: clock.clone(),
        tasks: tasks.clone(),
        connector: Connector::new(policy.clone()),
    };
    let webhook = Webhook::new(delivery.webhook.clone(), ports(&config.outbound));
    let webhook = webhook.context("cannot use the webhook settings")?;
    let webhook: Arc<dyn Channel> = Arc::new(webhook);
    let ways = [ChannelKind::Push, ChannelKind::Email, ChannelKind::Sms, ChannelKind::Webhook];
    let accounts = Registry::new(clock.clone(), tasks.clone(), opener(ports(&config.outbound)));
    if let Some(sandbox) = sandbox {
        let opener = opener(ports(&sandbox.policy()?));
        accounts.serve_others(SandboxAccounts { make: Box::new(move || sandbox.accounts()), opener });
    }
    let way = |kind: ChannelKind| {
        let provider = match kind {
            ChannelKind::Webhook => webhook.clone(),
            ChannelKind::InApp | ChannelKind::Push | ChannelKind::Email | ChannelKind::Sms => {
                accounts.channel(kind)
            }
        };
        if !config.testing {
            return Ok((kind, provider));
        }
        let stub = stubs(delivery, kind, clock, tasks)?;
        let way: Arc<dyn Channel> = Arc::new(Mixed { stub, provider: Some(provider) });
        Ok((kind, way))
    };
    let ways = ways.into_iter().map(way).collect::<Result<_>>()?;
    Ok(Channels { ways, accounts })
}

fn stubs(
    delivery: &Delivery,
    kind: ChannelKind,
    clock: &Arc<dyn Clock>,
    tasks: &Arc<dyn Tasks>,
) -> Result<Arc<dyn Channel>> {
    let first: Arc<dyn Channel> = stub(delivery, kind.name(), clock, tasks)?;
    if !delivery.stub_standby {
        return Ok(first);
    }
    let second: Arc<dyn Channel> = stub(delivery, standby_name(kind), clock, tasks)?;
    let providers = vec![("stub".to_owned(), first), ("standby".to_owned(), second)];
    Ok(Arc::new(Failover::new(clock.clone(), providers)))
}

/// The word that lines about its faults begin with.
fn standby_name(kind: ChannelKind) -> &'static str {
    match kind {
        ChannelKind::InApp => "inApp-standby",
        ChannelKind::Push => "push-standby",
        ChannelKind::Email => "email-standby",
        ChannelKind::Sms => "sms-standby",
        ChannelKind::Webhook => "webhook-standby",
    }
}

/// Each channel has its own, so that one can be broken while the others work.
fn stub(
    delivery: &Delivery,
    name: &'static str,
    clock: &Arc<dyn Clock>,
    tasks: &Arc<dyn Tasks>,
) -> Result<Arc<Stub>> {
    let control = delivery.stub_faults.clone().map(|file| stub::Control { file, channel: name });
    let arrivals_file = delivery.stub_arrivals.clone();
    let settings = stub::Settings { arrivals_file, control, ..stub::Settings::default() };
    let stub = Stub::open(&settings, clock.clone(), tasks.clone());
    Ok(Arc::new(stub.context("cannot open the file of delivery.stub_arrivals")?))
}
