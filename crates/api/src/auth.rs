//! Who calls, and for which tenant.
//!
//! Comes from: `pipeline`. Decides: key → caller, caller + route → tenant or refusal. Goes to: the handler.
//! What must never happen: an id in a path that authorises anything; a tenant that the key does not belong to.

use crate::access::{AccessFault, Requester};
use crate::app::App;
use crate::key;
use crate::listener_kinds::{ListenerKind, ListenerKinds};
use crate::problem::Problem;
use axum::http::{HeaderMap, header};
use fantail_node::Node;
use fantail_node::ask::{KeyView, Priority};
use fantail_node::deletions::Deletion;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Millis, TenantId};
use fantail_wire::code::Code;
use fantail_wire::tenant::Scope;
use std::sync::Arc;

pub const TENANT_HEADER: &str = "fantail-tenant";

#[derive(Clone, Debug)]
pub enum Caller {
    /// The server's admin key: every tenant, named per request.
    Server,
    /// A key of one tenant.
    Key(Arc<KeyView>),
}

impl Caller {
    /// As records and the audit log name the caller.
    pub fn actor(&self) -> Actor {
        match self {
            Self::Server => Actor::Admin,
            Self::Key(key) => Actor::Key(key.id.as_str().into()),
        }
    }

    pub fn has(&self, scope: Scope) -> bool {
        match self {
            Self::Server => true,
            Self::Key(key) => key.scopes.iter().any(|held| held == scope.text()),
        }
    }
}

/// Returns the holder of the request's key. A login that fails is charged to the address of the client.
pub fn authenticate(
    app: &App,
    node: &Node,
    headers: &HeaderMap,
    listener: ListenerKinds,
    requester: &mut Requester,
) -> Result<Caller, Problem> {
    let now = app.clock.monotonic();
    let failed = match identify(app, node, headers, listener, requester) {
        Ok(caller) => return Ok(caller),
        Err(failed) => failed,
    };
    match failed.fault() {
        Some(AccessFault::NoKey) => app.addresses.charge_request(requester.client.limited_as, now)?,
        Some(AccessFault::TooManyFailures) => {}
        Some(_) | None => {
            app.addresses.charge_failed_login(requester.client.limited_as, now).map_err(too_many_failures)?
        }
    }
    Err(failed)
}

/// A secret of 256 random bits cannot be guessed, so keys of tenants are looked at however many logins of the address have failed:
/// a forgotten client with an old key does not shut out those who share its address. The operator may have chosen the server's own
/// key, so that one is not compared any more.
pub fn identify(
    app: &App,
    node: &Node,
    headers: &HeaderMap,
    listener: ListenerKinds,
    requester: &mut Requester,
) -> Result<Caller, Problem> {
    let presented = bearer(headers)?;
    let Some(key) = key::read(presented) else {
        if !listener.contains(ListenerKind::Admin) {
            return Err(unknown_key().because(AccessFault::UnknownKey));
        }
        app.addresses
            .require_guess_allowed(requester.client.limited_as, app.clock.monotonic())
            .map_err(too_many_failures)?;
        let hash = key::hash(presented.as_bytes());
        if !equal(&hash, &app.settings.admin_key_hash) {
            return Err(unknown_key().because(AccessFault::UnknownKey));
        }
        requester.key = Some(Caller::Server.actor().name().to_owned());
        return Ok(Caller::Server);
    };
    requester.key = Some(key.id.to_owned());
    let stored = node.key_by_id(key.id).ok_or_else(|| unknown_key().because(AccessFault::UnknownKey))?;
    requester.tenant = Some(stored.tenant);
    if !equal(&key.secret_hash, &stored.secret_hash) {
        return Err(unknown_key().because(AccessFault::WrongSecret));
    }
    usable(&stored, node.wall())?;
    // The holder has proven the secret, so it is safe to say what became of the tenant.
    if node.deletion(stored.tenant).is_some() {
        return Err(deleting());
    }
    Ok(Caller::Key(stored))
}

fn too_many_failures(problem: Problem) -> Problem {
    problem.because(AccessFault::TooManyFailures)
}

/// The tenant of a request for a tenant's resources.
pub fn tenant_with(
    node: &Node,
    headers: &HeaderMap,
    caller: &Caller,
    scope: Scope,
) -> Result<TenantId, Problem> {
    let named = match headers.get(TENANT_HEADER) {
        Some(value) => Some(value.to_str().map_err(|_| unknown_tenant())?),
        None => None,
    };
    let tenant = match (caller, named) {
        (Caller::Server, None) => {
            return Err(Problem::field("/Fantail-Tenant", "the admin key names its tenant in this header"));
        }
        (Caller::Server, Some(slug)) => {
            node.tenant_by_slug(slug).ok_or_else(|| no_tenant(node, caller, slug))?.id
        }
        (Caller::Key(key), None) => key.tenant,
        (Caller::Key(key), Some(slug)) => {
            let own = node.tenant(key.tenant).is_some_and(|tenant| tenant.slug == slug);
            if !own {
                let other = Problem::new(Code::Forbidden, "the key belongs to another tenant");
                return Err(other.because(AccessFault::OtherTenant));
            }
            key.tenant
        }
    };
    require(caller, scope)?;
    Ok(tenant)
}

