//! Nothing that waits in the tables is forgotten, whatever happens in memory; nobody's flood is in the way of others.

use super::scan::Kept;
use super::state::{LOOK_AGAIN_MS, READ_AGAIN_MS};
use super::*;
use fantail_machine::tables::RowsFrom;
use fantail_machine::tables::ledger::{ParcelId, Timer, TimersFrom};
use fantail_machine::tables::work::{self, WorkId, WorkRow, WorksFrom};
use fantail_rules::ids::{TenantId, UserNo};
use fantail_rules::knobs::Knobs;
use fantail_rules::limits::{BREAKER_PROBES, PARCEL_MEMBERS_MAX, WORK_PER_TENANT_MAX};
use fantail_rules::pacing::Signal;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

const SHARD: ShardNo = ShardNo(0);
const PAGE: usize = Knobs::DEFAULT.dispatch_page;
const NOW: Millis = Millis(1_000);

const NO_BOUND: fn(ChannelKind, TenantId) -> u32 = |_, _| u32::MAX;

/// A dispatcher that has looked at everything, and found nothing.
fn started(shards: impl Iterator<Item = ShardNo>) -> Dispatch {
    let dispatch = Dispatch::new(shards, NOW, Knobs::default());
    for (shard, _) in dispatch.due(NOW) {
        found_work(&dispatch, shard, &[]);
    }
    dispatch
}

fn dispatch() -> Dispatch {
    started([SHARD].into_iter())
}

fn found_work(dispatch: &Dispatch, shard: ShardNo, works: &[(WorkId, WorkRow)]) {
    dispatch.state().found_work(shard, works, &BTreeSet::new(), NOW);
}

fn work(arrival: u64) -> WorkId {
    WorkId { tenant: TenantId(1), arrival: Arrival(arrival), channel: ChannelKind::Push }
}

fn timer(due: u64, arrival: u64) -> Timer {
    Timer { due: Millis(due), parcel: ParcelId::of(work(arrival), UserNo(0)), lane: Priority::Normal }
}

fn offer_work(dispatch: &Dispatch, arrival: u64) {
    dispatch.offer(SHARD, &[Offer::Work { work: work(arrival), lane: Priority::Normal }]);
}

fn found(dispatch: &Dispatch, due: &[Timer], later: Option<Timer>) {
    dispatch.state().found_timers(SHARD, (due, later), &BTreeSet::new(), NOW);
}

fn wants_timers(dispatch: &Dispatch, wall: u64) -> bool {
    dispatch.due(Millis(wall)).iter().any(|(_, look)| look.timers.is_some())
}

fn start(dispatch: &Dispatch) -> Start {
    let (mut starts, _) = dispatch.next(NOW, NOW, &NO_BOUND);
    assert_eq!(starts.len(), 1, "a tenant has one turn at a time");
    starts.remove(0)
}

#[test]
fn a_new_dispatcher_looks_at_everything() {
    let dispatch = Dispatch::new([SHARD].into_iter(), NOW, Knobs::default());
    let looks = dispatch.due(NOW);
    assert!(matches!(
        looks[..],
        [(SHARD, Look { work: Some(None), timers: Some(TimersFrom::Due(Millis(0))), .. })]
    ));
    assert!(dispatch.due(NOW).is_empty(), "and does not look twice");
}

fn row() -> WorkRow {
    WorkRow {
        event: fantail_rules::ulid::Ulid(1),
        terms: work::Terms {
            lane: Priority::Normal,
            class: fantail_rules::attempt::Class::Bulk,
            category: fantail_rules::category::CategoryId::default(),
            expires_at: Millis(u64::MAX),
            group: 0,
            appointment: None,
            chain: Default::default(),
            kind: None,
        },
        next: UserNo(0),
        to: work::To::Given,
    }
}

#[test]
fn what_does_not_fit_is_looked_for_again() {
    let dispatch = dispatch();
    (0..=WORK_PER_TENANT_MAX as u64).for_each(|arrival| offer_work(&dispatch, arrival));
    assert!(dispatch.due(NOW).is_empty(), "nothing has left meanwhile");
    let (_, again) = dispatch.next(NOW, NOW, &|_, _| 0);
    assert!(again.is_some_and(|again| again <= NOW.plus(LOOK_AGAIN_MS)), "somebody wakes up for it");
    serve_one(&dispatch);
    let missed = work(WORK_PER_TENANT_MAX as u64);
    let wanted = refill(&dispatch).expect("there is room");
    assert_eq!(wanted.from, WorksFrom::At(missed));
    found_refill(&dispatch, wanted, &[(missed, row())]);
    assert_eq!(refill(&dispatch), None, "that was all");
}

/// What is to be read now for a place that has room again.
fn refill(dispatch: &Dispatch) -> Option<Refill<WorkId>> {
    let looks = dispatch.due(NOW.plus(LOOK_AGAIN_MS));
    looks.into_iter().find_map(|(_, look)| look.refill)
}

fn found_refill(dispatch: &Dispatch, wanted: Refill<WorkId>, works: &[(WorkId, WorkRow)]) {
    dispatch.state().found_refill(SHARD, wanted, works, &BTreeSet::new(), NOW);
}

/// The next turn of tenant 1 is done; returns its works. Others wait.
fn serve_one(dispatch: &Dispatch) -> Vec<u64> {
    let (mut starts, _) = dispatch.next(NOW, NOW, &|_, tenant| if tenant == LOUD { u32::MAX } else { 0 });
    assert_eq!(starts.len(), 1, "a tenant has one turn at a time");
    let start = starts.remove(0);
    let arrivals = start.jobs().into_iter().map(|job| match job {
        Job::Work(work) => work.arrival.0,
        Job::Wake { parcel, .. } => parcel.arrival.0,
    });
    let arrivals: Vec<u64> = arrivals.collect();
    let (channel, tenant) = (start.channel, start.turn.tenant);
    let used =
        dispatch.planned(start, &vec![Came { sends: 1, more: false, is_early: false }; arrivals.len()]);
    let call = Call { began: NOW, signal: Signal::Works };
    dispatch.ended(channel, tenant, NOW, &vec![call; used as usize]);
    arrivals
}

#[test]
fn a_timer_that_the_leader_finds_too_early_is_not_lost() {
    let dispatch = dispatch();
    found(&dispatch, &[timer(900, 1)], None);
    assert!(!wants_timers(&dispatch, 2_000), "it is on its way");
    dispatch.planned(start(&dispatch), &[Came { sends: 0, more: false, is_early: true }]);
    assert!(!wants_timers(&dispatch, 899) && wants_timers(&dispatch, 900));
    found(&dispatch, &[timer(900, 1)], None);
    dispatch.planned(start(&dispatch), &[Came { sends: 1, more: false, is_early: false }]);
    assert!(!wants_timers(&dispatch, 2_000), "it is done");
}

