//! What readers cannot see and must hold all the same: that runs are merged, dropped and saved as promised.

use super::keys::{self, Family};
use super::*;
use crate::inbox::run::Look;
use fantail_conformance::block_on;
use fantail_ports::inbox::{ArrivalRange, Audience, Forget, Reader, Window, WindowEvent};
use fantail_ports::lists::{ListEdit, ListKey};
use fantail_ports::store::Tended;
use fantail_ports::tables::COLUMNS;
use fantail_rules::ids::{Arrival, ListId, ShardNo, TenantId, UserNo};
use fantail_rules::interval::Intervals;

const SHARD: PartitionId = PartitionId::Shard(ShardNo(2));
const TENANT: TenantId = TenantId(9);
const LIST: ListKey = ListKey { tenant: TENANT, list: ListId([1; 16]) };
const EVERYTHING: ArrivalRange = ArrivalRange { after: Arrival(0), before: Arrival(u64::MAX) };

/// A store in a directory of its own, and what was said to it.
struct Bench {
    store: Option<LocalStore>,
    options: StoreOptions,
    through: u64,
    arrival: u64,
}

impl Bench {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("fantail-store-{}-{name}", std::process::id()));
        if directory.exists() {
            std::fs::remove_dir_all(&directory).expect("what a killed process left can be removed");
        }
        let tiers = TierOptions { fan_in: 3, fan_in_small: 4, small_entries: 16, run_entries_max: 1 << 20 };
        let options = StoreOptions { window_events_min: 1, tiers, ..StoreOptions::new(directory) };
        let store = Some(LocalStore::open(options.clone()).expect("an empty directory opens"));
        Self { store, options, through: 0, arrival: 0 }
    }

    fn store(&self) -> &LocalStore {
        self.store.as_ref().expect("the bench has a store until it is dropped")
    }

    fn reopen(&mut self) {
        drop(self.store.take());
        self.store = Some(LocalStore::open(self.options.clone()).expect("what was synced opens"));
    }

    fn commit(&mut self, commit: Commit) {
        self.through += 1;
        let commit = Commit { through: Position(self.through), ..commit };
        self.store().commit(SHARD, commit).expect("a healthy store takes commits");
    }

    fn event(&mut self, audience: Audience) {
        self.arrival += 1;
        let events = vec![WindowEvent { arrival: Arrival(self.arrival), audience }];
        self.commit(Commit { windows: vec![Window { tenant: TENANT, events }], ..Commit::default() });
    }

    fn sync(&self) {
        block_on(self.store().sync()).expect("a healthy store syncs");
    }

    fn tend_all(&self) {
        while self.store().tend().expect("a healthy store is tended") == Tended::MoreWaiting {}
    }

    /// Entries of a user that lie in runs, whether or not anyone may see them.
    fn entries_stored(&self, user: u64) -> u64 {
        let runs = self.store().shared.index.at(SHARD).runs;
        let mut buffer = Vec::new();
        let mut look = Look::new(TENANT, UserNo(user), EVERYTHING, &mut buffer);
        runs.iter().map(|run| run.count(&mut look).expect("a healthy store counts")).sum()
    }

    fn runs(&self) -> u64 {
        self.store().gauges().runs
    }

    fn main_rows(&self, family: Family) -> usize {
        self.store().shared.rows.main.prefix(keys::prefix(SHARD, family)).count()
    }

    fn count(&self, user: u64) -> u64 {
        self.count_in(user, EVERYTHING)
    }

    fn count_in(&self, user: u64, range: ArrivalRange) -> u64 {
        let reader = Reader { tenant: TENANT, user: UserNo(user), follows: &[] };
        let mut count = 0;
        let mut read = |view: &dyn View| {
            count = view.inbox().count(&reader, range).expect("a healthy store counts");
        };
        self.store().read(SHARD, &mut read).expect("a healthy store reads");
        count
    }

    fn members(&self) -> usize {
        let mut count = 0;
        let mut read = |view: &dyn View| {
            count = view.lists().members(LIST, None, 9_999).expect("a healthy store reads lists").len();
        };
        self.store().read(SHARD, &mut read).expect("a healthy store reads");
        count
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        drop(self.store.take());
        // What is left behind in the temporary directory is the operating system's to clean.
        let _left = std::fs::remove_dir_all(&self.options.directory);
    }
}

