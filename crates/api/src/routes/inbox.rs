//! Routes of inboxes.

use super::NO_USER;
use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Delete, Get, Post};
use crate::route::{Handle, Route};
use crate::v1::{inbox, marks};
use fantail_rules::marks::Mark;
use fantail_wire::code::Code;
use fantail_wire::inbox::{Counts, Inbox, MarkResult, Marks, Notification, Snooze, Unsnooze};
use fantail_wire::tenant::Scope::{InboxRead, InboxWrite};

const NO_NOTIFICATION: &[Code] = &[Code::UserNotFound, Code::NotificationNotFound];

pub const ROUTES: &[Route] = &[
    Route::new(
        "listNotifications",
        Get,
        "/api/v1/users/{user}/notifications",
        "Read a page of a user's inbox",
        Scoped(InboxRead, |tenant, call| Box::pin(inbox::page(tenant, call))),
    )
    .query(&["limit", "cursor", "since", "state"])
    .gives(200, Shape::of::<Inbox<'static>>())
    .refuses(NO_USER),
    Route::new(
        "getNotification",
        Get,
        "/api/v1/users/{user}/notifications/{notification}",
        "Read one notification",
        Scoped(InboxRead, |tenant, call| Box::pin(inbox::get(tenant, call))),
    )
    .gives(200, Shape::of::<Notification<'static>>())
    .refuses(NO_NOTIFICATION),
    Route::new(
        "deleteNotification",
        Delete,
        "/api/v1/users/{user}/notifications/{notification}",
        "Delete one notification from a user's inbox",
        Scoped(InboxWrite, |tenant, call| Box::pin(marks::delete(tenant, call))),
    )
    .gives_nothing(204)
    .refuses(NO_NOTIFICATION),
    Route::new(
        "getUnread",
        Get,
        "/api/v1/users/{user}/unread",
        "Count a user's unread and unseen notifications",
        Scoped(InboxRead, |tenant, call| Box::pin(inbox::counts(tenant, call))),
    )
    .gives(200, Shape::of::<Counts>())
    .refuses(NO_USER),
    mark_route(
        "markRead",
        "/api/v1/users/{user}/notifications/read",
        "Mark notifications as read",
        Scoped(InboxWrite, |tenant, call| Box::pin(marks::mark(tenant, call, Mark::Read))),
    ),
    mark_route(
        "markUnread",
        "/api/v1/users/{user}/notifications/unread",
        "Mark notifications as unread",
        Scoped(InboxWrite, |tenant, call| Box::pin(marks::mark(tenant, call, Mark::Unread))),
    ),
    mark_route(
        "markSeen",
        "/api/v1/users/{user}/notifications/seen",
        "Mark notifications as seen",
        Scoped(InboxWrite, |tenant, call| Box::pin(marks::mark(tenant, call, Mark::Seen))),
    ),
    mark_route(
        "archive",
        "/api/v1/users/{user}/notifications/archive",
        "Archive notifications",
        Scoped(InboxWrite, |tenant, call| Box::pin(marks::mark(tenant, call, Mark::Archive))),
    ),
    mark_route(
        "unarchive",
        "/api/v1/users/{user}/notifications/unarchive",
        "Bring notifications back from the archive",
        Scoped(InboxWrite, |tenant, call| Box::pin(marks::mark(tenant, call, Mark::Unarchive))),
    ),
    Route::new(
        "snooze",
        Post,
        "/api/v1/users/{user}/notifications/snooze",
        "Hide notifications until a time",
        Scoped(InboxWrite, |tenant, call| Box::pin(marks::snooze(tenant, call))),
    )
    .takes(Shape::of::<Snooze>())
    .gives(200, Shape::of::<MarkResult>())
    .refuses(&[Code::UserNotFound, Code::NotificationNotFound, Code::LimitReached]),
    Route::new(
        "unsnooze",
        Post,
        "/api/v1/users/{user}/notifications/unsnooze",
        "Bring snoozed notifications back now",
        Scoped(InboxWrite, |tenant, call| Box::pin(marks::unsnooze(tenant, call))),
    )
    .takes(Shape::of::<Unsnooze>())
    .gives(200, Shape::of::<MarkResult>())
    .refuses(NO_NOTIFICATION),
];

const fn mark_route(id: &'static str, path: &'static str, summary: &'static str, handle: Handle) -> Route {
    Route::new(id, Post, path, summary, handle)
        .takes(Shape::of::<Marks>())
        .gives(200, Shape::of::<MarkResult>())
        .refuses(NO_NOTIFICATION)
}
