//! One partition in memory: its position, the overlay over the database, and its inbox's recent windows.
//!
//! A commit is folded, and a sync point taken, under one write lock: neither ever sees part of the other.

use super::StoreOptions;
use super::inbox::UserInbox;
use super::keys;
use super::lists::{Pages, lists_of};
use super::overlay::{MergedTables, Overlay, PageMap};
use super::pack::{Cut, put_number};
use super::recent::Recent;
use super::rows::Rows;
use super::windows::{self, Chunk};
use crate::inbox::Runs;
use crate::inbox::hot::Hot;
use fantail_ports::inbox::{ArrivalRange, Forget, Inbox, Reader, Window};
use fantail_ports::lists::{ListEdit, ListKey, Lists, Member};
use fantail_ports::store::{Commit, StoreError, View};
use fantail_ports::tables::{KeyRange, Order, Read, Tables, TablesError, Visit};
use fantail_rules::ids::{Arrival, PartitionId, Position, TenantId, UserNo};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub struct Partition {
    pub id: PartitionId,
    pub position: Position,
    active: Overlay,
    /// What a running sync is writing.
    frozen: Option<Arc<Overlay>>,
    pub tenants: BTreeMap<TenantId, TenantInbox>,
    /// Tenants whose row or windows differ from the last sync point.
    unsaved: BTreeSet<TenantId>,
    /// Users whose entries are still to be erased, with the arrival that was reached when that was asked.
    pub forgetting: BTreeMap<(TenantId, UserNo), Arrival>,
    /// Everything that is materialised.
    pub runs: Runs,
    /// Recent events, and explicit pairs in them, of all tenants.
    pub waiting: Waiting,
}

/// What fan-out has before it.
#[derive(Clone, Copy, Default)]
pub struct Waiting {
    pub events: usize,
    pub explicit_pairs: usize,
}

#[derive(Default)]
pub struct TenantInbox {
    /// Every entry at or below is in a run. May be ahead of `reached` while the journal is replayed.
    pub materialised_through: Arrival,
    /// The newest arrival that was committed.
    pub reached: Arrival,
    /// No reader asks for anything at or below.
    pub forgotten_through: Arrival,
    pub recent: Recent,
    /// Events since the last sync point, packed for the next one.
    unsaved: Vec<Chunk>,
    /// First and last arrival of the window rows in the database.
    pub chunks: VecDeque<(Arrival, Arrival)>,
}

/// What a sync writes for one partition.
pub struct Frozen {
    pub partition: PartitionId,
    pub position: Position,
    pub overlay: Arc<Overlay>,
}

impl Partition {
    pub fn new(id: PartitionId) -> Self {
        Self {
            id,
            position: Position::START,
            active: Overlay::default(),
            frozen: None,
            tenants: BTreeMap::new(),
            unsaved: BTreeSet::new(),
            forgetting: BTreeMap::new(),
            runs: Runs::default(),
            waiting: Waiting::default(),
        }
    }

    /// Folds a commit. If it fails nothing was folded.
    pub fn fold(&mut self, rows: &Rows, commit: Commit) -> Result<(), StoreError> {
        assert!(commit.through > self.position, "commits of a partition ascend");
        let pages = self.edited_pages(rows, &commit.edits)?;
        self.position = commit.through;
        self.active.put_tables(commit.changes);
        pages.into_iter().for_each(|(key, page)| self.active.put_page(key, page));
        commit.windows.into_iter().for_each(|window| self.fold_window(window));
        commit.forgets.into_iter().for_each(|forget| self.fold_forget(forget));
        Ok(())
    }

    fn edited_pages(&self, rows: &Rows, edits: &[ListEdit]) -> Result<PageMap, TablesError> {
        let (pages, mut edited) = (self.pages(rows, None), PageMap::new());
        // Stable: of two edits of one member the later one stays the later one, and is the one that counts.
        let mut sorted: Vec<&ListEdit> = edits.iter().collect();
        sorted.sort_by_key(|edit| (edit.key, edit.user));
        for of_list in sorted.chunk_by(|one, other| one.key == other.key) {
            let list = of_list[0].key;
            let materialised =
                self.tenants.get(&list.tenant).map_or(Arrival::START, |one| one.materialised_through);
            // What is still to be delivered asks the list, not the inbox.
            let horizon = of_list.iter().map(|edit| edit.floor).fold(materialised, Arrival::min);
            let of_users = of_list.chunk_by(|one, other| one.user == other.user);
            let last: Vec<&ListEdit> = of_users.filter_map(|edits| edits.last().copied()).collect();
            pages.edit(list, &last, horizon, &mut edited)?;
        }
        Ok(edited)
    }

