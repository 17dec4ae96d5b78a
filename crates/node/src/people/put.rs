//! Creates and changes users.
//!
//! Comes from: the user API, and sends to addresses that are nobody's. Does: claims room in the tenant's quota, seals each
//! user under its own key, cuts batches by shard and asks the shards. Goes to: `machine::shard::users`.

use crate::ask::{ProfileAsk, Refusal, Upserted, UserAsk};
use crate::core::{Core, answer, internal, locked};
use crate::devices;
use crate::quotas::{self, Claim};
use fantail_machine::shard::users::{Put, PutAnswer, PutCondition};
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::user::UserRow;
use fantail_machine::tables::{usage, user};
use fantail_ports::keyring::{Context, KeyringError};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{KeyNo, Lookup, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::limits::{ENDPOINTS_PER_USER_MAX, USERS_PER_RECORD_MAX};
use fantail_rules::quota::{Amounts, Resource};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Attempts to seal a user under the right key: others may create and delete the user in between.
const RESEALS_MAX: usize = 16;

pub async fn put_users(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    users: Vec<UserAsk>,
) -> Vec<Result<Upserted, Refusal>> {
    put_if(core, by, tenant, users, PutCondition::Always).await
}

/// Creates or changes a user if the condition holds when it is done; otherwise refuses with `UserChanged`.
pub async fn put_user_if(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    user: UserAsk,
    condition: PutCondition,
) -> Result<Upserted, Refusal> {
    let mut results = put_if(core, by, tenant, vec![user], condition).await;
    results.pop().expect("one result for each user")
}

async fn put_if(
    core: &Core,
    by: &Actor,
    tenant: TenantId,
    users: Vec<UserAsk>,
    condition: PutCondition,
) -> Vec<Result<Upserted, Refusal>> {
    let mut results: Vec<Result<Upserted, Refusal>> =
        users.iter().map(|_| Err(internal("not asked yet"))).collect();
    let mut todo: Vec<(usize, UserKey)> = (0..users.len()).map(|index| (index, UserKey::Find)).collect();
    // Held until all are answered.
    let mut claims: BTreeMap<usize, Option<Claim>> = BTreeMap::new();
    for _ in 0..RESEALS_MAX {
        let mut by_shard: BTreeMap<ShardNo, (Vec<usize>, Vec<Put>)> = BTreeMap::new();
        for (index, key) in std::mem::take(&mut todo) {
            let sealed = seal_user(core, tenant, &users[index], key).and_then(|(shard, put, adds)| {
                if let Entry::Vacant(claim) = claims.entry(index) {
                    claim.insert(quotas::claim(core, tenant, adds)?);
                }
                Ok((shard, put))
            });
            match sealed {
                Ok((shard, put)) => {
                    let (places, puts) = by_shard.entry(shard).or_default();
                    places.push(index);
                    puts.push(Put { condition, ..put });
                }
                Err(refusal) => results[index] = Err(refusal),
            }
        }
        let mut pending = Vec::new();
        for (shard, (places, puts)) in by_shard {
            for (places, puts) in places.chunks(USERS_PER_RECORD_MAX).zip(puts.chunks(USERS_PER_RECORD_MAX)) {
                let bytes = puts.iter().map(weight).sum();
                let ask = ShardAsk::PutUsers { tenant, users: puts.to_vec() };
                let pushed = core.shard(shard).queue.push(tenant, by, vec![ask], bytes);
                pending.push((places.to_vec(), pushed));
            }
        }
        for (places, pushed) in pending {
            match answer(pushed).await {
                Ok(ShardAnswer::Users(answers)) => {
                    for (place, answer) in places.into_iter().zip(answers) {
                        match answer {
                            PutAnswer::Created => results[place] = Ok(Upserted::Created),
                            PutAnswer::Updated => results[place] = Ok(Upserted::Updated),
                            PutAnswer::Reseal(key) => todo.push((place, UserKey::Use(key))),
                            PutAnswer::Mint => todo.push((place, UserKey::Mint)),
                            PutAnswer::Changed => results[place] = Err(Refusal::UserChanged),
                            PutAnswer::TooManyEndpoints => {
                                let (user, limit) = (users[place].user.clone(), ENDPOINTS_PER_USER_MAX);
                                results[place] = Err(Refusal::TooManyEndpoints { user, limit });
                            }
                        }
                    }
                }
                Ok(_) => {}
                Err(refusal) => places.into_iter().for_each(|place| results[place] = Err(refusal.clone())),
            }
        }
        if todo.is_empty() {
            return results;
        }
    }
    // Somebody creates and deletes these users without pause.
    todo.into_iter().for_each(|(place, _)| results[place] = Err(Refusal::Busy { retry_after_ms: 100 }));
    results
}

/// What a put weighs in a queue.
fn weight(put: &Put) -> usize {
    let addresses: usize = put.profile.iter().map(|contact| contact.address.bytes.len() + 64).sum();
    put.id.bytes.len() + put.attributes.bytes.len() + addresses + 128
}

/// Under which key a user is sealed.
#[derive(Clone, Copy)]
enum UserKey {
    /// The user's own, or a new one for a new user.
    Find,
    Use(KeyNo),
    Mint,
}

/// The user, sealed for its shard, and what the tenant has more of with it.
fn seal_user(
    core: &Core,
    tenant: TenantId,
    ask: &UserAsk,
    key: UserKey,
) -> Result<(ShardNo, Put, Amounts), Refusal> {
    core.require_tenant(tenant)?;
    let keyring = &core.ports.keyring;
    let lookup = keyring.lookup_user(tenant, &ask.user).map_err(locked)?;
    let row = match key {
        UserKey::Find => find(core, tenant, lookup)?.map(|(_, row)| row),
        UserKey::Use(_) | UserKey::Mint => None,
    };
    let known = match key {
        UserKey::Find => row.as_ref().map(|row| row.id.key),
        UserKey::Use(key) => Some(key),
        UserKey::Mint => None,
    };
    let seal = |key: KeyNo| {
        let id = keyring.seal(tenant, key, Context::UserId, ask.user.as_bytes())?;
        let attributes = keyring.seal(tenant, key, Context::UserAttributes, &ask.attributes)?;
        let ProfileAsk { locale, zone, contacts, kept } = &ask.profile;
        let profile = devices::seal_contacts(core, tenant, key, contacts)?;
        let (locale, zone, kept) = (locale.clone(), *zone, *kept);
        let condition = PutCondition::Always;
        Ok(Put { lookup, minted: false, id, attributes, locale, zone, profile, kept, condition })
    };
    let sealed = match known.map(seal) {
        Some(Ok(put)) => put,
        // The user has gone, and the key with it.
        None | Some(Err(KeyringError::NoKey { .. })) => {
            let put = keyring.mint(tenant).and_then(seal).map_err(locked)?;
            Put { minted: true, ..put }
        }
        Some(Err(failed)) => return Err(locked(failed)),
    };
    let adds = added_by(&sealed, row.as_ref());
    Ok((core.shard_of(lookup), sealed, adds))
}

/// A new user with its addresses, or what a known one grows by.
fn added_by(put: &Put, known: Option<&UserRow>) -> Amounts {
    let bytes = usage::weight(&[&put.id, &put.attributes]);
    match known {
        Some(row) => quotas::adds(None, bytes.saturating_sub(usage::weight(&[&row.id, &row.attributes]))),
        None => {
            let addresses: u64 = put.profile.iter().map(|contact| usage::weight(&[&contact.address])).sum();
            quotas::adds(Some(Resource::Users), bytes + addresses)
        }
    }
}

fn find(core: &Core, tenant: TenantId, lookup: Lookup) -> Result<Option<(UserNo, UserRow)>, Refusal> {
    core.read(PartitionId::Shard(core.shard_of(lookup)), |view| {
        let Some(number) = user::number(view.tables(), tenant, lookup)? else { return Ok(None) };
        Ok(user::find(view.tables(), tenant, number)?.map(|row| (number, row)))
    })
}
