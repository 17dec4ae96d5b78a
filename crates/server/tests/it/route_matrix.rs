//! Every route × every kind of caller × every listener. A route without a row here fails the test, so that nobody adds one without
//! saying who may call it, and where.

use crate::matrix::path_of;
use crate::server::Server;
use crate::world::{ALL_SCOPES, bare, key_of, tenant_with_key};
use fantail_api::listener_kinds::ListenerKinds;
use fantail_api::route::{Handle, Route};
use fantail_api::routes::ROUTES;
use fantail_server::client::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;

/// Listeners that serve a route; the others answer as if there were none.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Where {
    Everywhere,
    Public,
    ApiAndAdmin,
    Admin,
}

/// What a caller needs.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Needs {
    /// No key; a link, a signature or nothing at all.
    Nobody,
    Scope(&'static str),
    /// The scope `admin` of the tenant in the path.
    TenantAdmin,
    ServerKey,
}

use Needs::{Nobody, Scope, ServerKey, TenantAdmin};
use Where::{Admin, ApiAndAdmin, Everywhere, Public};

const ROWS: &[(&str, Where, Needs)] = &[
    ("postEvents", ApiAndAdmin, Scope("events:write")),
    ("retractEvent", ApiAndAdmin, Scope("events:write")),
    ("putUser", ApiAndAdmin, Scope("users:write")),
    ("patchUser", ApiAndAdmin, Scope("users:write")),
    ("getUser", ApiAndAdmin, Scope("users:read")),
    ("deleteUser", ApiAndAdmin, Scope("users:write")),
    ("putUsers", ApiAndAdmin, Scope("users:write")),
    ("follow", ApiAndAdmin, Scope("users:write")),
    ("unfollow", ApiAndAdmin, Scope("users:write")),
    ("getFollow", ApiAndAdmin, Scope("users:read")),
    ("listFollows", ApiAndAdmin, Scope("users:read")),
    ("listFollowers", ApiAndAdmin, Scope("users:read")),
    ("followMany", ApiAndAdmin, Scope("users:write")),
    ("unfollowMany", ApiAndAdmin, Scope("users:write")),
    ("subscribe", ApiAndAdmin, Scope("users:write")),
    ("unsubscribe", ApiAndAdmin, Scope("users:write")),
    ("listSubscribers", ApiAndAdmin, Scope("users:read")),
    ("subscribeMany", ApiAndAdmin, Scope("users:write")),
    ("unsubscribeMany", ApiAndAdmin, Scope("users:write")),
    ("createTenant", Admin, ServerKey),
    ("listTenants", Admin, ServerKey),
    ("getTenant", ApiAndAdmin, TenantAdmin),
    ("changeTenant", ApiAndAdmin, TenantAdmin),
    ("createKey", ApiAndAdmin, TenantAdmin),
    ("listKeys", ApiAndAdmin, TenantAdmin),
    ("revokeKey", ApiAndAdmin, TenantAdmin),
    ("createBackup", Admin, ServerKey),
    ("acceptClock", Admin, ServerKey),
    ("livez", Everywhere, Nobody),
    ("readyz", Everywhere, Nobody),
    ("metrics", Admin, Nobody),
    ("openapi", ApiAndAdmin, Nobody),
    ("errorPage", ApiAndAdmin, Nobody),
    ("listAuditEntries", ApiAndAdmin, Scope("audit:read")),
    ("listServerAuditEntries", Admin, ServerKey),
    ("proveRecipient", ApiAndAdmin, Scope("audit:read")),
    ("listAuditCheckpoints", ApiAndAdmin, Scope("audit:read")),
    ("createBulk", ApiAndAdmin, Scope("notifications:write")),
    ("listBulks", ApiAndAdmin, Scope("notifications:read")),
    ("estimateBulk", ApiAndAdmin, Scope("notifications:write")),
    ("getBulk", ApiAndAdmin, Scope("notifications:read")),
    ("patchBulk", ApiAndAdmin, Scope("notifications:write")),
    ("pauseBulk", ApiAndAdmin, Scope("notifications:write")),
    ("resumeBulk", ApiAndAdmin, Scope("notifications:write")),
    ("cancelBulk", ApiAndAdmin, Scope("notifications:write")),
    ("listCategories", ApiAndAdmin, Scope("categories:read")),
    ("getCategory", ApiAndAdmin, Scope("categories:read")),
    ("putCategory", ApiAndAdmin, Scope("categories:write")),
    ("deleteCategory", ApiAndAdmin, Scope("categories:write")),
    ("getDefaultPreferences", ApiAndAdmin, Scope("categories:read")),
    ("patchDefaultPreferences", ApiAndAdmin, Scope("categories:write")),
    ("registerDevice", ApiAndAdmin, Scope("devices:write")),
    ("listDevices", ApiAndAdmin, Scope("users:read")),
    ("unregisterDevice", ApiAndAdmin, Scope("devices:write")),
    ("getSuppression", ApiAndAdmin, Scope("users:read")),
    ("putSuppression", ApiAndAdmin, Scope("users:write")),
    ("deleteSuppression", ApiAndAdmin, Scope("users:write")),
    ("deleteAddress", ApiAndAdmin, Scope("users:write")),
    ("eraseUser", ApiAndAdmin, Scope("users:write")),
    ("getErasure", ApiAndAdmin, Scope("users:read")),
    ("exportUser", ApiAndAdmin, Scope("admin")),
    ("makePreferenceLink", ApiAndAdmin, Scope("users:write")),
    ("showPreferencePage", Public, Nobody),
    ("changeByPreferencePage", Public, Nobody),
    ("listNotifications", ApiAndAdmin, Scope("inbox:read")),
    ("getNotification", ApiAndAdmin, Scope("inbox:read")),
    ("deleteNotification", ApiAndAdmin, Scope("inbox:write")),
    ("getUnread", ApiAndAdmin, Scope("inbox:read")),
    ("markRead", ApiAndAdmin, Scope("inbox:write")),
    ("markUnread", ApiAndAdmin, Scope("inbox:write")),
    ("markSeen", ApiAndAdmin, Scope("inbox:write")),
    ("archive", ApiAndAdmin, Scope("inbox:write")),
    ("unarchive", ApiAndAdmin, Scope("inbox:write")),
    ("snooze", ApiAndAdmin, Scope("inbox:write")),
    ("unsnooze", ApiAndAdmin, Scope("inbox:write")),
    ("listProviders", ApiAndAdmin, Scope("providers:write")),
    ("getProvider", ApiAndAdmin, Scope("providers:write")),
    ("putProvider", ApiAndAdmin, Scope("providers:write")),
    ("deleteProvider", ApiAndAdmin, Scope("providers:write")),
    ("testProvider", ApiAndAdmin, Scope("providers:write")),
    ("takeCallback", Public, Nobody),
    ("takeStatusCallback", Public, Nobody),
    ("showPicture", Public, Nobody),
    ("followLink", Public, Nobody),
    ("getPreferences", ApiAndAdmin, Scope("users:read")),
    ("patchPreferences", ApiAndAdmin, Scope("users:write")),
    ("listPreferenceHistory", ApiAndAdmin, Scope("users:read")),
    ("getConsents", ApiAndAdmin, Scope("users:read")),
    ("putConsent", ApiAndAdmin, Scope("users:write")),
    ("listSchedules", ApiAndAdmin, Scope("notifications:read")),
    ("getSchedule", ApiAndAdmin, Scope("notifications:read")),
    ("putSchedule", ApiAndAdmin, Scope("notifications:write")),
    ("patchSchedule", ApiAndAdmin, Scope("notifications:write")),
    ("deleteSchedule", ApiAndAdmin, Scope("notifications:write")),
    ("listSegments", ApiAndAdmin, Scope("users:read")),
    ("getSegment", ApiAndAdmin, Scope("users:read")),
    ("putSegment", ApiAndAdmin, Scope("users:write")),
    ("deleteSegment", ApiAndAdmin, Scope("users:write")),
    ("countSegment", ApiAndAdmin, Scope("users:read")),
    ("putSegmentMembers", ApiAndAdmin, Scope("users:write")),
    ("sendNotification", ApiAndAdmin, Scope("notifications:write")),
    ("getNotificationStatus", ApiAndAdmin, Scope("notifications:read")),
    ("explainNotification", ApiAndAdmin, Scope("notifications:read")),
    ("traceNotification", ApiAndAdmin, Scope("notifications:read")),
    ("cancelNotification", ApiAndAdmin, Scope("notifications:write")),
    ("cancelNotificationsByKey", ApiAndAdmin, Scope("notifications:write")),
    ("takeReceipts", ApiAndAdmin, Scope("receipts:write")),
    ("listDeadLetters", ApiAndAdmin, Scope("notifications:read")),
    ("redriveDeadLetters", ApiAndAdmin, Scope("notifications:write")),
    ("dropDeadLetters", ApiAndAdmin, Scope("notifications:write")),
    ("putTemplate", ApiAndAdmin, Scope("templates:write")),
    ("listTemplates", ApiAndAdmin, Scope("templates:read")),
    ("getTemplate", ApiAndAdmin, Scope("templates:read")),
    ("listTemplateVersions", ApiAndAdmin, Scope("templates:read")),
    ("diffTemplate", ApiAndAdmin, Scope("templates:read")),
    ("activateTemplate", ApiAndAdmin, Scope("templates:write")),
    ("switchTemplate", ApiAndAdmin, Scope("templates:write")),
    ("deleteTemplate", ApiAndAdmin, Scope("templates:write")),
    ("previewTemplate", ApiAndAdmin, Scope("templates:read")),
    ("previewDraft", ApiAndAdmin, Scope("templates:read")),
    ("createWebhook", ApiAndAdmin, Scope("webhooks:write")),
    ("listWebhooks", ApiAndAdmin, Scope("webhooks:write")),
    ("deleteWebhook", ApiAndAdmin, Scope("webhooks:write")),
    ("enableWebhook", ApiAndAdmin, Scope("webhooks:write")),
    ("rotateWebhook", ApiAndAdmin, Scope("webhooks:write")),
    ("replayWebhook", ApiAndAdmin, Scope("webhooks:write")),
];