fn to(users: &[u64]) -> Audience {
    Audience::Members(users.iter().copied().map(UserNo).collect())
}

fn edit(user: u64, intervals: Intervals) -> Commit {
    let edits =
        vec![ListEdit { key: LIST, user: UserNo(user), intervals, at: Arrival(0), floor: Arrival(u64::MAX) }];
    Commit { edits, ..Commit::default() }
}

// proves: INB-06, INB-09
#[test]
fn runs_stay_few_and_counts_exact() {
    let mut bench = Bench::new("few-runs");
    for _ in 0..2_500 {
        bench.event(to(&[7]));
        bench.tend_all();
        assert!(bench.runs() <= 16, "merged without a reader: {}", bench.runs());
    }
    for after in (0..2_510).step_by(37) {
        for before in (after..2_600).step_by(91) {
            let range = ArrivalRange { after: Arrival(after), before: Arrival(before) };
            let expected = before.min(2_501).saturating_sub(after + 1);
            assert_eq!(bench.count_in(7, range), expected, "{range:?}");
        }
    }
    bench.reopen();
    assert_eq!(bench.count(7), 0, "nothing was synced, so nothing is reached");
}

#[test]
fn windows_are_saved_until_they_are_runs() {
    let mut bench = Bench::new("saved-windows");
    for _ in 0..5 {
        bench.event(to(&[7]));
    }
    bench.sync();
    assert_eq!(bench.main_rows(Family::Window), 1);
    bench.reopen();
    assert_eq!((bench.count(7), bench.store().gauges().window_events), (5, 5));
    bench.tend_all();
    assert_eq!((bench.count(7), bench.store().gauges().window_events), (5, 0));
    assert_eq!(bench.main_rows(Family::Window), 1, "the sync point still has them");
    bench.sync();
    assert_eq!(bench.main_rows(Family::Window), 0);
    bench.reopen();
    assert_eq!((bench.count(7), bench.store().gauges().window_events), (5, 0));
}

#[test]
fn a_window_that_waits_to_be_filled_is_no_backlog() {
    let mut bench = Bench::new("backlog");
    bench.options.window_events_min = 3;
    bench.reopen();
    for expected in [0, 0, 3, 4] {
        bench.event(to(&[7]));
        assert_eq!(bench.store().gauges().backlog_events, expected);
    }
    bench.tend_all();
    assert_eq!(bench.store().gauges().backlog_events, 0, "what is due is written");
}

#[test]
fn members_who_left_are_dropped_once_nothing_needs_them() {
    let mut bench = Bench::new("left-members");
    let mut stays = Intervals::default();
    stays.open(Arrival(0));
    bench.commit(edit(1, stays.clone()));
    bench.commit(edit(2, stays.clone()));
    bench.event(Audience::List(LIST.list));
    stays.close(Arrival(1));
    bench.commit(edit(1, stays.clone()));
    assert_eq!(bench.members(), 2, "the event is not materialised");
    bench.tend_all();
    stays.open(Arrival(1));
    bench.commit(edit(2, stays));
    assert_eq!(bench.members(), 1, "dropped when the page was rewritten");
    assert_eq!((bench.count(1), bench.count(2)), (1, 1));
}

// proves: INB-09
#[test]
fn what_is_forgotten_leaves_the_disk() {
    let mut bench = Bench::new("forgotten");
    for _ in 0..60 {
        bench.event(to(&[7, 8]));
        bench.tend_all();
    }
    assert_eq!((bench.entries_stored(7), bench.entries_stored(8)), (60, 60));
    let through = Forget::Through { tenant: TENANT, arrival: Arrival(40) };
    bench.commit(Commit { forgets: vec![through], ..Commit::default() });
    bench.tend_all();
    let left = bench.entries_stored(7);
    assert!((20..40).contains(&left), "runs that are mostly expired are rewritten, {left} entries are left");
    let user = Forget::User { tenant: TENANT, user: UserNo(7) };
    bench.commit(Commit { forgets: vec![user], ..Commit::default() });
    bench.sync();
    assert_eq!(bench.main_rows(Family::Forgetting), 1, "a crash does not forget to forget");
    bench.reopen();
    bench.tend_all();
    bench.sync();
    assert_eq!((bench.entries_stored(7), bench.count(8)), (0, 20));
    let kept = bench.entries_stored(8);
    assert!((20..=left).contains(&kept), "what is rewritten anyway loses its expired entries: {kept}");
    assert_eq!(bench.main_rows(Family::Forgetting), 0);
}

