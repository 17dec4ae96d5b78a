//! Bursts of twenty times a limit through the real senders, over sockets of this machine and in virtual time: hosts of
//! webhooks, senders of texts, the quota of a project, a new sender of mail.
//!
//! Everything runs on one thread. Time moves on only when nothing moves by itself any more.

use super::drain::{Backlog, START_WITHIN_MS, TENANT, locked};
use super::fcm_desk;
use super::house::{Everywhere, endpoint, policy};
use super::mail;
use super::parcel::{message, shipment};
use super::relay::{Manners, Relay};
use super::service::{React, Reaction, Seen, Service};
use super::time::{Time, WALL};
use fantail_channels::accounts::Registry;
use fantail_channels::accounts::open::opener;
use fantail_channels::webhook::{self, Webhook};
use fantail_outbound::connector::{Connector, SystemDialer};
use fantail_outbound::pool::Ports;
use fantail_ports::accounts::{Account, Accounts, Credentials};
use fantail_ports::channel::{Answer, Channel, Message, Shipment};
use fantail_ports::clock::Clock;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::Millis;
use fantail_rules::provider_kind::ProviderKind;
use fantail_rules::push_address::FcmKind;
use fantail_rules::warm_up::{DAY_MS, allowed};
use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::runtime::{Builder, Runtime};

/// The sockets are quiet when nothing came in so many rounds of the runtime.
const QUIET_ROUNDS: u32 = 16;
/// Time moves on in steps of this.
const STEP_MS: u64 = 5;

struct Street {
    runtime: Runtime,
    time: Arc<Time>,
    service: Service,
}

impl Street {
    fn new(react: Arc<React>) -> Self {
        let runtime = Builder::new_current_thread().enable_io().build().expect("a runtime");
        let time = Time::new(Some(runtime.handle().clone()));
        let service = runtime.block_on(Service::timed(runtime.handle(), react, time.clone()));
        Self { runtime, time, service }
    }

    /// A channel through one account.
    fn account(&self, kind: ProviderKind, settings: &Value, secrets: &Value) -> Arc<dyn Channel> {
        let account = Account {
            tenant: TENANT,
            id: "own".to_owned(),
            version: 1,
            kind,
            settings: settings.to_string(),
            secrets: Credentials::new(secrets.to_string().into_bytes()),
            order: 0,
            weight: 1,
            per_second: None,
            concurrency: None,
            enabled: true,
        };
        let ports =
            Ports { clock: self.time.clone(), tasks: self.time.clone(), connector: Connector::of_operator() };
        let registry = Registry::new(self.time.clone(), self.time.clone(), opener(ports));
        assert_eq!(registry.check(&account), Ok(()));
        registry.replace(TENANT, vec![account]);
        registry.channel(match kind {
            ProviderKind::Apns | ProviderKind::Fcm | ProviderKind::WebPush => ChannelKind::Push,
            ProviderKind::Ses | ProviderKind::Smtp => ChannelKind::Email,
            ProviderKind::Twilio => ChannelKind::Sms,
        })
    }

    /// Gives them all to the channel, and again what was put off, until this time has passed or none is left. Returns when
    /// each was taken.
    fn drain(&self, channel: &dyn Channel, burst: &Burst, until_ms: u64) -> Vec<(u64, usize)> {
        let pulse = || self.service.count();
        self.runtime.block_on(drain(&self.time, channel, burst, until_ms, (&pulse, |_| ())))
    }
}

/// Messages that are due at once.
struct Burst {
    content: &'static [u8],
    endpoints: Vec<Vec<u8>>,
}