const LISTENERS: [&str; 3] = ["public", "api", "admin"];

impl Where {
    fn is_at(self, listener: &str) -> bool {
        match self {
            Everywhere => true,
            Public => listener == "public",
            ApiAndAdmin => listener != "public",
            Admin => listener == "admin",
        }
    }
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Debug)]
enum CallerKind {
    NoKey,
    /// Every scope but the one.
    WithoutScope,
    OtherTenant,
    ServerKey,
}

/// The code of the problem that a caller is answered before a handler runs; `None`: the handler runs.
fn expected(row: (Where, Needs), listener: &str, caller: CallerKind) -> Option<&'static str> {
    let (at, needs) = row;
    if !at.is_at(listener) {
        return Some("ROUTE_NOT_FOUND");
    }
    match (needs, caller) {
        (Nobody, _) => None,
        (_, CallerKind::NoKey) => Some("UNAUTHENTICATED"),
        // Beyond the listener for administration the server's own key is nobody's.
        (_, CallerKind::ServerKey) if listener != "admin" => Some("UNAUTHENTICATED"),
        (_, CallerKind::ServerKey) => None,
        (TenantAdmin, CallerKind::OtherTenant) => Some("UNKNOWN_TENANT"),
        (Scope(_) | TenantAdmin | ServerKey, CallerKind::WithoutScope | CallerKind::OtherTenant) => {
            Some("FORBIDDEN")
        }
    }
}

