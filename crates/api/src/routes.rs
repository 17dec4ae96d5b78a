//! The table of all routes. Whatever is not here does not exist.

mod audit;
mod bulk;
mod categories;
mod endpoints;
mod erasures;
mod follows;
mod hosted;
mod inbox;
mod providers;
mod respect;
mod schedules;
mod segments;
mod sent;
mod templates;
mod webhooks;

use crate::listener_kinds::ListenerKinds;
use crate::openapi::Shape;
use crate::probes;
use crate::route::Handle::{Open, Scoped, ServerAdmin, TenantAdmin};
use crate::route::Method::{Delete, Get, Patch, Post, Put};
use crate::route::Route;
use crate::telemetry::Text;
use crate::v1::{backups, clock, events, keys, tenants, topics, users};
use endpoints::ENDPOINTS;
use fantail_node::ask::EdgeChange::{Join, Leave};
use fantail_wire::code::Code;
use fantail_wire::event::{EventAccepted, EventsAccepted};
use fantail_wire::health::{Backup, ClockAccepted, Readiness};
use fantail_wire::list::{EdgesChanged, Subscribers, SubscribersBatch};
use fantail_wire::tenant::Scope::{EventsWrite, UsersRead, UsersWrite};
use fantail_wire::tenant::{KeyCreate, KeyCreated, Keys, Tenant, TenantChange, TenantCreate, Tenants};
use fantail_wire::user::{User, UserPatch, UserPut, UsersBatch, UsersPut};

const PLAIN: &str = "text/plain; charset=utf-8";
/// What can be wrong with something that is sent.
const SEND_REFUSED: &[Code] = &[
    Code::DuplicateNotification,
    Code::InvalidRecipient,
    Code::RateLimited,
    Code::LimitReached,
    Code::QuotaExceeded,
    Code::TemplateNotFound,
    Code::TemplateInactive,
    Code::InvalidTemplate,
    Code::InvalidVariables,
    Code::RenderFailed,
];
/// An event is rendered for whoever reads it.
const POST_REFUSED: &[Code] = &[
    Code::DuplicateNotification,
    Code::InvalidRecipient,
    Code::RateLimited,
    Code::LimitReached,
    Code::QuotaExceeded,
    Code::TemplateNotFound,
    Code::TemplateInactive,
    Code::InvalidTemplate,
    Code::InvalidVariables,
    Code::RenderFailed,
    Code::TooManyRenderings,
];
/// A rate, or the tenant's quota, says no.
const TOO_MUCH: &[Code] = &[Code::RateLimited, Code::QuotaExceeded];
const TOO_FAST: &[Code] = &[Code::RateLimited];
const NO_USER: &[Code] = &[Code::UserNotFound];
const PAGE: &[&str] = &["limit", "cursor"];

/// All of them: tables by subject, one behind the other.
pub static ROUTES: &[Route] = &ALL;

static ALL: [Route;
    CORE.len()
        + follows::ROUTES.len()
        + sent::ROUTES.len()
        + ENDPOINTS.len()
        + inbox::ROUTES.len()
        + respect::ROUTES.len()
        + schedules::ROUTES.len()
        + segments::ROUTES.len()
        + bulk::ROUTES.len()
        + hosted::ROUTES.len()
        + erasures::ROUTES.len()
        + categories::ROUTES.len()
        + templates::ROUTES.len()
        + audit::ROUTES.len()
        + providers::ROUTES.len()
        + webhooks::ROUTES.len()] = joined(&[
    CORE,
    follows::ROUTES,
    sent::ROUTES,
    &ENDPOINTS,
    inbox::ROUTES,
    respect::ROUTES,
    schedules::ROUTES,
    segments::ROUTES,
    bulk::ROUTES,
    hosted::ROUTES,
    erasures::ROUTES,
    categories::ROUTES,
    templates::ROUTES,
    audit::ROUTES,
    providers::ROUTES,
    webhooks::ROUTES,
]);

const fn joined<const COUNT: usize>(tables: &[&[Route]]) -> [Route; COUNT] {
    let mut all = [CORE[0]; COUNT];
    let (mut table, mut place, mut at) = (0, 0, 0);
    while at < COUNT {
        if place == tables[table].len() {
            (table, place) = (table + 1, 0);
        } else {
            all[at] = tables[table][place];
            (place, at) = (place + 1, at + 1);
        }
    }
    all
}

