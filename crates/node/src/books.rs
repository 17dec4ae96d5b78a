//! Whether the books balance: offline at once, or beside the leaders a few rows at a time.
//!
//! Comes from: `fantail check`, and time passing. Does: walks the ledgers of each shard and has `machine::books` compare
//! them with the tallies. Goes to: a report with names, or an alarm. What moves while it is read can look wrong once, so
//! the alarm needs the same difference in two rounds.

use crate::backoff::Backoff;
use crate::core::Core;
use fantail_machine::books::{Books, Counted, Imbalance, Of, What};
use fantail_machine::root;
use fantail_machine::tables::taken;
use fantail_ports::store::{Store, StoreError, View};
use fantail_ports::tables::TablesError;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, PartitionId, ShardNo, TenantId};
use fantail_rules::priority::Priority;
use fantail_rules::ulid::Ulid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tracing::{error, info};

const EVERY_MS: u64 = 1_000;
/// Ledgers that are read at once where nobody waits.
const ROWS_OFFLINE: usize = 4_096;
/// Differences that are told one by one.
const TOLD_MAX: usize = 1_000;
const LOGGED_MAX: usize = 16;

/// What a recount of all shards found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub shards: u64,
    pub counted: Counted,
    /// Events with deliveries, each once, in however many shards and channels they are.
    pub events: u64,
    /// The first of them.
    pub imbalances: Vec<Named>,
    pub imbalances_in_all: u64,
}

/// A difference, with the names that people know.
#[derive(Clone, Debug)]
pub struct Named {
    pub tenant: String,
    pub shard: ShardNo,
    pub of: NamedOf,
    /// The state as answers say it, or that it is about open work.
    pub what: &'static str,
    pub kept: u64,
    pub counted: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum NamedOf {
    /// Events past retention have no name left.
    Event {
        event: Option<Ulid>,
        arrival: Arrival,
        channel: ChannelKind,
    },
    Lane(Priority),
}

/// Recounts a store that nobody writes to.
pub fn check(store: &dyn Store) -> Result<Report, StoreError> {
    let root::Control { tenants, ending, .. } =
        read(store, PartitionId::Root, |view| root::control(view.tables()))?;
    let ending: BTreeSet<TenantId> = ending.into_iter().filter_map(|end| Some(end.tenant?.id)).collect();
    let names: BTreeMap<TenantId, String> = tenants.into_iter().map(|one| (one.id, one.slug)).collect();
    let (mut report, mut events) = (Report::default(), BTreeSet::new());
    let shards = store.marks().into_keys().filter_map(|partition| match partition {
        PartitionId::Shard(shard) => Some(shard),
        PartitionId::Root | PartitionId::Front(_) | PartitionId::Directory(_) => None,
    });
    for shard in shards {
        let partition = PartitionId::Shard(shard);
        let mut books = Books::begin(read(store, partition, |view| Ok(view.position()))?).with_events();
        while !books.is_done() {
            let named = read(store, partition, |view| {
                let mut found = books.step(view.tables(), view.position(), ROWS_OFFLINE)?;
                found.retain(|one| !ending.contains(&one.tenant));
                report.imbalances_in_all += found.len() as u64;
                found.into_iter().map(|one| name(view, shard, one, &names)).collect::<Result<Vec<_>, _>>()
            })?;
            let room = TOLD_MAX - report.imbalances.len();
            report.imbalances.extend(named.into_iter().take(room));
            events.extend(books.take_events());
        }
        let Counted { ledgers, deliveries } = books.counted;
        report.shards += 1;
        report.counted.ledgers += ledgers;
        report.counted.deliveries += deliveries;
    }
    report.events = events.len() as u64;
    Ok(report)
}

fn read<T>(
    store: &dyn Store,
    partition: PartitionId,
    read: impl FnOnce(&dyn View) -> Result<T, TablesError>,
) -> Result<T, StoreError> {
    let (mut read, mut found) = (Some(read), None);
    store.read(partition, &mut |view| found = read.take().map(|read| read(view)))?;
    let none = || StoreError::Io { reason: "the store gave no state".to_owned() };
    Ok(found.ok_or_else(none)??)
}

fn name(
    view: &dyn View,
    shard: ShardNo,
    found: Imbalance,
    names: &BTreeMap<TenantId, String>,
) -> Result<Named, TablesError> {
    let Imbalance { tenant, of, what, kept, counted } = found;
    let of = match of {
        Of::Event(work) => NamedOf::Event {
            event: taken::event_at(view.tables(), tenant, work.arrival)?,
            arrival: work.arrival,
            channel: work.channel,
        },
        Of::Lane(lane) => NamedOf::Lane(lane),
    };
    let tenant = names.get(&tenant).cloned().unwrap_or_else(|| tenant.to_string());
    Ok(Named { tenant, shard, of, what: word(what), kept, counted })
}

fn word(what: What) -> &'static str {
    match what {
        What::Deliveries(state) => state.public_word(),
        What::OpenWork => "open work",
    }
}

