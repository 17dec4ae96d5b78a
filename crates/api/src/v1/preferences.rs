//! What a user wants: preferences as a merge patch, and their history.
//!
//! A patch is merged into what is there. `If-Match` names the version that its author has seen; without it the patch is
//! merged again if somebody else was faster.

use crate::body;
use crate::call::Call;
use crate::check::{Faults, text_fault};
use crate::condition::expect_of;
use crate::cursor::{self, Owner};
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::consents;
use crate::v1::edges;
use crate::v1::event_ask::channel_of;
use crate::v1::notifications;
use fantail_node::ask::Refusal;
use fantail_node::ask::templates::Expect;
use fantail_node::respect::{Changed, Prefer, What};
use fantail_rules::caps::{Caps, Limit, Pace};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::gates;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::{
    BURST_MAX, CAP_PER_DAY_MAX, CAP_PER_HOUR_MAX, CATEGORY_BYTES_MAX, CATEGORY_CHOICES_MAX,
    REFILL_SECONDS_MAX, SOURCE_BYTES_MAX,
};
use fantail_rules::preference::{self, CategoryChoice, Quiet, Switch, Switches};
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::wall::{parse_minute, show_minute};
use fantail_rules::zone::ZoneNo;
use fantail_wire::event::Channel;
use fantail_wire::preference::{
    Burst, CategoryFrequency, CategoryPreference, ChangeKind, ChannelPreference, Day, Frequency,
    PreferenceChange, PreferenceHistory, Preferences, QuietHours, UserPreferences,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    show(tenant, &call)
}