#[test]
fn a_timer_that_comes_while_the_tables_are_read_is_not_lost() {
    let dispatch = dispatch();
    dispatch.offer(SHARD, &[Offer::Timer(timer(900, 1))]);
    assert!(wants_timers(&dispatch, 1_000));
    dispatch.offer(SHARD, &[Offer::Timer(timer(950, 2))]);
    found(&dispatch, &[timer(900, 1)], Some(timer(5_000, 3)));
    assert!(wants_timers(&dispatch, 1_000), "what was read may not have it");
    found(&dispatch, &[], Some(timer(5_000, 3)));
    assert!(!wants_timers(&dispatch, 4_999) && wants_timers(&dispatch, 5_000));
}

/// A provider that takes nothing has pages of timers; those behind them are of others.
#[test]
fn whole_pages_are_walked_on_from_and_begun_anew() {
    let dispatch = dispatch();
    let page: Vec<Timer> = (0..PAGE as u64).map(|arrival| timer(900, arrival)).collect();
    found(&dispatch, &page, None);
    let behind = dispatch.due(NOW);
    let last = page.last().map(|last| TimersFrom::Row(RowsFrom::Behind(*last)));
    assert!(matches!(behind[..], [(_, Look { timers: behind, .. })] if behind == last));
    found(&dispatch, &page[..1], None);
    dispatch.offer(SHARD, &[Offer::Timer(timer(950, 1))]);
    let anew = dispatch.due(NOW);
    assert!(matches!(anew[..], [(_, Look { timers: Some(TimersFrom::Due(Millis(950))), .. })]));
}

/// What is over is not walked over again; what is not, however old, is found.
#[test]
fn timers_are_looked_for_where_the_first_one_waits() {
    let dispatch = dispatch();
    let from = |wall: u64| dispatch.due(Millis(wall)).first().and_then(|(_, look)| look.timers);
    found(&dispatch, &[], Some(timer(1_500, 1)));
    assert_eq!(from(1_500), Some(TimersFrom::Due(NOW.plus(1))));
    dispatch.offer(SHARD, &[Offer::Timer(timer(600, 2))]);
    assert_eq!(from(1_500), Some(TimersFrom::Due(Millis(600))), "one that is due already came");
    found(&dispatch, &[timer(600, 2)], None);
    let start = start(&dispatch);
    dispatch.planned(start, &[Came { sends: 0, more: false, is_early: true }]);
    assert_eq!(from(1_500), Some(TimersFrom::Due(Millis(600))), "it was not done");
}

/// Whoever waits for a turn to come back hears the bell; there is no need to look every millisecond.
#[test]
fn work_that_waits_for_its_turn_sets_no_alarm() {
    let dispatch = dispatch();
    offer_work(&dispatch, 1);
    offer_work(&dispatch, 2);
    let (starts, again) = dispatch.next(NOW, NOW, &NO_BOUND);
    assert_eq!((starts.len(), again), (1, None));
    for start in starts {
        dispatch.planned(start, &[Came { sends: 0, more: true, is_early: false }]);
    }
    assert_eq!(dispatch.next(NOW, NOW, &NO_BOUND).0.len(), 1);
}

/// Every permit comes back, whether it was used or not.
#[test]
fn permits_are_given_back() {
    let dispatch = dispatch();
    offer_work(&dispatch, 1);
    let start = start(&dispatch);
    let most = start.turn.deliveries_max;
    assert_eq!(dispatch.in_flight()[0], (ChannelKind::Push, most));
    let used = dispatch.planned(start, &[Came { sends: 7, more: false, is_early: false }]);
    assert_eq!((used, dispatch.in_flight()[0].1), (7, 7));
    let call = Call { began: NOW, signal: Signal::Works };
    dispatch.ended(ChannelKind::Push, LOUD, NOW, &[call; 7]);
    assert_eq!(dispatch.in_flight()[0].1, 0);
}

/// A drain that comes while a turn begins sees it, or stops it: what it finds to be over is over.
#[test]
fn a_drain_misses_no_turn_that_begins_meanwhile() {
    let dispatch = Arc::new(dispatch());
    offer_work(&dispatch, 1);
    let draining = RefCell::new(None);
    let drains_now = |_: ChannelKind, _: TenantId| {
        let mut draining = draining.borrow_mut();
        let drain = draining.get_or_insert_with(|| {
            let dispatch = dispatch.clone();
            std::thread::spawn(move || {
                dispatch.drain();
                dispatch.under_way()
            })
        });
        // Long enough for a drain that does not wait for the turn.
        (0..10_000).take_while(|_| !drain.is_finished()).for_each(|_| std::thread::yield_now());
        u32::MAX
    };
    let (starts, _) = dispatch.next(NOW, NOW, &drains_now);
    let seen = draining.into_inner().map(|drain| drain.join().expect("it does not panic"));
    assert_eq!(seen, Some(starts.len()));
    assert!(dispatch.next(NOW, NOW, &NO_BOUND).0.is_empty(), "nothing more is started");
}

/// Jobs of a turn that were not looked at wait again, and so do timers among them.
#[test]
fn what_a_turn_did_not_come_to_waits_again() {
    let dispatch = dispatch();
    offer_work(&dispatch, 1);
    offer_work(&dispatch, 2);
    found(&dispatch, &[timer(900, 3)], None);
    let first = start(&dispatch);
    let jobs = first.jobs();
    assert!(matches!(jobs[..], [Job::Work(_), Job::Work(_), Job::Wake { .. }]), "{jobs:?}");
    dispatch.planned(first, &[Came { sends: 3, more: false, is_early: false }]);
    assert!(!wants_timers(&dispatch, 2_000), "it is on its way still");
    let second = start(&dispatch);
    assert_eq!(second.jobs(), jobs[1..]);
    let done = Came { sends: 1, more: false, is_early: false };
    dispatch.planned(second, &[done, done]);
    assert!(dispatch.next(NOW, NOW, &NO_BOUND).0.is_empty());
}

const LOUD: TenantId = TenantId(1);
const QUIET: TenantId = TenantId(2);
const SHARDS: u16 = 4;

/// A tenant with endless work in every shard, that has been served for a while.
fn flooded() -> Dispatch {
    let dispatch = started((0..SHARDS).map(ShardNo));
    for shard in (0..SHARDS).map(ShardNo) {
        dispatch.offer(shard, &[Offer::Work { work: work(1), lane: Priority::Normal }]);
    }
    dispatch
}