/// What names a difference from one round to the next.
type Suspect = (TenantId, Of, What);

/// The recount of one shard beside its leader.
struct Round {
    books: Books,
    found: BTreeSet<Suspect>,
    /// Of the round before.
    suspects: BTreeSet<Suspect>,
    confirmed: usize,
}

impl Round {
    /// The walk is at its end: what was seen twice is told.
    fn end(&mut self, shard: ShardNo) {
        let found = std::mem::take(&mut self.found);
        let confirmed: Vec<&Suspect> = found.intersection(&self.suspects).collect();
        for (tenant, of, what) in confirmed.iter().take(LOGGED_MAX) {
            error!(%shard, %tenant, ?of, what = word(*what), "tally is not what the ledgers say");
        }
        if confirmed.is_empty() && self.confirmed > 0 {
            info!(%shard, "tallies are what the ledgers say again");
        }
        self.confirmed = confirmed.len();
        self.suspects = found;
    }
}

/// Recounts for ever, a little at a time, until the root's queue closes.
pub async fn run(core: Arc<Core>) {
    let mut rounds: BTreeMap<ShardNo, Round> = BTreeMap::new();
    let mut backoff = Backoff::of("books");
    while !core.root.is_closed() {
        let deadline = core.ports.clock.monotonic().plus(EVERY_MS);
        core.ports.tasks.sleep_until(deadline).await;
        for shard in core.shards.keys() {
            let round = rounds.remove(shard);
            let mut round = match step(&core, *shard, round) {
                Ok(round) => round,
                // The recount of this shard begins anew.
                Err(refusal) => {
                    backoff.wait(&core.ports, &core.meter, &refusal).await;
                    continue;
                }
            };
            backoff.reset();
            let is_done = round.books.is_done();
            if is_done {
                round.end(*shard);
            }
            rounds.insert(*shard, round);
            if is_done {
                core.meter.balanced(rounds.values().map(|round| round.confirmed as u64).sum());
            }
        }
    }
}

fn step(core: &Core, shard: ShardNo, round: Option<Round>) -> Result<Round, crate::ask::Refusal> {
    core.read(PartitionId::Shard(shard), |view| {
        let position = view.position();
        let mut round = match round {
            Some(round) if round.books.is_done() => Round { books: Books::begin(position), ..round },
            Some(round) => round,
            None => {
                let (found, suspects) = Default::default();
                Round { books: Books::begin(position), found, suspects, confirmed: 0 }
            }
        };
        let found = round.books.step(view.tables(), position, core.knobs.recount_rows)?;
        // Rows of a tenant that is deleted go family by family: its books balance again when nothing is left.
        let found = found.into_iter().filter(|one| core.has_tenant(one.tenant));
        round.found.extend(found.map(|one| (one.tenant, one.of, one.what)));
        Ok(round)
    })
}