// proves: INB-09
#[test]
fn an_erased_user_does_not_come_back_from_a_window() {
    let mut bench = Bench::new("erased");
    bench.options.window_events_min = 3;
    bench.reopen();
    bench.event(to(&[7, 8]));
    bench.sync();
    let user = Forget::User { tenant: TENANT, user: UserNo(7) };
    bench.commit(Commit { forgets: vec![user], ..Commit::default() });
    bench.tend_all();
    bench.sync();
    assert_eq!(bench.main_rows(Family::Forgetting), 1, "the saved window still has the user");
    bench.reopen();
    bench.event(to(&[8]));
    bench.event(to(&[8]));
    bench.tend_all();
    assert_eq!((bench.entries_stored(7), bench.entries_stored(8)), (0, 3));
    bench.sync();
    assert_eq!(bench.main_rows(Family::Forgetting), 0);
}

// proves: FAN-08
#[test]
fn slices_and_stripes_lose_nothing() {
    for (window_pairs_max, transpose_pairs_max) in
        [(usize::MAX, 10_000), (200_000, 10_000), (1, 500), (1, 999_999)]
    {
        let mut bench = Bench::new(&format!("stripes-{window_pairs_max}-{transpose_pairs_max}"));
        bench.options = StoreOptions { window_pairs_max, transpose_pairs_max, ..bench.options.clone() };
        bench.reopen();
        let mut stays = Intervals::default();
        stays.open(Arrival(0));
        let users = (0..3_000u64).map(|user| user * 97);
        let edits: Vec<_> = users
            .map(|user| ListEdit {
                key: LIST,
                user: UserNo(user),
                intervals: stays.clone(),
                at: Arrival(0),
                floor: Arrival(u64::MAX),
            })
            .collect();
        bench.commit(Commit { edits, ..Commit::default() });
        let events = (1..=200).map(|arrival| {
            let audience =
                if arrival % 10 == 0 { to(&[97, 98, u64::MAX]) } else { Audience::List(LIST.list) };
            WindowEvent { arrival: Arrival(arrival), audience }
        });
        let windows = vec![Window { tenant: TENANT, events: events.collect() }];
        bench.commit(Commit { windows, ..Commit::default() });
        bench.tend_all();
        assert_eq!(bench.store().gauges().entries_written, 180 * 3_000 + 60);
        let found = [0, 97, 98, 97 * 1_234, 97 * 2_999, 97 * 3_000, u64::MAX].map(|user| bench.count(user));
        assert_eq!(found, [180, 200, 20, 180, 180, 0, 20]);
    }
}

#[test]
fn an_interrupted_restore_and_a_newer_format_are_refused() {
    let mut bench = Bench::new("refused");
    let put = |value: Vec<u8>, store: &LocalStore| {
        let rows = &store.shared.rows;
        let row = (keys::SYNC_POINT.into(), Some(value.into()));
        rows.write_durable(1, std::iter::once(row)).expect("a healthy store writes");
    };
    put(sync_point::encode(sync_point::State::Restoring, &Marks::new()), bench.store());
    drop(bench.store.take());
    let refused = LocalStore::open(bench.options.clone()).err();
    assert!(matches!(refused, Some(StoreError::Damaged { .. })), "{refused:?}");
    let rows = Rows::open(&bench.options).expect("the database opens");
    let row = (keys::SYNC_POINT.into(), Some([0, 0, 0, 2, 0, 0].into()));
    rows.write_durable(1, std::iter::once(row)).expect("a healthy store writes");
    drop(rows);
    let refused = LocalStore::open(bench.options.clone()).err();
    assert!(matches!(refused, Some(StoreError::NewerFormat { found: 2, known: 1, .. })), "{refused:?}");
}

