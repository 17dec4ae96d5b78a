//! The attacks of a loud tenant, one for each resource that tenants share, and what is there before each begins.

use super::receiver::Receiver;
use super::{Reached, post};
use crate::http::Target;
use anyhow::{Context, Result};
use clap::ValueEnum;
use fantail_rules::limits::WEBHOOKS_PER_TENANT_MAX;
use serde_json::{Value, json};

pub const LOUD_USERS: u64 = 2_000;
/// Recipients, users or events of one request.
pub const TOGETHER: u64 = 1_000;
pub const EXPORTED_USERS: u64 = 8;
/// Notifications that each export has.
const KEPT_NOTIFICATIONS: u64 = 2_000;
/// Digits that are another number in every request.
pub const NUMBER: &str = "##########";
/// Events of one request, and the bytes of each: nearly the largest request and the largest content that are taken.
const LARGE_EVENTS: usize = 100;
const LARGE_BYTES: usize = 31 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Attack {
    /// Thousands of pushes that its provider answers after a while
    Flood,
    /// Thousands of pushes that its provider does not answer
    Hanging,
    /// Thousands of mails through its account, whose relay does not answer
    Relay,
    /// Thousands of webhooks to a host that hangs for it, and answers the quiet tenant
    Host,
    /// Bulk sends to all of its users, as many as there may be
    Bulk,
    /// Templates that are as dear to render as a template may be
    Rendering,
    /// Single sends as fast as they are answered
    Requests,
    /// Imports of users, a thousand in each request: they fill the queues
    Import,
    /// Events with the largest content that is taken: they fill the disk
    Writing,
    /// Connections that are idle, and some that send requests and read no answer
    Connections,
    /// Users who are made and erased: each erasure looks at all that is kept
    Erasures,
    /// Registrations of devices: each asks the directory for its address
    Registrations,
    /// Large exports, and backups beside them
    Exports,
    /// Sends that are reported to receivers of webhooks that never answer
    HangingWebhook,
}

impl Attack {
    pub fn name(self) -> &'static str {
        match self {
            Self::Flood => "a flood of pushes",
            Self::Hanging => "a provider that hangs",
            Self::Relay => "a mail relay that hangs",
            Self::Host => "a webhook host that hangs",
            Self::Bulk => "bulk sends",
            Self::Rendering => "rendering",
            Self::Requests => "single requests",
            Self::Import => "imports of users",
            Self::Writing => "large events",
            Self::Connections => "idle and pipelining connections",
            Self::Erasures => "erasures",
            Self::Registrations => "registrations of devices",
            Self::Exports => "exports and backups",
            Self::HangingWebhook => "receivers of reports that hang",
        }
    }

    /// By what the loud tenant's users are reached.
    pub fn loud(self) -> Reached {
        match self {
            Self::Flood => Reached::Push("stub:slow=100"),
            Self::Hanging => Reached::Push("stub:slow=3600000"),
            Self::Relay => Reached::Mail,
            Self::Host => Reached::Webhook { is_answered: false },
            Self::Bulk
            | Self::Rendering
            | Self::Requests
            | Self::Import
            | Self::Writing
            | Self::Connections
            | Self::Erasures
            | Self::Registrations
            | Self::Exports
            | Self::HangingWebhook => Reached::Push("stub:ok"),
        }
    }

    /// By what the quiet tenant's users are reached: by the channel that is attacked, and there by what answers.
    pub fn quiet(self) -> Reached {
        match self.loud() {
            Reached::Push(_) => Reached::Push("stub:ok"),
            // A tenant without an account sends to the server's own sandbox.
            Reached::Mail => Reached::Mail,
            Reached::Webhook { .. } => Reached::Webhook { is_answered: true },
        }
    }

    /// Whether it does nothing unless the receiver is called.
    pub fn needs_receiver(self) -> bool {
        matches!(self, Self::Relay | Self::Host | Self::HangingWebhook)
    }

    /// The requests that it repeats, one after the other. Those of the other attacks are no simple requests.
    pub fn requests(self, target: &Target) -> Vec<Vec<u8>> {
        let channel = self.loud().channel();
        match self {
            Self::Flood | Self::Hanging | Self::Relay | Self::Host => {
                let halves = [0, TOGETHER];
                halves
                    .map(|first| {
                        post(target, "/api/v1/notifications", &notification(channel, first, TOGETHER))
                    })
                    .to_vec()
            }
            Self::Requests | Self::HangingWebhook => {
                vec![post(target, "/api/v1/notifications", &notification(channel, 0, 1))]
            }
            Self::Bulk => {
                let body = json!({"recipientQuery": {"segment": "everybody"}, "channels": [channel],
                    "content": {"title": "Loud"}, "priority": "normal"});
                vec![post(target, "/api/v1/notifications/bulk", &body)]
            }
            Self::Rendering => vec![post(target, "/api/v1/templates/preview", &dear_template())],
            Self::Import => {
                let users: Vec<Value> =
                    (0..TOGETHER).map(|_| json!({"userId": format!("import{NUMBER}")})).collect();
                vec![post(target, "/api/v1/users/batch", &json!({"users": users}))]
            }
            Self::Writing => vec![post(target, "/api/v1/events", &large_events())],
            Self::Erasures => vec![
                target.send("PUT", &format!("/api/v1/users/gone{NUMBER}"), b""),
                post(target, "/api/v1/erasures", &json!({"userId": format!("gone{NUMBER}")})),
            ],
            Self::Registrations => {
                let device = json!({"userId": "loud0", "deviceId": "tablet", "platform": "android",
                    "token": format!("stub:ok/tablet{NUMBER}")});
                vec![post(target, "/api/v1/devices", &device)]
            }
            Self::Connections | Self::Exports => Vec::new(),
        }
    }
}

