//! Keys of a tenant. The secret is in the answer that creates the key and nowhere else.

use crate::call::Call;
use crate::check::Faults;
use crate::key::NewKey;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::tenants::{rate_of, rate_shown};
use fantail_node::ask::{KeyAsk, KeyView};
use fantail_rules::ids::{Millis, TenantId};
use fantail_wire::tenant::{Key, KeyCreate, KeyCreated, Keys};

pub async fn create(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: KeyCreate = call.json()?;
    let expires_at = expiry_of(request.expires_at.as_deref(), call.node.wall())?;
    if request.scopes.is_empty() {
        return Err(Problem::field("/scopes", "must have at least one scope"));
    }
    let mut faults = Faults::default();
    let rate = rate_of(request.rate_limit, Pointer::ROOT.key("rateLimit"), &mut faults);
    faults.into_result()?;
    let mut scopes = request.scopes;
    scopes.sort();
    scopes.dedup();
    let key = NewKey::mint(&*call.app.entropy);
    let ask = KeyAsk {
        id: key.id,
        secret_hash: key.secret_hash,
        scopes: scopes.iter().map(|scope| scope.text().to_owned()).collect(),
        expires_at,
        rate,
    };
    let stored = call.node.create_key(tenant, ask).await?;
    let answer = KeyCreated {
        key_id: stored.id,
        key: key.text,
        scopes: stored.scopes,
        created_at: time::text(stored.created_at),
        expires_at: stored.expires_at.map(time::text),
        rate_limit: stored.rate.map(rate_shown),
    };
    Ok(Reply::json(201, &answer))
}

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let keys = call.node.keys(tenant).into_iter().map(shown).collect();
    Ok(Reply::json(200, &Keys { keys }))
}

/// Takes effect with the next request.
pub async fn revoke(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    call.node.revoke_key(tenant, call.name("key")?).await?;
    Ok(Reply::no_content())
}

fn expiry_of(text: Option<&str>, now: Millis) -> Result<Option<Millis>, Problem> {
    let Some(text) = text else { return Ok(None) };
    match time::parse(text) {
        Some(expiry) if expiry > now => Ok(Some(expiry)),
        Some(_) => Err(Problem::field("/expiresAt", "must be in the future")),
        None => Err(Problem::field("/expiresAt", "must be a time like 2026-01-31T12:00:00Z")),
    }
}

fn shown(key: KeyView) -> Key {
    Key {
        key_id: key.id,
        scopes: key.scopes,
        created_at: time::text(key.created_at),
        expires_at: key.expires_at.map(time::text),
        revoked_at: key.revoked_at.map(time::text),
        rate_limit: key.rate.map(rate_shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_expire_in_the_future() {
        let now = Millis(1_769_860_800_000);
        assert_eq!(expiry_of(None, now).ok(), Some(None));
        assert_eq!(expiry_of(Some("2026-02-01T00:00:00Z"), now).ok(), Some(Some(Millis(1_769_904_000_000))));
        for bad in ["2026-01-31T12:00:00Z", "2020-01-01T00:00:00Z", "never"] {
            assert!(expiry_of(Some(bad), now).is_err(), "{bad}");
        }
    }
}