/// What was begun of each tenant.
type Begun = BTreeMap<TenantId, u32>;

/// One round: all turns that are due are planned and journaled together. Endless work uses what it is given, other works
/// have one delivery each.
fn round(dispatch: &Dispatch, begun: &mut Begun) {
    for start in dispatch.next(NOW, NOW, &NO_BOUND).0 {
        let (tenant, most) = (start.turn.tenant, start.turn.deliveries_max);
        let came = if tenant == LOUD {
            vec![Came { sends: most, more: true, is_early: false }]
        } else {
            vec![Came { sends: 1, more: false, is_early: false }; start.turn.keys.len()]
        };
        *begun.entry(tenant).or_default() += dispatch.planned(start, &came);
    }
}

fn answered(dispatch: &Dispatch, tenant: TenantId, calls: u32) {
    let call = Call { began: NOW, signal: Signal::Works };
    dispatch.ended(ChannelKind::Push, tenant, NOW, &vec![call; calls as usize]);
}

fn held(dispatch: &Dispatch, tenant: TenantId) -> u32 {
    dispatch.state().channels[&ChannelKind::Push].held(tenant)
}

fn offer_singles(dispatch: &Dispatch, singles: u32) {
    for arrival in (10..).take(singles as usize) {
        let work = WorkId { tenant: QUIET, ..work(arrival) };
        dispatch.offer(SHARD, &[Offer::Work { work, lane: Priority::Normal }]);
    }
}

/// They wait for one round, in which the flood has one turn in each shard: not for one round each.
// proves: PRI-05
#[test]
fn singles_asked_for_at_once_start_together_beside_a_flood() {
    const SINGLES: u32 = 50;
    let dispatch = flooded();
    // More would use up the burst of the channel: no time passes here.
    for _ in 0..10 {
        let mut begun = Begun::new();
        round(&dispatch, &mut begun);
        answered(&dispatch, LOUD, begun[&LOUD]);
    }
    offer_singles(&dispatch, SINGLES);
    let mut begun = Begun::new();
    while begun.get(&QUIET) != Some(&SINGLES) {
        round(&dispatch, &mut begun);
        [LOUD, QUIET].into_iter().for_each(|tenant| answered(&dispatch, tenant, held(&dispatch, tenant)));
    }
    let most = u32::from(SHARDS) * PARCEL_MEMBERS_MAX;
    assert!(begun[&LOUD] <= most, "{} of the flood were begun meanwhile", begun[&LOUD]);
}

/// A flood that waits for a slow provider leaves places: singles of others begin at once, and it gets no more places while they
/// wait.
// proves: PRI-05, DEL-04
// fixes: security H5
#[test]
fn singles_begin_beside_a_flood_that_hangs() {
    const SINGLES: u32 = 50;
    let dispatch = flooded();
    let mut begun = Begun::new();
    for _ in 0..20 {
        round(&dispatch, &mut begun);
    }
    let full = begun[&LOUD];
    let places = way::CONCURRENCY.start;
    let unreserved = places - places / way::RESERVED_SHARE;
    let most = unreserved - unreserved / way::SPARE_SHARE;
    assert!((places / 2..=most).contains(&full), "a tenant that is alone has {full}");
    offer_singles(&dispatch, SINGLES);
    round(&dispatch, &mut begun);
    assert_eq!((begun[&LOUD], begun[&QUIET]), (full, SINGLES), "no answer has come yet");
}

/// While others wait, a tenant has a quarter of the places, whatever it asks for and however long its provider hangs.
// fixes: security H5
#[test]
fn no_tenant_has_more_than_a_quarter_while_others_wait() {
    let dispatch = flooded();
    for tenant in 10..13 {
        let work = WorkId { tenant: TenantId(tenant), ..work(1) };
        dispatch.offer(SHARD, &[Offer::Work { work, lane: Priority::Normal }]);
    }
    let unreserved = way::CONCURRENCY.start - way::CONCURRENCY.start / way::RESERVED_SHARE;
    for _ in 0..40 {
        for start in dispatch.next(NOW, NOW, &NO_BOUND).0 {
            let came = Came { sends: start.turn.deliveries_max, more: true, is_early: false };
            dispatch.planned(start, &[came]);
        }
    }
    for tenant in [LOUD, TenantId(10), TenantId(11), TenantId(12)] {
        assert_eq!(held(&dispatch, tenant), unreserved / way::TENANT_SHARE, "{tenant}");
    }
}

/// A tenant whose own limits have no room waits in its lane; nothing of it is planned, and nobody else waits for it.
// fixes: interop F1, security H5
#[test]
fn a_tenant_starts_as_many_as_its_own_limits_have_room_for() {
    let dispatch = flooded();
    dispatch.due(NOW);
    offer_singles(&dispatch, 5);
    let places = |_: ChannelKind, tenant: TenantId| if tenant == LOUD { 50 } else { u32::MAX };
    let mut again = None;
    for _ in 0..20 {
        let (starts, at) = dispatch.next(NOW, NOW, &places);
        again = at;
        for start in starts {
            let came = match start.turn.tenant {
                LOUD => vec![Came { sends: start.turn.deliveries_max, more: true, is_early: false }],
                _ => vec![Came { sends: 1, more: false, is_early: false }; start.turn.keys.len()],
            };
            dispatch.planned(start, &came);
        }
    }
    assert_eq!((held(&dispatch, LOUD), held(&dispatch, QUIET)), (50, 5));
    assert_eq!(again, Some(NOW.plus(ROOM_AGAIN_MS)), "it is asked again whether there is room");
    answered(&dispatch, LOUD, 2);
    assert!(dispatch.next(NOW, NOW, &places).0.is_empty(), "two places are not worth a parcel");
    answered(&dispatch, LOUD, 8);
    let (starts, _) = dispatch.next(NOW, NOW, &places);
    let most: Vec<u32> = starts.iter().map(|start| start.turn.deliveries_max).collect();
    assert_eq!(most, [10], "as many as became free");
}

