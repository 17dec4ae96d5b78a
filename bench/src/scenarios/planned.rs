//! The gates where they run: in the plan of a shard, with everything they read, and in the fold of what was decided.
//!
//! People as in `gates`, with their rows: user, device, consent, preferences, a list that all of them are on. Event after
//! event is planned for all of them in parcels of a thousand and folded on one core, without journal and sends; what is not
//! refused is authorised, or waits for the end of somebody's night.

use super::gates::{Chance, EVENING, PEOPLE, ZONES};
use crate::Bench;
use crate::report::Row;
use anyhow::{Context, Result};
use fantail_local::store::{LocalStore, StoreOptions};
use fantail_machine::front::Moment;
use fantail_machine::records::endpoint::{EndpointPut, EndpointState};
use fantail_machine::records::respect::{Consent, Consented, Preferred};
use fantail_machine::records::shard::{Change, Edge, ShardRecord, UserPut};
use fantail_machine::shard::serve::Job;
use fantail_machine::shard::{self, Derived, ShardAnswer, ShardAsk};
use fantail_machine::tables::work::{Terms, To, WorkId, WorkRow};
use fantail_machine::tables::{put, tally};
use fantail_machine::view::View;
use fantail_ports::keyring::Sealed;
use fantail_ports::store::{Commit, Store};
use fantail_ports::tables::{Changes, TablesError};
use fantail_rules::attempt::Class;
use fantail_rules::category::CategoryId;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{Platform, Status};
use fantail_rules::ids::{
    AddressHash, Arrival, ClaimNo, DeviceHash, DeviceNo, FrontNo, KeyNo, ListId, Lookup, Millis, PartitionId,
    Position, ShardNo, TenantId, UserNo,
};
use fantail_rules::knobs::Knobs;
use fantail_rules::policy::Policies;
use fantail_rules::preference::{CategoryChoice, ChangeKind, Preferences, Quiet, Switch, Switches};
use fantail_rules::priority::Priority;
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;
use std::ops::Range;
use std::time::{Duration, Instant};

const SHARD: ShardNo = ShardNo(0);
const PARTITION: PartitionId = PartitionId::Shard(SHARD);
pub const TENANT: TenantId = TenantId(1);
const LIST: ListId = ListId([7; 16]);
const CATEGORY: &str = "likes";
const PARCEL: u32 = 1_000;
/// Of everybody's preferences.
pub const REVISION: u32 = 2;
const USERS_PER_RECORD: usize = 250;
const GOAL_PER_SECOND: f64 = 1e6;

pub fn run(bench: &mut Bench) -> Result<()> {
    let mut home = Home::open(bench, "gates")?;
    let zones = ZONES.map(ZoneNo::find);
    let mut chance = Chance(1);
    home.people(0..PEOPLE, LIST, &mut || {
        let has_agreed = chance.below(10) > 0;
        let zone = zones[chance.below(zones.len() as u64) as usize].context("a zone is not listed")?;
        Ok((has_agreed, preferences(zone, &mut chance)))
    })?;
    let (mut decided, mut authorised, mut spent) = (0, 0, Duration::ZERO);
    for event in 1.. {
        let began = Instant::now();
        authorised += home.event(event, LIST)?;
        spent += began.elapsed();
        decided += PEOPLE;
        if spent >= bench.scale.fsync_loop {
            break;
        }
    }
    let rate = decided as f64 / spent.as_secs_f64();
    let row = Row::new("gates", "decisions planned and folded by a shard, one core", "none")
        .fact("rate", rate, "/s")
        .fact("each", spent.as_secs_f64() * 1e9 / decided as f64, " ns")
        .fact("authorised", 100.0 * authorised as f64 / decided as f64, " %")
        .at_least(GOAL_PER_SECOND, rate, "/s");
    bench.report.add(row);
    Ok(())
}

/// A shard without a journal.
pub struct Home {
    store: LocalStore,
    through: Position,
}

