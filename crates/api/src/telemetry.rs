//! Counters and histograms as plain atomics, and the Prometheus text they are shown as. One relaxed addition per
//! event on the hot path; no registry, no lock, no allocation. Tenant labels are bounded: the first
//! `TENANT_LABELS_MAX` tenants have their own, all others share one.

use crate::access::AccessFault;
use crate::routes::ROUTES;
use fantail_node::Node;
use fantail_node::ask::Resource;
use fantail_rules::ids::TenantId;
use fantail_wire::code::Code;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub const TENANT_LABELS_MAX: usize = 100;

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of latency buckets, in microseconds.
const BOUNDS_US: [u64; 14] = [
    250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 250_000, 500_000, 1_000_000,
    5_000_000,
];

#[derive(Debug, Default)]
pub struct Histogram {
    /// One per bound and one for everything above; each counts only its own range.
    buckets: [Counter; BOUNDS_US.len() + 1],
    sum_us: Counter,
}

impl Histogram {
    pub fn observe(&self, elapsed: Duration) {
        let us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket].add(1);
        self.sum_us.add(us);
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(Counter::get).sum()
    }
}

/// What the API counts.
#[derive(Debug)]
pub struct Telemetry {
    routes: Vec<RouteMeter>,
    /// Accepted events by tenant; the last slot is everyone else's.
    events_accepted: Vec<Counter>,
    /// Requests that were refused because of a rate, in the same slots.
    producer_limited: Vec<Counter>,
    pub events_replayed: Counter,
    pub inbox_reads: Counter,
    problems: Vec<Counter>,
    /// By fault, in the order of their numbers.
    access_refused: [Counter; AccessFault::ALL.len()],
    begun: Counter,
    ended: Counter,
}

/// A request that is being answered, until this is dropped.
pub struct UnderWay<'a>(&'a Telemetry);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.ended.add(1);
    }
}

#[derive(Debug, Default)]
struct RouteMeter {
    /// 1xx to 5xx.
    by_class: [Counter; 5],
    latency: Histogram,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            routes: ROUTES.iter().map(|_| RouteMeter::default()).collect(),
            events_accepted: by_tenant(),
            producer_limited: by_tenant(),
            events_replayed: Counter::default(),
            inbox_reads: Counter::default(),
            problems: Code::ALL.iter().map(|_| Counter::default()).collect(),
            access_refused: Default::default(),
            begun: Counter::default(),
            ended: Counter::default(),
        }
    }
}