const CORE: &[Route] = &[
    // --- events ---
    Route::new(
        "postEvents",
        Post,
        "/api/v1/events",
        "Accept an event, or a batch of events, durably",
        Scoped(EventsWrite, |tenant, call| Box::pin(events::post(tenant, call))),
    )
    .takes_events()
    .gives(202, Shape::of::<EventAccepted>())
    .gives(202, Shape::of::<EventsAccepted>())
    .refuses(POST_REFUSED),
    Route::new(
        "retractEvent",
        Delete,
        "/api/v1/events/{event}",
        "Hide an event in every inbox",
        Scoped(EventsWrite, |tenant, call| Box::pin(events::retract(tenant, call))),
    )
    .gives_nothing(204)
    .gives_nothing(202)
    .refuses(&[Code::EventNotFound]),
    // --- users ---
    Route::new(
        "putUser",
        Put,
        "/api/v1/users/{user}",
        "Create a user, or replace its profile and attributes if there is a body",
        Scoped(UsersWrite, |tenant, call| Box::pin(users::put(tenant, call))),
    )
    .conditional()
    .takes(Shape::of::<UserPut>())
    .gives(201, Shape::of::<User<'static>>())
    .gives(200, Shape::of::<User<'static>>())
    .refuses(&[Code::VersionConflict, Code::RateLimited, Code::QuotaExceeded]),
    Route::new(
        "patchUser",
        Patch,
        "/api/v1/users/{user}",
        "Change some of a user's profile and attributes (JSON merge patch, If-Match)",
        Scoped(UsersWrite, |tenant, call| Box::pin(users::patch(tenant, call))),
    )
    .conditional()
    .takes(Shape::of::<UserPatch>())
    .gives(200, Shape::of::<User<'static>>())
    .refuses(&[Code::UserNotFound, Code::VersionConflict, Code::RateLimited, Code::QuotaExceeded]),
    Route::new(
        "getUser",
        Get,
        "/api/v1/users/{user}",
        "Read a user",
        Scoped(UsersRead, |tenant, call| Box::pin(users::get(tenant, call))),
    )
    .gives(200, Shape::of::<User<'static>>())
    .refuses(NO_USER),
    Route::new(
        "deleteUser",
        Delete,
        "/api/v1/users/{user}",
        "Delete a user with its inbox, its follows and its devices",
        Scoped(UsersWrite, |tenant, call| Box::pin(users::delete(tenant, call))),
    )
    .gives_nothing(204)
    .refuses(NO_USER),
    Route::new(
        "putUsers",
        Post,
        "/api/v1/users/batch",
        "Create or replace up to 10,000 users",
        Scoped(UsersWrite, |tenant, call| Box::pin(users::put_many(tenant, call))),
    )
    .takes(Shape::of::<UsersBatch>())
    .gives(200, Shape::of::<UsersPut>())
    .refuses(TOO_MUCH),
    // --- topics ---
    Route::new(
        "subscribe",
        Put,
        "/api/v1/topics/{topic}/subscribers/{user}",
        "Subscribe a user to a topic",
        Scoped(UsersWrite, |tenant, call| Box::pin(topics::change(tenant, call, Join))),
    )
    .gives_nothing(204)
    .refuses(&[Code::UserNotFound, Code::LimitReached, Code::RateLimited]),
    Route::new(
        "unsubscribe",
        Delete,
        "/api/v1/topics/{topic}/subscribers/{user}",
        "Unsubscribe a user from a topic",
        Scoped(UsersWrite, |tenant, call| Box::pin(topics::change(tenant, call, Leave))),
    )
    .gives_nothing(204)
    .refuses(NO_USER),
    Route::new(
        "listSubscribers",
        Get,
        "/api/v1/topics/{topic}/subscribers",
        "List the subscribers of a topic",
        Scoped(UsersRead, |tenant, call| Box::pin(topics::list(tenant, call))),
    )
    .query(PAGE)
    .gives(200, Shape::of::<Subscribers>()),
    Route::new(
        "subscribeMany",
        Post,
        "/api/v1/topics/{topic}/subscribers/batch",
        "Subscribe up to 10,000 users to a topic",
        Scoped(UsersWrite, |tenant, call| Box::pin(topics::change_many(tenant, call, Join))),
    )
    .takes(Shape::of::<SubscribersBatch>())
    .gives(200, Shape::of::<EdgesChanged>())
    .refuses(TOO_FAST),
    Route::new(
        "unsubscribeMany",
        Post,
        "/api/v1/topics/{topic}/subscribers/batch-delete",
        "Unsubscribe up to 10,000 users from a topic",
        Scoped(UsersWrite, |tenant, call| Box::pin(topics::change_many(tenant, call, Leave))),
    )
    .takes(Shape::of::<SubscribersBatch>())
    .gives(200, Shape::of::<EdgesChanged>()),
    // --- tenants and keys ---
    Route::new(
        "createTenant",
        Post,
        "/api/v1/tenants",
        "Create a tenant",
        ServerAdmin(|call| Box::pin(tenants::create(call))),
    )
    .takes(Shape::of::<TenantCreate>())
    .gives(201, Shape::of::<Tenant>())
    .refuses(&[Code::TenantExists, Code::LimitReached]),
    Route::new(
        "listTenants",
        Get,
        "/api/v1/tenants",
        "List all tenants",
        ServerAdmin(|call| Box::pin(tenants::list(call))),
    )
    .gives(200, Shape::of::<Tenants>()),
    Route::new(
        "getTenant",
        Get,
        "/api/v1/tenants/{slug}",
        "Read a tenant's settings",
        TenantAdmin(|tenant, call| Box::pin(tenants::get(tenant, call))),
    )
    .gives(200, Shape::of::<Tenant>()),
    Route::new(
        "changeTenant",
        Patch,
        "/api/v1/tenants/{slug}",
        "Change a tenant's settings",
        TenantAdmin(|tenant, call| Box::pin(tenants::change(tenant, call))),
    )
    .takes(Shape::of::<TenantChange>())
    .gives(200, Shape::of::<Tenant>()),
    Route::new(
        "createKey",
        Post,
        "/api/v1/tenants/{slug}/keys",
        "Create a key; its secret is shown once",
        TenantAdmin(|tenant, call| Box::pin(keys::create(tenant, call))),
    )
    .takes(Shape::of::<KeyCreate>())
    .gives(201, Shape::of::<KeyCreated>())
    .refuses(&[Code::LimitReached]),
    Route::new(
        "listKeys",
        Get,
        "/api/v1/tenants/{slug}/keys",
        "List a tenant's keys, without secrets",
        TenantAdmin(|tenant, call| Box::pin(keys::list(tenant, call))),
    )
    .gives(200, Shape::of::<Keys>()),
    Route::new(
        "revokeKey",
        Delete,
        "/api/v1/tenants/{slug}/keys/{key}",
        "Revoke a key at once",
        TenantAdmin(|tenant, call| Box::pin(keys::revoke(tenant, call))),
    )
    .gives_nothing(204)
    .refuses(&[Code::KeyNotFound]),
    Route::new(
        "createBackup",
        Post,
        "/api/v1/backups",
        "Write a verified copy of all data inside the data directory",
        ServerAdmin(|call| Box::pin(backups::create(call))),
    )
    .gives(201, Shape::of::<Backup>()),
    Route::new(
        "acceptClock",
        Post,
        "/api/v1/clock/accept",
        "Confirm that the machine's clock is right, after the server found it too far ahead",
        ServerAdmin(|call| Box::pin(clock::accept(call))),
    )
    .gives(200, Shape::of::<ClockAccepted>()),
    // --- the server itself ---
    Route::new("livez", Get, "/livez", "Whether the process answers", Open(probes::livez))
        .on(ListenerKinds::ALL)
        .gives_text(200, PLAIN),
    Route::new("readyz", Get, "/readyz", "Whether traffic should come here", Open(probes::readyz))
        .on(ListenerKinds::ALL)
        .query(&["verbose"])
        .admin_query(&["verbose"])
        .refuses(&[Code::UnknownHost])
        .gives_text(200, PLAIN)
        .gives(200, Shape::of::<Readiness>())
        .gives_text(503, PLAIN)
        .gives(503, Shape::of::<Readiness>()),
    Route::new("metrics", Get, "/metrics", "Metrics for Prometheus", Open(probes::metrics))
        .on(ListenerKinds::ADMIN)
        .refuses(&[Code::UnknownHost])
        .gives_text(200, Text::MEDIA_TYPE),
    Route::new("openapi", Get, "/openapi.json", "This document", Open(probes::describe))
        .gives_text(200, crate::reply::JSON),
    Route::new("errorPage", Get, "/errors/{page}", "What an error code means", Open(probes::error_page))
        .gives_text(200, "text/markdown; charset=utf-8")
        .refuses(&[Code::RouteNotFound]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_unique_and_named() {
        for (index, route) in ROUTES.iter().enumerate() {
            for earlier in &ROUTES[..index] {
                assert_ne!(earlier.id, route.id);
                assert!(earlier.path != route.path || earlier.method != route.method, "{}", route.path);
            }
            assert!(route.answers[0].is_some(), "{} says what it gives", route.id);
            assert!(!route.summary.ends_with('.'));
            let administers = matches!(route.handle, TenantAdmin(_));
            assert_eq!(administers, route.path.contains("{slug}"), "{}", route.id);
        }
    }
}