    fn fold_window(&mut self, window: Window) {
        let tenant = self.tenants.entry(window.tenant).or_default();
        self.waiting.leave(&tenant.recent);
        for event in window.events {
            assert!(event.arrival > tenant.reached, "arrivals of a tenant ascend");
            tenant.reached = event.arrival;
            // After a crash the journal brings windows again whose entries are in runs already.
            if event.arrival > tenant.materialised_through {
                self.active.bytes += 64;
                windows::pack(&mut tenant.unsaved, &event);
                tenant.recent.push(event);
            }
        }
        self.waiting.join(&tenant.recent);
        self.unsaved.insert(window.tenant);
    }

    fn fold_forget(&mut self, forget: Forget) {
        match forget {
            Forget::Through { tenant, arrival } => {
                let inbox = self.tenants.entry(tenant).or_default();
                inbox.forgotten_through = inbox.forgotten_through.max(arrival);
                self.unsaved.insert(tenant);
            }
            Forget::User { tenant, user } => {
                let inbox = self.tenants.entry(tenant).or_default();
                self.waiting.leave(&inbox.recent);
                inbox.recent.forget_user(user);
                self.waiting.join(&inbox.recent);
                let mut value = Vec::new();
                put_number(&mut value, inbox.reached.0);
                self.forgetting.insert((tenant, user), inbox.reached);
                self.active.put_note(keys::forgetting(self.id, tenant, user), Some(value));
            }
        }
    }

    /// No run holds entries of these users. They are forgotten once no saved window can bring them back. Returns
    /// whether one was.
    pub fn erased(&mut self, users: &[((TenantId, UserNo), Arrival)]) -> bool {
        let mut any = false;
        for ((tenant, user), reached) in users {
            let through = self.tenants.get(tenant).map_or(*reached, |inbox| inbox.materialised_through);
            if through >= *reached && self.forgetting.remove(&(*tenant, *user)).is_some() {
                self.active.put_note(keys::forgetting(self.id, *tenant, *user), None);
                any = true;
            }
        }
        any
    }

    /// Runs now hold everything of these tenants through these arrivals.
    pub fn materialised(&mut self, through: &BTreeMap<TenantId, Arrival>, runs: Runs) {
        self.runs = runs;
        for (tenant, arrival) in through {
            let Some(inbox) = self.tenants.get_mut(tenant) else { continue };
            inbox.materialised_through = *arrival;
            self.unsaved.insert(*tenant);
        }
    }

    /// Takes up to `limit` events that are in runs out of the recent windows. Returns whether more are left.
    pub fn drop_some(&mut self, tenant: TenantId, through: Arrival, limit: usize) -> bool {
        let Some(inbox) = self.tenants.get_mut(&tenant) else { return false };
        self.waiting.leave(&inbox.recent);
        let more = inbox.recent.drop_some(through, limit);
        self.waiting.join(&inbox.recent);
        more
    }

    /// Takes everything since the last sync point; readers see it until [`thaw`](Partition::thaw).
    pub fn freeze(&mut self) -> Frozen {
        assert!(self.frozen.is_none(), "one sync runs at a time");
        for tenant in std::mem::take(&mut self.unsaved) {
            self.save_tenant(tenant);
        }
        let overlay = Arc::new(std::mem::take(&mut self.active));
        self.frozen = Some(Arc::clone(&overlay));
        Frozen { partition: self.id, position: self.position, overlay }
    }

    /// The database holds what was frozen. The caller drops it outside of the lock: it may be large.
    pub fn thaw(&mut self, rows: &Rows) -> Option<Arc<Overlay>> {
        let frozen = self.frozen.take()?;
        rows.kept.forget(self.id, lists_of(&frozen.pages));
        rows.columns.forget(self.id, frozen.tables.iter().map(|(key, _)| key));
        Some(frozen)
    }

    fn save_tenant(&mut self, tenant: TenantId) {
        let Some(inbox) = self.tenants.get_mut(&tenant) else { return };
        let mut value = Vec::new();
        put_number(&mut value, inbox.reached.0);
        put_number(&mut value, inbox.forgotten_through.0);
        // Windows below it are no rows any more: the inbox index must hold them for ever.
        put_number(&mut value, inbox.materialised_through.0);
        self.active.put_note(keys::tenant(self.id, tenant), Some(value));
        while let Some((first, _)) =
            inbox.chunks.pop_front_if(|(_, last)| *last <= inbox.materialised_through)
        {
            self.active.put_note(keys::window(self.id, tenant, first), None);
        }
        for chunk in std::mem::take(&mut inbox.unsaved) {
            if chunk.last > inbox.materialised_through {
                inbox.chunks.push_back((chunk.first, chunk.last));
                self.active.put_note(keys::window(self.id, tenant, chunk.first), Some(chunk.bytes));
            }
        }
    }