impl Telemetry {
    /// Counts a request as under way, also if its client goes away before the answer.
    pub fn begin(&self) -> UnderWay<'_> {
        self.begun.add(1);
        UnderWay(self)
    }

    pub fn answered(&self, route: usize, status: u16, elapsed: Duration) {
        let meter = &self.routes[route];
        meter.by_class[usize::from(status / 100).clamp(1, 5) - 1].add(1);
        meter.latency.observe(elapsed);
    }

    pub fn problem(&self, code: Code) {
        self.problems[code as usize].add(1);
    }

    pub fn access_refused(&self, fault: AccessFault) {
        self.access_refused[fault as usize].add(1);
    }

    pub fn events_accepted(&self, tenant: TenantId, count: u64) {
        self.events_accepted[tenant_slot(tenant)].add(count);
    }

    pub fn producer_limited(&self, tenant: TenantId) {
        self.producer_limited[tenant_slot(tenant)].add(1);
    }

    /// Everything the API knows, as Prometheus text.
    pub fn write(&self, text: &mut Text, node: Option<&Node>) {
        self.write_routes(text);
        let open = self.begun.get().saturating_sub(self.ended.get());
        text.gauge("fantail_http_requests_open", "Requests being answered now", open);
        text.family("fantail_events_accepted_total", "counter", "Events that are durable, by tenant");
        write_tenants(text, "fantail_events_accepted_total", &self.events_accepted, node);
        let limited = "Requests refused because the tenant or the key asked too fast, by tenant";
        text.family("fantail_producer_limited_total", "counter", limited);
        write_tenants(text, "fantail_producer_limited_total", &self.producer_limited, node);
        write_quotas(text, node);
        text.counter(
            "fantail_events_replayed_total",
            "Repeats answered with the first answer",
            &self.events_replayed,
        );
        text.counter("fantail_inbox_reads_total", "Inbox pages read", &self.inbox_reads);
        self.write_access(text);
        text.family("fantail_problems_total", "counter", "Requests refused, by code");
        for code in Code::ALL {
            text.sample(
                "fantail_problems_total",
                &[("code", code.text())],
                self.problems[*code as usize].get(),
            );
        }
    }

    fn write_access(&self, text: &mut Text) {
        let name = "fantail_access_refused_total";
        text.family(name, "counter", "Requests refused because of who asked, by reason");
        for fault in AccessFault::ALL {
            text.sample(name, &[("reason", fault.name())], self.access_refused[fault as usize].get());
        }
    }

    fn write_routes(&self, text: &mut Text) {
        text.family("fantail_http_requests_total", "counter", "Requests answered, by route and status class");
        for (route, meter) in ROUTES.iter().zip(&self.routes) {
            for (class, counter) in ["1xx", "2xx", "3xx", "4xx", "5xx"].iter().zip(&meter.by_class) {
                let count = counter.get();
                // Alerts compare increases, so what they look at begins with 0.
                if count > 0 || matches!(*class, "2xx" | "4xx" | "5xx") {
                    text.sample(
                        "fantail_http_requests_total",
                        &[("route", route.id), ("status", class)],
                        count,
                    );
                }
            }
        }
        text.family("fantail_http_request_seconds", "histogram", "Time to answer, by route");
        for (route, meter) in ROUTES.iter().zip(&self.routes) {
            if meter.latency.count() > 0 {
                text.histogram("fantail_http_request_seconds", ("route", route.id), &meter.latency);
            }
        }
    }
}

fn by_tenant() -> Vec<Counter> {
    (0..=TENANT_LABELS_MAX).map(|_| Counter::default()).collect()
}

fn write_tenants(text: &mut Text, name: &str, counters: &[Counter], node: Option<&Node>) {
    for (slot, counter) in counters.iter().enumerate() {
        let is_tenant =
            u32::try_from(slot).is_ok_and(|no| node.is_some_and(|node| node.tenant(TenantId(no)).is_some()));
        if is_tenant || counter.get() > 0 {
            text.sample(name, &[("tenant", &label(slot, node))], counter.get());
        }
    }
}

/// Usage and refused requests of the first tenants.
fn write_quotas(text: &mut Text, node: Option<&Node>) {
    let tenants = node.map(Node::tenants).unwrap_or_default();
    let shown = || {
        node.into_iter().flat_map(|node| tenants.iter().take(TENANT_LABELS_MAX).map(move |one| (node, one)))
    };
    text.family("fantail_tenant_usage", "gauge", "What tenants have, by tenant and resource");
    for (node, tenant) in shown() {
        let usage = node.usage(tenant.id);
        for resource in Resource::ALL {
            let labels = [("tenant", tenant.slug.as_str()), ("resource", resource.name())];
            text.sample("fantail_tenant_usage", &labels, usage.of(resource));
        }
    }
    let refused = "Requests refused because the tenant has as much as it may, by tenant and resource";
    text.family("fantail_quota_exceeded_total", "counter", refused);
    for (node, tenant) in shown() {
        let refused = node.over_quota(tenant.id);
        for resource in Resource::ALL {
            let labels = [("tenant", tenant.slug.as_str()), ("resource", resource.name())];
            text.sample("fantail_quota_exceeded_total", &labels, refused.of(resource));
        }
    }
}

fn tenant_slot(tenant: TenantId) -> usize {
    usize::try_from(tenant.0).map_or(TENANT_LABELS_MAX, |no| no.min(TENANT_LABELS_MAX))
}

fn label(slot: usize, node: Option<&Node>) -> String {
    if slot == TENANT_LABELS_MAX {
        return "other".to_owned();
    }
    let tenant = u32::try_from(slot).ok().and_then(|no| node.and_then(|node| node.tenant(TenantId(no))));
    tenant.map_or_else(|| format!("tenant-{slot}"), |tenant| tenant.slug)
}

