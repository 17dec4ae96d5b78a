//! Accounts with providers. Credentials come in here and never go out again.
//!
//! Comes from: `pipeline`. Decides: that settings and credentials can be used, by asking the provider's own code; whoever
//! changes an account says which version it has seen. Goes to: `Node::put_provider`.

use crate::call::Call;
use crate::callbacks;
use crate::check::Faults;
use crate::condition::expect_of;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use fantail_channels::accounts::{AccountStanding, open};
use fantail_channels::fields::SettingsError;
use fantail_channels::targets;
use fantail_channels::webpush::generate_vapid;
use fantail_node::ask::Refusal;
use fantail_node::ask::templates::Expect;
use fantail_node::providers::{ProviderAsk, ProviderRow, Secret};
use fantail_ports::accounts::{Account, Credentials};
use fantail_rules::ids::TenantId;
use fantail_rules::limits::PROVIDER_BYTES_MAX;
use fantail_rules::provider_kind;
use fantail_wire::provider::{
    Provider, ProviderHop, ProviderKind, ProviderPut, ProviderRotate, ProviderStanding, ProviderTest,
    Providers,
};
use serde_json::{Map, Value};

/// More than any provider takes from anybody.
pub const PER_SECOND_MAX: u32 = 10_000_000;
pub const CONCURRENCY_MAX: u32 = 100_000;
pub const ID_BYTES_MAX: usize = 64;
/// Mail servers give up after five days: what they still report by then goes to the address that they know.
const KEEP_S: u64 = 7 * 86_400;
/// References of deliveries are believed for as long.
pub const KEEP_S_MAX: u64 = 30 * 86_400;

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let registry = call.app.accounts()?;
    let standings = registry.standings_of(tenant);
    let rows = call.node.providers(tenant);
    let shown = rows.iter().map(|row| shown(&call, row, &standings)).collect::<Result<_, _>>()?;
    Ok(Reply::json(200, &Providers { providers: shown, sandbox: registry.is_sandboxed(tenant) }))
}

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let row = call.node.provider(tenant, call.name("provider")?)?;
    reply(&call, 200, &row, &call.app.accounts()?.standings_of(tenant))
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
    let known = match &ask.secrets {
        Some(_) => None,
        None => Some(known_account(&call, tenant, id)?),
    };
    let draft = draft(tenant, &ask, known.as_ref());
    registry.check(&draft).map_err(field_problem)?;
    let expect = match &known {
        Some(known) => {
            refuse_moved_credentials(known, &draft)?;
            of_same_version(expect, known.version)?
        }
        None => expect,
    };
    let (row, created) = call.node.put_provider(tenant, expect, ask).await?;
    reply(&call, if created { 201 } else { 200 }, &row, &registry.standings_of(tenant))
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let expect = expect_of(&call.headers)?;
    call.node.delete_provider(tenant, call.name("provider")?, expect).await?;
    Ok(Reply::no_content())
}

/// Each hop to the provider, with the credentials that are there.
pub async fn test(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let account = call.node.provider_account(tenant, call.name("provider")?)?;
    call.node.note(tenant, "provider.test", &account.id).await?;
    let hops = call.app.accounts()?.probe(&account).await;
    let hop = |hop: &fantail_channels::probe::Hop| ProviderHop {
        name: hop.name.to_owned(),
        ok: hop.ok,
        detail: hop.detail.clone(),
    };
    let ok = hops.iter().all(|hop| hop.ok);
    Ok(Reply::json(200, &ProviderTest { ok, hops: hops.iter().map(hop).collect() }))
}

