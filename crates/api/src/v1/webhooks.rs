//! Webhooks to the producer. The secret is in the answer that creates the webhook and nowhere else.
//!
//! Comes from: `pipeline`. Decides: that the URL and the events are well formed; whether the URL may be connected to is
//! decided when something is sent. Goes to: `Node::{create_webhook, …}`.

use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use fantail_channels::webhook::{Endpoint, Secret};
use fantail_node::webhooks::{WebhookAsk, WebhookView};
use fantail_ports::entropy::Entropy;
use fantail_rules::ids::TenantId;
use fantail_rules::producer_event::ProducerEvent;
use fantail_wire::webhook::{Webhook, WebhookCreate, WebhookCreated, WebhookReplay, Webhooks};

const SECRET_BYTES: usize = 24;

pub async fn create(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: WebhookCreate = call.json()?;
    let events = events_of(&request.events)?;
    let secret = mint(&*call.app.entropy);
    let endpoint = Endpoint::new(&request.url, vec![secret.clone()], &[]);
    let endpoint = endpoint.map_err(|fault| Problem::field("/url", fault.to_string()))?;
    let id = format!("wh_{:032x}", call.app.entropy.random_u128());
    let ask = WebhookAsk { id, url: request.url, target: endpoint.encode(), events };
    let made = call.node.create_webhook(tenant, ask).await?;
    Ok(Reply::json(201, &WebhookCreated { webhook: shown(made), secret: secret.reveal() }))
}

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let webhooks = call.node.webhooks(tenant)?.into_iter().map(shown).collect();
    Ok(Reply::json(200, &Webhooks { webhooks }))
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    call.node.delete_webhook(tenant, call.name("webhook")?).await?;
    Ok(Reply::no_content())
}

pub async fn enable(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let webhook = call.node.enable_webhook(tenant, call.name("webhook")?).await?;
    Ok(Reply::json(200, &shown(webhook)))
}

pub async fn replay(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: WebhookReplay = call.json()?;
    let wrong = || Problem::field("/since", "must be a time like 2026-01-31T12:00:00Z");
    let since = time::parse(&request.since).ok_or_else(wrong)?;
    call.node.replay_webhook(tenant, call.name("webhook")?, since).await?;
    Ok(Reply::no_content())
}

fn mint(entropy: &dyn Entropy) -> Secret {
    let random = [entropy.random_u128().to_be_bytes(), entropy.random_u128().to_be_bytes()];
    Secret::from_bytes(&random.as_flattened()[..SECRET_BYTES]).expect("24 bytes are a good length")
}

fn events_of(names: &[String]) -> Result<u32, Problem> {
    let wanted = |(index, name): (usize, &String)| {
        let wrong = || Problem::field(format!("/events/{index}"), "is no event");
        ProducerEvent::parse(name).map(ProducerEvent::bit).ok_or_else(wrong)
    };
    if names.is_empty() {
        return Ok(ProducerEvent::ALL.into_iter().map(ProducerEvent::bit).sum());
    }
    names.iter().enumerate().try_fold(0, |set, name| Ok(set | wanted(name)?))
}

fn shown(view: WebhookView) -> Webhook {
    let events = ProducerEvent::ALL.into_iter().filter(|event| event.is_in(view.events));
    let (disabled_reason, disabled_at) = view.off.map(|(why, at)| (why, time::text(at))).unzip();
    Webhook {
        webhook_id: view.id,
        url: view.url,
        events: events.map(|event| event.name().to_owned()).collect(),
        created_at: time::text(view.created_at),
        enabled: disabled_reason.is_none(),
        disabled_reason,
        disabled_at,
    }
}
