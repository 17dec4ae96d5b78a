//! Routes of notifications, receipts and dead letters.

use super::{PAGE, SEND_REFUSED};
use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Get, Post};
use crate::route::Route;
use crate::v1::{deadletters, notifications, receipts};
use fantail_wire::code::Code;
use fantail_wire::notification::{
    CancelByKey, CancelResult, DeadLetterChoice, DeadLetters, DeadLettersChanged, Explanation,
    NotificationAccepted, NotificationSend, NotificationStatus, Trace,
};
use fantail_wire::receipt::{Receipts, ReceiptsTaken};
use fantail_wire::tenant::Scope::{NotificationsRead, NotificationsWrite, ReceiptsWrite};

/// Dead letters are chosen by user, or by event.
const NO_SUCH_LETTERS: &[Code] = &[Code::UserNotFound, Code::EventNotFound];

pub const ROUTES: &[Route] = &[
    Route::new(
        "sendNotification",
        Post,
        "/api/v1/notifications",
        "Accept a notification to up to 1,000 users, durably",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(notifications::send(tenant, call))),
    )
    .takes(Shape::of::<NotificationSend>())
    .gives(202, Shape::of::<NotificationAccepted>())
    .refuses(SEND_REFUSED),
    Route::new(
        "getNotificationStatus",
        Get,
        "/api/v1/notifications/{notification}/status",
        "What became of a notification or an event, in sums and one by one",
        Scoped(NotificationsRead, |tenant, call| Box::pin(notifications::status(tenant, call))),
    )
    .query(PAGE)
    .gives(200, Shape::of::<NotificationStatus>())
    .refuses(&[Code::EventNotFound]),
    Route::new(
        "explainNotification",
        Get,
        "/api/v1/notifications/{notification}/explain",
        "Every decision about one recipient, in order",
        Scoped(NotificationsRead, |tenant, call| Box::pin(notifications::explain(tenant, call))),
    )
    .query(&["user", "email", "phone", "webhook", "pushToken"])
    .gives(200, Shape::of::<Explanation>())
    .refuses(&[Code::EventNotFound, Code::UserNotFound]),
    Route::new(
        "traceNotification",
        Get,
        "/api/v1/notifications/{notification}/trace",
        "What was done for one recipient and when, as a trace",
        Scoped(NotificationsRead, |tenant, call| Box::pin(notifications::trace(tenant, call))),
    )
    .query(&["user", "email", "phone", "webhook", "pushToken"])
    .gives(200, Shape::of::<Trace>())
    .refuses(&[Code::EventNotFound, Code::UserNotFound]),
    Route::new(
        "cancelNotification",
        Post,
        "/api/v1/notifications/{notification}/cancel",
        "Stop what of a notification or an event was not sent yet",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(notifications::cancel(tenant, call))),
    )
    .gives(200, Shape::of::<CancelResult>())
    .gives(202, Shape::of::<CancelResult>())
    .refuses(&[Code::EventNotFound]),
    Route::new(
        "cancelNotificationsByKey",
        Post,
        "/api/v1/notifications/cancel",
        "Stop everything that was sent with a cancellation key, as far as it is not too late",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(notifications::cancel_by_key(tenant, call))),
    )
    .takes(Shape::of::<CancelByKey>())
    .gives(200, Shape::of::<CancelResult>())
    .gives(202, Shape::of::<CancelResult>()),
    Route::new(
        "takeReceipts",
        Post,
        "/api/v1/receipts",
        "Say what became of up to 1,000 deliveries after they were sent; errors are per item",
        Scoped(ReceiptsWrite, |tenant, call| Box::pin(receipts::take(tenant, call))),
    )
    .takes(Shape::of::<Receipts>())
    .gives(200, Shape::of::<ReceiptsTaken>())
    .refuses(&[Code::DeliveryNotFound]),
    Route::new(
        "listDeadLetters",
        Get,
        "/api/v1/deadletters",
        "List what could not be delivered",
        Scoped(NotificationsRead, |tenant, call| Box::pin(deadletters::list(tenant, call))),
    )
    .query(PAGE)
    .gives(200, Shape::of::<DeadLetters>()),
    Route::new(
        "redriveDeadLetters",
        Post,
        "/api/v1/deadletters/redrive",
        "Try dead letters again",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(deadletters::redrive(tenant, call))),
    )
    .takes(Shape::of::<DeadLetterChoice>())
    .gives(200, Shape::of::<DeadLettersChanged>())
    .refuses(NO_SUCH_LETTERS),
    Route::new(
        "dropDeadLetters",
        Post,
        "/api/v1/deadletters/drop",
        "Give up on dead letters",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(deadletters::discard(tenant, call))),
    )
    .takes(Shape::of::<DeadLetterChoice>())
    .gives(200, Shape::of::<DeadLettersChanged>())
    .refuses(NO_SUCH_LETTERS),
];
