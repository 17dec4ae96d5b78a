//! Every limit drains a burst of twenty times itself at nine tenths of its own rate, and nothing waits while there is room.
//!
//! A small model of the dispatcher stands around a channel, in virtual time: it starts what is due in shipments, and what was
//! not taken comes back by `rules::retry`, on whole seconds as the timers of deliveries do.

use super::parcel::{message, shipment};
use super::time::Time;
use fantail_channels::accounts::Registry;
use fantail_channels::accounts::client::{Client, Usual};
use fantail_channels::fields::SettingsError;
use fantail_channels::probe::Hop;
use fantail_ports::BoxFuture;
use fantail_ports::accounts::{Account, Accounts, Credentials};
use fantail_ports::channel::{Answer, Channel, Message, Proof, Report, Scope, Shipment};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::pacing::{Concurrency, Rate};
use fantail_rules::priority::Priority;
use fantail_rules::provider_kind::ProviderKind;
use fantail_rules::retry::{self, Cause, Retry};
use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

pub const TENANT: TenantId = TenantId(1);
/// Messages of one shipment at most.
const SHIPMENT: usize = 100;
/// What leaves so long after it was planned is too late.
pub const START_WITHIN_MS: u64 = 2_000;

/// A provider that answers everything after a while, and counts.
struct Provider {
    time: Arc<Time>,
    usual: Usual,
    latency_ms: u64,
    /// Until then it wants a rest.
    rests_until: Millis,
    /// Until then it does not work.
    fails_until: Millis,
    in_flight: AtomicU32,
    most: AtomicU32,
}

impl Channel for Provider {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let began = self.time.monotonic();
            let count = u32::try_from(shipment.messages.len()).expect("few");
            let now = self.in_flight.fetch_add(count, Ordering::Relaxed) + count;
            self.most.fetch_max(now, Ordering::Relaxed);
            self.time.sleep_until(began.plus(self.latency_ms)).await;
            self.in_flight.fetch_sub(count, Ordering::Relaxed);
            for (place, message) in shipment.messages.iter().enumerate() {
                report(place, self.answer(&message.endpoint, began));
            }
        })
    }
}

impl Provider {
    fn answer(&self, endpoint: &[u8], began: Millis) -> Answer {
        let later =
            |scope, after_ms| Answer::Later { after_ms, scope, code: "x".into(), message: String::new() };
        if began < self.rests_until {
            return later(Scope::Origin, Some(self.rests_until.since(self.time.monotonic())));
        }
        if began < self.fails_until {
            return later(Scope::Message, None);
        }
        if endpoint.starts_with(b"renewed") {
            return later(Scope::Endpoint, None);
        }
        Answer::Accepted { provider_id: None }
    }
}

impl Client for Provider {
    fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        Box::pin(async { Vec::new() })
    }

    fn usual(&self) -> Usual {
        self.usual
    }
}

/// What a case of an account is like.
#[derive(Clone, Copy)]
struct Case {
    per_second: Option<u32>,
    concurrency: Option<u32>,
    usual: Usual,
    latency_ms: u64,
    rests_ms: u64,
    fails_ms: u64,
    /// Whether the dispatcher asks how much room there is, or gives everything at once.
    asks_for_places: bool,
}

const PLENTY: Usual = Usual {
    rate: Rate { per_second: 200_000, burst: 50_000 },
    concurrency: Concurrency { start: 2_000, ceiling: 8_000 },
};
const CASE: Case = Case {
    per_second: None,
    concurrency: None,
    usual: PLENTY,
    latency_ms: 100,
    rests_ms: 0,
    fails_ms: 0,
    asks_for_places: true,
};

struct Desk {
    time: Arc<Time>,
    provider: Arc<Provider>,
    registry: Arc<Registry>,
    channel: Arc<dyn Channel>,
    asks_for_places: bool,
}

impl Desk {
    fn new(case: Case) -> Self {
        let time = Time::new(None);
        let provider = provider(&time, case);
        let client: Arc<dyn Client> = provider.clone();
        let registry = Registry::new(time.clone(), time.clone(), Box::new(move |_| Ok(client.clone())));
        registry.replace(TENANT, vec![account(case)]);
        let channel = registry.channel(ChannelKind::Sms);
        Self { time, provider, registry, channel, asks_for_places: case.asks_for_places }
    }

    fn burst(&self, count: usize) -> Drained {
        drain(&self.time, &*self.channel, self.asks_for_places, &endpoints("user", count), |_| ())
    }
}

fn provider(time: &Arc<Time>, case: Case) -> Arc<Provider> {
    let began = time.monotonic();
    Arc::new(Provider {
        time: time.clone(),
        usual: case.usual,
        latency_ms: case.latency_ms,
        rests_until: began.plus(case.rests_ms),
        fails_until: began.plus(case.fails_ms),
        in_flight: AtomicU32::new(0),
        most: AtomicU32::new(0),
    })
}

