//! Accounts with providers. Credentials come in here and never go out again.
//!
//! Comes from: `pipeline`. Decides: that settings and credentials can be used, by asking the provider's own code; whoever
//! changes an account says which version it has seen. Goes to: `Node::put_provider`.

use crate::call::Call;
use crate::check::Faults;
use crate::condition::expect_of;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use fantail_channels::accounts::{Registry, Standing};
use fantail_channels::webpush::generate_vapid;
use fantail_node::ask::Refusal;
use fantail_node::providers::{ProviderAsk, ProviderRow, Secret};
use fantail_ports::accounts::Account;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::PROVIDER_BYTES_MAX;
use fantail_rules::provider_kind;
use fantail_wire::provider::{
    Provider, ProviderHop, ProviderKind, ProviderPut, ProviderStanding, ProviderTest, Providers,
};
use serde_json::{Map, Value};

/// More than any provider takes from anybody.
pub const PER_SECOND_MAX: u32 = 10_000_000;
pub const CONCURRENCY_MAX: u32 = 100_000;
pub const ID_BYTES_MAX: usize = 64;

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let standings = standings(&*call.app.accounts()?, tenant);
    let shown = call.node.providers(tenant).iter().map(|row| shown(row, &standings)).collect();
    Ok(Reply::json(200, &Providers { providers: shown }))
}

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let row = call.node.provider(tenant, call.name("provider")?)?;
    Ok(reply(200, &row, &standings(&*call.app.accounts()?, tenant)))
}

pub async fn put(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (id, expect) = (call.name("provider")?, expect_of(&call.headers)?);
    let request: ProviderPut = call.json()?;
    let mut ask = ask_of(id, request)?;
    let is_new = call.node.provider(tenant, id).is_err();
    if is_new && ask.secrets.is_none() && ask.kind == provider_kind::ProviderKind::WebPush {
        ask.secrets = Some(Secret(generate_vapid().to_string().into_bytes()));
    }
    let registry = call.app.accounts()?;
    let draft = draft(&call, tenant, &ask)?;
    registry.check(&draft).map_err(|fault| Problem::field("/settings", fault))?;
    let (row, created) = call.node.put_provider(tenant, expect, ask).await?;
    Ok(reply(if created { 201 } else { 200 }, &row, &standings(&registry, tenant)))
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let expect = expect_of(&call.headers)?;
    call.node.delete_provider(tenant, call.name("provider")?, expect).await?;
    Ok(Reply::no_content())
}

/// Each hop to the provider, with the credentials that are there.
pub async fn test(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let account = call.node.provider_account(tenant, call.name("provider")?)?;
    let hops = call.app.accounts()?.probe(&account).await;
    let hop = |hop: &fantail_channels::probe::Hop| ProviderHop {
        name: hop.name.to_owned(),
        ok: hop.ok,
        detail: hop.detail.clone(),
    };
    let ok = hops.iter().all(|hop| hop.ok);
    Ok(Reply::json(200, &ProviderTest { ok, hops: hops.iter().map(hop).collect() }))
}

fn ask_of(id: &str, request: ProviderPut) -> Result<ProviderAsk, Problem> {
    let root = Pointer::ROOT;
    let mut faults = Faults::default();
    // It stands in the paths that providers call.
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    if !(1..=ID_BYTES_MAX).contains(&id.len()) || !id.bytes().all(is_plain) {
        let rule =
            format!("must have 1 to {ID_BYTES_MAX} lower case letters, digits, hyphens and underscores");
        faults.add(root.key("provider"), rule);
    }
    let settings = Value::Object(request.settings).to_string();
    let secrets = request.credentials.map(|credentials| Value::Object(credentials).to_string());
    for (field, text) in [("settings", Some(&settings)), ("credentials", secrets.as_ref())] {
        if text.is_some_and(|text| text.len() > PROVIDER_BYTES_MAX) {
            faults.add(root.key(field), format!("must have at most {PROVIDER_BYTES_MAX} bytes"));
        }
    }
    for (field, limit, most) in [
        ("perSecond", request.per_second, PER_SECOND_MAX),
        ("concurrency", request.concurrency, CONCURRENCY_MAX),
    ] {
        if limit.is_some_and(|limit| limit == 0 || limit > most) {
            faults.add(root.key(field), format!("must be 1 to {most}"));
        }
    }
    let expires = request.credentials_expire_at.as_deref().map(time::parse);
    if expires == Some(None) {
        faults.add(root.key("credentialsExpireAt"), "must be a time like 2026-01-31T12:00:00Z");
    }
    faults.into_result()?;
    Ok(ProviderAsk {
        id: id.to_owned(),
        kind: stored_kind(request.kind),
        settings,
        secrets: secrets.map(|secrets| Secret(secrets.into_bytes())),
        order: request.order,
        weight: request.weight,
        per_second: request.per_second,
        concurrency: request.concurrency,
        enabled: request.enabled,
        expires: expires.flatten(),
    })
}

