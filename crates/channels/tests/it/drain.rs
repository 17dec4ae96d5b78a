//! Every limit drains a burst of twenty times itself at nine tenths of its own rate, and nothing waits while there is room.
//!
//! A small model of the dispatcher stands around a channel, in virtual time: it starts what is due in shipments, and what was
//! not taken comes back by `rules::retry`, on whole seconds as the timers of deliveries do.

use super::parcel::{message, shipment};
use super::time::Time;
use fantail_channels::accounts::Registry;
use fantail_channels::accounts::client::{Client, Usual};
use fantail_channels::probe::Hop;
use fantail_ports::BoxFuture;
use fantail_ports::accounts::{Account, Accounts};
use fantail_ports::channel::{Answer, Channel, Proof, Report, Scope, Shipment};
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

const TENANT: TenantId = TenantId(1);
/// Messages of one shipment at most.
const SHIPMENT: usize = 100;
/// What leaves so long after it was planned is too late.
const START_WITHIN_MS: u64 = 2_000;

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
    channel: Arc<dyn Channel>,
    asks_for_places: bool,
}

impl Desk {
    fn new(case: Case) -> Self {
        let time = Time::new(None);
        let provider = provider(&time, case);
        let client: Arc<dyn Client> = provider.clone();
        let registry = Registry::new(time.clone(), time.clone(), Box::new(move |_| Ok(client.clone())));
        registry.replace(vec![account(case)]);
        let channel = registry.channel(ChannelKind::Sms);
        Self { time, provider, channel, asks_for_places: case.asks_for_places }
    }

    fn burst(&self, count: usize) -> Drained {
        drain(&self.time, &*self.channel, self.asks_for_places, &endpoints("user", count))
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
        secrets: Vec::new(),
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
struct Drained {
    took_ms: u64,
    /// Attempts that did not even begin.
    put_off: u64,
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

/// Sends all of them, however often it takes.
fn drain(time: &Time, channel: &dyn Channel, asks_for_places: bool, endpoints: &[String]) -> Drained {
    let began = time.monotonic();
    let all: BTreeSet<(Millis, usize)> = (0..endpoints.len()).map(|no| (began, no)).collect();
    let backlog = &Mutex::new(Backlog { waiting: all, held: 0, put_off: 0 });
    let mut sending = FuturesUnordered::new();
    for _ in 0..400_000 {
        let now = time.monotonic();
        for numbers in locked(backlog).start(now, channel, asks_for_places) {
            sending.push(async move {
                let messages =
                    numbers.iter().map(|no| message(&endpoints[*no], endpoints[*no].as_bytes())).collect();
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
struct Backlog {
    /// When each is due.
    waiting: BTreeSet<(Millis, usize)>,
    held: usize,
    put_off: u64,
}

impl Backlog {
    fn start(&mut self, now: Millis, channel: &dyn Channel, asks_for_places: bool) -> Vec<Vec<usize>> {
        let places = if asks_for_places { channel.places(TENANT) as usize } else { usize::MAX };
        let is_due = |one: &&(Millis, usize)| one.0 <= now;
        let room = places.saturating_sub(self.held);
        let due: Vec<_> = self.waiting.iter().take_while(is_due).take(room).copied().collect();
        due.iter().for_each(|one| assert!(self.waiting.remove(one)));
        self.held += due.len();
        due.chunks(SHIPMENT).map(|part| part.iter().map(|(_, no)| *no).collect()).collect()
    }

    /// A refusal of an endpoint, or of a message, is an end here.
    fn ended(&mut self, no: usize, answer: &Answer, now: Millis) {
        self.held -= 1;
        match answer {
            Answer::Accepted { .. } | Answer::Later { scope: Scope::Endpoint | Scope::Message, .. } => {}
            other => {
                self.put_off += u64::from(matches!(other, Answer::NotSent { .. }));
                self.waiting.insert((due(other, now), no));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.held == 0 && self.waiting.is_empty()
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no panic")
}

/// So many at so many per second, and a little for the last answer.
fn check(drained: &Drained, count: usize, per_second: u64, slack_ms: u64) {
    let ideal_ms = count as u64 * 1_000 / per_second;
    let most_ms = ideal_ms * 10 / 9 + slack_ms;
    assert!(drained.took_ms <= most_ms, "{count} at {per_second}/s took more than {most_ms} ms: {drained:?}");
}

// fixes: interop F1
#[test]
fn a_burst_drains_at_the_accounts_concurrency() {
    for asks_for_places in [true, false] {
        for (concurrency, latency_ms) in [(50, 300), (50, 50), (200, 300), (1, 100)] {
            let case = Case { concurrency: Some(concurrency), latency_ms, asks_for_places, ..CASE };
            let desk = Desk::new(case);
            let count = 20 * concurrency as usize;
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
        for per_second in [10, 100] {
            let desk = Desk::new(Case { per_second: Some(per_second), asks_for_places, ..CASE });
            let count = 20 * per_second as usize;
            let drained = desk.burst(count);
            check(&drained, count, per_second.into(), 1_000);
            let least_ms = (20 - 1) * 1_000;
            assert!(drained.took_ms >= least_ms, "faster than its rate: {drained:?}");
        }
    }
}

// fixes: interop F1
#[test]
fn one_refused_token_does_not_slow_the_others_down() {
    let desk = Desk::new(CASE);
    for round in 0..4 {
        drain(&desk.time, &*desk.channel, true, &endpoints(&format!("renewed-{round}"), 1));
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
    drain(&desk.time, &*desk.channel, true, &endpoints("lost", 60));
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
        move |account: &Account| -> Result<Arc<dyn Client>, String> {
            Ok(if account.tenant == loud { hanging.clone() } else { well.clone() })
        }
    };
    let registry = Registry::new(time.clone(), time.clone(), Box::new(open));
    let account = |tenant| Account { tenant, concurrency: Some(50), ..account(CASE) };
    registry.replace(vec![account(loud), account(quiet)]);
    let channel = registry.channel(ChannelKind::Sms);
    let messages = (0..500).map(|no| message(&format!("r{no}"), b"hang")).collect();
    let deadline = time.monotonic().plus(START_WITHIN_MS);
    let stuck = Shipment { tenant: loud, deadline, ..shipment(messages) };
    let ignore = |_: usize, _: Answer| {};
    let mut hangs = channel.send(&stuck, &ignore);
    assert!((&mut hangs).now_or_never().is_none());
    let drained = drain(&time, &*channel, true, &endpoints("user", 1_000));
    check(&drained, 1_000, 500, 100);
    assert_eq!(hanging.in_flight.load(Ordering::Relaxed), 50, "no more than its places");
}