/// A tenant whose own limits have no room takes no places from the others, and begins as soon as it has room.
#[test]
fn a_tenant_beside_one_without_room_is_as_good_as_alone() {
    for few in [0, 1] {
        let dispatch = flooded();
        let work = WorkId { tenant: QUIET, ..work(1) };
        dispatch.offer(SHARD, &[Offer::Work { work, lane: Priority::Normal }]);
        let places = |_: ChannelKind, tenant: TenantId| if tenant == QUIET { few } else { u32::MAX };
        for _ in 0..40 {
            for start in dispatch.next(NOW, NOW, &places).0 {
                let came = Came { sends: start.turn.deliveries_max, more: true, is_early: false };
                dispatch.planned(start, &[came]);
            }
        }
        let unreserved = way::CONCURRENCY.start - way::CONCURRENCY.start / way::RESERVED_SHARE;
        let alone = unreserved - unreserved / way::SPARE_SHARE;
        assert_eq!((held(&dispatch, LOUD), held(&dispatch, QUIET)), (alone, few));
        let (starts, _) = dispatch.next(NOW, NOW, &NO_BOUND);
        let tenants: Vec<TenantId> = starts.iter().map(|start| start.turn.tenant).collect();
        assert_eq!(tenants, [QUIET], "it has room now");
    }
}

/// A provider that takes 100 ms for an answer, with an endless backlog before it, told by a clock of its own.
struct Provider {
    dispatch: Dispatch,
    now: Millis,
    out: u32,
}

const ROUND_TRIP_MS: u64 = 100;

impl Provider {
    /// What was sent comes back, and what may be sent then is. Returns how much that is.
    fn round(&mut self, signal: Signal) -> u32 {
        let call = Call { began: self.now, signal };
        self.now = self.now.plus(ROUND_TRIP_MS);
        self.dispatch.ended(ChannelKind::Push, LOUD, self.now, &vec![call; self.out as usize]);
        self.out = 0;
        loop {
            let (starts, _) = self.dispatch.next(self.now, self.now, &NO_BOUND);
            if starts.is_empty() {
                return self.out;
            }
            for start in starts {
                let came = Came { sends: start.turn.deliveries_max, more: true, is_early: false };
                self.out += self.dispatch.planned(start, &[came]);
            }
        }
    }

    fn second(&mut self, signal: Signal) -> u32 {
        (0..1_000 / ROUND_TRIP_MS).map(|_| self.round(signal)).sum()
    }
}

/// It does not answer for so long. What it gets in each second once it does, and what it got in one before.
fn recovery(outage_ms: u64) -> (u32, Vec<u32>) {
    let mut provider = Provider { dispatch: flooded(), now: NOW, out: 0 };
    let before = (0..3).map(|_| provider.second(Signal::Works)).last().expect("three seconds");
    let end = provider.now.plus(outage_ms);
    let mut tried = 0;
    while provider.now < end {
        tried += provider.round(Signal::Fails);
    }
    assert!(tried <= before / 2, "{tried} into an outage of {outage_ms} ms");
    let mut first = 0;
    while first <= BREAKER_PROBES {
        first = provider.round(Signal::Works);
    }
    let rest: u32 = (1..1_000 / ROUND_TRIP_MS).map(|_| provider.round(Signal::Works)).sum();
    let then = (0..9).map(|_| provider.second(Signal::Works));
    (before, [first + rest].into_iter().chain(then).collect())
}

/// Alone, a tenant has nine tenths of the channel, although its share beside others is a quarter.
// fixes: interop F1
#[test]
fn a_tenant_that_is_alone_drains_at_the_channels_ceiling() {
    let mut provider = Provider { dispatch: flooded(), now: NOW, out: 0 };
    let ceiling =
        |provider: &Provider| provider.dispatch.state().channels[&ChannelKind::Push].pace.concurrency();
    let is_nearly_all = |provider: &mut Provider| {
        let sent = provider.round(Signal::Works);
        sent * 10 >= ceiling(provider) * 9
    };
    // The burst of the channel's rate comes first.
    for _ in 0..5 {
        provider.round(Signal::Works);
    }
    // 20 times as many as there are places.
    for round in 0..20 {
        assert!(is_nearly_all(&mut provider), "round {round}: {} of {}", provider.out, ceiling(&provider));
    }
}

/// The first second brings a tenth of what it could do at most, and each next one twice as much; the rest waits.
// proves: DEL-16, DEL-04
#[test]
fn a_backlog_drains_by_steps_once_its_provider_is_back() {
    for outage_ms in [200, 2_000, 10_000] {
        let (before, seconds) = recovery(outage_ms);
        assert!(seconds[0] <= before / 10, "{outage_ms} ms: {seconds:?} after {before}");
        for (earlier, later) in seconds.iter().zip(&seconds[1..]) {
            // One place more after each full round.
            let most = 2 * earlier + 100;
            assert!(later <= &most && later >= earlier, "{outage_ms} ms: {seconds:?} after {before}");
        }
        assert!(seconds[9] >= 8 * seconds[0], "{outage_ms} ms: {seconds:?} after {before}");
    }
}

/// Fills the lane of tenant 1, so that nothing more of it fits.
fn fill_lane(dispatch: &Dispatch) {
    (0..WORK_PER_TENANT_MAX as u64).for_each(|arrival| offer_work(dispatch, arrival));
}

fn of_other_tenant(work: WorkId) -> WorkId {
    WorkId { tenant: TenantId(2), ..work }
}

// fixes: correctness A4
#[test]
fn work_that_did_not_fit_is_found_again_when_a_later_page_fits() {
    let dispatch = dispatch();
    fill_lane(&dispatch);
    let page: Vec<_> = (10_000..).take(PAGE).map(|arrival| (work(arrival), row())).collect();
    dispatch.look_anew();
    assert!(matches!(dispatch.due(NOW)[..], [(_, Look { work: Some(None), .. })]));
    found_work(&dispatch, SHARD, &page);
    let behind = dispatch.due(NOW);
    let last = page.last().map(|(work, _)| *work);
    assert!(matches!(behind[..], [(_, Look { work: Some(cursor), .. })] if cursor == last));
    found_work(&dispatch, SHARD, &[(of_other_tenant(work(1)), row())]);
    let served: Vec<u64> = std::iter::from_fn(|| Some(serve_one(&dispatch))).take(2).flatten().collect();
    assert!(!served.contains(&10_000));
    let wanted = refill(&dispatch).expect("there is room");
    assert_eq!(wanted.from, WorksFrom::At(work(10_000)), "the first page is read again");
    found_refill(&dispatch, wanted, &page[..served.len() / 2]);
    assert_eq!(refill(&dispatch), None, "everything fitted this time");
}

// fixes: correctness A4
#[test]
fn work_that_is_refused_before_the_cursor_is_found_again() {
    let dispatch = dispatch();
    fill_lane(&dispatch);
    let page: Vec<_> = (0..).take(PAGE).map(|arrival| (of_other_tenant(work(arrival)), row())).collect();
    found_work(&dispatch, SHARD, &page);
    offer_work(&dispatch, 10_000);
    assert!(matches!(dispatch.due(NOW)[..], [(_, Look { work: Some(Some(_)), .. })]));
    found_work(&dispatch, SHARD, &[]);
    serve_one(&dispatch);
    let wanted = refill(&dispatch).expect("there is room");
    assert_eq!((wanted.place.2, wanted.from), (TenantId(1), WorksFrom::At(work(10_000))));
}

