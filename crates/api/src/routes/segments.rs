//! Routes about segments.

use super::PAGE;
use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Delete, Get, Put};
use crate::route::Route;
use crate::v1::{segments, upload};
use fantail_wire::code::Code;
use fantail_wire::segment::{Segment, SegmentCount, SegmentPut, SegmentUploaded, Segments};
use fantail_wire::tenant::Scope::{UsersRead, UsersWrite};

const NO_SEGMENT: &[Code] = &[Code::SegmentNotFound];

pub const ROUTES: &[Route] = &[
    Route::new(
        "listSegments",
        Get,
        "/api/v1/segments",
        "Segments by name",
        Scoped(UsersRead, |tenant, call| Box::pin(segments::list(tenant, call))),
    )
    .query(PAGE)
    .gives(200, Shape::of::<Segments>()),
    Route::new(
        "getSegment",
        Get,
        "/api/v1/segments/{segment}",
        "One segment",
        Scoped(UsersRead, |tenant, call| Box::pin(segments::get(tenant, call))),
    )
    .gives(200, Shape::of::<Segment>())
    .refuses(NO_SEGMENT),
    Route::new(
        "putSegment",
        Put,
        "/api/v1/segments/{segment}",
        "Create a segment or replace its filter",
        Scoped(UsersWrite, |tenant, call| Box::pin(segments::put(tenant, call))),
    )
    .takes(Shape::of::<SegmentPut>())
    .gives(201, Shape::of::<Segment>())
    .gives(200, Shape::of::<Segment>())
    .refuses(&[Code::InvalidFilter, Code::LimitReached]),
    Route::new(
        "deleteSegment",
        Delete,
        "/api/v1/segments/{segment}",
        "Delete a segment; what is under way goes on",
        Scoped(UsersWrite, |tenant, call| Box::pin(segments::delete(tenant, call))),
    )
    .gives_nothing(204)
    .refuses(NO_SEGMENT),
    Route::new(
        "countSegment",
        Get,
        "/api/v1/segments/{segment}/count",
        "How many users a segment chooses now",
        Scoped(UsersRead, |tenant, call| Box::pin(segments::count(tenant, call))),
    )
    .gives(200, Shape::of::<SegmentCount>())
    .refuses(NO_SEGMENT),
    Route::new(
        "putSegmentMembers",
        Put,
        "/api/v1/segments/{segment}/members",
        "Replace a segment's list, line by line (NDJSON or CSV, of any length)",
        Scoped(UsersWrite, |tenant, call| Box::pin(upload::put(tenant, call))),
    )
    .takes_lines()
    .gives(200, Shape::of::<SegmentUploaded>())
    .refuses(NO_SEGMENT),
];
