//! Routes of pages over all users, topics, suppressions, erasures and notifications.

use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::Get;
use crate::route::Route;
use crate::v1::listings;
use fantail_wire::code::Code;
use fantail_wire::device::Suppressions;
use fantail_wire::erasure::Erasures;
use fantail_wire::list::Topics;
use fantail_wire::sent::SentNotifications;
use fantail_wire::tenant::Scope::{NotificationsRead, UsersRead};
use fantail_wire::user::Users;

/// Too many pages of the tenant wait for their turn.
const TOO_MANY: &[Code] = &[Code::QueueFull];
const OF_USER: &[Code] = &[Code::UserNotFound, Code::QueueFull];

pub const ROUTES: &[Route] = &[
    Route::new(
        "listUsers",
        Get,
        "/api/v1/users",
        "List users, or find the one who has an address",
        Scoped(UsersRead, |tenant, call| Box::pin(listings::list_users(tenant, call))),
    )
    .query(&["email", "phone", "limit", "cursor"])
    .gives(200, Shape::of::<Users<'static>>())
    .refuses(TOO_MANY),
    Route::new(
        "listTopics",
        Get,
        "/api/v1/topics",
        "List topics with their numbers of subscribers",
        Scoped(UsersRead, |tenant, call| Box::pin(listings::list_topics(tenant, call))),
    )
    .query(&["user", "limit", "cursor"])
    .gives(200, Shape::of::<Topics>())
    .refuses(OF_USER),
    Route::new(
        "listSuppressions",
        Get,
        "/api/v1/suppressions",
        "List addresses that nothing is sent to",
        Scoped(UsersRead, |tenant, call| Box::pin(listings::list_suppressions(tenant, call))),
    )
    .query(&["reason", "limit", "cursor"])
    .gives(200, Shape::of::<Suppressions>())
    .refuses(TOO_MANY),
    Route::new(
        "listErasures",
        Get,
        "/api/v1/erasures",
        "List erasures and their receipts, the newest first",
        Scoped(UsersRead, |tenant, call| Box::pin(listings::list_erasures(tenant, call))),
    )
    .query(&["user", "from", "to", "limit", "cursor"])
    .gives(200, Shape::of::<Erasures>())
    .refuses(TOO_MANY),
    Route::new(
        "listSentNotifications",
        Get,
        "/api/v1/notifications",
        "List notifications and events, the newest first",
        Scoped(NotificationsRead, |tenant, call| Box::pin(listings::list_notifications(tenant, call))),
    )
    .query(&["user", "category", "from", "to", "limit", "cursor"])
    .gives(200, Shape::of::<SentNotifications>())
    .refuses(OF_USER),
];
