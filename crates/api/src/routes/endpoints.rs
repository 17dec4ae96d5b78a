//! Routes about where users can be reached.

use super::NO_USER;
use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Delete, Get, Post, Put};
use crate::route::Route;
use crate::v1::{addresses, devices, suppressions};
use fantail_wire::code::Code;
use fantail_wire::device::{DeviceRegister, DeviceRegistered, Devices, Suppression, SuppressionPut};
use fantail_wire::tenant::Scope::{DevicesWrite, UsersRead, UsersWrite};

pub const ENDPOINTS: [Route; 7] = [
    Route::new(
        "registerDevice",
        Post,
        "/api/v1/devices",
        "Register a device or a webhook of a user, or refresh it",
        Scoped(DevicesWrite, |tenant, call| Box::pin(devices::register(tenant, call))),
    )
    .takes(Shape::of::<DeviceRegister>())
    .gives(201, Shape::of::<DeviceRegistered>())
    .gives(200, Shape::of::<DeviceRegistered>())
    .refuses(&[Code::UserNotFound, Code::LimitReached, Code::RateLimited, Code::QuotaExceeded]),
    Route::new(
        "listDevices",
        Get,
        "/api/v1/devices",
        "List the devices of a user",
        Scoped(UsersRead, |tenant, call| Box::pin(devices::list(tenant, call))),
    )
    .query(&["userId"])
    .needs(&["userId"])
    .gives(200, Shape::of::<Devices>())
    .refuses(NO_USER),
    Route::new(
        "unregisterDevice",
        Delete,
        "/api/v1/devices/{user}/{device}",
        "Forget a device and its token",
        Scoped(DevicesWrite, |tenant, call| Box::pin(devices::unregister(tenant, call))),
    )
    .gives_nothing(204)
    .refuses(&[Code::UserNotFound, Code::DeviceNotFound]),
    Route::new(
        "getSuppression",
        Get,
        "/api/v1/suppressions/{channel}/{address}",
        "Why nothing is sent to an address",
        Scoped(UsersRead, |tenant, call| Box::pin(suppressions::get(tenant, call))),
    )
    .gives(200, Shape::of::<Suppression>())
    .refuses(&[Code::SuppressionNotFound]),
    Route::new(
        "putSuppression",
        Put,
        "/api/v1/suppressions/{channel}/{address}",
        "Send nothing to an address from now on, whoever has it",
        Scoped(UsersWrite, |tenant, call| Box::pin(suppressions::put(tenant, call))),
    )
    .takes(Shape::of::<SuppressionPut>())
    .gives(200, Shape::of::<Suppression>())
    .gives(202, Shape::of::<Suppression>()),
    Route::new(
        "deleteSuppression",
        Delete,
        "/api/v1/suppressions/{channel}/{address}",
        "Let an address be used again",
        Scoped(UsersWrite, |tenant, call| Box::pin(suppressions::delete(tenant, call))),
    )
    .gives_nothing(204)
    .refuses(&[Code::SuppressionNotFound]),
    Route::new(
        "deleteAddress",
        Delete,
        "/api/v1/addresses/{channel}/{address}",
        "Delete whoever was sent something by this address alone",
        Scoped(UsersWrite, |tenant, call| Box::pin(addresses::delete(tenant, call))),
    )
    .gives_nothing(204)
    .refuses(&[Code::UserNotFound]),
];
