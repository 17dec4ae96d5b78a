//! What a tenant says about its categories.
//!
//! A policy replaces the one that its author has seen: `If-Match` names it, and whoever is late hears which one is in force
//! now. Everything that can be wrong with a policy is found here; behind this it is a value.

use crate::auth;
use crate::call::Call;
use crate::check::Faults;
use crate::condition::expect_of;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::event_ask::{channel_of, priority_of};
use crate::v1::{inbox, notifications};
use fantail_node::named::Named;
use fantail_node::policies::CategoryRow;
use fantail_rules::channel_kind::{ChannelKind, ChannelSet};
use fantail_rules::digest::{Calendar, StormTerms, Terms, TermsFault};
use fantail_rules::gates;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::{
    CATEGORY_BYTES_MAX, DIGEST_ITEMS_MAX, DIGEST_WINDOW_SECONDS_MAX, FALLBACK_SECONDS_MAX,
    FALLBACK_STEPS_MAX, STORM_SECONDS_MAX, THROTTLE_SECONDS_MAX,
};
use fantail_rules::policy::{self, CalendarTimes, Condition, Digest, KeyTemplate, Step, Throttle};
use fantail_rules::quiet::Days;
use fantail_rules::wall::{parse_minute, show_minute};
use fantail_wire::category::{
    CalendarPolicy, Categories, Category, CategoryPolicy, DigestPolicy, FallbackStep, FallbackWhen, Overflow,
    StormPolicy, ThrottlePolicy, WeeklyTime,
};
use fantail_wire::event::Channel;
use fantail_wire::preference::Day;

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let categories = call.node.categories(tenant)?;
    let categories = categories.iter().map(|(name, row)| category(name, row)).collect();
    Ok(Reply::json(200, &Categories { categories }))
}

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let name = call.name("category")?;
    Ok(reply(200, name, &call.node.category(tenant, name)?))
}

pub async fn put(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (name, expect) = (call.new_name(tenant, "category", Named::Category)?, expect_of(&call.headers)?);
    let wanted: CategoryPolicy = call.json()?;
    let mut faults = Faults::default();
    faults.text(Pointer::ROOT.key("category"), name, CATEGORY_BYTES_MAX);
    let policy = read(&wanted, &mut faults);
    faults.into_result()?;
    if let Some(priority) = policy.priority {
        // Whatever is sent in the category has it from now on, also what others send.
        auth::require_priority(&call.caller, priority)?;
    }
    let (row, created) = call.node.put_category(tenant, name, expect, policy).await?;
    Ok(reply(if created { 201 } else { 200 }, name, &row))
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let expect = expect_of(&call.headers)?;
    call.node.delete_category(tenant, call.name("category")?, expect).await?;
    Ok(Reply::no_content())
}

fn reply(status: u16, name: &str, row: &CategoryRow) -> Reply {
    Reply::json(status, &category(name, row)).with_version(row.version)
}

fn category(name: &str, row: &CategoryRow) -> Category {
    let CategoryRow { version, updated, policy } = row;
    Category {
        name: name.to_owned(),
        version: *version,
        updated_at: time::text(*updated),
        policy: shown(policy),
    }
}

