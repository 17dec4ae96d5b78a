//! Routes about webhooks to the producer.

use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Delete, Get, Post};
use crate::route::Route;
use crate::v1::webhooks;
use fantail_wire::code::Code;
use fantail_wire::tenant::Scope::WebhooksWrite;
use fantail_wire::webhook::{Webhook, WebhookCreate, WebhookCreated, WebhookReplay, WebhookRotate, Webhooks};

const NO_WEBHOOK: &[Code] = &[Code::WebhookNotFound];

pub const ROUTES: &[Route] = &[
    Route::new(
        "createWebhook",
        Post,
        "/api/v1/webhooks",
        "Have a URL told what becomes of notifications; its secret is shown once",
        Scoped(WebhooksWrite, |tenant, call| Box::pin(webhooks::create(tenant, call))),
    )
    .takes(Shape::of::<WebhookCreate>())
    .gives(201, Shape::of::<WebhookCreated>())
    .refuses(&[Code::LimitReached]),
    Route::new(
        "listWebhooks",
        Get,
        "/api/v1/webhooks",
        "List webhooks and whether they are on",
        Scoped(WebhooksWrite, |tenant, call| Box::pin(webhooks::list(tenant, call))),
    )
    .gives(200, Shape::of::<Webhooks>()),
    Route::new(
        "deleteWebhook",
        Delete,
        "/api/v1/webhooks/{webhook}",
        "Tell a URL nothing more",
        Scoped(WebhooksWrite, |tenant, call| Box::pin(webhooks::delete(tenant, call))),
    )
    .gives_nothing(204)
    .refuses(NO_WEBHOOK),
    Route::new(
        "enableWebhook",
        Post,
        "/api/v1/webhooks/{webhook}/enable",
        "Switch a webhook on again; it goes on where it stopped",
        Scoped(WebhooksWrite, |tenant, call| Box::pin(webhooks::enable(tenant, call))),
    )
    .gives(200, Shape::of::<Webhook>())
    .refuses(NO_WEBHOOK),
    Route::new(
        "rotateWebhook",
        Post,
        "/api/v1/webhooks/{webhook}/rotate",
        "Sign with a new secret, and for a while with the old one too; shown once",
        Scoped(WebhooksWrite, |tenant, call| Box::pin(webhooks::rotate(tenant, call))),
    )
    .takes(Shape::of::<WebhookRotate>())
    .gives(200, Shape::of::<WebhookCreated>())
    .refuses(NO_WEBHOOK),
    Route::new(
        "replayWebhook",
        Post,
        "/api/v1/webhooks/{webhook}/replay",
        "Tell everything since a time again, under the same ids",
        Scoped(WebhooksWrite, |tenant, call| Box::pin(webhooks::replay(tenant, call))),
    )
    .takes(Shape::of::<WebhookReplay>())
    .gives_nothing(204)
    .refuses(NO_WEBHOOK),
];