async fn drain(
    time: &Time,
    channel: &dyn Channel,
    burst: &Burst,
    until_ms: u64,
    (pulse, mut meanwhile): (&dyn Fn() -> usize, impl FnMut(u64)),
) -> Vec<(u64, usize)> {
    let began = time.monotonic();
    let backlog = &Mutex::new(Backlog::new(began, burst.endpoints.len()));
    let mut sending = FuturesUnordered::new();
    let moved = || {
        let backlog = locked(backlog);
        (pulse(), backlog.held, backlog.accepted.len(), backlog.put_off)
    };
    loop {
        let now = time.monotonic();
        meanwhile(now.since(began));
        let starts = locked(backlog).start(now, channel, true);
        for numbers in starts {
            sending.push(async move {
                let one = |no: &usize| Message {
                    recipient: *no as u64,
                    ..message(&format!("r{no}"), &burst.endpoints[*no])
                };
                let messages = numbers.iter().map(one).collect();
                let (deadline, content) = (now.plus(START_WITHIN_MS), Arc::from(burst.content));
                let shipment = Shipment { deadline, tenant: TENANT, content, ..shipment(messages) };
                let report = |place: usize, answer: Answer| {
                    locked(backlog).ended(numbers[place], &answer, time.monotonic());
                };
                channel.send(&shipment, &report).await;
            });
        }
        let (mut quiet, mut before) = (0, moved());
        while quiet < QUIET_ROUNDS {
            while let Some(Some(())) = sending.next().now_or_never() {}
            tokio::task::yield_now().await;
            let after = moved();
            quiet = if after == before { quiet + 1 } else { 0 };
            before = after;
        }
        let backlog = locked(backlog);
        if backlog.is_over() || time.monotonic().since(began) >= until_ms {
            return backlog.accepted.iter().map(|(at, no)| (at.since(began), *no)).collect();
        }
        // With nothing under way, nothing happens before the next one is due.
        let next = backlog.waiting.first().map(|(due, _)| due.since(time.monotonic()));
        let idle_ms = next.filter(|_| backlog.held == 0).unwrap_or(0);
        drop(backlog);
        time.advance(idle_ms.max(STEP_MS));
    }
}

/// When the last of them was taken.
fn last(taken: &[(u64, usize)], of: impl Fn(usize) -> bool) -> u64 {
    taken.iter().filter(|(_, no)| of(*no)).map(|(at, _)| *at).max().expect("one was taken")
}

/// Never more than so many at once and so many per second, in any stretch of time.
fn check_rate(taken: &[(u64, usize)], per_minute: u64, burst: u64) {
    for (first, (from, _)) in taken.iter().enumerate() {
        for (place, (at, _)) in taken.iter().enumerate().skip(first) {
            let count = (place - first + 1) as u64;
            let most = burst * 60_000 + per_minute * (at - from + STEP_MS);
            assert!(count * 60_000 <= most, "{count} from {from} to {at} ms, at {per_minute} per minute");
        }
    }
}

fn hooks(street: &Street, host_concurrency_max: usize) -> Webhook {
    let settings = webhook::Settings { host_concurrency_max, ..webhook::Settings::default() };
    let at = street.service.address.to_string();
    let connector = Connector::with(policy([&at]), Arc::new(Everywhere), Arc::new(SystemDialer));
    let ports = Ports { clock: street.time.clone(), tasks: street.time.clone(), connector };
    Webhook::new(settings, ports).expect("good settings")
}

fn ok(_: &Seen) -> Reaction {
    Reaction::body(200, "")
}

fn hook(street: &Street, host: &str, latency_ms: u64) -> Vec<u8> {
    endpoint(&format!("http://{host}:{}/wait/{latency_ms}", street.service.address.port()))
}

// fixes: interop F1
#[test]
fn a_burst_drains_at_the_concurrency_of_a_host() {
    for (places, latency_ms, times) in
        [(8, 300, 20), (8, 300, 100), (8, 50, 20), (50, 300, 20), (1, 100, 100)]
    {
        let street = Street::new(Arc::new(ok));
        let count = places * times;
        let burst =
            Burst { content: b"{}", endpoints: vec![hook(&street, "one.example", latency_ms); count] };
        let taken = street.drain(&hooks(&street, places), &burst, u64::MAX);
        assert_eq!((taken.len(), street.service.in_flight_max()), (count, places));
        let ideal_ms = times as u64 * latency_ms;
        let took_ms = last(&taken, |_| true);
        assert!(
            took_ms <= ideal_ms * 10 / 9 + 1_000,
            "{count} in {places} places: {took_ms}, not {ideal_ms} ms"
        );
    }
}

/// One shipment has messages for both; each host goes at its own speed.
// fixes: interop F1
#[test]
fn a_slow_host_takes_no_time_from_a_fast_one() {
    let street = Street::new(Arc::new(ok));
    let one = |no: usize| match no % 4 {
        0 => hook(&street, "slow.example", 1_000),
        _ => hook(&street, "fast.example", 100),
    };
    let burst = Burst { content: b"{}", endpoints: (0..640).map(one).collect() };
    let taken = street.drain(&hooks(&street, 8), &burst, u64::MAX);
    let (slow_ms, fast_ms) =
        (last(&taken, |no| no.is_multiple_of(4)), last(&taken, |no| !no.is_multiple_of(4)));
    assert!(fast_ms <= 6_000 * 10 / 9 + 1_000, "the fast host took {fast_ms} ms for 480 messages");
    assert!(slow_ms <= 20_000 * 10 / 9 + 1_000, "the slow host took {slow_ms} ms for 160 messages");
}