fn read(wanted: &CategoryPolicy, faults: &mut Faults) -> policy::CategoryPolicy {
    let root = Pointer::ROOT;
    let set = |channels: &[Channel]| channels.iter().map(|channel| channel_of(*channel)).collect();
    let (mandatory, blocked): (ChannelSet, ChannelSet) =
        (set(&wanted.mandatory_channels), set(&wanted.blocked_channels));
    if mandatory.iter().any(|kind| blocked.contains(kind)) {
        faults.add(root.key("blockedChannels"), "must not have a channel that is mandatory");
    }
    if blocked.contains(ChannelKind::InApp) {
        faults.add(root.key("blockedChannels"), "must not have inApp: what was accepted can be looked at");
    }
    policy::CategoryPolicy {
        mandatory,
        blocked,
        overflow: match wanted.overflow {
            Overflow::Drop => gates::Overflow::Drop,
            Overflow::Digest => gates::Overflow::Fold,
        },
        priority: wanted.priority.map(priority_of),
        digest: wanted.digest.as_ref().and_then(|digest| read_digest(digest, root.key("digest"), faults)),
        storm: read_storm(wanted.storm.as_ref(), root.key("storm"), faults),
        calendar: read_calendar(wanted.calendar.as_ref(), root.key("calendar"), faults),
        throttle: wanted.throttle.as_ref().map(|throttle| {
            let at = root.key("throttle");
            within(throttle.per_seconds, THROTTLE_SECONDS_MAX, at.key("perSeconds"), faults);
            let key = read_key(throttle.key.as_deref(), at.key("key"), faults);
            Throttle { per_seconds: throttle.per_seconds, key }
        }),
        fallback: read_fallback(&wanted.fallback, root.key("fallback"), faults),
    }
}

fn read_digest(digest: &DigestPolicy, at: Pointer<'_>, faults: &mut Faults) -> Option<Digest> {
    let usual = Terms::USUAL;
    let max_count = digest.max_count.unwrap_or(usual.max_count);
    let terms = Terms {
        window_seconds: digest.window_seconds,
        min_count: digest.min_count.unwrap_or(usual.min_count.min(max_count)),
        max_count,
        leading: digest.leading.unwrap_or(usual.leading),
    };
    let collapse_key = read_key(digest.collapse_key.as_deref(), at.key("collapseKey"), faults);
    match terms.fault() {
        None => return Some(Digest { terms, collapse_key }),
        Some(TermsFault::WindowSeconds) => {
            within(digest.window_seconds, DIGEST_WINDOW_SECONDS_MAX, at.key("windowSeconds"), faults);
        }
        Some(TermsFault::MaxCount) => within(max_count, DIGEST_ITEMS_MAX, at.key("maxCount"), faults),
        Some(TermsFault::MinCount) => within(terms.min_count, max_count, at.key("minCount"), faults),
        Some(TermsFault::Leading) => {
            faults.add(at.key("leading"), format!("must be at most {DIGEST_ITEMS_MAX}"));
        }
    }
    None
}

fn read_storm(storm: Option<&StormPolicy>, at: Pointer<'_>, faults: &mut Faults) -> Option<StormTerms> {
    let Some(StormPolicy { window_seconds, threshold }) = storm else { return Some(StormTerms::USUAL) };
    within(*window_seconds, STORM_SECONDS_MAX, at.key("windowSeconds"), faults);
    (*threshold > 0).then_some(StormTerms { window_seconds: *window_seconds, threshold: *threshold })
}

fn read_calendar(calendar: Option<&CalendarPolicy>, at: Pointer<'_>, faults: &mut Faults) -> CalendarTimes {
    let mut times = CalendarTimes::default();
    let Some(CalendarPolicy { daily, weekly }) = calendar else { return times };
    let mut read = |text: &str, days: Days, at: Pointer<'_>| {
        let found = parse_minute(text).and_then(|minute| Calendar::new(minute, days));
        if found.is_none() {
            faults.add(at, "must be a time like 08:00");
        }
        found
    };
    if let Some(found) = daily.as_deref().and_then(|daily| read(daily, Days::ALL, at.key("daily"))) {
        times.daily = found;
    }
    if let Some(WeeklyTime { day, time }) = weekly {
        let days = Days::from_bits(1 << *day as u8).expect("one bit of seven");
        times.weekly = read(time, days, at.key("weekly").key("time")).unwrap_or(times.weekly);
    }
    times
}

