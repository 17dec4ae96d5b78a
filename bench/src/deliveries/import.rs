//! Many users with their devices and follows, and sends of theirs, imported as facts: through the journal and
//! `machine::shard::apply`, as a leader would, without HTTP.

use super::LOOK;
use super::house::{House, SHARDS};
use anyhow::{Context, Result};
use fantail_machine::parcel::{Collector, Words};
use fantail_machine::records::delivery::{Consents, Counted, Intend, Outcome};
use fantail_machine::records::endpoint::{EndpointPut, EndpointState};
use fantail_machine::records::front::Delivery;
use fantail_machine::records::respect::{Consent, Consented};
use fantail_machine::records::shard::{Change, Edge, Given, ShardRecord, UserPut};
use fantail_machine::records::{Fact, Stamped};
use fantail_machine::shard::{self, Derived};
use fantail_machine::tables::ledger::{ParcelId, Standing};
use fantail_machine::tables::progress;
use fantail_machine::tables::track::Note;
use fantail_machine::tables::work::{Terms, WorkId};
use fantail_machine::view::View;
use fantail_ports::journal::{Append, Journal};
use fantail_ports::keyring::{Context as Sealing, Keyring, ListName};
use fantail_ports::store::{Commit, Store};
use fantail_ports::tables::{Changes, Tables};
use fantail_rules::actor::Actor;
use fantail_rules::attempt::{Class, State};
use fantail_rules::category::CategoryId;
use fantail_rules::chain::Chain;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::endpoint::{Platform, Status};
use fantail_rules::ids::{
    AddressHash, ClaimNo, DeviceHash, DeviceNo, Epoch, FrontNo, Millis, PartitionId, Position, ShardNo,
    TenantId, UserNo,
};
use fantail_rules::limits::BACKLOG_EVENTS_MAX;
use fantail_rules::priority::Priority;
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;

/// Users in one record, records in one append.
const USERS_PER_RECORD: usize = 256;
const RECORDS_PER_APPEND: usize = 64;
/// Records about single sends in one append.
const SEND_RECORDS_PER_APPEND: usize = 12_288;
const SYNC_BYTES: u64 = 64 << 20;

/// Brings users, their devices and their follows in as facts.
pub struct Import<'a> {
    house: &'a House,
    tenant: TenantId,
    shards: Vec<Shard>,
    homes: Vec<(u8, u32)>,
}

struct Shard {
    partition: PartitionId,
    epoch: Epoch,
    next: Position,
    users: u64,
    waiting: Vec<ShardRecord>,
}

