//! Who is chosen: users of a shard, in the order of their numbers, for whom a segment's condition holds.
//!
//! Comes from: a segment as it was when somebody asked. Does: reads rows, opens what the condition speaks of under each user's own
//! key, and asks `rules::segment`. Goes to: counts and estimates, and to the walk of a bulk send, which records it.
//!
//! What must never happen: somebody who is chosen because something about them cannot be read; a user without a name, who is
//! written to and not known.

use crate::ask::{ListAsk, Refusal};
use crate::core::{Core, locked};
use fantail_machine::columns::{self, Column};
use fantail_machine::records::segment::UploadId;
use fantail_machine::tables::user::{self, UserRow};
use fantail_machine::tables::{endpoint, respect, segment};
use fantail_ports::keyring::{Context, Sealed};
use fantail_ports::lists::ListKey;
use fantail_ports::store::View;
use fantail_ports::tables::TablesError;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::gates::{Consent, Profile};
use fantail_rules::ids::{ListId, Millis, PartitionId, ShardNo, TenantId, UserNo};
use fantail_rules::nameless;
use fantail_rules::preference::Switch;
use fantail_rules::segment::{Filter, Needs, Person, Value};

/// Users that are read together.
const BLOCK: u64 = 512;

/// A segment that was understood.
pub struct Chooser {
    tenant: TenantId,
    filter: Option<Filter>,
    needs: Needs,
    /// In the filter's order.
    topics: Vec<ListId>,
    list: Option<UploadId>,
}

/// How far to look.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub from: UserNo,
    /// The first who is not looked at.
    pub bound: UserNo,
    pub looked_at_max: u64,
    pub members_max: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// The first who was not looked at.
    pub next: UserNo,
    pub looked_at: u64,
    /// Ascending.
    pub members: Vec<UserNo>,
}

/// Somebody who may be chosen.
struct Candidate {
    user: UserNo,
    row: UserRow,
    column: Column,
    topics: Vec<bool>,
    last_seen: Option<Millis>,
    unwanted: Vec<String>,
}

/// What is registered as a device: by an app or a browser, or as a webhook.
fn is_of_device(kind: ChannelKind) -> bool {
    match kind {
        ChannelKind::Push | ChannelKind::Webhook => true,
        ChannelKind::InApp | ChannelKind::Email | ChannelKind::Sms => false,
    }
}

impl Chooser {
    /// Without a condition and without a list it is nobody's.
    pub fn new(
        core: &Core,
        tenant: TenantId,
        filter: Option<Filter>,
        list: Option<UploadId>,
    ) -> Result<Self, Refusal> {
        let topics = filter.iter().flat_map(|filter| filter.topics());
        let topics = topics.map(|topic| core.list_id(tenant, &ListAsk::Topic(topic.clone())));
        let (topics, needs) =
            (topics.collect::<Result<_, _>>()?, filter.as_ref().map_or_else(Needs::default, Filter::needs));
        Ok(Self { tenant, filter, needs, topics, list })
    }

    /// Looks at the next users until enough were looked at, or chosen.
    pub fn look(
        &self,
        core: &Core,
        shard: ShardNo,
        stretch: Stretch,
        now: Millis,
    ) -> Result<Chosen, Refusal> {
        let Stretch { from, bound, looked_at_max, members_max } = stretch;
        let end = bound.0.min(from.0.saturating_add(looked_at_max));
        let (mut at, mut members) = (from.0, Vec::new());
        while at < end && members.len() < members_max {
            let block = at..end.min(at + BLOCK);
            let found = self.block(core, shard, block.clone(), now)?;
            let room = members_max - members.len();
            // Whoever does not fit is looked at again.
            at = found.get(room).map_or(block.end, |user| user.0);
            members.extend(found.into_iter().take(room));
        }
        Ok(Chosen { next: UserNo(at), looked_at: at - from.0, members })
    }

    fn block(
        &self,
        core: &Core,
        shard: ShardNo,
        users: std::ops::Range<u64>,
        now: Millis,
    ) -> Result<Vec<UserNo>, Refusal> {
        if self.filter.is_none() && self.list.is_none() {
            return Ok(Vec::new());
        }
        let partition = PartitionId::Shard(shard);
        let candidates = core.read(partition, |view| self.candidates(view, users))?;
        let mut chosen: Vec<&Candidate> = Vec::with_capacity(candidates.len());
        let opened = if self.needs.attributes {
            let sealed: Vec<Sealed> =
                candidates.iter().map(|candidate| candidate.row.attributes.clone()).collect();
            core.ports.keyring.open_all(self.tenant, Context::UserAttributes, sealed).map_err(locked)?
        } else {
            vec![Some(Vec::new()); candidates.len()]
        };
        for (candidate, attributes) in candidates.iter().zip(opened) {
            let Some(attributes) = attributes else { continue };
            if self.filter.as_ref().is_none_or(|filter| holds(filter, candidate, &attributes, now)) {
                chosen.push(candidate);
            }
        }
        let ids: Vec<Sealed> = chosen.iter().map(|candidate| candidate.row.id.clone()).collect();
        let names = core.ports.keyring.open_all(self.tenant, Context::UserId, ids).map_err(locked)?;
        let is_named = |name: &Vec<u8>| {
            str::from_utf8(name).is_ok_and(|name| !name.is_empty() && nameless::shown(name).is_none())
        };
        let named = chosen.iter().zip(names).filter(|(_, name)| name.as_ref().is_some_and(is_named));
        Ok(named.map(|(candidate, _)| candidate.user).collect())
    }

