//! Who calls, and for which tenant.
//!
//! Comes from: `pipeline`. Decides: key → caller, caller + route → tenant or refusal. Goes to: the handler.
//! What must never happen: an id in a path that authorises anything; a tenant that the key does not belong to.

use crate::app::App;
use crate::key;
use crate::problem::Problem;
use axum::http::{HeaderMap, header};
use fantail_node::Node;
use fantail_node::ask::{KeyView, Priority};
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

/// Who holds the key of this request.
pub fn authenticate(app: &App, node: &Node, headers: &HeaderMap) -> Result<Caller, Problem> {
    let presented = bearer(headers)?;
    let Some(key) = key::read(presented) else {
        let hash = key::hash(presented.as_bytes());
        return if equal(&hash, &app.settings.admin_key_hash) {
            Ok(Caller::Server)
        } else {
            Err(unknown_key())
        };
    };
    let stored = node.key_by_id(key.id).ok_or_else(unknown_key)?;
    if !equal(&key.secret_hash, &stored.secret_hash) {
        return Err(unknown_key());
    }
    usable(&stored, node.wall())?;
    Ok(Caller::Key(stored))
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
        (Caller::Server, Some(slug)) => node.tenant_by_slug(slug).ok_or_else(unknown_tenant)?.id,
        (Caller::Key(key), None) => key.tenant,
        (Caller::Key(key), Some(slug)) => {
            let own = node.tenant(key.tenant).is_some_and(|tenant| tenant.slug == slug);
            if !own {
                return Err(Problem::new(Code::Forbidden, "the key belongs to another tenant"));
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
    let tenant = node.tenant_by_slug(slug).ok_or_else(unknown_tenant)?.id;
    match caller {
        Caller::Server => Ok(tenant),
        Caller::Key(key) if key.tenant == tenant => Ok(tenant),
        // Whether other tenants exist is none of this caller's business.
        Caller::Key(_) => Err(unknown_tenant()),
    }
}

pub fn require_server(caller: &Caller) -> Result<(), Problem> {
    match caller {
        Caller::Server => Ok(()),
        Caller::Key(_) => Err(Problem::new(Code::Forbidden, "only the server's admin key may do this")),
    }
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
    Err(Problem::new(Code::Forbidden, format!("the key lacks the scope {}", scope.text())))
}

fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let missing =
        || Problem::new(Code::Unauthenticated, "send the key as `Authorization: Bearer` followed by the key");
    let value = headers.get(header::AUTHORIZATION).ok_or_else(missing)?;
    let text = value.to_str().map_err(|_| missing())?;
    let (scheme, key) = text.split_once(' ').ok_or_else(missing)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(key.trim()) } else { Err(missing()) }
}

/// The holder has proven the secret, so it is safe to say what is wrong with the key.
fn usable(key: &KeyView, now: Millis) -> Result<(), Problem> {
    if key.revoked_at.is_some() {
        return Err(Problem::new(Code::Unauthenticated, "the key was revoked"));
    }
    if key.expires_at.is_some_and(|expiry| expiry <= now) {
        return Err(Problem::new(Code::Unauthenticated, "the key has expired"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

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
}
