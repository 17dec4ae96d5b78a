//! Routes about the audit log.

use crate::openapi::Shape;
use crate::route::Handle::{Scoped, ServerAdmin};
use crate::route::Method::Get;
use crate::route::Route;
use crate::v1::audit;
use fantail_wire::audit::{AuditCheckpoints, AuditEntries, AuditProofs};
use fantail_wire::code::Code;
use fantail_wire::tenant::Scope::AuditRead;

pub const ROUTES: &[Route] = &[
    Route::new(
        "listAuditEntries",
        Get,
        "/api/v1/audit",
        "What was decided and done, oldest first",
        Scoped(AuditRead, |tenant, call| Box::pin(audit::list(tenant, call))),
    )
    .query(&["from", "to", "notification", "user", "limit", "cursor"])
    .gives(200, Shape::of::<AuditEntries>())
    .refuses(&[Code::EventNotFound]),
    Route::new(
        "listServerAuditEntries",
        Get,
        "/api/v1/audit/server",
        "What was done to the server itself, oldest first: backups, refused logins with keys of no tenant",
        ServerAdmin(|call| Box::pin(audit::list_server(call))),
    )
    .query(&["from", "to", "limit", "cursor"])
    .gives(200, Shape::of::<AuditEntries>()),
    Route::new(
        "proveRecipient",
        Get,
        "/api/v1/audit/proof",
        "What the audit log proves about one recipient of a notification",
        Scoped(AuditRead, |tenant, call| Box::pin(audit::prove(tenant, call))),
    )
    .query(&["notification", "user"])
    .needs(&["notification", "user"])
    .gives(200, Shape::of::<AuditProofs>())
    .refuses(&[Code::EventNotFound, Code::UserNotFound]),
    Route::new(
        "listAuditCheckpoints",
        Get,
        "/api/v1/audit/checkpoints",
        "Signed checkpoints of the audit log, and the key that signs them",
        Scoped(AuditRead, |tenant, call| Box::pin(audit::checkpoints(tenant, call))),
    )
    .query(&["from", "limit"])
    .gives(200, Shape::of::<AuditCheckpoints>()),
];