/// Its last batch may be half written: it is not torn.
#[test]
fn a_database_that_is_in_use_is_refused_and_nothing_is_cut_off() {
    use std::os::unix::fs::FileExt;
    let bench = Bench::new("in-use");
    let rows = &bench.store().shared.rows;
    rows.write_durable(1, std::iter::once((b"key"[..].into(), Some(b"value"[..].into())))).expect("room");
    let path = bench.options.directory.join("rows/0.jnl");
    let end = std::fs::read(&path).expect("a log").iter().rposition(|byte| *byte != 0).expect("a batch") + 1;
    let log = std::fs::OpenOptions::new().write(true).open(&path).expect("a log");
    log.write_all_at(&[1, 2, 3], end as u64).expect("room");
    let before = std::fs::read(&path).expect("a log");
    let refused = LocalStore::open(bench.options.clone()).err();
    assert!(matches!(refused, Some(StoreError::Io { .. })), "{refused:?}");
    assert!(std::fs::read(&path).expect("a log") == before, "it is as it was");
}

#[test]
fn asking_for_merges_changes_no_row() {
    let mut bench = Bench::new("merges");
    drop(bench.store.take());
    let options = StoreOptions { ingest_rows_min: 4, ..bench.options.clone() };
    let rows = Rows::open(&options).expect("the database opens");
    let key = |no: u32| [&[9, 9, 9][..], &no.to_be_bytes()].concat();
    for round in 0..24u32 {
        // Every other round is ingested, the others are batches.
        let count = 3 + round % 2;
        let written = (0..count).map(|no| (key(no).into(), Some(round.to_be_bytes().into())));
        rows.write_durable(count as usize, written).expect("a healthy database writes");
        rows.ask_for_merge().expect("a healthy database merges");
    }
    let all = |rows: &Rows| {
        let rows = rows.main.iter().map(|guard| rows::taken(guard).expect("rows are readable"));
        rows.map(|(key, value)| (key.to_vec(), value.to_vec())).collect::<Vec<_>>()
    };
    let expected: Vec<_> = (0..4).map(|no| (key(no), 23u32.to_be_bytes().to_vec())).collect();
    assert_eq!(all(&rows), expected);
    drop(rows);
    assert_eq!(all(&Rows::open(&options).expect("the database opens")), expected);
}

/// Read in order, so that most come with the one before; then some are changed, deleted or new, before and after a sync.
#[test]
fn columns_that_are_read_together_are_the_newest_ones() {
    const PAGES: u64 = 200;
    let key = |page: u64| [&[COLUMNS], &TENANT.0.to_be_bytes()[..], &page.to_be_bytes()].concat();
    let mut bench = Bench::new("columns");
    let mut model: BTreeMap<u64, u8> =
        (0..PAGES).filter(|page| page % 7 != 3).map(|page| (page, 1)).collect();
    let rows = |model: &BTreeMap<u64, u8>| {
        model.iter().map(|(page, value)| (key(*page), Some(vec![*value]))).collect()
    };
    bench.commit(Commit { changes: rows(&model), ..Commit::default() });
    let check = |bench: &Bench, model: &BTreeMap<u64, u8>, when: &str| {
        bench
            .store()
            .read(SHARD, &mut |view| {
                for page in 0..PAGES {
                    let found = view.tables().get(&key(page)).expect("a healthy store reads");
                    assert_eq!(found, model.get(&page).map(|value| vec![*value]), "{when}: {page}");
                }
            })
            .expect("a healthy store reads");
    };
    check(&bench, &model, "committed");
    bench.sync();
    bench.reopen();
    check(&bench, &model, "read from the disk");
    for round in 2..5 {
        let changed = [(round * 30, Some(round as u8)), (round * 30 + 1, None), (7 * round + 3, Some(9))];
        for (page, to) in changed {
            match to {
                Some(value) => drop(model.insert(page, value)),
                None => drop(model.remove(&page)),
            }
        }
        let changes =
            changed.into_iter().map(|(page, to)| (key(page), to.map(|value| vec![value]))).collect();
        bench.commit(Commit { changes, ..Commit::default() });
        check(&bench, &model, "changed");
        bench.sync();
        check(&bench, &model, "changed and synced");
    }
    bench.reopen();
    check(&bench, &model, "read again");
}