/// The account as it would be.
fn draft(call: &Call, tenant: TenantId, ask: &ProviderAsk) -> Result<Account, Problem> {
    let secrets = match &ask.secrets {
        Some(Secret(secrets)) => secrets.clone(),
        None => match call.node.provider_account(tenant, &ask.id) {
            Ok(known) => known.secrets,
            Err(Refusal::UnknownProvider { .. }) => {
                return Err(Problem::field("/credentials", "are needed for a new account"));
            }
            Err(refusal) => return Err(refusal.into()),
        },
    };
    Ok(Account {
        tenant,
        id: ask.id.clone(),
        version: 0,
        kind: ask.kind,
        settings: ask.settings.clone(),
        secrets,
        order: ask.order,
        weight: ask.weight,
        per_second: ask.per_second,
        concurrency: ask.concurrency,
        enabled: ask.enabled,
    })
}

type Standings = Vec<(String, Standing)>;

fn standings(registry: &Registry, tenant: TenantId) -> Standings {
    let own = |(account, standing): (Account, Standing)| {
        (account.tenant == tenant && account.enabled).then_some((account.id, standing))
    };
    registry.standings().into_iter().filter_map(own).collect()
}

fn reply(status: u16, row: &ProviderRow, standings: &Standings) -> Reply {
    Reply::json(status, &shown(row, standings)).with_version(row.version)
}

fn shown(row: &ProviderRow, standings: &Standings) -> Provider {
    let put = &row.put;
    let settings: Map<String, Value> = serde_json::from_str(&put.settings).unwrap_or_default();
    let standing = standings.iter().find(|(id, _)| *id == put.id).filter(|_| put.enabled);
    Provider {
        provider_id: put.id.clone(),
        kind: kind_of(put.kind),
        channel: put.kind.channel().name().to_owned(),
        settings,
        order: put.order,
        weight: put.weight,
        per_second: put.per_second,
        concurrency: put.concurrency,
        enabled: put.enabled,
        credentials_expire_at: put.expires.map(time::text),
        version: row.version,
        created_at: time::text(row.created),
        updated_at: time::text(row.updated),
        application_server_key: standing.and_then(|(_, standing)| standing.public_key.clone()),
        standing: standing.map(|(_, standing)| ProviderStanding {
            usable: standing.is_usable,
            resting: standing.is_resting,
            in_flight: standing.in_flight,
            answered: standing.counts.works,
            rests: standing.counts.rests,
            failures: standing.counts.fails,
        }),
    }
}

fn stored_kind(kind: ProviderKind) -> provider_kind::ProviderKind {
    match kind {
        ProviderKind::Apns => provider_kind::ProviderKind::Apns,
        ProviderKind::Fcm => provider_kind::ProviderKind::Fcm,
        ProviderKind::WebPush => provider_kind::ProviderKind::WebPush,
        ProviderKind::Ses => provider_kind::ProviderKind::Ses,
        ProviderKind::Smtp => provider_kind::ProviderKind::Smtp,
        ProviderKind::Twilio => provider_kind::ProviderKind::Twilio,
    }
}

fn kind_of(kind: provider_kind::ProviderKind) -> ProviderKind {
    match kind {
        provider_kind::ProviderKind::Apns => ProviderKind::Apns,
        provider_kind::ProviderKind::Fcm => ProviderKind::Fcm,
        provider_kind::ProviderKind::WebPush => ProviderKind::WebPush,
        provider_kind::ProviderKind::Ses => ProviderKind::Ses,
        provider_kind::ProviderKind::Smtp => ProviderKind::Smtp,
        provider_kind::ProviderKind::Twilio => ProviderKind::Twilio,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(id: &str, body: Value, faults: &[&str]) {
        let request: ProviderPut = serde_json::from_value(body.clone()).expect("the shape fits");
        let found = match ask_of(id, request) {
            Ok(_) => Vec::new(),
            Err(problem) => problem.errors.into_iter().map(|error| error.pointer).collect(),
        };
        assert_eq!(found, faults, "{body}");
    }

    // proves: TEN-05
    #[test]
    fn accounts_are_checked_as_a_whole_and_never_show_credentials() {
        check("ios", json!({"kind": "apns"}), &[]);
        check("a/b", json!({"kind": "apns", "perSecond": 0}), &["/provider", "/perSecond"]);
        check("ios", json!({"kind": "ses", "concurrency": 100_001}), &["/concurrency"]);
        check("ios", json!({"kind": "fcm", "credentialsExpireAt": "soon"}), &["/credentialsExpireAt"]);
        let long = json!({"kind": "fcm", "credentials": {"key": "x".repeat(PROVIDER_BYTES_MAX)}});
        check("ios", long, &["/credentials"]);
        let secret = json!({"kind": "smtp", "credentials": {"password": "hunter2"}});
        let ask = ask_of("mail", serde_json::from_value(secret).expect("the shape fits"));
        assert!(!format!("{ask:?}").contains("hunter2"));
    }

    #[test]
    fn kinds_are_the_same_by_name() {
        for kind in provider_kind::ProviderKind::ALL {
            assert_eq!(stored_kind(kind_of(kind)), kind);
            assert_eq!(serde_json::to_value(kind_of(kind)).expect("a name"), kind.name());
        }
    }
}