fn account(case: Case) -> Account {
    Account {
        tenant: TENANT,
        id: "texts".to_owned(),
        version: 1,
        kind: ProviderKind::Twilio,
        settings: String::new(),
        secrets: Credentials::new(Vec::new()),
        order: 0,
        weight: 1,
        per_second: case.per_second,
        concurrency: case.concurrency,
        enabled: true,
    }
}

fn endpoints(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|no| format!("{name}-{no}")).collect()
}

/// How a burst was drained.
#[derive(Debug)]
pub struct Drained {
    pub took_ms: u64,
    /// Attempts that did not even begin.
    pub put_off: u64,
}

/// When what was not taken comes back.
fn due(answer: &Answer, now: Millis) -> Millis {
    let (cause, retry_after_ms) = match answer {
        Answer::NotSent { proof: Proof::NoRoom { after_ms }, .. } => (Cause::NoRoom, Some(*after_ms)),
        Answer::NotSent { proof: Proof::Resting { after_ms }, .. } => (Cause::Ours, Some(*after_ms)),
        Answer::NotSent { proof: Proof::Deadline, .. } => (Cause::Ours, None),
        Answer::Later { after_ms, scope: Scope::Origin | Scope::Credential, .. } => (Cause::Scope, *after_ms),
        other => panic!("{other:?}"),
    };
    let ask = retry::Ask {
        lane: Priority::Normal,
        cause,
        retries: 0,
        retry_after_ms,
        chance: u32::MAX / 2,
        now,
        expires_at: Millis(u64::MAX),
    };
    match retry::decide(&ask) {
        Retry::At(at) => Millis(at.0.div_ceil(1_000) * 1_000),
        other => panic!("{other:?}"),
    }
}

/// Sends all of them, however often it takes. `meanwhile` happens every millisecond, and is given how long it takes by then.
fn drain(
    time: &Time,
    channel: &dyn Channel,
    asks_for_places: bool,
    endpoints: &[String],
    mut meanwhile: impl FnMut(u64),
) -> Drained {
    let began = time.monotonic();
    let backlog = &Mutex::new(Backlog::new(began, endpoints.len()));
    let mut sending = FuturesUnordered::new();
    for _ in 0..400_000 {
        let now = time.monotonic();
        meanwhile(now.since(began));
        for numbers in locked(backlog).start(now, channel, asks_for_places) {
            sending.push(async move {
                let message = |no: &usize| Message {
                    recipient: *no as u64,
                    ..message(&endpoints[*no], endpoints[*no].as_bytes())
                };
                let messages = numbers.iter().map(message).collect();
                let deadline = now.plus(START_WITHIN_MS);
                let shipment = Shipment { deadline, tenant: TENANT, ..shipment(messages) };
                let report = |place: usize, answer: Answer| {
                    locked(backlog).ended(numbers[place], &answer, time.monotonic());
                };
                channel.send(&shipment, &report).await;
            });
        }
        while let Some(Some(())) = sending.next().now_or_never() {}
        if locked(backlog).is_over() {
            return Drained { took_ms: now.since(began), put_off: locked(backlog).put_off };
        }
        time.advance(1);
    }
    panic!("it does not end: {} are left", locked(backlog).waiting.len());
}

/// What a dispatcher knows.
pub struct Backlog {
    /// When each is due.
    pub waiting: BTreeSet<(Millis, usize)>,
    pub held: usize,
    pub put_off: u64,
    /// When each was taken.
    pub accepted: Vec<(Millis, usize)>,
}

impl Backlog {
    pub fn new(now: Millis, count: usize) -> Self {
        let waiting = (0..count).map(|no| (now, no)).collect();
        Self { waiting, held: 0, put_off: 0, accepted: Vec::new() }
    }

    pub fn start(&mut self, now: Millis, channel: &dyn Channel, asks_for_places: bool) -> Vec<Vec<usize>> {
        let places = if asks_for_places { channel.places(TENANT) as usize } else { usize::MAX };
        let is_due = |one: &&(Millis, usize)| one.0 <= now;
        let room = places.saturating_sub(self.held);
        let due: Vec<_> = self.waiting.iter().take_while(is_due).take(room).copied().collect();
        due.iter().for_each(|one| assert!(self.waiting.remove(one)));
        self.held += due.len();
        due.chunks(SHIPMENT).map(|part| part.iter().map(|(_, no)| *no).collect()).collect()
    }