/// Prepares an attack before the quiet tenant is measured alone.
pub async fn prepare(attack: Attack, loud: &Target, receiver: &Receiver) -> Result<()> {
    match attack {
        Attack::Exports => {
            let request = post(loud, "/api/v1/notifications", &notification("push", 0, EXPORTED_USERS));
            for no in 0..KEPT_NOTIFICATIONS {
                loud.ask(&request, 202).await.with_context(|| format!("notification {no}"))?;
            }
        }
        Attack::HangingWebhook => {
            for no in 0..WEBHOOKS_PER_TENANT_MAX {
                let hook = json!({"url": receiver.url(false, &no.to_string())});
                loud.ask(&post(loud, "/api/v1/webhooks", &hook), 201).await?;
            }
        }
        Attack::Relay => {
            let account = json!({
                "kind": "smtp",
                "settings": {"fromAddress": "news@example.com", "host": "localhost", "security": "none",
                             "connectTo": format!("127.0.0.1:{}", receiver.port)},
                "credentials": {},
            });
            let put = loud.send("PUT", "/api/v1/providers/relay", account.to_string().as_bytes());
            loud.ask(&put, 201).await?;
        }
        Attack::Bulk => {
            let segment = json!({"filter": "everyone"}).to_string();
            let put = loud.send("PUT", "/api/v1/segments/everybody", segment.as_bytes());
            loud.ask(&put, 201).await?;
        }
        Attack::Flood
        | Attack::Hanging
        | Attack::Host
        | Attack::Rendering
        | Attack::Requests
        | Attack::Import
        | Attack::Writing
        | Attack::Connections
        | Attack::Erasures
        | Attack::Registrations => {}
    }
    Ok(())
}

fn notification(channel: &str, first: u64, count: u64) -> Value {
    let users: Vec<Value> =
        (0..count).map(|at| json!({"userId": format!("loud{}", (first + at) % LOUD_USERS)})).collect();
    json!({"content": {"title": "Loud"}, "recipients": users, "channels": [channel]})
}

/// Its steps compare whole lists, the most expensive ones there are, and nearly use up what a mail may take.
fn dear_template() -> Value {
    let line = |count: u32| {
        format!("{{% for i in range({count}) %}}{{% if 9 in items %}}{{% endif %}}{{% endfor %}}x")
    };
    let definition = json!({"id": "dear", "name": "Dear", "category": "news", "defaultLocale": "en",
        "schema": {"type": "object", "properties": {"items": {"type": "array"}}},
        "channels": {"email": {"subject": line(400), "html": line(1_000)}}});
    json!({"definition": definition, "channel": "email", "locale": "en", "variables": {"items": vec![7; 990]}})
}

fn large_events() -> Value {
    let event = |_| {
        json!({"specversion": "1.0", "id": NUMBER, "source": "/loud", "type": "bench.large",
            "data": {"audience": {"users": ["loud0"]},
                     "content": {"title": "Loud", "data": {"bytes": "0".repeat(LARGE_BYTES)}}}})
    };
    (0..LARGE_EVENTS).map(event).collect()
}