pub async fn patch(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (expect, source) = (expect_of(&call.headers)?, source_of(&call)?);
    let patch: Map<String, Value> = call.json()?;
    let user = call.name("user")?;
    let _turn = call.app.merge_turns.take(tenant, "preferences", user).await;
    loop {
        let row = call.node.respect(tenant, user)?;
        check_version(expect, row.revision)?;
        let preferences = merged(&shown(&row.preferences), &patch)?;
        let prefer = Prefer { instead_of: row.revision, source: source.clone(), preferences };
        match call.node.prefer(tenant, user, prefer).await {
            Ok(_) => return show(tenant, &call),
            // A change that takes no turns was faster: one with a condition, or of the hosted page.
            Err(Refusal::RespectConflict { .. }) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
}

pub async fn history(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let user = call.name("user")?;
    let name = format!("preferences of {user}");
    let owner = Owner { tenant, name: &name };
    let below = match edges::place_of(&call, owner)?.map(|place| place.parse::<u32>()) {
        None => u32::MAX,
        Some(Ok(below)) => below,
        Some(Err(_)) => return Err(Refusal::BadCursor.into()),
    };
    let limit = call.list_limit()?;
    let changes = call.node.respect_history(tenant, user, below, limit)?;
    let last = changes.last().filter(|_| changes.len() == limit);
    let next_cursor = last.map(|(revision, _)| cursor::of_names(owner, &revision.to_string()));
    let changes = changes.into_iter().map(|(revision, changed)| change(revision, changed)).collect();
    Ok(Reply::json(200, &PreferenceHistory { changes, next_cursor }))
}

fn show(tenant: TenantId, call: &Call) -> Result<Reply, Problem> {
    let user = call.name("user")?;
    let row = call.node.respect(tenant, user)?;
    let (user_id, version, preferences) = (user.to_owned(), row.revision, shown(&row.preferences));
    Ok(Reply::json(200, &UserPreferences { user_id, version, preferences }).with_version(version))
}

/// Who makes the change: `source`, or the name of the key.
pub fn source_of(call: &Call) -> Result<String, Problem> {
    let Some(source) = call.query.get("source") else { return Ok(call.caller.actor().name().to_owned()) };
    match text_fault(source, SOURCE_BYTES_MAX) {
        None => Ok(source.to_owned()),
        Some(fault) => Err(Problem::field("/source", fault)),
    }
}

/// Nobody has preferences before something was said: that is version 0.
fn check_version(expect: Expect, revision: u32) -> Result<(), Problem> {
    let holds = match expect {
        Expect::Unsaid => true,
        Expect::Present => revision > 0,
        Expect::Absent => revision == 0,
        Expect::Version(version) => version == revision,
    };
    if holds { Ok(()) } else { Err(Refusal::RespectConflict { current: revision }.into()) }
}

pub fn merged(current: &Preferences, patch: &Map<String, Value>) -> Result<preference::Preferences, Problem> {
    let mut document = serde_json::to_value(current).expect("our shapes are JSON");
    merge(&mut document, &Value::Object(patch.clone()));
    let wanted: Preferences = body::from_document(document)?;
    let mut faults = Faults::default();
    let preferences = read(&wanted, &mut faults);
    faults.into_result()?;
    Ok(preferences)
}

/// RFC 7396. The depth of a body is limited where it is read.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

fn read(wanted: &Preferences, faults: &mut Faults) -> preference::Preferences {
    let root = Pointer::ROOT;
    let mut channels = Switches::default();
    let mut limits = BTreeMap::new();
    for (channel, ChannelPreference { enabled, frequency }) in &wanted.channels {
        let kind = channel_of(*channel);
        let (all, kind_name) = (root.key("channels"), kind.name());
        let at = all.key(kind_name);
        if kind == ChannelKind::InApp && frequency.is_some() {
            faults.add(at.key("frequency"), "the inbox interrupts nobody: there is nothing to limit");
        }
        channels = channels.with(kind, Switch::of(*enabled));
        let limit = frequency.as_ref().map(|frequency| read_limit(frequency, at.key("frequency"), faults));
        limits.extend(limit.filter(|limit| !limit.is_none()).map(|limit| (kind, limit)));
    }
    let at = root.key("categories");
    if wanted.categories.len() > CATEGORY_CHOICES_MAX {
        faults.add(at, format!("must have at most {CATEGORY_CHOICES_MAX} categories"));
    }
    let mut categories = BTreeMap::new();
    for (name, CategoryPreference { enabled, channels, frequency }) in &wanted.categories {
        faults.text(at.key(name), name, CATEGORY_BYTES_MAX);
        let channels = channels.as_ref().map(|list| list.iter().map(|one| channel_of(*one)).collect());
        let frequency = frequency.map(frequency_of);
        categories.insert(name.clone(), CategoryChoice { switch: Switch::of(*enabled), channels, frequency });
    }
    preference::Preferences {
        everything: Switch::of(wanted.global_enabled),
        quiet: wanted.quiet_hours.as_ref().and_then(|quiet| read_quiet(quiet, faults)),
        channels,
        limits,
        categories,
    }
}

fn frequency_of(frequency: CategoryFrequency) -> gates::Frequency {
    match frequency {
        CategoryFrequency::Immediate => gates::Frequency::Immediate,
        CategoryFrequency::DailyDigest => gates::Frequency::Daily,
        CategoryFrequency::WeeklyDigest => gates::Frequency::Weekly,
    }
}

fn shown_frequency(frequency: gates::Frequency) -> CategoryFrequency {
    match frequency {
        gates::Frequency::Immediate => CategoryFrequency::Immediate,
        gates::Frequency::Daily => CategoryFrequency::DailyDigest,
        gates::Frequency::Weekly => CategoryFrequency::WeeklyDigest,
    }
}

fn read_limit(frequency: &Frequency, at: Pointer<'_>, faults: &mut Faults) -> Limit {
    let Frequency { max_per_hour, max_per_day, burst } = frequency;
    let mut within = |number: u32, max: u32, at: Pointer<'_>| {
        if !(1..=max).contains(&number) {
            faults.add(at, format!("must be 1 to {max}"));
        }
    };
    for (said, max, name) in
        [(max_per_hour, CAP_PER_HOUR_MAX, "maxPerHour"), (max_per_day, CAP_PER_DAY_MAX, "maxPerDay")]
    {
        said.iter().for_each(|said| within((*said).into(), max.into(), at.key(name)));
    }
    let pace = burst.map(|Burst { size, refill_seconds }| {
        let at = at.key("burst");
        within(size.into(), BURST_MAX.into(), at.key("size"));
        within(refill_seconds, REFILL_SECONDS_MAX, at.key("refillSeconds"));
        Pace { burst: size, refill_seconds }
    });
    let caps = Caps { per_hour: max_per_hour.unwrap_or(0), per_day: max_per_day.unwrap_or(0) };
    Limit { caps, pace }
}

fn read_quiet(quiet: &QuietHours, faults: &mut Faults) -> Option<Quiet> {
    let root = Pointer::ROOT;
    let at = root.key("quietHours");
    let mut minute = |field: &str, text: &str| {
        let minute = parse_minute(text);
        if minute.is_none() {
            faults.add(at.key(field), "must be a time like 22:00");
        }
        minute
    };
    let (start, end) = (minute("start", &quiet.start), minute("end", &quiet.end));
    let bits = quiet
        .days
        .as_deref()
        .map_or(Days::ALL.bits(), |days| days.iter().fold(0, |bits, day| bits | 1 << *day as u8));
    let days = Days::from_bits(bits);
    if days.is_none() {
        faults.add(at.key("days"), "must name a day; without it every day counts");
    }
    let zone = quiet.timezone.as_deref().map_or(Some(ZoneNo::NONE), ZoneNo::find);
    if zone.is_none() {
        faults.add(at.key("timezone"), "must be the name of a time zone like Europe/Vienna");
    }
    let times = Times { start_minute: start?, end_minute: end? };
    Some(Quiet { is_enabled: quiet.enabled, window: Window::new(times, days?)?, zone: zone? })
}

pub fn shown(preferences: &preference::Preferences) -> Preferences {
    let kinds = Channel::ALL.iter().map(|channel| (*channel, preferences.channels.of(channel_of(*channel))));
    let channels = kinds.filter_map(|(channel, switch)| {
        let frequency = preferences.limits.get(&channel_of(channel)).map(shown_limit);
        let said = ChannelPreference { enabled: switch.said(), frequency };
        (said.enabled.is_some() || said.frequency.is_some()).then_some((channel, said))
    });
    let categories = preferences.categories.iter().map(|(name, choice)| {
        let chosen = |set: fantail_rules::channel_kind::ChannelSet| {
            Channel::ALL.iter().copied().filter(|channel| set.contains(channel_of(*channel))).collect()
        };
        let channels = choice.channels.map(chosen);
        let frequency = choice.frequency.map(shown_frequency);
        (name.clone(), CategoryPreference { enabled: choice.switch.said(), channels, frequency })
    });
    Preferences {
        global_enabled: preferences.everything.said(),
        quiet_hours: preferences.quiet.as_ref().map(shown_quiet),
        channels: channels.collect(),
        categories: categories.collect(),
    }
}

fn shown_limit(limit: &Limit) -> Frequency {
    let said = |cap: u16| (cap > 0).then_some(cap);
    Frequency {
        max_per_hour: said(limit.caps.per_hour),
        max_per_day: said(limit.caps.per_day),
        burst: limit.pace.map(|pace| Burst { size: pace.burst, refill_seconds: pace.refill_seconds }),
    }
}

fn shown_quiet(quiet: &Quiet) -> QuietHours {
    let (times, days) = (quiet.window.times(), quiet.window.days());
    let named = (0u8..).zip(Day::ALL).filter(|(no, _)| days.contains(*no)).map(|(_, day)| day);
    QuietHours {
        enabled: quiet.is_enabled,
        start: show_minute(times.start_minute),
        end: show_minute(times.end_minute),
        timezone: quiet.zone.name().map(str::to_owned),
        days: (days != Days::ALL).then(|| named.collect()),
    }
}

pub fn change(version: u32, changed: Changed) -> PreferenceChange {
    let nothing = PreferenceChange {
        version,
        at: time::text(changed.at),
        kind: ChangeKind::Update,
        source: String::new(),
        old_preferences: None,
        new_preferences: None,
        channel: None,
        old_consent: None,
        new_consent: None,
    };
    match changed.what {
        What::Preferences { kind, source, before, after } => PreferenceChange {
            kind: match kind {
                preference::ChangeKind::OptIn => ChangeKind::OptIn,
                preference::ChangeKind::OptOut => ChangeKind::OptOut,
                preference::ChangeKind::Update => ChangeKind::Update,
            },
            source,
            old_preferences: Some(shown(&before)),
            new_preferences: Some(shown(&after)),
            ..nothing
        },
        What::Consent { channel, before, after } => PreferenceChange {
            kind: if after.is_granted { ChangeKind::OptIn } else { ChangeKind::OptOut },
            source: after.source.clone(),
            channel: Some(notifications::shown(channel)),
            old_consent: before.map(consents::shown),
            new_consent: Some(consents::shown(after)),
            ..nothing
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(current: Value, patch: Value, expected: Result<Value, &[&str]>) {
        let current: Preferences = serde_json::from_value(current).expect("the shape fits");
        let patch = patch.as_object().cloned().expect("an object");
        match (merged(&current, &patch), expected) {
            (Ok(merged), Ok(expected)) => {
                assert_eq!(serde_json::to_value(shown(&merged)).expect("JSON"), expected);
            }
            (Err(problem), Err(pointers)) => {
                let found: Vec<&str> = problem.errors.iter().map(|error| error.pointer.as_str()).collect();
                assert_eq!(found, pointers, "{patch:?}");
            }
            (found, expected) => panic!("{patch:?}: {:?} but {expected:?}", found.map(|found| shown(&found))),
        }
    }

    // proves: PRF-01, PRF-06, QH-06
    #[test]
    fn patches_are_merged_and_checked_as_a_whole() {
        let full = || {
            json!({
                "globalEnabled": true,
                "quietHours": {"enabled": true, "start": "22:00", "end": "07:00", "timezone": "Europe/Vienna",
                    "days": ["mon", "sun"]},
                "channels": {"push": {"enabled": false}, "email": {"enabled": true},
                    "sms": {"frequency": {"maxPerHour": 2, "maxPerDay": 9, "burst": {"size": 3, "refillSeconds": 60}}}},
                "categories": {"likes": {"enabled": false}, "news": {"channels": ["inApp", "email"], "frequency": "weekly_digest"}},
            })
        };
        check(json!({}), json!({}), Ok(json!({})));
        check(json!({}), full(), Ok(full()));
        check(
            full(),
            json!({"quietHours": null, "channels": null, "categories": null, "globalEnabled": null}),
            Ok(json!({})),
        );
        let quiet = |change: Value| json!({"quietHours": change});
        let night = json!({"enabled": true, "start": "22:00", "end": "07:00"});
        check(
            quiet(night.clone()),
            quiet(json!({"enabled": false})),
            Ok(quiet(json!({"enabled": false, "start": "22:00", "end": "07:00"}))),
        );
        check(
            full(),
            json!({"channels": {"push": null}, "categories": {"likes": null}}),
            Ok({
                let mut left = full();
                left["channels"] = json!({"email": {"enabled": true}, "sms": full()["channels"]["sms"]});
                left["categories"] =
                    json!({"news": {"channels": ["inApp", "email"], "frequency": "weekly_digest"}});
                left
            }),
        );
        check(
            json!({}),
            quiet(
                json!({"enabled": true, "start": "24:00", "end": "7:00", "timezone": "Mars/Base", "days": []}),
            ),
            Err(&["/quietHours/start", "/quietHours/end", "/quietHours/days", "/quietHours/timezone"]),
        );
        check(json!({}), json!({"categories": {"": {"enabled": false}}}), Err(&["/categories/"]));
        let limit = |frequency: Value| json!({"channels": {"sms": {"frequency": frequency}}});
        check(limit(json!({"maxPerHour": 2})), limit(json!({"maxPerHour": null})), Ok(json!({})));
        check(
            json!({}),
            limit(json!({"maxPerHour": 0, "maxPerDay": 10_001, "burst": {"size": 0, "refillSeconds": 0}})),
            Err(&[
                "/channels/sms/frequency/maxPerHour",
                "/channels/sms/frequency/maxPerDay",
                "/channels/sms/frequency/burst/size",
                "/channels/sms/frequency/burst/refillSeconds",
            ]),
        );
        for (strange, pointer) in [
            (json!({"unknown": 1}), "/unknown"),
            (json!({"channels": {"fax": {"enabled": true}}}), "/channels/fax"),
            (json!({"channels": {"push": {"enabled": "no"}}}), "/channels/push/enabled"),
            (json!({"channels": {"push": {"frequency": {"a": 1}}}}), "/channels/push/frequency/a"),
            (quiet(json!({"enabled": true})), "/quietHours/start"),
        ] {
            check(json!({}), strange, Err(&[pointer]));
        }
        let many: Map<String, Value> =
            (0..65).map(|no| (format!("c{no}"), json!({"enabled": true}))).collect();
        check(json!({}), json!({"categories": many}), Err(&["/categories"]));
    }
    // proves: INB-14
    #[test]
    fn the_inbox_has_a_switch_and_no_limit() {
        let inbox = json!({"channels": {"inApp": {"enabled": false}}});
        check(json!({}), inbox.clone(), Ok(inbox));
        let limited = json!({"channels": {"inApp": {"frequency": {"maxPerHour": 1}}}});
        check(json!({}), limited, Err(&["/channels/inApp/frequency"]));
    }
}
