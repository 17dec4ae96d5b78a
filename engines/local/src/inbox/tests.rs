//! The index against a disk that loses, tears, fills up and lies.
//!
//! What each user has is a function of the arrival, so after any crash the durable `through` says exactly what must
//! be there: everything at or below it, once, and nothing above.

use super::pairs::{Pairs, Spares};
use super::run::Look;
use super::*;
use crate::disk::{FaultDisk, Survival};
use fantail_ports::inbox::ArrivalRange;
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{ShardNo, UserNo};

const SHARD: PartitionId = PartitionId::Shard(ShardNo(3));
const TENANTS: [TenantId; 2] = [TenantId(4), TenantId(900)];
const USERS: [u64; 8] = [0, 1, 2, 70_000, 70_001, 200_000, 1 << 40, u64::MAX];
const TIERS: TierOptions =
    TierOptions { fan_in: 2, fan_in_small: 3, small_entries: 20, run_entries_max: 2_000 };

/// Whether a user has an event.
fn has(tenant: TenantId, user: u64, arrival: u64) -> bool {
    filter::hash(tenant.0, user ^ arrival << 20).is_multiple_of(3)
}

struct World {
    disk: FaultDisk,
    index: InboxIndex,
    gone: Gone,
    /// How many users were erased, and must not be looked for.
    erased: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = FaultDisk::new(seed);
        Self { index: open(&disk).expect("an empty disk opens"), disk, gone: Gone::default(), erased: 0 }
    }

    fn through(&self, tenant: TenantId) -> u64 {
        self.index.at(SHARD).through.get(&tenant).map_or(0, |through| through.0)
    }

    /// Writes a window of `span` arrivals for each tenant.
    fn window(&self, span: u64) -> Result<(), StoreError> {
        let mut writer = self.index.create(SHARD)?;
        let path = writer.path().to_owned();
        let mut through = BTreeMap::new();
        for tenant in TENANTS {
            let after = self.through(tenant);
            writer.begin_section(tenant, Arrival(after), Arrival(after + span))?;
            let spares = Spares::default();
            let mut pairs = Pairs::new(&spares);
            for user in USERS {
                let offsets =
                    (0..span as u16).filter(|offset| has(tenant, user, after + 1 + u64::from(*offset)));
                pairs.push(user, &offsets.collect::<Vec<_>>());
            }
            pairs.write(&mut writer)?;
            through.insert(tenant, Arrival(after + span));
        }
        let run = writer.finish().inspect_err(|_| self.index.abandon(&path))?;
        self.index.append(SHARD, run, &through, |_| {})
    }

    fn tidy(&self) -> Result<(), StoreError> {
        while self.index.tidy(SHARD, &self.gone, |_| {})? {}
        Ok(())
    }

    /// Some of everything. Ends early when the disk does.
    fn live(&mut self, windows: u64) -> Result<(), StoreError> {
        for window in 0..windows {
            self.window(5 + window % 7)?;
            self.tidy()?;
            if window % 5 == 4 {
                self.gone.through.insert(TENANTS[0], Arrival(self.through(TENANTS[0]) / 2));
            }
            if window % 6 == 5 && self.erased < 3 {
                self.erase()?;
            }
        }
        Ok(())
    }

    fn erase(&mut self) -> Result<(), StoreError> {
        let user = UserNo(USERS[self.erased]);
        self.erased += 1;
        self.gone.users.extend(TENANTS.map(|tenant| (tenant, user)));
        for run in self.index.at(SHARD).runs.iter() {
            self.index.purge(SHARD, run, &self.gone, |_| {})?;
        }
        Ok(())
    }

    fn check(&self, hint: &str) {
        let standing = self.index.at(SHARD);
        for tenant in TENANTS {
            let through = self.through(tenant);
            let horizon = self.gone.through(tenant).0;
            for user in &USERS[self.erased..] {
                for after in [horizon, horizon + (through - horizon) / 2, through] {
                    for before in [through + 1, through.saturating_sub(4).max(after + 1), u64::MAX] {
                        let range = ArrivalRange { after: Arrival(after), before: Arrival(before) };
                        let expected: Vec<_> = (after + 1..before.min(through + 1))
                            .filter(|arrival| has(tenant, *user, *arrival))
                            .map(Arrival)
                            .collect();
                        let found =
                            answers(&standing.runs, tenant, *user, range).expect("what is there is whole");
                        assert_eq!(found, expected, "user {user} of {tenant:?} in {range:?}, {hint}");
                    }
                }
            }
        }
    }
}