fn texts(street: &Street, senders: &Value) -> Arc<dyn Channel> {
    let settings = json!({
        "accountSid": "AC00000000000000000000000000000001", "senders": senders,
        "endpoint": "http://api.twilio.com", "connectTo": street.service.address.to_string(),
    });
    street.account(ProviderKind::Twilio, &settings, &json!({"authToken": "token"}))
}

fn queued(_: &Seen) -> Reaction {
    Reaction::body(201, r#"{"sid": "SM1", "status": "queued"}"#)
}

const TEXT: &[u8] = br#"{"body":"Hi"}"#;

// fixes: interop F1
#[test]
fn a_burst_drains_at_the_pace_of_its_sender() {
    for (per_second, times) in [(1, 20), (1, 100), (10, 20), (100, 20)] {
        let street = Street::new(Arc::new(queued));
        let channel = texts(&street, &json!([{"from": "+12025550100", "perSecond": per_second}]));
        let count = per_second * times;
        let burst = Burst { content: TEXT, endpoints: vec![b"+12025550199".to_vec(); count] };
        let taken = street.drain(&*channel, &burst, u64::MAX);
        let took_ms = last(&taken, |_| true);
        assert!(
            took_ms <= times as u64 * 1_000 * 10 / 9 + 1_000,
            "{count} at {per_second}/s took {took_ms} ms"
        );
        check_rate(&taken, 60 * per_second as u64, per_second as u64);
    }
}

// fixes: interop F1
#[test]
fn a_slow_sender_takes_no_time_from_a_fast_one() {
    let street = Street::new(Arc::new(queued));
    let channel = texts(
        &street,
        &json!([
            {"from": "+12025550100", "perSecond": 1, "prefixes": ["+1"]},
            {"from": "+436605550100", "perSecond": 50, "prefixes": ["+43"]},
        ]),
    );
    let one =
        |no: usize| if no.is_multiple_of(2) { b"+12025550199".to_vec() } else { b"+436601234567".to_vec() };
    let burst = Burst { content: TEXT, endpoints: (0..2_000).map(one).collect() };
    let taken = street.drain(&*channel, &burst, 30_000);
    assert_eq!(taken.iter().filter(|(_, no)| !no.is_multiple_of(2)).count(), 1_000, "all of the fast one");
    let fast_ms = last(&taken, |no| !no.is_multiple_of(2));
    assert!(fast_ms <= 20_000 * 10 / 9 + 1_000, "the fast sender took {fast_ms} ms for 1,000 texts");
    let slow = taken.iter().filter(|(_, no)| no.is_multiple_of(2)).count();
    assert!((27..=32).contains(&slow), "{slow} in 30 s of one per second");
}

/// Many long codes, each at one text a second: those that wait for their turn take no room from the others.
// fixes: interop F1
#[test]
fn many_slow_senders_are_fast_together() {
    let street = Street::new(Arc::new(queued));
    let sender = |no: usize| json!({"from": format!("+120255{:05}", 50_100 + no), "perSecond": 1});
    let channel = texts(&street, &Value::Array((0..60).map(sender).collect()));
    let burst = Burst { content: TEXT, endpoints: vec![b"+12025550199".to_vec(); 3_000] };
    let taken = street.drain(&*channel, &burst, 20_000);
    assert!(taken.len() >= 1_080, "{} in 20 s of 60 per second", taken.len());
}

fn firebase(seen: &Seen) -> Reaction {
    if seen.path == "/token" {
        return Reaction::body(200, r#"{"access_token": "access", "expires_in": 3600000}"#);
    }
    Reaction::body(200, r#"{"name":"projects/p1/messages/1"}"#)
}

fn devices(count: usize) -> Burst {
    let one = |no| fcm_desk::address(FcmKind::Token, None, &format!("ok-{no}"));
    Burst { content: br#"{"title":"hello"}"#, endpoints: (0..count).map(one).collect() }
}

// fixes: interop F1
#[test]
fn a_burst_drains_at_the_quota_of_its_project() {
    for (quota, times) in [(120, 20), (120, 100), (600, 20), (6_000, 20)] {
        let street = Street::new(Arc::new(firebase));
        let base = format!("http://{}", street.service.address);
        let settings = json!({"projectId": "p1", "quotaPerMinute": quota, "endpoint": base});
        let channel = street.account(ProviderKind::Fcm, &settings, &fcm_desk::secrets(&base));
        let count = quota as usize / 60 * times;
        let taken = street.drain(&*channel, &devices(count), u64::MAX);
        let took_ms = last(&taken, |_| true);
        assert!(
            took_ms <= times as u64 * 1_000 * 10 / 9 + 1_000,
            "{count} at {quota} a minute took {took_ms} ms"
        );
        check_rate(&taken, quota, 1.max(quota / 600));
    }
}

// fixes: interop F1
#[test]
fn a_quota_that_is_changed_meanwhile_holds_at_once() {
    for (before, after) in [(120, 6_000), (6_000, 600)] {
        let street = Street::new(Arc::new(firebase));
        let settings = json!({"projectId": "p1", "quotaPerMinute": before});
        let fcm = fcm_desk::open(&street.service, &street.time, settings);
        let burst = devices(1_000);
        let pulse = || street.service.count();
        let mut is_changed = false;
        let change = |ms| {
            if ms >= 5_000 && !is_changed {
                is_changed = true;
                assert!(fcm.set_quota("p1", after));
            }
        };
        let draining = drain(&street.time, &fcm, &burst, u64::MAX, (&pulse, change));
        let taken = street.runtime.block_on(draining);
        let left = 1_000 - 5 * u64::from(before) / 60;
        let took_ms = last(&taken, |_| true);
        // What was put off comes back when the old quota said so, within a minute.
        let most_ms =
            5_000 + left * 60_000 / u64::from(after) * 10 / 9 + if after > before { 60_000 } else { 1_000 };
        assert!(took_ms <= most_ms, "{before} and then {after} a minute took {took_ms}, not {most_ms} ms");
        let later: Vec<_> = taken.into_iter().filter(|(at, _)| *at > 5_000).collect();
        check_rate(&later, after.into(), 1.max(u64::from(after) / 600));
    }
}

/// Each day has all that it allows, soon after it began, and nothing more.
fn warms_up(target: u64, count: usize) {
    /// 2023-11-14, which is the first day here.
    const FIRST: u64 = WALL.0 / DAY_MS;
    let street = Street::new(Arc::new(ok));
    let manners = Manners { pipelining: true, ..Manners::default() };
    let relay = street.runtime.block_on(Relay::start(street.runtime.handle(), manners));
    let (mut settings, _) = mail::account();
    settings["port"] = relay.address.port().into();
    settings["connectTo"] = relay.address.to_string().into();
    settings["dkim"] = Value::Null;
    settings["warmUp"] = json!({"firstDay": "2023-11-14", "target": target});
    let channel = street.account(ProviderKind::Smtp, &settings, &json!({}));
    let endpoints = (0..count).map(|no| format!("u{no}@mail{}.example", no % 7).into_bytes()).collect();
    let burst = Burst { content: br#"{"subject":"Hello","text":"Hello you"}"#, endpoints };
    let pulse = || relay.heard();
    let draining = drain(&street.time, &*channel, &burst, 30 * DAY_MS, (&pulse, |_| ()));
    let taken = street.runtime.block_on(draining);
    assert_eq!((taken.len(), relay.taken().len()), (count, count));
    let wall = |ms: u64| WALL.plus(ms);
    let last_day = wall(last(&taken, |_| true)).0 / DAY_MS - FIRST;
    for day in 0..=last_day {
        let of_day: Vec<Millis> =
            taken.iter().map(|(ms, _)| wall(*ms)).filter(|at| at.0 / DAY_MS - FIRST == day).collect();
        let most = allowed(u32::try_from(day).expect("few days"), target).expect("it is new");
        let sent = of_day.len() as u64;
        assert!(sent == most || (day == last_day && sent < most), "{sent} of {most} on day {day}");
        let latest = of_day.iter().max().expect("some on each day");
        let waited_ms = latest.0 - (latest.0 / DAY_MS * DAY_MS).max(WALL.0);
        assert!(waited_ms <= 600_000, "mails of day {day} waited for {waited_ms} ms");
    }
}

// proves: EML-01
// fixes: interop F1
#[test]
fn a_burst_of_a_new_sender_drains_at_what_each_day_allows() {
    // Twenty times what a day allows, and one that grows.
    warms_up(3, 60);
    warms_up(1_000_000, 150);
}
