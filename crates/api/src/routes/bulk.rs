//! Routes of bulk sends.

use super::POST_REFUSED;
use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Get, Patch, Post};
use crate::route::Route;
use crate::v1::bulk;
use fantail_node::bulk::Steer;
use fantail_wire::bulk::{Bulk, BulkAccepted, BulkEstimate, BulkPatch, BulkSend, Bulks};
use fantail_wire::code::Code;
use fantail_wire::tenant::Scope::{NotificationsRead, NotificationsWrite};

const STEERED: &[Code] = &[Code::EventNotFound, Code::BulkEnded];

pub const ROUTES: &[Route] = &[
    Route::new(
        "createBulk",
        Post,
        "/api/v1/notifications/bulk",
        "Accept a message to everybody whom a segment chooses, durably",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(bulk::create(tenant, call))),
    )
    .takes(Shape::of::<BulkSend>())
    .gives(202, Shape::of::<BulkAccepted>())
    .refuses(POST_REFUSED),
    Route::new(
        "listBulks",
        Get,
        "/api/v1/notifications/bulk",
        "Bulk sends, the newest first",
        Scoped(NotificationsRead, |tenant, call| Box::pin(bulk::list(tenant, call))),
    )
    .query(&["status", "limit", "cursor"])
    .gives(200, Shape::of::<Bulks>()),
    Route::new(
        "estimateBulk",
        Post,
        "/api/v1/notifications/bulk/estimate",
        "What a bulk send would come to, without sending it",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(bulk::estimate(tenant, call))),
    )
    .takes(Shape::of::<BulkSend>())
    .gives(200, Shape::of::<BulkEstimate>())
    .refuses(POST_REFUSED),
    Route::new(
        "getBulk",
        Get,
        "/api/v1/notifications/bulk/{bulk}",
        "How far a bulk send is",
        Scoped(NotificationsRead, |tenant, call| Box::pin(bulk::get(tenant, call))),
    )
    .gives(200, Shape::of::<Bulk>())
    .refuses(&[Code::EventNotFound]),
    Route::new(
        "patchBulk",
        Patch,
        "/api/v1/notifications/bulk/{bulk}",
        "Give a bulk send another pace",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(bulk::patch(tenant, call))),
    )
    .takes(Shape::of::<BulkPatch>())
    .gives(200, Shape::of::<Bulk>())
    .refuses(STEERED),
    Route::new(
        "pauseBulk",
        Post,
        "/api/v1/notifications/bulk/{bulk}/pause",
        "Pass nobody else until it is resumed",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(bulk::steer(tenant, call, Steer::Pause))),
    )
    .gives(200, Shape::of::<Bulk>())
    .refuses(STEERED),
    Route::new(
        "resumeBulk",
        Post,
        "/api/v1/notifications/bulk/{bulk}/resume",
        "Go on",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(bulk::steer(tenant, call, Steer::Resume))),
    )
    .gives(200, Shape::of::<Bulk>())
    .refuses(STEERED),
    Route::new(
        "cancelBulk",
        Post,
        "/api/v1/notifications/bulk/{bulk}/cancel",
        "Call off what was not sent",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(bulk::cancel(tenant, call))),
    )
    .gives(200, Shape::of::<Bulk>())
    .gives(202, Shape::of::<Bulk>())
    .refuses(&[Code::EventNotFound]),
];
