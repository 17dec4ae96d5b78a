//! Which cost test covers which route. The tests count rows and records at two sizes of what others have: operations in the
//! machine's tests, reads in the simulator. A new route needs a line here.

use fantail_api::routes::ROUTES;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Where cases are named.
const FILES: &[&str] = &[
    "crates/machine/tests/it/growth.rs",
    "crates/machine/tests/it/growth_elsewhere.rs",
    "crates/sim/src/reads.rs",
];

enum Cost {
    /// Cases of the cost tests, by name.
    Counted(&'static [&'static str]),
    /// Reads a page, or at most as many rows as a limit of the tenant's own allows.
    Page,
    /// Each step looks at a bounded number of rows; the number of steps grows with what the tenant itself keeps.
    Steps(&'static [&'static str]),
    /// Reads no tables, or only those that the operator of the server fills.
    Server,
}

use Cost::{Counted, Page, Server, Steps};

const SEND: &[&str] = &["send: admission", "send: take", "send: first round", "send: outcome"];
const RECEIPT: &[&str] = &["receipt"];

/// By the route's id in the OpenAPI document.
const ROWS: &[(&str, Cost)] = &[
    ("postEvents", Counted(SEND)),
    (
        "retractEvent",
        Counted(&["retraction: admission", "retraction: take", "retraction of what is scheduled"]),
    ),
    ("putUser", Counted(&["user put", "user put: another profile"])),
    ("patchUser", Counted(&["user", "user put", "user put: another profile"])),
    ("getUser", Counted(&["user", "devices"])),
    ("deleteUser", Counted(&["user delete"])),
    ("putUsers", Counted(&["user put", "user put: another profile"])),
    ("follow", Counted(&["follow"])),
    ("unfollow", Counted(&["unfollow"])),
    ("getFollow", Counted(&["follows"])),
    ("listFollows", Counted(&["follows"])),
    ("listFollowers", Page),
    ("followMany", Counted(&["follow"])),
    ("unfollowMany", Counted(&["unfollow"])),
    ("subscribe", Counted(&["follow"])),
    ("unsubscribe", Counted(&["unfollow"])),
    ("listSubscribers", Page),
    ("subscribeMany", Counted(&["follow"])),
    ("unsubscribeMany", Counted(&["unfollow"])),
    ("createTenant", Server),
    ("listTenants", Server),
    ("getTenant", Server),
    ("changeTenant", Counted(&["tenant: patch"])),
    ("createKey", Counted(&["key: create"])),
    ("listKeys", Page),
    ("revokeKey", Counted(&["key: revoke"])),
    ("createBackup", Server),
    ("acceptClock", Server),
    ("livez", Server),
    ("readyz", Server),
    ("metrics", Server),
    ("openapi", Server),
    ("errorPage", Server),
    ("listAuditEntries", Page),
    ("listServerAuditEntries", Page),
    ("proveRecipient", Page),
    ("listAuditCheckpoints", Page),
    ("createBulk", Counted(&["bulk: create", "bulk: a step of four users"])),
    ("listBulks", Counted(&["bulk sends"])),
    ("estimateBulk", Steps(&[])),
    ("getBulk", Counted(&["status"])),
    ("patchBulk", Counted(&["bulk: rate", "bulk: rate: take"])),
    ("pauseBulk", Counted(&["bulk: pause", "bulk: pause: take"])),
    ("resumeBulk", Counted(&["bulk: resume", "bulk: resume: take"])),
    ("cancelBulk", Counted(&["bulk: cancel", "bulk: cancel: take"])),
    ("listCategories", Page),
    ("getCategory", Page),
    ("putCategory", Counted(&["category: put"])),
    ("deleteCategory", Counted(&["category: delete"])),
    ("getDefaultPreferences", Page),
    ("patchDefaultPreferences", Counted(&["preferences: defaults"])),
    (
        "registerDevice",
        Counted(&[
            "device registration",
            "device refresh",
            "device activation",
            "address: claim",
            "address: claim of another user's",
            "address: owner knows",
        ]),
    ),
    ("listDevices", Counted(&["devices"])),
    ("unregisterDevice", Counted(&["device unregistration", "address: release"])),
    ("getSuppression", Page),
    ("putSuppression", Counted(&["address: suppress"])),
    ("deleteSuppression", Counted(&["address: unsuppress"])),
    ("deleteAddress", Counted(&["address: release"])),
    ("eraseUser", Steps(&["erasure: begin"])),
    ("getErasure", Page),
    ("exportUser", Steps(&["export: lists", "history of preferences"])),
    ("makePreferenceLink", Counted(&["user"])),
    ("showPreferencePage", Counted(&["preferences"])),
    ("changeByPreferencePage", Counted(&["preference change", "re-evaluation after it"])),
    ("listNotifications", Counted(&["inbox"])),
    ("getNotification", Counted(&["inbox"])),
    ("deleteNotification", Counted(&["mark: delete"])),
    ("getUnread", Counted(&["counts"])),
    ("markRead", Counted(&["mark", "mark all"])),
    ("markUnread", Counted(&["mark"])),
    ("markSeen", Counted(&["mark", "mark all"])),
    ("archive", Counted(&["mark", "mark all"])),
    ("unarchive", Counted(&["mark"])),
    ("snooze", Counted(&["mark: snooze"])),
    ("unsnooze", Counted(&["mark: unsnooze"])),
    ("listProviders", Page),
    ("getProvider", Page),
    ("putProvider", Counted(&["account: put"])),
    ("deleteProvider", Counted(&["account: delete"])),
    ("testProvider", Page),
    ("rotateProvider", Counted(&["account: rotate"])),
    ("takeCallback", Counted(RECEIPT)),
    ("takeStatusCallback", Counted(RECEIPT)),
    ("showPicture", Counted(RECEIPT)),
    ("followLink", Counted(RECEIPT)),
    ("getPreferences", Counted(&["preferences"])),
    ("patchPreferences", Counted(&["preference change", "re-evaluation after it"])),
    ("listPreferenceHistory", Counted(&["history of preferences"])),
    ("getConsents", Counted(&["preferences"])),
    ("putConsent", Counted(&["consent"])),
    ("listSchedules", Counted(&["schedules"])),
    ("getSchedule", Page),
    ("putSchedule", Counted(&["schedule: put", "schedule: run"])),
    ("patchSchedule", Counted(&["schedule: pause", "schedule: resume"])),
    ("deleteSchedule", Counted(&["schedule: delete"])),
    ("listSegments", Page),
    ("getSegment", Page),
    ("putSegment", Counted(&["segment: put"])),
    ("deleteSegment", Counted(&["segment: delete", "upload: delete"])),
    ("countSegment", Steps(&[])),
    ("putSegmentMembers", Counted(&["upload", "segment: list"])),
    (
        "sendNotification",
        Counted(&[
            "send: admission",
            "send: take",
            "send: first round",
            "send: outcome",
            "schedule",
            "release",
            "release: take",
        ]),
    ),
    ("getNotificationStatus", Counted(&["status", "recipients", "event"])),
    ("explainNotification", Counted(&["explanation"])),
    ("traceNotification", Counted(&["explanation"])),
    ("cancelNotification", Counted(&["cancel: admission", "cancel: take", "cancel of what is scheduled"])),
    (
        "cancelNotificationsByKey",
        Counted(&["cancel: admission", "cancel: take", "cancel of what is scheduled"]),
    ),
    ("takeReceipts", Counted(RECEIPT)),
    ("listDeadLetters", Counted(&["dead letters"])),
    ("redriveDeadLetters", Counted(&["redrive of a dead letter"])),
    ("dropDeadLetters", Counted(&["drop of a dead letter"])),
    ("putTemplate", Counted(&["template: put", "template: new version"])),
    ("listTemplates", Page),
    ("getTemplate", Page),
    ("listTemplateVersions", Page),
    ("diffTemplate", Page),
    ("activateTemplate", Counted(&["template: activate"])),
    ("switchTemplate", Counted(&["template: set"])),
    ("deleteTemplate", Counted(&["template: delete"])),
    ("previewTemplate", Page),
    ("previewDraft", Server),
    ("createWebhook", Counted(&["webhook: put"])),
    ("listWebhooks", Page),
    ("deleteWebhook", Counted(&["webhook: delete", "webhook: end of its place"])),
    ("enableWebhook", Counted(&["webhook: enable"])),
    ("rotateWebhook", Counted(&["webhook: rotate"])),
    ("replayWebhook", Counted(&["webhook: replay"])),
];

#[test]
fn each_route_has_its_cost_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources: String =
        FILES.iter().map(|file| fs::read_to_string(root.join(file)).expect("the file is there")).collect();
    let routes: BTreeSet<&str> = ROUTES.iter().map(|route| route.id).collect();
    let rows: BTreeSet<&str> = ROWS.iter().map(|(id, _)| *id).collect();
    assert_eq!(rows, routes, "the table has each route");
    assert_eq!(rows.len(), ROWS.len(), "each once");
    for (id, cost) in ROWS {
        let (Counted(cases) | Steps(cases)) = cost else { continue };
        for case in *cases {
            assert!(sources.contains(&format!("\"{case}\",")), "{id}: there is no case {case:?}");
        }
    }
}