/// What did not fit is started before what was offered after it, however full the lane was then.
// proves: PRI-04
#[test]
fn nothing_overtakes_work_that_did_not_fit() {
    let dispatch = dispatch();
    fill_lane(&dispatch);
    offer_work(&dispatch, 10_000);
    serve_one(&dispatch);
    offer_work(&dispatch, 10_001);
    let wanted = refill(&dispatch).expect("there is room");
    offer_work(&dispatch, 10_002);
    found_refill(&dispatch, wanted, &[(work(10_000), row()), (work(10_001), row())]);
    offer_work(&dispatch, 10_003);
    let wanted = refill(&dispatch).expect("more was offered while the tables were read");
    assert_eq!(wanted.from, WorksFrom::Behind(work(10_001)));
    found_refill(&dispatch, wanted, &[(work(10_002), row()), (work(10_003), row())]);
    assert_eq!(refill(&dispatch), None);
    offer_work(&dispatch, 10_004);
    let mut served = Vec::new();
    while served.last() != Some(&10_004) {
        served.extend(serve_one(&dispatch));
    }
    assert!(served.is_sorted() && served.ends_with(&[10_000, 10_001, 10_002, 10_003, 10_004]));
}

/// A place whose lane stays full is in the way of no other one, and neither is one that is served all the time.
#[test]
fn places_that_overflow_take_turns() {
    let dispatch = dispatch();
    let tenants = [1, 2, 3].map(TenantId);
    let row = (work(0), row()).1;
    for tenant in tenants {
        for arrival in 0..=WORK_PER_TENANT_MAX as u64 {
            let work = WorkId { tenant, ..work(arrival) };
            dispatch.offer(SHARD, &[Offer::Work { work, lane: Priority::Normal }]);
        }
    }
    let mut turns = Vec::new();
    for _ in 0..4 {
        // All but the first tenant have room.
        for start in dispatch.next(NOW, NOW, &|_, tenant| if tenant == tenants[0] { 0 } else { 64 }).0 {
            let came = vec![Came { sends: 0, more: false, is_early: false }; start.turn.keys.len()];
            dispatch.planned(start, &came);
        }
        let wanted = refill(&dispatch).expect("there is room");
        turns.push(wanted.place.2);
        let missed = WorkId { tenant: wanted.place.2, ..work(WORK_PER_TENANT_MAX as u64) };
        let page: Vec<_> =
            (0..PAGE as u64).map(|no| WorkId { arrival: Arrival(missed.arrival.0 + no), ..missed }).collect();
        let page: Vec<_> = page.into_iter().map(|work| (work, row.clone())).collect();
        found_refill(&dispatch, wanted, &page);
    }
    assert_eq!(turns, [2, 3, 2, 3].map(TenantId));
}

/// After a start older work waits in the tables. What comes new is not started before it was read.
// proves: PRI-04
#[test]
fn new_work_does_not_overtake_what_a_scan_has_not_come_to() {
    let dispatch = Dispatch::new([SHARD].into_iter(), NOW, Knobs::default());
    assert!(matches!(dispatch.due(NOW)[..], [(_, Look { work: Some(None), .. })]));
    offer_work(&dispatch, 5_000);
    let page: Vec<_> = (0..).take(PAGE).map(|arrival| (work(arrival), row())).collect();
    found_work(&dispatch, SHARD, &page);
    offer_work(&dispatch, 7);
    let behind = dispatch.due(NOW);
    assert!(matches!(behind[..], [(_, Look { work: Some(Some(_)), .. })]));
    offer_work(&dispatch, 5_001);
    found_work(&dispatch, SHARD, &[(work(4_000), row()), (work(5_000), row())]);
    let wanted = refill(&dispatch).expect("the page may not have what was offered meanwhile");
    assert_eq!(wanted.from, WorksFrom::At(work(5_001)));
    found_refill(&dispatch, wanted, &[(work(5_001), row())]);
    assert!(dispatch.due(NOW).is_empty(), "the scan is over");
    offer_work(&dispatch, 5_002);
    let mut served = Vec::new();
    while served.last() != Some(&5_002) {
        served.extend(serve_one(&dispatch));
    }
    assert!(served.is_sorted() && served.ends_with(&[4_000, 5_000, 5_001, 5_002]));
}

/// The page does not have it, and the scan does not come back.
#[test]
fn work_offered_behind_the_end_of_the_page_that_is_being_read_is_not_lost() {
    let dispatch = Dispatch::new([SHARD].into_iter(), NOW, Knobs::default());
    assert!(matches!(dispatch.due(NOW)[..], [(_, Look { work: Some(None), .. })]));
    offer_work(&dispatch, 7);
    offer_work(&dispatch, 8);
    let page: Vec<_> = (0..).take(PAGE).map(|arrival| (of_other_tenant(work(arrival)), row())).collect();
    found_work(&dispatch, SHARD, &page);
    offer_work(&dispatch, 9);
    let wanted = refill(&dispatch).expect("it is read for its place");
    assert_eq!(wanted.from, WorksFrom::At(work(7)));
    found_refill(&dispatch, wanted, &[7, 8, 9].map(|arrival| (work(arrival), row())));
    assert_eq!(serve_one(&dispatch), [7, 8, 9]);
    assert_eq!(refill(&dispatch), None);
}

/// The work of a walk or of a fallback is offered again: it may be older than what waits for room.
#[test]
fn older_work_that_is_refused_while_its_place_is_read_is_not_lost() {
    for is_served_meanwhile in [false, true] {
        let dispatch = dispatch();
        (100..100 + WORK_PER_TENANT_MAX as u64).for_each(|arrival| offer_work(&dispatch, arrival));
        offer_work(&dispatch, 10_000);
        let turn = start(&dispatch);
        let wanted = refill(&dispatch).expect("there is room");
        dispatch.planned(turn, &[]);
        offer_work(&dispatch, 5);
        if is_served_meanwhile {
            serve_one(&dispatch);
        }
        found_refill(&dispatch, wanted, &[(work(10_000), row())]);
        serve_one(&dispatch);
        let again = refill(&dispatch).expect("there is room");
        assert_eq!(again.from, WorksFrom::At(work(5)));
        found_refill(&dispatch, again, &[5, 10_000].map(|arrival| (work(arrival), row())));
        assert_eq!(refill(&dispatch), None, "everything fitted this time");
        assert_eq!(serve_one(&dispatch)[0], 5);
    }
}

