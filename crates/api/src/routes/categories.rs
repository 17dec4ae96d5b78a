//! Routes about what a tenant says of its categories, and of users who say nothing.

use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Delete, Get, Patch, Put};
use crate::route::Route;
use crate::v1::{categories, defaults};
use fantail_wire::category::{Categories, Category, CategoryPolicy, DefaultPreferences};
use fantail_wire::code::Code;
use fantail_wire::preference::Preferences;
use fantail_wire::tenant::Scope::{CategoriesRead, CategoriesWrite};

pub const ROUTES: &[Route] = &[
    Route::new(
        "listCategories",
        Get,
        "/api/v1/categories",
        "List what is said about categories, by name",
        Scoped(CategoriesRead, |tenant, call| Box::pin(categories::list(tenant, call))),
    )
    .gives(200, Shape::of::<Categories>()),
    Route::new(
        "getCategory",
        Get,
        "/api/v1/categories/{category}",
        "What is said about a category",
        Scoped(CategoriesRead, |tenant, call| Box::pin(categories::get(tenant, call))),
    )
    .gives(200, Shape::of::<Category>())
    .refuses(&[Code::CategoryNotFound]),
    Route::new(
        "putCategory",
        Put,
        "/api/v1/categories/{category}",
        "Say what holds for a category, instead of all that was said",
        Scoped(CategoriesWrite, |tenant, call| Box::pin(categories::put(tenant, call))),
    )
    .conditional()
    .takes(Shape::of::<CategoryPolicy>())
    .gives(201, Shape::of::<Category>())
    .gives(200, Shape::of::<Category>())
    .refuses(&[Code::VersionConflict, Code::LimitReached]),
    Route::new(
        "deleteCategory",
        Delete,
        "/api/v1/categories/{category}",
        "Leave a category to what is usual",
        Scoped(CategoriesWrite, |tenant, call| Box::pin(categories::delete(tenant, call))),
    )
    .conditional()
    .gives_nothing(204)
    .refuses(&[Code::CategoryNotFound, Code::VersionConflict]),
    Route::new(
        "getDefaultPreferences",
        Get,
        "/api/v1/preferences/defaults",
        "What holds for users who have not said otherwise",
        Scoped(CategoriesRead, |tenant, call| Box::pin(defaults::get(tenant, call))),
    )
    .gives(200, Shape::of::<DefaultPreferences>()),
    Route::new(
        "patchDefaultPreferences",
        Patch,
        "/api/v1/preferences/defaults",
        "Change what holds for users who have not said otherwise",
        Scoped(CategoriesWrite, |tenant, call| Box::pin(defaults::patch(tenant, call))),
    )
    .conditional()
    .takes(Shape::of::<Preferences>())
    .gives(200, Shape::of::<DefaultPreferences>())
    .refuses(&[Code::VersionConflict]),
];
