//! Routes about accounts with providers, and of what comes back from them.

use crate::callbacks::{provider, tracking};
use crate::openapi::Shape;
use crate::route::Handle::{Callback, Scoped};
use crate::route::Method::{Delete, Get, Post, Put};
use crate::route::Route;
use crate::v1::providers;
use fantail_wire::code::Code;
use fantail_wire::provider::{Provider, ProviderPut, ProviderRotate, ProviderTest, Providers};
use fantail_wire::tenant::Scope::ProvidersWrite;

const NO_PROVIDER: &[Code] = &[Code::ProviderNotFound];
const CALLBACK: &[Code] = &[Code::CallbackRefused, Code::InvalidRequest];
const XML: &str = "text/xml";

pub const ROUTES: &[Route] = &[
    Route::new(
        "listProviders",
        Get,
        "/api/v1/providers",
        "List accounts with providers and how they are doing",
        Scoped(ProvidersWrite, |tenant, call| Box::pin(providers::list(tenant, call))),
    )
    .gives(200, Shape::of::<Providers>()),
    Route::new(
        "getProvider",
        Get,
        "/api/v1/providers/{provider}",
        "Show an account; its credentials are never shown",
        Scoped(ProvidersWrite, |tenant, call| Box::pin(providers::get(tenant, call))),
    )
    .gives(200, Shape::of::<Provider>())
    .refuses(NO_PROVIDER),
    Route::new(
        "putProvider",
        Put,
        "/api/v1/providers/{provider}",
        "Make an account, or change it while it is used; credentials that are left out stay",
        Scoped(ProvidersWrite, |tenant, call| Box::pin(providers::put(tenant, call))),
    )
    .conditional()
    .takes(Shape::of::<ProviderPut>())
    .gives(201, Shape::of::<Provider>())
    .gives(200, Shape::of::<Provider>())
    .refuses(&[Code::VersionConflict, Code::LimitReached]),
    Route::new(
        "deleteProvider",
        Delete,
        "/api/v1/providers/{provider}",
        "Send nothing more through an account, and forget its credentials",
        Scoped(ProvidersWrite, |tenant, call| Box::pin(providers::delete(tenant, call))),
    )
    .conditional()
    .gives_nothing(204)
    .refuses(&[Code::ProviderNotFound, Code::VersionConflict]),
    Route::new(
        "testProvider",
        Post,
        "/api/v1/providers/{provider}/test",
        "Try each hop to a provider without sending anything to anybody",
        Scoped(ProvidersWrite, |tenant, call| Box::pin(providers::test(tenant, call))),
    )
    .gives(200, Shape::of::<ProviderTest>())
    .refuses(NO_PROVIDER),
    Route::new(
        "rotateProvider",
        Post,
        "/api/v1/providers/{provider}/rotate",
        "Put another secret into the address at which reports about mails are believed",
        Scoped(ProvidersWrite, |tenant, call| Box::pin(providers::rotate(tenant, call))),
    )
    .takes(Shape::of::<ProviderRotate>())
    .gives(200, Shape::of::<Provider>())
    .refuses(&[Code::ProviderNotFound, Code::LimitReached]),
    Route::new(
        "takeCallback",
        Post,
        "/callbacks/{tenant}/{provider}",
        "Where a provider tells what became of deliveries; it proves itself by its signature, or by the secret of the address",
        Callback(|arrival, unread| Box::pin(provider::take(arrival, unread))),
    )
    .query(&["k"])
    .gives_text(200, XML)
    .refuses(CALLBACK),
    Route::new(
        "takeStatusCallback",
        Post,
        "/callbacks/twilio/{provider}/{reference}",
        "Where Twilio tells what became of one message",
        Callback(|arrival, unread| Box::pin(provider::take_status(arrival, unread))),
    )
    .gives_text(200, XML)
    .refuses(CALLBACK),
    Route::new(
        "showPicture",
        Get,
        "/t/o/{picture}",
        "The picture by which an opened mail shows",
        Callback(|arrival, _| Box::pin(tracking::picture(arrival))),
    )
    .gives_text(200, "image/gif"),
    Route::new(
        "followLink",
        Get,
        "/t/c/{reference}/{url}/{seal}",
        "Leads on to where a link of a mail leads",
        Callback(|arrival, _| Box::pin(tracking::follow(arrival))),
    )
    .gives_text(302, "text/plain; charset=utf-8")
    .refuses(&[Code::CallbackRefused]),
];