/// The callers of one listener, each with a connection of its own.
struct Callers {
    nobody: Client,
    other_tenant: Client,
    server_key: Client,
    lacking: BTreeMap<&'static str, Client>,
}

impl Callers {
    fn client_for(&mut self, kind: CallerKind, needs: Needs) -> &mut Client {
        match (kind, needs) {
            (CallerKind::NoKey, _) => &mut self.nobody,
            (CallerKind::OtherTenant, _) => &mut self.other_tenant,
            (CallerKind::ServerKey, _) => &mut self.server_key,
            (CallerKind::WithoutScope, Scope(scope)) => {
                self.lacking.get_mut(scope).expect("a key for each scope")
            }
            (CallerKind::WithoutScope, Nobody | TenantAdmin | ServerKey) => {
                self.lacking.get_mut("admin").expect("a key for each scope")
            }
        }
    }
}

#[test]
fn every_route_has_its_row() {
    let rows: BTreeSet<&str> = ROWS.iter().map(|(id, ..)| *id).collect();
    let routes: BTreeSet<&str> = ROUTES.iter().map(|route| route.id).collect();
    assert_eq!(rows, routes, "a new route says here who may call it, and on which listener");
    assert_eq!(rows.len(), ROWS.len(), "each once");
}

// proves: API-05, TEN-03
// fixes: security M5, usability B8
#[test]
fn every_caller_meets_the_same_door_on_every_listener() {
    let own = "127.0.0.1:0";
    let server = Server::start_with(&[], &[("FANTAIL_PUBLIC_LISTEN", own), ("FANTAIL_ADMIN_LISTEN", own)]);
    let mut admin = server.at("admin").with_key(&server.key("admin.key"));
    let other = tenant_with_key(&mut admin, "globex", ALL_SCOPES);
    tenant_with_key(&mut admin, "acme", &["inbox:read"]);
    let lacking: BTreeMap<&'static str, String> = ALL_SCOPES
        .iter()
        .map(|lacked| {
            let others: Vec<&str> = ALL_SCOPES.iter().copied().filter(|scope| scope != lacked).collect();
            (*lacked, key_of(&mut admin, "acme", &others))
        })
        .collect();
    for listener in LISTENERS {
        let with = |key: &str| server.at(listener).with_key(key);
        let named = |client: Client| client.with_header("fantail-tenant", "acme");
        let mut callers = Callers {
            nobody: server.at(listener),
            other_tenant: named(with(&other)),
            server_key: named(with(&server.key("admin.key"))),
            lacking: lacking.iter().map(|(scope, key)| (*scope, with(key))).collect(),
        };
        for (id, at, needs) in ROWS {
            let route = ROUTES.iter().find(|route| route.id == *id).expect("a row of a route");
            for caller in
                [CallerKind::NoKey, CallerKind::WithoutScope, CallerKind::OtherTenant, CallerKind::ServerKey]
            {
                check(route, listener, caller, expected((*at, *needs), listener, caller), {
                    callers.client_for(caller, *needs)
                });
            }
        }
    }
}