/// The page does not have it, and nothing of the page behind it is started before it.
#[test]
fn work_that_is_held_back_while_its_place_is_read_is_not_lost() {
    let dispatch = dispatch();
    fill_lane(&dispatch);
    offer_work(&dispatch, 10_000);
    serve_one(&dispatch);
    let wanted = refill(&dispatch).expect("there is room");
    offer_work(&dispatch, 11_000);
    found_refill(&dispatch, wanted, &[10_000, 12_000].map(|arrival| (work(arrival), row())));
    let again = refill(&dispatch).expect("it was offered meanwhile");
    assert_eq!(again.from, WorksFrom::Behind(work(10_000)));
    found_refill(&dispatch, again, &[11_000, 12_000].map(|arrival| (work(arrival), row())));
    assert_eq!(refill(&dispatch), None);
}

/// The works of a shard that are in its tables, and those that were started.
struct Works {
    left: BTreeSet<WorkId>,
    started: BTreeSet<WorkId>,
}

impl Works {
    /// Of each turn the first work is done, the others come back.
    fn planned(&mut self, dispatch: &Dispatch, starts: Vec<Start>) {
        for start in starts {
            let Job::Work(work) = start.jobs()[0] else { panic!("there are no timers") };
            self.left.remove(&work);
            self.started.insert(work);
            let tenant = start.turn.tenant;
            let used = dispatch.planned(start, &[Came { sends: 1, more: false, is_early: false }]);
            answered(dispatch, tenant, used);
        }
    }

    fn read(&self, look: Look) -> TableScan {
        let page = |from: Option<WorksFrom>| {
            let works = self.left.iter().filter(|work| from.is_none_or(|from| from.has(work)));
            works.take(2).map(|work| (*work, row())).collect()
        };
        let works = look.work.map(|behind| page(behind.map(WorksFrom::Behind)));
        TableScan { works, refilled: look.refill.map(|refill| page(Some(refill.from))), ..nothing_found() }
    }

    /// Everything is started, round by round, with room for two works of each tenant. New work comes in at a moment of one of the
    /// reads: before it, while turns are out, or after they came back. Returns how many reads there were.
    fn start_all(&mut self, new: WorkId, (read, moment): (usize, u8)) -> usize {
        let knobs = Knobs { dispatch_page: 2, lane_works_per_tenant: 2, ..Knobs::default() };
        let dispatch = Dispatch::new([SHARD].into_iter(), NOW, knobs);
        let (mut wall, mut reads) = (NOW, 0);
        let offer = |works: &mut Self| {
            works.left.insert(new);
            dispatch.offer(SHARD, &[Offer::Work { work: new, lane: Priority::Normal }]);
        };
        for _ in 0..100 {
            let mut starts = dispatch.next(wall, NOW, &NO_BOUND).0;
            dispatch.look(wall, |_, look| {
                let is_now = |at| (reads, moment) == (read, at);
                if is_now(0) {
                    offer(self);
                }
                let found = self.read(look);
                if is_now(1) {
                    offer(self);
                }
                self.planned(&dispatch, std::mem::take(&mut starts));
                if is_now(2) {
                    offer(self);
                }
                reads += 1;
                Ok(found)
            });
            self.planned(&dispatch, starts);
            wall = wall.plus(LOOK_AGAIN_MS);
        }
        reads
    }
}

#[test]
fn work_is_started_at_whatever_moment_of_a_scan_or_a_refill_it_is_offered() {
    let all = |arrivals: &'static [u64]| {
        let of = |tenant| move |arrival: &u64| WorkId { tenant: TenantId(tenant), ..work(*arrival) };
        arrivals.iter().map(of(1)).chain(arrivals.iter().map(of(9)))
    };
    for new in all(&[5, 15, 25, 35, 45, 55, 65]) {
        for moment in 0..3 {
            for read in 0.. {
                let left = all(&[10, 20, 30, 40, 50, 60]).collect();
                let mut works = Works { left, started: BTreeSet::new() };
                let reads = works.start_all(new, (read, moment));
                assert!(works.left.is_empty(), "{new:?} at {moment} of read {read}: {:?}", works.left);
                if reads <= read {
                    break;
                }
            }
        }
    }
}

/// A place that is full again rests by itself: others with room are read at once, those of urgent lanes first.
#[test]
fn places_with_room_do_not_wait_for_one_another() {
    let dispatch = dispatch();
    let lanes = [(1, Priority::Low), (2, Priority::Normal), (3, Priority::Critical), (4, Priority::Normal)];
    let of = |tenant: TenantId, arrival| WorkId { tenant, ..work(arrival) };
    for (tenant, lane) in lanes.map(|(tenant, lane)| (TenantId(tenant), lane)) {
        for arrival in 0..=WORK_PER_TENANT_MAX as u64 {
            dispatch.offer(SHARD, &[Offer::Work { work: of(tenant, arrival), lane }]);
        }
    }
    for start in dispatch.next(NOW, NOW, &NO_BOUND).0 {
        let done = vec![Came { sends: 0, more: false, is_early: false }; start.turn.keys.len()];
        dispatch.planned(start, &done);
    }
    let mut turns = Vec::new();
    while let Some(wanted) = refill(&dispatch) {
        let (_, lane, tenant) = wanted.place;
        turns.push(tenant.0);
        let row = WorkRow { terms: work::Terms { lane, ..row().terms }, ..row() };
        let page: Vec<_> = (WORK_PER_TENANT_MAX as u64..).take(PAGE).collect();
        let page: Vec<_> = page.into_iter().map(|arrival| (of(tenant, arrival), row.clone())).collect();
        dispatch.state().found_refill(SHARD, wanted, &page, &BTreeSet::new(), NOW.plus(LOOK_AGAIN_MS));
    }
    assert_eq!(turns, [3, 2, 4, 1]);
}

/// However much is to be read for urgent lanes.
#[test]
fn a_place_of_a_low_lane_has_its_turn_too() {
    let mut overflows = overflow::Overflows::<WorkId>::default();
    let places = [(1, Priority::Low), (2, Priority::Critical), (3, Priority::Critical)];
    for (tenant, lane) in places {
        overflows.put((ChannelKind::Push, lane, TenantId(tenant)), work(1), NOW);
    }
    let turns = (2..10).map(|last| {
        let wanted = overflows.next(NOW, |_| true).expect("all have room");
        overflows.filled(wanted.place, Some(work(last)), false, NOW);
        wanted.place.2.0
    });
    assert_eq!(turns.collect::<Vec<_>>(), [2, 3, 2, 1, 3, 2, 3, 1]);
}