/// A channel once; without a wait only where nothing is waited for.
fn read_fallback(steps: &[FallbackStep], at: Pointer<'_>, faults: &mut Faults) -> Vec<Step> {
    if steps.len() > FALLBACK_STEPS_MAX {
        faults.add(at, format!("must have at most {FALLBACK_STEPS_MAX} steps"));
        return Vec::new();
    }
    let mut chain: Vec<Step> = Vec::new();
    for (index, FallbackStep { channel, when, after_seconds }) in steps.iter().enumerate() {
        let (at, channel) = (at.index(index), channel_of(*channel));
        if channel == ChannelKind::InApp {
            faults.add(at.key("channel"), "the inbox has it from the beginning");
        }
        if chain.iter().any(|step| step.channel == channel) {
            faults.add(at.key("channel"), "is in the chain already");
        }
        let when = condition_of(*when);
        match (when, after_seconds) {
            (Condition::Failed, None) => {}
            (Condition::Failed, Some(_)) => {
                faults.add(at.key("afterSeconds"), "must be left out: what failed is not waited for");
            }
            (Condition::NoReceipt | Condition::NotSeen, seconds) => {
                within(seconds.unwrap_or(0), FALLBACK_SECONDS_MAX, at.key("afterSeconds"), faults);
            }
        }
        chain.push(Step { channel, when, after_seconds: after_seconds.unwrap_or(0) });
    }
    chain
}

fn read_key(key: Option<&str>, at: Pointer<'_>, faults: &mut Faults) -> Option<KeyTemplate> {
    match KeyTemplate::parse(key?) {
        Ok(key) => Some(key),
        Err(fault) => {
            faults.add(at, fault.text());
            None
        }
    }
}

fn within<N: Into<u64> + Copy>(number: N, max: N, at: Pointer<'_>, faults: &mut Faults) {
    let (number, max): (u64, u64) = (number.into(), max.into());
    if !(1..=max).contains(&number) {
        faults.add(at, format!("must be 1 to {max}"));
    }
}

fn condition_of(when: FallbackWhen) -> Condition {
    match when {
        FallbackWhen::NoReceipt => Condition::NoReceipt,
        FallbackWhen::NotSeen => Condition::NotSeen,
        FallbackWhen::Failed => Condition::Failed,
    }
}

fn shown(policy: &policy::CategoryPolicy) -> CategoryPolicy {
    let channels = |set: ChannelSet| set.iter().map(notifications::shown).collect();
    let key = |key: &Option<KeyTemplate>| key.as_ref().map(|key| key.text().to_owned());
    let usual = CalendarTimes::default();
    let calendar = &policy.calendar;
    CategoryPolicy {
        mandatory_channels: channels(policy.mandatory),
        blocked_channels: channels(policy.blocked),
        overflow: match policy.overflow {
            gates::Overflow::Drop => Overflow::Drop,
            gates::Overflow::Fold => Overflow::Digest,
        },
        priority: policy.priority.map(inbox::priority_of),
        digest: policy.digest.as_ref().map(|Digest { terms, collapse_key }| DigestPolicy {
            window_seconds: terms.window_seconds,
            min_count: Some(terms.min_count),
            max_count: Some(terms.max_count),
            leading: Some(terms.leading),
            collapse_key: key(collapse_key),
        }),
        storm: shown_storm(policy.storm),
        calendar: (*calendar != usual).then(|| shown_calendar(calendar)),
        throttle: policy
            .throttle
            .as_ref()
            .map(|throttle| ThrottlePolicy { per_seconds: throttle.per_seconds, key: key(&throttle.key) }),
        fallback: policy.fallback.iter().map(shown_step).collect(),
    }
}

fn shown_storm(storm: Option<StormTerms>) -> Option<StormPolicy> {
    match storm {
        Some(StormTerms::USUAL) => None,
        Some(StormTerms { window_seconds, threshold }) => Some(StormPolicy { window_seconds, threshold }),
        None => Some(StormPolicy { window_seconds: StormTerms::USUAL.window_seconds, threshold: 0 }),
    }
}

fn shown_calendar(calendar: &CalendarTimes) -> CalendarPolicy {
    let CalendarTimes { daily, weekly } = calendar;
    let day = (0u8..).zip(Day::ALL).find(|(no, _)| weekly.days().contains(*no)).map(|(_, day)| day);
    CalendarPolicy {
        daily: Some(show_minute(daily.minute())),
        weekly: day.map(|day| WeeklyTime { day, time: show_minute(weekly.minute()) }),
    }
}

