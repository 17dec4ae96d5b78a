//! Routes about what users want.

use super::{NO_USER, PAGE};
use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Get, Patch, Put};
use crate::route::Route;
use crate::v1::{consents, preferences};
use fantail_wire::code::Code;
use fantail_wire::preference::{ConsentPut, Consents, PreferenceHistory, Preferences, UserPreferences};
use fantail_wire::tenant::Scope::{UsersRead, UsersWrite};

pub const ROUTES: &[Route] = &[
    Route::new(
        "getPreferences",
        Get,
        "/api/v1/users/{user}/preferences",
        "What a user wants to hear of, where and when",
        Scoped(UsersRead, |tenant, call| Box::pin(preferences::get(tenant, call))),
    )
    .gives(200, Shape::of::<UserPreferences>())
    .refuses(NO_USER),
    Route::new(
        "patchPreferences",
        Patch,
        "/api/v1/users/{user}/preferences",
        "Change some preferences of a user (JSON merge patch, If-Match)",
        Scoped(UsersWrite, |tenant, call| Box::pin(preferences::patch(tenant, call))),
    )
    .query(&["source"])
    .conditional()
    .takes(Shape::of::<Preferences>())
    .gives(200, Shape::of::<UserPreferences>())
    .refuses(&[Code::UserNotFound, Code::VersionConflict]),
    Route::new(
        "listPreferenceHistory",
        Get,
        "/api/v1/users/{user}/preferences/history",
        "Every change of a user's preferences and consents, newest first",
        Scoped(UsersRead, |tenant, call| Box::pin(preferences::history(tenant, call))),
    )
    .query(PAGE)
    .gives(200, Shape::of::<PreferenceHistory>())
    .refuses(NO_USER),
    Route::new(
        "getConsents",
        Get,
        "/api/v1/users/{user}/consents",
        "What a user agreed to, by channel",
        Scoped(UsersRead, |tenant, call| Box::pin(consents::get(tenant, call))),
    )
    .gives(200, Shape::of::<Consents>())
    .refuses(NO_USER),
    Route::new(
        "putConsent",
        Put,
        "/api/v1/users/{user}/consents/{channel}",
        "A user agrees to a channel, or does not any more",
        Scoped(UsersWrite, |tenant, call| Box::pin(consents::put(tenant, call))),
    )
    .takes(Shape::of::<ConsentPut>())
    .gives(200, Shape::of::<Consents>())
    .refuses(NO_USER),
];