/// Another secret in the address at which reports about mails are believed.
pub async fn rotate(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: ProviderRotate = call.json_or_default()?;
    let id = call.name("provider")?;
    let keep_s = request.keep_seconds.unwrap_or(KEEP_S);
    if keep_s > KEEP_S_MAX {
        return Err(Problem::field("/keepSeconds", format!("must be at most {KEEP_S_MAX}")));
    }
    if call.node.provider(tenant, id)?.put.kind != provider_kind::ProviderKind::Smtp {
        let detail = "must be an account of the kind smtp: others have no secret in their address";
        return Err(Problem::field("/provider", detail));
    }
    let until = call.node.wall().plus(keep_s * 1_000);
    call.node.rotate_callback_secret(tenant, id, until).await?;
    let row = call.node.provider(tenant, id)?;
    reply(&call, 200, &row, &call.app.accounts()?.standings_of(tenant))
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

/// The account whose credentials stay.
fn known_account(call: &Call, tenant: TenantId, id: &str) -> Result<Account, Problem> {
    match call.node.provider_account(tenant, id) {
        Ok(known) => Ok(known),
        Err(Refusal::UnknownProvider { .. }) => {
            Err(Problem::field("/credentials", "are needed for a new account"))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// The account as it would be.
fn draft(tenant: TenantId, ask: &ProviderAsk, known: Option<&Account>) -> Account {
    let given = || ask.secrets.as_ref().map(|Secret(secrets)| secrets.clone()).unwrap_or_default();
    let secrets = known.map_or_else(|| Credentials::new(given()), |known| known.secrets.clone());
    Account {
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
    }
}

/// Credentials that were given for one place do not go to another one: a key that may change settings need not know them.
fn refuse_moved_credentials(known: &Account, draft: &Account) -> Result<(), Problem> {
    let after = open::targets(draft).map_err(field_problem)?;
    // Settings that are not read any more say nothing about where credentials went.
    let moved = match open::targets(known) {
        Ok(before) => targets::moved(&before, &after),
        Err(_) => vec!["/settings"],
    };
    match moved.first() {
        None => Ok(()),
        Some(pointer) => {
            let detail =
                format!("are needed again: {pointer} changes where they go or how they are protected");
            Err(Problem::field("/credentials", detail))
        }
    }
}

/// The account that was looked at is the one that is changed.
fn of_same_version(expect: Expect, version: u32) -> Result<Expect, Problem> {
    match expect {
        Expect::Unsaid | Expect::Present => Ok(Expect::Version(version)),
        Expect::Version(wanted) if wanted == version => Ok(expect),
        Expect::Version(_) | Expect::Absent => {
            Err(Refusal::ProviderConflict { current: Some(version) }.into())
        }
    }
}

fn field_problem(error: SettingsError) -> Problem {
    Problem::field(error.field, error.reason)
}

fn reply(
    call: &Call,
    status: u16,
    row: &ProviderRow,
    standings: &[AccountStanding],
) -> Result<Reply, Problem> {
    Ok(Reply::json(status, &shown(call, row, standings)?).with_version(row.version))
}

/// Where the provider of an account calls, if it does.
fn callback_url(call: &Call, row: &ProviderRow) -> Result<Option<String>, Problem> {
    let (tenant, id) = (row.put.tenant, &row.put.id);
    let secret = match row.put.kind {
        provider_kind::ProviderKind::Smtp => Some(call.node.callback_secret(tenant, id)?),
        provider_kind::ProviderKind::Ses | provider_kind::ProviderKind::Twilio => None,
        provider_kind::ProviderKind::Apns
        | provider_kind::ProviderKind::Fcm
        | provider_kind::ProviderKind::WebPush => return Ok(None),
    };
    let tenant = call.node.tenant(tenant).ok_or(Refusal::UnknownTenant)?;
    Ok(Some(callbacks::provider::address(call.app.public_url(), &tenant.slug, id, secret.as_deref())))
}

fn shown(call: &Call, row: &ProviderRow, standings: &[AccountStanding]) -> Result<Provider, Problem> {
    let put = &row.put;
    let settings: Map<String, Value> = serde_json::from_str(&put.settings).unwrap_or_default();
    let standing = standings.iter().find(|one| one.id == put.id && one.enabled && put.enabled);
    let standing = standing.map(|one| &one.standing);
    Ok(Provider {
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
        application_server_key: standing.and_then(|standing| standing.public_key.clone()),
        callback_url: callback_url(call, row)?,
        former_callback_url_until: call.node.callback_replaced_until(put.tenant, &put.id).map(time::text),
        standing: standing.map(|standing| ProviderStanding {
            usable: standing.is_usable,
            resting: standing.is_resting,
            in_flight: standing.in_flight,
            answered: standing.counts.works,
            rests: standing.counts.rests,
            failures: standing.counts.fails,
        }),
    })
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

    /// An account does not get other credentials between the check and the change.
    // fixes: security H3
    #[test]
    fn the_account_that_was_looked_at_is_the_one_that_is_changed() {
        for (expect, expected) in [
            (Expect::Unsaid, Some(Expect::Version(3))),
            (Expect::Present, Some(Expect::Version(3))),
            (Expect::Version(3), Some(Expect::Version(3))),
            (Expect::Version(4), None),
            (Expect::Absent, None),
        ] {
            assert_eq!(of_same_version(expect, 3).ok(), expected, "{expect:?}");
        }
    }

    #[test]
    fn kinds_are_the_same_by_name() {
        for kind in provider_kind::ProviderKind::ALL {
            assert_eq!(stored_kind(kind_of(kind)), kind);
            assert_eq!(serde_json::to_value(kind_of(kind)).expect("a name"), kind.name());
        }
    }
}