/// Prometheus text, version 0.0.4.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    pub const MEDIA_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Begins a metric; its samples follow.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            self.0.push_str(label);
            self.0.push_str("=\"");
            self.push_quoted(text);
            self.0.push('"');
        }
        self.0.push_str(if labels.is_empty() { " " } else { "} " });
        self.push(format_args!("{value}"));
        self.0.push('\n');
    }

    /// Hardly any text needs quoting, and a scrape has hundreds of them: nothing is copied on the way.
    fn push_quoted(&mut self, mut text: &str) {
        while let Some(at) = text.find(['\\', '"', '\n']) {
            let (plain, rest) = text.split_at(at);
            self.0.push_str(plain);
            self.0.push_str(match rest.as_bytes()[0] {
                b'\\' => r"\\",
                b'"' => r#"\""#,
                _ => r"\n",
            });
            text = &rest[1..];
        }
        self.0.push_str(text);
    }

    pub fn counter(&mut self, name: &str, help: &str, counter: &Counter) {
        self.family(name, "counter", help);
        self.sample(name, &[], counter.get());
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    pub fn histogram(&mut self, name: &str, label: (&str, &str), histogram: &Histogram) {
        let (mut below, bucket_name) = (0, format!("{name}_bucket"));
        for (at, bucket) in histogram.buckets.iter().enumerate() {
            below += bucket.get();
            let bound = BOUNDS_US.get(at).map_or("+Inf".to_owned(), |us| seconds(*us));
            self.sample(&bucket_name, &[label, ("le", &bound)], below);
        }
        self.sample(&format!("{name}_sum"), &[label], seconds(histogram.sum_us.get()));
        self.sample(&format!("{name}_count"), &[label], below);
    }

    /// Samples of a histogram whose buckets each count only their own range, the last one everything above.
    pub fn buckets(
        &mut self,
        name: &str,
        label: (&str, &str),
        bounds_ms: &[u64],
        buckets: &[u64],
        sum_ms: u64,
    ) {
        let mut below = 0;
        for (at, bucket) in buckets.iter().enumerate() {
            below += bucket;
            let bound = bounds_ms.get(at).map_or("+Inf".to_owned(), |ms| seconds(ms * 1_000));
            self.sample(&format!("{name}_bucket"), &[label, ("le", &bound)], below);
        }
        self.sample(&format!("{name}_sum"), &[label], seconds(sum_ms * 1_000));
        self.sample(&format!("{name}_count"), &[label], below);
    }

    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("writing to a String cannot fail");
    }
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_labels_are_bounded() {
        let telemetry = Telemetry::default();
        for tenant in 0..10_000 {
            telemetry.events_accepted(TenantId(tenant), 1);
        }
        let mut text = Text::default();
        telemetry.write(&mut text, None);
        let text = text.into_string();
        let lines = text.lines().filter(|line| line.starts_with("fantail_events_accepted_total{")).count();
        assert_eq!(lines, TENANT_LABELS_MAX + 1);
        assert!(text.contains("fantail_events_accepted_total{tenant=\"other\"} 9900"));
    }

    #[test]
    fn histograms_are_cumulative() {
        let histogram = Histogram::default();
        for us in [1, 250, 251, 900_000, 60_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let mut text = Text::default();
        text.histogram("h", ("route", "r"), &histogram);
        let text = text.into_string();
        for line in [
            "h_bucket{route=\"r\",le=\"0.000250\"} 2",
            "h_bucket{route=\"r\",le=\"0.000500\"} 3",
            "h_bucket{route=\"r\",le=\"+Inf\"} 5",
            "h_sum{route=\"r\"} 60.900502",
            "h_count{route=\"r\"} 5",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn labels_are_quoted() {
        let mut text = Text::default();
        text.sample("m", &[("a", "x\"y\\z\n")], 1);
        assert_eq!(text.into_string(), "m{a=\"x\\\"y\\\\z\\n\"} 1\n");
    }
}