/// A page that was read before everything was begun anew says nothing about where the scan is.
#[test]
fn a_page_from_before_a_new_beginning_is_not_looked_at() {
    let dispatch = dispatch();
    dispatch.look_anew();
    dispatch.look(NOW, |_, _| {
        dispatch.look_anew();
        let works = (0..).take(PAGE).map(|arrival| (work(arrival), row())).collect();
        Ok(TableScan { works: Some(works), ..nothing_found() })
    });
    assert!(dispatch.next(NOW, NOW, &NO_BOUND).0.is_empty());
    assert!(matches!(dispatch.due(NOW)[..], [(_, Look { work: Some(None), .. })]));
}

// fixes: correctness A4
#[test]
fn timers_that_did_not_fit_are_found_again_when_there_is_room() {
    let (dispatch, mut wall) = (dispatch(), NOW);
    fill_lane(&dispatch);
    let mut timers: Vec<Timer> = (10_000..).take(PAGE).map(|arrival| timer(900, arrival)).collect();
    found(&dispatch, &timers, None);
    found(&dispatch, &[], Some(timer(5_000, 2)));
    assert_eq!(late(&dispatch, &mut wall), None, "nothing has left meanwhile");
    let (_, again) = dispatch.next(wall, wall, &|_, _| 0);
    assert!(again.is_some_and(|again| again <= wall.plus(LOOK_AGAIN_MS)), "somebody wakes up for it");
    let mut served = serve_one(&dispatch);
    let mut wanted = late(&dispatch, &mut wall).expect("there is room");
    assert_eq!(wanted.from, RowsFrom::At(timers[0]));
    found_late(&dispatch, wanted, &timers);
    // One that comes to be due waits behind them.
    let last = timer(950, 20_000);
    found(&dispatch, &[last], None);
    timers.push(last);
    loop {
        served.extend(serve_one(&dispatch));
        let Some(more) = late(&dispatch, &mut wall) else { break };
        assert!(timers.iter().all(|timer| wanted.from.has(timer) || !more.from.has(timer)), "it goes on");
        wanted = more;
        let rest: Vec<Timer> = timers.iter().copied().filter(|timer| wanted.from.has(timer)).collect();
        found_late(&dispatch, wanted, &rest[..rest.len().min(PAGE)]);
    }
    while served.last() != Some(&20_000) {
        served.extend(serve_one(&dispatch));
    }
    assert!(served.is_sorted() && served.len() == WORK_PER_TENANT_MAX + timers.len(), "{served:?}");
}

/// What timers are to be read for a place that has room again, a while later.
fn late(dispatch: &Dispatch, wall: &mut Millis) -> Option<Refill<Timer>> {
    *wall = wall.plus(LOOK_AGAIN_MS);
    dispatch.due(*wall).into_iter().find_map(|(_, look)| look.late)
}

fn found_late(dispatch: &Dispatch, wanted: Refill<Timer>, timers: &[Timer]) {
    dispatch.state().found_late(SHARD, wanted, timers, &BTreeSet::new(), NOW);
}

fn nothing_found() -> TableScan {
    TableScan { works: None, due: None, refilled: None, late: None, later: None, kept: Kept::default() }
}

/// Its members were decided about by another timer of the same parcel, or its row was written once more meanwhile.
#[test]
fn a_timer_is_looked_for_once_more_only_if_it_was_offered() {
    for is_offered in [false, true] {
        let dispatch = dispatch();
        found(&dispatch, &[timer(900, 1)], None);
        found(&dispatch, &[timer(900, 1)], None);
        if is_offered {
            dispatch.offer(SHARD, &[Offer::Timer(timer(900, 1))]);
            assert!(wants_timers(&dispatch, 1_000));
            found(&dispatch, &[timer(900, 1)], None);
        }
        dispatch.planned(start(&dispatch), &[Came { sends: 0, more: false, is_early: false }]);
        assert_eq!(wants_timers(&dispatch, 2_000), is_offered);
    }
}

// fixes: correctness A4
#[test]
fn a_timer_that_comes_before_the_cursor_of_a_scan_is_not_lost() {
    for is_while_reading in [true, false] {
        let dispatch = dispatch();
        let page: Vec<Timer> = (0..).take(PAGE).map(|arrival| timer(900, arrival)).collect();
        let offer = || dispatch.offer(SHARD, &[Offer::Timer(timer(800, 5_000))]);
        if is_while_reading {
            offer();
        }
        found(&dispatch, &page, None);
        if !is_while_reading {
            offer();
        }
        assert!(wants_timers(&dispatch, 1_000), "the scan goes on");
        found(&dispatch, &[], None);
        let anew = dispatch.due(NOW.plus(LOOK_AGAIN_MS));
        assert!(matches!(anew[..], [(_, Look { timers: Some(TimersFrom::Due(Millis(800))), .. })]));
    }
}

// fixes: correctness A9
#[test]
fn a_shard_that_cannot_be_read_is_read_again_and_holds_up_no_other() {
    let other = ShardNo(1);
    let dispatch = Dispatch::new([SHARD, other].into_iter(), NOW, Knobs::default());
    let mut read = Vec::new();
    dispatch.look(NOW, |shard, _| {
        read.push(shard);
        match shard {
            SHARD => Err(crate::core::internal("the disk failed")),
            _ => Ok(TableScan { works: Some(Vec::new()), due: Some(Vec::new()), ..nothing_found() }),
        }
    });
    assert_eq!(read, [SHARD, other]);
    let (_, again) = dispatch.next(NOW, NOW, &NO_BOUND);
    assert_eq!(again, Some(NOW.plus(READ_AGAIN_MS)), "somebody wakes up for it");
    let looks = dispatch.due(NOW.plus(READ_AGAIN_MS));
    assert!(matches!(
        looks[..],
        [(SHARD, Look { work: Some(None), timers: Some(TimersFrom::Due(Millis(0))), .. })]
    ));
}

// fixes: correctness A12
#[test]
fn what_is_kept_back_is_not_started_and_found_again_when_the_clock_is_accepted() {
    let dispatch = dispatch();
    let kept = BTreeSet::from([work(1)]);
    dispatch.state().found_work(SHARD, &[(work(1), row()), (work(2), row())], &kept, NOW);
    let kept = BTreeSet::from([timer(900, 3)]);
    dispatch.state().found_timers(SHARD, (&[timer(900, 3)], None), &kept, NOW);
    assert_eq!(start(&dispatch).jobs(), [Job::Work(work(2))]);
    assert!(dispatch.due(NOW).is_empty(), "nothing is looked for meanwhile");
    dispatch.look_anew();
    assert!(matches!(
        dispatch.due(NOW)[..],
        [(SHARD, Look { work: Some(None), timers: Some(TimersFrom::Due(Millis(0))), .. })]
    ));
}