fn open(disk: &FaultDisk) -> Result<InboxIndex, StoreError> {
    InboxIndex::open(Arc::new(disk.clone()), PathBuf::from("/inbox"), TIERS)
}

/// What a user has inside a range: asked in every way there is.
fn answers(
    runs: &Runs,
    tenant: TenantId,
    user: u64,
    range: ArrivalRange,
) -> Result<Vec<Arrival>, TablesError> {
    let mut buffer = Vec::new();
    let mut look = Look::new(tenant, UserNo(user), range, &mut buffer);
    let (mut oldest, mut newest, mut count) = (Vec::new(), Vec::new(), 0);
    for run in runs.iter() {
        run.oldest(&mut look, usize::MAX, &mut oldest)?;
        count += run.count(&mut look)?;
    }
    for run in runs.iter().rev() {
        run.newest(&mut look, usize::MAX, &mut newest)?;
    }
    newest.reverse();
    assert_eq!(oldest, newest, "both directions see the same");
    assert_eq!(count, oldest.len() as u64, "a count counts them");
    Ok(oldest)
}

// proves: INB-09, INB-14, NFR-03
#[test]
fn every_step_can_be_the_last_one() {
    let mut cuts = 0;
    for seed in 0..4 {
        for survival in [Survival::Nothing, Survival::Everything, Survival::Chance] {
            for cut in 0.. {
                let mut world = World::new(seed);
                world.disk.short_writes(seed % 2 == 1);
                world.disk.cut_after(cut * (1 + seed));
                if world.live(14).is_ok() {
                    break;
                }
                let before = TENANTS.map(|tenant| world.through(tenant));
                world.disk.power_cut(survival);
                world.index = open(&world.disk).expect("what a power cut leaves opens");
                for (tenant, before) in TENANTS.iter().zip(before) {
                    assert!(world.through(*tenant) >= before, "what was told stays");
                }
                // An erasure that was under way begins again with what the store remembers of it.
                world.check(&format!("seed {seed}, {survival:?}, after {cut} changes"));
                world.live(4).expect("a healthy disk");
                world.check("and life goes on");
                cuts += 1;
            }
        }
    }
    assert!(cuts > 1_000, "only {cuts} cuts");
}

#[test]
fn nothing_is_left_behind() {
    let mut world = World::new(7);
    world.live(20).expect("a healthy disk");
    let named = world.index.at(SHARD).runs.len() + 1;
    assert_eq!(world.disk.paths().len(), named, "replaced runs are gone: {:?}", world.disk.paths());
    let unnamed = world.index.create(SHARD).expect("a healthy disk");
    drop(unnamed);
    assert_eq!(world.disk.paths().len(), named + 1);
    world.index = open(&world.disk).expect("a healthy disk");
    assert_eq!(world.disk.paths().len(), named, "what nothing names is removed at the start");
    let gone = Gone { through: TENANTS.map(|tenant| (tenant, Arrival(u64::MAX))).into(), ..Gone::default() };
    world.gone = gone;
    world.tidy().expect("a healthy disk");
    assert_eq!(world.index.gauges().entries, 0, "what retention passed is dropped");
    assert_eq!(world.disk.paths().len(), 1);
}

#[test]
fn a_full_disk_loses_nothing_and_goes_on_later() {
    let mut world = World::new(3);
    world.live(6).expect("a healthy disk");
    for room in [0, 60, 200] {
        world.disk.set_capacity(world.disk.used_bytes() + room);
        let refused = world.window(50);
        assert!(matches!(refused, Err(StoreError::Full { .. })), "{refused:?}");
        world.check("while the disk is full");
        world.disk.set_capacity(1 << 30);
        world.live(2).expect("there is room again");
        world.check("after there was room again");
    }
}

#[test]
fn a_failed_sync_is_told_and_nothing_relies_on_it() {
    for sync in 0..3 {
        let mut world = World::new(sync);
        world.live(4).expect("a healthy disk");
        let through = world.through(TENANTS[0]);
        world.disk.fail_syncs(1);
        assert!(matches!(world.window(9), Err(StoreError::Io { .. })));
        assert_eq!(world.through(TENANTS[0]), through);
        world.disk.power_cut(Survival::Chance);
        world.index = open(&world.disk).expect("what a power cut leaves opens");
        world.check("after a failed sync");
    }
}