/// The tenant of a request that administers one tenant, named in the path.
pub fn tenant_to_administer(node: &Node, caller: &Caller, slug: &str) -> Result<TenantId, Problem> {
    require(caller, Scope::Admin)?;
    let tenant = node.tenant_by_slug(slug).ok_or_else(|| no_tenant(node, caller, slug))?.id;
    match caller {
        Caller::Server => Ok(tenant),
        Caller::Key(key) if key.tenant == tenant => Ok(tenant),
        // Whether other tenants exist is none of this caller's business.
        Caller::Key(_) => Err(unknown_tenant().because(AccessFault::OtherTenant)),
    }
}

/// The deletion of the tenant in the path, if the caller may see it: only the server's admin key may.
pub fn deletion_to_show(node: &Node, caller: &Caller, slug: &str) -> Option<Deletion> {
    match caller {
        Caller::Server => node.deletion_by_slug(slug),
        Caller::Key(_) => None,
    }
}

pub fn require_server(caller: &Caller) -> Result<(), Problem> {
    match caller {
        Caller::Server => Ok(()),
        Caller::Key(_) => Err(Problem::new(Code::Forbidden, "only the server's admin key may do this")
            .because(AccessFault::ServerKeyNeeded)),
    }
}

/// The caller behind a key id that a stored request names, for requests that run later without the key's secret.
pub fn named_key(node: &Node, tenant: TenantId, id: &str, scope: Scope) -> Result<Caller, Problem> {
    let key = node.key_by_id(id).filter(|key| key.tenant == tenant).ok_or_else(unknown_key)?;
    usable(&key, node.wall())?;
    let caller = Caller::Key(key);
    require(&caller, scope)?;
    Ok(caller)
}

/// Whether this may be sent with such a priority, wherever that comes from.
pub fn require_priority(caller: &Caller, priority: Priority) -> Result<(), Problem> {
    match priority {
        Priority::Critical => require(caller, Scope::SendCritical),
        Priority::High | Priority::Normal | Priority::Low => Ok(()),
    }
}

fn require(caller: &Caller, scope: Scope) -> Result<(), Problem> {
    if caller.has(scope) {
        return Ok(());
    }
    let lacking = Problem::new(Code::Forbidden, format!("the key lacks the scope {}", scope.text()));
    Err(lacking.because(AccessFault::MissingScope))
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let missing = || {
        let detail = "send the key as `Authorization: Bearer` followed by the key";
        Problem::new(Code::Unauthenticated, detail).because(AccessFault::NoKey)
    };
    let value = headers.get(header::AUTHORIZATION).ok_or_else(missing)?;
    let text = value.to_str().map_err(|_| missing())?;
    let (scheme, key) = text.split_once(' ').ok_or_else(missing)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(key.trim()) } else { Err(missing()) }
}

/// The holder has proven the secret, so it is safe to say what is wrong with the key.
fn usable(key: &KeyView, now: Millis) -> Result<(), Problem> {
    if key.revoked_at.is_some() {
        let revoked = Problem::new(Code::Unauthenticated, "the key was revoked");
        return Err(revoked.because(AccessFault::RevokedKey));
    }
    if key.expires_at.is_some_and(|expiry| expiry <= now) {
        let expired = Problem::new(Code::Unauthenticated, "the key has expired");
        return Err(expired.because(AccessFault::ExpiredKey));
    }
    Ok(())
}

fn equal(left: &[u8; 32], right: &[u8; 32]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(left, right).is_ok()
}

fn unknown_key() -> Problem {
    Problem::new(Code::Unauthenticated, "the key is not known")
}

fn unknown_tenant() -> Problem {
    Problem::new(Code::UnknownTenant, "no such tenant")
}

fn deleting() -> Problem {
    Problem::new(Code::TenantDeleting, "the tenant is being deleted")
}