/// A tenant that may not have more under way keeps others waiting for nothing.
#[test]
fn works_that_wait_for_limits_of_their_own_tenant_hold_up_no_bulk_send() {
    let dispatch = dispatch();
    let push = ChannelSet::EMPTY.with(ChannelKind::Push);
    let is_contended = |places: u32| dispatch.is_contended(push, &|_, _| places);
    (0..63).for_each(|arrival| offer_work(&dispatch, arrival));
    assert!(!is_contended(u32::MAX));
    (63..200).for_each(|arrival| offer_work(&dispatch, arrival));
    assert!(is_contended(u32::MAX), "they could go on");
    assert!(!dispatch.is_contended(ChannelSet::EMPTY.with(ChannelKind::Email), &NO_BOUND));
    assert!(!is_contended(0));
    // Its one place is in use.
    let one = |_, _| 1;
    assert_eq!(dispatch.next(NOW, NOW, &one).0.len(), 1);
    assert!(!is_contended(1));
    let waiting = dispatch.backlog(NOW).into_iter().find(|one| one.channel == ChannelKind::Push);
    assert!(waiting.is_some_and(|one| one.works[Priority::Normal as usize] > 64), "as many as before");
    // Those of another tenant have room.
    for arrival in 0..64 {
        let work = of_other_tenant(work(arrival));
        dispatch.offer(SHARD, &[Offer::Work { work, lane: Priority::High }]);
    }
    assert!(dispatch.is_contended(push, &|_, tenant| u32::from(tenant != TenantId(1))));
}

/// Work in every shard, more than fits, of one tenant or of one for each. Whatever is served is replaced from the tables of all.
#[test]
fn shards_share_the_places_of_what_is_full() {
    let few = Knobs { lane_works: 300, ..Knobs::default() };
    for (knobs, tenants) in [(Knobs::default(), [1; 4]), (few, [1; 4]), (few, [1, 2, 3, 4])] {
        let dispatch = Dispatch::new((0..SHARDS).map(ShardNo), NOW, knobs);
        for (shard, _) in dispatch.due(NOW) {
            found_work(&dispatch, shard, &[]);
            let tenant = TenantId(tenants[usize::from(shard.0)]);
            for arrival in 0..=WORK_PER_TENANT_MAX as u64 {
                let work = WorkId { tenant, ..work(arrival) };
                dispatch.offer(shard, &[Offer::Work { work, lane: Priority::Normal }]);
            }
        }
        let (mut served, mut wall) = (BTreeMap::<ShardNo, usize>::new(), NOW);
        for _ in 0..40 {
            for start in dispatch.next(NOW, NOW, &|_, _| 100).0 {
                let done = vec![Came { sends: 1, more: false, is_early: false }; start.turn.keys.len()];
                *served.entry(start.shard()).or_default() += done.len();
                let tenant = start.turn.tenant;
                let used = dispatch.planned(start, &done);
                answered(&dispatch, tenant, used);
            }
            wall = wall.plus(LOOK_AGAIN_MS);
            dispatch.look(wall, |_, look| {
                Ok(TableScan { refilled: look.refill.map(endless), ..nothing_found() })
            });
        }
        let least = served.values().sum::<usize>() / usize::from(SHARDS) / 2;
        assert!((0..SHARDS).all(|shard| served.get(&ShardNo(shard)) > Some(&least)), "{served:?}");
    }
}

/// A page of an endless backlog.
fn endless(Refill { from, .. }: Refill<WorkId>) -> Vec<(WorkId, WorkRow)> {
    let (last, first) = match from {
        RowsFrom::At(first) => (first, first.arrival.0),
        RowsFrom::Behind(last) => (last, last.arrival.0 + 1),
    };
    let works = (first..).take(PAGE).map(|arrival| WorkId { arrival: Arrival(arrival), ..last });
    works.map(|work| (work, row())).collect()
}

/// Timers for which there is no room are in nobody's way: those behind them are read at once, and they are not walked over again.
#[test]
fn timers_that_do_not_fit_hold_up_no_others() {
    let dispatch = dispatch();
    fill_lane(&dispatch);
    for first in [10_000, 20_000] {
        let page: Vec<Timer> = (first..).take(PAGE).map(|arrival| timer(900, arrival)).collect();
        found(&dispatch, &page, None);
        assert!(wants_timers(&dispatch, NOW.0), "the next page is read at once");
    }
    let other = Timer { parcel: ParcelId::of(of_other_tenant(work(1)), UserNo(0)), ..timer(950, 1) };
    found(&dispatch, &[other], Some(timer(5_000, 2)));
    let starts = dispatch.next(NOW, NOW, &NO_BOUND).0;
    assert!(starts.iter().any(|start| start.turn.tenant == QUIET), "it is begun at once");
    assert!(!wants_timers(&dispatch, 4_999), "there is nothing new");
    let anew = dispatch.due(Millis(5_000));
    assert!(matches!(anew[..], [(_, Look { timers: Some(TimersFrom::Due(from)), .. })] if from > NOW));
}

/// Its accounts are asked under the lock of all.
#[test]
fn a_tenant_is_asked_once_for_its_room_however_many_turns_start() {
    let dispatch = flooded();
    for tenant in 10..30 {
        let work = WorkId { tenant: TenantId(tenant), ..work(1) };
        dispatch.offer(SHARD, &[Offer::Work { work, lane: Priority::Normal }]);
    }
    // So much is under way that others who wait count.
    for start in dispatch.next(NOW, NOW, &|_, tenant| if tenant == LOUD { u32::MAX } else { 0 }).0 {
        let came = Came { sends: start.turn.deliveries_max, more: true, is_early: false };
        dispatch.planned(start, &[came]);
    }
    let asked = RefCell::new(BTreeMap::<TenantId, u32>::new());
    let places = |_: ChannelKind, tenant: TenantId| {
        *asked.borrow_mut().entry(tenant).or_default() += 1;
        if tenant.0 < 20 { 50 } else { 0 }
    };
    assert!(dispatch.next(NOW, NOW, &places).0.len() > 5);
    assert_eq!(asked.borrow().values().max(), Some(&1));
    asked.borrow_mut().clear();
    (100..200).for_each(|arrival| offer_work(&dispatch, arrival));
    dispatch.is_contended(ChannelSet::EMPTY.with(ChannelKind::Push), &places);
    assert_eq!(asked.borrow().values().max(), Some(&1));
}