    fn candidates(
        &self,
        view: &dyn View,
        users: std::ops::Range<u64>,
    ) -> Result<Vec<Candidate>, TablesError> {
        let tables = view.tables();
        let rows = match self.list {
            None => user::between(tables, self.tenant, users.clone())?,
            Some(list) => {
                let listed = segment::members(tables, self.tenant, list, users.clone())?;
                let mut rows = Vec::with_capacity(listed.len());
                for user in listed {
                    rows.extend(user::find(tables, self.tenant, user)?.map(|row| (user, row)));
                }
                rows
            }
        };
        let numbers: Vec<UserNo> = rows.iter().map(|(user, _)| *user).collect();
        let mut read = vec![Column::default(); rows.len()];
        columns::visit(tables, self.tenant, &numbers, &mut |place, column| read[place] = column)?;
        let mut on_topics = Vec::with_capacity(self.topics.len());
        for topic in &self.topics {
            on_topics.push(self.on_topic(view, *topic, users.clone())?);
        }
        let mut candidates = Vec::with_capacity(rows.len());
        for ((user, row), column) in rows.into_iter().zip(read) {
            let topics = on_topics.iter().map(|members| members.binary_search(&user).is_ok()).collect();
            let last_seen = if self.needs.last_seen {
                let endpoints = endpoint::of_user(tables, self.tenant, user)?;
                // A mail address or a number is no device: it is set with the profile, not by an app that runs.
                let devices = endpoints.iter().filter(|one| is_of_device(one.kind));
                devices.map(|endpoint| endpoint.last_seen).max()
            } else {
                None
            };
            let has_choices =
                self.needs.choices && column.respect.profile().is_none_or(|profile| profile.has_choices);
            let unwanted = if has_choices {
                let said = respect::find(tables, self.tenant, user)?.preferences.categories;
                said.into_iter()
                    .filter(|(_, choice)| choice.switch == Switch::Off)
                    .map(|(name, _)| name)
                    .collect()
            } else {
                Vec::new()
            };
            candidates.push(Candidate { user, row, column, topics, last_seen, unwanted });
        }
        Ok(candidates)
    }

    /// Who of these users is on a topic now.
    fn on_topic(
        &self,
        view: &dyn View,
        topic: ListId,
        users: std::ops::Range<u64>,
    ) -> Result<Vec<UserNo>, TablesError> {
        let key = ListKey { tenant: self.tenant, list: topic };
        let after = users.start.checked_sub(1).map(UserNo);
        // A list has each of them at most once.
        let found = view.lists().members(key, after, BLOCK as usize)?;
        let here = found.into_iter().filter(|member| member.user.0 < users.end);
        Ok(here.filter(|member| member.intervals.is_open()).map(|member| member.user).collect())
    }
}

fn holds(filter: &Filter, candidate: &Candidate, attributes: &[u8], now: Millis) -> bool {
    let Candidate { row, column, .. } = candidate;
    // What cannot be read is not there.
    let known: serde_json::Value = serde_json::from_slice(attributes).unwrap_or(serde_json::Value::Null);
    let attribute = |path: &[String]| {
        let found = path.iter().try_fold(&known, |value, name| value.get(name));
        found.map_or(Value::Null, value_of)
    };
    let Some(profile) = column.respect.profile() else { return false };
    let some_of = |is: &dyn Fn(ChannelKind) -> bool| {
        let kinds = ChannelKind::ALL.into_iter().filter(|kind| is(*kind));
        kinds.fold(ChannelSet::EMPTY, ChannelSet::with)
    };
    let person = Person {
        locale: &row.locale,
        zone: row.zone,
        created: row.created,
        updated: row.updated,
        last_seen: candidate.last_seen,
        reachable: some_of(&|kind| column.reach.endpoints(kind).next().is_some()),
        consented: some_of(&|kind| profile.consents.of(kind) == Consent::Granted),
        enabled: some_of(&|kind| is_enabled(&profile, kind)),
        unwanted: &candidate.unwanted,
        topics: &candidate.topics,
        attribute: &attribute,
    };
    filter.matches(&person, now)
}

fn is_enabled(profile: &Profile, kind: ChannelKind) -> bool {
    !profile.global_off && !profile.channels_off.contains(kind)
}

/// Objects are no values: their parts are.
fn value_of(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null | serde_json::Value::Object(_) => Value::Null,
        serde_json::Value::Bool(flag) => Value::Flag(*flag),
        serde_json::Value::Number(number) => number.as_f64().map_or(Value::Null, Value::Number),
        serde_json::Value::String(text) => Value::Text(text.clone()),
        serde_json::Value::Array(all) => Value::Many(all.iter().map(value_of).collect()),
    }
}