    /// A refusal of an endpoint, or of a message, is an end here.
    pub fn ended(&mut self, no: usize, answer: &Answer, now: Millis) {
        self.held -= 1;
        match answer {
            Answer::Accepted { .. } => self.accepted.push((now, no)),
            Answer::Later { scope: Scope::Endpoint | Scope::Message, .. } => {}
            other => {
                self.put_off += u64::from(matches!(other, Answer::NotSent { .. }));
                self.waiting.insert((due(other, now), no));
            }
        }
    }

    pub fn is_over(&self) -> bool {
        self.held == 0 && self.waiting.is_empty()
    }
}

pub fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no panic")
}

/// So many at so many per second, and a little for the last answer.
pub fn check(drained: &Drained, count: usize, per_second: u64, slack_ms: u64) {
    let ideal_ms = count as u64 * 1_000 / per_second;
    let most_ms = ideal_ms * 10 / 9 + slack_ms;
    assert!(drained.took_ms <= most_ms, "{count} at {per_second}/s took more than {most_ms} ms: {drained:?}");
}

// fixes: interop F1
#[test]
fn a_burst_drains_at_the_accounts_concurrency() {
    for asks_for_places in [true, false] {
        for (concurrency, latency_ms, times) in
            [(50, 300, 20), (50, 50, 20), (200, 300, 20), (1, 100, 20), (50, 300, 100), (1, 100, 100)]
        {
            let case = Case { concurrency: Some(concurrency), latency_ms, asks_for_places, ..CASE };
            let desk = Desk::new(case);
            let count = times * concurrency as usize;
            let drained = desk.burst(count);
            check(
                &drained,
                count,
                u64::from(concurrency) * 1_000 / latency_ms,
                latency_ms + 1_000 * u64::from(!asks_for_places),
            );
            assert_eq!(
                desk.provider.most.load(Ordering::Relaxed),
                concurrency,
                "all places are used, and no more"
            );
            assert!(!asks_for_places || drained.put_off == 0, "{drained:?}");
        }
    }
}

// fixes: interop F1
#[test]
fn a_burst_drains_at_the_accounts_rate() {
    for asks_for_places in [true, false] {
        for (per_second, times) in [(1, 20), (10, 20), (100, 20), (1, 100), (10, 100)] {
            let desk = Desk::new(Case { per_second: Some(per_second), asks_for_places, ..CASE });
            let count = times * per_second as usize;
            let drained = desk.burst(count);
            check(&drained, count, per_second.into(), 1_000);
            let least_ms = (times as u64 - 1) * 1_000;
            assert!(drained.took_ms >= least_ms, "faster than its rate: {drained:?}");
        }
    }
}

// fixes: interop F1
#[test]
fn one_refused_token_does_not_slow_the_others_down() {
    let desk = Desk::new(CASE);
    for round in 0..4 {
        drain(&desk.time, &*desk.channel, true, &endpoints(&format!("renewed-{round}"), 1), |_| ());
        desk.time.advance(10_000);
    }
    let drained = desk.burst(1_000);
    assert!(drained.took_ms <= 200, "there is room for all of them at once: {drained:?}");
}

// fixes: interop F1, torture 8
#[test]
fn a_burst_begins_when_a_rest_is_over_and_comes_back_gently() {
    for asks_for_places in [true, false] {
        let case = Case { concurrency: Some(50), rests_ms: 20_000, asks_for_places, ..CASE };
        let desk = Desk::new(case);
        let drained = desk.burst(1_000);
        // 500 per second after a return in steps: a tenth, two tenths, four and eight.
        let most_ms = 20_000 + 4_000 + 2_000 + 3_000;
        assert!((20_000..=most_ms).contains(&drained.took_ms), "{drained:?}");
    }
}

// fixes: interop F1, torture 8
#[test]
fn a_burst_begins_when_a_provider_works_again() {
    let case = Case { concurrency: Some(50), fails_ms: 30_000, ..CASE };
    let desk = Desk::new(case);
    // They fail until the breaker opens.
    drain(&desk.time, &*desk.channel, true, &endpoints("lost", 60), |_| ());
    let drained = desk.burst(1_000);
    // The breaker probes within twice the time that it was open; then 50 places come back one by one from a few.
    assert!(drained.took_ms <= 30_000 + 30_000 + 20_000, "{drained:?}");
}