fn shown_step(step: &Step) -> FallbackStep {
    let when = match step.when {
        Condition::NoReceipt => FallbackWhen::NoReceipt,
        Condition::NotSeen => FallbackWhen::NotSeen,
        Condition::Failed => FallbackWhen::Failed,
    };
    let after_seconds = (step.when != Condition::Failed).then_some(step.after_seconds);
    FallbackStep { channel: notifications::shown(step.channel), when, after_seconds }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(policy: Value, expected: Result<Value, &[&str]>) {
        let wanted: CategoryPolicy = serde_json::from_value(policy.clone()).expect("the shape fits");
        let mut faults = Faults::default();
        let read = read(&wanted, &mut faults);
        match (faults.into_result(), expected) {
            (Ok(()), Ok(expected)) => {
                assert_eq!(serde_json::to_value(shown(&read)).expect("JSON"), expected);
            }
            (Err(problem), Err(pointers)) => {
                let found: Vec<&str> = problem.errors.iter().map(|error| error.pointer.as_str()).collect();
                assert_eq!(found, pointers, "{policy}");
            }
            (found, expected) => panic!("{policy}: {found:?} but {expected:?}"),
        }
    }

    // proves: AGG-02, DEL-17
    #[test]
    fn policies_are_checked_as_a_whole() {
        check(json!({}), Ok(json!({"overflow": "drop"})));
        let full = json!({
            "mandatoryChannels": ["email"], "blockedChannels": ["sms", "webhook"], "overflow": "digest",
            "priority": "low",
            "digest": {"windowSeconds": 60, "minCount": 2, "maxCount": 9, "leading": 0, "collapseKey": "{{ type }}"},
            "storm": {"windowSeconds": 60, "threshold": 0},
            "calendar": {"daily": "07:30", "weekly": {"day": "sun", "time": "18:00"}},
            "throttle": {"perSeconds": 30, "key": "{{ actor }}"},
            "fallback": [
                {"channel": "push", "when": "failed"},
                {"channel": "sms", "when": "notSeen", "afterSeconds": 600},
            ],
        });
        check(full.clone(), Ok(full));
        check(
            json!({"digest": {"windowSeconds": 60}}),
            Ok(json!({"overflow": "drop",
                "digest": {"windowSeconds": 60, "minCount": 2, "maxCount": 1_000, "leading": 1}})),
        );
        check(json!({"mandatoryChannels": ["sms"], "blockedChannels": ["sms"]}), Err(&["/blockedChannels"]));
        check(json!({"digest": {"windowSeconds": 0}}), Err(&["/digest/windowSeconds"]));
        check(
            json!({"digest": {"windowSeconds": 9, "minCount": 4, "maxCount": 3}}),
            Err(&["/digest/minCount"]),
        );
        check(
            json!({"digest": {"windowSeconds": 9, "maxCount": 1_001, "collapseKey": "{{"}}),
            Err(&["/digest/collapseKey", "/digest/maxCount"]),
        );
        check(
            json!({"storm": {"windowSeconds": 0, "threshold": 1}, "throttle": {"perSeconds": 604_801}}),
            Err(&["/storm/windowSeconds", "/throttle/perSeconds"]),
        );
        check(
            json!({"calendar": {"daily": "8", "weekly": {"day": "mon", "time": "25:00"}}}),
            Err(&["/calendar/daily", "/calendar/weekly/time"]),
        );
        check(
            json!({"fallback": [
                {"channel": "inApp", "when": "failed"},
                {"channel": "sms", "when": "failed", "afterSeconds": 3},
                {"channel": "sms", "when": "noReceipt"},
            ]}),
            Err(&[
                "/fallback/0/channel",
                "/fallback/1/afterSeconds",
                "/fallback/2/channel",
                "/fallback/2/afterSeconds",
            ]),
        );
        let five: Vec<Value> = (0..5).map(|_| json!({"channel": "sms", "when": "failed"})).collect();
        check(json!({"fallback": five}), Err(&["/fallback"]));
    }
}
