//! Users and the lists they are on.
//!
//! Comes from: the user, follow and topic APIs. Does: hashes and seals names, cuts batches by shard, asks the
//! shards, and opens names again for those who may read them. Goes to: `machine::shard::{users, edges}`.
//!
//! `put` creates and changes users.

mod put;

pub use put::{put_user_if, put_users};

use crate::accept::seal_name;
use crate::ask::{EdgeAsk, EdgeChange, ListAsk, Names, Refusal, UserView};
use crate::core::{Core, answer, internal, locked};
use crate::devices;
use fantail_machine::records::shard::Change;
use fantail_machine::shard::edges::{AskEdge, EdgeAnswer, Edit};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::{endpoint, follow, list, user};
use fantail_ports::keyring::{Context, KeyringError, Sealed};
use fantail_ports::lists::ListKey;
use fantail_rules::actor::Actor;
use fantail_rules::ids::{KeyNo, ListId, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::limits::FOLLOWS_PER_USER_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// Where a user lives, or a refusal that names it.
pub fn locate(core: &Core, tenant: TenantId, name: &str) -> Result<(ShardNo, UserNo), Refusal> {
    core.require_tenant(tenant)?;
    let lookup = core.ports.keyring.lookup_user(tenant, name).map_err(locked)?;
    let shard = core.shard_of(lookup);
    let number = core.read(PartitionId::Shard(shard), |view| user::number(view.tables(), tenant, lookup))?;
    number.map(|number| (shard, number)).ok_or_else(|| Refusal::UnknownUser { user: name.to_owned() })
}

pub fn user(core: &Core, tenant: TenantId, name: &str) -> Result<UserView, Refusal> {
    core.require_tenant(tenant)?;
    let lookup = core.ports.keyring.lookup_user(tenant, name).map_err(locked)?;
    let unknown = || Refusal::UnknownUser { user: name.to_owned() };
    let shard = core.shard_of(lookup);
    let (row, number, endpoints) = core
        .read(PartitionId::Shard(shard), |view| {
            let Some(number) = user::number(view.tables(), tenant, lookup)? else { return Ok(None) };
            let Some(row) = user::find(view.tables(), tenant, number)? else { return Ok(None) };
            Ok(Some((row, number, endpoint::of_user(view.tables(), tenant, number)?)))
        })?
        .ok_or_else(unknown)?;
    let attributes = match core.ports.keyring.open(tenant, Context::UserAttributes, &row.attributes) {
        Ok(attributes) => attributes,
        // The key is gone: so is the user, as far as anybody can tell.
        Err(KeyringError::NoKey { .. }) => return Err(unknown()),
        Err(failed) => return Err(locked(failed)),
    };
    Ok(UserView {
        user: name.to_owned(),
        attributes,
        channels: devices::channels(core, tenant, (shard, number), &endpoints)?,
        locale: row.locale,
        zone: row.zone,
        created_at: row.created,
        updated_at: row.updated,
        write: Some(row.attributes.nonce),
    })
}

pub async fn delete_user(core: &Core, by: &Actor, tenant: TenantId, name: &str) -> Result<(), Refusal> {
    core.require_tenant(tenant)?;
    let lookup = core.ports.keyring.lookup_user(tenant, name).map_err(locked)?;
    let shard = core.shard(core.shard_of(lookup));
    let ask = ShardAsk::DeleteUser { tenant, lookup };
    match answer(shard.queue.push(tenant, by, vec![ask], 4_096)).await? {
        ShardAnswer::UserGone { .. } => Ok(()),
        _ => Err(Refusal::UnknownUser { user: name.to_owned() }),
    }
}

pub async fn edit_lists(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    change: EdgeChange,
    edges: Vec<EdgeAsk>,
) -> Vec<Result<bool, Refusal>> {
    let mut results: Vec<Result<bool, Refusal>> =
        edges.iter().map(|_| Err(internal("not asked yet"))).collect();
    let change = match change {
        EdgeChange::Join => Change::Join,
        EdgeChange::Leave => Change::Leave,
    };
    let mut by_shard: BTreeMap<ShardNo, (Vec<usize>, Vec<AskEdge>)> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for (index, edge) in edges.iter().enumerate() {
        match prepare_edge(core, tenant, edge, &mut names) {
            Ok((shard, ask)) => {
                let (places, asks) = by_shard.entry(shard).or_default();
                places.push(index);
                asks.push(ask);
            }
            Err(refusal) => results[index] = Err(refusal),
        }
    }
    let mut pending = Vec::new();
    for (shard, (places, asks)) in by_shard {
        let bytes = asks.iter().map(|edge| edge.name.bytes.len() + 64).sum();
        let ask = ShardAsk::Edit { tenant, edit: Edit { change, edges: asks } };
        pending.push((places, core.shard(shard).queue.push(tenant, by, vec![ask], bytes)));
    }
    for (places, pushed) in pending {
        match answer(pushed).await {
            Ok(ShardAnswer::Edges(answers)) => {
                for (place, answer) in places.into_iter().zip(answers) {
                    results[place] = edge_result(answer, &edges[place].user);
                }
            }
            Ok(_) => {}
            Err(refusal) => places.into_iter().for_each(|place| results[place] = Err(refusal.clone())),
        }
    }
    results
}

fn edge_result(answer: EdgeAnswer, user: &str) -> Result<bool, Refusal> {
    match answer {
        EdgeAnswer::Changed => Ok(true),
        EdgeAnswer::Unchanged => Ok(false),
        EdgeAnswer::UnknownUser => Err(Refusal::UnknownUser { user: user.to_owned() }),
        EdgeAnswer::TooMany => {
            Err(Refusal::TooManyFollows { user: user.to_owned(), limit: FOLLOWS_PER_USER_MAX })
        }
    }
}

/// Seals the list's name only where the shard does not have it yet; lists are never unnamed again.
fn prepare_edge(
    core: &Core,
    tenant: TenantId,
    edge: &EdgeAsk,
    named: &mut BTreeSet<(ShardNo, ListId)>,
) -> Result<(ShardNo, AskEdge), Refusal> {
    core.require_tenant(tenant)?;
    let user = core.ports.keyring.lookup_user(tenant, &edge.user).map_err(locked)?;
    let shard = core.shard_of(user);
    let list = core.list_id(tenant, &edge.list)?;
    let mut name = Sealed::default();
    if named.insert((shard, list)) {
        let known = core
            .read(PartitionId::Shard(shard), |view| Ok(list::find(view.tables(), tenant, list)?.is_some()))?;
        if !known {
            name = match &edge.list {
                ListAsk::FollowersOf(actor) => seal_name(core, tenant, Context::ListName, actor)?,
                ListAsk::Topic(topic) => {
                    let keyring = &core.ports.keyring;
                    keyring
                        .seal(tenant, KeyNo::TENANT, Context::ListName, topic.as_bytes())
                        .map_err(locked)?
                }
            };
        }
    }
    Ok((shard, AskEdge { user, list, name }))
}

/// Members of a list, shard by shard; the cursor names the shard and the last number shown.
pub fn members(
    core: &Core,
    tenant: TenantId,
    list: &ListAsk,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Option<Names>, Refusal> {
    core.require_tenant(tenant)?;
    let key = ListKey { tenant, list: core.list_id(tenant, list)? };
    let Some((mut shard, mut after)) = parse_cursor(cursor, core.layout.shards) else { return Ok(None) };
    let mut names = Vec::new();
    while shard.0 < core.layout.shards {
        let wanted = limit - names.len();
        let (rows, last) = core.read(PartitionId::Shard(shard), |view| {
            let found = view.lists().members(key, after, wanted)?;
            let last = found.last().map(|member| member.user).filter(|_| found.len() == wanted);
            let mut rows = Vec::new();
            for member in found.into_iter().filter(|member| member.intervals.is_open()) {
                rows.extend(user::find(view.tables(), tenant, member.user)?);
            }
            Ok((rows, last))
        })?;
        names.extend(rows.iter().filter_map(|row| open_name(core, tenant, Context::UserId, &row.id)));
        match last {
            Some(last) if names.len() == limit => {
                let next = Some(format!("{}.{}", shard.0, last.0));
                return Ok(Some(Names { names, next }));
            }
            Some(last) => after = Some(last),
            None => {
                shard = ShardNo(shard.0 + 1);
                after = None;
                if names.len() == limit && shard.0 < core.layout.shards {
                    let next = Some(format!("{}.", shard.0));
                    return Ok(Some(Names { names, next }));
                }
            }
        }
    }
    Ok(Some(Names { names, next: None }))
}

fn parse_cursor(cursor: Option<&str>, shards: u16) -> Option<(ShardNo, Option<UserNo>)> {
    let Some(cursor) = cursor else { return Some((ShardNo(0), None)) };
    let (shard, after) = cursor.split_once('.')?;
    let shard = shard.parse().ok().filter(|shard| *shard < shards)?;
    let after = if after.is_empty() { None } else { Some(UserNo(after.parse().ok()?)) };
    Some((ShardNo(shard), after))
}

/// The name of a user by number. Empty if the user is gone.
pub fn name_of(core: &Core, tenant: TenantId, shard: ShardNo, user: UserNo) -> Result<String, Refusal> {
    let row = core.read(PartitionId::Shard(shard), |view| user::find(view.tables(), tenant, user))?;
    Ok(row.and_then(|row| open_name(core, tenant, Context::UserId, &row.id)).unwrap_or_default())
}

/// Opens a name; `None` if its key was destroyed.
pub(crate) fn open_name(core: &Core, tenant: TenantId, context: Context, sealed: &Sealed) -> Option<String> {
    // That it is hidden then is the purpose of destroying a key.
    let bytes = core.ports.keyring.open(tenant, context, sealed).ok()?;
    String::from_utf8(bytes).ok()
}

pub fn member_count(core: &Core, tenant: TenantId, list: &ListAsk) -> Result<u64, Refusal> {
    core.require_tenant(tenant)?;
    let id = core.list_id(tenant, list)?;
    core.shards.keys().try_fold(0, |total, shard| {
        let here = core.read(PartitionId::Shard(*shard), |view| {
            Ok(list::find(view.tables(), tenant, id)?.map_or(0, |row| row.members))
        })?;
        Ok(total + here)
    })
}

/// Names of the actors a user follows, ordered by their hashes.
pub fn follows(
    core: &Core,
    tenant: TenantId,
    name: &str,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Option<Names>, Refusal> {
    let (shard, number) = locate(core, tenant, name)?;
    let after = match cursor.map(parse_list) {
        None => None,
        Some(Some(list)) => Some(list),
        Some(None) => return Ok(None),
    };
    let (names, next) = core.read(PartitionId::Shard(shard), |view| {
        let (mut names, mut after) = (Vec::new(), after);
        loop {
            let page = follow::of_user(view.tables(), tenant, number, after, limit + 1)?;
            let whole = page.len() <= limit;
            for followed in page {
                if names.len() == limit {
                    return Ok((names, after));
                }
                after = Some(followed.list);
                if followed.intervals.is_open() && !followed.list.is_topic() {
                    names.extend(list::find(view.tables(), tenant, followed.list)?.map(|row| row.name));
                }
            }
            if whole {
                return Ok((names, None));
            }
        }
    })?;
    let names = names.iter().filter_map(|sealed| open_name(core, tenant, Context::ListName, sealed));
    Ok(Some(Names { names: names.collect(), next: next.map(|list| format!("{list:?}")) }))
}

fn parse_list(cursor: &str) -> Option<ListId> {
    if cursor.len() != 32 || !cursor.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&cursor[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(ListId(bytes))
}

pub fn follow_count(core: &Core, tenant: TenantId, name: &str) -> Result<u64, Refusal> {
    let (shard, number) = locate(core, tenant, name)?;
    core.read(PartitionId::Shard(shard), |view| Ok(follow::count(view.tables(), tenant, number)?.actors))
}

pub fn is_member(core: &Core, tenant: TenantId, edge: &EdgeAsk) -> Result<bool, Refusal> {
    let (shard, number) = locate(core, tenant, &edge.user)?;
    let list = core.list_id(tenant, &edge.list)?;
    core.read(PartitionId::Shard(shard), |view| {
        Ok(follow::find(view.tables(), tenant, number, list)?.is_open())
    })
}
