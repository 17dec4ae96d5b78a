//! Routes of recurring schedules.

use super::PAGE;
use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Delete, Get, Patch, Put};
use crate::route::Route;
use crate::v1::schedules;
use fantail_wire::code::Code;
use fantail_wire::schedule::{Schedule, SchedulePatch, SchedulePut, Schedules};
use fantail_wire::tenant::Scope::{NotificationsRead, NotificationsWrite};

const NO_SCHEDULE: &[Code] = &[Code::ScheduleNotFound];
const CHANGED: &[Code] = &[Code::ScheduleNotFound, Code::VersionConflict];
/// What can be wrong with a schedule, and with what it sends.
const PUT_REFUSED: &[Code] = &[
    Code::ScheduleNotFound,
    Code::VersionConflict,
    Code::LimitReached,
    Code::RateLimited,
    Code::QuotaExceeded,
    Code::SegmentNotFound,
    Code::InvalidRecipient,
    Code::TemplateNotFound,
    Code::TemplateInactive,
    Code::InvalidTemplate,
    Code::InvalidVariables,
    Code::RenderFailed,
    Code::TooManyRenderings,
];

pub const ROUTES: &[Route] = &[
    Route::new(
        "listSchedules",
        Get,
        "/api/v1/schedules",
        "Recurring schedules by id",
        Scoped(NotificationsRead, |tenant, call| Box::pin(schedules::list(tenant, call))),
    )
    .query(PAGE)
    .gives(200, Shape::of::<Schedules>()),
    Route::new(
        "getSchedule",
        Get,
        "/api/v1/schedules/{schedule}",
        "A recurring schedule, with its next runs",
        Scoped(NotificationsRead, |tenant, call| Box::pin(schedules::get(tenant, call))),
    )
    .gives(200, Shape::of::<Schedule>())
    .refuses(NO_SCHEDULE),
    Route::new(
        "putSchedule",
        Put,
        "/api/v1/schedules/{schedule}",
        "Send something again and again, or replace what is said about it",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(schedules::put(tenant, call))),
    )
    .conditional()
    .takes(Shape::of::<SchedulePut>())
    .gives(201, Shape::of::<Schedule>())
    .gives(200, Shape::of::<Schedule>())
    .refuses(PUT_REFUSED),
    Route::new(
        "patchSchedule",
        Patch,
        "/api/v1/schedules/{schedule}",
        "Pause, resume or change a recurring schedule",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(schedules::patch(tenant, call))),
    )
    .conditional()
    .takes(Shape::of::<SchedulePatch>())
    .gives(200, Shape::of::<Schedule>())
    .refuses(PUT_REFUSED),
    Route::new(
        "deleteSchedule",
        Delete,
        "/api/v1/schedules/{schedule}",
        "Run a recurring schedule no more; what it has issued goes on",
        Scoped(NotificationsWrite, |tenant, call| Box::pin(schedules::delete(tenant, call))),
    )
    .conditional()
    .gives_nothing(204)
    .refuses(CHANGED),
];
