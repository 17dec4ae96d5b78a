//! One node without its loops: a journal, a store, and the machines in between. Every ask is planned, its facts
//! are applied, encoded into the journal and committed, each ask as one batch. What the loops of a node do (take,
//! report, expire) happens when a test says so.
//!
//! Not here: durability and order between partitions that run at the same time; the simulator has those.

use fantail_machine::directory::{self, DirectoryAnswer, DirectoryAsk};
use fantail_machine::front::admit::{self, AskAudience};
use fantail_machine::front::fact::FrontFact;
use fantail_machine::front::{self, FrontAnswer, FrontAsk, Moment};
use fantail_machine::records::directory::DirectoryRecord;
use fantail_machine::records::front::{Delivery, FrontRecord, Options, Personal};
use fantail_machine::records::root::RootRecord;
use fantail_machine::records::shard::{Change, ShardRecord};
use fantail_machine::records::{Fact, Stamped};
use fantail_machine::root::{self, RootAnswer, RootAsk};
use fantail_machine::shard::edges::{AskEdge, EdgeAnswer, Edit};
use fantail_machine::shard::inbox::{Counts, Entry, FromTables, UserInbox};
use fantail_machine::shard::users::{Put, PutCondition};
use fantail_machine::shard::{self, Derived, Offer, ShardAnswer, ShardAsk, SweepNext, expire, mark, report};
use fantail_machine::tables::policy;
use fantail_machine::tables::progress::{self, Progress};
use fantail_machine::tables::todo::{self, Todo};
use fantail_machine::tables::{scheduled, user, window};
use fantail_machine::view::View;
use fantail_memory::store::MemoryStore;
use fantail_ports::keyring::Sealed;
use fantail_ports::store::{Commit, Store, View as State};
use fantail_ports::tables::{Changes, KeyRange, Order, Read, Tables, TablesError, Visit};
use fantail_rules::actor::Actor;
use fantail_rules::channel_kind::ChannelSet;
use fantail_rules::ids::{
    Arrival, DirectoryNo, FrontNo, KeyNo, ListId, Lookup, Millis, PartitionId, Position, ShardNo, TenantId,
    UserNo,
};
use fantail_rules::knobs::{Knobs, StepSizes};
use fantail_rules::limits::GUARD_MS;
use fantail_rules::marks::{Mark, State as Filter};
use fantail_rules::merge::Direction;
use fantail_rules::policy::Policies;
use fantail_rules::ulid::Ulid;
use fantail_rules::zone::ZoneNo;
use std::cell::Cell;
use std::collections::BTreeMap;

pub const TENANT: TenantId = TenantId(1);
pub const FRONT: FrontNo = FrontNo(0);
pub const DIRECTORY: DirectoryNo = DirectoryNo(0);
pub const SHARD: ShardNo = ShardNo(0);
pub const DAY_MS: u64 = 86_400_000;
/// A plausible time of day, so that varints and ULIDs have their usual lengths.
pub const START: Millis = Millis(1_750_000_000_000);

pub struct Node {
    pub store: MemoryStore,
    pub journal: BTreeMap<PartitionId, Vec<Vec<u8>>>,
    pub now: Millis,
    /// Whose asks come next, and to which shard.
    pub tenant: TenantId,
    pub at: ShardNo,
    /// How many rows each record of the last ask changed.
    pub rows_touched: Vec<usize>,
    /// How many rows were read to plan and fold the last ask.
    rows_read: usize,
    /// What the dispatcher would have heard.
    pub offers: Vec<Offer>,
    /// What the next posts are about, and how urgent that is.
    pub category: &'static str,
    pub priority: u8,
    /// How the next posts leave the house.
    pub delivery: Option<Delivery>,
    /// What recipients of the next post alone are told.
    pub personal: Vec<Personal>,
    pub options: Options,
    draws: u64,
}

/// What to write, and for whom.
pub struct Post {
    pub key: u64,
    pub audience: AskAudience,
    pub tier_up: u32,
}

impl Node {
    pub fn new() -> Self {
        Self {
            store: MemoryStore::new(),
            journal: BTreeMap::new(),
            now: START,
            tenant: TENANT,
            at: SHARD,
            rows_touched: Vec::new(),
            rows_read: 0,
            offers: Vec::new(),
            category: "social",
            priority: 2,
            delivery: None,
            personal: Vec::new(),
            options: Options::default(),
            draws: 0,
        }
    }

