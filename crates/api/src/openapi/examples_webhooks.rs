//! Examples of webhooks to the producer.

use super::Example;
use super::examples::{examples, text};
use fantail_wire::webhook::{
    SignatureKind, Webhook, WebhookCreate, WebhookCreated, WebhookReplay, WebhookRotate, Webhooks,
};

const TIME: &str = "2026-11-15T08:30:00.000Z";

fn webhook() -> Webhook {
    Webhook {
        webhook_id: text("wh_0f0e0d0c0b0a09080706050403020100"),
        url: text("https://example.com/hooks"),
        events: vec![text("notification.failed"), text("notification.summary")],
        created_at: text(TIME),
        enabled: false,
        disabled_reason: Some(text("500")),
        disabled_at: Some(text(TIME)),
        failing_since: Some(text(TIME)),
        last_attempt_at: Some(text(TIME)),
        last_error: Some(text("500")),
        last_error_detail: Some(text("the receiver answered 500")),
        next_attempt_at: None,
    }
}

examples! {
    WebhookCreate => WebhookCreate {
        url: text("https://example.com/hooks"),
        events: vec![text("notification.failed"), text("notification.summary")],
        signature: SignatureKind::Shared,
    };
    WebhookRotate => WebhookRotate { signature: SignatureKind::Public, keep_seconds: Some(86_400) };
    WebhookCreated => WebhookCreated { webhook: webhook(), secret: text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") };
    Webhook => webhook();
    Webhooks => Webhooks { webhooks: vec![webhook()] };
    WebhookReplay => WebhookReplay { since: text(TIME) };
}