#[test]
fn a_manifest_of_a_killed_process_is_durable_before_what_it_does_not_name_goes() {
    for seed in 0..10 {
        // The process comes no further than so many opens while it merges.
        for opens in 0..8 {
            let mut world = World::new(seed);
            world.live(3).expect("a healthy disk");
            for _ in 0..3 {
                world.window(6).expect("a healthy disk");
            }
            world.disk.set_descriptors(Some(opens));
            let _as_far_as_it_came = world.tidy();
            world.disk.set_descriptors(None);
            world.disk.kill_process();
            world.index = open(&world.disk).expect("what a kill leaves opens");
            world.disk.power_cut(Survival::Chance);
            let context = format!("seed {seed}, {opens} opens");
            world.index = open(&world.disk).unwrap_or_else(|error| panic!("{context}: {error}"));
            world.check(&context);
        }
    }
}

// proves: NFR-03
#[test]
fn every_flipped_bit_is_named() {
    let mut world = World::new(5);
    world.live(6).expect("a healthy disk");
    for path in world.disk.paths() {
        let name = path.file_name().expect("files have names").to_string_lossy().into_owned();
        for offset in 0..world.disk.contents(&path).len() {
            world.disk.flip(&path, offset, 1 << (offset % 8));
            let told = match open(&world.disk) {
                Err(StoreError::NewerFormat { .. }) => name.clone(),
                Err(error) => error.to_string(),
                Ok(index) => {
                    damage_in(&index).unwrap_or_else(|| panic!("{name}: flip at {offset} was not seen"))
                }
            };
            assert!(told.contains(&name), "{name}: flip at {offset}: {told}");
            world.disk.flip(&path, offset, 1 << (offset % 8));
        }
    }
    world.index = open(&world.disk).expect("whole again");
    world.check("whole again");
}

/// What the blocks of an index say when all of them are read.
fn damage_in(index: &InboxIndex) -> Option<String> {
    let runs = index.at(SHARD).runs;
    let mut buffer = Vec::new();
    let blocks = runs
        .iter()
        .flat_map(|run| run.sections.iter().flat_map(|one| one.blocks.clone()).map(move |at| (run, at)));
    blocks.into_iter().find_map(|(run, at)| run.block(at, &mut buffer).err().map(|error| error.to_string()))
}

#[test]
fn one_user_may_have_more_than_blocks_hold() {
    let world = World::new(9);
    let all: Vec<u16> = (0..60_000).collect();
    let some: Vec<u16> = all.iter().copied().filter(|offset| offset % 7 == 0).collect();
    let mut writer = world.index.create(SHARD).expect("a healthy disk");
    writer.begin_section(TENANTS[0], Arrival(1_000), Arrival(61_000)).expect("a healthy disk");
    let spares = Spares::default();
    let mut pairs = Pairs::new(&spares);
    for (user, offsets) in [(5, &some), (6, &all), (7, &some)] {
        pairs.push(user, offsets);
    }
    pairs.write(&mut writer).expect("a healthy disk");
    let run = writer.finish().expect("a healthy disk");
    assert!(run.sections[0].blocks.len() > 5);
    let through = BTreeMap::from([(TENANTS[0], Arrival(61_000))]);
    world.index.append(SHARD, run, &through, |_| {}).expect("a healthy disk");
    let runs = world.index.at(SHARD).runs;
    for (user, offsets) in [(4, &Vec::new()), (5, &some), (6, &all), (7, &some), (8, &Vec::new())] {
        for (after, before) in
            [(0, u64::MAX), (1_000, 61_001), (5_000, 5_001), (5_000, 9_000), (60_999, 61_001)]
        {
            let range = ArrivalRange { after: Arrival(after), before: Arrival(before) };
            let expected: Vec<_> = offsets
                .iter()
                .map(|offset| Arrival(1_001 + u64::from(*offset)))
                .filter(|arrival| range.contains(*arrival))
                .collect();
            assert_eq!(
                answers(&runs, TENANTS[0], user, range).expect("whole"),
                expected,
                "user {user}, {range:?}"
            );
        }
    }
}