/// Why nothing can be asked of a tenant that is not among the others.
fn no_tenant(node: &Node, caller: &Caller, slug: &str) -> Problem {
    match caller {
        Caller::Server if node.deletion_by_slug(slug).is_some() => deleting(),
        Caller::Server | Caller::Key(_) => unknown_tenant(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{body, well_formed};
    use axum::http::{HeaderValue, Request};
    use fantail_fuzz::{Corpus, fuzz};

    fn key_with(expires_at: Option<u64>, revoked_at: Option<u64>) -> KeyView {
        KeyView {
            tenant: TenantId(1),
            id: "k".into(),
            secret_hash: [0; 32],
            scopes: vec!["inbox:read".into()],
            created_at: Millis(0),
            expires_at: expires_at.map(Millis),
            revoked_at: revoked_at.map(Millis),
            rate: None,
        }
    }

    #[test]
    fn expired_and_revoked_keys_are_unusable_at_once() {
        let cases = [
            (None, None, true),
            (Some(101), None, true),
            (Some(100), None, false),
            (Some(99), None, false),
            (None, Some(1), false),
            (Some(500), Some(1_000), false),
        ];
        for (expires, revoked, expected) in cases {
            assert_eq!(usable(&key_with(expires, revoked), Millis(100)).is_ok(), expected);
        }
    }

    #[test]
    fn scopes_are_exact() {
        let caller = Caller::Key(Arc::new(key_with(None, None)));
        for scope in Scope::ALL {
            assert_eq!(require(&caller, *scope).is_ok(), *scope == Scope::InboxRead);
            assert!(require(&Caller::Server, *scope).is_ok());
        }
    }

    // proves: DEL-18
    #[test]
    fn critical_needs_a_scope_of_its_own() {
        let plain = KeyView { scopes: vec!["notifications:write".into()], ..key_with(None, None) };
        let critical = KeyView { scopes: vec!["send:critical".into()], ..key_with(None, None) };
        for (key, priority, expected) in [
            (&plain, Priority::Critical, false),
            (&plain, Priority::High, true),
            (&plain, Priority::Low, true),
            (&critical, Priority::Critical, true),
        ] {
            let caller = Caller::Key(Arc::new(key.clone()));
            assert_eq!(require_priority(&caller, priority).is_ok(), expected, "{priority:?}");
        }
        assert!(require_priority(&Caller::Server, Priority::Critical).is_ok());
    }

    #[test]
    fn only_bearer_headers_are_read() {
        let cases =
            [("Bearer abc", Some("abc")), ("bearer  abc", Some("abc")), ("Basic abc", None), ("abc", None)];
        for (text, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(text));
            assert_eq!(bearer(&headers).ok(), expected, "{text}");
        }
        assert!(bearer(&HeaderMap::new()).is_err());
    }

    const WORDS: &[&str] = &[
        "\n",
        ": ",
        "%",
        "%zz",
        "%00",
        "/",
        "?",
        "#",
        "Bearer ",
        "ft_",
        "host: a",
        "content-type: ",
        "; charset=",
        "charset=\"",
        "gzip",
        "content-encoding: identity, br",
        "x-forwarded-for: 127.0.0.1",
        "forwarded: for=\"[::1]\"",
        "\u{e9}",
        "\t",
    ];

    /// Reads the target (the first line) and the headers (the others) as the server does before it knows the caller.
    #[test]
    fn heads_without_a_key_are_read_or_refused() {
        let good = [
            "/api/v1/users/b%C3%BCrger?limit=5\nhost: a.example\nauthorization: Bearer ft_0123456789AB_x\ncontent-type: application/json",
            "/callbacks/default/mail?k=0123\nhost: a.example\ncontent-type: text/plain; charset=\"utf-8\"\ncontent-encoding: identity",
        ];
        let corpus = Corpus::new(good.iter().map(|head| head.as_bytes().to_vec()).collect(), WORDS);
        fuzz("head of a request", &corpus, |input| {
            let mut lines = input.split(|byte| *byte == b'\n');
            let mut request = Request::builder().uri(lines.next().unwrap_or_default());
            for line in lines {
                let mut halves = line.splitn(2, |byte| *byte == b':');
                let (name, value) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
                request = request.header(name, value.trim_ascii());
            }
            let Ok(request) = request.body(()) else { return };
            let (parts, ()) = request.into_parts();
            if well_formed::require(&parts).is_ok() {
                let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
                let decoded = percent_encoding::percent_decode_str(target).count();
                let escapes = target.bytes().filter(|byte| *byte == b'%').count();
                assert_eq!(
                    decoded + 2 * escapes,
                    target.len(),
                    "every % is followed by two digits: {target}"
                );
            }
            if let Ok(presented) = bearer(&parts.headers)
                && let Some(read) = key::read(presented)
            {
                assert!(presented.contains(read.id), "an id is part of its key");
            }
            if body::require_json(&parts.headers).is_ok() {
                let kind = body::media_type(&parts.headers);
                assert!(kind.is_some_and(|kind| kind.ends_with("json")));
            }
            if body::require_plain(&parts.headers).is_ok() {
                let mut codings = parts.headers.get_all(header::CONTENT_ENCODING).iter();
                assert!(
                    codings.all(|coding| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
                );
            }
        });
    }
}
