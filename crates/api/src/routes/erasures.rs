//! Routes about everything that is kept of one user.

use super::NO_USER;
use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Get, Post};
use crate::route::Route;
use crate::v1::{erasures, exports};
use fantail_wire::code::Code;
use fantail_wire::erasure::{Erasure, ErasureAsk};
use fantail_wire::tenant::Scope::{Admin, UsersRead, UsersWrite};

pub const ROUTES: &[Route] = &[
    Route::new(
        "eraseUser",
        Post,
        "/api/v1/erasures",
        "Remove a user from everything that is kept, with a receipt",
        Scoped(UsersWrite, |tenant, call| Box::pin(erasures::create(tenant, call))),
    )
    .takes(Shape::of::<ErasureAsk>())
    .gives(202, Shape::of::<Erasure>())
    .gives(200, Shape::of::<Erasure>())
    .refuses(NO_USER),
    Route::new(
        "getErasure",
        Get,
        "/api/v1/erasures/{erasure}",
        "How far an erasure is, and its receipt",
        Scoped(UsersRead, |tenant, call| Box::pin(erasures::get(tenant, call))),
    )
    .gives(200, Shape::of::<Erasure>())
    .refuses(&[Code::ErasureNotFound]),
    Route::new(
        "exportUser",
        Get,
        "/api/v1/users/{user}/export",
        "Everything that is kept about a user, as lines of JSON",
        Scoped(Admin, |tenant, call| Box::pin(exports::get(tenant, call))),
    )
    .gives_text(200, exports::LINES)
    .refuses(&[Code::UserNotFound, Code::QueueFull]),
];