    pub fn pages<'a>(&'a self, rows: &'a Rows, newest: Option<&'a PageMap>) -> Pages<'a> {
        let frozen = self.frozen.as_ref().map(|frozen| &frozen.pages);
        Pages {
            rows,
            partition: self.id,
            layers: [newest, Some(&self.active.pages), frozen],
            is_settled: frozen.is_none(),
        }
    }

    pub fn unsynced_bytes(&self) -> u64 {
        self.active.bytes + self.frozen.as_ref().map_or(0, |frozen| frozen.bytes)
    }

    /// Puts a tenant in that was read from the database.
    pub fn load_tenant(&mut self, tenant: TenantId, inbox: TenantInbox) {
        self.waiting.join(&inbox.recent);
        self.tenants.insert(tenant, inbox);
    }
}

impl Waiting {
    /// Whether a run is worth writing.
    pub fn is_due(self, options: &StoreOptions) -> bool {
        self.events >= options.window_events_min.max(1)
            || self.explicit_pairs >= options.window_pairs_min.max(1)
    }

    fn join(&mut self, recent: &Recent) {
        self.events += recent.len();
        self.explicit_pairs += recent.explicit_pairs();
    }

    fn leave(&mut self, recent: &Recent) {
        self.events -= recent.len();
        self.explicit_pairs -= recent.explicit_pairs();
    }
}

/// The row of a tenant.
pub struct TenantRow {
    /// How far its windows are.
    pub reached: Arrival,
    /// How far its retention is.
    pub forgotten_through: Arrival,
    /// How far the inbox index was when the row was written; 0 in rows from before this was said.
    pub materialised_through: Arrival,
}

pub fn decode_tenant(value: &[u8]) -> Option<TenantRow> {
    let mut cut = Cut(value);
    let (reached, forgotten_through) = (Arrival(cut.number()?), Arrival(cut.number()?));
    let materialised_through = if cut.is_empty() { Arrival::START } else { Arrival(cut.number()?) };
    Some(TenantRow { reached, forgotten_through, materialised_through })
}

/// A partition as a reader sees it, under its read lock.
pub struct PartitionView<'a> {
    pub partition: &'a Partition,
    pub rows: &'a Rows,
    pub hot: &'a Hot,
}

impl View for PartitionView<'_> {
    fn position(&self) -> Position {
        self.partition.position
    }

    fn tables(&self) -> &dyn Tables {
        self
    }

    fn lists(&self) -> &dyn Lists {
        self
    }

    fn inbox(&self) -> &dyn Inbox {
        self
    }
}

impl PartitionView<'_> {
    fn merged(&self) -> MergedTables<'_> {
        let Partition { id, active, frozen, .. } = self.partition;
        let frozen = frozen.as_ref().map(|frozen| &frozen.tables);
        MergedTables { rows: self.rows, partition: *id, active: &active.tables, frozen }
    }

    fn user_inbox(&self, reader: &Reader<'_>) -> Option<UserInbox<'_>> {
        let tenant = self.partition.tenants.get(&reader.tenant)?;
        Some(UserInbox::new(&self.partition.runs, self.hot, self.partition.id, tenant, reader))
    }
}

impl Tables for PartitionView<'_> {
    fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        self.merged().read(key, visit)
    }

    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        self.merged().scan(range, order, visit)
    }
}

impl Lists for PartitionView<'_> {
    fn members(
        &self,
        list: ListKey,
        after: Option<UserNo>,
        limit: usize,
    ) -> Result<Vec<Member>, TablesError> {
        self.partition.pages(self.rows, None).members(list, after, limit)
    }
}

impl Inbox for PartitionView<'_> {
    fn page(
        &self,
        reader: &Reader<'_>,
        range: ArrivalRange,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<Arrival>, TablesError> {
        match self.user_inbox(reader) {
            Some(inbox) => inbox.page(reader, range, newest_first, limit),
            None => Ok(Vec::new()),
        }
    }

    fn count(&self, reader: &Reader<'_>, range: ArrivalRange) -> Result<u64, TablesError> {
        match self.user_inbox(reader) {
            Some(inbox) => inbox.count(reader, range),
            None => Ok(0),
        }
    }
}
