//! Users come, change and go.
//!
//! Comes from: the user API, with ids and attributes sealed under the user's own key.
//! Decides: the number of a new user; which rows a leaving user takes along.
//! Goes to: `UserPut` (and `endpoints`, for mail address and number), or `Edges`, `Unlisted`, `Cleared` and `UserGone`, and a to-do row to destroy the key.

use super::endpoints::{self, Contact, Planner};
use super::{Derived, Plan, ShardAnswer, replan, respect};
use crate::records::shard::{Change, Edge, ShardRecord, UserPut};
use crate::tables::todo::Todo;
use crate::tables::usage::{self, Balance};
use crate::tables::user::{self, UserRef, UserRow};
use crate::tables::{follow, mark, progress, put, window};
use crate::view::View;
use crate::{Planned, columns};
use fantail_ports::inbox::Forget;
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::{Order, TablesError};
use fantail_rules::channel_kind::ChannelSet;
use fantail_rules::ids::{Arrival, KeyNo, Lookup, Millis, TenantId, UserNo};
use fantail_rules::limits::{
    EDGES_PER_RECORD_MAX, MARK_ROWS_PER_RECORD_MAX, RECORD_BYTES_MAX, USERS_PER_RECORD_MAX,
};
use fantail_rules::quota::Resource;
use fantail_rules::zone::ZoneNo;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct Put {
    pub lookup: Lookup,
    /// The key was made for this request. A new user never gets a key that another one has had.
    pub minted: bool,
    pub id: Sealed,
    pub attributes: Sealed,
    pub locale: String,
    pub zone: ZoneNo,
    /// The addresses of the profile, sealed under the same key. One that is not here goes.
    pub profile: Vec<Contact>,
    /// Channels whose address in the profile stays as it is.
    pub kept: ChannelSet,
    pub condition: PutCondition,
}

/// What must hold for a put to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PutCondition {
    #[default]
    Always,
    /// There is no such user.
    Absent,
    /// The user was not written since: every write seals the attributes with a nonce of its own.
    Unchanged([u8; 12]),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutAnswer {
    Created,
    Updated,
    /// The user exists under another key: seal again under this one.
    Reseal(KeyNo),
    /// The user whose key this is has gone meanwhile: seal again under a new one.
    Mint,
    /// The condition does not hold.
    Changed,
    /// The profile has an address for which the user has no place: nothing of the put is done.
    TooManyEndpoints,
}

pub(super) fn plan_put(view: &View<'_>, tenant: TenantId, puts: Vec<Put>) -> Result<Plan, TablesError> {
    let mut next = progress::find(view, tenant)?.users;
    let mut planner = Planner::new(view, tenant);
    let mut fresh: BTreeMap<Lookup, (UserNo, KeyNo)> = BTreeMap::new();
    let mut users = Vec::with_capacity(puts.len());
    let mut answers = Vec::with_capacity(puts.len());
    for put in puts {
        let known = match fresh.get(&put.lookup) {
            Some(known) => Some(*known),
            None => existing(view, tenant, put.lookup)?,
        };
        if !holds(view, tenant, known, put.condition)? {
            answers.push(PutAnswer::Changed);
            continue;
        }
        let (user, done) = match known {
            Some((_, key)) if key != put.id.key => {
                answers.push(PutAnswer::Reseal(key));
                continue;
            }
            Some((user, _)) => (user, PutAnswer::Updated),
            None if !put.minted => {
                answers.push(PutAnswer::Mint);
                continue;
            }
            None => (UserNo(next), PutAnswer::Created),
        };
        if !planner.put_profile(user, put.profile, put.kept)? {
            answers.push(PutAnswer::TooManyEndpoints);
            continue;
        }
        if done == PutAnswer::Created {
            next += 1;
            fresh.insert(put.lookup, (user, put.id.key));
        }
        answers.push(done);
        users.push(UserPut {
            user,
            lookup: put.lookup,
            id: put.id,
            attributes: put.attributes,
            locale: put.locale,
            zone: put.zone,
        });
    }
    let mut records: Vec<ShardRecord> =
        cut(users).into_iter().map(|users| ShardRecord::UserPut { tenant, users }).collect();
    records.extend(planner.into_records());
    Ok(Planned { records, answer: ShardAnswer::Users(answers) })
}

fn holds(
    view: &View<'_>,
    tenant: TenantId,
    known: Option<(UserNo, KeyNo)>,
    condition: PutCondition,
) -> Result<bool, TablesError> {
    match (condition, known) {
        (PutCondition::Always, _) => Ok(true),
        (PutCondition::Absent, known) => Ok(known.is_none()),
        (PutCondition::Unchanged(_), None) => Ok(false),
        (PutCondition::Unchanged(nonce), Some((user, _))) => {
            let row = user::find(view, tenant, user)?;
            Ok(row.is_some_and(|row| row.attributes.nonce == nonce))
        }
    }
}