impl Home {
    pub fn open(bench: &Bench, name: &str) -> Result<Self> {
        let store = LocalStore::open(StoreOptions::new(bench.work.join(name)))?;
        Ok(Self { store, through: Position(0) })
    }

    /// Users on one list. `said` draws whether each has agreed, and what it prefers.
    pub fn people(
        &mut self,
        numbers: Range<u64>,
        list: ListId,
        said: &mut dyn FnMut() -> Result<(bool, Preferences)>,
    ) -> Result<()> {
        for first in numbers.clone().step_by(USERS_PER_RECORD) {
            let users = (first..numbers.end.min(first + USERS_PER_RECORD as u64)).map(UserNo);
            let puts = users.clone().map(user).collect();
            let endpoints = users.clone().map(device).collect();
            let states = users.clone().map(granted).collect();
            let said = users.clone().map(|_| said()).collect::<Result<Vec<_>>>()?;
            let has_agreed = users.clone().zip(&said).filter(|(_, (has_agreed, _))| *has_agreed);
            let consents = has_agreed.map(|(user, _)| agreed(user)).collect();
            let edges = users.clone().map(|user| Edge { user, list, name: None }).collect();
            let mut records = vec![
                ShardRecord::UserPut { tenant: TENANT, users: puts },
                ShardRecord::EndpointPut { tenant: TENANT, endpoints },
                ShardRecord::EndpointState { tenant: TENANT, states },
                ShardRecord::Consented { tenant: TENANT, consents },
                ShardRecord::Edges { tenant: TENANT, change: Change::Join, edges },
            ];
            for (user, (_, preferences)) in users.zip(said) {
                records.push(ShardRecord::Preferred(Preferred {
                    tenant: TENANT,
                    user,
                    revision: REVISION,
                    kind: ChangeKind::Update,
                    source: "bench".into(),
                    preferences,
                }));
            }
            self.fold(&records)?;
        }
        Ok(())
    }

    /// One event to a list, to its end. Returns how many were authorised.
    pub fn event(&mut self, no: u64, list: ListId) -> Result<usize> {
        let work = WorkId { tenant: TENANT, arrival: Arrival(no), channel: ChannelKind::Push };
        let terms = Terms {
            lane: Priority::Normal,
            class: Class::Transactional,
            category: CategoryId::of(CATEGORY),
            expires_at: EVENING.plus(86_400_000),
            chain: Default::default(),
            kind: None,
            group: 0,
            appointment: None,
        };
        let row = WorkRow {
            event: Ulid::new(EVENING, FrontNo(0), no.into()),
            terms,
            next: UserNo(0),
            to: To::List(list),
        };
        self.change(|view| {
            let lane = tally::lane_key(TENANT, row.terms.lane);
            let mut tally = tally::find(view, &lane)?;
            tally.open += 1;
            put(view, lane, &tally);
            put(view, work.key(), &row);
            Ok(())
        })?;
        let mut authorised = 0;
        loop {
            let (allowed, more) = self.serve(work)?;
            authorised += allowed;
            if !more {
                return Ok(authorised);
            }
        }
    }

    /// The next parcel: planned, and what was decided folded.
    fn serve(&mut self, work: WorkId) -> Result<(usize, bool)> {
        let ask = ShardAsk::Serve { jobs: vec![Job::Work(work)], deliveries_max: PARCEL };
        let (answer, _) = self.ask(&ask, EVENING.plus(work.arrival.0))?;
        let ShardAnswer::Served(served) = answer else {
            anyhow::bail!("the shard answered something else");
        };
        let served = served.first().context("no job was served")?;
        Ok((served.allowed.as_ref().map_or(0, |allowed| allowed.sends.len()), served.more))
    }