    fn moment(&mut self) -> Moment<'static> {
        // Multiples of a large odd number: different for every ask, the same in every run.
        self.draws += 1;
        let random = u128::from(self.draws).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        Moment { now: self.now, random, knobs: &Knobs::DEFAULT, quiet_before: false }
    }

    pub fn root(&mut self, ask: RootAsk) -> RootAnswer {
        let now = self.now;
        self.decide(
            PartitionId::Root,
            |view| root::plan(view, ask, now).map(|plan| (plan.records, plan.answer)),
            |view, record: &RootRecord, _| root::apply(view, record, now),
        )
    }

    /// What an earlier build has written.
    pub fn write_root(&mut self, record: RootRecord) {
        let now = self.now;
        self.decide(
            PartitionId::Root,
            |_| Ok((vec![record], ())),
            |view, record: &RootRecord, _| root::apply(view, record, now),
        );
    }

    pub fn front(&mut self, ask: FrontAsk) -> FrontAnswer {
        let moment = self.moment();
        self.decide(
            PartitionId::Front(FRONT),
            |view| front::plan(view, ask, FRONT, moment).map(|plan| (plan.records, plan.answer)),
            |view, record: &FrontRecord, _| front::apply(view, record, moment.now),
        )
    }

    pub fn directory(&mut self, ask: DirectoryAsk) -> DirectoryAnswer {
        let now = self.now;
        self.decide(
            PartitionId::Directory(DIRECTORY),
            |view| directory::plan(view, ask).map(|plan| (plan.records, plan.answer)),
            |view, record: &DirectoryRecord, _| directory::apply(view, record, now),
        )
    }

    pub fn shard(&mut self, ask: ShardAsk) -> ShardAnswer {
        let facts = if let ShardAsk::Take { facts, .. } = &ask { facts.to_vec() } else { Vec::new() };
        let (now, no) = (self.now, self.at);
        let (moment, policies) = (self.moment(), self.policies());
        self.decide(
            PartitionId::Shard(no),
            |view| shard::plan(view, ask, no, moment, &policies).map(|plan| (plan.records, plan.answer)),
            |view, record: &ShardRecord, derived| shard::apply(view, record, now, &facts, derived),
        )
    }

    /// What the tenants say, as the root has it.
    fn policies(&self) -> Policies {
        self.read(PartitionId::Root, |state| policy::policies(state.tables()).unwrap())
    }

    /// How many rows are read when the shard decides about this.
    pub fn reads_of(&mut self, ask: ShardAsk) -> usize {
        self.shard(ask);
        self.rows_read
    }

    /// Rows that the last ask read, rows that each of its records changed.
    pub fn last_cost(&self) -> (usize, Vec<usize>) {
        (self.rows_read, self.rows_touched.clone())
    }

    /// How many rows of tables a page of an inbox and its counts read.
    pub fn reads_of_page(&self, user: UserNo, limit: usize) -> usize {
        let (policies, reader) = (self.policies(), (self.tenant, user));
        self.read_shard(|state| {
            let tables = Counting { tables: state.tables(), reads: Cell::new(0) };
            let inbox = UserInbox::open(&tables, state.inbox(), &FromTables, reader, &policies, self.now);
            let inbox = inbox.unwrap();
            inbox.page(Direction::NewestFirst, None, Filter::All, limit).unwrap();
            inbox.counts().unwrap();
            tables.reads.get()
        })
    }

    /// Plan, apply, append, commit. Facts travel through their bytes, so a lossy encoding shows.
    fn decide<R: Fact, A>(
        &mut self,
        partition: PartitionId,
        plan: impl FnOnce(&mut View<'_>) -> Result<(Vec<R>, A), TablesError>,
        apply: impl Fn(&mut View<'_>, &R, &mut Derived) -> Result<(), TablesError>,
    ) -> A {
        let (now, mut changes, mut derived) = (self.now, Changes::new(), Derived::default());
        let (mut plan, mut planned) = (Some(plan), None);
        let (mut encoded, mut rows_touched) = (Vec::new(), Vec::new());
        let mut rows_read = 0;
        let read = self.store.read(partition, &mut |state| {
            let plan = plan.take().unwrap();
            let tables = Counting { tables: state.tables(), reads: Cell::new(0) };
            let (records, answer) =
                plan(&mut View::new(&tables, &[], &mut changes).with_lists(state.lists())).unwrap();
            for record in records {
                let bytes = Stamped { at: now, by: Actor::System, record }.encode();
                let record = Stamped::<R>::decode(&bytes).unwrap().record;
                let mut touched = Changes::new();
                apply(&mut View::new(&tables, &[&changes], &mut touched), &record, &mut derived).unwrap();
                rows_touched.push(touched.len());
                changes.append(&mut touched);
                encoded.push(bytes);
            }
            planned = Some(answer);
            rows_read = tables.reads.get();
        });
        read.unwrap();
        self.rows_touched = rows_touched;
        self.rows_read = rows_read;
        if !encoded.is_empty() {
            let journal = self.journal.entry(partition).or_default();
            journal.append(&mut encoded);
            let Derived { edits, windows, forgets, offers } = derived;
            self.offers.extend(offers);
            let through = Position(journal.len() as u64);
            self.store.commit(partition, Commit { through, changes, edits, windows, forgets }).unwrap();
        }
        planned.unwrap()
    }

    pub fn read<T>(&self, partition: PartitionId, with: impl FnOnce(&dyn State) -> T) -> T {
        let (mut with, mut found) = (Some(with), None);
        self.store.read(partition, &mut |state| found = with.take().map(|with| with(state))).unwrap();
        found.unwrap()
    }

    pub fn read_shard<T>(&self, with: impl FnOnce(&dyn State) -> T) -> T {
        self.read(PartitionId::Shard(self.at), with)
    }

    /// Facts so far, of all partitions.
    pub fn records(&self) -> usize {
        self.journal.values().map(Vec::len).sum()
    }

    /// What a shard can take of the front from a position on.
    pub fn facts(&self, after: Position) -> Vec<FrontFact> {
        let journal = self.journal.get(&PartitionId::Front(FRONT)).map_or(&[][..], Vec::as_slice);
        let positions = (after.0 + 1)..;
        let records = journal.iter().skip(after.0 as usize);
        positions.zip(records).map(|(at, bytes)| FrontFact::decode(Position(at), bytes).unwrap()).collect()
    }

    /// A shard takes at most so many of the facts it has not taken yet.
    pub fn take(&mut self, at_most: usize) {
        let taken = self.read_shard(|state| progress::taken(state.tables(), FRONT).unwrap());
        let mut facts = self.facts(taken);
        facts.truncate(at_most);
        if !facts.is_empty() {
            assert_eq!(self.shard(ShardAsk::Take { front: FRONT, facts: facts.into() }), ShardAnswer::Took);
        }
    }

    pub fn take_all(&mut self) {
        self.take(usize::MAX);
    }

    pub fn admit(&mut self, post: Post) -> FrontAnswer {
        let mut key = [0; 16];
        key[8..].copy_from_slice(&post.key.to_be_bytes());
        let ask = admit::Ask {
            tenant: self.tenant,
            key,
            body: [7; 16],
            kind: "post".into(),
            category: self.category.into(),
            priority: self.priority,
            actor: Some(sealed(1)),
            content: sealed(2),
            delivery: self.delivery,
            personal: std::mem::take(&mut self.personal),
            options: std::mem::take(&mut self.options),
            audience: post.audience,
            tier_up: post.tier_up,
        };
        self.front(FrontAsk::Admit(Box::new(ask)))
    }

    /// A new event for a list. The tier is the test's choice: a threshold of zero makes every list a large one.
    pub fn post(&mut self, list: ListId, pointer: bool) -> Ulid {
        let (key, tier_up) = (self.draws, if pointer { 0 } else { 10_000 });
        admitted(self.admit(Post { key, audience: AskAudience::List(list), tier_up }))
    }

    /// A new event for explicit users of the shard.
    pub fn send(&mut self, members: &[UserNo]) -> Ulid {
        self.send_to(vec![(self.at, members.to_vec())])
    }

    pub fn send_to(&mut self, members: Vec<(ShardNo, Vec<UserNo>)>) -> Ulid {
        let (key, audience) = (self.draws, AskAudience::Members(members));
        admitted(self.admit(Post { key, audience, tier_up: 10_000 }))
    }

    /// Releases what is due, as much as goes at once, and returns how much that was.
    pub fn release(&mut self) -> usize {
        let mut due = Vec::new();
        self.read(PartitionId::Front(FRONT), |state| {
            scheduled::look_for_due(
                state.tables(),
                None,
                self.now,
                StepSizes::DEFAULT.released_events,
                &mut |id| {
                    due.push(id);
                    true
                },
            )
            .unwrap();
        });
        match self.front(FrontAsk::Release { due }) {
            FrontAnswer::Released { count } => count,
            other => panic!("{other:?}"),
        }
    }

    /// Closes windows that are over, as many as go at once, and returns how many that were.
    pub fn close_windows(&mut self) -> usize {
        let ends = self.read_shard(|state| {
            window::ends(state.tables(), Millis(0), self.now, StepSizes::DEFAULT.closed_windows).unwrap()
        });
        match self.shard(ShardAsk::CloseWindows { ends }) {
            ShardAnswer::Closed { count, .. } => count,
            other => panic!("{other:?}"),
        }
    }

    pub fn retract(&mut self, event: Ulid) -> FrontAnswer {
        self.front(FrontAsk::Retract { tenant: self.tenant, event })
    }

    /// Creates a user and returns its number.
    pub fn user(&mut self, name: u64) -> UserNo {
        let put = put_of(name, name + 100);
        self.shard(ShardAsk::PutUsers { tenant: self.tenant, users: vec![put] });
        self.number(name).unwrap()
    }

    pub fn number(&self, name: u64) -> Option<UserNo> {
        self.read_shard(|state| user::number(state.tables(), self.tenant, lookup(name)).unwrap())
    }

    pub fn delete_user(&mut self, name: u64) -> ShardAnswer {
        self.shard(ShardAsk::DeleteUser { tenant: self.tenant, lookup: lookup(name) })
    }

    pub fn edit(&mut self, change: Change, name: u64, list: ListId) -> EdgeAnswer {
        let edges = vec![AskEdge { user: lookup(name), list, name: sealed(3) }];
        match self.shard(ShardAsk::Edit { tenant: self.tenant, edit: Edit { change, edges } }) {
            ShardAnswer::Edges(answers) => answers[0],
            other => panic!("{other:?}"),
        }
    }

    pub fn join(&mut self, name: u64, list: ListId) {
        assert_eq!(self.edit(Change::Join, name, list), EdgeAnswer::Changed);
    }

    pub fn leave(&mut self, name: u64, list: ListId) {
        assert_eq!(self.edit(Change::Leave, name, list), EdgeAnswer::Changed);
    }

    pub fn mark(&mut self, user: UserNo, mark: Mark, arrivals: &[u64]) -> ShardAnswer {
        let arrivals = arrivals.iter().copied().map(Arrival).collect();
        self.shard(ShardAsk::Mark { tenant: self.tenant, user, mark: mark::Ask::Some { mark, arrivals } })
    }

    pub fn mark_all(&mut self, user: UserNo, mark: Mark, through: u64) -> ShardAnswer {
        let through = Arrival(through);
        self.shard(ShardAsk::Mark { tenant: self.tenant, user, mark: mark::Ask::All { mark, through } })
    }

    /// One whole round of retention, as the housekeeping loop does it.
    pub fn expire(&mut self, retention_days: u32) {
        let mut swept = None;
        loop {
            let ask = ShardAsk::Expire { tenant: self.tenant, retention_days, swept };
            match self.shard(ask) {
                ShardAnswer::Expired(expire::Progress { outdated, swept: place })
                    if outdated || place.is_some() =>
                {
                    swept = place;
                }
                ShardAnswer::Expired(_) => return,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Everything past the guard goes.
    pub fn sweep(&mut self) {
        let mut behind = Arrival::START;
        loop {
            match self.shard(ShardAsk::Sweep { tenant: self.tenant, behind, guard_ms: GUARD_MS }) {
                ShardAnswer::Swept(SweepNext { behind: Some(next), .. }) => behind = next,
                ShardAnswer::Swept(SweepNext { behind: None, .. }) => return,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Does what the to-do rows of a shard ask for, as the errand loop does it.
    pub fn run_errands(&mut self) {
        let (sizes, keys) = self.read_shard(|state| {
            let todos = todo::waiting(state.tables(), 256).unwrap();
            let keys: Vec<(TenantId, KeyNo)> = todos.iter().filter_map(|todo| key_of(*todo)).collect();
            (report::sizes_to_report(state.tables(), &todos).unwrap(), keys)
        });
        if !sizes.is_empty() {
            self.front(FrontAsk::Counted { shard: self.at, sizes: sizes.clone() });
            self.shard(ShardAsk::Reported { sizes });
        }
        if !keys.is_empty() {
            self.shard(ShardAsk::Shredded { keys });
        }
    }

    pub fn progress(&self) -> Progress {
        self.read_shard(|state| progress::find(state.tables(), self.tenant).unwrap())
    }

    pub fn todos(&self) -> Vec<Todo> {
        self.read_shard(|state| todo::waiting(state.tables(), 256).unwrap())
    }

    pub fn inbox<T>(&self, user: UserNo, with: impl FnOnce(&UserInbox<'_>) -> T) -> T {
        let (policies, reader) = (self.policies(), (self.tenant, user));
        self.read_shard(|state| {
            let opened =
                UserInbox::open(state.tables(), state.inbox(), &FromTables, reader, &policies, self.now);
            with(&opened.unwrap())
        })
    }

    pub fn counts(&self, user: UserNo) -> Counts {
        self.inbox(user, |inbox| inbox.counts().unwrap())
    }

    /// All entries of a user, newest first, read in pages of the given size.
    pub fn pages(&self, user: UserNo, direction: Direction, state: Filter, limit: usize) -> Vec<Entry> {
        self.inbox(user, |inbox| walk(inbox, direction, state, limit))
    }

    /// The arrivals of everything a user has, oldest first.
    pub fn arrivals(&self, user: UserNo) -> Vec<u64> {
        let entries = self.pages(user, Direction::OldestFirst, Filter::All, 7);
        entries.into_iter().map(|entry| entry.arrival.0).collect()
    }

    pub fn events(&self, user: UserNo) -> Vec<Ulid> {
        let entries = self.pages(user, Direction::OldestFirst, Filter::All, 7);
        entries.into_iter().map(|entry| entry.event).collect()
    }
}

/// Tables that count the rows which are read.
struct Counting<'a> {
    tables: &'a dyn Tables,
    reads: Cell<usize>,
}

impl Tables for Counting<'_> {
    fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        self.reads.set(self.reads.get() + 1);
        self.tables.read(key, visit)
    }

    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        self.tables.scan(range, order, &mut |key, value| {
            self.reads.set(self.reads.get() + 1);
            visit(key, value)
        })
    }
}

/// Reads page after page until there is none.
pub fn walk(inbox: &UserInbox<'_>, direction: Direction, state: Filter, limit: usize) -> Vec<Entry> {
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let found = inbox.page(direction, from, state, limit).unwrap();
        assert!(found.entries.len() <= limit, "a page holds at most what was asked for");
        all.extend(found.entries);
        match found.resume {
            Some(resume) => from = Some(resume),
            None => return all,
        }
    }
}

pub fn admitted(answer: FrontAnswer) -> Ulid {
    match answer {
        FrontAnswer::Admitted(event) => event,
        other => panic!("{other:?}"),
    }
}

fn key_of(todo: Todo) -> Option<(TenantId, KeyNo)> {
    match todo {
        Todo::Shred { tenant, key } => Some((tenant, key)),
        Todo::Report { .. }
        | Todo::Claim { .. }
        | Todo::Release(_)
        | Todo::Replan { .. }
        | Todo::Fold { .. }
        | Todo::Digest { .. }
        | Todo::Halt { .. }
        | Todo::Erase { .. } => None,
    }
}

/// A new user with a key of its own and an empty profile.
pub fn put_of(name: u64, key: u64) -> Put {
    Put {
        lookup: lookup(name),
        minted: true,
        condition: PutCondition::Always,
        id: sealed(key),
        attributes: sealed(key),
        locale: String::new(),
        zone: ZoneNo::NONE,
        profile: Vec::new(),
        kept: ChannelSet::EMPTY,
    }
}

pub fn lookup(name: u64) -> Lookup {
    let mut bytes = [0xAA; 16];
    bytes[8..].copy_from_slice(&name.to_be_bytes());
    Lookup(bytes)
}

/// An actor's list for even numbers, a topic for odd ones.
pub fn list(no: u64) -> ListId {
    let mut bytes = [0xBB; 16];
    bytes[8..].copy_from_slice(&no.to_be_bytes());
    ListId(bytes)
}

pub fn sealed(key: u64) -> Sealed {
    Sealed { key: KeyNo(key), nonce: [9; 12], bytes: key.to_be_bytes().to_vec() }
}