/// Records that hold neither too many users nor too many bytes.
fn cut(users: Vec<UserPut>) -> Vec<Vec<UserPut>> {
    let mut records: Vec<Vec<UserPut>> = Vec::new();
    let mut bytes = 0;
    for user in users {
        let size = user.id.bytes.len() + user.attributes.bytes.len() + 128;
        let full = records.last().is_none_or(|record| record.len() == USERS_PER_RECORD_MAX);
        if full || bytes + size > RECORD_BYTES_MAX / 2 {
            records.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        records.last_mut().expect("one was pushed if there was none").push(user);
    }
    records
}

pub(super) fn existing(
    view: &View<'_>,
    tenant: TenantId,
    lookup: Lookup,
) -> Result<Option<(UserNo, KeyNo)>, TablesError> {
    let Some(user) = user::number(view, tenant, lookup)? else { return Ok(None) };
    Ok(user::find(view, tenant, user)?.map(|row| (user, row.id.key)))
}

pub(super) fn apply_put(
    view: &mut View<'_>,
    tenant: TenantId,
    users: &[UserPut],
    at: Millis,
) -> Result<(), TablesError> {
    let mut state = progress::find(view, tenant)?;
    let mut balance = Balance::default();
    for new in users {
        let before = user::find(view, tenant, new.user)?;
        before.iter().for_each(|row| balance.remove(Some(Resource::Users), user_weight(row)));
        let has_moved = before.as_ref().is_some_and(|row| row.zone != new.zone);
        state.users = state.users.max(new.user.0 + 1);
        put(view, user::lookup_key(tenant, new.lookup), &UserRef(new.user));
        let row = UserRow {
            lookup: new.lookup,
            created: before.as_ref().map_or(at, |row| row.created),
            updated: at,
            id: new.id.clone(),
            attributes: new.attributes.clone(),
            locale: new.locale.clone(),
            zone: new.zone,
            locale_before: before.and_then(|row| row.locale_left(&new.locale, at)),
        };
        balance.add(Some(Resource::Users), user_weight(&row));
        put(view, user::key(tenant, new.user), &row);
        if has_moved {
            replan::ask_again(view, tenant, new.user)?;
        }
    }
    columns::add_users(view, tenant, users)?;
    put(view, progress::key(tenant), &state);
    balance.write(view, tenant)
}

fn user_weight(row: &UserRow) -> u64 {
    usage::weight(&[&row.id, &row.attributes])
}

pub(super) fn plan_delete(view: &View<'_>, tenant: TenantId, lookup: Lookup) -> Result<Plan, TablesError> {
    let Some((user, key)) = existing(view, tenant, lookup)? else {
        return Ok(Planned::nothing(ShardAnswer::UnknownUser));
    };
    let mut records = Vec::new();
    let stays = follow::of_user(view, tenant, user, None, usize::MAX)?;
    let open = stays.iter().filter(|followed| followed.intervals.is_open());
    let joined: Vec<Edge> = open.map(|followed| Edge { user, list: followed.list, name: None }).collect();
    for edges in joined.chunks(EDGES_PER_RECORD_MAX) {
        records.push(ShardRecord::Edges { tenant, change: Change::Leave, edges: edges.to_vec() });
    }
    for stays in stays.chunks(EDGES_PER_RECORD_MAX) {
        let lists = stays.iter().map(|followed| followed.list).collect();
        records.push(ShardRecord::Unlisted { tenant, user, lists });
    }
    let everything = Arrival(u64::MAX - 1);
    let flagged =
        mark::flagged(view, tenant, user, Arrival::START, everything, Order::Ascending, usize::MAX)?;
    let arrivals: Vec<Arrival> = flagged.into_iter().map(|(arrival, _)| arrival).collect();
    for arrivals in arrivals.chunks(MARK_ROWS_PER_RECORD_MAX) {
        records.push(ShardRecord::Cleared { tenant, user, arrivals: arrivals.to_vec() });
    }
    records.push(ShardRecord::UserGone { tenant, user, lookup, key });
    Ok(Planned { records, answer: ShardAnswer::UserGone { key } })
}

pub(super) fn apply_gone(
    view: &mut View<'_>,
    tenant: TenantId,
    user: UserNo,
    lookup: Lookup,
    key: KeyNo,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    endpoints::apply_user_gone(view, tenant, user)?;
    respect::apply_gone(view, tenant, user)?;
    if let Some(row) = user::find(view, tenant, user)? {
        let mut balance = Balance::default();
        balance.remove(Some(Resource::Users), user_weight(&row));
        balance.write(view, tenant)?;
    }
    view.delete(user::lookup_key(tenant, lookup));
    view.delete(user::key(tenant, user));
    view.delete(mark::key(tenant, user));
    view.delete(follow::count_key(tenant, user));
    for storm in window::storms_of(view, tenant, user)? {
        view.delete(storm);
    }
    view.put(Todo::Shred { tenant, key }.key(), Vec::new());
    derived.forgets.push(Forget::User { tenant, user });
    Ok(())
}
