//! Routes of follows.

use super::{NO_USER, PAGE, TOO_FAST};
use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Delete, Get, Post, Put};
use crate::route::Route;
use crate::v1::follows;
use fantail_node::ask::EdgeChange::{Join, Leave};
use fantail_wire::code::Code;
use fantail_wire::list::{EdgesChanged, FollowState, Followers, Follows, FollowsBatch};
use fantail_wire::tenant::Scope::{UsersRead, UsersWrite};

pub const ROUTES: &[Route] = &[
    Route::new(
        "follow",
        Put,
        "/api/v1/users/{user}/follows/{actor}",
        "Follow an actor",
        Scoped(UsersWrite, |tenant, call| Box::pin(follows::change(tenant, call, Join))),
    )
    .gives_nothing(204)
    .refuses(&[Code::UserNotFound, Code::LimitReached, Code::RateLimited]),
    Route::new(
        "unfollow",
        Delete,
        "/api/v1/users/{user}/follows/{actor}",
        "Stop following an actor",
        Scoped(UsersWrite, |tenant, call| Box::pin(follows::change(tenant, call, Leave))),
    )
    .gives_nothing(204)
    .refuses(NO_USER),
    Route::new(
        "getFollow",
        Get,
        "/api/v1/users/{user}/follows/{actor}",
        "Whether a user follows an actor",
        Scoped(UsersRead, |tenant, call| Box::pin(follows::get(tenant, call))),
    )
    .gives(200, Shape::of::<FollowState>())
    .refuses(NO_USER),
    Route::new(
        "listFollows",
        Get,
        "/api/v1/users/{user}/follows",
        "List whom a user follows",
        Scoped(UsersRead, |tenant, call| Box::pin(follows::list_follows(tenant, call))),
    )
    .query(PAGE)
    .gives(200, Shape::of::<Follows>())
    .refuses(NO_USER),
    Route::new(
        "listFollowers",
        Get,
        "/api/v1/users/{user}/followers",
        "List the followers of an actor",
        Scoped(UsersRead, |tenant, call| Box::pin(follows::list_followers(tenant, call))),
    )
    .query(PAGE)
    .gives(200, Shape::of::<Followers>()),
    Route::new(
        "followMany",
        Post,
        "/api/v1/follows/batch",
        "Add up to 10,000 follows",
        Scoped(UsersWrite, |tenant, call| Box::pin(follows::change_many(tenant, call, Join))),
    )
    .takes(Shape::of::<FollowsBatch>())
    .gives(200, Shape::of::<EdgesChanged>())
    .refuses(TOO_FAST),
    Route::new(
        "unfollowMany",
        Post,
        "/api/v1/follows/batch-delete",
        "Remove up to 10,000 follows",
        Scoped(UsersWrite, |tenant, call| Box::pin(follows::change_many(tenant, call, Leave))),
    )
    .takes(Shape::of::<FollowsBatch>())
    .gives(200, Shape::of::<EdgesChanged>()),
];