    /// Plans and folds what is asked, as a leader does without its journal. Returns the answer and how many records it took.
    pub fn ask(&mut self, ask: &ShardAsk, now: Millis) -> Result<(ShardAnswer, usize)> {
        let moment = Moment { now, random: 1, knobs: &Knobs::DEFAULT, quiet_before: true };
        let (mut changes, mut planned) = (Changes::new(), None);
        self.store.read(PARTITION, &mut |state| {
            let mut view = View::new(state.tables(), &[], &mut changes).with_lists(state.lists());
            planned = Some(shard::plan(&mut view, ask.clone(), SHARD, moment, &Policies::default()));
        })?;
        let planned = planned.context("the store was not read")??;
        if !planned.records.is_empty() {
            self.fold(&planned.records)?;
        }
        Ok((planned.answer, planned.records.len()))
    }

    fn fold(&mut self, records: &[ShardRecord]) -> Result<()> {
        let mut derived = Derived::default();
        let (mut changes, mut folded) = (Changes::new(), Ok(()));
        self.store.read(PARTITION, &mut |state| {
            let mut view = View::new(state.tables(), &[], &mut changes);
            folded = records
                .iter()
                .try_for_each(|record| shard::apply(&mut view, record, EVENING, &[], &mut derived));
        })?;
        folded?;
        self.commit(changes, derived)
    }

    fn change(&mut self, change: impl Fn(&mut View<'_>) -> Result<(), TablesError>) -> Result<()> {
        let (mut changes, mut changed) = (Changes::new(), Ok(()));
        self.store.read(PARTITION, &mut |state| {
            changed = change(&mut View::new(state.tables(), &[], &mut changes));
        })?;
        changed?;
        self.commit(changes, Derived::default())
    }

    fn commit(&mut self, changes: Changes, derived: Derived) -> Result<()> {
        self.through = self.through.next();
        let Derived { edits, windows, forgets, .. } = derived;
        let commit = Commit { through: self.through, changes, edits, windows, forgets };
        Ok(self.store.commit(PARTITION, commit)?)
    }
}

pub fn hash(user: UserNo) -> [u8; 16] {
    u128::from(user.0 + 1).to_be_bytes()
}

fn sealed() -> Sealed {
    Sealed { key: KeyNo(1), nonce: [0; 12], bytes: vec![0; 32] }
}

fn user(user: UserNo) -> UserPut {
    let (locale, zone) = (String::new(), ZoneNo::NONE);
    UserPut { user, lookup: Lookup(hash(user)), id: sealed(), attributes: sealed(), locale, zone }
}

fn device(user: UserNo) -> EndpointPut {
    EndpointPut {
        user,
        device: DeviceNo(1),
        claim: ClaimNo(1),
        status: Status::Pending,
        kind: ChannelKind::Push,
        platform: Platform::Android,
        name_hash: DeviceHash(hash(user)),
        name: None,
        address_hash: AddressHash(hash(user)),
        address: sealed(),
        meta: None,
    }
}

fn granted(user: UserNo) -> EndpointState {
    EndpointState { user, device: DeviceNo(1), claim: ClaimNo(1), status: Status::Active }
}

fn agreed(user: UserNo) -> Consented {
    let consent = Consent { is_granted: true, given: Millis(1), version: "1".into(), source: "bench".into() };
    Consented { user, revision: 1, channel: ChannelKind::Push, consent }
}

fn preferences(zone: ZoneNo, chance: &mut Chance) -> Preferences {
    let mut said = Preferences::default();
    let times = Times {
        start_minute: 21 * 60 + chance.below(180) as u16,
        end_minute: 6 * 60 + chance.below(180) as u16,
    };
    if let Some(window) = Window::new(times, Days::ALL).filter(|_| chance.below(10) < 4) {
        said.quiet = Some(Quiet { is_enabled: true, window, zone });
    }
    if chance.below(50) == 0 {
        said.everything = Switch::Off;
    }
    if chance.below(20) == 0 {
        said.channels = Switches::default().with(ChannelKind::Push, Switch::Off);
    }
    if chance.below(10) == 0 {
        let switch = if chance.below(2) == 0 { Switch::Off } else { Switch::On };
        said.categories.insert(CATEGORY.into(), CategoryChoice { switch, ..CategoryChoice::default() });
    }
    said
}