/// Two tenants with an account each: the provider of one answers nothing for a minute.
// fixes: security H5
#[test]
fn an_account_that_hangs_slows_no_other_tenant_down() {
    let (loud, quiet) = (TenantId(2), TENANT);
    let time = Time::new(None);
    let provider = |latency_ms| provider(&time, Case { latency_ms, ..CASE });
    let (hanging, well) = (provider(60_000), provider(100));
    let open = {
        let (hanging, well) = (hanging.clone(), well.clone());
        move |account: &Account| -> Result<Arc<dyn Client>, SettingsError> {
            Ok(if account.tenant == loud { hanging.clone() } else { well.clone() })
        }
    };
    let registry = Registry::new(time.clone(), time.clone(), Box::new(open));
    let account = |tenant| Account { tenant, concurrency: Some(50), ..account(CASE) };
    registry.replace(loud, vec![account(loud)]);
    registry.replace(quiet, vec![account(quiet)]);
    let channel = registry.channel(ChannelKind::Sms);
    let messages = (0..500).map(|no| message(&format!("r{no}"), b"hang")).collect();
    let deadline = time.monotonic().plus(START_WITHIN_MS);
    let stuck = Shipment { tenant: loud, deadline, ..shipment(messages) };
    let ignore = |_: usize, _: Answer| {};
    let mut hangs = channel.send(&stuck, &ignore);
    assert!((&mut hangs).now_or_never().is_none());
    let drained = drain(&time, &*channel, true, &endpoints("user", 1_000), |_| ());
    check(&drained, 1_000, 500, 100);
    assert_eq!(hanging.in_flight.load(Ordering::Relaxed), 50, "no more than its places");
}

/// Users are spread over two accounts by weight; what the one has no room for goes through the other.
// fixes: interop F1
#[test]
fn two_accounts_drain_a_burst_at_their_limits_together() {
    for asks_for_places in [true, false] {
        for (weights, limit) in
            [((1, 1), (Some(10), None)), ((3, 1), (Some(10), None)), ((9, 1), (None, Some(5)))]
        {
            let desk = Desk::new(Case { asks_for_places, ..CASE });
            let (per_second, concurrency) = limit;
            let one = Account { per_second, concurrency, ..account(CASE) };
            let account = |id: &str, weight| Account { id: id.to_owned(), weight, ..one.clone() };
            desk.registry.replace(TENANT, vec![account("a", weights.0), account("b", weights.1)]);
            for times in [20, 100] {
                let drained = desk.burst(times * 20);
                let both =
                    2 * u64::from(per_second.or(concurrency.map(|places| places * 10)).expect("a limit"));
                let most_ms = times as u64 * 20_000 / both * 10 / 9 + 2_000;
                assert!(
                    drained.took_ms <= most_ms,
                    "weights {weights:?}, limits {limit:?}, asks {asks_for_places}: not {most_ms} ms, {drained:?}"
                );
                desk.time.advance(60_000);
            }
        }
    }
}

/// What waits for the old limit does not wait longer than the new one wants.
// fixes: interop F1
#[test]
fn a_burst_goes_on_at_a_limit_that_is_changed_meanwhile() {
    let case = |per_second, concurrency| Case { per_second, concurrency, ..CASE };
    for (before, after, rates) in [
        (case(Some(1), None), case(Some(100), None), (1, 100)),
        (case(Some(100), None), case(Some(10), None), (100, 10)),
        (case(None, Some(1)), case(None, Some(50)), (10, 500)),
        (case(None, Some(50)), case(None, Some(1)), (500, 10)),
    ] {
        for asks_for_places in [true, false] {
            let desk = Desk::new(Case { asks_for_places, ..before });
            let count = 5 * rates.0 + 20 * rates.1;
            let changed = Account { version: 2, ..account(after) };
            let drained =
                drain(&desk.time, &*desk.channel, asks_for_places, &endpoints("user", count), |ms| {
                    if ms == 5_000 {
                        desk.registry.replace(TENANT, vec![changed.clone()]);
                    }
                });
            let left = count.saturating_sub(5 * rates.0) as u64;
            // Without room in advance, what was put off comes back when the old limit said so, within a minute.
            let slack_ms = if asks_for_places { 2_000 } else { 60_000 };
            let most_ms = 5_000 + left * 1_000 / rates.1 as u64 * 10 / 9 + slack_ms;
            assert!(drained.took_ms <= most_ms, "{rates:?} took more than {most_ms} ms: {drained:?}");
        }
    }
}

/// A retry storm: while nothing works, all that is due is tried, and a hundred times the limit comes back together.
// fixes: interop F1, torture 8
#[test]
fn a_storm_of_retries_drains_once_the_provider_works_again() {
    for asks_for_places in [true, false] {
        let case = Case { concurrency: Some(50), rests_ms: 60_000, asks_for_places, ..CASE };
        let desk = Desk::new(case);
        let drained = desk.burst(5_000);
        // 500 per second, after steps of four seconds; some places were taken away and come back one by one.
        let most_ms = 60_000 + 4_000 + 10_000 * 10 / 9 + 4_000;
        assert!((60_000..=most_ms).contains(&drained.took_ms), "{drained:?}");
        assert!(desk.provider.most.load(Ordering::Relaxed) <= 50);
    }
}
