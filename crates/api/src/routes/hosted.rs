//! Routes of the pages that recipients see, and of the links to them.

use super::NO_USER;
use crate::hosted::{change, show};
use crate::openapi::Shape;
use crate::route::Handle::{Hosted, Scoped};
use crate::route::Method::{Get, Post};
use crate::route::Route;
use crate::v1::links;
use fantail_wire::link::{PreferenceLink, PreferenceLinkAsk};
use fantail_wire::tenant::Scope::UsersWrite;

const HTML: &str = "text/html; charset=utf-8";

pub const ROUTES: &[Route] = &[
    Route::new(
        "makePreferenceLink",
        Post,
        "/api/v1/users/{user}/preference-links",
        "Make a link by which a user sees and changes preferences, or unsubscribes, without logging in",
        Scoped(UsersWrite, |tenant, call| Box::pin(links::make(tenant, call))),
    )
    .takes(Shape::of::<PreferenceLinkAsk>())
    .gives(201, Shape::of::<PreferenceLink>())
    .refuses(NO_USER),
    Route::new(
        "showPreferencePage",
        Get,
        "/u/{token}",
        "The page behind a link; changes nothing",
        Hosted(|visit, _| Box::pin(show(visit))),
    )
    .gives_text(200, HTML)
    .gives_text(404, HTML),
    Route::new(
        "changeByPreferencePage",
        Post,
        "/u/{token}",
        "Unsubscribe with one click (RFC 8058), or save the form of the page",
        Hosted(|visit, unread| Box::pin(change(visit, unread))),
    )
    .takes_form()
    .gives_text(200, HTML)
    .gives_text(400, HTML)
    .gives_text(404, HTML)
    .gives_text(409, HTML),
];
