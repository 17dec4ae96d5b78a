//! Webhooks to the producer. The secret is in the answer that creates the webhook and nowhere else.
//!
//! Comes from: `pipeline`. Decides: that the URL and the events are well formed, and that the policy can allow the URL; what
//! its name resolves to is judged when something is sent. Goes to: `Node::{create_webhook, …}`.

use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use fantail_channels::webhook::limits::SECRETS_MAX;
use fantail_channels::webhook::{Endpoint, Secret};
use fantail_node::webhooks::{WebhookAsk, WebhookFailure, WebhookView};
use fantail_outbound::policy::Destination;
use fantail_ports::entropy::Entropy;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::producer_event::ProducerEvent;
use fantail_wire::code::Code;
use fantail_wire::webhook::{
    SignatureKind, Webhook, WebhookCreate, WebhookCreated, WebhookReplay, WebhookRotate, Webhooks,
};

const SECRET_BYTES: usize = 24;
/// Receivers have a day to change, and a month at most.
const KEEP_S: u64 = 86_400;
pub const KEEP_S_MAX: u64 = 30 * 86_400;
/// How often a rotation is tried when others change the same webhook.
const ROTATIONS_TRIED_MAX: usize = 8;

pub async fn create(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: WebhookCreate = call.json()?;
    let events = events_of(&request.events)?;
    let secret = mint(&*call.app.entropy, request.signature);
    let endpoint = Endpoint::new(&request.url, vec![secret.clone()], &[]);
    let endpoint = endpoint.map_err(|fault| Problem::field("/url", fault.to_string()))?;
    let judged = call.app.settings.outbound.judge(&Destination::web(&endpoint.url().origin));
    judged.map_err(|forbidden| Problem::field("/url", forbidden.to_string()))?;
    let id = format!("wh_{:032x}", call.app.entropy.random_u128());
    let ask = WebhookAsk { id, url: request.url, target: endpoint.encode(), events };
    let made = call.node.create_webhook(tenant, ask).await?;
    Ok(Reply::json(201, &WebhookCreated { webhook: shown(made), secret: told(&secret) }))
}

/// Another secret. Messages are signed with those of before as well, each until its time is over.
pub async fn rotate(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: WebhookRotate = if call.body.is_empty() { WebhookRotate::default() } else { call.json()? };
    let keep_s = request.keep_seconds.unwrap_or(KEEP_S);
    if keep_s > KEEP_S_MAX {
        return Err(Problem::field("/keepSeconds", format!("must be at most {KEEP_S_MAX}")));
    }
    let id = call.name("webhook")?;
    let secret = mint(&*call.app.entropy, request.signature);
    let now_s = call.app.clock.wall().0 / 1_000;
    for _ in 0..ROTATIONS_TRIED_MAX {
        let from = call.node.webhook_target(tenant, id)?;
        let endpoint = Endpoint::decode(&from.bytes);
        let endpoint = endpoint.map_err(|fault| Problem::new(Code::Internal, fault.to_string()))?;
        let first_end_s = endpoint.first_end_s(now_s);
        let rotated = endpoint.rotated(secret.clone(), now_s, now_s + keep_s);
        let rotated = rotated.map_err(|_| too_many_secrets(first_end_s))?;
        if let Some(changed) = call.node.retarget_webhook(tenant, id, from, &rotated.encode()).await? {
            return Ok(Reply::json(200, &WebhookCreated { webhook: shown(changed), secret: told(&secret) }));
        }
    }
    Err(Problem::new(Code::VersionConflict, "the webhook was changed at the same time"))
}

fn too_many_secrets(first_end_s: Option<u64>) -> Problem {
    let until =
        first_end_s.map_or_else(String::new, |end_s| format!(" until {}", time::text(Millis(end_s * 1_000))));
    let detail = format!(
        "{SECRETS_MAX} secrets of this webhook sign{until}: rotate it then, or with keepSeconds 0, which ends all others now"
    );
    Problem::new(Code::LimitReached, detail)
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

fn mint(entropy: &dyn Entropy, kind: SignatureKind) -> Secret {
    let random = [entropy.random_u128().to_be_bytes(), entropy.random_u128().to_be_bytes()];
    let random = random.as_flattened();
    let made = match kind {
        SignatureKind::Shared => Secret::from_bytes(&random[..SECRET_BYTES]),
        SignatureKind::Public => Secret::from_private(random),
    };
    made.expect("24 bytes are a secret, and 32 a private key")
}

/// What a receiver needs: the secret that both have, or the key that belongs to ours.
fn told(secret: &Secret) -> String {
    secret.public().map_or_else(|| secret.reveal(), |public| public.to_string())
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
    let last_attempt_at = view.progress.as_ref().map(|progress| time::text(progress.attempted_at));
    let failure = view.progress.and_then(|progress| progress.failure);
    let next_attempt_at = failure.as_ref().and_then(|failure| failure.next_at);
    let (last_error, last_error_detail) =
        failure.map(|WebhookFailure { reason, detail, .. }| (reason, detail)).unzip();
    Webhook {
        webhook_id: view.id,
        url: view.url,
        events: events.map(|event| event.name().to_owned()).collect(),
        created_at: time::text(view.created_at),
        enabled: disabled_reason.is_none(),
        failing_since: view.failing_since.map(time::text),
        last_attempt_at,
        last_error,
        last_error_detail: last_error_detail.filter(|detail| !detail.is_empty()),
        next_attempt_at: next_attempt_at.filter(|_| disabled_reason.is_none()).map(time::text),
        disabled_reason,
        disabled_at,
    }
}