fn check(
    route: &Route,
    listener: &str,
    caller: CallerKind,
    expected: Option<&'static str>,
    client: &mut Client,
) {
    const NO_EVENT: &str = "01KG9V7W0R0000000000000001";
    let path = path_of(route, NO_EVENT, "acme");
    let response = bare(client, route.method.text(), &path).expect("an answer");
    let at = format!("{} on {listener} by {caller:?}: {}", route.id, response.status);
    match expected {
        Some(code) => assert_eq!(response.json()["code"], code, "{at}"),
        None => {
            let code = response.json()["code"].as_str().unwrap_or_default().to_owned();
            let is_shut = ["ROUTE_NOT_FOUND", "UNAUTHENTICATED", "FORBIDDEN"].contains(&code.as_str());
            // An error page that does not exist is no route either.
            assert!(!is_shut && response.status != 401, "{at} {code}");
        }
    }
}

// fixes: security M5
#[test]
fn health_says_more_to_operators_than_to_strangers() {
    let own = "127.0.0.1:0";
    let server = Server::start_with(&[], &[("FANTAIL_PUBLIC_LISTEN", own), ("FANTAIL_ADMIN_LISTEN", own)]);
    for listener in LISTENERS {
        let mut client = server.at(listener);
        assert_eq!(client.get("/readyz").expect("an answer").text(), "ready\n", "{listener}");
        let verbose = client.get("/readyz?verbose").expect("an answer");
        let expected = if listener == "admin" { 200 } else { 404 };
        assert_eq!(verbose.status, expected, "{listener}: {}", verbose.text());
    }
}

/// A page in a browser on this machine can have its own name lead to 127.0.0.1.
// fixes: security M5
#[test]
fn what_operators_read_without_a_key_is_told_to_known_hosts_only() {
    let own = "127.0.0.1:0";
    let server = Server::start_with(
        &[],
        &[("FANTAIL_ADMIN_LISTEN", own), ("FANTAIL_ADMIN_HOSTS", "fantail.internal, 10.9.8.7")],
    );
    let address = server.address_of("admin").to_owned();
    let port = address.rsplit(':').next().expect("a port").to_owned();
    let ask = |host: &str, path: &str| {
        let stream = TcpStream::connect(&address).expect("the server listens");
        Client::over(host, Box::new(stream)).get(path).expect("an answer")
    };
    for route in ROUTES.iter().filter(|route| matches!(route.handle, Handle::Open(_))) {
        let query = route.admin_query.first().map_or(String::new(), |name| format!("?{name}"));
        let path = path_of(route, "", "acme") + &query;
        let is_for_operators = route.listeners == ListenerKinds::ADMIN || !query.is_empty();
        for (host, is_known) in [
            (address.as_str(), true),
            (&format!("localhost:{port}"), true),
            (&format!("fantail.internal:{port}"), true),
            ("10.9.8.7", true),
            (&format!("evil.example:{port}"), false),
            (&format!("127.0.0.1.evil.example:{port}"), false),
            ("10.9.8.6", false),
        ] {
            let response = ask(host, &path);
            let is_refused = response.status == 421;
            assert_eq!(is_refused, is_for_operators && !is_known, "{} by {host}", route.id);
            if is_refused {
                assert_eq!(response.json()["code"], "UNKNOWN_HOST", "{} by {host}", route.id);
            }
        }
    }
}