impl<'a> Import<'a> {
    pub async fn new(house: &'a House, tenant: TenantId) -> Result<Import<'a>> {
        let mut shards = Vec::new();
        for no in 0..SHARDS {
            let partition = PartitionId::Shard(ShardNo(no));
            let epoch = house.journal.fence(partition).await?;
            let next = house.journal.bounds(partition)?.next;
            shards.push(Shard { partition, epoch, next, users: 0, waiting: Vec::new() });
        }
        Ok(Self { house, tenant, shards, homes: Vec::new() })
    }

    /// Users `u0`, `u1`, … with so many devices.
    pub async fn users(&mut self, count: u64, devices: &dyn Fn(u64) -> u16) -> Result<()> {
        let keyring = &self.house.keyring;
        let mut batches = vec![(Vec::new(), Vec::new()); usize::from(SHARDS)];
        for no in 0..count {
            let (name, key) = (user_name(no), keyring.mint(self.tenant)?);
            let seal = |context, plain: &[u8]| keyring.seal(self.tenant, key, context, plain);
            let lookup = keyring.lookup_user(self.tenant, &name)?;
            let home = usize::from(lookup.shard(SHARDS).0);
            let user = UserNo(self.shards[home].users);
            self.shards[home].users += 1;
            self.homes.push((home as u8, user.0 as u32));
            let (puts, endpoints) = &mut batches[home];
            let (locale, zone) = (String::new(), ZoneNo::NONE);
            let (id, attributes) =
                (seal(Sealing::UserId, name.as_bytes())?, seal(Sealing::UserAttributes, b"{}")?);
            puts.push(UserPut { user, lookup, id, attributes, locale, zone });
            for device in 1..=devices(no) {
                let mut hash = [0; 16];
                hash[..8].copy_from_slice(&no.to_be_bytes());
                hash[8] = device as u8;
                endpoints.push(EndpointPut {
                    user,
                    device: DeviceNo(device),
                    claim: ClaimNo(device.into()),
                    status: Status::Pending,
                    kind: ChannelKind::Push,
                    platform: Platform::Android,
                    name_hash: DeviceHash(hash),
                    name: None,
                    address_hash: AddressHash(hash),
                    address: seal(Sealing::Address, b"stub:ok")?,
                    meta: None,
                });
            }
            if puts.len() == USERS_PER_RECORD {
                let (users, endpoints) = std::mem::take(&mut batches[home]);
                self.put(home, users, endpoints).await?;
            }
        }
        for (home, (users, endpoints)) in batches.into_iter().enumerate() {
            self.put(home, users, endpoints).await?;
        }
        self.flush().await
    }

    async fn put(&mut self, home: usize, users: Vec<UserPut>, endpoints: Vec<EndpointPut>) -> Result<()> {
        let tenant = self.tenant;
        // As if the directory had granted every address.
        let granted = |put: &EndpointPut| EndpointState {
            user: put.user,
            device: put.device,
            claim: put.claim,
            status: Status::Active,
        };
        let states = endpoints.iter().map(granted).collect();
        let agreed = |user: UserNo| Consented {
            user,
            revision: 1,
            channel: ChannelKind::Push,
            consent: Consent {
                is_granted: true,
                given: Millis(1),
                version: "1".into(),
                source: "bench".into(),
            },
        };
        // Users with devices have granted consent.
        let mut told: Vec<UserNo> = endpoints.iter().map(|put| put.user).collect();
        told.dedup();
        let consents = told.into_iter().map(agreed).collect();
        self.shards[home].waiting.push(ShardRecord::UserPut { tenant, users });
        if !endpoints.is_empty() {
            self.shards[home].waiting.push(ShardRecord::Consented { tenant, consents });
            self.shards[home].waiting.push(ShardRecord::EndpointPut { tenant, endpoints });
            self.shards[home].waiting.push(ShardRecord::EndpointState { tenant, states });
        }
        if self.shards[home].waiting.len() >= RECORDS_PER_APPEND { self.land(home).await } else { Ok(()) }
    }

    /// Puts users, in any order, on the list of an actor.
    pub async fn follow(&mut self, actor: &str, users: impl Iterator<Item = u64>) -> Result<()> {
        let list =
            self.house.keyring.lookup_list(self.tenant, ListName::FollowersOf(actor))?.with_kind(false);
        let mut edges: Vec<Vec<Edge>> = vec![Vec::new(); usize::from(SHARDS)];
        for no in users {
            let (home, user) = self.homes[no as usize];
            edges[usize::from(home)].push(Edge { user: UserNo(user.into()), list, name: None });
        }
        let (tenant, change) = (self.tenant, Change::Join);
        for (home, mut edges) in edges.into_iter().enumerate() {
            edges.sort_unstable_by_key(|edge| edge.user);
            edges.dedup_by_key(|edge| edge.user);
            for edges in edges.chunks(USERS_PER_RECORD) {
                self.shards[home].waiting.push(ShardRecord::Edges { tenant, change, edges: edges.to_vec() });
                if self.shards[home].waiting.len() >= RECORDS_PER_APPEND {
                    self.land(home).await?;
                }
            }
        }
        Ok(())
    }

    /// Single pushes, to one user after the other, that the provider has accepted. The store has to be tended meanwhile: what
    /// it has not written into the inbox index is in memory.
    pub async fn single_sends(&mut self, count: u64) -> Result<()> {
        let now = self.house.clock.wall();
        let mut places = Vec::new();
        for no in 0..SHARDS {
            let place = |tables: &dyn Tables| {
                Ok((progress::find(tables, self.tenant)?.last, progress::taken(tables, FrontNo(0))?))
            };
            places.push(self.house.read(ShardNo(no), place)?);
        }
        for no in 0..count {
            let (home, user) = self.homes[(no % self.homes.len() as u64) as usize];
            let home = usize::from(home);
            let (arrival, taken) = &mut places[home];
            *arrival = arrival.next();
            let work = WorkId { tenant: self.tenant, arrival: *arrival, channel: ChannelKind::Push };
            let event = Ulid::new(now, FrontNo(0), no.into());
            self.shards[home].waiting.extend(single_send(work, event, UserNo(user.into()), *taken, now));
            if self.shards[home].waiting.len() >= SEND_RECORDS_PER_APPEND {
                self.land(home).await?;
                while self.house.store.gauges().backlog_events > BACKLOG_EVENTS_MAX / 2 {
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
        self.flush().await
    }

    pub async fn flush(&mut self) -> Result<()> {
        for home in 0..self.shards.len() {
            self.land(home).await?;
        }
        self.house.store.sync().await?;
        Ok(())
    }

    /// Append, then fold.
    async fn land(&mut self, home: usize) -> Result<()> {
        let shard = &mut self.shards[home];
        let records = std::mem::take(&mut shard.waiting);
        if records.is_empty() {
            return Ok(());
        }
        let now = self.house.clock.wall();
        let append = Append {
            partition: shard.partition,
            epoch: shard.epoch,
            first: shard.next,
            records: records.iter().map(|record| encoded(record, now)).collect(),
        };
        let through = self.house.journal.append(append).await?;
        shard.next = through.next();
        let (mut changes, mut derived) = (Changes::new(), Derived::default());
        let mut folded = Ok(());
        self.house.store.read(shard.partition, &mut |state| {
            let mut view = View::new(state.tables(), &[], &mut changes);
            folded =
                records.iter().try_for_each(|record| shard::apply(&mut view, record, now, &[], &mut derived));
        })?;
        folded.context("cannot fold")?;
        let Derived { edits, windows, forgets, .. } = derived;
        self.house.store.commit(shard.partition, Commit { through, changes, edits, windows, forgets })?;
        if self.house.store.gauges().unsynced_bytes >= SYNC_BYTES {
            self.house.store.sync().await?;
        }
        Ok(())
    }
}

/// Given to its user, allowed, accepted.
fn single_send(work: WorkId, event: Ulid, user: UserNo, taken: Position, now: Millis) -> [ShardRecord; 3] {
    let terms = Terms {
        lane: Priority::Normal,
        class: Class::Transactional,
        category: CategoryId::of("bench"),
        expires_at: now.plus(86_400_000),
        group: 0,
        appointment: None,
        chain: Chain::NONE,
        kind: None,
    };
    let given = Given {
        front: FrontNo(0),
        position: taken,
        tenant: work.tenant,
        event,
        is_late: false,
        delivery: Some(Delivery { channels: ChannelSet::EMPTY.with(work.channel), terms }),
        members: vec![user],
        unwanted: Vec::new(),
    };
    let mut collector = Collector::default();
    collector.add(user, &[DeviceNo(1)], 1);
    let intend = Intend {
        work,
        next: None,
        unreached: 0,
        members: collector.finish(),
        verdicts: Words::all(standing(State::Intent), 1),
        counted: Counted::nothing(),
        consents: Consents::of([1]),
    };
    let note = Note {
        at: now,
        state: State::Accepted,
        code: String::new(),
        message: String::new(),
        provider_id: format!("stub-{:016x}", work.arrival.0),
    };
    let outcome = Outcome {
        parcel: ParcelId::of(work, user),
        round: 1,
        positions: vec![0],
        standings: Words::all(standing(State::Accepted), 1),
        notes: vec![note],
    };
    [ShardRecord::Given(given), ShardRecord::Intend(intend), ShardRecord::Outcome(outcome)]
}

fn standing(state: State) -> Standing {
    Standing { state, retries: 0, resends: 0, due: Millis(0), code: String::new(), was_authorised: false }
}

fn encoded<R: Fact + Clone>(record: &R, at: Millis) -> Vec<u8> {
    Stamped { at, by: Actor::System, record: record.clone() }.encode()
}

pub fn user_name(no: u64) -> String {
    format!("u{no}")
}
